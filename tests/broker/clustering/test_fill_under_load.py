"""Slots get their second copy again, although clients write as fast as rows are sent."""

from __future__ import annotations

import pytest

from strogoff.cluster.identity import slot_of
from tests.broker.clustering.copied_cluster import CopiedCluster, subscriber
from tests.harness.broker import PacketClient, publish

ROUND_S = 0.01
PAYLOAD = bytes(10_000)
SLOW_S = 0.008, 0.012


class Load:
    """1 MB/s for the queue of `sub`, whose client is away, and ten messages a second to another slot, whose copy is at
    the node that is to get that of `sub` and many others. So commits wait for this node. Disks need 10 ms for a
    write."""

    def __init__(self, cluster: CopiedCluster, other: str) -> None:
        self.cluster = cluster
        self.sent = 0
        self.on = True
        primary, _ = cluster.copied()
        away = cluster[primary].client(other, clean=False, expiry_s=600)
        away.subscribe(("o", 1))
        away.leave()
        for harness in cluster.nodes:
            harness.disks[0].latency_s = SLOW_S
        self.writer: PacketClient = cluster[primary].client("writer")
        self._more()

    def _more(self) -> None:
        if self.on:
            self.writer.send(publish("t", PAYLOAD, 1, self.sent % 30_000 + 1))
            if self.sent % 10 == 0:
                self.writer.send(publish("o", b"x", 1, self.sent % 30_000 + 30_001))
            self.sent += 1
            self.writer.take()
            self.cluster.loop.call_later(ROUND_S, self._more)


@pytest.mark.parametrize("returns", [False, True])
def test_all_slots_get_a_second_copy_while_one_queue_grows(returns: bool) -> None:
    """The follower dies; another node gets its copies, or it comes back and has kept its rows. The fill of the busy
    queue never ended, because the queue got as many rows as were sent, and the fills of the other slots waited."""
    cluster = CopiedCluster(max_offline_messages=-1)
    subscriber(cluster).leave()
    primary, follower = cluster.copied()
    cluster.all_copied()
    target = follower if returns else cluster.third()
    names = (f"o{number}" for number in range(1000))
    other = next(
        name for name in names if cluster.copied(name) == (primary, target) and slot_of("", name) < cluster.slot
    )
    load = Load(cluster, other)
    cluster.pass_s(2)
    cluster[follower].kill()
    cluster.until(lambda: len(cluster.row().in_sync) == 1)
    if returns:
        cluster[follower].start()
        cluster[follower].disks[0].latency_s = SLOW_S

    def copied() -> bool:
        rows = cluster[primary].member.slots.rows
        return all(len(row.in_sync) == 2 for row in rows) and cluster.copied() == (primary, target)

    cluster.until(copied, 20)
    load.on = False
    cluster.pass_s(1)
    assert cluster.copied() == (primary, target) and cluster.rows(primary) == cluster.rows(target)
    assert sum(key[:1] == b"q" for key in cluster.rows(target)) == load.sent
