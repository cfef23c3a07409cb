"""Which server, whose credentials and which namespace does a kubeconfig name? As kubectl reads it.

Of several files the first that names something wins; paths are relative to the file they are in.
"""

import base64
import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from splitpool_kube.access import Access, NoAccess

HOME = "~/.kube/config"


def files(named: str) -> list[Path]:
    """Those that are there, of a list such as KUBECONFIG's."""
    paths = [Path(each).expanduser() for each in named.split(os.pathsep) if each]
    return [path for path in paths if path.exists()]


def access(files: Sequence[Path], context: str | None = None) -> Access:
    """Of a context, or of the current one. Raises NoAccess."""
    merged = _Merged()
    for file in files:
        merged.add(file)
    shown = ":".join(map(str, files))
    name = context or merged.current
    if not name:
        known = ", ".join(merged.contexts) or "it has none"
        hint = "kubectl config use-context sets one"
        raise NoAccess(f"{shown} has no current context; {hint}: {known}")
    if name not in merged.contexts:
        raise NoAccess(f"context {name!r} is not in {shown}; {_nearest(name, merged.contexts)}")
    try:
        return _access(merged, name)
    except ValueError as error:
        raise NoAccess(f"context {name!r} of {shown} cannot be used: {error}") from None
    except (TypeError, AttributeError):
        said = "its cluster or its user is of another shape; see kubectl config view"
        raise NoAccess(f"context {name!r} of {shown} cannot be used: {said}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A named entry, and the folder of the file that it is in."""

    content: Mapping[str, Any]
    folder: Path


class _Merged:
    """Several files as one."""

    def __init__(self) -> None:
        self.current = ""
        self.contexts: dict[str, _Part] = {}
        self.clusters: dict[str, _Part] = {}
        self.users: dict[str, _Part] = {}

    def add(self, file: Path) -> None:
        """Raises NoAccess."""
        raw = _parsed(file)
        self.current = self.current or str(raw.get("current-context") or "")
        for kind, known in (
            ("context", self.contexts),
            ("cluster", self.clusters),
            ("user", self.users),
        ):
            for each in raw.get(f"{kind}s") or []:
                if not isinstance(each, Mapping) or "name" not in each:
                    raise NoAccess(f"{file} cannot be used: one of its {kind}s has no name")
                part = _Part(content=each.get(kind) or {}, folder=file.parent)
                known.setdefault(str(each["name"]), part)


def _parsed(file: Path) -> Mapping[str, Any]:
    try:
        raw = YAML(typ="safe", pure=True).load(file.read_bytes())
    except OSError as error:
        raise NoAccess(f"{file} cannot be read: {error.strerror}") from None
    except (YAMLError, ValueError) as error:
        said = " ".join(str(error).split())
        raise NoAccess(f"{file} cannot be used: it is no YAML: {said}") from None
    if not isinstance(raw, Mapping):
        raise NoAccess(f"{file} cannot be used: it is no kubeconfig; see kubectl config view")
    return raw


def _access(merged: _Merged, name: str) -> Access:
    context = merged.contexts[name].content
    cluster = merged.clusters.get(str(context.get("cluster")))
    if cluster is None or not cluster.content.get("server"):
        raise ValueError(f"its cluster {context.get('cluster')!r} has no server")
    user = merged.users.get(str(context.get("user"))) or _Part(content={}, folder=Path())
    provider = (user.content.get("auth-provider") or {}).get("config") or {}
    return Access(
        server=str(cluster.content["server"]).rstrip("/"),
        namespace=str(context.get("namespace") or "default"),
        authority=_pem(cluster, "certificate-authority"),
        certificate=_pem(user, "client-certificate"),
        key=_pem(user, "client-key"),
        insecure=bool(cluster.content.get("insecure-skip-tls-verify")),
        server_name=cluster.content.get("tls-server-name"),
        proxy=cluster.content.get("proxy-url"),
        token=_token(user) or provider.get("id-token"),
        basic=_basic(user.content),
        login=user.content.get("exec") or {},
        folder=user.folder,
    )


def _pem(part: _Part, name: str) -> Path | bytes | None:
    """Data stands before a file."""
    data, file = part.content.get(f"{name}-data"), part.content.get(name)
    if data:
        return base64.b64decode("".join(str(data).split()), validate=True)
    return _path(part, file) if file else None


def _token(user: _Part) -> Path | str | None:
    file = user.content.get("tokenFile")
    return _path(user, file) if file else user.content.get("token")


def _path(part: _Part, file: str) -> Path:
    return part.folder / Path(file).expanduser()


def _basic(user: Mapping[str, Any]) -> tuple[str, str] | None:
    return (user["username"], user.get("password") or "") if user.get("username") else None


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known) or 'none'}"
