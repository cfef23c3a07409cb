"""How does the router reach the API server: from within a pod, or as a kubeconfig says?"""

from collections.abc import Mapping
from pathlib import Path

from splitpool_kube import service_account
from splitpool_kube.access import Access, NoAccess


def access(env: Mapping[str, str], *, account: Path = service_account.FOLDER) -> Access:
    """The cluster that this process runs in, else that of the kubeconfig. Raises NoAccess."""
    inside = service_account.access(env, account)
    if inside is not None:
        return inside
    # Only outside of pods: its YAML reader holds 3 MB.
    from splitpool_kube import kubeconfig

    named = env.get("KUBECONFIG") or kubeconfig.HOME
    files = kubeconfig.files(named)
    if not files:
        raise NoAccess(
            f"no service account at {account} and no kubeconfig at {named}: run in a pod whose"
            " service account token is mounted, or set KUBECONFIG"
        )
    found = kubeconfig.access(files)
    if found.login:
        raise NoAccess(
            "the kubeconfig's user logs in by a plugin, which the router does not run: give one"
            " with a token or a client certificate, or go through `kubectl proxy`"
        )
    return found
