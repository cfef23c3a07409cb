"""A real control plane for tests: etcd, API server, controllers and scheduler on loopback.

RBAC is on and nothing needs root. There is no kubelet: `fake_nodes` plays the nodes.

    with running(programs(), folder) as plane:
        plane.admin.create({"apiVersion": "v1", "kind": "Namespace", ...})
        plane.kubectl("get", "namespaces")
        plane.kubeconfig("somebody", groups=["team"])   # for a program that is tested
        plane.audit.writes(user="somebody")

Logs, certificates, kubeconfigs and the audit log are in the folder.
"""

import base64
import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import urllib3

from cluster.api import Api
from cluster.audit import POLICY, AuditLog
from cluster.pki import Authority, Pair, service_account_key
from cluster.processes import Program, free_ports

HOST = "127.0.0.1"
ADMIN = "admin"
_PROBES = "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics"
# Their own limits, 20 to 50 requests a second, would make a thousand pools take minutes.
_FAST = ("--kube-api-qps=500", "--kube-api-burst=1000")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a control plane runs, and which flags it needs there beside its own."""

    address: str = HOST
    # Put before every command, such as what enters a network namespace.
    launcher: tuple[str, ...] = ()
    other_addresses: tuple[str, ...] = ()
    api_server: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()


class ControlPlane:
    """A running control plane and the ways to reach it."""

    def __init__(self, programs: Mapping[str, Path], folder: Path, site: Site = Site()) -> None:
        self.programs = programs
        self._site = site
        self.folder = folder
        self._pki = folder / "pki"
        self._pki.mkdir(parents=True)
        self.authority = Authority(self._pki)
        self.serving = self.authority.server(site.address, HOST, *site.other_addresses)
        self._kubelet_client = self.authority.user(ADMIN, ["system:masters"])
        self._token_key = service_account_key(self._pki)
        ports = ("etcd", "etcd-peer", "api", "controllers", "scheduler")
        self._ports = dict(zip(ports, free_ports(len(ports)), strict=True))
        self.server = f"https://{site.address}:{self._ports['api']}"
        self.audit = AuditLog(folder / "audit.log")
        self.etcd = self._program("etcd", _etcd(folder, self._ports))
        self.api_server = self._program("kube-apiserver", self._api_server())
        self.controllers = self._program("kube-controller-manager", self._controllers())
        self.scheduler = self._program("kube-scheduler", self._scheduler())
        self.admin = self.api(ADMIN, groups=["system:masters"])

    @property
    def all_programs(self) -> tuple[Program, ...]:
        """In the order in which they start."""
        return self.etcd, self.api_server, self.controllers, self.scheduler

    def start(self) -> None:
        """Start everything and wait until it is ready. Raises StartError."""
        (self.folder / "audit.yaml").write_text(POLICY)
        self.etcd.start()
        self.start_api_server()
        for name, program in (("controllers", self.controllers), ("scheduler", self.scheduler)):
            program.start()
            self._wait(program, f"https://{self._site.address}:{self._ports[name]}/healthz")

    def start_api_server(self) -> None:
        """Start the API server, again too, and wait until it is ready. Raises StartError."""
        self.api_server.start()
        self._wait(self.api_server, f"{self.server}/readyz")

    def stop(self) -> None:
        """Stop everything, the last that was started first."""
        self.admin.close()
        for program in reversed(self.all_programs):
            program.stop()

    def api(self, user: str, groups: Sequence[str] = ()) -> Api:
        """The API as a user sees it."""
        pair = self.authority.user(user, groups)
        return Api(server=self.server, authority=self.authority.certificate, user=pair)

    def kubeconfig(self, user: str, groups: Sequence[str] = ()) -> Path:
        """The file that makes a client this user.

        A service account is the user system:serviceaccount:NAMESPACE:NAME in the groups
        system:serviceaccounts and system:serviceaccounts:NAMESPACE.
        """
        pair = self.authority.user(user, groups)
        file = self._pki / f"{pair.key.stem}.kubeconfig"
        # Never written twice: somebody may be reading it.
        if not file.exists():
            file.touch(mode=0o600)
            file.write_text(json.dumps(self._kubeconfig(pair), indent=1))
        return file

    def kubectl(self, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator; its exit status is the caller's to judge."""
        settings = {
            "KUBECONFIG": str(self.kubeconfig(ADMIN, groups=["system:masters"])),
            "HOME": str(self.folder),
            "PATH": os.environ["PATH"],  # of the machine's own `diff`
        }
        command = [str(self.programs["kubectl"]), *args]
        return subprocess.run(
            command, input=stdin, env=settings, capture_output=True, text=True, check=False
        )

    def _program(self, name: str, flags: Sequence[str]) -> Program:
        command = [*self._site.launcher, str(self.programs[name]), *flags]
        return Program(command, self.folder / f"{name}.log")

    def _kubeconfig(self, pair: Pair) -> dict[str, object]:
        here = "tests"
        cluster = {
            "server": self.server,
            "certificate-authority-data": _encoded(self.authority.certificate),
        }
        user = {
            "client-certificate-data": _encoded(pair.certificate),
            "client-key-data": _encoded(pair.key),
        }
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": here, "cluster": cluster}],
            "users": [{"name": here, "user": user}],
            "contexts": [{"name": here, "context": {"cluster": here, "user": here}}],
            "current-context": here,
        }

    def _api_server(self) -> list[str]:
        return [
            f"--etcd-servers=http://{HOST}:{self._ports['etcd']}",
            f"--advertise-address={self._site.address}",
            *self._listening("api"),
            f"--client-ca-file={self.authority.certificate}",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._token_key}",
            f"--service-account-signing-key-file={self._token_key}",
            # The administrator is who asks kubelets for logs.
            f"--kubelet-client-certificate={self._kubelet_client.certificate}",
            f"--kubelet-client-key={self._kubelet_client.key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--endpoint-reconciler-type=none",
            "--allow-privileged=true",
            f"--audit-policy-file={self.folder / 'audit.yaml'}",
            f"--audit-log-path={self.folder / 'audit.log'}",
            "--audit-log-mode=blocking-strict",
            "--audit-log-maxsize=10000",
            *self._site.api_server,
        ]

    def _controllers(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig('system:kube-controller-manager')}",
            *self._listening("controllers"),
            "--leader-elect=false",
            f"--root-ca-file={self.authority.certificate}",
            f"--service-account-private-key-file={self._token_key}",
            "--use-service-account-credentials=true",
            # It makes this folder, which is one of the machine's unless it is told.
            f"--flex-volume-plugin-dir={self.folder / 'volume-plugins'}",
            # Heartbeats come from a thread of the tests, which a busy machine may hold back.
            "--node-monitor-grace-period=5m",
            _PROBES,
            *_FAST,
            *self._site.controllers,
        ]

    def _scheduler(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig('system:kube-scheduler')}",
            *self._listening("scheduler"),
            "--leader-elect=false",
            _PROBES,
            *_FAST,
        ]

    def _listening(self, name: str) -> list[str]:
        return [
            f"--bind-address={self._site.address}",
            f"--secure-port={self._ports[name]}",
            f"--tls-cert-file={self.serving.certificate}",
            f"--tls-private-key-file={self.serving.key}",
        ]

    def _wait(self, program: Program, url: str) -> None:
        authority = str(self.authority.certificate)
        with urllib3.PoolManager(ca_certs=authority, retries=False) as http:
            program.wait(lambda: _answers(http, url))


def _encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def _etcd(folder: Path, ports: Mapping[str, int]) -> list[str]:
    client, peer = f"http://{HOST}:{ports['etcd']}", f"http://{HOST}:{ports['etcd-peer']}"
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
    ]


def _answers(http: urllib3.PoolManager, url: str) -> bool:
    try:
        return bool(http.request("GET", url, timeout=5.0).status == 200)
    except urllib3.exceptions.HTTPError:
        return False


@contextlib.contextmanager
def running(
    programs: Mapping[str, Path], folder: Path, site: Site = Site()
) -> Iterator[ControlPlane]:
    """A control plane of one's own, in an empty folder. Raises StartError."""
    plane = ControlPlane(programs, folder, site)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
