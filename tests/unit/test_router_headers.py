"""Headers: what crosses the router and what never does."""

import pytest
from multidict import CIMultiDict

from splitpool_router.forwarding import headers as h

SECRETS = ["Authorization", "Cookie", "X-Api-Key", "Proxy-Authorization", "X-Amz-Security-Token"]


@pytest.mark.parametrize("name", SECRETS)
def test_a_credential_never_reaches_a_worker(name: str) -> None:
    sent = h.upstream(CIMultiDict({name: "secret", "Content-Type": "a/b"}), forward=(), ours={})
    assert "secret" not in sent.values()
    assert sent["Content-Type"] == "a/b"


def test_a_pool_can_forward_a_header_by_name() -> None:
    headers = CIMultiDict({"Authorization": "Bearer x", "Cookie": "c"})
    sent = h.upstream(headers, forward=("authorization",), ours={})
    assert sent["Authorization"] == "Bearer x"
    assert "Cookie" not in sent


def test_our_own_headers_from_a_client_are_stripped() -> None:
    headers = CIMultiDict({"X-Splitpool-Caller": "root", "x-splitpool-token": "t"})
    sent = h.upstream(headers, forward=("X-Splitpool-Token",), ours={h.CALLER: "me"})
    assert sent.getall(h.CALLER) == ["me"]
    assert h.TOKEN not in sent


def test_hop_by_hop_headers_and_those_that_connection_lists_stay_here() -> None:
    headers = CIMultiDict(
        [("Connection", "keep-alive, TraceParent"), ("Connection", "Accept"), ("TE", "trailers")]
    )
    headers.update({"Traceparent": "00", "Accept": "x", "Tracestate": "s"})
    sent = h.upstream(headers, forward=("te",), ours={})
    assert set(sent) == {"Tracestate", "Accept-Encoding"}


def test_a_worker_keeps_its_identity_framing_and_times_to_itself() -> None:
    head = CIMultiDict(
        {
            "Server": "x",
            "Date": "y",
            "Content-Length": "5",
            "Transfer-Encoding": "chunked",
            "Server-Timing": "queue;dur=1",
            "Access-Control-Allow-Origin": "*",
            "Retry-After": "3",
        }
    )
    assert h.downstream(head, ours={"X-Request-Id": "r"}) == {
        "Retry-After": "3",
        "X-Request-Id": "r",
    }


def test_repeated_headers_of_a_worker_stay_repeated() -> None:
    head = CIMultiDict([("Link", "a"), ("Link", "b")])
    assert h.downstream(head, ours={}).getall("Link") == ["a", "b"]


@pytest.mark.parametrize("own", ["a", "req_1.2-3", "x" * 128])
def test_a_well_formed_request_id_is_kept(own: str) -> None:
    assert h.request_id({h.REQUEST_ID: own}) == (own, True)


@pytest.mark.parametrize("own", ["", "x" * 129, "a b", "ä", "a\nb", "../x"])
def test_any_other_request_id_is_replaced(own: str) -> None:
    made, is_own = h.request_id({h.REQUEST_ID: own})
    assert not is_own
    assert made != own
    assert len(made) == 32
