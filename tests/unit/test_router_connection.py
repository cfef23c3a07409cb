"""How the router reaches an API server: in a pod, by a kubeconfig, or a clear refusal."""

import json
from pathlib import Path
from typing import Any

import pytest

from splitpool_kube.access import NoAccess
from splitpool_router.cluster.connection import access
from unit.kubeconfigs import config, written


def in_pod(folder: Path, token: str = "abc\n") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "token").write_text(token)
    return folder


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_a_pod_uses_its_service_account(tmp_path: Path, host: str, server: str) -> None:
    env = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    found = access(env, account=in_pod(tmp_path / "account"))
    assert found.server == server
    assert found.headers() == {"Authorization": "Bearer abc"}
    in_pod(tmp_path / "account", "rotated")
    assert found.headers() == {"Authorization": "Bearer rotated"}


def test_outside_of_a_pod_the_kubeconfigs_that_are_there_count(tmp_path: Path) -> None:
    env = {"KUBECONFIG": f"{tmp_path / 'none'}:{written(tmp_path, config())}"}
    found = access(env, account=tmp_path / "none")
    assert found.server == "https://one:6443"
    assert found.headers() == {"Authorization": "Bearer secret"}


def test_without_either_the_remedy_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoAccess, match="set KUBECONFIG"):
        access({"KUBECONFIG": str(tmp_path / "none")}, account=tmp_path / "none")


def test_a_login_plugin_is_refused_with_a_remedy(tmp_path: Path) -> None:
    user: dict[str, Any] = {"exec": {"command": "cloud-login"}}
    file = written(tmp_path, json.dumps(config(users=[{"name": "u", "user": user}])))
    with pytest.raises(NoAccess, match="kubectl proxy"):
        access({"KUBECONFIG": str(file)}, account=tmp_path / "none")
