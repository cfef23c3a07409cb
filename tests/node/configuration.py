"""What are the programs of a node told? Pure: everything that varies between runs is an argument.

Why each setting is as it is: docs/real-node.md.
"""

import json
from dataclasses import dataclass
from pathlib import Path

NODE = "node-0"
SERVICES = "10.96.0.0/16"
# The first address of SERVICES is the API server's.
API_SERVICE = "10.96.0.1"
PODS = "10.244.0.0/16"
_POD_RANGE = "10.244.0.0/24"
DOMAIN = "cluster.local"
REGISTRY_PORT = 5000
REGISTRY = f"127.0.0.1:{REGISTRY_PORT}"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
DNS_READY_PORT = 8181
PROXY_HEALTH_PORT = 10256


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A node's address, cgroup, and folder as its programs see it."""

    address: str
    cgroup: str
    folder: str


def kubelet(place: Place, *, authority: str, certificate: str, key: str) -> str:
    """The kubelet's configuration."""
    return json.dumps(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": place.address,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": authority},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": certificate,
            "tlsPrivateKeyFile": key,
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{place.cgroup}",
            "cgroupsPerQOS": True,
            "enforceNodeAllocatable": [],
            "failCgroupV1": False,
            "failSwapOn": False,
            # A negative one takes a right that machines of CI may lack.
            "oomScoreAdj": 0,
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {
                "nodefs.available": "0%",
                "nodefs.inodesFree": "0%",
                "imagefs.available": "0%",
            },
            "makeIPTablesUtilChains": False,
            "serializeImagePulls": False,
            "clusterDomain": DOMAIN,
            "clusterDNS": [place.address],
            # None of the machine's: names outside of the cluster are unknown.
            "resolvConf": "",
            "podLogsDir": f"{place.folder}/pod-logs",
            "volumePluginDir": f"{place.folder}/volume-plugins",
        }
    )


def containerd(place: Place, *, plugins: Path, networks: str, pause_image: str) -> str:
    """containerd's configuration, in TOML."""
    return f"""
version = 3
root = "{place.folder}/containerd"
state = "/run/containerd"

[grpc]
address = "{CONTAINERD_SOCKET}"

[plugins.'io.containerd.internal.v1.opt']
path = "{place.folder}/opt"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{pause_image}"

[plugins.'io.containerd.cri.v1.runtime']
disable_apparmor = true
restrict_oom_score_adj = true
tolerate_missing_hugetlb_controller = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{plugins}"]
conf_dir = "{networks}"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def pod_network() -> str:
    """The network plugins' configuration: a bridge, and addresses of PODS."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        # Pods reach servers on the machine, such as a test's own, under the node's address.
        "ipMasq": True,
        "ipMasqBackend": "nftables",
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": _POD_RANGE}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    plugins = [
        bridge,
        {"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": plugins})


def proxy(place: Place, kubeconfig: str) -> str:
    """kube-proxy's configuration."""
    return json.dumps(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clientConnection": {"kubeconfig": kubeconfig},
            "clusterCIDR": PODS,
            "hostnameOverride": NODE,
            "healthzBindAddress": f"{place.address}:{PROXY_HEALTH_PORT}",
            "metricsBindAddress": "127.0.0.1:10249",
            # Limits of the machine's own are left as they are.
            "conntrack": {"maxPerCore": 0, "min": 0},
            "nftables": {"minSyncPeriod": "0s", "syncPeriod": "30s"},
        }
    )


def dns(place: Place, kubeconfig: str) -> str:
    """CoreDNS' configuration: the names of Services, and no others."""
    return f"""
{DOMAIN} in-addr.arpa {{
    bind {place.address}
    errors
    ready {place.address}:{DNS_READY_PORT}
    kubernetes {DOMAIN} in-addr.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 1
    }}
}}
"""
