"""Which layers of images does the registry keep between runs? Those used last, up to a limit."""

from pathlib import Path

from cluster.go_build import cache_folder

# Three builds of the worker's image with other libraries.
_LIMIT_BYTES = 20 * 10**9


def blobs_folder() -> Path:
    """The registry's folder, shared by runs: it names each file by its content."""
    folder = cache_folder() / "node" / "registry"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def trim(folder: Path, limit_bytes: int = _LIMIT_BYTES) -> None:
    """Remove what was used longest ago, unfinished uploads too, until the rest is in the limit."""
    kept = 0
    for file in sorted(filter(Path.is_file, folder.rglob("*")), key=_last_used, reverse=True):
        kept += file.stat().st_size
        if kept > limit_bytes:
            file.unlink()


def _last_used(file: Path) -> float:
    # A file system may tell the time of reading by the day only.
    stat = file.stat()
    return max(stat.st_atime, stat.st_mtime)
