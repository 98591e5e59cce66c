"""The port between the MQTT protocol machine of a client and its transport: a socket, TLS or a WebSocket."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ...configs import ListenerSettings


class ClientTransport(Protocol):
    """The transport of a `ClientConnection`. None of these fails; on a transport that is gone they do nothing.

    Bytes go out in the order of `write`. After `close` or `abort` nothing is written or received any more, and the end
    is reported by `ConnectionPort.lost` exactly once, for whatever cause.
    """

    def write(self, data: bytes, /) -> None:
        """Send bytes; they are buffered without bound, `ConnectionPort.writable(False)` says when to stop."""
        ...

    def close(self) -> None:
        """Send the written bytes, then close; a peer that does not read loses the rest after `CLOSE_BOUND_S`."""
        ...

    def abort(self) -> None:
        """Close at once; unsent bytes are lost."""
        ...

    def pause_reading(self) -> None:
        """Receive nothing until `resume_reading`; the peer is held back by its own full buffers. Idempotent."""
        ...

    def resume_reading(self) -> None:
        """Receive again. Idempotent."""
        ...

    def accepted(self) -> None:
        """The client is accepted: from now on it may send a lot at a time."""
        ...


CLOSE_BOUND_S = 5.0
"""Seconds that a connection may take to send the rest and to end, after `ClientTransport.close`."""


class ConnectionPort(Protocol):
    """The calls of a transport to the core above it."""

    def receive(self, data: bytes, /) -> None:
        """Bytes of MQTT, as they came, cut anywhere."""
        ...

    def lost(self, reason: str, /) -> None:
        """The connection is gone; called exactly once, and the last call."""
        ...

    def writable(self, flag: bool, /) -> None:
        """The connection's buffer is above its high mark (False), or below its low mark again (True)."""
        ...


class ConnectionOrigin(msgspec.Struct):
    """Where a connection came from.

    `peer_host` and `peer_port` are the client's, as a trusted proxy gave them where there is one; a unix socket's peer
    is ("local", 0). `username` is set only by something that vouches for it: a verified client certificate, or a proxy
    that the listener trusts. `tls` has `version`, `cipher`, `subject` (common name or None) and, if the listener
    forwards connection options, `certificate` (DER or None). `transport` is tcp, ssl, ws, wss or unix.
    """

    peer_host: str
    peer_port: int
    listener: ListenerSettings
    username: str | None = None
    tls: dict[str, Any] | None = None
    transport: str = "tcp"

    def connection_options(self) -> dict[str, Any]:
        """What `forward_connection_opts` gives to authentication plugins; names as in VerneMQ's webhooks."""
        listener = self.listener
        options: dict[str, Any] = {
            "listener_addr": listener.unix_path or listener.host,
            "listener_port": listener.port,
            "listener_type": listener.type,
        }
        if self.tls is not None:
            options["tls_version"] = self.tls["version"]
            options["tls_cipher"] = self.tls["cipher"]
            certificate = self.tls.get("certificate")
            if certificate is not None:
                options["client_cert"] = base64.b64encode(certificate).decode()
        return options


MakeConnection = Callable[[ClientTransport, ConnectionOrigin], ConnectionPort]
"""Makes the core of a new connection."""
