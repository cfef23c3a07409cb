"""What does the login program of a kubeconfig answer? client.authentication.k8s.io's protocol."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from splitpool_kube.access import Access, NoAccess

_VERSION = "client.authentication.k8s.io/v1"


async def logged_in(access: Access) -> Access:
    """With the credentials that the program gives, where there is one. Raises NoAccess."""
    if not access.login:
        return access
    try:
        status = json.loads(await _answer(access))["status"]
        certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise NoAccess(_failed(access, "it printed no ExecCredential")) from None
    return replace(
        access,
        token=status.get("token") or access.token,
        certificate=certificate.encode() if certificate else access.certificate,
        key=key.encode() if key else access.key,
    )


async def _answer(access: Access) -> bytes:
    command = str(access.login.get("command", ""))
    if os.sep in command:
        command = str(access.folder / command)
    try:
        process = await asyncio.create_subprocess_exec(
            command,
            *map(str, access.login.get("args") or ()),
            env=_environment(access),
            stdout=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise NoAccess(_failed(access, error.strerror or str(error))) from None
    output, _ = await process.communicate()
    if process.returncode:
        raise NoAccess(_failed(access, f"exit status {process.returncode}"))
    return output


def _environment(access: Access) -> dict[str, str]:
    spec: dict[str, Any] = {"interactive": sys.stdin is not None and sys.stdin.isatty()}
    if access.login.get("provideClusterInfo"):
        spec["cluster"] = {"server": access.server}
    credential = {
        "apiVersion": access.login.get("apiVersion") or _VERSION,
        "kind": "ExecCredential",
        "spec": spec,
    }
    own: list[Mapping[str, str]] = access.login.get("env") or []
    given = {each["name"]: each["value"] for each in own}
    return {**os.environ, **given, "KUBERNETES_EXEC_INFO": json.dumps(credential)}


def _failed(access: Access, why: str) -> str:
    command, hint = access.login.get("command"), access.login.get("installHint")
    remedy = " ".join(str(hint).split()) if hint else "run it by hand, or log in again"
    return f"the login program of the kubeconfig, {command}, failed: {why}; {remedy}"
