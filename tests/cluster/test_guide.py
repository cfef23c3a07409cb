"""The guide's commands, run page by page as a reader would, and links that lead somewhere."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cluster.api import ApiError, eventually
from cluster.control_plane import ADMIN, ControlPlane, running
from cluster.doc_blocks import DOCS, Block, blocks, guide
from cluster.fake_nodes import KUBELET, playing
from cluster.helm import CHART
from cluster.nodes import gpu_device
from cluster.others import keda_crd, monitoring_crd
from cluster.processes import Program
from cluster.releases import deployment, program
from cluster.shell import Shell
from unit.golden import ROOT

BLOCKS = [*guide()]
INSTALL = [*blocks("install")]
# Nodes of the tests run no router that could be asked.
HERE = {"--router": None, "--health-port": "0"}


class Reader:
    """Somebody who follows the guide in a shell, on a cluster with GPUs."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self._shell = Shell(folder, plane.kubeconfig(ADMIN, groups=["system:masters"]))
        self._operator: Program | None = None

    def run(self, block: Block) -> None:
        """Type a block, and see it succeed."""
        status, said = self._shell.type(block)
        said += self._operator.last_words() if self._operator else ""
        assert status == 0, f"{block.name}\n{block.text}{said}"
        self._operate()

    def _operate(self) -> None:
        """While the chart is there, what its Deployment would start runs here."""
        try:
            found = deployment(self.plane.admin, "splitpool", "operator")
        except ApiError:
            self.leave()
            return
        if self._operator is None or not self._operator.running:
            self._operator = program(self.plane, found, HERE)
            self._operator.start()

    def leave(self) -> None:
        """Nothing goes on."""
        if self._operator is not None:
            self._operator.stop()
            self._operator = None


@pytest.fixture(scope="module")
def reader(
    binaries: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Reader]:
    """On a cluster with four GPUs and a slice, where nothing of the project is installed yet."""
    folder = tmp_path_factory.mktemp("guide")
    with running(binaries, folder) as plane:
        api = plane.api(KUBELET, groups=["system:masters"])
        with playing(api) as nodes:
            nodes.add("gpu-0", devices=[gpu_device(f"gpu-{n}", "80Gi") for n in range(4)])
            nodes.add("mig-0", {"nvidia.com/mig-3g.40gb": "1"})
            for each in (STORAGE, *OTHERS):
                plane.admin.apply(each)
            made = Reader(plane, folder / "reader")
            try:
                yield made
            finally:
                made.leave()


# What the pages say of them is for clusters that have them.
OTHERS = (keda_crd(), monitoring_crd("PodMonitor"), monitoring_crd("PrometheusRule"))
STORAGE = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "models"},
    "spec": {
        "capacity": {"storage": "40Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "none", "volumeHandle": "models"},
    },
}


def runnable(found: list[Block]) -> pytest.MarkDecorator:
    """In the page's order."""
    chosen = [each for each in found if not each.on_a_node]
    return pytest.mark.parametrize("block", chosen, ids=[each.name for each in chosen])


@runnable(BLOCKS)
def test_the_guide_can_be_followed(reader: Reader, block: Block) -> None:
    reader.run(block)


def test_nothing_is_left_at_the_end(reader: Reader) -> None:
    admin = reader.plane.admin

    def left() -> set[str]:
        crds = admin.listed("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        spaces = admin.listed("v1", "Namespace")
        found = {each["metadata"]["name"] for each in (*crds, *spaces)}
        return found & {"inferencepools.splitpool.dev", "splitpool"}

    eventually(lambda: not left(), "CustomResourceDefinition and namespace are gone")


@runnable(INSTALL)
def test_the_page_about_installing_can_be_followed(reader: Reader, block: Block) -> None:
    reader.run(block)


def test_links_lead_somewhere() -> None:
    pages = (ROOT / "README.md", CHART / "README.md", *DOCS.rglob("*.md"))
    lost = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert lost == []
