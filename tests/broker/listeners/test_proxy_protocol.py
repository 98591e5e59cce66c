"""PROXY headers: accepted and refused ones, in any fragmentation."""

from __future__ import annotations

import ipaddress
import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.broker.listeners.proxy_protocol import SIGNATURE, ProxyError, ProxyHeader, ProxyReader, parse_proxy_header


def tlv(type_: int, value: bytes) -> bytes:
    return bytes([type_]) + struct.pack("!H", len(value)) + value


def v2(command: int = 0x21, family: int = 0x11, body: bytes = b"") -> bytes:
    return SIGNATURE + bytes([command, family]) + struct.pack("!H", len(body)) + body


INET = ipaddress.ip_address("192.0.2.7").packed + ipaddress.ip_address("192.0.2.1").packed + struct.pack("!HH", 5678, 1)
INET6 = ipaddress.ip_address("2001:db8::7").packed + bytes(16) + struct.pack("!HH", 5678, 1883)


def ssl_tlv(client: int, verify: int, name: bytes = b"client-7") -> bytes:
    inner = tlv(0x21, b"TLSv1.3") + tlv(0x22, name) + tlv(0x23, b"AES128")
    return tlv(0x20, bytes([client]) + struct.pack("!I", verify) + inner)


GOOD = [
    (b"PROXY TCP4 192.0.2.7 192.0.2.1 5678 1883\r\n", ProxyHeader(source=("192.0.2.7", 5678))),
    (b"PROXY TCP6 2001:db8::7 ::1 0 65535\r\n", ProxyHeader(source=("2001:db8::7", 0))),
    (b"PROXY TCP6 ::ffff:192.0.2.7 ::1 5 6\r\n", ProxyHeader(source=("192.0.2.7", 5))),
    (b"PROXY UNKNOWN\r\n", ProxyHeader()),
    (b"PROXY UNKNOWN whatever it says\r\n", ProxyHeader()),
    (v2(body=INET), ProxyHeader(source=("192.0.2.7", 5678))),
    (v2(family=0x21, body=INET6), ProxyHeader(source=("2001:db8::7", 5678))),
    (v2(family=0x31, body=b"/tmp/x".ljust(216, b"\0")), ProxyHeader(source=("local", 0))),
    (v2(family=0x00, body=b"ignored"), ProxyHeader()),
    (v2(family=0x10, body=INET), ProxyHeader()),
    (v2(command=0x20), ProxyHeader(local=True)),
    (v2(command=0x20, family=0, body=b"\xff" * 9), ProxyHeader(local=True)),
    (v2(body=INET + tlv(0x02, b"example.org") + tlv(0xEA, b"")), ProxyHeader(source=("192.0.2.7", 5678))),
    (
        v2(body=INET + ssl_tlv(0x07, 0)),
        ProxyHeader(source=("192.0.2.7", 5678), common_name="client-7", tls={"version": "TLSv1.3", "cipher": "AES128"}),
    ),
    (v2(body=INET + ssl_tlv(0x00, 0)), ProxyHeader(source=("192.0.2.7", 5678))),
]


@pytest.mark.parametrize(("data", "header"), GOOD)
def test_a_header_and_the_bytes_behind_it(data: bytes, header: ProxyHeader) -> None:
    reader = ProxyReader()
    assert reader.empty
    assert reader.feed(data + b"\x10rest") == header
    assert reader.rest == b"\x10rest"


@pytest.mark.parametrize(("client", "verify"), [(0x07, 1), (0x01, 0)])
def test_a_name_that_the_proxy_did_not_verify_is_not_taken(client: int, verify: int) -> None:
    found = parse_proxy_header(v2(body=INET + ssl_tlv(client, verify)))
    assert found is not None
    assert found[0].common_name is None
    assert found[0].tls is not None


BAD = [
    (b"\x10\x0c\0\4MQTT", "no PROXY header"),
    (b"GET / HTTP/1.1\r\n", "no PROXY header"),
    (b"PROXX", "no PROXY header"),
    (b"PROXY " + b"x" * 101, "longer than 107"),
    (b"PROXY TCP4 1.2.3.4\r\n", "not PROXY TCP4"),
    (b"PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n", "not PROXY TCP4"),
    (b"PROXY TCP4 ::1 ::1 1 2\r\n", "not an address of TCP4"),
    (b"PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n", "not an address of TCP6"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n", "not a port"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 +2\r\n", "not a port"),
    (b"PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n", "not a port"),
    (b"PROXY \xff\r\n", "not ASCII"),
    (v2(command=0x11), "unknown version"),
    (v2(command=0x22), "unknown version"),
    (v2(family=0x41), "unknown address family"),
    (v2(family=0x13), "unknown address family"),
    (v2(family=0x12, body=INET), "datagram"),
    (v2(body=INET[:11]), "11 bytes for an address of 12"),
    (v2(body=INET + b"\x02\x00"), "truncated extension"),
    (v2(body=INET + b"\x02\x00\x05abc"), "truncated extension"),
    (v2(body=INET + tlv(0x20, b"\x01\0\0")), "truncated SSL"),
    (v2(body=INET + ssl_tlv(0x07, 0, b"\xff")), "not UTF-8"),
]


@pytest.mark.parametrize(("data", "reason"), BAD)
def test_a_refusal_has_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(ProxyError, match=reason):
        ProxyReader().feed(data)


def outcome(chunks: list[bytes]) -> tuple[ProxyHeader | str | None, bytes]:
    """Returns the result for the chunks: a header with the bytes behind it, a refusal, or None for "more"."""
    reader = ProxyReader()
    for number, chunk in enumerate(chunks):
        try:
            header = reader.feed(chunk)
        except ProxyError as error:
            return str(error), b""
        if header is not None:
            return header, reader.rest + b"".join(chunks[number + 1 :])
    return None, b""


NEARLY = st.one_of(
    st.binary(max_size=300),
    st.sampled_from([data for data, _ in GOOD + BAD]).flatmap(
        lambda data: st.tuples(st.integers(0, len(data)), st.binary(max_size=8), st.integers(0, 8)).map(
            lambda edit: data[: edit[0]] + edit[1] + data[edit[0] + edit[2] :]
        )
    ),
    st.builds(v2, st.just(0x21), st.sampled_from([0x11, 0x21, 0x31]), st.binary(max_size=300)),
)


@given(data=NEARLY, cuts=st.lists(st.integers(0, 300), max_size=6))
def test_any_bytes_give_a_header_or_a_refusal_and_every_cut_the_same(data: bytes, cuts: list[int]) -> None:
    whole = outcome([data])
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    assert outcome([data[a:b] for a, b in itertools.pairwise(edges)]) == whole
    assert outcome([bytes([byte]) for byte in data]) == whole


@given(data=NEARLY, behind=st.binary(max_size=40))
def test_who_reads_only_what_is_missing_leaves_the_bytes_behind_the_header(data: bytes, behind: bytes) -> None:
    reader, at, stream = ProxyReader(), 0, data + behind
    whole, rest = outcome([stream])
    found: ProxyHeader | str | None = None
    while found is None and at < len(stream):
        assert reader.missing > 0
        piece = stream[at : at + reader.missing]
        at += len(piece)
        try:
            found = reader.feed(piece)
        except ProxyError as error:
            found = str(error)
    assert type(found) is type(whole)
    if isinstance(found, ProxyHeader):
        assert (found, reader.rest, stream[at:]) == (whole, b"", rest)
