"""Kubeconfigs for tests."""

import json
from pathlib import Path
from typing import Any


def config(**more: Any) -> dict[str, Any]:
    """One context, with a token."""
    content: dict[str, Any] = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://one:6443/"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    return content | more


def written(folder: Path, content: Any, name: str = "config") -> Path:
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file
