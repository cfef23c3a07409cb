"""Measurements beside other servers as they are kept, made up for tests."""

from typing import Any

from peers.workloads import Workload


def request(ttft: float, **other: Any) -> dict[str, Any]:
    """One answered request of the interactive class."""
    return {
        "class": "interactive",
        "ttft": ttft,
        "tpot": 0.01,
        "input": 100,
        "output": 50,
        "failure": None,
        **other,
    }


def document(
    server: str, workload: Workload, requests: list[dict[str, Any]], repeat: int = 0, **point: Any
) -> dict[str, Any]:
    """One measurement that took 10 seconds."""
    fields = {
        "seconds": 10.0,
        "output_tokens_per_second": 500.0,
        "requests_per_second": 3.0,
        "requests": requests,
        **point,
    }
    return {
        "server": server,
        "workload": workload,
        "repeat": repeat,
        "at": 1_790_000_000.0,
        "version": "v1",
        "command": ["/home/someone/bin/serve", "--port", "8080"],
        "machine": {
            "cpu": "A CPU",
            "cores": 2,
            "memory_gib": 24.0,
            "instructions": ["avx2"],
            "system": "Linux",
            "python": "3.11",
            "load_before": 0.5,
        },
        "servers": [{"points": [fields]}],
    }
