"""A host's end of a memory network: the contract of `wire` without sockets.

`listen` and `ask` are what `serve` and `call` are made of; they need no event loop, so the simulator uses them.
"""

from __future__ import annotations

from .memory_network import Answer, Handler, MemoryNetwork
from .memory_stream import Stream
from .wire import Accept, CallFailed, Refused, WireEvents


class _Server:
    __slots__ = ("accept", "alive", "handler", "host")

    def __init__(self, host: str, accept: Accept, handler: Handler | None) -> None:
        self.host = host
        self.alive = True
        self.accept = accept
        self.handler = handler


class MemoryTransport:
    """One host's end of a `MemoryNetwork`. A process that starts anew on that host, after `shut`, makes a new one."""

    def __init__(self, network: MemoryNetwork, host: str) -> None:
        self.network = network
        self.host = host
        self.alive = True
        self._servers: dict[str, _Server] = {}

    def dial(self, address: str, hello: bytes, events: WireEvents) -> Stream:
        """As `Transport.dial`."""
        assert self.alive, f"{self.host} dials after its end"
        network = self.network
        server = network.servers.get(address)
        far = server.host if server is not None else address.rpartition(":")[0]
        stream = Stream(network, self.host, far, address, events)
        network.streams[stream] = None
        stream.timer = network.later(network.dial_s, lambda: stream.near_fails("no answer to the dial"))
        if server is None:
            network.soon(lambda: stream.near_fails(f"cannot connect to {address}: nobody listens there"))
        elif network.is_cut(self.host, far):
            pass  # the timer ends it: nobody repeats a lost dial
        else:
            network.send((self.host, far), lambda: self._arrive(stream, address, hello))
        return stream

    def _arrive(self, stream: Stream, address: str, hello: bytes) -> None:
        """At the far side: a hello comes in."""
        if stream.near.dead:
            return
        server = self.network.servers.get(address)
        if server is None:
            stream.broken(f"cannot connect to {address}: nobody listens there")
            return
        verdict = server.accept(hello, stream.far)
        if isinstance(verdict, Refused):
            stream.far.close(verdict.reason)
        else:
            stream.far.welcome(verdict.welcome, verdict.events)

    def listen(self, address: str, accept: Accept, handler: Handler | None = None) -> str:
        """As `Transport.serve`, at once. Raises `TransportError`."""
        server = _Server(self.host, accept, handler)
        bound = self.network.bind(address, server)
        self._servers[bound] = server
        return bound

    def ask(self, address: str, method: str, request: bytes, timeout_s: float, answer: Answer) -> None:
        """As `Transport.call`; `answer` gets the result, once."""
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
        far = server.host

        def back(result: bytes | CallFailed) -> None:
            if not network.is_cut(far, self.host):
                network.send((far, self.host), lambda: finish(result))

        def there() -> None:
            if server.alive and server.handler is not None:
                server.handler(method, request, back)
            else:
                back(CallFailed(f"{address} answers no calls"))

        if not network.is_cut(self.host, far):
            network.send((self.host, far), there)

    def shut(self) -> None:
        """The process ends, in order or not: no event here any more; the others see their ends close."""
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
