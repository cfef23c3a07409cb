"""Which programs of the distribution does a real node need, and how do they get onto the machine?

On Debian as root they are installed when one is missing; elsewhere the error says what to install.
To install them without a test: `PYTHONPATH=tests python -m node.packages`.
"""

import os
import shutil
import subprocess
import sys
from typing import IO

# A program each that shows whether the package is there. The node runs with the first seven, the
# project's images are built with the rest.
_PACKAGES = {
    "runc": "runc",
    "nftables": "nft",
    "iproute2": "ip",
    "util-linux": "nsenter",
    "mount": "mount",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    # By the commands of the docs.
    "curl": "curl",
}
_PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


class PackagesError(Exception):
    """Packages are missing and cannot be installed; the text says what to do."""


def hindrance() -> str | None:
    """Why no real node can run on this machine, whatever is installed on it."""
    if sys.platform != "linux":
        return f"a real node needs Linux, this is {sys.platform}"
    if os.geteuid() != 0:
        return "a real node needs root, for namespaces, mounts and cgroups: run it as root"
    return None


def missing() -> list[str]:
    """The packages that are not there."""
    return [
        package
        for package, program in _PACKAGES.items()
        if shutil.which(program, path=_PLACES) is None
    ]


def install(out: IO[str] = sys.stderr) -> None:
    """Install what is missing. Raises PackagesError."""
    wanted = missing()
    if not wanted:
        return
    if shutil.which("apt-get") is None:
        raise PackagesError(f"install what your distribution calls {', '.join(wanted)}")
    print(f"Installing {', '.join(wanted)} ...", file=out, flush=True)
    _apt_get("update")
    _apt_get("install", "--yes", "--no-install-recommends", *wanted)


def _apt_get(*args: str) -> None:
    settings = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "-qq", *args]
    ended = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise PackagesError(f"{' '.join(command)} failed:\n{ended.stdout}{ended.stderr}")


if __name__ == "__main__":
    if hindrance() is not None:
        sys.exit(hindrance())
    install()
