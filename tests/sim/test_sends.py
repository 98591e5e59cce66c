"""What nodes send, and what only seems to come again."""

from __future__ import annotations

import pytest

from strogoff.broker.queues.message import Message
from strogoff.broker.sessions.session import Session
from strogoff.sim.history import History
from strogoff.sim.sends import record_sends
from strogoff.sim.workload.sender import payload

from ..harness.broker import BrokerHarness, PacketClient


class Watched:
    """A broker whose sends the history has. Its client `s` takes one message at a time, and answers nothing."""

    def __init__(self, queue_type: str = "fifo") -> None:
        self.broker = BrokerHarness(memory_window=1, queue_type=queue_type)
        self.history = History(lambda: self.broker.loop.now_s)
        self.broker.host.on_node = lambda node: record_sends(self.history, node)
        self.broker.restart()

    def connect(self) -> PacketClient:
        return self.broker.persistent("s", 5, receive_maximum=1)

    @property
    def session(self) -> Session:
        session = self.broker.node.sessions.get("", "s")
        assert session is not None
        return session

    def publish(self, *numbers: int) -> None:
        publisher = self.broker.client("p", 5)
        for each in numbers:
            publisher.publish("t", payload(f"p-{each}"), 1, each, message_expiry_interval=5)


@pytest.mark.parametrize("kind", ["fifo", "lifo"])
def test_what_a_queue_takes_for_sent_although_it_was_not(kind: str) -> None:
    watched = Watched(kind)
    client = watched.connect()
    client.subscribe(("t", 1))
    watched.publish(1, 2, 3)
    assert watched.history.sent == {("s", "p-1")}
    client.leave()
    queue = watched.session.queue
    queue.sent_below = queue.next_seq  # type: ignore[attr-defined]
    watched.broker.pass_s(10)
    assert len(watched.connect().drain()) == 3
    assert watched.history.sent == {("s", f"p-{each}") for each in (1, 2, 3)}
    assert watched.history.doubtful == (set() if kind == "lifo" else {("s", "p-2"), ("s", "p-3")})


def test_what_comes_again_and_what_has_not_expired_is_not_doubtful() -> None:
    watched = Watched()
    client = watched.connect()
    client.subscribe(("t", 1))
    watched.publish(1)
    client.vanish()
    watched.broker.pass_s(10)
    watched.publish(2)
    queue = watched.session.queue
    queue.sent_below = queue.next_seq  # type: ignore[attr-defined]
    assert [each.dup for each in watched.connect().drain()] == [True, True]
    assert watched.history.doubtful == set()


def test_what_a_former_primary_may_have_sent_is_not_doubtful() -> None:
    """H-51"""
    watched = Watched()
    client = watched.connect()
    client.subscribe(("t", 1))
    client.leave()
    node = watched.broker.node
    message = Message("", "t", payload("p-1"), 1, False, None, node.env.now + 5000, "p", node.env.origin, 1, again=True)
    watched.session.queue.push(message, 1, False, ())
    watched.broker.pass_s(10)
    assert [each.dup for each in watched.connect().drain()] == [True]
    assert watched.history.sent == {("s", "p-1")}
    assert watched.history.doubtful == set()
