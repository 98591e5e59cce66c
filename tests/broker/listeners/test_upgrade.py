"""Heads of HTTP requests: limits, and which proxies are trusted for the address of the client."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.broker.listeners.upgrade import Forwarded, Head, UpgradeError, complete_head, forwarded, parse_head

from ...harness.listeners import tcp


def limits(line: int = 100, value: int = 50) -> Any:
    return tcp(type="ws", max_request_line_length=line, max_header_value_length=value)


def status_of(data: bytes, settings: Any) -> HTTPStatus | int:
    """Returns the status of the refusal, or the size of the head, or 0 if more bytes are needed."""
    try:
        size = complete_head(data, settings)
        if size:
            parse_head(data[:size], settings)
        return size
    except UpgradeError as error:
        assert error.detail
        return error.status


def test_limits_at_their_edges() -> None:
    line = b"GET /mqtt?" + b"x" * 81 + b" HTTP/1.1"
    assert len(line) == 100
    assert status_of(line + b"\r\n\r\n", limits()) == 104
    assert status_of(line, limits()) == 0
    assert status_of(b"x" + line + b"\r\n\r\n", limits()) == HTTPStatus.REQUEST_URI_TOO_LONG
    assert status_of(b"x" * 101, limits()) == 0
    assert status_of(b"x" * 102, limits()) == HTTPStatus.REQUEST_URI_TOO_LONG
    head = b"GET /mqtt HTTP/1.1\r\nName: %s\r\n\r\n"
    assert status_of(head % (b"v" * 50), limits()) == len(head % (b"v" * 50))
    assert status_of(head % (b"v" * 51), limits()) == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    assert status_of(head % (b"v" * 901), limits()) == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    assert status_of(b"GET /mqtt HTTP/1.1\r\n" + b"v" * 900, limits()) == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    many = b"GET /mqtt HTTP/1.1\r\n" + b"a: b\r\n" * 129 + b"\r\n"
    assert status_of(many, limits(8000, 4096)) == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE


@pytest.mark.parametrize("line", [b"no colon", b": no name", b"space : v", b" folded: v"])
def test_a_malformed_header(line: bytes) -> None:
    assert status_of(b"GET /mqtt HTTP/1.1\r\n" + line + b"\r\n\r\n", limits()) == HTTPStatus.BAD_REQUEST


@given(st.binary(max_size=400))
def test_any_bytes_are_a_head_or_a_refusal(data: bytes) -> None:
    status_of(data, limits())
    status_of(b"GET /mqtt HTTP/1.1\r\n" + data + b"\r\n\r\n", limits())


def seen(*values: str, peer: str = "10.0.0.1", **fields: Any) -> Forwarded:
    settings = tcp(
        type="ws",
        **{"proxy_xff_support": True, "proxy_xff_trusted_intermediate": ("10.0.0.1", "10.0.0.2", "::9"), **fields},
    )
    headers = [("x-forwarded-for", value) for value in values] + [("x-cn", "first"), ("x-cn", "client-7")]
    return forwarded(Head("/mqtt", tuple(headers)), peer, settings)


@pytest.mark.parametrize(
    ("values", "host", "port"),
    [
        (("192.0.2.7",), "192.0.2.7", 0),
        (("192.0.2.7:5678",), "192.0.2.7", 5678),
        (("[2001:db8::7]:5678",), "2001:db8::7", 5678),
        (("2001:db8::7",), "2001:db8::7", 0),
        (("[2001:db8::7]",), "2001:db8::7", 0),
        (("::ffff:192.0.2.7",), "192.0.2.7", 0),
        # claims of the client itself stand left of the address that the first trusted proxy saw
        (("6.6.6.6, 192.0.2.7, 10.0.0.2",), "192.0.2.7", 0),
        (("6.6.6.6", "192.0.2.7", "10.0.0.2, ::9"), "192.0.2.7", 0),
        (("10.0.0.2",), "10.0.0.2", 0),
        (("unknown, 10.0.0.2",), "10.0.0.2", 0),
        (("unknown",), None, 0),
        (("",), None, 0),
        ((), None, 0),
    ],
)
def test_the_client_is_the_last_that_is_not_a_trusted_proxy(
    values: tuple[str, ...], host: str | None, port: int
) -> None:
    found = seen(*values)
    assert (found.host, found.port) == (host, port)


def test_nothing_counts_unless_it_is_wanted_and_the_peer_is_trusted() -> None:
    named: dict[str, Any] = {"proxy_xff_use_cn_as_username": True, "proxy_xff_cn_header": "X-CN"}
    assert seen("1.2.3.4", **named) == Forwarded("1.2.3.4", 0, "client-7")
    assert seen("1.2.3.4").common_name is None
    assert seen("1.2.3.4", peer="10.0.0.3", **named) == Forwarded()
    assert seen("1.2.3.4", proxy_xff_support=False, **named) == Forwarded()
