"""Measure splitpool and the peers that are installed, in turns, and write docs/benchmarks.md.

Every finished measurement is kept; run again, it measures only what is missing.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from peers import page, plots
from peers.figures import by_server, rate
from peers.fleet import DidNotStart, Fleet
from peers.measuring import measured
from peers.place import ROOT, Place, cache
from peers.processes import ended_by_signals, give_priority
from peers.results import Key, Results
from peers.servers import Server, servers
from peers.versions import commit, version
from peers.workloads import ONLINE, SHARE_OF_PEER, WORKLOADS, Workload, minutes
from splitpool_bench.measuring.target import CannotMeasure

SHORT_REQUESTS = 1000


class Run:
    """One run: which measurements it has, in which order, and what became of them."""

    def __init__(self, given: argparse.Namespace, fleet: Fleet, results: Results) -> None:
        self._given = given
        self._fleet = fleet
        self._results = results
        self._broken: set[str] = set()
        self.failures: list[str] = []

    def workload(self, workload: Workload, chosen: Sequence[Server]) -> None:
        """All repeats in turns: every server once, then every server again."""
        offered = self._rate(chosen) if workload in ONLINE else 0.0
        if offered is None:
            self.failures.append(f"{workload}: no peer has a W2 to take the rate from; give --rate")
            return
        for repeat in range(self._repeats(workload, offered)):
            for server in chosen if repeat % 2 == 0 else reversed(chosen):
                if workload in server.workloads and server.name not in self._broken:
                    key = Key(workload=workload, repeat=repeat, server=server.name)
                    self._one(server, key, offered)

    def _one(self, server: Server, key: Key, offered: float) -> None:
        if self._results.has(key, offered):
            return
        try:
            url = self._fleet.only(server.name)
            document = measured(server, url, key.workload, key.repeat, offered)
        except (DidNotStart, CannotMeasure) as error:
            self._broken.add(server.name)
            self.failures.append(f"{server.title}: {error}")
            self._fleet.drop(server.name)
            return
        document |= {"version": version(server), "rate": offered, "commit": commit()}
        self._results.write(key, document)

    def _repeats(self, workload: Workload, offered: float) -> int:
        if workload not in ONLINE:
            return 3 if self._given.quick else int(self._given.repeats)
        return 1 if self._given.quick else minutes(offered, self._given.requests)

    def _rate(self, chosen: Sequence[Server]) -> float | None:
        """Of W4 and W5; once it is known it stays, so that a run taken up again fits."""
        plan = self._results.plan()
        if self._given.rate:
            self._results.set_plan({"rate": self._given.rate, "rate_from": "--rate"})
        elif "rate" not in plan:
            peers = [each.name for each in servers(Place(root=cache())) if not each.own]
            found = rate(by_server(self._results.all()), peers, SHARE_OF_PEER)
            if found is None:
                return None
            self._results.set_plan({"rate": found[0], "rate_from": found[1]})
        return float(self._results.plan()["rate"])


def main() -> int:
    """Measure what is missing, write the page; 1 where something could not be measured."""
    given = _parse()
    results = Results(given.results)
    place = Place(root=cache())
    chosen = _chosen(given, servers(place))
    for key in _again(given, chosen):
        results.forget(key)

    def make(name: str, port: str) -> Server:
        return next(each for each in servers(place, port) if each.name == name)

    failures: list[str] = []
    interrupted = False
    if not given.page_only:
        try:
            with ended_by_signals(), Fleet(make, results.folder / "logs", given.nice) as fleet:
                if given.nice is not None:
                    give_priority(os.getpid(), given.nice)
                run = Run(given, fleet, results)
                failures = run.failures
                for workload in given.workloads:
                    run.workload(workload, chosen)
        except KeyboardInterrupt:
            interrupted = True
    for said in failures:
        print(f"! {said}", file=sys.stderr)
    _write(results, given.docs)
    if interrupted:
        print("interrupted; what is finished is kept: run it again to go on", file=sys.stderr)
        return 130
    return 1 if failures else 0


def _write(results: Results, docs: Path) -> None:
    documents = results.all()
    if not documents:
        print("nothing was measured", file=sys.stderr)
        return
    known = servers(Place(root=cache()))
    docs.mkdir(parents=True, exist_ok=True)
    (docs / "benchmarks.svg").write_text(plots.plot(by_server(documents), known))
    (docs / "benchmarks.md").write_text(page.page(documents, known, results.plan()))
    print(f"wrote {docs / 'benchmarks.md'}", file=sys.stderr)


def _chosen(given: argparse.Namespace, known: Sequence[Server]) -> list[Server]:
    """Those that were asked for and can start; says of the others what helps."""
    chosen = [each for each in known if not given.only or each.name in given.only]
    for each in chosen:
        if each.missing:
            print(f"left out: {each.missing}", file=sys.stderr)
    return [each for each in chosen if not each.missing]


def _again(given: argparse.Namespace, chosen: Sequence[Server]) -> list[Key]:
    if not given.again:
        return []
    return [
        Key(workload=workload, repeat=repeat, server=server.name)
        for workload in given.workloads
        for server in chosen
        for repeat in range(1000)
    ]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [each.name for each in servers(Place(root=cache()))]
    add = parser.add_argument
    add("--only", nargs="+", metavar="SERVER", choices=names, help=", ".join(names))
    add("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    add("--quick", action="store_true", help="3 repeats; W4 and W5 of one minute each")
    add("--repeats", type=int, default=5, help="of W1, W2 and W3 (%(default)s)")
    requests = "short ones of W4 and W5 for each server (%(default)s)"
    add("--requests", type=int, default=SHORT_REQUESTS, help=requests)
    add("--rate", type=float, help="requests a second of W4 and W5 (default: from the peers' W2)")
    add("--again", action="store_true", help="measure anew what --only and --workloads name")
    add("--nice", type=int, help="priority of servers and load generator, such as -15 as root")
    add("--page-only", action="store_true", help="write the page from what was measured")
    add("--results", type=Path, default=cache() / "results", help="folder (%(default)s)")
    add("--docs", type=Path, default=ROOT / "docs", help="where the page goes (%(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
