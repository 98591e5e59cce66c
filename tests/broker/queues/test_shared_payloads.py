"""Bodies that several queues hold: they are counted, and deleted with the last holder."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strogoff.broker.queues import shared_payloads
from strogoff.broker.queues.message import Message, Origin
from strogoff.broker.queues.records import Origins, RecordError
from strogoff.storage.memory import VolatileMemoryEngine
from strogoff.storage.store import Store


def make_store() -> Store:
    later: list[Callable[[], None]] = []
    return Store(VolatileMemoryEngine(later.append), later.append, lambda delay_s, function: None)


def message(counter: int = 7) -> Message:
    return Message("", "a/b", b"x" * 300, 1, False, None, 0, "p", Origin("n", 1), counter)


def test_a_body_lives_as_long_as_a_queue_holds_it() -> None:
    store = make_store()
    mids = [shared_payloads.hold(store, message()) for _ in range(3)]
    assert len(set(mids)) == 1
    for _ in range(2):
        shared_payloads.let_go(store, mids[0])
        assert shared_payloads.load(store, mids[0], "", Origins()).payload == b"x" * 300
    shared_payloads.let_go(store, mids[0])
    assert store.scan(b"", b"\xff") == []


def test_messages_do_not_share_a_body() -> None:
    store = make_store()
    first, second = shared_payloads.hold(store, message(1)), shared_payloads.hold(store, message(2))
    shared_payloads.let_go(store, first)
    assert shared_payloads.load(store, second, "", Origins()).counter == 2


def test_a_loaded_message_is_marked_as_shared() -> None:
    store = make_store()
    loaded = shared_payloads.load(store, shared_payloads.hold(store, message()), "m", Origins())
    assert loaded.shared
    assert loaded.mountpoint == "m"
    assert shared_payloads.key_of(loaded) == shared_payloads.key_of(message())


def test_a_body_that_is_missing_is_named() -> None:
    with pytest.raises(RecordError, match="body that is missing"):
        shared_payloads.load(make_store(), shared_payloads.key_of(message()), "", Origins())


def test_releasing_an_unknown_body_is_no_error() -> None:
    store = make_store()
    shared_payloads.let_go(store, shared_payloads.key_of(message()))
    assert store.scan(b"", b"\xff") == []
