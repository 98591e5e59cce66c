"""A host's end of a memory network: the contract of `wire` without sockets.

The handshake is the same as over gRPC, but all its steps run when the dial or the call arrives: no message of the
handshake can be lost in between.

`AsyncioMemoryTransport` implements `serve` and `call` with `listen` and `ask`. These need no asyncio loop, so the
simulator uses them.
"""

from __future__ import annotations

from functools import partial

from . import handshake
from .handshake import Answering, Asking, NotProven, Session, decode_verdict, encode_verdict
from .memory_network import Answer, Handler, MemoryNetwork, Server
from .memory_stream import Stream
from .wire import COOKIES_DIFFER, DEFAULT_COOKIE, Accept, CallFailed, Refused, Stamps, Unproven, WireEvents


class _Server:
    __slots__ = ("accept", "alive", "answering", "handler", "host", "stamps")

    def __init__(
        self, host: str, accept: Accept, handler: Handler | None, answering: Answering, stamps: Stamps
    ) -> None:
        self.host = host
        self.stamps = stamps
        self.alive = True
        self.accept = accept
        self.handler = handler
        self.answering = answering


class MemoryTransport:
    """The transport of one process on one host of a `MemoryNetwork`.

    After `shut` the next process on that host makes a new one.
    """

    def __init__(self, network: MemoryNetwork, host: str, cookie: str = DEFAULT_COOKIE) -> None:
        self.network = network
        self.host = host
        self.alive = True
        self._key = handshake.key_of(cookie)
        self._answering = Answering(self._key, network.nonce)
        self._servers: dict[str, _Server] = {}
        self._stamps = Stamps()

    def use_stamps(self, stamps: Stamps) -> None:
        """Implements `Transport.use_stamps`."""
        self._stamps = stamps

    def dial(self, address: str, hello: bytes, events: WireEvents) -> Stream:
        """Implements `Transport.dial`."""
        assert self.alive, f"{self.host} dials after its end"
        network = self.network
        server = network.servers.get(address)
        far = server.host if server is not None else address.rpartition(":")[0]
        stream = Stream(network, self.host, far, address, events)
        stream.observe = self._stamps.observe
        network.streams[stream] = None
        stream.timer = network.later(network.dial_s, lambda: stream.near_fails("no answer to the dial"))
        if server is None:
            network.soon(lambda: stream.near_fails(f"cannot connect to {address}: nobody listens there"))
        elif network.is_cut(self.host, far):
            pass  # the timer ends it: the network does not repeat a lost dial
        else:
            stamp, sent = self._stamps.stamp(), network.sent(self.host)
            network.send((self.host, far), lambda: self._arrive(stream, address, hello, stamp, sent))
        return stream

    def _arrive(self, stream: Stream, address: str, hello: bytes, stamp: int, sent: object) -> None:
        """The dial arrives at the address: do the handshake, then ask the server to accept the hello."""
        if stream.near.dead:
            return
        server = self.network.servers.get(address)
        if server is None:
            stream.broken(f"cannot connect to {address}: nobody listens there")
            return
        try:
            stream.session, session = self._agree(server, handshake.STREAM)
        except NotProven:
            stream.far.close(COOKIES_DIFFER)
            return
        self.network.took(server.host, sent)
        server.stamps.observe(stamp)
        verdict = server.accept(session.open(stream.session.seal(hello)), stream.far)
        stream.stamp = server.stamps.stamp()
        if isinstance(verdict, Refused):
            stream.far.refuse(session.seal(encode_verdict(False, verdict.reason.encode())))
        else:
            stream.far.accept(session.seal(encode_verdict(True, verdict.welcome)), verdict.events)

    def _agree(self, server: Server, kind: bytes) -> tuple[Session, Session]:
        """Do the handshake. Returns the dialer's session and the acceptor's. Raises `NotProven`."""
        asking = Asking(self._key, kind, self.network.nonce())
        answer, acceptors = server.answering.admit(kind, asking.proof(server.answering.challenge()))
        return asking.check(answer), acceptors

    def listen(self, address: str, accept: Accept, handler: Handler | None = None) -> str:
        """Listen at an address, like `Transport.serve`, and return the bound address. Raises `TransportError`."""
        server = _Server(self.host, accept, handler, self._answering, self._stamps)
        bound = self.network.bind(address, server)
        self._servers[bound] = server
        return bound

    def ask(self, address: str, method: str, request: bytes, timeout_s: float, answer: Answer) -> None:
        """Make a call, like `Transport.call`. `answer` is called once, with the answer or the error."""
        network = self.network
        server = network.servers.get(address)
        pending = [answer]

        def finish(result: bytes | CallFailed) -> None:
            if pending and self.alive:
                timer.cancel()
                pending.pop()(result)

        timer = network.later(timeout_s, lambda: finish(CallFailed(f"no answer from {address} in {timeout_s:g} s")))
        if server is None:
            network.soon(lambda: finish(CallFailed(f"cannot connect to {address}: nobody listens there")))
            return
        far, stamps = server.host, server.stamps
        asked_at, sent = self._stamps.stamp(), network.sent(self.host)

        def came(result: bytes | CallFailed, stamp: int, sent: object) -> None:
            if pending and self.alive:
                network.took(self.host, sent)
                self._stamps.observe(stamp)
            finish(result)

        def back(result: bytes | CallFailed, stamp: int = 0, sent: object = None) -> None:
            if not network.is_cut(far, self.host):
                network.send((far, self.host), partial(came, result, stamp, sent))

        def answered(mine: Session, session: Session, result: bytes | CallFailed) -> None:
            content = str(result).encode() if isinstance(result, CallFailed) else result
            said = _said(mine, session.seal(encode_verdict(not isinstance(result, CallFailed), content)))
            back(said, stamps.stamp(), network.sent(far))

        def there() -> None:
            if not server.alive or server.handler is None:
                back(CallFailed(f"{address} answers no calls"))
                return
            try:
                mine, session = self._agree(server, handshake.CALL)
            except NotProven:
                back(Unproven(COOKIES_DIFFER))
                return
            network.took(far, sent)
            stamps.observe(asked_at)
            asked = session.open(mine.seal(handshake.encode_request(method, request)))
            server.handler(*handshake.decode_request(asked), partial(answered, mine, session))

        if not network.is_cut(self.host, far):
            network.send((self.host, far), there)

    def shut(self) -> None:
        """The process ends, in order or by a crash: it gets no more events, and the other ends get `closed`."""
        self.alive = False
        network = self.network
        for address, server in self._servers.items():
            server.alive = False
            del network.servers[address]
        self._servers.clear()
        for stream in list(network.streams):
            for end in (stream.near, stream.far):
                if end.host == self.host:
                    end.close("the process at the other end has ended")


def _said(session: Session, sealed: bytes) -> bytes | CallFailed:
    """Returns the content of a sealed verdict, or the refusal in it as an error."""
    well, content = decode_verdict(session.open(sealed))
    return content if well else CallFailed(content.decode(errors="replace"))
