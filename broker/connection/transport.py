"""The port between the MQTT protocol machine of a client and its transport: a socket, TLS or a WebSocket."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ...configs import ListenerSettings


class ClientTransport(Protocol):
    """The transport of a `ClientConnection`. No method raises; on a closed transport methods do nothing.

    Bytes are sent in the order of `write`. After `close` or `abort` the transport accepts and receives nothing more. It
    calls `ConnectionPort.lost` exactly once at its end, whatever the cause.
    """

    def write(self, data: bytes, /) -> None:
        """Send bytes; they are buffered without bound, `ConnectionPort.writable(False)` says when to stop."""
        ...

    def close(self) -> None:
        """Send the written bytes, then close. After `CLOSE_BOUND_S` a peer that does not read loses the rest."""
        ...

    def abort(self) -> None:
        """Close at once; unsent bytes are lost."""
        ...

    @property
    def gone_for(self) -> str:
        """The reason for which the peer has ended the connection, while bytes that came before that wait here; else
        ""."""
        ...

    def pause_reading(self) -> None:
        """Receive nothing until `resume_reading`; full socket buffers then stop the peer. Idempotent."""
        ...

    def resume_reading(self) -> None:
        """Receive again. Idempotent."""
        ...

    def accepted(self) -> None:
        """The client is accepted: lift the limit on the size of frames from unaccepted clients."""
        ...

    def watch_silence(self, limit_ms: int, /) -> bool:
        """The client has its CONNACK: report its silence for `limit_ms`, 0 for never.

        Returns False if the transport cannot tell silence from a pause of this node's input: then the core measures it.
        """
        ...

    def hand_over(self, port: ConnectionPort, /) -> None:
        """From now on call this port in place of the present one. Does nothing on a closed transport."""
        ...


PEER_CLOSED = "peer_closed"
"""The reason when the peer has closed the connection, not reset it: it has sent all that it wanted to send."""

CLOSE_BOUND_S = 5.0
"""Seconds that a connection may take to send the rest and to end, after `ClientTransport.close`."""


class ConnectionPort(Protocol):
    """The calls of a transport to the core above it."""

    def receive(self, data: bytes, /) -> None:
        """The transport received bytes of MQTT. Packets may be cut anywhere."""
        ...

    def lost(self, reason: str, /) -> None:
        """The transport is closed. This is called exactly once, as the last call."""
        ...

    def writable(self, flag: bool, /) -> None:
        """The transport's buffer is above its high mark (False), or below its low mark again (True)."""
        ...


class ConnectionOrigin(msgspec.Struct):
    """The origin of a client connection: peer, listener and transport.

    `peer_host` and `peer_port` are the client's, from a trusted proxy if there is one; for a unix socket ("local", 0).
    `username` is set only from a verified client certificate, or by a proxy that the listener trusts. `tls` has
    `version`, `cipher`, `subject` (its only common name or None) and, if the listener forwards connection options,
    `certificate` (DER or None). `transport` is tcp, ssl, ws, wss or unix. `gateway` is the node that has the socket, ""
    for this one. `registered_in` is the epoch of the slot in which this node registered the client id itself, None if
    it did not.
    """

    peer_host: str
    peer_port: int
    listener: ListenerSettings
    username: str | None = None
    tls: dict[str, Any] | None = None
    transport: str = "tcp"
    gateway: str = ""
    registered_in: int | None = None

    def connection_options(self) -> dict[str, Any]:
        """Return the options for authentication plugins (`forward_connection_opts`), named as in VerneMQ's webhooks."""
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
