"""How do the project's images come into a cluster's registry? Built from the Dockerfile, pushed.

What did not change since the last time is neither built nor pushed again. To build them without a
test: `PYTHONPATH=tests python -m node.images`.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from node.base_image import base_image
from node.buildah import Buildah, ImageError, opened

TARGETS = ("operator", "router", "worker")
CHECKOUT = Path(__file__).parents[2]
# Where the Dockerfile's stages have them.
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_UV_CACHE = "/var/cache/uv"


def build_and_push(
    registry: str,
    run_inside: Callable[..., subprocess.CompletedProcess[str]],
    out: IO[str] = sys.stderr,
) -> Mapping[str, str]:
    """A reference by digest of each target; `run_inside` runs a command where the registry is.

    Raises ImageError.
    """
    with opened(out) as buildah:
        names = build(buildah, out)
        return {
            target: push(buildah, name, f"{registry}/splitpool/{target}", run_inside, out)
            for target, name in names.items()
        }


def build(
    buildah: Buildah,
    out: IO[str],
    *,
    context: Path = CHECKOUT,
    tag: str = "latest",
    targets: Sequence[str] = TARGETS,
) -> Mapping[str, str]:
    """The name in the store of each target. Raises ImageError."""
    names = {target: f"localhost/splitpool/{target}:{tag}" for target in targets}
    settings = _settings(base_image(buildah, out))
    for target, name in names.items():
        buildah.build(context, name, "--target", target, *settings, out=out)
    return names


def push(
    buildah: Buildah,
    name: str,
    to: str,
    run_inside: Callable[..., subprocess.CompletedProcess[str]],
    out: IO[str],
) -> str:
    """The reference by digest under which the registry has it. Raises ImageError."""
    print(f"Pushing {to} ...", file=out, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        digest = Path(folder) / "digest"
        settings = ("--disable-compression", "--tls-verify=false", "--digestfile", str(digest))
        pushed = run_inside(buildah.command("push", *settings, name, f"docker://{to}"))
        if pushed.returncode:
            raise ImageError(f"pushing {to} failed:\n{pushed.stderr}")
        return f"{to}@{digest.read_text().strip()}"


def _settings(base: str) -> tuple[str, ...]:
    """The machine's downloads and certificates are used and not copied into a layer."""
    cache = _uv_cache()
    cache.mkdir(parents=True, exist_ok=True)
    mounts = [f"--volume={cache}:{_UV_CACHE}"]
    if _CERTIFICATES.exists():
        mounts.append(f"--volume={_CERTIFICATES}:{_CERTIFICATES}:ro")
    arguments = (f"--build-arg=BASE={base}", f"--build-arg=MODEL_PACKAGE={_model_package()}")
    # Times of files are not those of the build, so the same files are the same layer.
    return (*mounts, *arguments, "--timestamp=0")


def _uv_cache() -> Path:
    own = os.environ.get("UV_CACHE_DIR")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(own) if own else caches / "uv"


def _model_package() -> str:
    """The one that the examples' model comes in."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    (package,) = project["optional-dependencies"]["examples"]
    return str(package)


if __name__ == "__main__":
    with opened(sys.stderr) as store:
        print(*build(store, sys.stderr).values(), sep="\n")
