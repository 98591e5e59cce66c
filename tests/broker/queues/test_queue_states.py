"""The states of a queue: the legal events of each, and the usual sequence of a session."""

from __future__ import annotations

import pytest

from strogoff.broker.queues.queue import TRANSITIONS, Queue, QueueEvent, QueueState
from strogoff.broker.routing.router import LeavingMember
from strogoff.broker.sessions.session import Session
from tests.harness.broker import BrokerHarness

LEGAL = {
    (QueueState.OFFLINE, QueueEvent.ATTACH): QueueState.ONLINE,
    (QueueState.ONLINE, QueueEvent.DETACH): QueueState.OFFLINE,
    (QueueState.OFFLINE, QueueEvent.DRAIN): QueueState.DRAINING,
    (QueueState.ONLINE, QueueEvent.DRAIN): QueueState.DRAINING,
    (QueueState.DRAINING, QueueEvent.DISCARD): QueueState.ENDED,
}
ILLEGAL = [(state, event) for state in QueueState for event in QueueEvent if (state, event) not in LEGAL]


def _session(broker: BrokerHarness) -> Session:
    session = broker.node.sessions.get("", "s")
    assert session is not None
    return session


def _queue(durable: bool = False) -> Queue:
    """The queue of a client that is connected."""
    broker = BrokerHarness()
    broker.client("s", clean=not durable)
    return _session(broker).queue


def _happens(queue: Queue, event: QueueEvent) -> None:
    if event is QueueEvent.ATTACH:
        consumer = _queue().consumer
        assert consumer is not None
        queue.attach(consumer, 10)
    elif event is QueueEvent.DETACH:
        queue.detach()
    elif event is QueueEvent.DRAIN:
        queue.drain()
    else:
        queue.discard()


def test_the_table_is_the_list_of_legal_events() -> None:
    assert TRANSITIONS == LEGAL


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(("state", "event"), ILLEGAL)
def test_an_illegal_event_raises(state: QueueState, event: QueueEvent, durable: bool) -> None:
    queue = _queue(durable)
    queue.state = state
    with pytest.raises(KeyError):
        _happens(queue, event)
    assert queue.state is state


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(("state", "event"), list(LEGAL))
def test_a_legal_event_changes_the_state(state: QueueState, event: QueueEvent, durable: bool) -> None:
    queue = _queue(durable)
    queue.state = state
    _happens(queue, event)
    assert queue.state is LEGAL[state, event]
    online = queue.state is QueueState.ONLINE
    assert (queue.consumer is not None, queue.direct is not None) == (online, online)


def test_a_queue_is_online_while_its_client_is_connected() -> None:
    broker = BrokerHarness()
    client = broker.persistent("s")
    queue = _session(broker).queue
    seen = [queue.state]
    client.leave()
    seen.append(queue.state)
    broker.persistent("s")
    seen.append(queue.state)
    assert seen == [QueueState.ONLINE, QueueState.OFFLINE, QueueState.ONLINE]
    assert _session(broker).queue is queue


def test_a_new_queue_is_offline() -> None:
    broker = BrokerHarness()
    broker.client("s")
    queue = Queue(broker.node.env, _session(broker))
    assert (queue.state, queue.consumer) == (QueueState.OFFLINE, None)


def test_the_queue_of_a_clean_session_ends_with_its_connection() -> None:
    broker = BrokerHarness()
    client = broker.client("s")
    queue = _session(broker).queue
    client.vanish()
    assert queue.state is QueueState.ENDED


@pytest.mark.parametrize("connected", [True, False])
def test_the_queue_of_a_session_that_is_ended_drains_first(connected: bool) -> None:
    """The queue gives its shared messages to other members while it drains."""
    broker = BrokerHarness()
    client = broker.persistent("s")
    client.subscribe(("$share/g/t", 1))
    session = _session(broker)
    if not connected:
        client.leave()
    seen: list[QueueState] = []
    redistribute = session.parts.router.redistribute

    def watch(session: LeavingMember) -> None:
        seen.append(session.queue.state)
        redistribute(session)

    session.parts.router.redistribute = watch  # type: ignore[method-assign]
    broker.node.end_sessions("test")
    assert seen[-1] is QueueState.DRAINING
    assert session.queue.state is QueueState.ENDED


@pytest.mark.parametrize("durable", [False, True])
def test_an_ended_queue_holds_nothing(durable: bool) -> None:
    broker = BrokerHarness(max_inflight_messages=1)
    reader = broker.client("s", clean=not durable)
    reader.subscribe(("t", 1))
    publisher = broker.client("p")
    for number in range(1, 4):
        publisher.publish("t", b"m", 1, number)
    queue = _session(broker).queue
    assert (len(queue.inflight), len(queue.waiting)) == (1, 2)
    broker.node.end_sessions("test")
    assert queue.state is QueueState.ENDED
    assert (len(queue.inflight), len(queue.waiting)) == (0, 0)
