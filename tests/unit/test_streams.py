"""Who may read which stream from where, for how long, and within how much memory."""

import pytest

from splitpool_worker.api.errors import ApiError
from splitpool_worker.api.ring import (
    EVENT_OVERHEAD_BYTES,
    MAX_UNREAD_BYTES,
    Event,
    NotThere,
    Position,
    StreamGone,
)
from splitpool_worker.api.streams import Duplicate, NothingLeft, Reader, Registry, Stream

WINDOW = 30.0


class Source:
    """What makes a stream's events, as far as streams know."""

    def __init__(self) -> None:
        self.orphan: bool | None = None

    def set_orphan(self, orphan: bool) -> None:
        self.orphan = orphan

    def fail(self, error: ApiError) -> None:
        raise AssertionError("streams end nothing by themselves")


def registry(*, ring_bytes: int = 1 << 20, total_bytes: int = 1 << 24) -> Registry:
    return Registry(window=WINDOW, ring_bytes=ring_bytes, total_bytes=total_bytes)


def opened(streams: Registry, *, resumable: bool = True, request_id: str = "mine") -> Stream:
    return streams.open(
        id=f"00000000-{request_id}", owner="me", request_id=request_id, resumable=resumable
    )


def fill(stream: Stream, count: int, *, end: bool = True) -> None:
    """Event number n carries token n + 1."""
    for seq in range(count):
        stream.append(Event(data=b"%d" % seq, tokens=seq + 1))
    if end:
        stream.end(0.0)


def attach(stream: Stream, position: Position | None = None) -> Reader:
    return stream.attach(position or Position(), lambda: None)


def taken(reader: Reader) -> list[bytes]:
    data = []
    while (item := reader.take()) is not None:
        data.append(item[1])
    return data


def test_a_reader_gets_every_event_once_while_they_come() -> None:
    stream = opened(registry())
    reader = attach(stream)
    fill(stream, 2, end=False)

    assert taken(reader) == [b"0", b"1"]
    assert taken(reader) == []
    assert not reader.finished
    stream.append(Event(data=b"2"))
    stream.end(1.0)

    assert taken(reader) == [b"2"]
    assert reader.finished


@pytest.mark.parametrize("cut", range(-1, 5))
def test_reading_goes_on_after_any_event_number(cut: int) -> None:
    stream = opened(registry())
    fill(stream, 6)

    position = stream.position(after=None if cut < 0 else cut, received=None)

    assert taken(attach(stream, position)) == [b"%d" % seq for seq in range(cut + 1, 6)]


def test_nothing_is_left_after_the_last_event() -> None:
    stream = opened(registry())
    fill(stream, 3)

    with pytest.raises(NothingLeft):
        stream.position(after=2, received=None)


def test_the_last_event_of_a_live_stream_is_not_the_end() -> None:
    stream = opened(registry())
    fill(stream, 3, end=False)

    assert stream.position(after=2, received=None) == Position(seq=3)


def test_how_a_stream_failed_is_left_even_after_its_last_event() -> None:
    stream = opened(registry())
    fill(stream, 3, end=False)
    stream.end(1.0, b"data: broken\n\n")

    assert stream.position(after=2, received=None) == Position(seq=3)
    assert stream.failed == b"data: broken\n\n"


def test_a_reader_cannot_be_ahead_of_its_stream() -> None:
    stream = opened(registry())
    fill(stream, 3)

    with pytest.raises(NotThere):
        stream.position(after=3, received=None)
    with pytest.raises(NotThere):
        stream.position(after=None, received=4)


def test_reading_goes_on_inside_an_event_with_its_rest() -> None:
    stream = opened(registry())
    stream.append(Event(data=b"role"))
    stream.append(
        Event(data=b"abc", tokens=3, rest=lambda received: b"abc"[received:]),
    )
    stream.append(Event(data=b"d", tokens=4))
    stream.append(Event(data=b"done", tokens=4))
    stream.end(0.0)

    def after(received: int) -> list[bytes]:
        return taken(attach(stream, stream.position(after=None, received=received)))

    assert after(0) == [b"role", b"abc", b"d", b"done"]
    assert after(1) == [b"bc", b"d", b"done"]
    assert after(2) == [b"c", b"d", b"done"]
    assert after(3) == [b"d", b"done"]
    assert after(4) == [b"done"]


def test_of_event_number_and_tokens_the_further_one_counts() -> None:
    stream = opened(registry())
    fill(stream, 6)

    assert stream.position(after=3, received=2) == Position(seq=4)
    assert stream.position(after=1, received=4) == Position(seq=4)


def test_a_small_ring_keeps_the_newest_events_and_says_when_older_ones_are_asked_for() -> None:
    stream = opened(registry(ring_bytes=3 * (EVENT_OVERHEAD_BYTES + 1)))
    fill(stream, 6)

    assert taken(attach(stream, stream.position(after=2, received=None))) == [b"3", b"4", b"5"]
    assert taken(attach(stream, stream.position(after=None, received=3))) == [b"3", b"4", b"5"]
    for after, received in ((1, None), (None, 2), (None, None)):
        with pytest.raises(StreamGone):
            stream.position(after=after, received=received)


def test_a_ring_never_holds_more_bytes_than_its_limit() -> None:
    limit = 10 * EVENT_OVERHEAD_BYTES
    stream = opened(registry(ring_bytes=limit))
    for size in range(0, 2000, 7):
        stream.append(Event(data=bytes(size)))
        assert stream.ring.bytes <= limit


def test_a_small_ring_takes_nothing_from_a_reader_that_is_a_little_behind() -> None:
    limit = 2 * (EVENT_OVERHEAD_BYTES + 2)
    stream = opened(registry(ring_bytes=limit))
    reader = attach(stream)
    fill(stream, 50)

    assert len(taken(reader)) == 50
    assert stream.ring.bytes <= limit


def test_a_reader_that_is_far_too_slow_learns_it() -> None:
    stream = opened(registry(ring_bytes=4096))
    reader = attach(stream)
    for _ in range(17):
        stream.append(Event(data=bytes(64 * 1024)))

    assert stream.ring.bytes <= MAX_UNREAD_BYTES
    assert stream.overrun
    with pytest.raises(StreamGone):
        reader.take()


def test_what_cannot_be_resumed_is_not_kept_once_it_was_read() -> None:
    stream = opened(registry(), resumable=False)
    reader = attach(stream)
    fill(stream, 5)
    taken(reader)

    assert stream.ring.bytes == 0


def test_a_second_reader_replaces_the_first_which_is_told() -> None:
    stream = opened(registry())
    told: list[str] = []
    first = stream.attach(Position(), lambda: told.append("first"))
    second = attach(stream)

    assert told == ["first"]
    assert first.replaced
    assert not second.replaced


def test_the_first_reader_leaving_late_does_not_count_as_a_disconnect() -> None:
    stream = opened(registry())
    first, second = attach(stream), attach(stream)

    assert not stream.detach(first, 1.0)
    assert stream.expires_at(WINDOW) is None
    assert stream.detach(second, 2.0)
    assert stream.expires_at(WINDOW) == 2.0 + WINDOW


def test_the_window_runs_from_the_disconnect_or_from_the_end_whichever_is_later() -> None:
    streams = registry()
    stream = opened(streams)
    stream.detach(attach(stream), 10.0)
    assert stream.expires_at(WINDOW) == 40.0

    stream.end(25.0)
    assert stream.expires_at(WINDOW) == 55.0

    stream.detach(attach(stream), 50.0)
    assert stream.expires_at(WINDOW) == 80.0
    assert streams.sweep(79.9) == []
    assert streams.find(stream.id, "me") is stream
    streams.sweep(80.0)
    assert streams.find(stream.id, "me") is None


def test_a_stream_that_still_runs_when_its_window_closes_is_to_be_aborted() -> None:
    streams = registry()
    stream = opened(streams)
    stream.detach(attach(stream), 10.0)

    assert streams.sweep(40.0) == [stream]


def test_no_window_closes_while_somebody_reads() -> None:
    streams = registry()
    stream = opened(streams)
    attach(stream)

    assert streams.sweep(1e9) == []


def test_the_engine_learns_who_is_an_orphan() -> None:
    stream, source = opened(registry()), Source()
    stream.source = source

    reader = attach(stream)
    assert source.orphan is False
    stream.detach(reader, 1.0)
    assert source.orphan is True
    attach(stream)
    assert source.orphan is False


def test_a_stream_is_found_by_its_id_or_by_its_callers_request_id_and_by_nobody_else() -> None:
    streams = registry()
    stream = opened(streams)

    assert streams.find(stream.id, "me") is stream
    assert streams.find("mine", "me") is stream
    assert streams.find(stream.id, "other") is None
    assert streams.find("mine", "other") is None
    assert streams.find("unknown", "me") is None


def test_a_live_request_id_cannot_be_used_again_by_its_caller() -> None:
    streams = registry()
    stream = opened(streams)

    with pytest.raises(Duplicate):
        opened(streams)
    streams.open(id="theirs", owner="other", request_id="mine", resumable=True)

    stream.end(1.0)
    again = streams.open(id="again", owner="me", request_id="mine", resumable=True)
    assert streams.find("mine", "me") is again
    assert streams.find(stream.id, "me") is stream


def test_a_deleted_stream_keeps_no_events() -> None:
    stream = opened(registry())
    fill(stream, 3)

    stream.delete()

    assert stream.ring.bytes == 0


def test_ended_streams_nobody_reads_give_way_oldest_first_when_memory_runs_out() -> None:
    streams = registry(total_bytes=2 * (EVENT_OVERHEAD_BYTES + 1))
    kept = [opened(streams, request_id=str(number)) for number in range(3)]
    for number, stream in enumerate(kept):
        stream.append(Event(data=b"x"))
        stream.end(float(number))
        stream.detach(attach(stream), float(number))

    streams.sweep(5.0)

    assert [streams.find(stream.id, "me") for stream in kept] == [None, kept[1], kept[2]]
    assert streams.bytes <= streams.total_bytes
