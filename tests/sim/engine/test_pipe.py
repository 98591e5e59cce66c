"""Streams on virtual time: bytes come whole and in order, wait for slow receivers, and are lost in cuts."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strogoff.sim.engine.loop import VirtualLoop
from strogoff.sim.engine.pipe import HIGH_MARK, Mark, Pipe, Stream


def stream_with(
    loop: VirtualLoop, delay_s: tuple[float, float] = (0.0, 0.0), seed: int = 0
) -> tuple[Stream, list[Any]]:
    """A stream and its received bytes; the end is None."""
    stream = Stream(loop, Random(seed), delay_s)
    arrived: list[Any] = []
    stream.deliver = arrived.append
    stream.ended = lambda: arrived.append(None)
    return stream, arrived


@given(
    st.lists(st.tuples(st.floats(0, 0.4), st.integers(1, 30), st.sampled_from(["go", "pause", "resume"])), max_size=40),
    st.integers(0, 10_000),
)
@settings(max_examples=200, deadline=None)
def test_bytes_arrive_whole_and_in_order(steps: list[tuple[float, int, str]], seed: int) -> None:
    """For all delays, and however often the receiver stops reading; the end comes last."""
    loop = VirtualLoop()
    stream, arrived = stream_with(loop, (0.001, 0.7), seed)
    sent = b""
    for number, (wait, size, what) in enumerate(steps):
        data = bytes([number % 256]) * size
        sent += data
        stream.send(data)
        if what == "pause":
            stream.pause()
        elif what == "resume":
            stream.resume()
        loop.run_for(wait)
    stream.end()
    stream.resume()
    loop.run_for(10)
    assert arrived.pop() is None
    assert b"".join(arrived) == sent
    assert stream.under_way == 0 and not stream.open


def test_pieces_are_cut_now_and_then() -> None:
    """A decoder that relies on whole packets fails."""
    loop = VirtualLoop()
    stream, arrived = stream_with(loop)
    for _ in range(200):
        stream.send(b"packet")
    loop.settle()
    assert b"".join(arrived) == b"packet" * 200 and 200 < len(arrived) < 260


def test_a_receiver_that_does_not_read_holds_the_sender_back() -> None:
    """Above the mark the sender is asked once to stop; when everything was read, to go on."""
    loop = VirtualLoop()
    stream, arrived = stream_with(loop)
    told: list[bool] = []
    stream.pressure = told.append
    stream.pause()
    for _ in range(3):
        stream.send(b"x" * HIGH_MARK)
        loop.settle()
    assert told == [False] and arrived == []
    stream.end()
    loop.settle()
    assert arrived == []
    stream.resume()
    loop.settle()
    assert told == [False, True] and arrived[-1] is None
    assert sum(len(data) for data in arrived[:-1]) == 3 * HIGH_MARK


def test_a_receiver_that_stops_in_the_middle() -> None:
    """Bytes that wait stay in order."""
    loop = VirtualLoop()
    stream, arrived = stream_with(loop)

    def one(data: bytes) -> None:
        arrived.append(data)
        stream.pause()

    stream.deliver = one
    for number in range(5):
        stream.send(b"%d" % number)
    loop.settle()
    for number in range(5):
        assert arrived == [b"%d" % each for each in range(number + 1)]
        stream.resume()
        loop.settle()


def test_a_cut_loses_bytes_under_way() -> None:
    """Later bytes are not sent, and the end is not reported."""
    loop = VirtualLoop()
    stream, arrived = stream_with(loop, (1.0, 1.0))
    stream.send(b"a")
    loop.run_for(0.5)
    stream.cut()
    stream.send(b"b")
    stream.end()
    loop.run_for(5)
    assert arrived == [] and stream.under_way == 2


def test_a_mark_arrives_with_its_bytes() -> None:
    """`arrived` is the mark from the time of sending."""
    loop = VirtualLoop()
    stream, _ = stream_with(loop, (1.0, 1.0))
    count = [0]
    seen: list[tuple[bytes, Mark]] = []
    stream.mark = lambda: (count[0], loop.now_s, False)
    stream.deliver = lambda data: seen.append((data, stream.arrived))
    for number in range(3):
        count[0] = number
        stream.send(b"%d" % number)
        loop.run_for(0.25)
    loop.run_for(5)
    assert seen == [(b"0", (0, 0.0, False)), (b"1", (1, 0.25, False)), (b"2", (2, 0.5, False))]


def pipe_with(loop: VirtualLoop, delay_s: float = 1.0) -> tuple[Pipe, list[str]]:
    """A pipe, and the events of its two ends."""
    pipe = Pipe(loop, Random(0), (delay_s, delay_s))
    heard: list[str] = []
    pipe.to_node.deliver = lambda data: heard.append(f"node: {data.decode()}")
    pipe.to_client.deliver = lambda data: heard.append(f"client: {data.decode()}")
    pipe.to_client.ended = lambda: heard.append("client: end")
    pipe.gone = lambda reason: heard.append(f"node: {reason}")
    return pipe, heard


def test_the_node_closes() -> None:
    """Bytes that it wrote still arrive; bytes to it are not read; its end is reported once, at the end of the turn."""
    loop = VirtualLoop()
    pipe, heard = pipe_with(loop)
    pipe.to_node.send(b"late")
    pipe.write(b"bye")
    pipe.close()
    assert heard == []
    pipe.close()
    loop.run_for(5)
    assert heard == ["node: closed", "client: bye", "client: end"]
    assert pipe.over_at == 0.0


def test_a_closed_socket_gives_nothing_to_its_process() -> None:
    """A process that was suspended closes it by a timer. Bytes that had arrived before are not read any more."""
    pipe = Pipe(VirtualLoop(), Random(1))
    got: list[bytes] = []
    pipe.hand_over(SimpleNamespace(receive=got.append))
    pipe.receive(b"early")
    pipe.close()
    pipe.receive(b"late")
    assert got == [b"early"]


def test_the_client_closes() -> None:
    """In order: the node gets the bytes that were sent before."""
    loop = VirtualLoop()
    pipe, heard = pipe_with(loop)
    pipe.to_node.send(b"last")
    pipe.to_node.end()
    loop.run_for(5)
    assert heard == ["node: last", "node: peer_closed"]
    assert pipe.over_at == 1.0


@pytest.mark.parametrize("after_close", [False, True])
def test_the_network_breaks(after_close: bool) -> None:
    """Both sides learn of it once; nothing under way arrives."""
    loop = VirtualLoop()
    pipe, heard = pipe_with(loop)
    pipe.to_node.send(b"a")
    pipe.write(b"b")
    if after_close:
        pipe.close()
        loop.settle()
    pipe.break_off()
    pipe.break_off()
    loop.run_for(5)
    assert heard == ["node: closed" if after_close else "node: connection_reset", "client: end"]


def test_another_port_gets_the_bytes() -> None:
    loop = VirtualLoop()
    pipe, _ = pipe_with(loop, 0.0)
    got: list[bytes] = []

    class Port:
        def receive(self, data: bytes, /) -> None:
            got.append(data)

        def lost(self, reason: str, /) -> None: ...

        def writable(self, flag: bool, /) -> None: ...

    pipe.hand_over(Port())
    pipe.receive(b"x")
    assert got == [b"x"] and not pipe.watch_silence(1)


def test_a_node_that_does_not_read() -> None:
    """`pause_reading` and `resume_reading`, any number of times."""
    loop = VirtualLoop()
    pipe, heard = pipe_with(loop, 0.0)
    pipe.pause_reading()
    pipe.pause_reading()
    pipe.to_node.send(b"x")
    loop.run_for(5)
    assert heard == []
    pipe.resume_reading()
    pipe.resume_reading()
    loop.settle()
    assert heard == ["node: x"]
