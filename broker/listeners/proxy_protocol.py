"""The PROXY protocol, versions 1 and 2: the address of a client behind a proxy (HAProxy's proxy-protocol.txt).

`ProxyReader` takes bytes in pieces of any size and returns a `ProxyHeader`, or raises `ProxyError` with the reason. The
checksum extension of version 2 is skipped, not verified.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

import msgspec

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_V1 = b"PROXY "
_V1_LONGEST = 107
_SHORTEST = 15
"""Size in bytes of `PROXY UNKNOWN` with its line end."""
_V2_FIXED = 16
_PORT = re.compile(r"0|[1-9][0-9]{0,4}")

_UNSPEC, _INET, _INET6, _UNIX = range(4)
_ADDRESS_SIZES = {_UNSPEC: 0, _INET: 12, _INET6: 36, _UNIX: 216}
_DATAGRAM = 2
_TLV_SSL = 0x20
_SSL_VERSION, _SSL_CN, _SSL_CIPHER = 0x21, 0x22, 0x23
_CLIENT_SSL, _CLIENT_CERT = 0x01, 0x06
"""Bits of the SSL extension: connected over TLS; showed a certificate in this connection or in its TLS session."""


class ProxyError(Exception):
    """The connection does not begin with a valid header."""


class ProxyHeader(msgspec.Struct, frozen=True):
    """A proxy's information about the connection.

    `source` is (host, port). It is None if the proxy opened the connection for itself (LOCAL) or does not know the
    address (UNKNOWN, UNSPEC): then the connection's own address counts. For a unix socket it is ("local", 0).
    `common_name` is set only if the proxy has verified the certificate. `tls` has `version` and `cipher` if the client
    used TLS to the proxy.
    """

    source: tuple[str, int] | None = None
    common_name: str | None = None
    tls: dict[str, str | None] | None = None
    local: bool = False


class ProxyReader:
    """Reads one header at the beginning of a connection. `rest` has the bytes after it."""

    __slots__ = ("_buffer", "rest")

    def __init__(self) -> None:
        self._buffer = b""
        self.rest = b""

    @property
    def empty(self) -> bool:
        """True while no byte has arrived."""
        return not self._buffer

    @property
    def missing(self) -> int:
        """The least number of bytes until the header ends, at least 1: who reads no more leaves what follows unread."""
        data = self._buffer
        if len(data) < _SHORTEST:
            return _SHORTEST - len(data)
        if data[:1] == b"P":
            return 1 if data.endswith(b"\r") else 2
        if len(data) < _V2_FIXED:
            return _V2_FIXED - len(data)
        return _V2_FIXED + int.from_bytes(data[14:16], "big") - len(data)

    def feed(self, data: bytes) -> ProxyHeader | None:
        """The header once it is complete, else None. Raises `ProxyError`. Not to be called after either."""
        self._buffer += data
        found = parse_proxy_header(self._buffer)
        if found is None:
            return None
        header, size = found
        self.rest = self._buffer[size:]
        return header


def parse_proxy_header(data: bytes) -> tuple[ProxyHeader, int] | None:
    """(header, its size in bytes) at the begin of the data, None if more is needed. Raises `ProxyError`."""
    if data[:1] == b"P" or not data:
        return _parse_v1(data)
    return _parse_v2(data)


def _parse_v1(data: bytes) -> tuple[ProxyHeader, int] | None:
    if not _V1.startswith(data[: len(_V1)]):
        raise ProxyError("no PROXY header")
    end = data.find(b"\r\n", 0, _V1_LONGEST)
    if end < 0:
        if len(data) >= _V1_LONGEST:
            raise ProxyError(f"version 1: the line is longer than {_V1_LONGEST} bytes")
        return None
    try:
        words = data[:end].decode("ascii").split(" ")
    except UnicodeDecodeError:
        raise ProxyError("version 1: not ASCII") from None
    if words[1] == "UNKNOWN":
        return ProxyHeader(), end + 2
    if words[1] not in ("TCP4", "TCP6") or len(words) != 6:
        raise ProxyError("version 1: not PROXY TCP4|TCP6 SOURCE DESTINATION PORT PORT")
    kind = ipaddress.IPv4Address if words[1] == "TCP4" else ipaddress.IPv6Address
    try:
        source, _ = kind(words[2]), kind(words[3])
    except ValueError:
        raise ProxyError(f"version 1: not an address of {words[1]}") from None
    return ProxyHeader(source=(plain_host(source), _port_v1(words[4], words[5]))), end + 2


def _port_v1(source: str, destination: str) -> int:
    for text in (source, destination):
        if _PORT.fullmatch(text) is None or int(text) > 65535:
            raise ProxyError("version 1: not a port")
    return int(source)


def plain_host(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """An address as text; an IPv4 address that is mapped into IPv6 as IPv4."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def unmapped(host: str) -> str:
    """An IPv4 peer of an IPv6 socket under its IPv4 address."""
    return host[7:] if host.startswith("::ffff:") and "." in host else host


def _parse_v2(data: bytes) -> tuple[ProxyHeader, int] | None:
    if not SIGNATURE.startswith(data[: len(SIGNATURE)]):
        raise ProxyError("no PROXY header")
    if len(data) < _V2_FIXED:
        return None
    command, family = data[12], data[13]
    if command >> 4 != 2 or command & 15 > 1:
        raise ProxyError(f"version 2: unknown version and command 0x{command:02x}")
    if family >> 4 not in _ADDRESS_SIZES or family & 15 > _DATAGRAM:
        raise ProxyError(f"version 2: unknown address family and transport 0x{family:02x}")
    size = _V2_FIXED + int.from_bytes(data[14:16], "big")
    if len(data) < size:
        return None
    if command & 15 == 0:
        return ProxyHeader(local=True), size
    return _proxied(family, data[_V2_FIXED:size]), size


def _proxied(family: int, body: bytes) -> ProxyHeader:
    kind = family >> 4
    if kind == _UNSPEC or family & 15 == 0:
        return ProxyHeader()
    if family & 15 == _DATAGRAM:
        raise ProxyError("version 2: a datagram connection")
    size = _ADDRESS_SIZES[kind]
    if len(body) < size:
        raise ProxyError(f"version 2: {len(body)} bytes for an address of {size}")
    source: tuple[str, int]
    if kind == _INET:
        source = (str(ipaddress.IPv4Address(body[:4])), int.from_bytes(body[8:10], "big"))
    elif kind == _INET6:
        source = (plain_host(ipaddress.IPv6Address(body[:16])), int.from_bytes(body[32:34], "big"))
    else:
        source = ("local", 0)
    common_name = None
    tls = None
    for type_, value in _extensions(body[size:]):
        if type_ == _TLV_SSL:
            common_name, tls = _ssl(value)
    return ProxyHeader(source=source, common_name=common_name, tls=tls)


def _extensions(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The type-length-value triples (section 2.2 of the protocol's text)."""
    at = 0
    while at < len(data):
        if len(data) < at + 3:
            raise ProxyError("version 2: a truncated extension")
        end = at + 3 + int.from_bytes(data[at + 1 : at + 3], "big")
        if len(data) < end:
            raise ProxyError("version 2: a truncated extension")
        yield data[at], data[at + 3 : end]
        at = end


def _ssl(value: bytes) -> tuple[str | None, dict[str, str | None] | None]:
    """(verified common name, TLS facts) of the SSL extension (section 2.2.6 of the protocol's text)."""
    if len(value) < 5:
        raise ProxyError("version 2: a truncated SSL extension")
    if not value[0] & _CLIENT_SSL:
        return None, None
    try:
        texts = {
            type_: text.decode()
            for type_, text in _extensions(value[5:])
            if type_ in (_SSL_VERSION, _SSL_CN, _SSL_CIPHER)
        }
    except UnicodeDecodeError:
        raise ProxyError("version 2: the SSL extension is not UTF-8") from None
    # ignore an unverified name: it is only a claim of the client
    verified = value[0] & _CLIENT_CERT and value[1:5] == b"\0\0\0\0"
    common_name = texts.get(_SSL_CN) if verified else None
    return common_name or None, {"version": texts.get(_SSL_VERSION), "cipher": texts.get(_SSL_CIPHER)}
