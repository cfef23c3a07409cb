"""As whom does a pod speak to the API server of its cluster? As its service account."""

from collections.abc import Mapping
from pathlib import Path

from splitpool_kube.access import Access

FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def access(env: Mapping[str, str], folder: Path = FOLDER) -> Access | None:
    """None outside of pods, and in pods that have no token."""
    host, port = env.get("KUBERNETES_SERVICE_HOST"), env.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (folder / "token").is_file():
        return None
    namespace = folder / "namespace"
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        namespace=namespace.read_text().strip() if namespace.is_file() else "default",
        authority=folder / "ca.crt",
        token=folder / "token",
    )
