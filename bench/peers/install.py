"""Install the peers that are compared, or those that are named, outside the checkout.

Gigabytes are downloaded and llama.cpp is compiled; what is there already is left as it is.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

from peers.place import Place, cache
from peers.recipes import Step, recipes

_LAST_LINES = 15


class CannotInstall(Exception):
    """A step failed; the message ends with what it printed."""


def install(steps: Sequence[Step]) -> None:
    """All that are not done yet. Raises CannotInstall."""
    for step in steps:
        if not step.done:
            began = time.monotonic()
            print(f"{step.title} ...", flush=True)
            step.makes.parent.mkdir(parents=True, exist_ok=True)
            _act(step)
            print(f"  done in {time.monotonic() - began:.0f} s", flush=True)


def main() -> int:
    """Every peer, each by itself; 1 where one could not be installed."""
    place = Place(root=cache())
    known = recipes(place)
    parser = argparse.ArgumentParser(
        prog="python -m peers.install",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "peers", nargs="*", choices=[[], *known], metavar="PEER", help=str([*known])
    )
    failed = False
    for name in parser.parse_args().peers or known:
        try:
            install(known[name])
        except (CannotInstall, OSError) as error:
            print(f"! {name} is left out: {error}", file=sys.stderr)
            failed = True
        else:
            print(f"{name}: installed in {place.root}")
    return 1 if failed else 0


def _act(step: Step) -> None:
    if callable(step.act):
        step.act()
        return
    ran = subprocess.run(
        step.act, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if ran.returncode or not step.done:
        said = (ran.stdout + ran.stderr).splitlines()[-_LAST_LINES:]
        raise CannotInstall(f"{step.title} failed:\n" + "\n".join(said))


if __name__ == "__main__":
    raise SystemExit(main())
