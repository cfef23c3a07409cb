import itertools

from hypothesis import given
from hypothesis import strategies as st

from fakes.event_source import Event, Parser

STREAM = (
    b": a comment\n: ping\nid: 0\ndata: one\n\n"
    b"id: 1\r\ndata:two\r\ndata:  lines\r\n\r\n"
    b"event: ignored\rdata: caf\xc3\xa9\r\r"
    b"id: 3\n\n"
    b"data: [DONE]\n\n"
    b"data: unfinished\n"
)
EVENTS = [
    Event(data="one", last_event_id="0"),
    Event(data="two\n lines", last_event_id="1"),
    Event(data="café", last_event_id="1"),
    Event(data="[DONE]", last_event_id="3"),
]


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=6))
def test_however_the_bytes_arrive_the_events_are_those_of_the_standard(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    parser = Parser()

    events = [
        event
        for start, end in itertools.pairwise(edges)
        for event in parser.feed(STREAM[start:end])
    ]

    assert events == EVENTS


def test_an_id_with_a_null_is_ignored() -> None:
    parser = Parser("7")

    (event,) = parser.feed(b"id: \x00\ndata: x\n\n")

    assert event.last_event_id == "7"
