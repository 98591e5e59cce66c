"""A host of a memory network on virtual time, without an asyncio event loop."""

from __future__ import annotations

import pytest

from strogoff.cluster.transport.memory_wire import MemoryTransport
from strogoff.cluster.transport.wire import CallFailed, Refused, Wire

from .transport_pair import RecordingEvents, TransportPair


def test_a_process_that_ends() -> None:
    """The other hosts see their ends close; the ended process gets no event; the next process of the host can listen
    there.
    """
    two = TransportPair()
    mine, theirs = two.joined()
    two.b.shut()
    two.loop.run_for(0.1)
    assert mine.reason == "the process at the other end has ended" and theirs.reason is None
    refused = two.dial()
    two.loop.run_for(0.1)
    assert refused.reason == f"cannot connect to {two.address}: nobody listens there"
    again = MemoryTransport(two.network, "b")
    assert again.listen(two.address, two._accept) == two.address
    later = two.dial()
    two.loop.run_for(0.1)
    assert later.wire is not None


def test_a_process_that_ends_while_a_hello_is_on_its_way() -> None:
    two = TransportPair()
    two.network.delay("a", "b", 0.1)
    mine = two.dial()
    two.loop.run_for(0.05)
    two.b.shut()
    two.loop.run_for(1)
    assert mine.reason is not None and two.accepted == []


def test_refused() -> None:
    two = TransportPair()

    def accept(hello: bytes, wire: Wire) -> Refused:
        return Refused(f"no {hello!r} here")

    mine = RecordingEvents()
    two.a.dial(two.b.listen("b:0", accept), b"me", mine)
    two.loop.settle()
    assert mine.reason == "no b'me' here" and mine.wire is None
    assert two.network.streams == {}


@pytest.mark.parametrize("ends", ["asker", "answerer"])
def test_a_call_whose_process_ends(ends: str) -> None:
    """The caller's process ends: no answer at all. The answering process ends: a timeout."""
    two = TransportPair()
    two.b.listen("b:7", lambda *_: pytest.fail("a stream"), lambda *_: None)
    answers: list[bytes | CallFailed] = []
    two.a.ask("b:7", "m", b"", 1.0, answers.append)
    two.loop.run_for(0.1)
    (two.a if ends == "asker" else two.b).shut()
    two.loop.run_for(2)
    assert [str(answer) for answer in answers] == ([] if ends == "asker" else ["no answer from b:7 in 1 s"])
