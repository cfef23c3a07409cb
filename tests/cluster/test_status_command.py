"""`splitpool status` and `splitpool render` against a real API server, also as kubectl's plugin."""

import contextlib
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from ruamel.yaml import YAML

from cluster.api import Api, eventually
from cluster.control_plane import ADMIN, ControlPlane
from cluster.fake_nodes import FakeNodes
from cluster.operators import operating
from cluster.pod_states import Fate
from cluster.rendered import assert_live, rendered
from cluster.watched_pool import WatchedPool

USER = "status-operator"
SCRIPTS = Path(sys.executable).parent
Done: TypeAlias = subprocess.CompletedProcess[str]
Status: TypeAlias = Callable[..., Done]


@pytest.fixture
def pool(admin: Api, namespace: str) -> WatchedPool:
    return WatchedPool(admin, namespace)


@pytest.fixture
def serving(
    control_plane: ControlPlane, nodes: FakeNodes, namespace: str, pool: WatchedPool
) -> Iterator[WatchedPool]:
    """A pool that an operator has made ready."""
    with operating(control_plane, namespace, USER):
        nodes.add("plain")
        pool.declare()
        pool.wait_ready()
        yield pool


@pytest.fixture
def status(control_plane: ControlPlane) -> Status:
    """`splitpool status` as the administrator."""
    return lambda *arguments: run(admins(control_plane), "status", *arguments)


@pytest.fixture
def kubectl(control_plane: ControlPlane, binaries: Mapping[str, Path]) -> Callable[..., Done]:
    """kubectl as the administrator, who has this project's scripts on the PATH."""

    def ask(*arguments: str, stdin: str | None = None) -> Done:
        return subprocess.run(
            [str(binaries["kubectl"]), *arguments],
            env=settings(admins(control_plane)),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    return ask


def admins(plane: ControlPlane) -> Path:
    return plane.kubeconfig(ADMIN, groups=["system:masters"])


def run(kubeconfig: Path, *arguments: str) -> Done:
    """The command as a shell starts it."""
    return subprocess.run(
        [str(SCRIPTS / "splitpool"), *arguments],
        env=settings(kubeconfig),
        capture_output=True,
        text=True,
        check=False,
    )


def settings(kubeconfig: Path) -> dict[str, str]:
    return {
        "KUBECONFIG": str(kubeconfig),
        "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(kubeconfig.parent),
        "LANG": "C.UTF-8",
    }


def changed(kubeconfig: Path, change: Callable[[Any], None]) -> Path:
    """A kubeconfig that differs."""
    content = json.loads(kubeconfig.read_text())
    change(content)
    other = kubeconfig.with_suffix(".changed")
    other.touch(mode=0o600)
    other.write_text(json.dumps(content))
    return other


def test_a_ready_pool_is_shown_and_exit_status_0(serving: WatchedPool, status: Status) -> None:
    done = status("assistant", "-n", serving.namespace)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("● assistant: ready for ")
    assert f"smollm2-{serving.namespace} from file:///models/smollm2.gguf" in lines[1]
    (interactive,) = [line for line in lines if line.startswith("  interactive")]
    assert interactive.split()[1] == "1/1"
    assert "Serving" in done.stdout
    assert "→" not in done.stdout


def test_a_crash_loop_is_exit_status_1_and_ends_with_the_command_that_helps(
    nodes: FakeNodes, serving: WatchedPool, status: Status
) -> None:
    nodes.befall(Fate.CRASH_LOOP, namespace=serving.namespace)
    serving.wait("Ready", "False", "CrashLoop")

    done = status("assistant", "-n", serving.namespace)

    assert done.returncode == 1, done.stderr
    assert "✖ assistant: not ready for" in done.stdout
    said = " ".join(done.stdout.split())
    pods = [pod["metadata"]["name"] for pod in serving.pods()]
    ends = [f"kubectl -n {serving.namespace} logs {name} --previous shows" for name in pods]
    assert any(end in said for end in ends)
    for name in pods:
        assert f"pod {name}" in done.stdout
    data = json.loads(status("assistant", "-n", serving.namespace, "-o", "json").stdout)
    assert (data["ready"], data["state"], data["reason"]) == (False, "Failing", "CrashLoop")
    assert data["events"][0]["warning"]
    assert {each["reason"] for each in data["troubles"]} == {"CrashLoop"}


def test_a_pool_that_nobody_looks_after_is_not_ready(pool: WatchedPool, status: Status) -> None:
    pool.declare()
    done = status("assistant", "-n", pool.namespace)
    assert done.returncode == 1
    assert "not seen by the operator" in done.stdout
    assert "Install the operator" in done.stdout


def test_all_pools_are_a_table(pool: WatchedPool, status: Status) -> None:
    pool.declare()
    done = status("-n", pool.namespace)
    assert done.returncode == 1
    assert done.stdout.splitlines()[1].split()[:3] == ["◐", "assistant", "Unseen"]
    everywhere = status("--all-namespaces")
    assert everywhere.stdout.splitlines()[0].split()[0] == "NAMESPACE"
    assert pool.namespace in everywhere.stdout
    (data,) = YAML(typ="safe", pure=True).load(status("-n", pool.namespace, "-o", "yaml").stdout)
    assert (data["name"], data["state"], data["ready"]) == ("assistant", "Unseen", False)


def test_no_pools_are_no_failure(namespace: str, status: Status) -> None:
    done = status("-n", namespace)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"namespace {namespace} has no InferencePools; -A shows all namespaces\n"


def test_a_name_that_is_not_there_is_exit_status_2_with_one_that_is(
    pool: WatchedPool, status: Status
) -> None:
    pool.declare()
    done = status("asistant", "-n", pool.namespace)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"no InferencePool asistant in namespace {pool.namespace}" in done.stderr
    assert "did you mean assistant?" in done.stderr


def test_the_namespace_of_the_context_is_used(
    control_plane: ControlPlane, pool: WatchedPool
) -> None:
    pool.declare()

    def inside(config: Any) -> None:
        config["contexts"][0]["context"]["namespace"] = pool.namespace

    there = changed(admins(control_plane), inside)
    assert run(there, "status", "assistant").returncode == 1
    missing = run(there, "status", "assistant", "--context", "test")
    assert missing.returncode == 2
    assert "did you mean tests?" in missing.stderr


def test_somebody_without_rights_learns_which_verb_is_missing(
    control_plane: ControlPlane, pool: WatchedPool
) -> None:
    pool.declare()
    nobody = control_plane.kubeconfig("status-nobody")
    done = run(nobody, "status", "assistant", "-n", pool.namespace)
    assert (done.returncode, done.stdout) == (2, "")
    assert 'User "status-nobody" cannot get resource "inferencepools"' in done.stderr
    ask = f"kubectl auth can-i get inferencepools.splitpool.dev -n {pool.namespace}"
    assert ask in done.stderr
    assert "verb list" in run(nobody, "status", "-A").stderr


def test_somebody_who_may_read_pools_only_sees_the_pool(
    control_plane: ControlPlane, admin: Api, pool: WatchedPool
) -> None:
    pool.declare()
    api, place = "rbac.authorization.k8s.io", {"name": "reader", "namespace": pool.namespace}
    rule = {"apiGroups": ["splitpool.dev"], "resources": ["inferencepools"], "verbs": ["get"]}
    admin.apply({"apiVersion": f"{api}/v1", "kind": "Role", "metadata": place, "rules": [rule]})
    admin.apply(
        {
            "apiVersion": f"{api}/v1",
            "kind": "RoleBinding",
            "metadata": place,
            "roleRef": {"apiGroup": api, "kind": "Role", "name": "reader"},
            "subjects": [{"apiGroup": api, "kind": "User", "name": "status-reader"}],
        }
    )
    reader = control_plane.kubeconfig("status-reader")
    done = run(reader, "status", "assistant", "-n", pool.namespace)
    assert done.returncode == 1
    assert "(pods are not shown: " in done.stdout
    assert "(events are not shown: " in done.stdout
    absent = run(reader, "status", "other", "-n", pool.namespace)
    assert absent.returncode == 2
    assert "there is no InferencePool other" in absent.stderr


def test_an_api_server_that_is_not_there_is_named(control_plane: ControlPlane) -> None:
    def elsewhere(config: Any) -> None:
        config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"

    done = run(changed(admins(control_plane), elsewhere), "status")
    assert done.returncode == 2
    assert "https://127.0.0.1:1 cannot be asked: Connection refused" in done.stderr


def test_a_server_that_is_not_trusted_is_not_asked(control_plane: ControlPlane) -> None:
    def untrusted(config: Any) -> None:
        server = config["clusters"][0]["cluster"]["server"]
        config["clusters"][0]["cluster"] = {"server": server}

    done = run(changed(admins(control_plane), untrusted), "status")
    assert done.returncode == 2
    assert "its certificate is not trusted" in done.stderr


def test_a_credential_that_is_not_accepted_and_a_login_that_fails_say_so(
    control_plane: ControlPlane,
) -> None:
    def token(config: Any) -> None:
        config["users"][0]["user"] = {"token": "expired"}

    def login(config: Any) -> None:
        version = "client.authentication.k8s.io/v1"
        config["users"][0]["user"] = {"exec": {"apiVersion": version, "command": "no-such-login"}}

    refused = run(changed(admins(control_plane), token), "status")
    assert refused.returncode == 2
    assert "does not accept the credentials" in refused.stderr
    failed = run(changed(admins(control_plane), login), "status")
    assert failed.returncode == 2
    assert "no-such-login" in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no kubeconfig: "),
        ("hello", "it is no kubeconfig"),
        ('{"contexts": [{"name": "a"}]}', "no current context"),
    ],
)
def test_a_kubeconfig_that_is_of_no_use_is_named(
    tmp_path: Path, content: str | None, said: str
) -> None:
    file = tmp_path / "config"
    if content is not None:
        file.write_text(content)
    done = run(file, "status")
    assert done.returncode == 2
    assert said in done.stderr
    assert str(file) in done.stderr
    assert "Traceback" not in done.stderr


class _WithoutPools(http.server.BaseHTTPRequestHandler):
    """An API server that has no InferencePools."""

    def do_GET(self) -> None:
        self.send_error(404, "404 page not found")

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@contextlib.contextmanager
def server_without_pools() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _WithoutPools) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_cluster_without_the_crd_says_how_to_get_it(control_plane: ControlPlane) -> None:
    with server_without_pools() as url:

        def bare(config: Any) -> None:
            config["clusters"][0]["cluster"] = {"server": url}

        done = run(changed(admins(control_plane), bare), "status", "assistant")
    assert done.returncode == 2
    assert "the CRD is not installed" in done.stderr


def test_kubectl_runs_the_command_as_its_plugin(
    kubectl: Callable[..., Done], pool: WatchedPool
) -> None:
    pool.declare()

    done = kubectl("splitpool", "status", "assistant", "-n", pool.namespace)
    assert done.returncode == 1, done.stderr
    assert "assistant: not seen by the operator" in done.stdout
    assert "kubectl splitpool status" in kubectl("splitpool", "status", "--help").stdout
    missing = kubectl("splitpool", "status", "asistant", "-n", pool.namespace)
    assert missing.returncode == 2
    assert missing.stderr.startswith("kubectl splitpool: there is no InferencePool")
    words = kubectl("__complete", "splitpool", "status", "-n", pool.namespace, "ass")
    assert words.stdout.splitlines()[0] == "assistant"
    assert "status" in kubectl("__complete", "splitpool", "st").stdout.splitlines()


def test_watching_goes_on_when_something_changes_and_ends_by_ctrl_c(
    control_plane: ControlPlane, nodes: FakeNodes, serving: WatchedPool
) -> None:
    watching = subprocess.Popen(
        [str(SCRIPTS / "splitpool"), "status", "assistant", "-n", serving.namespace, "--watch"],
        env=settings(admins(control_plane)),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    try:
        assert watching.stdout.readline().startswith("● assistant: ready")
        nodes.befall(Fate.CRASH_LOOP, namespace=serving.namespace)
        serving.wait("Ready", "False", "CrashLoop")
        assert any(line.startswith("✖ assistant: not ready") for line in watching.stdout)
    finally:
        watching.send_signal(signal.SIGINT)
    assert watching.wait(timeout=30) == 130
    watching.stdout.close()


@pytest.mark.parametrize("topology", ["Split", "Shared"])
def test_what_render_prints_changes_nothing_that_the_operator_has_applied(
    control_plane: ControlPlane, serving: WatchedPool, tmp_path: Path, topology: str
) -> None:
    declared = serving.declare({"spec.topology": topology})
    serving.wait_ready()
    settled = {"assistant-shared"} if topology == "Shared" else {f"assistant-{c}" for c in CLASSES}
    eventually(lambda: deployments(serving) == settled, "only what is planned is there")

    assert_live(control_plane, serving, rendered(declared, serving.namespace, tmp_path))


CLASSES = ("interactive", "batch")


def deployments(pool: WatchedPool) -> set[str]:
    return {name for kind, name in pool.children() if kind == "Deployment"}
