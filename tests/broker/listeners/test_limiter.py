"""The limiter: admission, the limits, and how refusals are logged."""

from __future__ import annotations

from strogoff.broker.connection.transport import ClientTransport, ConnectionOrigin, ConnectionPort
from strogoff.broker.listeners.limiter import BURST_GAP_S, ConnectionLimiter, LimiterOptions
from strogoff.broker.listeners.traffic import Traffic

from ...harness.listeners import tcp


class Visitor:
    """A connection that is only counted."""

    def end(self, reason: str) -> None:
        raise AssertionError("nobody ends it")

    def abort(self) -> None:
        raise AssertionError("nobody aborts it")


class Scene:
    """A limiter with a clock that is set by hand."""

    def __init__(self, max_connections: int | None, max_descriptor: int = 0) -> None:
        self.lines: list[str] = []
        self.now = 1000.0
        self.traffic = Traffic()
        self.limiter = ConnectionLimiter(
            tcp(max_connections=max_connections),
            self.make_handler,
            self.traffic,
            LimiterOptions(max_descriptor=max_descriptor),
            lambda level, line: self.lines.append(f"{level} {line}"),
            lambda: self.now,
        )

    def make_handler(self, link: ClientTransport, origin: ConnectionOrigin) -> ConnectionPort:
        raise AssertionError("a limiter makes no handler")


def test_entering_and_leaving_is_counted_once() -> None:
    scene = Scene(None)
    empty: list[bool] = []
    scene.limiter.when_empty = lambda: empty.append(True)
    visitors = [Visitor() for _ in range(3)]
    assert all(scene.limiter.enter(visitor) for visitor in visitors)
    for visitor in visitors:
        assert empty == []
        scene.limiter.leave(visitor)
        scene.limiter.leave(visitor)
    assert empty == [True]
    assert (scene.limiter.accepted, scene.traffic.socket_open, scene.traffic.socket_close) == (3, 3, 3)


def test_refusals_are_counted_and_logged_once_per_burst() -> None:
    scene = Scene(1)
    first = Visitor()
    assert scene.limiter.enter(first)
    for _ in range(5):
        scene.now += BURST_GAP_S - 1
        assert not scene.limiter.enter(Visitor())
    line = "warning listener.tcp.default: max_connections = 1 is reached, refusing connections"
    assert scene.lines == [line]
    scene.now += BURST_GAP_S
    assert not scene.limiter.enter(Visitor())
    assert scene.lines[1:] == [f"{line}; 5 since the last time this was logged"]
    assert scene.traffic.connections_refused == 6
    scene.limiter.leave(first)
    assert scene.limiter.enter(Visitor())
    assert scene.limiter.accepted == 2


def test_reserved_descriptors_are_for_files() -> None:
    """A new descriptor has the lowest free number: the number tells how many are in use."""
    scene = Scene(None, max_descriptor=100)
    assert scene.limiter.enter(Visitor(), 100)
    assert not scene.limiter.enter(Visitor(), 101)
    assert scene.traffic.connections_refused == 1
    assert "the other file descriptors are reserved for files" in scene.lines[0]
    assert Scene(None).limiter.enter(Visitor(), 1_000_000)
