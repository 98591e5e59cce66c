"""Numbers of a slot: never repeated, also after a crash, and higher in a later epoch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from strogoff.broker.sessions.slot_counters import BLOCK, FIRST, SlotCounters
from strogoff.cluster.identity import slot_of
from strogoff.storage.keys import reserved_key
from strogoff.storage.memory import VolatileMemoryEngine
from strogoff.storage.store import Store

from ...harness.broker import BrokerHarness


class Disk:
    """A store that keeps its rows over restarts of the counters; `epochs` has the epoch of each slot."""

    def __init__(self) -> None:
        self.todo: deque[Callable[[], None]] = deque()
        self.store = Store(VolatileMemoryEngine(self.todo.append), self.todo.append, lambda delay_s, function: None)
        self.epochs: dict[int, int] = {}

    def start(self) -> SlotCounters:
        counters = SlotCounters(self.store, lambda slot: self.epochs.get(slot, 0))
        counters.load()
        return counters


def test_numbers_of_a_slot_rise_by_1() -> None:
    counters = Disk().start()
    assert [counters.next(7) - FIRST for _ in range(3)] == [1, 2, 3]
    assert counters.next(8) - FIRST == 1


def test_numbers_are_above_those_of_former_versions_and_fit_8_bytes() -> None:
    disk = Disk()
    first = disk.start().next(7)
    former = ((1 << 23) - 1) << 40 | 7  # boot and counter
    assert first > former
    disk.epochs[7] = (1 << 31) - 1
    assert len(disk.start().next(7).to_bytes(8, "big")) == 8


def test_a_restart_skips_numbers_and_repeats_none() -> None:
    disk = Disk()
    before = disk.start()
    used = [before.next(7) for _ in range(BLOCK + 1)]
    assert disk.start().next(7) - FIRST == 2 * BLOCK + 1 > used[-1] - FIRST


def test_one_write_reserves_a_block() -> None:
    disk = Disk()
    counters = disk.start()
    rows = []
    for _ in range(2 * BLOCK):
        counters.next(7)
        rows.append(disk.store.get(reserved_key(7)))
    assert rows == [BLOCK.to_bytes(8, "big")] * BLOCK + [(2 * BLOCK).to_bytes(8, "big")] * BLOCK


def test_a_later_epoch_has_higher_numbers_whatever_the_counter() -> None:
    former, later = Disk(), Disk()
    counters = former.start()
    numbers = [counters.next(7) for _ in range(5)]
    later.epochs[7] = 1
    assert later.start().next(7) > numbers[-1]
    assert later.start().next(8) < numbers[-1], "the epoch of one slot is not that of another"


@pytest.mark.parametrize("epoch", [-1, 1 << 31])
def test_an_epoch_has_31_bits(epoch: int) -> None:
    disk = Disk()
    disk.epochs[7] = epoch
    with pytest.raises(AssertionError):
        disk.start().next(7)


def test_a_counter_has_32_bits() -> None:
    disk = Disk()
    disk.store.put(reserved_key(7), ((1 << 32) - 1).to_bytes(8, "big"))
    with pytest.raises(AssertionError):
        disk.start().next(7)


def test_a_new_durable_session_has_a_higher_incarnation_also_after_a_kill() -> None:
    broker = BrokerHarness()
    numbers = []
    for _ in range(3):
        broker.persistent("c")
        session = broker.node.sessions.get("", "c")
        assert session is not None
        numbers.append(session.incarnation)
        broker.client("c").vanish()  # a clean start ends the session
        broker.restart()
    assert numbers == sorted(set(numbers)) and numbers[0] > FIRST


def test_a_clean_session_needs_no_number_and_no_write() -> None:
    broker = BrokerHarness()
    broker.client("c")
    assert broker.keys(b"k") == []


def test_the_number_of_a_session_is_from_its_slot_and_in_the_epoch_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = BrokerHarness()
    slot = slot_of("", "c")
    monkeypatch.setattr(broker.node.env.cluster, "slot_epoch", lambda asked: 9 if asked == slot else 0)
    broker.persistent("c")
    session = broker.node.sessions.get("", "c")
    assert session is not None and session.incarnation == FIRST | 9 << 32 | 1
    assert broker.keys(b"k") == [reserved_key(slot)]
