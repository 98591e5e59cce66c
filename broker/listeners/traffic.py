"""Traffic counters of a node's listeners: plain integers, updated once for each chunk of input or output."""

from __future__ import annotations

from collections.abc import Iterator


class Traffic:
    """Counters since the start of the node. Bytes are those of MQTT or WebSocket, without TLS."""

    __slots__ = (
        "bytes_received",
        "bytes_sent",
        "connections_refused",
        "proxy_protocol_error",
        "socket_close",
        "socket_close_timeout",
        "socket_error",
        "socket_open",
        "tls_handshake_error",
        "websocket_error",
    )

    def __init__(self) -> None:
        self.socket_open = 0
        self.socket_close = 0
        self.socket_close_timeout = 0
        """Connections that did not end within `CLOSE_BOUND_S` and were aborted."""
        self.socket_error = 0
        self.bytes_received = 0
        self.bytes_sent = 0
        self.connections_refused = 0
        """Connections refused by a listener's `max_connections` or by the limit of file descriptors."""
        self.proxy_protocol_error = 0
        self.tls_handshake_error = 0
        self.websocket_error = 0
        """Refused upgrades, and WebSocket connections whose peer broke the rules."""

    def rows(self) -> Iterator[tuple[str, int]]:
        """(metric, value), in a fixed order."""
        for name in self.__slots__:
            yield name, getattr(self, name)
