"""The conversion of a database of format 1: complete, the same after a kill at any batch, and never lossy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from strogoff.broker import slot_conversion as module
from strogoff.broker.queues.records import RELEASED, EntryRecord, RecordError, SessionRecord, encode
from strogoff.broker.sessions.slot_counters import FIRST
from strogoff.broker.slot_conversion import PROGRESS, STEPS, SlotConversion
from strogoff.cluster.identity import slot_of
from strogoff.storage import keys
from strogoff.storage.engine import Batch
from strogoff.storage.memory import VolatileMemoryEngine

from ..harness.broker import BrokerHarness
from ..harness.format_1 import INCARNATION, Format1, example, message, mid_of, middle

OLD_KINDS = {b"c", b"g", b"l", b"m"}
NEW_KINDS = {b"p", b"u", b"z", b"j", b"e"}


class Database:
    """A database on the disk, whose process may be killed between two batches. `boot` is that of the next start."""

    def __init__(self, rows: dict[bytes, bytes]) -> None:
        self.engine = VolatileMemoryEngine(lambda function: function())
        self.engine.write(dict(rows), lambda error: None)
        self.boot = 6
        self.reports: list[str] = []
        self.format = 1
        self.batches: list[Batch] = []

    @property
    def rows(self) -> dict[bytes, bytes]:
        return dict(self.engine.scan(b"", b"\xff"))

    def write(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.engine.write(batch, lambda error: None)

    def start(self, batches: int = -1) -> bool:
        """Convert as a start does, and kill the process after so many batches. Returns whether it completed."""
        self.boot += 1
        for batch in self._all(SlotConversion(self.engine, self.boot, self.reports.append)):
            if batches == 0:
                return False
            if batch:
                batches -= 1
                self.write(batch)
        return True

    def _all(self, conversion: SlotConversion) -> Iterator[Batch]:
        if self.format == 1:
            yield from conversion.convert()
            yield {}  # a kill before the format is written
            self.format = 2
        if conversion.old_rows_remain:
            yield from conversion.clean()


def converted(rows: dict[bytes, bytes]) -> dict[bytes, bytes]:
    database = Database(rows)
    assert database.start()
    return without_progress(database.rows)


def without_progress(rows: dict[bytes, bytes]) -> dict[bytes, bytes]:
    return {key: value for key, value in rows.items() if key != PROGRESS}


def kinds(rows: dict[bytes, bytes]) -> set[bytes]:
    return {key[:1] for key in rows}


def test_every_row_gets_its_place() -> None:
    """The expected rows are written by hand: payload and count per slot, wills and markers under the slot."""
    old = example().rows
    both = slot_of("", "s")
    expected = {key: value for key, value in old.items() if key[:1] not in OLD_KINDS}
    holders = {
        slot_of("", "r"): {1: 1, 2: 1, 4: 1},
        slot_of("", "x"): {1: 1, 2: 1, 4: 1, 5: 1},
        both: {1: 3, 2: 3, 4: 2, 5: 1},  # two sessions, and one that is being deleted
    }
    for slot, counts in holders.items():
        for number, count in counts.items():
            expected[b"p" + bytes([slot]) + mid_of(number)] = encode(message(number))
            expected[b"u" + bytes([slot]) + mid_of(number)] = count.to_bytes(4, "big")
    for number, client_id in ((3, "mortal"), (4, "s")):
        key = b"z" + bytes([slot_of("", client_id)]) + (5 << 40 | number).to_bytes(8, "big")
        expected[key] = old[b"l" + (5 << 40 | number).to_bytes(8, "big")]
    expected[b"j" + middle("s226") + (4 << 40 | 1).to_bytes(8, "big")] = b""
    assert converted(old) == expected


def test_every_session_with_a_deadline_gets_a_row() -> None:
    """The earlier one of will and expiry; 0 if a client was connected. An unreadable record is reported and kept."""
    rows = {b"s" + middle("broken"): b"\xc1"}
    for client_id, attached, expires_at, will_at in (
        ("attached", True, 0, 0),
        ("both", False, 9000, 7000),
        ("expires", False, 5000, 0),
        ("never", False, 0, 0),
        ("will", False, 0, 6000),
    ):
        record = SessionRecord("", client_id, 1, True, 5, None, 60, attached, expires_at, None, will_at, 0, 0, 0, {})
        rows[b"s" + middle(client_id)] = encode(record)
    database = Database(rows)
    assert database.start()
    deadlines = {keys.parse_deadline_key(key) for key in database.rows if key[:1] == b"e"}
    assert deadlines == {
        (middle("attached"), 0),
        (middle("both"), 7000),
        (middle("expires"), 5000),
        (middle("will"), 6000),
    }
    assert len(database.reports) == 1 and "broken" in database.reports[0]


def test_a_kill_after_any_batch_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_ROWS", 1)
    monkeypatch.setattr(module, "COUNTED", 2)
    old = example().rows
    whole = Database(old)
    assert whole.start()
    assert without_progress(whole.rows) == converted(old)
    for batches in range(len(whole.batches) + 1):
        database = Database(old)
        if not database.start(batches) and database.format == 1:
            kept = {key: value for key, value in database.rows.items() if key[:1] not in NEW_KINDS}
            assert without_progress(kept) == old, "the former version can still use the directory"
        assert database.start()
        assert without_progress(database.rows) == without_progress(whole.rows), batches


def test_a_kill_at_every_start_still_makes_progress() -> None:
    """Each start has time for a few batches: a supervisor that kills slow starts does not prevent the conversion."""
    old = example().rows
    database = Database(old)
    starts = 0
    while not database.start(4):
        starts += 1
        assert starts < STEPS
    assert starts > 3
    assert without_progress(database.rows) == converted(old)


def test_steps_that_are_done_are_not_repeated() -> None:
    database = Database(example().rows)
    read = []
    for boot in (7, 8, 9, 10, 11):
        conversion = SlotConversion(database.engine, boot, database.reports.append)
        for batch in conversion.convert():
            database.write(batch)
            if PROGRESS in batch and conversion.entries:
                break  # a slot with entries is done
        read.append(conversion.entries)
    assert read == [11, 5, 5, 0, 0]


def test_the_former_version_runs_after_an_interrupted_conversion() -> None:
    """It deletes and adds rows of its own, so all steps begin again: nothing of the first attempt is left."""
    old = example()
    for batches in (50, 300, 600, 840, 10_000):
        database = Database(old.rows)
        database.format = 1
        for batch in SlotConversion(database.engine, 7, database.reports.append).convert():
            if batches == 0:
                break
            batches -= 1
            database.write(batch)
        changed = Format1()
        changed.session("x")
        changed.entry("x", 0, 8, shared=True)
        keep = NEW_KINDS | {b"n"}
        database.write({key: None for key in database.rows if key[:1] not in keep})
        database.write(dict(changed.rows))
        database.boot = 8  # the boot of the former version
        assert database.start()
        rows = {key: value for key, value in database.rows.items() if key[:1] != b"n"}
        assert rows == converted(changed.rows)


def test_old_rows_are_deleted_only_under_the_new_format() -> None:
    conversion = SlotConversion(Database(example().rows).engine, 7, print)
    with pytest.raises(AssertionError):
        next(conversion.clean())


def test_a_marker_from_a_backup_does_not_convert_again() -> None:
    database = Database(example().rows)
    assert database.start()
    before = database.rows
    database.format = 1
    assert database.start()
    assert database.rows == before


def test_an_empty_database() -> None:
    assert converted({}) == {}


def test_batches_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES", 2000)
    old = Format1()
    for client_id in ("s", "s226"):
        old.session(client_id)
        for seq in range(500):
            old.entry(client_id, seq, seq, shared=True)
    database = Database(old.rows)
    assert database.start()
    sizes = [sum(len(key) + len(value or b"") for key, value in batch.items()) for batch in database.batches]
    assert max(sizes) < 2000 + 500
    monkeypatch.setattr(module, "BATCH_ROWS", 3)
    database = Database(old.rows)
    assert database.start()
    assert max(len(batch) for batch in database.batches) == 3


def test_few_payloads_are_counted_in_memory_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    old = Format1()
    for client_id in ("s", "s226"):
        old.session(client_id)
        for seq in range(20):
            old.entry(client_id, seq, seq % 7, shared=True)
    expected = converted(old.rows)
    monkeypatch.setattr(module, "COUNTED", 3)
    assert converted(old.rows) == expected
    counts = [int.from_bytes(value, "big") for key, value in expected.items() if key[:1] == b"u"]
    assert sum(counts) == 40 and len(counts) == 7


def test_an_entry_after_pubrec_needs_no_payload() -> None:
    old = example()
    expected = converted(old.rows)
    key = old.entry("s", 9, 1, shared=True)
    old.rows[key] = encode(EntryRecord(RELEASED, 0, 2, False, (), None, mid_of(1), ""))
    assert converted(old.rows) == expected | {key: old.rows[key]}


def test_an_entry_that_cannot_be_read_is_reported_and_kept() -> None:
    old = example()
    key = old.entry("s", 3, 4, shared=True)
    old.rows[key] = b"\xc1"
    database = Database(old.rows)
    assert database.start()
    assert database.rows[key] == b"\xc1"
    assert len(database.reports) == 1 and repr(key) in database.reports[0]


def test_a_payload_that_is_missing_is_reported_and_its_entries_are_kept() -> None:
    old = example()
    del old.rows[b"m" + mid_of(5)]
    database = Database(old.rows)
    assert database.start()
    assert len(database.reports) == 2, "one line for each slot"
    assert not [key for key in database.rows if key[:1] in NEW_KINDS and key[2:] == mid_of(5)]
    assert "1 queue entries of slot" in database.reports[0] and repr(b"m" + mid_of(5)) in database.reports[0]
    assert len([key for key in database.rows if key[:1] == b"q"]) == len([key for key in old.rows if key[:1] == b"q"])


def test_a_will_that_cannot_be_read_stops_the_conversion() -> None:
    """Without the conversion the start stops there as well. The old rows are complete."""
    old = example()
    key = old.waiting_will(9, "s")
    old.rows[key] = b"\xc1"
    database = Database(old.rows)
    with pytest.raises(RecordError, match="will at key"):
        database.start()
    assert old.rows.items() <= database.rows.items()


def broker_on(rows: dict[bytes, bytes]) -> BrokerHarness:
    """A broker that starts with these rows on its disk."""
    broker = BrokerHarness()
    for key, value in rows.items():
        broker.node.env.store.put(key, value)
    broker.settle()
    broker.restart()
    return broker


def test_a_broker_serves_the_sessions_of_the_former_version() -> None:
    """All sessions, queues, payloads and wills are there, and are deleted as usual when they are delivered."""
    rows = converted(example().rows)
    del rows[b"nclock"], rows[b"dkept"]
    broker = broker_on(rows)
    watcher = broker.persistent("empty")
    came: dict[str, Any] = {"empty": watcher.drain()}
    for client_id in ("s", "s226", "r", "x"):
        client = broker.persistent(client_id)
        came[client_id] = client.drain()
        session = broker.node.sessions.get("", client_id)
        assert session is not None and session.incarnation == INCARNATION and list(session.inbound.records) == [9]
    payloads = {name: [each.payload for each in messages] for name, messages in came.items()}
    every = [message(number).payload for number in (1, 2, 3, 4, 5)]
    assert payloads == {"empty": [], "s": every, "s226": every[:4], "r": every[:4], "x": every}
    broker.pass_s(1)
    assert broker.keys(b"q") == broker.keys(b"p") == broker.keys(b"u") == broker.keys(b"z") == broker.keys(b"j") == []


def test_both_waiting_wills_fire_once() -> None:
    broker = broker_on({key: value for key, value in converted(example().rows).items() if key[:1] == b"z"})
    broker.pass_s(1)
    assert sorted(event["client"] for event in broker.events("will.fire")) == ["mortal", "s"]
    broker.restart()
    broker.pass_s(1)
    assert len(broker.events("will.fire")) == 2


def test_a_new_session_of_a_converted_client_is_above_the_old_one() -> None:
    rows = converted(example().rows)
    del rows[b"nclock"], rows[b"dkept"]
    broker = broker_on(rows)
    broker.client("s").leave()
    broker.persistent("s")
    session = broker.node.sessions.get("", "s")
    assert session is not None and session.incarnation > FIRST > INCARNATION
