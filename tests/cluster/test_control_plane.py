"""The tests' own Kubernetes: it is complete, it refuses strangers, and it leaves nothing behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from cluster.api import Api, ApiError, eventually
from cluster.audit import AuditLog
from cluster.binaries import version
from cluster.control_plane import ControlPlane, running

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}


def test_it_is_of_the_minor_that_the_module_names(control_plane: ControlPlane, admin: Api) -> None:
    served = admin.request("GET", "/version")

    assert version().startswith(f"v{served['major']}.{served['minor']}.")
    assert (
        control_plane.kubectl("version").stdout.count(f"v{served['major']}.{served['minor']}.") == 2
    )


def test_all_parts_answer_with_access_control_on(control_plane: ControlPlane) -> None:
    assert all(program.running for program in control_plane.all_programs)
    stranger = control_plane.api("stranger")

    with pytest.raises(ApiError) as refusal:
        stranger.listed("v1", "Pod", "default")

    stranger.close()
    assert refusal.value.code == 403
    assert refusal.value.reason == "Forbidden"


def test_a_role_gives_a_user_what_it_says_and_no_more(
    control_plane: ControlPlane, admin: Api, namespace: str
) -> None:
    kubectl = control_plane.kubectl
    in_there = ("--namespace", namespace)
    assert (
        kubectl("create", "role", "r", "--verb=list", "--resource=pods", *in_there).returncode == 0
    )
    assert (
        kubectl("create", "rolebinding", "b", "--role=r", "--user=reader", *in_there).returncode
        == 0
    )
    reader = control_plane.api("reader")

    def listed() -> bool:
        try:
            return reader.listed("v1", "Pod", namespace) == []
        except ApiError:
            return False

    eventually(listed, "the role is in force")
    with pytest.raises(ApiError):
        reader.create(CONFIG | {"metadata": {"name": "one", "namespace": namespace}})
    reader.close()


def test_the_audit_log_says_who_did_what(
    control_plane: ControlPlane, audit: AuditLog, namespace: str
) -> None:
    somebody = control_plane.api("somebody", groups=["system:masters"])
    config = CONFIG | {"metadata": {"name": "one", "namespace": namespace}}
    mark = audit.mark()
    somebody.create(config)
    somebody.reread(config)
    somebody.delete(config)
    somebody.close()

    made, read, gone = audit.entries(mark, user="somebody")[-3:]
    assert (made.verb, made.resource, made.namespace, made.code) == (
        "create",
        "configmaps",
        namespace,
        201,
    )
    assert (read.verb, read.name, gone.verb) == ("get", "one", "delete")
    assert audit.writes(mark, user="somebody") == [made, gone]
    assert audit.denied(mark, user="somebody") == []


def test_refusals_are_in_the_audit_log(control_plane: ControlPlane, audit: AuditLog) -> None:
    stranger, mark = control_plane.api("stranger"), audit.mark()
    with pytest.raises(ApiError):
        stranger.listed("v1", "Secret", "default")
    stranger.close()

    (entry,) = audit.denied(mark)
    assert (entry.user, entry.verb, entry.resource) == ("stranger", "list", "secrets")


def test_a_kubeconfig_makes_kubectl_that_user(control_plane: ControlPlane) -> None:
    said = control_plane.kubectl(
        "--kubeconfig", str(control_plane.kubeconfig("kim", groups=["team"])), "auth", "whoami"
    )

    assert "kim" in said.stdout
    assert "team" in said.stdout


def test_what_was_stored_is_there_after_the_api_server_was_killed(
    binaries: Mapping[str, Path], tmp_path: Path
) -> None:
    with running(binaries, tmp_path / "plane") as plane:
        config = CONFIG | {"metadata": {"name": "one", "namespace": "default"}}
        plane.admin.create(config)

        plane.api_server.kill()
        plane.start_api_server()

        assert plane.admin.reread(config)["metadata"]["name"] == "one"
    assert not any(program.running for program in plane.all_programs)


STARTS_ONE_AND_WAITS = """
import pathlib, signal, sys
from cluster.binaries import programs
from cluster.control_plane import running
with running(programs(), pathlib.Path(sys.argv[1])) as plane:
    print(*(program.pid for program in plane.all_programs), flush=True)
    signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_nothing_runs_on_where_the_tests_are_killed(tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE_AND_WAITS, str(tmp_path / "plane")],
        env=os.environ | {"PYTHONPATH": tests},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        children = [int(pid) for pid in process.stdout.readline().split()]
        assert len(children) == 4
        process.send_signal(signal.SIGKILL)

    eventually(lambda: not any(map(alive, children)), "all programs have ended")


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
