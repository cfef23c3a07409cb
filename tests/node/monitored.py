"""Prometheus and Alertmanager beside the node, set up as docs/monitoring.md says."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cluster.alertmanager_server import alerting
from cluster.monitoring import MonitoringPrograms
from cluster.processes import Program
from cluster.prometheus_server import PrometheusServer
from node.cluster import RealCluster

PROMETHEUS_PORT, ALERTMANAGER_PORT = 9090, 9093


@contextlib.contextmanager
def monitored(
    real: RealCluster,
    programs: MonitoringPrograms,
    folder: Path,
    *,
    rules: str,
    webhook: str,
    token: Path,
) -> Iterator[PrometheusServer]:
    """Both in the cluster's network, until the end of the block; pods reach them at the node."""
    (folder / "rules.yaml").write_text(rules)
    file = folder / "prometheus.yml"
    file.write_text(json.dumps(_config(real, folder)))
    server = PrometheusServer(f"http://{real.address}:{PROMETHEUS_PORT}")
    command = [
        *(str(programs.prometheus), f"--config.file={file}"),
        *(f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=:{PROMETHEUS_PORT}"),
    ]
    program = Program(real.inside(command), folder / "prometheus.log")
    with alerting(
        programs,
        folder,
        port=ALERTMANAGER_PORT,
        webhook=webhook,
        token=token,
        address=real.address,
        launcher=real.inside([]),
    ):
        program.start()
        try:
            program.wait(server.ready)
            yield server
        finally:
            program.stop()


def _config(real: RealCluster, folder: Path) -> dict[str, Any]:
    every = {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "2s"}
    pod = "__meta_kubernetes_pod"
    job = {
        "job_name": "splitpool",
        "honor_labels": True,
        "kubernetes_sd_configs": [{"role": "pod", "kubeconfig_file": str(real.kubeconfig)}],
        "relabel_configs": [
            {
                "source_labels": [
                    f"{pod}_label_app_kubernetes_io_name",
                    f"{pod}_container_port_name",
                ],
                "regex": "splitpool-(operator;metrics|router;http|worker;http)",
                "action": "keep",
            }
        ],
    }
    manager = f"{real.address}:{ALERTMANAGER_PORT}"
    return {
        "global": every,
        "scrape_configs": [job],
        "rule_files": [str(folder / "rules.yaml")],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [manager]}]}]},
    }
