"""The digests of ranges find every difference, whatever changes meanwhile, and no step reads much."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from random import Random

import pytest

from strogoff.broker.clustering import slot_comparison
from strogoff.broker.clustering.slot_comparison import (
    LEVELS,
    MOST,
    ROWS,
    STEP,
    Comparison,
    Digest,
    LastOfSeries,
    RowsBetween,
    Size,
    differences,
)
from strogoff.cluster.links.frames import MalformedFrame
from strogoff.storage.keys import SLOT_KINDS
from tests.harness.thinning import thinned

Rows = dict[bytes, bytes]


def place(key: bytes) -> tuple[int, bytes]:
    return SLOT_KINDS.find(key[:1]), key


def between(rows: Rows) -> RowsBetween:
    """As `SlotSessions.rows`, from a dict."""

    def found(after: bytes, upto: bytes) -> Iterator[tuple[bytes, bytes]]:
        for key in sorted(rows, key=place):
            if (not after or place(key) > place(after)) and (not upto or place(key) <= place(upto)):
                yield key, rows[key]

    return found


def key(number: int, kind: bytes = b"q") -> bytes:
    return kind + b"\x07" + number.to_bytes(4, "big")


def queued(number: int, queue: int = 1, kind: bytes = b"q") -> bytes:
    """The key of an entry of a queue; its number has 8 bytes, as in the keys of a series."""
    return key(queue, kind) + number.to_bytes(8, "big")


def last_in(rows: Rows) -> LastOfSeries:
    """As `SlotSessions.last_of_series`, from a dict."""
    return lambda of: max(each for each in rows if each[:-8] == of[:-8])


def write(rows: Rows, after: bytes, upto: bytes, sent: list[bytes]) -> None:
    """Make a range equal, as a follower does."""
    for each, _ in list(between(rows)(after, upto)):
        del rows[each]
    rows.update(zip(sent[::2], sent[1::2], strict=True))


def compare(primary: Rows, follower: Rows, limit: int = 1 << 20) -> tuple[int, int]:
    """Compare without changes. Returns how many items with digests were needed, and how many rows were sent."""
    left, asked, sent = Comparison(True), 0, 0
    while not left.complete:
        if left.needs_rows:
            after, upto, rows = left.rows(between(primary), limit)
            write(follower, after, upto, rows)
            sent += len(rows) // 2
        else:
            number, after, digests = left.digests(between(primary))
            assert 1 <= len(digests) <= MOST
            assert left.answered(number, *differences(between(follower), after, digests))
            asked += 1
    assert follower == primary
    return asked, sent


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_comparison, "LEVELS", (Size(8, 1000), Size(2, 100)))
    monkeypatch.setattr(slot_comparison, "STEP", Size(8, 1000))


def test_equal_rows_cost_one_digest_for_each_large_range() -> None:
    rows = {key(number): b"v" for number in range(3 * STEP.rows)}
    assert compare(rows, dict(rows)) == (3, 0)


def test_one_row_that_differs_costs_the_rows_of_a_small_range() -> None:
    rows = {key(number): b"v" for number in range(3 * STEP.rows)}
    assert compare(rows, {**rows, key(700): b"other"}) == (4, LEVELS[1].rows)


def test_one_row_more_or_less_is_found() -> None:
    rows = {key(number): b"v" for number in range(100)}
    for other in ({**rows, key(1000): b""}, {each: rows[each] for each in rows if each != key(50)}):
        asked, sent = compare(dict(rows), other)
        assert asked == 2 and sent <= LEVELS[1].rows


def test_bytes_that_stand_elsewhere_make_a_difference() -> None:
    """The digest tells where a key ends, and where a value does."""
    assert compare({key(1) + b"a": b"b"}, {key(1): b"ab"}) == (1, 1)
    assert compare({key(1): b"a", key(2): b"b"}, {key(1): b"a" + key(2) + b"b"}) == (1, 2)


def test_a_follower_without_rows_gets_rows_and_no_digests() -> None:
    rows = {key(number): bytes(100) for number in range(50)}
    left, follower, items = Comparison(False), Rows(), 0
    while not left.complete:
        assert left.needs_rows and not left.needs_digests
        after, upto, sent = left.rows(between(rows), 1000)
        assert sum(map(len, sent)) < 1000 + 106
        write(follower, after, upto, sent)
        items += 1
    assert follower == rows and items == 6


def test_a_queue_that_grows_faster_than_its_rows_are_sent_is_sent_to_the_end() -> None:
    """The follower gets the new rows as changes. The copies of all other slots wait for this one."""
    rows = {queued(number, queue): bytes(100) for queue in (1, 2, 3) for number in range(50)}
    left, follower, items = Comparison(False), Rows(), 0
    while not left.complete:
        _, _, sent = left.rows(between(rows), 1000, last_in(rows))
        follower.update(zip(sent[::2], sent[1::2], strict=True))
        for number in range(50 + 20 * items, 70 + 20 * items):
            rows[queued(number, 2)] = follower[queued(number, 2)] = bytes(100)
        items += 1
        assert items < 100
    assert follower == rows


def test_short_queues_share_an_item() -> None:
    """Looking for the last row of each of them would cost more than it saves."""
    rows = {queued(number, queue): bytes(100) for queue in range(50) for number in range(2)}
    left, items, looked = Comparison(False), 0, list[bytes]()
    while not left.complete:
        left.rows(between(rows), 1000, lambda of: looked.append(of) or of)  # type: ignore[func-returns-value]
        items += 1
    assert items == 12 and not looked


def test_rows_that_differ_and_grow_are_compared_again() -> None:
    """The follower has kept one wrong row. It gets the rows behind it as changes, more of them than an item has."""
    rows = {queued(number): bytes(100) for number in range(5)}
    follower = {**rows, queued(0): b"wrong"}
    left, items, sent_rows = Comparison(True), 0, 0
    while not left.complete:
        if left.needs_rows:
            after, upto, sent = left.rows(between(rows), 1000, last_in(rows))
            write(follower, after, upto, sent)
            sent_rows += len(sent) // 2
        else:
            number, after, digests = left.digests(between(rows))
            left.answered(number, *differences(between(follower), after, digests))
        if items < 1000:
            for number in range(5 + 20 * items, 25 + 20 * items):
                rows[queued(number)] = follower[queued(number)] = bytes(100)
        items += 1
    assert follower == rows and sent_rows <= 20 and items < 10


def test_a_small_slot_that_differs_is_sent_without_further_digests() -> None:
    rows = {key(number): b"v" for number in range(LEVELS[1].rows)}
    assert compare(rows, {key(3): b"other"}) == (1, len(rows))


def test_all_kinds_of_rows_are_compared_in_the_order_of_the_slot() -> None:
    rows = {key(number, b"%c" % kind): b"v" for kind in SLOT_KINDS for number in range(60)}
    other = {each: value for each, value in rows.items() if each[0] not in b"sa"}
    compare(dict(rows), other)
    compare({}, dict(rows))


def test_neither_side_reads_more_than_a_step(small: None) -> None:
    """The follower has many rows where the primary has few: it says how far it has come."""
    step, read = slot_comparison.STEP, [0]
    primary = {key(0): b"v", key(1000): b"v"}
    follower = {key(number): b"v" for number in range(1000)}

    def counted(rows: Rows) -> RowsBetween:
        def found(after: bytes, upto: bytes) -> Iterator[tuple[bytes, bytes]]:
            for row in between(rows)(after, upto):
                read[0] += 1
                yield row

        return found

    left, items = Comparison(True), 0
    while not left.complete:
        read[0], items = 0, items + 1
        if left.needs_rows:
            after, upto, rows = left.rows(counted(primary), 1000)
            deleted = len(follower)
            write(follower, after, upto, rows)
            assert deleted - len(follower) <= 2 * step.rows
            continue
        number, after, digests = left.digests(counted(primary))
        assert read[0] <= step.rows + 1
        read[0] = 0
        different, compared = differences(counted(follower), after, digests)
        assert read[0] <= 2 * step.rows + len(digests)
        left.answered(number, different, compared)
    assert follower == primary and items < 2 * 1000 / step.rows


def test_a_step_ends_at_its_bytes(small: None) -> None:
    rows = {key(number): bytes(400) for number in range(10)}
    left = Comparison(True)
    _, _, digests = left.digests(between(rows))
    assert [each.upto for each in digests] == [key(2)]
    left.again()
    assert left.answered(2, [], None) is False
    number, after, digests = left.digests(between(rows))
    assert left.answered(number, [0], None)
    _, after, digests = left.digests(between(rows))
    assert (after, [each.upto for each in digests]) == (b"", [key(0), key(1), key(2)])


def test_the_answer_to_another_item_is_ignored() -> None:
    rows = {key(1): b"v"}
    left = Comparison(True)
    first, _, _ = left.digests(between(rows))
    left.again()
    second, _, _ = left.digests(between(rows))
    assert not left.answered(first, [], None) and left.waits
    assert left.answered(second, [], None) and left.complete


@pytest.mark.parametrize(
    ("different", "compared"),
    [([1], None), ([-1], None), ([0], b""), ([], key(100)), ([], key(200)), ([], key(9, b"s")), ([], key(9, b"a"))],
)
def test_an_answer_that_fits_no_range_is_refused(different: list[int], compared: bytes | None) -> None:
    """With such an answer the comparison might go on for ever."""
    rows = {key(number): b"v" for number in range(101, 102 + 2 * STEP.rows)}
    left = Comparison(True)
    number, _, digests = left.digests(between(rows))
    left.answered(number, [], None)
    number, after, digests = left.digests(between(rows))
    assert (after, len(digests)) == (key(100 + STEP.rows), 1)
    with pytest.raises(MalformedFrame):
        left.answered(number, different, compared)
    assert left.waits


def test_a_follower_that_stops_at_the_end_of_a_range_has_compared_it(small: None) -> None:
    follower = {key(number): b"v" for number in range(40)}
    digests = [Digest(key(15), b"?"), Digest(key(30), b"?"), Digest(b"", b"?")]
    assert differences(between(follower), b"", digests) == ([0], key(15))
    assert differences(between(follower), key(15), digests[1:]) == ([0, 1], key(31))


class Walk:
    """A primary that changes, a lane in order, and a follower with other rows, or none. Answers may be lost."""

    def __init__(self, seed: int, kept: bool) -> None:
        self.random = random = Random(seed)
        self.kept = kept
        self.keys = [
            queued(number, queue, kind)
            for kind in (b"s", b"q", b"p")
            for queue in (1, 2)
            for number in range(random.choice((3, 15, 45)))
        ]
        self.primary: Rows = {each: self.value() for each in self.keys if random.random() < 0.7}
        self.follower: Rows = {
            each: self.primary.get(each, b"extra") if random.random() < 0.9 else self.value()
            for each in random.sample(self.keys, k=random.randrange(len(self.keys) + 1) if kept else 0)
        }
        self.batch: dict[bytes, bytes | None] = {}
        self.lane: deque[tuple[str, tuple[object, ...]]] = deque()
        self.answers: deque[tuple[int, list[int], bytes | None]] = deque()
        self.left = Comparison(kept)

    def value(self) -> bytes:
        return bytes(self.random.choice((1, 1, 1, 300)))[:-1] + b"%d" % self.random.randrange(3)

    def change(self) -> None:
        each = self.random.choice(self.keys)
        if self.random.random() < 0.3:  # a queue grows
            each = max(other for other in self.keys if other[:-8] == each[:-8])
            each = each[:-8] + (int.from_bytes(each[-8:], "big") + 1).to_bytes(8, "big")
            self.keys.append(each)
        self.batch[each] = value = None if self.random.random() < 0.4 else self.value()
        if value is None:
            self.primary.pop(each, None)
        else:
            self.primary[each] = value

    def last(self, of: bytes) -> bytes:
        return last_in(self.primary)(of)

    def close(self) -> None:
        """The batch is written: its changes are sent."""
        self.lane.append(("changes", (self.batch,)))
        self.batch = {}

    def step(self) -> None:
        if self.left.needs_rows:
            self.lane.append(("rows", self.left.rows(between(self.primary), 200, self.last)))
        elif self.left.needs_digests:
            self.lane.append(("digests", self.left.digests(between(self.primary))))
        elif not self.lane and not self.answers and self.left.waits:
            self.left.again()

    def arrive(self) -> None:
        if not self.lane:
            return
        kind, item = self.lane.popleft()
        if kind == "changes":
            for each, value in item[0].items():  # type: ignore[attr-defined]
                if value is None:
                    self.follower.pop(each, None)
                else:
                    self.follower[each] = value
        elif kind == "rows" and self.kept:
            write(self.follower, *item)  # type: ignore[arg-type]
        elif kind == "rows":
            sent: list[bytes] = item[2]  # type: ignore[assignment]
            self.follower.update(zip(sent[::2], sent[1::2], strict=True))
        else:
            number, after, digests = item
            answer = differences(between(self.follower), after, digests)  # type: ignore[arg-type]
            if self.random.random() < 0.9:
                self.answers.append((number, *answer))  # type: ignore[arg-type]

    def answer(self) -> None:
        if self.answers:
            self.left.answered(*self.answers.popleft())

    def run(self) -> None:
        steps = (self.change, self.close, self.step, self.step, self.arrive, self.arrive, self.answer)
        for _ in range(2000):
            self.random.choice(steps)()
            if self.left.complete:
                break
        while not self.left.complete:
            self.step()
            self.arrive()
            self.answer()
        self.close()
        while self.lane:
            self.arrive()
        assert self.follower == self.primary


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("first", thinned(range(0, 300, 50), 3))
def test_whatever_changes_meanwhile_the_follower_ends_equal(first: int, kept: bool, small: None) -> None:
    for seed in range(first, first + 50):
        Walk(seed, kept).run()


def test_the_levels_fit_into_one_item() -> None:
    """Ranges that are full by rows, then ranges that are full by bytes, and the one at the end."""
    assert LEVELS[0] == STEP and len(LEVELS) == ROWS
    assert STEP.rows // LEVELS[1].rows + STEP.bytes // LEVELS[1].bytes + 1 <= MOST
