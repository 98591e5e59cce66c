"""How gRPC is set up between nodes: channel options, and certificates when `listener.vmqs` is configured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]

from .certificates import CertificateError, Rules, read_revoked
from .wire import MAX_FRAME, TransportError

Options = list[tuple[str, int | str]]

PING_EVERY_MS = 1000
PING_TIMEOUT_MS = 700
"""A silent peer is noticed after about 1.7 s. Received data postpones the next ping: an acceptor, which reads more than
a frame a second, sends none. A dialer sends pings, because it receives little on its stream."""

OPTIONS: Options = [
    ("grpc.keepalive_time_ms", PING_EVERY_MS),
    ("grpc.keepalive_timeout_ms", PING_TIMEOUT_MS),
    # Without this one a stopped process is noticed after 60 s only (measured, grpcio 1.85).
    ("grpc.http2.ping_timeout_ms", PING_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 200),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Time limit for connecting: enough for TCP and TLS over a path of 150 ms, or to a busy node.
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Each dial has a connection of its own, so that closing one harms no other.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    # The probe sends pings to size a window that only a fast sender needs: the acceptor sends little.
    ("grpc.http2.bdp_probe", 0),
    # Nodes connect directly, even if the environment names a proxy.
    ("grpc.enable_http_proxy", 0),
    # A port in use is an error; do not share it.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", MAX_FRAME),
    ("grpc.max_send_message_length", MAX_FRAME),
]
"""For both sides."""

HANDSHAKE_S = 3.0
"""Time limit until both ends have proven themselves and the hello or the call has arrived, in seconds."""

MAX_CONNECTIONS = 256
"""Limit of connections to the listening side. A peer has one, and another for each call that it makes."""

UNREAD_BYTES = 65535
"""Bytes that the listening side buffers for one stream of an unproven peer, at most."""

SERVER_OPTIONS: Options = [
    *OPTIONS,
    # An unproven peer sends only headers: this side reads no message before the proof, so it receives none of 64 MiB.
    ("grpc.max_metadata_size", 2048),
    ("grpc.absolute_max_metadata_size", 4096),
    ("grpc.max_concurrent_streams", 4),
    # Limit of bytes on a stream that is not read. Without a probe (above) gRPC keeps this limit, else it raises it to
    # 4 MiB. The limit does not delay a message that is being read.
    ("grpc.http2.lookahead_bytes", UNREAD_BYTES),
    ("grpc.max_allowed_incoming_connections", MAX_CONNECTIONS),
    ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_S * 1000)),
    # Close idle connections.
    ("grpc.max_connection_idle_ms", int(HANDSHAKE_S * 1000)),
]
"""For the listening side."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Mutual TLS: every node shows a certificate of the authorities in `cafile`.

    The certificate that a dialled node shows has to be valid for the host of its address, or for `name` when that is
    given (one certificate for all nodes). Both ends check the other's certificate by `names`, `fingerprints` and the
    revocation lists in `crlfile`, which is read again for each connection (`certificates.Rules`).
    """

    cafile: Path
    certfile: Path
    keyfile: Path
    name: str = ""
    names: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    crlfile: Path | None = None

    def server(self) -> Any:
        """Credentials of the listening side, which asks for the peer's certificate. Raises `TransportError`."""
        pair = (_read("keyfile", self.keyfile), _read("certfile", self.certfile))
        return grpc.ssl_server_credentials([pair], _read("cafile", self.cafile), require_client_auth=True)

    def channel(self, trusted: bytes | None = None) -> Any:
        """Credentials of the dialling side, which trusts the authorities in `cafile`, or only `trusted` (PEM).

        Raises `TransportError`.
        """
        key = _read("keyfile", self.keyfile)
        return grpc.ssl_channel_credentials(trusted or self.authorities(), key, _read("certfile", self.certfile))

    def authorities(self) -> bytes:
        """The authorities that sign certificates of nodes, as PEM. Raises `TransportError`."""
        return _read("cafile", self.cafile)

    def rules(self) -> Rules:
        """The rules for certificates of nodes; reads the files now. Raises `TransportError`."""
        if self.crlfile is None:
            return Rules(self.names, self.fingerprints)
        try:
            return Rules(self.names, self.fingerprints, read_revoked(_read("crlfile", self.crlfile)))
        except CertificateError as error:
            raise TransportError(f"crlfile {self.crlfile}: {error}") from error

    @property
    def options(self) -> Options:
        """Channel options for the dialling side."""
        return [("grpc.ssl_target_name_override", self.name)] if self.name else []


def _read(what: str, path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TransportError(f"{what} {path}: {error.strerror}") from error
    if b"-----BEGIN" not in data:
        raise TransportError(f"{what} {path}: this is not PEM")
    return data
