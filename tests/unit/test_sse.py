"""The bytes of server-sent events, as clients split them."""

from splitpool_worker.api import sse


def test_an_event_is_its_number_one_line_of_data_and_a_blank_line() -> None:
    assert sse.event(7, b'{"a":1}') == b'id: 7\ndata: {"a":1}\n\n'


def test_done_is_an_event_with_a_number() -> None:
    assert sse.done(9) == b"id: 9\ndata: [DONE]\n\n"


def test_an_error_has_no_number() -> None:
    assert sse.error(b"{}") == b"data: {}\n\n"


def test_comments_end_with_one_newline_and_no_blank_line() -> None:
    line = sse.timing({"parse": 0.001, "queue": 1.5})

    assert line == b": splitpool-timing parse=0.001000 queue=1.500000\n"
    assert sse.PING == b": ping\n"


def test_server_timing_counts_milliseconds() -> None:
    assert (
        sse.server_timing({"parse": 0.001, "queue": 1.5}) == "parse;dur=1.000, queue;dur=1500.000"
    )
