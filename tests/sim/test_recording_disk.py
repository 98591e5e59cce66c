"""The disk that records writes."""

from __future__ import annotations

from random import Random

from strogoff.broker.queues.records import QUEUED, EntryRecord, MessageRecord, encode
from strogoff.sim.engine.disk import SimDisk
from strogoff.sim.engine.loop import VirtualLoop
from strogoff.sim.history import History
from strogoff.sim.recording_disk import RecordingDisk, client_of
from strogoff.storage.engine import Batch, Durability
from strogoff.storage.keys import client_key, message_id, payload_key, queue_prefix, session_key
from strogoff.storage.store import Store

CLIENT = client_key(7, "", "s")
BODY = MessageRecord("t/0", b"w-1|", 1, False, None, 0, "w", "n1", 1, 1)


def make(durability: Durability = "sync") -> tuple[VirtualLoop, RecordingDisk, History]:
    loop = VirtualLoop()
    history = History(lambda: loop.now_s)
    disk = SimDisk(Random(0), loop.call_later, lambda: loop.now_s, durability)
    return loop, RecordingDisk(history, disk, lambda: "d1"), history


def entry(seq: int) -> bytes:
    return queue_prefix(CLIENT, 1) + seq.to_bytes(8, "big")


def test_the_client_in_a_key() -> None:
    assert client_of(session_key(CLIENT)) == client_of(entry(5)) == "s"


def test_entries_with_their_own_body_and_with_a_shared_one() -> None:
    loop, recorder, history = make()
    store = Store(recorder, loop.call_soon, loop.call_later)
    store.put(entry(1), encode(EntryRecord(QUEUED, 1, 1, False, (), BODY, b"", "")))
    loop.run_for(1)
    assert history.durable == {("s", "w-1"): 1} and history.commits == 1
    mid = message_id("n1", 1, 2)
    other = MessageRecord("t", b"w-2|", 1, False, None, 0, "w", "n1", 1, 2)
    store.put(payload_key(7, mid), encode(other))
    store.put(entry(2), encode(EntryRecord(QUEUED, 1, 1, False, (), None, mid, "")))
    store.delete(entry(1))
    loop.run_for(1)
    assert history.durable["s", "w-2"] == 2


def test_each_disk_has_its_own_first_commit_and_a_body_may_follow_its_entry() -> None:
    """As in a copy of a slot, whose rows come in the order of their kinds."""
    loop, recorder, history = make()
    mid = message_id("n1", 1, 2)
    queued = encode(EntryRecord(QUEUED, 1, 1, False, (), None, mid, ""))
    body = encode(MessageRecord("t", b"w-2|", 1, False, None, 0, "w", "n1", 1, 2))
    batches: list[Batch] = [{entry(2): queued}, {payload_key(7, mid): body}, {entry(2): queued}]
    for rows in batches:
        recorder.write(rows, lambda error: None)
        loop.run_for(1)
    assert history.durable == {("s", "w-2"): 2} and history.copies == {("s", "w-2"): {"d1": 2}}
    other = RecordingDisk(history, SimDisk(Random(0), loop.call_later, lambda: loop.now_s), lambda: "d2")
    other.write({payload_key(7, mid): body, entry(2): queued}, lambda error: None)
    loop.run_for(1)
    assert history.durable == {("s", "w-2"): 2} and history.copies == {("s", "w-2"): {"d1": 2, "d2": 4}}


def test_a_write_interrupted_by_a_crash_counts_if_it_is_stored() -> None:
    landed = set()
    for seed in range(20):
        _, recorder, history = make()
        recorder.disk._rng.seed(seed)
        recorder.write({entry(1): encode(EntryRecord(QUEUED, 1, 1, False, (), BODY, b"", ""))}, lambda error: None)
        recorder.crash(False)
        assert (recorder.get(entry(1)) is not None) == (("s", "w-1") in history.durable)
        landed.add(history.commits)
    assert landed == {0, 1}


def test_a_write_pending_at_a_stop_counts() -> None:
    """The last write is stored, and its caller is not called back (3 nodes, seeds 205 and 373)."""
    _, recorder, history = make()
    recorder.write({entry(1): encode(EntryRecord(QUEUED, 1, 1, False, (), BODY, b"", ""))}, lambda error: None)
    recorder.close()
    recorder.reopen()
    assert history.durable == {("s", "w-1"): 1}


def test_the_begin_of_a_write_is_reported() -> None:
    loop, recorder, _ = make()
    begun: list[float] = []
    recorder.on_write = lambda: begun.append(loop.now_s)
    store = Store(recorder, loop.call_soon, loop.call_later)
    store.put(b"x", b"1")
    loop.run_for(1)
    assert begun == [0.0] and recorder.writes == 1 and recorder.scan(b"x", b"y") == [(b"x", b"1")]
    recorder.close()
    recorder.reopen()
    assert recorder.keys(b"x", b"y") == [b"x"]


def test_a_message_that_is_twice_in_a_queue_of_one_disk() -> None:
    """On an old copy of the disk the message gets a new place (5 nodes, seed 1739)."""
    loop, recorder, history = make()
    store = Store(recorder, loop.call_soon, loop.call_later)
    store.put(entry(1), encode(EntryRecord(QUEUED, 1, 1, False, (), BODY, b"", "")))
    loop.run_for(1)
    recorder.replace(SimDisk(Random(1), loop.call_later, lambda: loop.now_s))
    store = Store(recorder, loop.call_soon, loop.call_later)
    store.put(entry(2), encode(EntryRecord(QUEUED, 1, 1, False, (), BODY, b"", "")))
    loop.run_for(1)
    assert not history.problems
    store.put(entry(3), encode(EntryRecord(QUEUED, 1, 1, False, (), BODY, b"", "")))
    loop.run_for(1)
    assert len(history.problems) == 1


def test_after_a_loss_of_power_without_fsync_a_message_may_have_another_place() -> None:
    """The entry may be lost, and the message comes again."""
    record = encode(EntryRecord(QUEUED, 1, 1, False, (), BODY, b"", ""))
    cases: list[tuple[Durability, bool, int]] = [("os", True, 0), ("os", False, 1), ("sync", True, 1)]
    for durability, power, twice in cases:
        loop, recorder, history = make(durability)
        recorder.write({entry(1): record}, lambda error: None)
        loop.run_for(1)
        recorder.crash(power)
        recorder.write({entry(2): record}, lambda error: None)
        loop.run_for(1)
        assert len(history.problems) == twice


def test_a_failed_write_counts_from_the_next_start_if_it_is_stored() -> None:
    counted = set()
    for seed in range(20):
        loop = VirtualLoop()
        history = History(lambda loop=loop: loop.now_s)  # type: ignore[misc]
        recorder = RecordingDisk(history, SimDisk(Random(seed), loop.call_later, lambda loop=loop: loop.now_s))  # type: ignore[misc]
        recorder.disk.failing = True
        store = Store(recorder, loop.call_soon, loop.call_later)
        store.put(entry(1), encode(EntryRecord(QUEUED, 1, 1, False, (), BODY, b"", "")))
        loop.run_for(1)
        assert store.state == "failed" and not history.durable
        recorder.crash(False)
        counted.add((bool(recorder.keys(entry(1), entry(2))), ("s", "w-1") in history.durable))
    assert counted == {(True, True), (False, False)}
