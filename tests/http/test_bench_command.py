"""`splitpool bench` against servers that speak the OpenAI protocol, as somebody types it."""

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fakes.fake_worker import FakeWorker
from fakes.openai_server import OpenAiServer
from fakes.router_rig import rig
from splitpool import exits, main
from splitpool_bench.measuring import session
from splitpool_operator.local import refusals

SHORT = ("--input", "5-9", "--output", "3", "--warm-up", "2")
FAST = ("--rate", "500", "--requests", "20", *SHORT)
SPLITPOOL = (sys.executable, "-c", "from splitpool.main import main; main()")


async def bench(*arguments: str) -> int:
    """In a thread, since the command has an event loop of its own; the exit status."""

    def typed() -> int:
        with pytest.raises(SystemExit) as ended:
            main.main(["bench", *arguments])
        return int(ended.value.code or 0)

    return await asyncio.to_thread(typed)


async def measured(path: Path, server: OpenAiServer, *arguments: str) -> dict[str, Any]:
    """The JSON of a measurement that succeeds."""
    async with server.running():
        assert await bench(server.url, *arguments, "--json", str(path)) == 0
    return read(path)


def read(path: Path) -> dict[str, Any]:
    """What was written."""
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def figures(document: dict[str, Any], point: int = 0) -> dict[str, Any]:
    """All requests of the first class of a point."""
    found: dict[str, Any] = document["servers"][0]["points"][point]["classes"][0]
    return found


async def test_an_open_loop_counts_every_request_and_its_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = OpenAiServer()
    found = figures(await measured(tmp_path / "r.json", server, *FAST))

    assert (found["requests"], found["succeeded"], found["failed"]) == (20, 20, 0)
    assert (found["output_tokens"], found["events"]) == (60, 60)
    assert found["ttft"]["count"] == 20
    assert found["ttft"]["p99_interval"][0] <= found["ttft"]["p99"]
    said = capsys.readouterr()
    assert "poisson, 500/s (open loop)" in said.out
    assert "poisson, 500/s: 20/20" in said.err


async def test_prompts_have_the_lengths_that_were_asked_for(tmp_path: Path) -> None:
    server = OpenAiServer()
    document = await measured(tmp_path / "r.json", server, *FAST)

    requests = document["servers"][0]["points"][0]["requests"]
    assert document["servers"][0]["tokens_counted_by"] == "tokenizer"
    assert {each["input"] for each in requests} <= set(range(5, 10))
    assert len({each["input"] for each in requests}) > 1


async def test_no_prompt_is_sent_twice_though_lengths_and_arrivals_repeat(tmp_path: Path) -> None:
    server = OpenAiServer()
    twice = [await measured(tmp_path / "r.json", server, *FAST) for _ in range(2)]

    first, second = (each["servers"][0]["points"][0]["requests"] for each in twice)
    assert [each["input"] for each in first] == [each["input"] for each in second]
    long_ones = [body["prompt"] for body in server.asked if len(body["prompt"].split()) >= 4]
    assert len(set(long_ones)) == len(long_ones)


async def test_tokens_are_counted_by_usage_where_events_gather_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = OpenAiServer(tokens_per_event=3, newline=b"\r\n")
    found = figures(await measured(tmp_path / "r.json", server, *FAST))

    assert (found["output_tokens"], found["events"]) == (60, 20)
    assert "3.0 tokens came in one event" in capsys.readouterr().out


async def test_without_usage_and_tokenizer_events_are_counted_and_the_report_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = OpenAiServer(usage=False, tokenizer=False)
    document = await measured(tmp_path / "r.json", server, *FAST)

    assert document["servers"][0]["tokens_counted_by"] == "bytes"
    assert figures(document)["output_tokens"] == 60
    out = capsys.readouterr().out
    assert "20 answers came without usage" in out
    assert "lengths of prompts are estimates" in out


async def test_a_server_that_only_chats_is_measured_as_a_chat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = OpenAiServer(chats_only=True, tokenizer=False)
    async with server.running():
        assert await bench(server.url, *FAST) == refusals.EXIT_FAILED
    assert "needs --endpoint chat" in capsys.readouterr().err

    document = await measured(tmp_path / "r.json", server, *FAST, "--endpoint", "chat")

    assert document["servers"][0]["tokens_counted_by"] == "usage"
    assert figures(document)["succeeded"] == 20


async def test_a_closed_loop_is_labelled_as_one(tmp_path: Path) -> None:
    document = await measured(
        tmp_path / "r.json", OpenAiServer(), "--users", "4", "--requests", "12", *SHORT
    )

    point = document["servers"][0]["points"][0]
    assert (point["loop"], point["offered_rate"]) == ("closed", None)
    assert figures(document)["succeeded"] == 12


async def test_a_capacity_curve_has_a_point_for_each_rate(tmp_path: Path) -> None:
    document = await measured(
        tmp_path / "r.json", OpenAiServer(), "--rates", "200,400", "--seconds", "0.05", *SHORT
    )

    points = document["servers"][0]["points"]
    assert [point["offered_rate"] for point in points] == [200, 400]
    assert [len(point["requests"]) for point in points] == [10, 20]


async def test_a_trace_is_replayed_with_its_classes_and_lengths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(
        '{"at": 9.01, "input": 6, "output": 2, "class": "batch"}\n'
        '{"at": 9.0, "input": 5, "output": 4}\n'
    )
    document = await measured(
        tmp_path / "r.json", OpenAiServer(), "--trace", str(trace), "--warm-up", "1"
    )

    requests = document["servers"][0]["points"][0]["requests"]
    assert [(r["class"], r["input"], r["output"]) for r in requests] == [
        ("interactive", 5, 4),
        ("batch", 6, 2),
    ]
    assert capsys.readouterr().out.startswith(f"2 requests of {trace};")


async def test_requests_of_the_other_class_run_beside(tmp_path: Path) -> None:
    server = OpenAiServer()
    beside = ("--beside", "2", "--other-input", "40", "--other-output", "2")
    document = await measured(tmp_path / "r.json", server, *FAST, *beside)

    classes = document["servers"][0]["points"][0]["classes"]
    others = document["servers"][0]["points"][0]["beside"]
    assert {each["latency_class"] for each in classes} == {"interactive"}
    assert {(each["class"], each["input"]) for each in others} == {("batch", 40)}


async def test_goodput_is_the_highest_rate_within_targets_or_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # One request of constant arrivals starts at once, whatever the rate.
    search = ("--goodput", "--arrivals", "constant", "--requests", "1", *SHORT)
    server = OpenAiServer()
    async with server.running():
        status = await bench(server.url, *search, "--ttft-p99", "0.0001")

    assert status == refusals.EXIT_FAILED
    assert "goodput: none" in capsys.readouterr().out


async def test_two_servers_are_measured_in_turns_with_the_same_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "BETWEEN_SERVERS", 0.0)
    a, b = OpenAiServer(models=("a",)), OpenAiServer(models=("b",))
    path, page = tmp_path / "r.json", tmp_path / "r.html"
    async with a.running(), b.running():
        given = ("--compare", a.url, b.url, "--repeats", "3", *FAST)
        assert await bench(*given, "--json", str(path), "--html", str(page)) == 0

    first, second = read(path)["servers"]
    assert (
        [p["seed"] for p in first["points"]] == [p["seed"] for p in second["points"]] == [1, 2, 3]
    )
    inputs = [[r["input"] for p in s["points"] for r in p["requests"]] for s in (first, second)]
    assert inputs[0] == inputs[1]
    assert "verdict: " in capsys.readouterr().out
    assert "A against B" in page.read_text()


async def test_names_are_shown_as_they_are_on_the_page(tmp_path: Path) -> None:
    trace, page = tmp_path / "<b>$x$.jsonl", tmp_path / "r.html"
    trace.write_text('{"at": 0, "input": 5, "output": 2}')
    async with rig(tmp_path, FakeWorker()) as found:
        assert await bench(found.url, "--trace", str(trace), "--html", str(page)) == 0

    text = page.read_text()
    assert "<b>$x$" not in text
    assert "trace &lt;b&gt;$x$.jsonl" in text


async def test_the_page_needs_no_script_and_nothing_from_elsewhere(tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    async with OpenAiServer().running() as server:
        assert await bench(server.url, *FAST, "--html", str(page)) == 0

    text = page.read_text()
    assert text.count("<svg") == text.count("</svg>") >= 1
    for outside in ("<script", "<link", "<img", " src=", "@import", "url(http"):
        assert outside not in text


async def test_the_routers_parts_of_ttft_stand_in_the_report(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    worker = FakeWorker()
    worker.script.delays = {"prefill": 0.01}
    async with rig(tmp_path, worker) as found:
        status = await bench(found.url, "--rate", "100", "--requests", "10", "--json", str(path))

    assert status == 0
    (served,) = read(path)["servers"][0]["points"][0]["served"]
    assert served["comparable"]
    assert served["served"]["count"] == served["count"] == 10
    assert served["served"]["parts"]["prefill"] == pytest.approx(0.01)
    assert served["served"]["parts"].keys() == {
        *("receive", "parse", "tokenise", "queue", "prefill", "detokenise"),
        *("transport", "write", "retry"),
    }


async def test_refused_requests_are_counted_apart_and_their_reason_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with OpenAiServer(fail_after=40).running() as server:
        assert await bench(server.url, "--rate", "500", "--requests", "40", *SHORT) == 0

    out = capsys.readouterr().out
    assert "of 40 requests failed: http 429" in out
    assert "the first said: the queue is full" in out


CANNOT: Sequence[tuple[OpenAiServer, tuple[str, ...], str]] = (
    (OpenAiServer(models=()), (), "say which with --model"),
    (OpenAiServer(models=("a", "b")), (), "serves a, b; choose one with --model"),
    (OpenAiServer(), ("--model", "c"), "serves no model 'c'; it has tiny"),
    (OpenAiServer(key="s3cret"), (), "name the variable that holds it with --api-key-env"),
    (OpenAiServer(knows_ignore_eos=False), (), "add --stop-early"),
    (OpenAiServer(fail_after=0), (), "http 429: the queue is full"),
    (OpenAiServer(), ("--input", "1"), "ask for longer prompts with --input"),
)


@pytest.mark.parametrize(("server", "arguments", "said"), CANNOT)
async def test_a_server_that_cannot_be_measured_is_one_sentence_with_a_remedy(
    server: OpenAiServer,
    arguments: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with server.running():
        status = await bench(server.url, *arguments)

    assert status == refusals.EXIT_FAILED
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err


async def test_a_key_is_taken_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "s3cret")
    path = tmp_path / "r.json"

    await measured(path, OpenAiServer(key="s3cret"), *FAST, "--api-key-env", "MY_KEY")

    assert "s3cret" not in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name the server: splitpool bench http://127.0.0.1:8080"),
        (("ftp://a",), "only http and https are spoken here"),
        (("a", "--goodput"), "--ttft-p99 MS, --tpot-p99 MS or both"),
        (("a", "--compare", "b", "c"), "leave out a"),
        (("--compare", "b", "c", "--rates", "1,2"), "--compare takes one load"),
        (("a", "--trace", "/nowhere/t"), "/nowhere/t: cannot be read"),
        (("a", "--shared-prefix", "32"), "leaves no word of its own"),
        (("a", "--rate", "0"), "must be more than 0"),
        (("a", "--input", "9-3"), "write 128, or 32-512 for a range"),
        (("a", "--repeats", "2"), "must be 3 or more"),
        (("a", "--rate", "1", "--users", "2"), "not allowed with argument"),
        (("a", "--api-key-env", "NO_SUCH_KEY"), "export NO_SUCH_KEY=KEY first"),
    ],
)
async def test_wrong_usage_is_told_with_its_remedy(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await bench(*arguments) == refusals.EXIT_BAD_FILE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--json", "--html"])
async def test_a_report_that_could_not_be_written_is_told_before_anything_is_measured(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = OpenAiServer()
    async with server.running():
        for path, said in ((tmp_path / "no" / "r", "there is no folder"), (tmp_path, "a folder")):
            assert await bench(server.url, option, str(path)) == refusals.EXIT_NOT_WRITABLE
            assert said in capsys.readouterr().err

    assert server.asked == []


async def test_a_server_that_is_not_there_is_told_with_a_remedy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert await bench("127.0.0.1:1") == refusals.EXIT_FAILED
    assert "does not answer" in capsys.readouterr().err


async def test_ctrl_c_reports_the_points_that_were_whole(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    # A request as the server was found, two of warm-up, two of the first rate; the next are held.
    rates = ("--rates", "500,400", "--requests", "2")
    async with OpenAiServer(hold_after=5).running() as server:
        process = await asyncio.create_subprocess_exec(
            *(*SPLITPOOL, "bench", server.url, *rates, *SHORT, "--json", str(path)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        await asyncio.wait_for(server.held.wait(), 60)
        process.send_signal(signal.SIGINT)
        out, _ = await asyncio.wait_for(process.communicate(), 60)

    assert process.returncode == exits.INTERRUPTED
    assert "interrupted" in out.decode()
    document = read(path)
    assert document["interrupted"]
    assert len(document["servers"][0]["points"]) == 1
