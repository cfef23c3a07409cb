"""What the login program of a kubeconfig gives, or how it failed."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from splitpool.status.login import logged_in
from splitpool_kube import kubeconfig
from splitpool_kube.access import Access, NoAccess
from unit.kubeconfigs import config, written


def described(folder: Path, login: dict[str, Any]) -> Access:
    """The access whose user has this login program."""
    user = {"name": "u", "user": {"exec": login}}
    return kubeconfig.access([written(folder, config(users=[user]))])


async def test_a_login_program_gives_a_token_and_is_told_about_the_cluster(tmp_path: Path) -> None:
    program = """
import json, os
told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
token = "-".join([told["kind"], told["spec"]["cluster"]["server"], os.environ["EXTRA"]])
print(json.dumps({"kind": "ExecCredential", "status": {"token": token}}))
"""
    login = {
        "command": sys.executable,
        "args": ["-c", program],
        "env": [{"name": "EXTRA", "value": "more"}],
        "provideClusterInfo": True,
    }
    found = await logged_in(described(tmp_path, login))
    assert found.token == "ExecCredential-https://one:6443-more"


async def test_a_login_program_may_give_a_certificate(tmp_path: Path) -> None:
    status = {"clientCertificateData": "certificate", "clientKeyData": "key"}
    program = f"print({json.dumps({'status': status})!r})"
    login = {"command": sys.executable, "args": ["-c", program]}
    found = await logged_in(described(tmp_path, login))
    assert (found.certificate, found.key) == (b"certificate", b"key")


@pytest.mark.parametrize(
    ("command", "program", "said"),
    [
        ("no-such-login", "", "no-such-login, failed: No such file or directory; get it at a.b"),
        (sys.executable, "import sys; sys.exit(3)", "failed: exit status 3"),
        (sys.executable, "print('hello')", "it printed no ExecCredential"),
        (sys.executable, "print('[]')", "it printed no ExecCredential"),
    ],
)
async def test_a_login_that_fails_says_how(
    tmp_path: Path, command: str, program: str, said: str
) -> None:
    login = {"command": command, "args": ["-c", program], "installHint": "get it\nat a.b"}
    with pytest.raises(NoAccess) as refused:
        await logged_in(described(tmp_path, login))
    assert said in str(refused.value)
