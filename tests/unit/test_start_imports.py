"""Do worker and router start with no more than they serve with? Imports cost seconds and MB."""

import subprocess
import sys


def test_a_worker_starts_without_transformers() -> None:
    program = (
        "import sys, splitpool_worker.launch;"
        " print([name for name in ('transformers', 'matplotlib') if name in sys.modules])"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert said.stdout.strip() == "[]"


def test_a_router_in_a_pod_reads_no_yaml() -> None:
    program = (
        "import sys, splitpool_router.__main__;"
        " print([name for name in ('ruamel.yaml', 'torch', 'kubernetes') if name in sys.modules])"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert said.stdout.strip() == "[]"
