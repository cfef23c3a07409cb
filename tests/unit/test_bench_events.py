import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from splitpool_bench.events import EventSplitter, transcribe


def event(body: object) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def completion(text: str, finish_reason: str | None = None) -> bytes:
    return event({"choices": [{"index": 0, "text": text, "finish_reason": finish_reason}]})


STREAM = (
    b"id: 0\n"
    + completion("Hel")
    + b": ping\nid: 1\n"
    + completion("lo", "length")
    + event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
    + b"data: [DONE]\n\n"
)


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_however_the_bytes_arrive_the_events_are_the_same(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    splitter = EventSplitter()

    pieces = [STREAM[a:b] for a, b in itertools.pairwise(edges)]
    events = [data for piece in pieces for data in splitter.feed(piece)]

    assert events == EventSplitter().feed(STREAM)
    assert events[-1] == b"[DONE]"


def test_tokens_are_counted_by_usage_and_by_events() -> None:
    transcript = transcribe([(1.0, STREAM)])

    assert "".join(transcript.text) == "Hello"
    assert transcript.content_times == [1.0, 1.0]
    assert transcript.usage == {"prompt_tokens": 3, "completion_tokens": 4}
    assert transcript.finish_reason == "length"
    assert transcript.done


def test_an_event_has_the_time_of_the_bytes_that_complete_it() -> None:
    first = completion("a")

    transcript = transcribe([(1.0, first[:9]), (2.0, first[9:]), (3.0, completion("b"))])

    assert transcript.content_times == [2.0, 3.0]


def test_a_chunk_that_only_names_the_role_is_no_token() -> None:
    role = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
    word = event({"choices": [{"index": 0, "delta": {"content": "Hi"}}]})

    assert transcribe([(1.0, role), (2.0, word)]).content_times == [2.0]


def test_an_error_event_is_reported_by_its_code() -> None:
    lost = event({"error": {"code": "worker_lost", "message": "the worker died"}})

    transcript = transcribe([(1.0, completion("a") + lost)])

    assert transcript.error == "worker_lost"
    assert not transcript.done


@given(cuts=st.lists(st.integers(0, 2 * len(STREAM)), max_size=8))
def test_lines_may_end_with_crlf_wherever_the_bytes_are_cut(cuts: list[int]) -> None:
    stream = STREAM.replace(b"\n", b"\r\n")
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    splitter = EventSplitter()

    events = [d for a, b in itertools.pairwise(edges) for d in splitter.feed(stream[a:b])]

    assert events == EventSplitter().feed(STREAM)


def test_what_is_no_json_is_an_error_and_no_token() -> None:
    transcript = transcribe([(1.0, b"data: <html>\n\n")])

    assert transcript.error == "unreadable event"
    assert transcript.content_times == []


def test_what_a_model_thinks_aloud_is_made_of_tokens() -> None:
    thought = event({"choices": [{"index": 0, "delta": {"reasoning_content": "Hm"}}]})

    assert transcribe([(1.0, thought)]).content_times == [1.0]
