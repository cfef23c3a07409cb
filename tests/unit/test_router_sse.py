"""The scanners: nothing is lost however a stream is cut into chunks, and borders hold."""

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from splitpool_router.forwarding.sse import Borders, FirstContent, ended, failed, timing_line, usage

ROLE = b'id: 0\ndata: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n'
TIMING = b": splitpool-timing parse=0.001 queue=0.25 prefill=0.5\n"
PING = b": ping\n"
DONE = b"id: 9\ndata: [DONE]\n\n"


def token(text: str, number: int = 1) -> bytes:
    return (
        f"id: {number}\ndata: ".encode()
        + json.dumps({"choices": [{"delta": {"content": text}}]}).encode()
        + b"\n\n"
    )


STREAM = PING + ROLE + PING + PING + TIMING + token("a") + PING + token("b", 2) + DONE


def chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(st.lists(st.integers(0, 10_000), max_size=30))
def test_any_cutting_gives_the_stream_without_the_timing_line(cuts: list[int]) -> None:
    first, borders = FirstContent(), Borders()
    out = b"".join(borders.feed(first.feed(chunk)) for chunk in chunks(STREAM, cuts))
    assert out == STREAM.replace(TIMING, b"")
    assert first.times == {"parse": 0.001, "queue": 0.25, "prefill": 0.5}


@given(st.lists(st.integers(0, 10_000), max_size=30))
def test_the_client_is_at_an_event_border_after_every_chunk(cuts: list[int]) -> None:
    first, borders = FirstContent(), Borders()
    out = b""
    for chunk in chunks(STREAM, cuts):
        out += borders.feed(first.feed(chunk))
        after_last_event = out.rpartition(b"\n\n")[2]
        assert all(line == b": ping" for line in after_last_event.split(b"\n") if line)
        assert not after_last_event or after_last_event.endswith(b"\n")


def test_neither_a_ping_nor_the_role_is_the_first_content() -> None:
    first = FirstContent()
    first.feed(PING + ROLE + PING)
    assert not first.found
    first.feed(token("x"))
    assert first.found


def test_the_event_after_the_timing_line_is_the_first_even_without_text() -> None:
    first = FirstContent()
    first.feed(TIMING + token(""))
    assert first.found


def test_a_completion_text_a_tool_call_and_an_end_are_tokens_too() -> None:
    for choice in (
        {"text": "x"},
        {"delta": {"tool_calls": [{"index": 0}]}},
        {"delta": {"reasoning_content": "hm"}},
        {"delta": {}, "finish_reason": "stop"},
    ):
        first = FirstContent()
        first.feed(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
        assert first.found, choice


def test_an_error_event_is_no_token() -> None:
    first = FirstContent()
    first.feed(b'data: {"error": {"message": "x"}}\n\n' + b"data: nonsense\n\n" + b"data: [1]\n\n")
    assert not first.found


def test_a_line_without_end_is_not_held_for_ever() -> None:
    first, borders = FirstContent(), Borders()
    out = 0
    for _ in range(40):
        out += len(borders.feed(first.feed(b"x" * 2**16)))
    assert out >= 2**20


def test_a_broken_timing_line_gives_what_can_be_read() -> None:
    assert timing_line(b": splitpool-timing queue=abc prefill=0.5 x -=\xff parse=-1\n") == {
        "prefill": 0.5,
        "parse": 0.0,
    }


def test_the_end_is_told_from_text_that_looks_like_it() -> None:
    assert ended(token("x") + DONE)
    assert ended(b"data: [DONE]\n\n")
    assert not ended(token("\ndata: [DONE]\n\n"))
    error = b'data: {"error":{"message":"x"}}\n\n'
    assert ended(token("x") + error)
    assert failed(token("x") + error)
    assert not failed(token('\ndata: {"error":{}}'))


def test_usage_is_read_at_the_end_and_not_from_text() -> None:
    fake = json.dumps({"content": '"prompt_tokens": 5'}).encode()
    assert usage(fake) == {}
    assert usage(fake + b'{"usage":{"prompt_tokens":12,"completion_tokens": 3}}') == {
        "prompt_tokens": 12,
        "completion_tokens": 3,
    }
