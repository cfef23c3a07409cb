"""A real Alertmanager of a test: it calls one webhook, at once, as the documentation says."""

import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from cluster.monitoring import MonitoringPrograms
from cluster.processes import Program


@contextlib.contextmanager
def alerting(
    programs: MonitoringPrograms,
    folder: Path,
    *,
    port: int,
    webhook: str,
    token: Path,
    address: str = "127.0.0.1",
    launcher: Sequence[str] = (),
) -> Iterator[None]:
    """One that listens on that port of an address, until the end of the block.

    launcher: what is put before its command.
    """
    authorization = {"type": "Bearer", "credentials_file": str(token)}
    hook = {
        "url": webhook,
        "send_resolved": True,
        "http_config": {"authorization": authorization},
    }
    route = {
        "receiver": "splitpool",
        "group_by": ["namespace", "pool"],
        "group_wait": "0s",
        "group_interval": "1s",
        "repeat_interval": "1m",
    }
    receivers = [{"name": "splitpool", "webhook_configs": [hook]}]
    file = folder / "alertmanager.yml"
    file.write_text(json.dumps({"route": route, "receivers": receivers}))
    command = [
        *launcher,
        *(str(programs.alertmanager), f"--config.file={file}"),
        *(f"--storage.path={folder / 'alertmanager'}", "--cluster.listen-address="),
        f"--web.listen-address={address}:{port}",
    ]
    program = Program(command, folder / "alertmanager.log")
    program.start()
    try:
        program.wait(lambda: _ready(f"{address}:{port}"))
        yield
    finally:
        program.stop()


def call_webhook(port: int, token: str, namespace: str, pool: str) -> int:
    """The status by which a webhook on loopback answers who calls as Alertmanager does."""
    labels = {"namespace": namespace, "pool": pool}
    body = json.dumps({"version": "4", "alerts": [{"labels": labels, "status": "firing"}]})
    url, named = f"http://127.0.0.1:{port}/alerts", {"Authorization": f"Bearer {token}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body.encode(), named)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def _ready(at: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{at}/-/ready", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
