"""docs/benchmarks.md is made of measurements alone."""

from pathlib import Path

import pytest

from peers import page, plots
from peers.figures import by_server
from peers.place import Place
from peers.results import Key, Results
from peers.servers import servers
from unit.peers_documents import document, request

KNOWN = servers(Place(root=Path("/nowhere")))
REQUESTS = [request(0.1 + n / 1000) for n in range(40)]
DOCUMENTS = [
    *(
        document("splitpool-bf16", "W2", REQUESTS, n, output_tokens_per_second=750 + n)
        for n in range(3)
    ),
    *(document("vllm", "W2", REQUESTS, n, output_tokens_per_second=500 + n) for n in range(3)),
    document("vllm", "W4", REQUESTS),
]


def test_a_bar_has_both_sides_their_ratio_and_a_verdict() -> None:
    text = page.page(DOCUMENTS, KNOWN, {})
    (row,) = [line for line in text.splitlines() if "W2 output" in line and "| bf16 |" in line]

    assert row.split(" | ")[2:] == [
        *("751", "501 (vLLM bf16)", "1.50", "1.50..1.50"),
        *("≥ 1.4", "**met** |"),
    ]


def test_figures_have_medians_and_spread() -> None:
    text = page.page(DOCUMENTS, KNOWN, {})
    section = text[text.index("### W2") : text.index("### W3")]

    assert "| vLLM bf16 | 120 | 501 [500..502] | 3 [3..3] |" in section


def test_what_was_not_measured_is_said() -> None:
    text = page.page(DOCUMENTS, KNOWN, {})

    assert "Not measured." in text[text.index("### W1") : text.index("### W2")]
    assert "not measured" in text[text.index("## Bars") : text.index("## Figures")]


def test_the_rate_and_where_it_comes_from_are_told() -> None:
    text = page.page(DOCUMENTS, KNOWN, {"rate": 2.345, "rate_from": "vllm"})

    assert "2.35 requests/s, from vllm's W2" in text or "2.34 requests/s, from vllm's W2" in text


def test_machine_and_commands_are_told_without_folders_of_the_machine() -> None:
    text = page.page(DOCUMENTS, KNOWN, {})

    assert "A CPU, 2 cores, 24.0 GiB; avx2" in text
    assert "`serve --port 8080`" in text
    assert "/home/someone" not in text


def test_the_plot_shows_who_was_measured() -> None:
    svg = plots.plot(by_server(DOCUMENTS), KNOWN)

    assert svg.startswith("<svg")
    assert "splitpool bf16, Shared" in svg
    assert "llama.cpp" not in svg


def test_a_run_is_taken_up_where_it_ended(tmp_path: Path) -> None:
    results = Results(tmp_path)
    key = Key(workload="W4", repeat=0, server="vllm")
    results.write(key, document("vllm", "W4", REQUESTS) | {"rate": 2.0})

    assert results.has(key, 2.0)
    assert not results.has(key, 1.0)  # measured at another rate: no part of this run
    assert not results.has(Key(workload="W4", repeat=1, server="vllm"), 2.0)
    results.forget(key)
    assert not results.has(key, 2.0)


@pytest.mark.parametrize("server", [each for each in KNOWN if not each.own], ids=lambda s: s.name)
def test_a_peer_that_is_not_installed_says_how_to(server: object) -> None:
    missing = next(each for each in KNOWN if each is server).missing

    assert missing is not None
    assert "make peers PEERS=" in missing
