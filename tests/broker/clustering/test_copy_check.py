"""Each primary compares its copies with its own rows, and repairs what differs (H-53)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from strogoff.broker.clustering import copy_check, slot_comparison
from strogoff.broker.clustering.copy_check import ANSWER_MS, CopyCheck
from strogoff.broker.clustering.copy_codec import CopyItem, Digests, Rows, decode_item
from strogoff.broker.clustering.slot_comparison import Size
from strogoff.broker.options import Options
from strogoff.cluster.identity import SLOTS, slot_of
from strogoff.cluster.slots.table import SlotRow
from strogoff.storage.engine import DiskFull, StorageError
from strogoff.testing.cluster import Cluster
from tests.broker.clustering.copied_cluster import CopiedCluster, resumed, subscriber
from tests.harness.broker import PacketClient, publish
from tests.harness.cluster import MAJORITY
from tests.harness.waiting import until


class Checked(CopiedCluster):
    """The slot of `sub`, with 40 messages, has its rows at `primary` and a copy at `follower`."""

    def __init__(self, interval_s: int = 0) -> None:
        super().__init__(queue_check_interval_s=interval_s)
        subscriber(self).leave()
        self.primary, self.follower = self.copied()
        self.writer: PacketClient = self[self.third()].client("writer")
        self.expected = [b"%d" % number for number in range(40)]
        for payload in self.expected:
            self.writer.publish("t", payload, 1)
        self.pass_s(1.0)
        self.items: list[CopyItem] = []
        """What the primary has sent about the slot, without changes."""
        self._watch()

    def _watch(self) -> None:
        replicator = self.replicator(self.primary)
        send = replicator._send

        def noted(node: str, data: bytes) -> int:
            item: Any = decode_item(data)
            if hasattr(item, "attempt") and item.attempt.slot == self.slot:
                self.items.append(item)
            return send(node, data)

        replicator._send = noted  # type: ignore[assignment]

    @property
    def check(self) -> CopyCheck:
        clustering = self[self.primary].host.clustering
        assert clustering is not None
        return clustering.slots.check

    def rot(self, number: int, key: bytes, value: bytes | None) -> None:
        """Change or lose a row behind the back of a node."""
        self[number].disks[0].rot(key, value)

    def keys(self, kind: bytes) -> list[bytes]:
        return sorted([key for key in self.rows(self.follower) if key[:1] == kind])

    def compare(self) -> None:
        """Compare the copy once, to the end."""
        before = self[self.primary].node.env.counters.queue_copy_checks
        self.check.begin([self.slot])
        self.until(lambda: self[self.primary].node.env.counters.queue_copy_checks > before)
        self.pass_s(1.5)

    def repaired(self) -> int:
        """The number of rows that the follower has replaced, by its events."""
        events = [row for row in self[self.follower].host.events if row["type"] == "slot.repair"]
        assert all((row["slot"], row["source"]) == (self.slot, f"n{self.primary}") for row in events)
        return sum([row["rows"] for row in events])

    def promote(self) -> None:
        """The primary dies. The follower has everything, once and in order."""
        self[self.primary].kill()
        assert self.taken_over(self.primary) == self.follower
        assert resumed(self, 6 - self.primary - self.follower) == self.expected


@pytest.fixture
def cluster() -> Checked:
    return Checked()


# -- what is found and repaired


def test_equal_copies_cost_digests_alone(cluster: Checked) -> None:
    cluster.compare()
    assert [type(item) for item in cluster.items] == [Digests]
    assert cluster.repaired() == 0
    assert cluster[cluster.follower].node.env.counters.queue_copy_repairs == 0


@pytest.mark.parametrize("kind", [b"s", b"b", b"q", b"k"])
def test_a_row_that_the_follower_has_lost_comes_back(cluster: Checked, kind: bytes) -> None:
    (key, *_) = cluster.keys(kind)
    cluster.rot(cluster.follower, key, None)
    cluster.compare()
    assert cluster.rows(cluster.follower) == cluster.rows(cluster.primary)
    assert cluster.repaired() == 1
    assert cluster[cluster.follower].node.env.counters.queue_copy_repairs == 1
    assert len([item for item in cluster.items if isinstance(item, Rows)]) == 1
    cluster.promote()


def test_a_row_that_has_changed_is_written_again(cluster: Checked) -> None:
    key = cluster.keys(b"q")[7]
    cluster.rot(cluster.follower, key, b"rotten")
    cluster.compare()
    assert cluster.repaired() == 1
    cluster.promote()


def test_rows_that_the_primary_does_not_have_are_deleted(cluster: Checked) -> None:
    """As if the follower had skipped a deletion. The copy began without any row, so no rows were kept."""
    first, *_, last = cluster.keys(b"q")
    cluster.rot(cluster.follower, first + b"\x00", b"never written")
    cluster.rot(cluster.follower, last + b"\x00", b"never written")
    cluster.compare()
    assert cluster.repaired() == 2
    cluster.promote()


def test_all_rows_of_a_slot_come_back(cluster: Checked) -> None:
    lost = cluster.rows(cluster.follower)
    for key in lost:
        cluster.rot(cluster.follower, key, None)
    cluster.compare()
    assert cluster.repaired() == len(lost)
    cluster.promote()


def test_the_logs_of_both_nodes_say_what_was_wrong(cluster: Checked) -> None:
    cluster.rot(cluster.follower, cluster.keys(b"q")[3], None)
    cluster.compare()
    (said,) = [text for level, text in cluster[cluster.primary].host.lines if level == "error"]
    assert said == (
        f"the copy of slot {cluster.slot} at n{cluster.follower} had wrong rows: they were sent again. "
        f"The log of n{cluster.follower} has more"
    )


def test_the_copy_stays_in_sync_while_it_is_repaired(cluster: Checked) -> None:
    row = cluster.row()
    cluster.rot(cluster.follower, cluster.keys(b"q")[3], None)
    cluster.compare()
    assert cluster.row() == row


def test_many_steps_find_each_row(cluster: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_comparison, "LEVELS", (Size(16, 1000), Size(4, 300)))
    monkeypatch.setattr(slot_comparison, "STEP", Size(16, 1000))
    monkeypatch.setattr(copy_check, "ITEM_BYTES", 100)
    keys = cluster.keys(b"q")
    for key in keys[::9]:
        cluster.rot(cluster.follower, key, None)
    cluster.compare()
    assert cluster.repaired() == len(keys[::9])
    assert len([item for item in cluster.items if isinstance(item, Digests)]) > 4
    cluster.promote()


# -- exactness


def test_writes_of_the_open_batch_are_no_difference(cluster: Checked) -> None:
    """The digests are of the rows that the last closed batch has left: the follower has got no others yet."""
    store, key = cluster[cluster.primary].node.env.store, cluster.keys(b"q")[3]
    value = store.get(key)
    assert value is not None
    step = cluster.check._step
    sent: list[int] = []

    def while_a_batch_is_open() -> None:
        store.write_later(key, value + b"changed")
        step()
        sent.append(store.open_commit)
        assert store.is_waiting(key)

    cluster.check._step = while_a_batch_is_open  # type: ignore[method-assign]
    cluster.compare()
    assert len(sent) == 1 and len(cluster.items) == 1
    assert cluster.rows(cluster.follower) == cluster.rows(cluster.primary)
    assert cluster.repaired() == 0


def test_a_repair_brings_nothing_of_the_open_batch(cluster: Checked) -> None:
    """It may never be written: the follower would have a part of it."""
    store, (first, second, *_) = cluster[cluster.primary].node.env.store, cluster.keys(b"q")
    cluster.rot(cluster.follower, first, None)
    step, send = cluster.check._step, cluster.check._copies.send

    def while_a_batch_is_open() -> None:
        store.write_later(second, b"batch %d" % store.open_commit)
        step()

    def seen(node: str, item: CopyItem) -> int:
        if isinstance(item, Rows):
            assert first in item.rows and b"batch %d" % store.open_commit not in item.rows
        return send(node, item)

    cluster.check._step = while_a_batch_is_open  # type: ignore[method-assign]
    cluster.check._copies.send = seen  # type: ignore[method-assign]
    cluster.compare()
    assert cluster.repaired() == 1


def test_a_busy_slot_is_compared_without_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_check, "PATIENCE_MS", 0)
    monkeypatch.setattr(slot_comparison, "LEVELS", (Size(8, 500), Size(4, 300)))
    monkeypatch.setattr(slot_comparison, "STEP", Size(8, 500))
    cluster = Checked()
    checks = cluster[cluster.primary].node.env.counters
    for number in range(200):
        cluster.check.begin([cluster.slot])
        cluster.writer.send(publish("t", b"more %d" % number, 1, number + 1))
        cluster.pass_s(0.1)
    assert checks.queue_copy_checks > 5 and len(cluster.items) > 30
    assert cluster.repaired() == 0 and not any(isinstance(item, Rows) for item in cluster.items)


# -- the disks cannot be read


def test_a_primary_that_cannot_read_its_rows_sends_nothing(cluster: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    before = cluster.rows(cluster.follower)

    def unreadable(*_: object, **__: object) -> object:
        raise StorageError("damaged")

    monkeypatch.setattr(cluster[cluster.primary].host.engine, "scan", unreadable)
    cluster.check.begin([cluster.slot])
    cluster.until(lambda: cluster.check.due == 0)
    cluster.pass_s(1.0)
    assert cluster.items == [] and cluster.rows(cluster.follower) == before
    assert len(cluster.row().in_sync) == 2
    text = f"slot {cluster.slot} cannot be compared with its copy at n{cluster.follower}, which stays as it is: damaged"
    assert ("error", text) in cluster[cluster.primary].host.lines


def _unreadable_once(cluster: Checked, monkeypatch: pytest.MonkeyPatch, error: StorageError) -> None:
    sessions = cluster[cluster.follower].node.slot_sessions

    def unreadable(*_: object, **__: object) -> object:
        monkeypatch.undo()
        raise error

    monkeypatch.setattr(sessions, "rows", unreadable)
    cluster.check.begin([cluster.slot])


def test_a_follower_that_cannot_read_its_rows_leaves_the_in_sync_set(
    cluster: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    _unreadable_once(cluster, monkeypatch, StorageError("damaged"))
    cluster.until(lambda: len(cluster.row().in_sync) == 1)
    cluster.copied()
    cluster.promote()


def test_a_follower_that_lacks_file_descriptors_is_asked_again(
    cluster: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = cluster.row()
    _unreadable_once(cluster, monkeypatch, DiskFull("too many open files"))
    cluster.until(lambda: cluster[cluster.primary].node.env.counters.queue_copy_checks > 0)
    assert cluster.row() == row and len(cluster.items) == 2


# -- when


def test_each_copy_is_compared_once_in_an_interval() -> None:
    cluster = Checked(interval_s=50)
    cluster.all_copied()
    counters = cluster[cluster.primary].node.env.counters
    cluster.pass_s(50.0)
    before, cluster.items, own = counters.queue_copy_checks, [], len(cluster.replicator(cluster.primary).copies)
    cluster.pass_s(100.0)
    assert abs(counters.queue_copy_checks - before - 2 * own) <= 2 and own > 50
    assert len(cluster.items) == 2


def test_a_round_goes_on_where_the_clock_says_after_a_restart(cluster: Checked) -> None:
    """A node that restarts more often than a round ends compares all slots nevertheless."""
    cluster.all_copied()
    env, replicator = cluster[cluster.primary].node.env, cluster.replicator(cluster.primary)
    env.options = Options(queue_check_interval_s=777)
    place = env.clock.now_ms() * SLOTS // 777_000
    check = CopyCheck(env, cluster[cluster.primary].member.ports.now_ms, cluster.check._rows, replicator)
    check.tick()
    assert check._place == place and place % SLOTS > 50
    assert check.due == 0


def test_a_clock_that_jumps_makes_each_slot_due_once(cluster: Checked) -> None:
    cluster.all_copied()
    check, env, copied = (
        cluster.check,
        cluster[cluster.primary].node.env,
        len(cluster.replicator(cluster.primary).copies),
    )
    env.options = Options(queue_check_interval_s=1000)
    check.tick()
    check._place -= 3 * SLOTS
    check.tick()
    assert check.due == copied > 50
    check._due.clear()
    check._place += 3 * SLOTS
    check.tick()
    assert check.due <= 1 and check._place == env.clock.now_ms() * SLOTS // 1_000_000


def test_the_interval_0_ends_the_comparisons(cluster: Checked) -> None:
    env = cluster[cluster.primary].node.env
    env.options = Options(queue_check_interval_s=1000)
    cluster.check.tick()
    cluster.check._place -= SLOTS
    cluster.check.tick()
    assert cluster.check.due
    env.options = Options(queue_check_interval_s=0)
    cluster.pass_s(2.0)
    assert cluster.check.due == 0


def test_a_step_waits_for_commits_but_not_for_ever(cluster: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.replicator(cluster.primary), "is_idle", lambda node: False)
    cluster.check.begin([cluster.slot])
    cluster.pass_s(copy_check.PATIENCE_MS / 1000 - 0.3)
    assert cluster.items == []
    cluster.pass_s(0.6)
    assert len(cluster.items) == 1


def test_a_node_is_idle_unless_commits_or_fills_are_under_way_to_it(cluster: Checked) -> None:
    replicator, node = cluster.replicator(cluster.primary), f"n{cluster.follower}"
    assert replicator.is_idle(node)
    cluster.writer.publish("t", b"one more", 1)
    assert not replicator.is_idle(node)
    cluster.pass_s(0.5)
    assert replicator.is_idle(node)
    (copy,) = replicator.copies[cluster.slot]
    replicator._fills.append(copy)
    assert not replicator.is_idle(node)


def test_a_lost_answer_delays_the_slot(cluster: Checked) -> None:
    clustering = cluster[cluster.primary].host.clustering
    assert clustering is not None
    taken, lost = clustering.slots.replicator.received, list[bytes]()

    def first_is_lost(node: str, data: bytes) -> None:
        if lost:
            taken(node, data)
        lost.append(data)

    clustering.slots.replicator.received = first_is_lost  # type: ignore[method-assign]
    cluster.check.begin([cluster.slot])
    cluster.pass_s(ANSWER_MS / 1000 - 1)
    assert len(cluster.items) == 1 and cluster.check.due == 1
    cluster.pass_s(2.0)
    assert len(cluster.items) == 2 and cluster.check.due == 0
    first, second = cluster.items
    assert isinstance(first, Digests) and isinstance(second, Digests) and second.number == first.number + 1


# -- what ends a comparison


def test_a_follower_that_dies_ends_the_comparison(cluster: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.replicator(cluster.primary), "received", lambda node, data: None)
    cluster.check.begin([cluster.slot])
    cluster.until(lambda: cluster.items)
    assert cluster.check.due == 1
    cluster[cluster.follower].kill()
    cluster.until(lambda: len(cluster.row().in_sync) == 1)
    cluster.pass_s(0.3)
    assert cluster.check.due == 0


def test_a_slot_that_is_given_away_is_not_compared(cluster: Checked) -> None:
    replicator = cluster.replicator(cluster.primary)
    (copy,) = replicator.in_sync(cluster.slot)
    assert copy.attempt.slot == cluster.slot
    replicator._closed = {cluster.slot}
    assert replicator.in_sync(cluster.slot) == []
    cluster.check.begin([cluster.slot])
    cluster.pass_s(0.5)
    assert cluster.items == [] and cluster.check.due == 0


def test_a_copy_that_is_not_in_sync_is_not_compared(cluster: Checked) -> None:
    replicator = cluster.replicator(cluster.primary)
    (copy,) = replicator.copies[cluster.slot]
    copy.phase -= 1
    assert replicator.in_sync(cluster.slot) == []


# -- real stores


def test_a_row_that_leveldb_has_lost_comes_back() -> None:
    """Three nodes with real disks. A row is deleted in LevelDB itself, so no part of the broker knows of it. When the
    primary is killed, the follower has all messages."""

    async def test() -> None:
        conf: dict[str, str | int | bool] = {"queue_replicas": 2, "queue_check_interval": 0, **MAJORITY}
        async with Cluster(3, conf, "leveldb", pace=4) as cluster:
            client = await cluster.client("sub", clean_start=False)
            await client.subscribe("t", qos=1)
            await client.disconnect()
            slot, ports = slot_of("", "sub"), [node.server.cluster for node in cluster.nodes]

            def row(number: int = 0) -> SlotRow:
                port = ports[number]
                assert port is not None
                return port.slots()[0].row(slot)

            await until(lambda: row().primary is not None and len(row().in_sync) == 2)
            numbers = {node.name: number for number, node in enumerate(cluster.nodes)}
            primary, (follower,) = row().primary, [each.node for each in row().in_sync if each != row().primary]
            assert primary is not None
            former, last = numbers[primary.node], numbers[follower]
            writer = await cluster.client("writer", 3 - former - last)
            for number in range(20):
                await writer.publish("t", f"{number}", qos=1)
            await cluster.settled()
            node, port = cluster[last].node, ports[former]

            def messages() -> list[bytes]:
                return [key for key, _ in node.slot_sessions.rows(slot) if key[:1] == b"q"]

            await until(lambda: len(messages()) == 20)
            present, lost = dict(node.slot_sessions.rows(slot)), messages()[7]
            cast(Any, cluster[last].server.store)._engine._handle().delete(lost)
            assert node.env.store.get(lost) is None
            assert port is not None and port.check_copies([slot]) == 1
            await until(lambda: node.env.store.get(lost) is not None)
            assert dict(node.slot_sessions.rows(slot)) == present
            assert port.status().copies_due <= 1 and node.env.counters.queue_copy_repairs == 1
            await cluster.kill(former)
            await until(lambda: (found := row(last).primary) is not None and found.node == follower)
            await client.reconnect(last)
            assert [(await client.message()).text for _ in range(20)] == [f"{number}" for number in range(20)]

    asyncio.run(test())
