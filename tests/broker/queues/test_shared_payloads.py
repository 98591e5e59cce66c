"""Bodies that several queues hold: they are counted, and deleted with the last holder."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strogoff.broker.queues import shared_payloads
from strogoff.broker.queues.message import Message, Origin
from strogoff.broker.queues.records import Origins, RecordError
from strogoff.storage.memory import VolatileMemoryEngine
from strogoff.storage.store import Store

SLOT = 7


def make_store() -> Store:
    later: list[Callable[[], None]] = []
    return Store(VolatileMemoryEngine(later.append), later.append, lambda delay_s, function: None)


def message(counter: int = 7) -> Message:
    return Message("", "a/b", b"x" * 300, 1, False, None, 0, "p", Origin("n", 1), counter)


def test_a_body_lives_as_long_as_a_queue_holds_it() -> None:
    store = make_store()
    mids = [shared_payloads.hold(store, SLOT, message()) for _ in range(3)]
    assert len(set(mids)) == 1
    for _ in range(2):
        shared_payloads.let_go(store, SLOT, mids[0])
        assert shared_payloads.load(store, SLOT, mids[0], "", Origins()).payload == b"x" * 300
    shared_payloads.let_go(store, SLOT, mids[0])
    assert store.scan(b"", b"\xff") == []


def test_messages_do_not_share_a_body() -> None:
    store = make_store()
    first, second = shared_payloads.hold(store, SLOT, message(1)), shared_payloads.hold(store, SLOT, message(2))
    shared_payloads.let_go(store, SLOT, first)
    assert shared_payloads.load(store, SLOT, second, "", Origins()).counter == 2


def test_each_slot_has_its_own_body() -> None:
    store = make_store()
    mid = shared_payloads.hold(store, SLOT, message())
    assert shared_payloads.hold(store, 8, message()) == mid
    assert [key[:2] for key in store.keys(b"", b"\xff")] == [b"p\x07", b"p\x08", b"u\x07", b"u\x08"]
    shared_payloads.let_go(store, SLOT, mid)
    assert [key[:2] for key in store.keys(b"", b"\xff")] == [b"p\x08", b"u\x08"]
    assert shared_payloads.load(store, 8, mid, "", Origins()).payload == b"x" * 300


def test_a_loaded_message() -> None:
    store = make_store()
    loaded = shared_payloads.load(store, SLOT, shared_payloads.hold(store, SLOT, message()), "m", Origins())
    assert loaded.mountpoint == "m"
    assert shared_payloads.key_of(loaded) == shared_payloads.key_of(message())


def test_a_body_that_is_missing_is_named() -> None:
    with pytest.raises(RecordError, match="body that is missing"):
        shared_payloads.load(make_store(), SLOT, shared_payloads.key_of(message()), "", Origins())


def test_releasing_an_unknown_body_is_no_error() -> None:
    store = make_store()
    shared_payloads.let_go(store, SLOT, shared_payloads.key_of(message()))
    assert store.scan(b"", b"\xff") == []
