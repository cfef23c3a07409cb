"""What all tests stand on: property tests that draw the same examples every time in CI, so that a
change is judged by itself; and children that can be ended by Ctrl-C."""

import os
import signal

from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

# A shell ignores Ctrl-C in what it runs in the background, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
