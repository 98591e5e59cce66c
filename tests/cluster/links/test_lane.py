"""The two halves of a lane, joined and alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.links.frames import MalformedFrame, Run
from strogoff.cluster.links.lane import ITEM_BYTES, Gap, ReceiveLane, SendLane, _Items
from strogoff.cluster.links.pieces import Piece

MUCH = 1 << 30


def sender(count: int, window: int | None = None) -> SendLane:
    lane = SendLane(2, window)
    for number in range(1, count + 1):
        lane.add(b"%d" % number)
    return lane


def test_items_are_numbered_from_one_and_waiting_bytes_are_counted() -> None:
    lane = sender(2)
    assert lane.last == 2 and lane.waiting_bytes == 2 * (1 + ITEM_BYTES)
    assert lane.take(MUCH, MUCH) == Run(2, 1, 0, [b"1", b"2"])
    assert lane.take(MUCH, MUCH) is None
    assert lane.inflight_bytes == lane.waiting_bytes
    assert lane.acked(1) == 1 and lane.acked(1) == 0
    assert lane.waiting_bytes == lane.inflight_bytes == 1 + ITEM_BYTES


def test_the_limit_allows_one_large_item_and_the_frame_room_does_not() -> None:
    lane = SendLane(2, None)
    lane.add(bytes(100))
    lane.add(bytes(100))
    assert lane.take(MUCH, 100) is None
    run = lane.take(10, 200)
    assert run is not None and len(run.payloads) == 1


def test_a_run_fits_into_the_rest_of_the_frame() -> None:
    """Another lane may have used most of the frame."""
    lane = SendLane(2, None)
    for _ in range(10):
        lane.add(bytes(100 - ITEM_BYTES))
    run = lane.take(MUCH, 399)
    assert run is not None and len(run.payloads) == 3


def test_the_window_allows_one_large_item() -> None:
    """An item larger than the window is sent alone."""
    lane = SendLane(2, 10)
    lane.add(bytes(100))
    lane.add(b"")
    run = lane.take(MUCH, MUCH)
    assert run is not None and len(run.payloads) == 1
    assert lane.take(MUCH, MUCH) is None
    lane.acked(1)
    assert lane.take(MUCH, MUCH) == Run(2, 2, 0, [b""])


def test_voids() -> None:
    """Consecutive ones are one run; those at the end are sent as well."""
    lane = sender(6)
    for seq in (1, 2, 4, 6):
        lane.void(seq)
    lane.void(99)
    assert [lane.take(MUCH, MUCH) for _ in range(4)] == [
        Run(2, 1, 2, [b"3"]),
        Run(2, 4, 1, [b"5"]),
        Run(2, 6, 1, []),
        None,
    ]
    lane.void_all()
    assert lane.waiting_bytes == lane.inflight_bytes == 0


def test_resume() -> None:
    """Lost acknowledgements, resending, and a receiver that has forgotten."""
    lane = sender(5)
    lane.take(MUCH, MUCH)
    lane.acked(1)
    assert lane.resume(3) == 2
    assert lane.take(MUCH, MUCH) == Run(2, 4, 0, [b"4", b"5"]) and lane.resent == 2
    assert lane.resume(0) == 0
    assert lane.take(MUCH, MUCH) == Run(2, 1, 3, [b"4", b"5"]) and lane.resent == 4
    lane.acked(5)
    assert lane.resume(0) == 0
    assert lane.take(MUCH, MUCH) == Run(2, 1, 5, [])


def test_items_of_an_earlier_stream_are_acknowledged_before_a_resend() -> None:
    """The peer had the items in memory, and its disk was slower than the broken stream."""
    lane = sender(3)
    assert lane.take(1000, 1000) is not None
    lane.resume(0)
    assert lane.acked(2) == 2
    assert lane.inflight_bytes == 0 and lane.unsent_bytes == lane.waiting_bytes == 1 + ITEM_BYTES
    run = lane.take(1000, 1000)
    assert run is not None and (run.first, run.voids, run.last) == (1, 2, 3)


def test_impossible_claims() -> None:
    """An acknowledgement of items never sent; a watermark of another lane."""
    lane = sender(3)
    with pytest.raises(MalformedFrame, match="lane 2: 1 acknowledged, 0 sent"):
        lane.acked(1)
    with pytest.raises(MalformedFrame, match="lane 2: the peer has 4, of 3 that this process made"):
        lane.resume(4)
    with pytest.raises(MalformedFrame):
        lane.resume(-1)


def test_a_gap_is_not_taken() -> None:
    """H-07: items behind the gap are not taken either."""
    lane = ReceiveLane(2, 5)
    with pytest.raises(Gap, match="lane 2: a run from 7 after 5"):
        list(lane.take(Run(2, 7, 0, [b"7"])))
    with pytest.raises(Gap):
        list(lane.take(Run(2, 7, 3, [])))
    assert lane.received == 5


def test_duplicates_are_dropped() -> None:
    lane = ReceiveLane(2, 0)
    assert list(lane.take(Run(2, 1, 0, [b"1", b"2"]))) == [(1, b"1"), (2, b"2")]
    assert list(lane.take(Run(2, 1, 0, [b"1", b"2", b"3"]))) == [(3, b"3")]
    assert list(lane.take(Run(2, 1, 3, []))) == [] and lane.received == 3
    assert lane.duplicates == 2 and lane.done == 0


def test_voids_are_acknowledged_after_earlier_items() -> None:
    lane = ReceiveLane(2, 0)
    list(lane.take(Run(2, 1, 2, [b"3"])))
    assert lane.done == 2
    list(lane.take(Run(2, 4, 2, [b"6"])))
    assert lane.finish(3) and lane.done == 5
    assert not lane.finish(2)
    assert lane.finish(6) and lane.done == 6


def test_refuse_takes_it_back() -> None:
    lane = ReceiveLane(2, 0)
    items = lane.take(Run(2, 1, 0, [b"1", b"2"]))
    assert next(items) == (1, b"1")
    lane.refuse(1)
    assert lane.received == 0
    assert list(lane.take(Run(2, 1, 0, [b"1"]))) == [(1, b"1")]


@given(st.lists(st.sampled_from(["add", "take", "ack", "break", "void", "restart"]), max_size=60), st.randoms())
def test_two_halves(steps: list[str], rng: object) -> None:
    """Each item that was not voided is taken once, in order, whatever happens; at the end no item waits."""
    choose = rng.choice  # type: ignore[attr-defined]
    send, receive = SendLane(1, 60), ReceiveLane(1, 0)
    taken: list[bytes] = []
    voided: set[bytes] = set()

    def take() -> bool:
        run = send.take(40, MUCH)
        if run is not None:
            taken.extend(payload for _, payload in receive.take(run))
        return run is not None

    def ack() -> None:
        receive.finish(receive.received)
        if receive.done <= send.sent:
            send.acked(receive.done)

    for step in steps:
        if step == "add":
            send.add(b"%d" % (send.last + 1))
        elif step == "take":
            take()
        elif step == "ack":
            ack()
        elif step == "break":
            send.resume(receive.done)
        elif step == "restart":  # with a durable watermark: everything taken is on disk
            receive = ReceiveLane(1, receive.received)
            send.resume(receive.done)
        elif send._items:
            seq = choose(sorted(send._items))
            voided.add(b"%d" % seq)
            send.void(seq)
    while take() or send.waiting_bytes:
        ack()
    assert [payload for payload in taken if payload not in voided] == [
        payload for number in range(1, send.last + 1) if (payload := b"%d" % number) not in voided
    ]
    assert taken == sorted(set(taken), key=int)


def test_an_item_is_sent_after_earlier_items_of_another_lane() -> None:
    """This also holds when both are sent again: the item waits until the other lane is acknowledged that far."""
    other, lane = sender(3), SendLane(1, None)
    lane.add(b"a")
    lane.follow(other)
    other.add(b"4")
    lane.add(b"b")
    lane.follow(other)
    assert lane.take(MUCH, MUCH, lane.free(other)) is None
    other.take(3 * ITEM_BYTES + 3, MUCH)
    run = lane.take(MUCH, MUCH, lane.free(other))
    assert run is not None and run.payloads == [b"a"]
    other.take(MUCH, MUCH)
    assert lane.free(other) == 2
    for each in (other, lane):
        each.resume(0)
    assert lane.free(other) == 0
    other.take(MUCH, MUCH)
    other.acked(4)
    other.resume(4)
    assert lane.free(other) == 2


def test_items_after_a_refused_one_are_dropped_until_it_is_sent_again() -> None:
    """Runs and pieces sent before the sender knew of the refusal are no gap."""
    lane = ReceiveLane(2, 0)
    taken = lane.take(Run(2, 1, 0, [b"1", b"2"]))
    assert next(taken) == (1, b"1")
    lane.refuse(1)
    assert list(lane.take(Run(2, 3, 0, [b"3"]))) == [] and lane.take_piece(Piece(2, 4, 2, 0, b"4")) is None
    assert list(lane.take(Run(2, 1, 0, [b"1", b"2"]))) == [(1, b"1"), (2, b"2")]
    with pytest.raises(Gap):
        list(lane.take(Run(2, 4, 0, [b"4"])))
    with pytest.raises(Gap):
        lane.take_piece(Piece(2, 4, 2, 0, b"4"))


def test_a_new_stream_begins_with_nothing_incomplete() -> None:
    lane = ReceiveLane(2, 0)
    assert lane.take_piece(Piece(2, 1, 4, 0, b"ab")) is None and lane.bytes_held == 2
    lane.reopen()
    assert lane.bytes_held == 0
    with pytest.raises(Gap):
        lane.take_piece(Piece(2, 1, 4, 2, b"cd"))


def test_an_item_set_aside_is_acknowledged_after_earlier_items() -> None:
    lane = ReceiveLane(2, 0)
    for seq, _ in lane.take(Run(2, 1, 0, [b"1", b"junk"])):
        if seq == 2:
            lane.set_aside(2)
    assert lane.done == 0
    assert lane.finish(1) and lane.done == 2


def test_a_change_between_two_pieces_restarts_the_item() -> None:
    """The item is voided, acknowledged, held or requested again between two pieces: the next piece begins an item."""
    lane = SendLane(2, 100, whole=40)
    for _ in range(4):
        lane.add(bytes(60))
    assert lane.take(MUCH, MUCH) is None
    first = lane.take_piece(MUCH)
    assert first is not None and (first.seq, first.offset, len(first.data), first.size) == (1, 0, 40, 60)
    lane.void(1)
    assert lane.take(MUCH, MUCH) == Run(2, 1, 1, [])
    second, last = lane.take_piece(MUCH), lane.take_piece(MUCH)
    assert second is not None and last is not None and (second.seq, second.offset, last.offset) == (2, 0, 40)
    assert lane.sent == 2 and last.last and lane.take_piece(MUCH) is None  # the window is full
    lane.acked(2)
    assert lane.take_piece(10) is not None
    lane.hold()
    assert lane.take_piece(10) is None and lane.take(MUCH, MUCH) is None
    lane.rewind(3)
    again = lane.take_piece(MUCH)
    assert again is not None and (again.seq, again.offset) == (3, 0)


class _CountedItems(_Items):
    """Counts the numbers that are looked up or passed."""

    steps = 0

    def __contains__(self, key: object) -> bool:
        self.steps += 1
        return super().__contains__(key)

    def __iter__(self) -> Iterator[int]:
        for key in super().__iter__():
            self.steps += 1
            yield key

    def items(self) -> Any:
        return [(key, self[key]) for key in self]

    def get(self, key: int, default: Any = None) -> Any:
        self.steps += 1
        return super().get(key, default)

    def pop(self, key: int, default: Any = None) -> Any:
        self.steps += 1
        return super().pop(key, default)


@pytest.mark.parametrize("stuck", [[1], [1, 2500, 5000], [1, 4000, 4001, 10_000]])
def test_a_new_stream_takes_as_many_steps_as_items_are_kept(stuck: list[int]) -> None:
    """All others may have been acknowledged early. The receiver may also hold the lane, and ask for it again."""
    lane = SendLane(2, None)
    for _ in range(10_000):
        lane.add(b"")
    while lane.take(MUCH, MUCH) is not None:
        pass
    lane.early([seq for seq in range(1, 10_001) if seq not in stuck])
    items = _CountedItems()
    items.update(lane._items)
    lane._items = items
    for again in (lambda: lane.resume(0), lambda: lane.rewind(1), lambda: lane.resume(0)):
        again()
        runs = []
        while (run := lane.take(MUCH, MUCH)) is not None:
            runs.append(run)
        sent = [run.first + run.voids + at for run in runs for at in range(len(run.payloads))]
        assert sent == stuck and runs[-1].last == 10_000
        assert lane.inflight_bytes == len(stuck) * ITEM_BYTES
    new = lane.add(b"new")
    lane.void(lane.add(b"cancelled"))
    assert lane.take(MUCH, MUCH) == Run(2, new, 0, [b"new"]) and lane.take(MUCH, MUCH) == Run(2, new + 1, 1, [])
    assert lane.acked(new + 1) == len(stuck) + 1
    assert lane.waiting_bytes == lane.inflight_bytes == 0
    assert items.steps < 100
