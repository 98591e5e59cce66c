"""The states of a queue: an event that cannot happen is an error, never a state."""

from __future__ import annotations

import pytest

from strogoff.broker.queues.queue import TRANSITIONS, Queue, QueueEvent, QueueState
from tests.harness.broker import BrokerHarness


def queue(broker: BrokerHarness, client_id: str = "c") -> Queue:
    session = broker.node.sessions.get("", client_id)
    assert session is not None
    return session.queue


def state_of(made: Queue) -> QueueState:
    return made.state


def test_a_queue_ends_only_when_it_was_drained() -> None:
    assert {state for (state, event) in TRANSITIONS if event is QueueEvent.DISCARD} == {QueueState.DRAINING}
    assert not any(state is QueueState.ENDED for state, _ in TRANSITIONS)


@pytest.mark.parametrize("state", list(QueueState))
@pytest.mark.parametrize("event", list(QueueEvent))
def test_an_event_that_is_not_listed_is_an_error(state: QueueState, event: QueueEvent) -> None:
    broker = BrokerHarness()
    broker.client("c")
    made = queue(broker)
    made.state = state
    if (state, event) in TRANSITIONS:
        made._change(event)
        assert made.state is TRANSITIONS[state, event] and made.consumer is None and made.direct is None
    else:
        with pytest.raises(KeyError):
            made._change(event)


def test_a_queue_walks_through_its_states() -> None:
    broker = BrokerHarness()
    client = broker.persistent("c")
    made = queue(broker)
    assert state_of(made) is QueueState.ONLINE and made.consumer is not None
    client.vanish()
    assert state_of(made) is QueueState.OFFLINE and made.consumer is None
    broker.persistent("c")
    assert queue(broker) is made and state_of(made) is QueueState.ONLINE
    broker.client("c", clean=True)
    assert state_of(made) is QueueState.ENDED and queue(broker) is not made
