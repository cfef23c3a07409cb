"""What does the chart render, and what does it let its programs do?

rendered("--set", "router.replicas=3")
rights("operator", "team-a", user="somebody")    # the chart's own roles, bound to a user
"""

import functools
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from cluster.api import Object
from cluster.helm import CHART, environment, helm

RELEASE = "splitpool"
_RIGHTS = frozenset({"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"})
_COMPONENT = "app.kubernetes.io/component"


class ChartError(Exception):
    """Helm refuses; the message is its own."""


def rendered(*arguments: str, namespace: str = RELEASE) -> list[Object]:
    """Every object of the chart, as Helm sends it. Raises ChartError."""
    yaml = YAML(typ="safe", pure=True)
    return [each for each in yaml.load_all(template(*arguments, namespace=namespace)) if each]


def template(
    *arguments: str,
    release: str = RELEASE,
    namespace: str = RELEASE,
    program: Path | None = None,
) -> str:
    """What `helm template` prints. Raises ChartError."""
    command = [str(program or helm()), "template", release, str(CHART), "--namespace", namespace]
    with tempfile.TemporaryDirectory() as home:
        ended = subprocess.run(
            [*command, *arguments],
            env=environment(Path(home)),
            capture_output=True,
            text=True,
            check=False,
        )
    if ended.returncode:
        raise ChartError(ended.stderr)
    return ended.stdout


def rights(component: str, namespace: str | None, user: str) -> list[Object]:
    """The roles of a component in a namespace, or in the cluster, and their bindings to a user."""
    return [_bound(each, component, user) for each in _roles(component, namespace)]


@functools.cache
def _roles(component: str, namespace: str | None) -> tuple[Object, ...]:
    scope = "true" if namespace is None else "false"
    values = f"scope.clusterWide={scope},crds.install=false"
    objects = rendered("--set", values, namespace=namespace or "default")
    return tuple(
        each
        for each in objects
        if each["kind"] in _RIGHTS and each["metadata"]["labels"][_COMPONENT] == component
    )


def _bound(role: Object, component: str, user: str) -> Object:
    """A copy named after the user, so that several users do not share one."""

    def named(name: str) -> str:
        return name.replace(f"{RELEASE}-{component}", user)

    copy: dict[str, Any] = {**role, "metadata": {**role["metadata"]}}
    copy["metadata"]["name"] = named(role["metadata"]["name"])
    if "roleRef" in copy:
        copy["roleRef"] = {**role["roleRef"], "name": named(role["roleRef"]["name"])}
        group = role["roleRef"]["apiGroup"]
        copy["subjects"] = [{"apiGroup": group, "kind": "User", "name": user}]
    return copy
