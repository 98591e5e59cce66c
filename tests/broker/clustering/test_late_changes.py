"""Changes that nobody waits for go to a follower with its next item, and before anything that needs them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from strogoff.broker.clustering import late_changes
from strogoff.broker.clustering.copy_codec import Changes, CopyAttempt, End, decode_item
from strogoff.broker.clustering.late_changes import LateChanges
from strogoff.broker.queues.message import Mid
from strogoff.cluster.links.ports import Lane
from strogoff.cluster.ports import GOODBYE_S
from strogoff.sim.engine.loop import Scheduled, VirtualLoop
from strogoff.storage.keys import will_key
from strogoff.storage.store import LATEST_S
from tests.broker.clustering.copied_cluster import CopiedCluster, resumed, subscriber
from tests.harness.broker import PacketClient
from tests.harness.transcript import will


class Acknowledged(CopiedCluster):
    """The subscriber has acknowledged a message a moment ago. The node with its copy does not know that yet.

    `other` is a subscriber with the same primary, whose copy is at the other follower. `items` has what the primary has
    sent since: the number of the node, and the item.
    """

    def __init__(self) -> None:
        super().__init__()
        self.client = subscriber(self)
        self.primary, self.follower = self.copied()
        self.all_copied()
        names = (f"other{number}" for number in count())
        name = next(name for name in names if self.copied(name) == (self.primary, 6 - self.primary - self.follower))
        self.other = self[self.primary].client(name, clean=False, expiry_s=600)
        self.other.subscribe(("o", 1))
        self.writer = self[self.primary].client("writer")
        self.writer.publish("t", b"1", 1)
        self.pass_s(0.1)
        self.items: list[tuple[int, Any]] = []
        self._note()
        for each in self.client.take():
            self.client.answer(each)
        self.pass_s(LATEST_S)
        self.late = self.replicator(self.primary)._late

    def _note(self) -> None:
        links = self[self.primary].member.links
        send = links.send

        def noted(node: str, lane: Lane, payload: bytes) -> int:
            if lane is Lane.REPLICA:
                self.items.append((int(node[1:]), decode_item(payload)))
            return send(node, lane, payload)

        links.send = noted  # type: ignore[method-assign]

    def of_sub(self) -> list[list[Any]]:
        """The changes of the subscriber's slot that its follower was sent, for each part of an item."""
        items = [item for node, item in self.items if node == self.follower and isinstance(item, Changes)]
        return [part.changes for item in items for part in item.parts if part.attempt.slot == self.slot]

    def lacks_the_deletion(self) -> bool:
        return self.rows(self.follower) != self.rows(self.primary)


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """No change is sent because it has waited for long."""
    monkeypatch.setattr(late_changes, "LATEST_MS", 1e9)


@pytest.fixture
def cluster() -> Acknowledged:
    return Acknowledged()


def test_a_commit_is_safe_although_a_follower_lacks_what_nobody_waits_for(never: None, cluster: Acknowledged) -> None:
    primary = cluster[cluster.primary].node.env.store
    assert cluster.items == [] and cluster.lacks_the_deletion()
    assert primary.committed == primary.open_commit - 1, "nothing waits for the follower"
    (puback,) = cluster.writer.publish("o", b"2", 1, packet_id=2)
    assert puback.packet_id == 2
    assert cluster.of_sub() == [] and cluster.lacks_the_deletion()


def test_what_nobody_waits_for_goes_with_the_next_item_in_the_order_of_commits(
    never: None, cluster: Acknowledged
) -> None:
    cluster.writer.publish("t", b"2", 1, packet_id=2)
    deleted, added = cluster.of_sub()
    assert deleted[1::2] == [None] and None not in added[1::2]
    assert [node for node, _ in cluster.items] == [cluster.follower], "one item for both commits"
    assert not cluster.lacks_the_deletion()


def test_what_nobody_waits_for_is_sent_in_time(cluster: Acknowledged) -> None:
    cluster.pass_s(late_changes.LATEST_MS / 2000)
    assert cluster.items == []
    cluster.pass_s(late_changes.LATEST_MS / 2000 + 0.01)
    assert len(cluster.of_sub()) == 1 and not cluster.lacks_the_deletion()


def test_what_comes_after_a_timer_has_begun_has_the_whole_time(cluster: Acknowledged) -> None:
    """The first change goes with an item. The second one waits then, and the timer of the first does not send it."""
    late_s = late_changes.LATEST_MS / 1000
    cluster.pass_s(0.5 * late_s)
    cluster.writer.publish("t", b"2", 1, packet_id=2)
    for each in cluster.client.take():
        cluster.client.answer(each)
    cluster.writer.publish("o", b"3", 1, packet_id=3)
    first = len(cluster.of_sub())
    assert cluster.late.nodes and cluster.lacks_the_deletion()
    cluster.pass_s(0.8 * late_s)
    assert cluster.late.nodes and len(cluster.of_sub()) == first
    cluster.pass_s(0.4 * late_s)
    assert not cluster.lacks_the_deletion()


class _Uncounted:
    counts = False


def test_a_timer_that_comes_a_little_early_is_set_once_more() -> None:
    """The clocks of timer and node differ a little. A timer for the rest of the wait could come too early each
    time."""
    loop, timers, sent = VirtualLoop(), list[float](), list[str]()

    def later(delay_s: float, function: Callable[[], None]) -> Scheduled:
        timers.append(delay_s)
        return loop.call_later(delay_s, function)

    def send(node: str) -> None:
        assert late.take(node) is not None
        sent.append(node)

    late = LateChanges(lambda: loop.now_s * 999.999, later, send)
    late.add("n2", CopyAttempt(1, 1, 1), _Uncounted(), [b"q\x01key", None], late=True)
    assert late.due() == []
    loop.run_for(late_changes.LATEST_MS / 1000 + 0.002)
    assert sent == ["n2"] and timers == [late_changes.LATEST_MS / 1000, late_changes.LEAST_MS / 1000]


def test_many_changes_do_not_wait(never: None, cluster: Acknowledged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_changes, "MOST_BYTES", 60)
    for number in range(2, 5):
        cluster.other.take()
        cluster.writer.publish("o", b"%d" % number, 1, packet_id=number)
        for each in cluster.other.take():
            cluster.other.answer(each)
        cluster.pass_s(LATEST_S)
    sent = [item for node, item in cluster.items if node != cluster.follower]
    assert len(sent) >= 3
    store = cluster[cluster.primary].node.env.store
    key = next(key for key in store.keys(b"s", b"t") if key[1] == cluster.slot)
    store.write_later(key, store.get(key))
    cluster.pass_s(LATEST_S)
    assert len(cluster.of_sub()) == 2 and not cluster.lacks_the_deletion()


def test_no_item_overtakes_what_waits(never: None, cluster: Acknowledged) -> None:
    replicator = cluster.replicator(cluster.primary)
    (copy,) = replicator.copies[cluster.slot]
    replicator._give(copy, End(copy.attempt))
    assert [type(item) for _, item in cluster.items] == [Changes, End]


def test_who_waits_for_all_writes_waits_for_the_followers(never: None, cluster: Acknowledged) -> None:
    called: list[bool] = []
    cluster[cluster.follower].disks[0].stall_until = cluster.loop.now_s + 0.5
    cluster[cluster.primary].node.env.store.when_all_safe(lambda: called.append(cluster.lacks_the_deletion()))
    cluster.pass_s(0.4)
    assert called == [] and len(cluster.of_sub()) == 1
    cluster.pass_s(0.2)
    assert called == [False]


def test_who_waits_for_all_writes_waits_for_what_was_sent_a_moment_ago(cluster: Acknowledged) -> None:
    """Nobody waited for the deletion when its time was over and it was sent. Now somebody does."""
    called: list[bool] = []
    cluster[cluster.follower].disks[0].stall_until = cluster.loop.now_s + 0.5
    cluster.pass_s(late_changes.LATEST_MS / 1000 + 0.01)
    assert cluster.late.nodes == [] and len(cluster.of_sub()) == 1
    cluster[cluster.primary].node.env.store.when_all_safe(lambda: called.append(cluster.lacks_the_deletion()))
    cluster.pass_s(0.4)
    assert called == []
    cluster.pass_s(0.2)
    assert called == [False]


def test_a_moved_slot_has_everything_that_was_acknowledged(never: None, cluster: Acknowledged) -> None:
    node = cluster[cluster.primary].node
    row, leave = bytes((ord("p"), cluster.slot)) + b"unused", node.slot_sessions.leave
    node.env.store.put(row, b"body")
    cluster.pass_s(0.1)
    assert row in cluster.rows(cluster.follower)

    def with_a_late_write(slot: int) -> list[Mid]:
        node.env.store.write_later(row, None)
        return leave(slot)

    node.slot_sessions.leave = with_a_late_write  # type: ignore[method-assign]
    cluster.move("sub", cluster.follower)
    assert cluster[cluster.follower].node.env.store.get(row) is None
    assert resumed(cluster, cluster.follower) == []


def test_a_node_that_stops_in_order_has_sent_everything(never: None, cluster: Acknowledged) -> None:
    """Then no subscriber gets a message again that it has acknowledged."""
    cluster[cluster.primary].host.say_goodbye(cluster[cluster.primary].kill)
    other = cluster.taken_over(cluster.primary)
    assert resumed(cluster, other) == []


def test_a_node_that_is_killed_may_not_have_sent_it(never: None, cluster: Acknowledged) -> None:
    """The message comes again, with DUP, as after a kill before the deletion was on the primary's own disk."""
    cluster[cluster.primary].kill()
    other = cluster.taken_over(cluster.primary)
    client, connack = cluster[other].connect("sub", clean=False, expiry_s=600)
    assert connack.session_present
    assert [(each.payload, each.dup) for each in client.drain()] == [(b"1", True)]


def test_what_waits_for_a_node_that_is_gone_is_forgotten(never: None, cluster: Acknowledged) -> None:
    assert cluster.late.nodes == [f"n{cluster.follower}"]
    cluster.lose_follower()
    assert cluster.late.nodes == []


def test_a_late_change_joins_another_commit_of_its_node(never: None, cluster: Acknowledged) -> None:
    """The primary tells each commit apart: nothing of a slot is sent without the late changes of the same commit."""
    client: PacketClient = cluster.client
    cluster.writer.publish("t", b"2", 1, packet_id=2)
    before = len(cluster.items)
    for each in client.take():
        client.answer(each)
    cluster.writer.publish("t", b"3", 1, packet_id=3)
    assert len(cluster.items) == before + 1 and not cluster.lacks_the_deletion()


def test_a_node_that_stops_does_not_wait_for_a_follower_for_long(cluster: Acknowledged) -> None:
    cluster[cluster.follower].disks[0].stall_until = cluster.loop.now_s + 60
    done: list[bool] = []
    cluster[cluster.primary].host.say_goodbye(lambda: done.append(True))
    cluster.pass_s(2 * GOODBYE_S + 0.1)
    assert done == [True]


@pytest.mark.parametrize("state", ["closed", "failed"])
def test_a_node_whose_store_has_ended_waits_for_no_follower(cluster: Acknowledged, state: str) -> None:
    """Nothing of it becomes safe any more."""
    host = cluster[cluster.primary].host
    store = cluster[cluster.primary].node.env.store
    store.fail("a test") if state == "failed" else store.close()
    done: list[bool] = []
    assert host.clustering is not None
    host.clustering.slots.complete_copies(lambda: done.append(True))
    assert done == [True]


def test_the_deletion_of_a_will_that_was_sent_does_not_wait(never: None) -> None:
    """The receivers of a will forget it. If it came again, they would take it for a new one."""
    cluster = CopiedCluster()
    client = cluster[1].client("sub", clean=False, expiry_s=600, will=will("w", b"gone", 1))
    primary, follower = cluster.copied()
    reader = cluster[primary].client("reader")
    reader.subscribe(("w", 1))

    def wills() -> list[bytes]:
        return [key for key in cluster.rows(follower) if key[:2] == will_key(cluster.slot, 0)[:2]]

    client.vanish()
    cluster.until(lambda: bool(reader.drain()))
    cluster.pass_s(1)
    assert wills() == []


def test_receivers_know_a_will_until_its_deletion_is_safe(never: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then a later primary may send it again (3 nodes, `--variant copies --relay`, seed 882040)."""
    cluster = CopiedCluster()
    client = cluster[1].client("sub", clean=False, expiry_s=600, will=will("w", b"gone", 1))
    primary, follower = cluster.copied()
    reader = cluster[primary].client("reader")
    reader.subscribe(("w", 1))
    at_the_follower: list[list[bytes]] = []
    prefix = will_key(cluster.slot, 0)[:2]

    def closed(mid: object) -> None:
        at_the_follower.append([key for key in cluster.rows(follower) if key[:2] == prefix])

    monkeypatch.setattr(cluster[primary].host.clustering, "handshake_closed", closed)
    client.vanish()
    cluster.until(lambda: bool(at_the_follower))
    assert at_the_follower == [[]]
