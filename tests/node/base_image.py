"""On which base do the tests' images stand? A Debian by debootstrap: no registry is asked."""

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import IO

from node.buildah import Buildah, run

SUITE = "bookworm"
PACKAGES = ("python3", "python3-venv", "ca-certificates")
# What a package manager keeps and nobody reads, and what is this machine's own.
_LEFT_OUT = (
    "etc/hostname",
    "etc/resolv.conf",
    "usr/share/doc/*",
    "usr/share/locale/*",
    "usr/share/man/*",
    "var/cache/apt/archives/*.deb",
    "var/cache/apt/*.bin",
    "var/lib/apt/lists/*",
    "var/log/*.log",
)
_DOCKERFILE = """\
FROM scratch
COPY root /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
CMD ["python3"]
"""


def base_image(buildah: Buildah, out: IO[str]) -> str:
    """Its name in the store; made now unless it is there. Raises ImageError."""
    recipe = repr((SUITE, PACKAGES, _LEFT_OUT, _DOCKERFILE))
    key = hashlib.sha256(recipe.encode()).hexdigest()[:12]
    name = f"localhost/splitpool/base:{key}"
    if not buildah.has(name):
        with tempfile.TemporaryDirectory(dir=buildah.folder) as scratch:
            _make(buildah, name, Path(scratch), out)
    return name


def _make(buildah: Buildah, name: str, context: Path, out: IO[str]) -> None:
    root = context / "root"
    wanted = f"--include={','.join(PACKAGES)}"
    command = ["debootstrap", "--variant=minbase", wanted, SUITE, str(root)]
    run(command, f"Installing Debian {SUITE} for the tests' images, once for this machine", out)
    for pattern in _LEFT_OUT:
        for path in root.glob(pattern):
            is_folder = path.is_dir() and not path.is_symlink()
            shutil.rmtree(path) if is_folder else path.unlink()
    (context / "Dockerfile").write_text(_DOCKERFILE)
    buildah.build(context, name, out=out)
