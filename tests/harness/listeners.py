"""For the tests of listeners: a small handler behind real sockets, on asyncio and on uvloop."""

from __future__ import annotations

import asyncio
import datetime
import socket
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from strogoff.broker.connection.transport import ClientTransport, ConnectionOrigin
from strogoff.broker.listeners.limiter import LimiterOptions
from strogoff.broker.listeners.listeners import Listeners
from strogoff.broker.reporting.log_line import Line
from strogoff.configs import ListenerSettings
from tests.harness.loop_errors import collect_loop_errors

both_loops = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


def run(test: Callable[[], Coroutine[Any, Any, None]], loop: str = "asyncio", complaint: str = "") -> None:
    """Run a coroutine on that kind of loop. Fails if the loop reports an exception other than `complaint`."""
    complaints: list[dict[str, Any]] = []

    async def bounded() -> None:
        collect_loop_errors(complaints)
        async with asyncio.timeout(30):
            await test()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if loop == "uvloop" else None) as runner:
        runner.run(bounded())
    assert [repr(each.get("exception")) for each in complaints] == ([complaint] if complaint else [])


class EchoConnection:
    """A handler that sends back its input. `quit` makes it close, `boom` abort, `raise` raise an error."""

    def __init__(self, harness: ListenerHarness, link: ClientTransport, origin: ConnectionOrigin) -> None:
        self.harness = harness
        self.link = link
        self.origin = origin
        self.received = b""
        self.reasons: list[str] = []
        self.flags: list[bool] = []

    def receive(self, data: bytes) -> None:
        assert type(data) is bytes
        self.received += data
        self.link.write(data)
        if self.received.endswith(b"quit"):
            self.link.close()
        elif self.received.endswith(b"boom"):
            self.link.abort()
        elif self.received.endswith(b"raise"):
            raise ValueError("raise")
        self.harness.changed.set()

    def lost(self, reason: str) -> None:
        self.reasons.append(reason)
        self.link.write(b"too late")
        self.link.close()
        self.harness.changed.set()

    def writable(self, flag: bool) -> None:
        self.flags.append(flag)
        self.harness.changed.set()


class ListenerHarness:
    """The listeners of a node, with an `EchoConnection` for each connection. `lines` is its log, `events` has the event
    of each line, or an empty string."""

    def __init__(self, **options: Any) -> None:
        self.lines: list[str] = []
        self.events: list[str] = []
        self.handlers: list[EchoConnection] = []
        self.changed = asyncio.Event()
        self.listeners = Listeners(self._log, LimiterOptions(**options))

    @property
    def traffic(self) -> Any:
        return self.listeners.traffic

    def _log(self, level: str, line: str) -> None:
        self.lines.append(f"{level} {line}")
        self.events.append(line.event if isinstance(line, Line) else "")
        self.changed.set()

    def make_handler(self, link: ClientTransport, origin: ConnectionOrigin) -> EchoConnection:
        handler = EchoConnection(self, link, origin)
        self.handlers.append(handler)
        self.changed.set()
        return handler

    async def open(self, *settings: ListenerSettings) -> int:
        """Open these listeners. Returns the port of the first."""
        await self.listeners.start(settings, self.make_handler)
        return self.listeners.show()[0].port

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition is true. It is checked after changes of a handler or the log, and every 10 ms."""
        async with asyncio.timeout(10):
            while not condition():
                self.changed.clear()
                waiter = asyncio.ensure_future(self.changed.wait())
                await asyncio.wait([waiter], timeout=0.01)
                waiter.cancel()

    async def handler(self, number: int = 0) -> EchoConnection:
        """Wait for the handler of that number, and return it."""
        await self.until(lambda: len(self.handlers) > number)
        return self.handlers[number]


def with_listeners(
    test: Callable[[ListenerHarness], Awaitable[None]], loop: str = "asyncio", complaint: str = "", **options: Any
) -> None:
    """Run a test with a harness, then close it. Fails if a connection is left."""

    async def whole() -> None:
        harness = ListenerHarness(**options)
        try:
            await test(harness)
        finally:
            await harness.listeners.close(0.5)
        assert harness.listeners.active() == 0
        assert harness.traffic.socket_open == harness.traffic.socket_close
        for handler in harness.handlers:
            assert len(handler.reasons) == 1, handler.reasons

    run(whole, loop, complaint)


def tcp(**fields: Any) -> ListenerSettings:
    """Returns the settings of a listener on a free port of 127.0.0.1."""
    fields = {"type": "tcp", "name": "default", "host": "127.0.0.1", "port": 0, **fields}
    return ListenerSettings(**fields)


class Peer:
    """A client with a plain socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int, host: str = "127.0.0.1", **options: Any) -> Peer:
        return cls(*await asyncio.open_connection(host, port, **options))

    @classmethod
    async def unix(cls, path: str) -> Peer:
        return cls(*await asyncio.open_unix_connection(path))

    @property
    def socket(self) -> socket.socket:
        return self.writer.get_extra_info("socket")  # type: ignore[no-any-return]

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def expect(self, data: bytes) -> None:
        async with asyncio.timeout(10):
            assert await self.reader.readexactly(len(data)) == data

    async def rest(self) -> bytes:
        """Returns all bytes up to the end of the stream; b"" if a reset ends it."""
        async with asyncio.timeout(10):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""
            finally:
                self.writer.close()

    def close(self) -> None:
        self.writer.close()


class Authority:
    """A CA with a server certificate for 127.0.0.1, as files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = trustme.CA()
        self.cafile = str(folder / "ca.pem")
        self.certfile = str(folder / "cert.pem")
        self.keyfile = str(folder / "key.pem")
        self.ca.cert_pem.write_to_path(self.cafile)
        server = self.ca.issue_cert("127.0.0.1", "localhost")
        server.private_key_pem.write_to_path(self.keyfile)
        self.certfile = str(folder / "cert.pem")
        for number, blob in enumerate(server.cert_chain_pems):
            blob.write_to_path(self.certfile, append=number > 0)

    def settings(self, **fields: Any) -> ListenerSettings:
        """Returns the settings of a listener with TLS."""
        files = {"cafile": self.cafile, "certfile": self.certfile, "keyfile": self.keyfile}
        return tcp(**{"type": "ssl", **files, "tls_versions": ("tlsv1.2", "tlsv1.3"), **fields})


def revocations(authority: Authority, *serials: int) -> bytes:
    """A revocation list of the authority."""
    key: Any = serialization.load_pem_private_key(authority.ca.private_key_pem.bytes(), None)
    issuer = x509.load_pem_x509_certificate(authority.ca.cert_pem.bytes())
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    builder = x509.CertificateRevocationListBuilder().issuer_name(issuer.subject)
    builder = builder.last_update(now - day).next_update(now + day)
    for serial in serials:
        revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now - day).build()
        builder = builder.add_revoked_certificate(revoked)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
