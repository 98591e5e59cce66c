"""The data of ended sessions is deleted in steps, also across a restart."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from strogoff.broker.queues import shared_payloads
from strogoff.broker.queues.message import Message, Origin
from strogoff.broker.queues.records import QUEUED, RELEASED, EntryRecord, encode
from strogoff.broker.queues.session_cleanup import STEP, STEP_BYTES, SessionCleanup
from strogoff.storage.keys import payload_count_key, payload_key
from strogoff.storage.memory import VolatileMemoryEngine
from strogoff.storage.store import Store

SLOT = ord("7")
"""The slot of the queues below: the second byte of their keys."""


class Turns:
    """A loop whose turns the test runs one by one."""

    def __init__(self) -> None:
        self.todo: deque[Callable[[], None]] = deque()
        self.store = Store(VolatileMemoryEngine(self.todo.append), self.todo.append, lambda delay_s, function: None)
        self.garbage = SessionCleanup(self.store, self.todo.append)

    def turn(self) -> bool:
        for _ in range(len(self.todo)):
            self.todo.popleft()()
        return bool(self.todo)

    def finish(self) -> int:
        turns = 1
        while self.turn():
            turns += 1
        return turns

    def fill(self, prefix: bytes, count: int, mid: bytes = b"", state: int = QUEUED) -> None:
        for seq in range(count):
            record = EntryRecord(state, 1, 1, False, (), None, mid, "")
            self.store.put(prefix + seq.to_bytes(8, "big"), encode(record))


def test_everything_under_the_prefix_is_deleted_and_nothing_else() -> None:
    turns = Turns()
    turns.fill(b"q1-one-", 3)
    turns.fill(b"q1-two-", 2)
    turns.garbage.add(b"q1-one-")
    turns.finish()
    assert [key[:7] for key in turns.store.keys(b"", b"\xff")] == [b"q1-two-", b"q1-two-"]
    assert len(turns.garbage) == 0


def test_large_messages_are_not_read_at_once() -> None:
    """A step reads about a megabyte, whatever the number of entries."""
    turns = Turns()
    for seq in range(9):
        turns.store.put(b"q7-" + seq.to_bytes(8, "big"), bytes(STEP_BYTES // 2))
    turns.finish()
    turns.garbage.add(b"q7-")
    left = []
    while turns.turn():
        left.append(len(turns.store.keys(b"q", b"r")))
    assert sorted(set(left), reverse=True) == [7, 5, 3, 1, 0]
    assert turns.store.keys(b"", b"\xff") == []


def test_a_large_queue_takes_many_short_turns() -> None:
    turns = Turns()
    turns.fill(b"q7-", STEP * 5 + 1)
    turns.finish()
    turns.garbage.add(b"q7-")
    before = STEP * 5 + 1
    while turns.turn():
        left = len(turns.store.keys(b"q", b"r"))
        assert before - left <= STEP
        before = left
    assert turns.store.keys(b"", b"\xff") == []


def test_a_restart_continues_at_the_marker() -> None:
    turns = Turns()
    turns.fill(b"q7-", 3)
    turns.store.put(b"j7-", b"")
    turns.garbage.load()
    turns.finish()
    assert turns.store.keys(b"", b"\xff") == []


def test_bodies_are_released_unless_pubrec_released_them_before() -> None:
    turns = Turns()
    message = Message("", "t", b"x", 1, False, None, 0, "p", Origin("n", 1), 1)
    mid = shared_payloads.hold(turns.store, SLOT, message)
    shared_payloads.hold(turns.store, SLOT, message)
    turns.fill(b"q7-a-", 1, mid)
    turns.fill(b"q7-b-", 1, mid, RELEASED)
    turns.garbage.add(b"q7-a-")
    turns.garbage.add(b"q7-b-")
    turns.finish()
    assert turns.store.get(payload_count_key(SLOT, mid)) == b"\0\0\0\1"
    assert turns.store.get(payload_key(SLOT, mid)) is not None


def test_unreadable_entries_are_deleted_as_well() -> None:
    turns = Turns()
    turns.store.put(b"q7-1", b"\xc1")
    turns.garbage.add(b"q7-")
    turns.finish()
    assert turns.store.keys(b"", b"\xff") == []


def test_an_empty_queue_leaves_no_marker() -> None:
    turns = Turns()
    turns.garbage.add(b"q7-")
    assert turns.store.keys(b"", b"\xff") == []


def test_a_slot_that_leaves_takes_the_rest_of_its_deletions_along() -> None:
    """Nothing of it is deleted here until the slot is back; other slots go on."""
    turns = Turns()
    turns.fill(b"q7-", STEP * 3)
    turns.fill(b"q8-", STEP * 3)
    turns.garbage.add(b"q7-")
    turns.garbage.add(b"q8-")
    turns.turn()
    turns.garbage.drop(SLOT)
    turns.garbage.drop(SLOT)
    assert not turns.garbage.has(SLOT) and len(turns.garbage) == 1
    turns.finish()
    left = turns.store.keys(b"", b"\xff")
    assert len(left) == STEP * 2 + 1 and {key[:2] for key in left} == {b"q7", b"j7"}
    for _ in range(2):
        turns.garbage.load_slot(SLOT)
    assert len(turns.garbage) == 1
    turns.finish()
    assert turns.store.keys(b"", b"\xff") == []


def test_a_deletion_begins_again_after_all_slots_have_left() -> None:
    turns = Turns()
    turns.fill(b"q7-", STEP * 2)
    turns.garbage.add(b"q7-")
    turns.garbage.drop(SLOT)
    turns.finish()
    turns.fill(b"q8-", 3)
    turns.garbage.add(b"q8-")
    turns.finish()
    assert {key[:2] for key in turns.store.keys(b"", b"\xff")} == {b"q7", b"j7"}


def test_a_start_deletes_nothing_of_a_slot_that_is_elsewhere() -> None:
    turns = Turns()
    turns.fill(b"q7-", 3)
    turns.store.put(b"j7-", b"")
    turns.garbage.drop(SLOT)
    turns.garbage.load()
    turns.finish()
    assert len(turns.store.keys(b"", b"\xff")) == 4 and len(turns.garbage) == 0


def test_sessions_that_end_one_after_the_other_share_the_steps() -> None:
    turns = Turns()
    for prefix in (b"q7-a-", b"q7-b-", b"q7-c-"):
        turns.fill(prefix, STEP * 3)
    turns.finish()
    before = STEP * 9
    for prefix in (b"q7-a-", b"q7-b-", b"q7-c-"):
        turns.garbage.add(prefix)
        turns.turn()
        left = len(turns.store.keys(b"q", b"r"))
        assert before - left <= STEP
        before = left
    while turns.turn():
        left = len(turns.store.keys(b"q", b"r"))
        assert before - left <= STEP
        before = left
    assert turns.store.keys(b"", b"\xff") == []
