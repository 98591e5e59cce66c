"""Sends the alert of a failed TLS handshake to the client (RFC 8446 section 6.2, RFC 5246 section 7.2.2).

Event loops close the connection when a handshake fails, and drop the alert that OpenSSL has written. So the SSL object
sends the alert itself, before the loop sees the failure.
"""

from __future__ import annotations

import socket
import ssl
from contextvars import ContextVar
from typing import Any

handshake_socket: ContextVar[socket.socket | None] = ContextVar("handshake_socket", default=None)
"""The socket of the handshake that the current task starts."""


class AlertingObject(ssl.SSLObject):
    """One end of a TLS connection whose failed handshake sends its alert."""

    outgoing: ssl.MemoryBIO
    sock: socket.socket | None = None

    def do_handshake(self) -> None:
        """As `SSLObject.do_handshake`."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            self._send_alert()
            raise
        self.sock = None

    def _send_alert(self) -> None:
        alert, sock, self.sock = self.outgoing.read(), self.sock, None
        if alert and sock is not None:
            try:
                sock.send(alert)
            except OSError:
                # the client is gone or does not read: no alert is sent
                return


class AlertingContext(ssl.SSLContext):
    """A context whose handshakes, begun while `handshake_socket` is set, send their alerts there."""

    sslobject_class = AlertingObject

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **kwargs: Any) -> AlertingObject:
        """As `SSLContext.wrap_bio`."""
        made = super().wrap_bio(incoming, outgoing, *args, **kwargs)
        assert isinstance(made, AlertingObject)
        made.outgoing, made.sock = outgoing, handshake_socket.get()
        return made
