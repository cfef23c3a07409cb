"""Which cluster a kubeconfig names, and as whom: what kubectl would do, or a sentence why not."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from splitpool.status.kubeconfig import Access, Unusable, access
from splitpool.status.login import logged_in

PEM = b"-----BEGIN CERTIFICATE-----\n"


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


def as_user(folder: Path, user: dict[str, Any]) -> Access:
    return access([written(folder, config(users=[{"name": "u", "user": user}]))], None)


def test_the_current_context_is_used_unless_another_is_named(tmp_path: Path) -> None:
    there = {"name": "there", "context": {"cluster": "c", "user": "u", "namespace": "team"}}
    content = config()
    content["contexts"].append(there)
    file = written(tmp_path, content)
    here = access([file], None)
    assert (here.server, here.namespace, here.token) == ("https://one:6443", "default", "secret")
    assert access([file], "there").namespace == "team"


def test_of_several_files_the_first_that_names_something_wins(tmp_path: Path) -> None:
    other = config(
        **{"current-context": "elsewhere"},
        clusters=[{"name": "c", "cluster": {"server": "https://two"}}],
        users=[{"name": "u", "user": {"token": "other"}}, {"name": "v", "user": {}}],
    )
    first = written(tmp_path, {"users": [{"name": "u", "user": {"token": "mine"}}]}, "first")
    found = access([first, written(tmp_path, config(), "second"), written(tmp_path, other)], None)
    assert (found.server, found.token) == ("https://one:6443", "mine")


def test_paths_are_relative_to_their_file_and_data_stands_before_them(tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    cluster = {"server": "https://one", "certificate-authority": "ca.pem"}
    data = base64.b64encode(b"inline").decode()
    user = {"client-certificate": "none.pem", "client-certificate-data": data, "tokenFile": "t"}
    content = config(
        clusters=[{"name": "c", "cluster": cluster}], users=[{"name": "u", "user": user}]
    )
    file = written(folder, content)
    (folder / "ca.pem").write_bytes(PEM)
    (folder / "t").write_text("from a file\n")
    found = access([file], None)
    assert (found.authority, found.certificate, found.token) == (PEM, b"inline", "from a file")


def test_an_identity_token_of_an_auth_provider_is_used(tmp_path: Path) -> None:
    provider = {"name": "oidc", "config": {"id-token": "identity"}}
    assert as_user(tmp_path, {"auth-provider": provider}).token == "identity"


@pytest.mark.parametrize(
    ("content", "context", "said"),
    [
        ("hello", None, "it is no kubeconfig"),
        ("a: [", None, "it is no YAML"),
        (config(**{"current-context": ""}), None, "no current context; name one with --context"),
        (config(), "her", "context 'her' is not in"),
        (config(), "her", "did you mean here?"),
        (config(), "zzz", "known: here"),
        (config(clusters=[]), None, "its cluster 'c' has no server"),
        (config(contexts=[{"context": {}}]), None, "one of its contexts has no name"),
        (config(users=[{"name": "u", "user": {"client-key": "k.pem"}}]), None, "client-key"),
        (config(users=[{"name": "u", "user": {"client-key-data": "%"}}]), None, "cannot be used"),
        (config(users=[{"name": "u", "user": "root"}]), None, "cannot be used"),
    ],
)
def test_what_cannot_be_used_is_named(
    tmp_path: Path, content: Any, context: str | None, said: str
) -> None:
    with pytest.raises(Unusable) as refused:
        access([written(tmp_path, content)], context)
    assert said in str(refused.value)
    assert str(tmp_path) in str(refused.value)


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
    found = await logged_in(as_user(tmp_path, {"exec": login}))
    assert found.token == "ExecCredential-https://one:6443-more"


async def test_a_login_program_may_give_a_certificate(tmp_path: Path) -> None:
    status = {"clientCertificateData": "certificate", "clientKeyData": "key"}
    program = f"print({json.dumps({'status': status})!r})"
    login = {"command": sys.executable, "args": ["-c", program]}
    found = await logged_in(as_user(tmp_path, {"exec": login}))
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
    with pytest.raises(Unusable) as refused:
        await logged_in(as_user(tmp_path, {"exec": login}))
    assert said in str(refused.value)
