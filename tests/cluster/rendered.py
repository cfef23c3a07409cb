"""Does the cluster hold exactly what `splitpool render` prints for a pool?"""

import subprocess
import sys
from pathlib import Path

from ruamel.yaml import YAML

from cluster.api import Object
from cluster.control_plane import ControlPlane
from cluster.watched_pool import WatchedPool
from splitpool_operator.declaration import plain_yaml

_SPLITPOOL = Path(sys.executable).parent / "splitpool"
_DIFF = ("diff", "--server-side", "--force-conflicts")


def rendered(declared: Object, namespace: str, folder: Path) -> str:
    """The manifests of a declared pool, for the image that the tests' operators name."""
    file = folder / "pool.yaml"
    kept = {key: declared[key] for key in ("apiVersion", "kind", "spec")}
    place = {"name": "assistant", "namespace": namespace}
    file.write_text(plain_yaml.dump(kept | {"metadata": place}))
    command = [str(_SPLITPOOL), "render", str(file), "--worker-image", "example.com/worker:1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_live(plane: ControlPlane, pool: WatchedPool, manifests: str) -> None:
    """Applying the manifests, by whom ever, would change nothing, and nothing else is there."""
    _assert_no_diff(plane, manifests)
    objects = list(YAML(typ="safe", pure=True).load_all(manifests))
    live = pool.children()
    assert {(each["kind"], each["metadata"]["name"]) for each in objects} == {*live}
    # Only a cluster knows the pool's uid.
    for each in objects:
        found = live[each["kind"], each["metadata"]["name"]]
        each["metadata"]["ownerReferences"] = found["metadata"]["ownerReferences"]
    _assert_no_diff(plane, plain_yaml.dump(*objects), "--field-manager=splitpool-operator")


def _assert_no_diff(plane: ControlPlane, manifests: str, *arguments: str) -> None:
    diff = plane.kubectl(*_DIFF, *arguments, "-f", "-", stdin=manifests)
    assert (diff.returncode, diff.stdout) == (0, ""), diff.stderr or diff.stdout
