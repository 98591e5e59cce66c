"""The HTTP request that opens a WebSocket: its limits, its checks, and the headers of trusted proxies.

`websockets` does the handshake itself (RFC 6455 section 4). This module reads the request head before it, because
`websockets` (15.0) has fixed limits (8192 bytes a line, 128 headers) and answers a wrong request by closing the
connection, without an HTTP status. Larger limits of a listener have no effect.
"""

from __future__ import annotations

import ipaddress
from http import HTTPStatus

import msgspec

from ...configs import ListenerSettings
from .proxy_protocol import plain_host

PATH = "/mqtt"
SUBPROTOCOLS = ("mqtt", "mqttv3.1")
_LINE = 8190
_HEADERS = 128
_HEAD_VALUES = 16
"""A whole head may be as long as its request line and this many of the longest values."""


class UpgradeError(Exception):
    """The request is refused with this status; the text is the body of the answer."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class Head(msgspec.Struct, frozen=True):
    """A request head whose limits, method, version and path are in order. Header names are in lower case."""

    path: str
    headers: tuple[tuple[str, str], ...]

    def values(self, name: str) -> list[str]:
        """All values of a header, in their order."""
        return [value for key, value in self.headers if key == name.lower()]


def complete_head(data: bytes | bytearray, settings: ListenerSettings) -> int:
    """The size of the head once it is complete, else 0. Raises `UpgradeError` when it grows beyond the limits."""
    line_limit = min(settings.max_request_line_length, _LINE)
    line = data.find(b"\r\n", 0, line_limit + 2)
    if line < 0 and len(data) >= line_limit + 2:
        raise UpgradeError(HTTPStatus.REQUEST_URI_TOO_LONG, f"the request line is longer than {line_limit} bytes")
    limit = line_limit + _HEAD_VALUES * settings.max_header_value_length
    end = data.find(b"\r\n\r\n", 0, limit + 4)
    if end < 0 and len(data) >= limit + 4:
        raise UpgradeError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the headers are longer than {limit} bytes")
    return end + 4 if end >= 0 else 0


def parse_head(data: bytes, settings: ListenerSettings) -> Head:
    """Parse and check a complete head. Raises `UpgradeError`."""
    first, *lines = data.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/"):
        raise UpgradeError(HTTPStatus.BAD_REQUEST, "this is not an HTTP request")
    method, target, version = words
    if version != "HTTP/1.1":
        raise UpgradeError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "a WebSocket is opened with HTTP/1.1")
    if method != "GET":
        raise UpgradeError(HTTPStatus.METHOD_NOT_ALLOWED, "a WebSocket is opened with GET")
    path = target.partition("?")[0]
    if path != PATH:
        raise UpgradeError(HTTPStatus.NOT_FOUND, f"MQTT over WebSocket is at {PATH}")
    if len(lines) > _HEADERS:
        raise UpgradeError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"more than {_HEADERS} headers")
    return Head(path, tuple(_header(line, settings.max_header_value_length) for line in lines))


def _header(line: str, limit: int) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name or name != name.strip():
        raise UpgradeError(HTTPStatus.BAD_REQUEST, "a line of the headers is malformed")
    value = value.strip(" \t")
    if len(value) > limit or len(line) > _LINE:
        raise UpgradeError(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the value of {name[:80]} is longer than {limit} bytes"
        )
    return name.lower(), value


class Forwarded(msgspec.Struct, frozen=True):
    """The client's address and name from headers of trusted proxies; None if missing."""

    host: str | None = None
    port: int = 0
    common_name: str | None = None


def forwarded(head: Head, peer_host: str, settings: ListenerSettings) -> Forwarded:
    """The client behind the proxies of `proxy_xff_trusted_intermediate`; empty if the peer is not one of them.

    Each proxy appends the address of its caller to X-Forwarded-For. So the client is the last address that is not a
    trusted proxy's; the client itself may have written all earlier ones.
    """
    trusted = settings.proxy_xff_trusted_intermediate
    if not settings.proxy_xff_support or peer_host not in trusted:
        return Forwarded()
    common_name = None
    if settings.proxy_xff_use_cn_as_username:
        names = head.values(settings.proxy_xff_cn_header)
        common_name = names[-1] if names and names[-1] else None
    host: str | None = None
    port = 0
    for text in reversed(",".join(head.values("x-forwarded-for")).split(",")):
        found = _address(text.strip())
        if found is None:
            break
        host, port = found
        if host not in trusted:
            break
    return Forwarded(host, port, common_name)


def _address(text: str) -> tuple[str, int] | None:
    """(host, port) of `1.2.3.4`, `1.2.3.4:5`, `::1`, `[::1]` or `[::1]:5`; the port is 0 if it is not given."""
    port = ""
    if text.startswith("["):
        text, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        text, _, port = text.partition(":")
    try:
        return plain_host(ipaddress.ip_address(text)), int(port) if port.isascii() and port.isdigit() else 0
    except ValueError:
        return None
