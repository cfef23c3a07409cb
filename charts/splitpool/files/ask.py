"""`helm test`: asks a router for its models, and every class that has a worker for a token."""

import json
import os
import sys
import urllib.error
import urllib.request
from typing import Any

_SECONDS = 60


def main(url: str) -> int:
    """1 where something that should serve does not."""
    try:
        listed = _ask(f"{url}/v1/models")["data"]
        print("models:", ", ".join(model["id"] for model in listed) or "none")
        for pool in _ask(f"{url}/internal/pools")["pools"]:
            _try_pool(url, pool)
    except (OSError, ValueError, KeyError) as error:
        print(f"failed: {type(error).__name__}: {error}{_body(error)}")
        return 1
    return 0


def _try_pool(url: str, pool: dict[str, Any]) -> None:
    for name, state in pool["classes"].items():
        if not (pool["serving"] and state["ready"]):
            print(f"{pool['namespace']}/{pool['name']} {name}: no worker is ready")
            continue
        body = {"model": pool["model"], "prompt": "Hello", "max_tokens": 1}
        answer = _ask(f"{url}/v1/completions", body, {"X-Splitpool-Class": name})
        print(f"{pool['namespace']}/{pool['name']} {name}: {len(answer['choices'])} answer")


def _ask(url: str, body: object = None, headers: dict[str, str] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    given = {"Content-Type": "application/json", **(headers or {})}
    if key := os.environ.get("SPLITPOOL_API_KEY"):
        given["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(url, data=data, headers=given)
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
        return json.load(answer)


def _body(error: Exception) -> str:
    """The router's own words."""
    if isinstance(error, urllib.error.HTTPError):
        return f": {error.read(2000).decode(errors='replace')}"
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
