"""How the router reaches an API server: in a pod, by a kubeconfig, or a clear refusal."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from cluster.pki import Authority
from splitpool_router.cluster.connection import NoConnection, connection, read_kubeconfig


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    folder = tmp_path / "pki"
    folder.mkdir()
    return Authority(folder)


def write(path: Path, *, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    content = {
        "current-context": "here",
        "contexts": [
            {"name": "there", "context": {"cluster": "x", "user": "x"}},
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example:6443", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(content))
    return path


def in_pod(folder: Path, token: str = "abc\n") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "token").write_text(token)
    return folder


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_a_pod_uses_its_service_account(tmp_path: Path, host: str, server: str) -> None:
    env = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    found = connection(env, account=in_pod(tmp_path / "account"))
    assert found.server == server
    assert found.headers() == {"Authorization": "Bearer abc"}
    in_pod(tmp_path / "account", "rotated")
    assert found.headers() == {"Authorization": "Bearer rotated"}


def test_outside_of_a_pod_the_first_kubeconfig_that_is_there_counts(tmp_path: Path) -> None:
    file = write(tmp_path / "config", cluster={}, user={"token": "t"})
    env = {"KUBECONFIG": f"{tmp_path / 'none'}:{file}"}
    found = connection(env, account=tmp_path / "none")
    assert found.server == "https://api.example:6443"
    assert found.headers() == {"Authorization": "Bearer t"}


def test_without_either_the_remedy_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoConnection, match="set KUBECONFIG"):
        connection({"KUBECONFIG": str(tmp_path / "none")}, account=tmp_path / "none")


@pytest.mark.parametrize("inline", [False, True])
def test_certificates_come_from_files_or_from_the_kubeconfig_itself(
    tmp_path: Path, authority: Authority, inline: bool
) -> None:
    pair = authority.user("somebody")
    files = {
        "certificate-authority": authority.certificate,
        "client-certificate": pair.certificate,
        "client-key": pair.key,
    }

    def field(name: str) -> dict[str, str]:
        if inline:
            return {f"{name}-data": base64.b64encode(files[name].read_bytes()).decode()}
        return {name: str(files[name])}

    user = field("client-certificate") | field("client-key")
    file = write(tmp_path / "config", cluster=field("certificate-authority"), user=user)
    context = read_kubeconfig(file).tls()
    (known,) = context.get_ca_certs()
    assert known["subject"] == ((("commonName", "splitpool-tests"),),)
    assert context.check_hostname


def test_files_are_named_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from a file")
    file = write(tmp_path / "config", cluster={}, user={"tokenFile": "token"})
    assert read_kubeconfig(file).headers() == {"Authorization": "Bearer from a file"}


def test_verification_can_be_given_up_by_name_only(tmp_path: Path) -> None:
    file = write(tmp_path / "config", cluster={"insecure-skip-tls-verify": True}, user={})
    assert not read_kubeconfig(file).tls().check_hostname


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("{", "cannot be used"),
        ("[]", "cannot be used"),
        ('{"current-context": "x", "contexts": []}', "context x"),
    ],
)
def test_a_broken_kubeconfig_is_named(tmp_path: Path, content: str, word: str) -> None:
    file = tmp_path / "config"
    file.write_text(content)
    with pytest.raises(NoConnection, match=word) as refused:
        read_kubeconfig(file)
    assert str(file) in str(refused.value)


def test_a_login_plugin_is_refused_with_a_remedy(tmp_path: Path) -> None:
    file = write(tmp_path / "config", cluster={}, user={"exec": {"command": "cloud-login"}})
    with pytest.raises(NoConnection, match="kubectl proxy"):
        read_kubeconfig(file)


def test_a_missing_certificate_is_named_when_it_is_needed(tmp_path: Path) -> None:
    file = write(tmp_path / "config", cluster={"certificate-authority": "none.crt"}, user={})
    with pytest.raises(NoConnection, match=r"api\.example"):
        read_kubeconfig(file).tls()


def test_a_missing_token_is_named_when_it_is_needed(tmp_path: Path) -> None:
    file = write(tmp_path / "config", cluster={}, user={"tokenFile": "none"})
    with pytest.raises(NoConnection, match=r"token file .*none"):
        read_kubeconfig(file).headers()
