"""Which copy goes on next while slots are filled, and how much is under way to a node."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from strogoff.broker.clustering import slot_filling
from strogoff.broker.clustering.copy_codec import CopyAttempt, CopyItem, Digests, Rows
from strogoff.broker.clustering.slot_comparison import Comparison
from strogoff.broker.clustering.slot_filling import BEGUN, FILLING, IN_SYNC, Copy, SlotFilling
from strogoff.broker.environment import Environment
from strogoff.cluster.slots.table import Holder
from strogoff.storage.engine import StorageError

ROW = 100
"""Bytes of a row."""


class Filler:
    """A `SlotFilling` whose slots have rows. `sent`: number, node, slot and item of all that it has sent."""

    def __init__(self, rows: int = 10) -> None:
        self.rows_of = dict.fromkeys(range(256), rows)
        self.sent: list[tuple[int, str, int, CopyItem]] = []
        self.given_up: list[Copy] = []
        self.log: list[str] = []
        self.turns = self.landings = 0
        self.quiet = True
        self.now_ms = 0.0
        self.open_commit = 1
        self.store = self
        self._steps: deque[Callable[[], None]] = deque()
        env = cast(Environment, self)
        self.filling = SlotFilling(env, self, lambda: self.now_ms, self._give, self._give_up, lambda node: self.quiet)
        self.env = self

    # -- what the filling needs

    def background(self, step: Callable[[], None]) -> None:
        self._steps.append(step)

    def when_landed(self, commit: int, then: Callable[[], None]) -> None:
        self.landings += 1

    def rows(self, slot: int, after: bytes, upto: bytes) -> Iterator[tuple[bytes, bytes]]:
        if self.rows_of[slot] < 0:
            raise StorageError("the table is damaged")
        for number in range(self.rows_of[slot]):
            key = b"%05d" % number
            if after < key and (not upto or key <= upto):
                yield key, bytes(ROW - len(key))

    def last_of_series(self, key: bytes) -> bytes:
        raise AssertionError(key)

    def event(self, name: str, **facts: Any) -> None:
        raise AssertionError(name)

    def _give(self, copy: Copy, item: CopyItem) -> int:
        self.sent.append((len(self.sent) + 1, copy.holder.node, copy.attempt.slot, item))
        return len(self.sent)

    def _give_up(self, copy: Copy) -> None:
        copy.over = True
        self.filling.ended(copy)
        self.given_up.append(copy)

    # -- what a test does

    def begin(self, slot: int, node: str = "n2", kept: bool = False) -> Copy:
        copy = Copy(CopyAttempt(slot, 1, slot + 1), cast(Holder, _Holder(node)))
        self.filling.begin(copy, kept)
        return copy

    def turn(self) -> None:
        """Run the next planned turn."""
        self.turns += 1
        self._steps.popleft()()

    def run(self) -> list[int]:
        """Run all turns. Returns the slots of the items that were sent meanwhile."""
        before = len(self.sent)
        while self._steps:
            self.turn()
        return [slot for _, _, slot, _ in self.sent[before:]]

    def ack(self, upto: int, node: str = "n2") -> list[int]:
        """A node acknowledges items. Returns the slots of the items that are sent because of that."""
        self.filling.acked(node, upto)
        return self.run()


class _Holder:
    def __init__(self, node: str) -> None:
        self.node = node


def log_of(filler: Filler) -> list[str]:
    """The lines that the filling writes from now on."""
    lines: list[str] = []
    filler.log = cast(Any, lambda level, text: lines.append(f"{level}: {text}"))
    return lines


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items of two rows, and one of them under way while commits wait, else two."""
    monkeypatch.setattr(slot_filling, "SMALL", (2 * ROW, 2 * ROW))
    monkeypatch.setattr(slot_filling, "LARGE", (2 * ROW, 4 * ROW))


def test_a_node_gets_the_copies_one_after_the_other() -> None:
    """The first copy is in sync before the last one begins. Otherwise all would be in sync only at the end."""
    filler = Filler(rows=4)
    for slot in (7, 3, 5):
        filler.begin(slot)
    order = filler.run()
    for number in range(1, 20):
        order += filler.ack(number)
    assert [slot for at, slot in enumerate(order) if slot not in order[:at]] == [7, 3, 5]
    assert order == sorted(order, key=[7, 3, 5].index)


def test_an_item_costs_the_same_with_one_copy_and_with_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 64 copies each item looked at all of them twice, and this halved the speed of a fill under load."""
    looked: list[Comparison] = []
    needs_rows = Comparison.needs_rows.fget  # type: ignore[attr-defined]

    def noted(left: Comparison) -> bool:
        looked.append(left)
        return bool(needs_rows(left))

    monkeypatch.setattr(Comparison, "needs_rows", property(noted))
    filler = Filler(rows=10_000)
    for slot in range(64):
        filler.begin(slot)
    filler.run()
    looked.clear()
    for number in range(1, 101):
        filler.ack(number)
    assert len(filler.sent) == 102 and len(looked) <= 300


def test_an_acknowledgement_of_changes_makes_no_turn() -> None:
    """There are a thousand of them in a second while clients publish."""
    filler = Filler()
    filler.begin(1)
    filler.run()
    turns = filler.turns
    filler.filling.acked("n2", 0)
    filler.filling.acked("n3", 9)
    filler.run()
    assert filler.turns == turns
    filler.ack(1)
    assert filler.turns > turns


def test_while_commits_wait_one_item_is_under_way_to_each_node() -> None:
    filler = Filler(rows=100)
    filler.quiet = False
    filler.begin(1, "n2")
    filler.begin(2, "n2")
    filler.begin(3, "n3")
    assert filler.run() == [1, 3]
    assert filler.ack(1, "n2") == [1]
    assert filler.ack(2, "n3") == [3]
    filler.quiet = True
    assert sorted(filler.ack(3, "n2")) == [1, 1, 3], "no commit waits: there is room for two"


def test_the_items_of_a_copy_that_takes_long_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes 10 ms for each write would get 0.8 MB/s, whatever it can take. The next copy begins with small
    items."""
    monkeypatch.setattr(slot_filling, "SMALL", (10 * ROW, 10 * ROW))
    monkeypatch.setattr(slot_filling, "LARGE", (35 * ROW, 80 * ROW))
    filler = Filler(rows=155)
    filler.quiet = False
    filler.now_ms = 7_000
    filler.begin(1)
    filler.begin(2)
    filler.run()
    sizes = []
    while len(filler.sent) < 12:
        filler.now_ms += 500
        filler.ack(len(filler.sent))
        (item,) = [item for _, _, _, item in filler.sent[-1:]]
        assert isinstance(item, Rows)
        sizes.append((item.attempt.slot, len(item.rows) // 2))
    assert [rows for slot, rows in sizes if slot == 1] == [10, 20, 20, 30, 30, 35]
    assert [rows for slot, rows in sizes if slot == 2] == [10, 10, 20, 20, 30]


def test_nodes_that_get_copies_take_turns() -> None:
    filler = Filler(rows=8)
    filler.begin(1, "n2")
    filler.begin(2, "n3")
    assert filler.run() == [1, 2, 1, 2]


def test_a_copy_is_filled_when_its_last_item_is_acknowledged() -> None:
    """The batch that closes then ends the fill. Another copy is not looked at for that."""
    filler = Filler(rows=4)
    copy = filler.begin(1)
    assert filler.run() == [1, 1] and filler.ack(1) == [], "the last step finds no more rows"
    assert copy.phase == FILLING and copy.sent == 1 and filler.landings == 0
    filler.ack(2)
    assert copy.filled and filler.landings == 1


def test_a_copy_without_rows_is_filled_at_once() -> None:
    filler = Filler(rows=0)
    copy = filler.begin(1)
    assert copy.phase == BEGUN
    assert filler.run() == []
    assert copy.filled and filler.landings == 1


@pytest.mark.parametrize("over", [False, True])
def test_a_copy_that_is_in_sync_or_over_gets_nothing(over: bool) -> None:
    """The answers to the digests of the rolling check come here, too."""
    filler = Filler()
    copy = filler.begin(1)
    filler.run()
    filler.ack(len(filler.sent))
    copy.phase, copy.over = (FILLING, True) if over else (IN_SYNC, False)
    copy.left = Comparison(True)
    filler.filling.go_on(copy)
    assert filler.run() == []


def test_the_digests_of_one_copy_at_a_time_are_compared() -> None:
    """Meanwhile rows of another copy are sent. The next digests wait for the answer, or for the end of that copy."""
    filler = Filler(rows=2)
    first = filler.begin(1, kept=True)
    second = filler.begin(2, kept=True)
    third = filler.begin(3, kept=False)
    assert filler.run() == [3, 1] and isinstance(filler.sent[0][3], Rows) and isinstance(filler.sent[1][3], Digests)
    assert filler.ack(2) == []
    assert first.left.waits and not third.over
    first.left.answered(1, (), None)
    filler.filling.go_on(first)
    assert filler.run() == [2] and first.filled
    fourth = filler.begin(4, kept=True)
    assert filler.run() == []
    second.over = True
    filler.filling.ended(second)
    assert filler.run() == [4] and fourth.left.waits


def test_rows_that_cannot_be_read_end_their_copy_alone() -> None:
    filler = Filler()
    lines = log_of(filler)
    filler.rows_of[1] = -1
    broken, whole = filler.begin(1), filler.begin(2)
    filler.run()
    assert filler.given_up == [broken] and not whole.over
    assert lines == ["error: slot 1 cannot be copied to n2: the table is damaged"]
    assert [slot for _, _, slot, _ in filler.sent] == [2, 2]


def test_what_was_under_way_to_a_node_that_left_does_not_count() -> None:
    """The node acknowledges nothing of that any more: when it comes back, its copies begin at once."""
    filler = Filler(rows=100)
    old = filler.begin(1)
    assert filler.run() == [1, 1]
    old.over = True
    filler.filling.ended(old)
    filler.filling.forget_all_but(("n3",))
    filler.begin(2)
    assert filler.run() == [2, 2]
    filler.filling.forget_all_but(("n2",))
    assert filler.ack(3) == [2], "the node stays"
