"""A real Prometheus of a test: it scrapes what it is told to and answers queries.

with scraping(programs, folder, [Target("router", "127.0.0.1:8080")]) as server:
    server.query("up")
"""

import contextlib
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.monitoring import MonitoringPrograms
from cluster.processes import Program, free_ports

_ASK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Target:
    """What is scraped at /metrics of an address, and the labels that its series get."""

    job: str
    address: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One series of an answer, without its name, and its value now."""

    labels: Mapping[str, str]
    value: float


class BadQuery(Exception):
    """Prometheus refuses a query; the message is its own."""


class PrometheusServer:
    """The server at an address of the loopback."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ready(self) -> bool:
        """Whether it answers queries."""
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=_ASK_SECONDS) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def query(self, expression: str) -> list[Sample]:
        """The value of an expression now. Raises BadQuery."""
        result = self._ask("query", query=expression)["result"]
        return [
            Sample(
                labels={key: text for key, text in each["metric"].items() if key != "__name__"},
                value=float(each["value"][1]),
            )
            for each in result
        ]

    def parsed(self, expression: str) -> dict[str, Any]:
        """The tree of an expression, as Prometheus reads it. Raises BadQuery."""
        tree: dict[str, Any] = self._ask("parse_query", query=expression)
        return tree

    def _ask(self, path: str, **query: str) -> Any:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=_ASK_SECONDS) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise BadQuery(error.read().decode()) from error


@contextlib.contextmanager
def scraping(
    programs: MonitoringPrograms,
    folder: Path,
    targets: Sequence[Target],
    *,
    seconds: int = 1,
    rules: str | None = None,
    alertmanager: str | None = None,
    port: int | None = None,
) -> Iterator[PrometheusServer]:
    """A server that scrapes every so many seconds, until the end of the block.

    rules: a file of rules, evaluated as often; alertmanager: the address that gets its alerts;
    port: where it listens, if that has to be known before.
    """
    port = port or free_ports(1)[0]
    config = _config(targets, seconds) | _alerting(folder, rules, alertmanager)
    file = folder / "prometheus.yml"
    file.write_text(json.dumps(config))
    server = PrometheusServer(f"http://127.0.0.1:{port}")
    command = [
        *(str(programs.prometheus), f"--config.file={file}"),
        *(f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}"),
    ]
    program = Program(command, folder / "prometheus.log")
    program.start()
    try:
        program.wait(server.ready)
        yield server
    finally:
        program.stop()


def _config(targets: Sequence[Target], seconds: int) -> dict[str, Any]:
    every = f"{seconds}s"
    jobs = [
        {
            "job_name": job,
            # The series name the pool that they are about, and its namespace.
            "honor_labels": True,
            "static_configs": [
                {"targets": [each.address], "labels": dict(each.labels)}
                for each in targets
                if each.job == job
            ],
        }
        for job in dict.fromkeys(each.job for each in targets)
    ]
    timing = {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every}
    return {"global": timing, "scrape_configs": jobs}


def _alerting(folder: Path, rules: str | None, alertmanager: str | None) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if rules is not None:
        (folder / "rules.yaml").write_text(rules)
        result["rule_files"] = [str(folder / "rules.yaml")]
    if alertmanager is not None:
        managers = [{"static_configs": [{"targets": [alertmanager]}]}]
        result["alerting"] = {"alertmanagers": managers}
    return result
