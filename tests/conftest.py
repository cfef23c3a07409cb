"""Property tests draw the same examples every time in CI, so that a change is judged by itself, and
new ones on a developer's machine."""

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
