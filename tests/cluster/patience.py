"""How long do tests wait? TEST_PATIENCE multiplies it: a machine that does other things is slow."""

import os

_PATIENCE = float(os.environ.get("TEST_PATIENCE", "1"))


def patient(seconds: float) -> float:
    """The seconds to wait on this machine for what takes up to so many on an idle one."""
    return seconds * _PATIENCE
