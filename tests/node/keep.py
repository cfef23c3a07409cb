"""Keeps a real cluster up for a developer to play with, until Ctrl-C: `make cluster`."""

import signal
import sys

from cluster.building import BuildError
from cluster.processes import StartError
from node import packages
from node.box import BoxError
from node.cluster import RealCluster, prepare, running
from node.packages import PackagesError

_WELCOME = """
A Kubernetes of one node is up. In another terminal, as root:

  export KUBECONFIG={kubeconfig}
  alias kubectl={kubectl}
  kubectl get nodes

  registry     {registry} in the cluster, {address}:{port} on this machine (plain HTTP)
  NodePorts    at {address}
  its network  {network} COMMAND
  logs         {folder}

Ctrl-C ends it and removes all of it.
"""


def main() -> int:
    """Run until Ctrl-C or SIGTERM."""
    why = packages.hindrance()
    if why is not None:
        print(why, file=sys.stderr)
        return 1
    # A shell starts what runs in the background with Ctrl-C ignored.
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    try:
        prepare(sys.stderr)
        with running(sys.stderr) as cluster:
            print(_welcome(cluster), flush=True)
            signal.pause()
    except KeyboardInterrupt:
        print("Ended; nothing is left of it.", file=sys.stderr)
    except (BoxError, BuildError, PackagesError, StartError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _welcome(cluster: RealCluster) -> str:
    return _WELCOME.format(
        kubeconfig=cluster.kubeconfig,
        kubectl=cluster.plane.programs["kubectl"],
        registry=cluster.registry,
        port=cluster.registry.rpartition(":")[2],
        address=cluster.address,
        network=" ".join(cluster.box.network),
        folder=cluster.box.folder,
    )


if __name__ == "__main__":
    sys.exit(main())
