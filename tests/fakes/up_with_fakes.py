"""`splitpool up FILE --port PORT --state-dir DIR`, with the stand-ins of this folder behind it."""

import sys
from pathlib import Path
from unittest import mock

from splitpool import main
from splitpool_operator.local import options as chosen
from splitpool_operator.local.options import Options, Programs

HERE = Path(__file__).parent
FAKE = (sys.executable, str(HERE / "fake_process.py"))
PROGRAMS = Programs(
    worker=FAKE, router=FAKE, inspect=(sys.executable, str(HERE / "fake_inspect.py"))
)


def with_fakes(**options: object) -> Options:
    """The command's options, and our programs."""
    return Options(programs=PROGRAMS, **options)  # type: ignore[arg-type]


if __name__ == "__main__":
    with mock.patch.object(chosen, "Options", with_fakes):
        main.main()
