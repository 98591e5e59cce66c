"""A CONNECT waits, its client gives it up and connects again: the older CONNECT must change nothing then (H-37)."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.sessions.latest_connect import OUTDATED
from strogoff.mqtt import packets
from tests.broker.clustering.copied_cluster import CopiedCluster
from tests.harness.broker import PacketClient
from tests.harness.late_plugin import LateOnce
from tests.harness.transcript import PendingHooks

FIRST, SECOND = packets.Will("will", b"first", 1), packets.Will("will", b"second", 1)


class Late:
    """A cluster in which a plugin does not answer about the first CONNECT of client `x`, which has given it up."""

    def __init__(self, gateway: int, cluster: CopiedCluster | None = None, **fields: Any) -> None:
        self.cluster = cluster or late_cluster()
        self.gateway = gateway
        plugin = LateOnce()
        for harness in self.cluster.nodes:
            harness.node.env.hooks.remove("plugin")
            harness.node.env.hooks.add("late", plugin)
        self._hooks = PendingHooks(self.cluster[gateway])  # type: ignore[arg-type]
        first = self.cluster[gateway].connect_soon("x", **fields)
        self.cluster.pass_s(5)
        assert len(self._hooks) == 1 and first.take() == []
        first.close()
        self.cluster.pass_s(1)

    def answer(self) -> None:
        self._hooks.answer()
        self.cluster.pass_s(2)

    def refusals(self) -> list[str]:
        """The reasons for which nodes have refused CONNECTs of client `x`."""
        rows = [row for harness in self.cluster.nodes for row in harness.host.events if row["type"] == "conn.refuse"]
        return [row["reason"] for row in rows if row["client"] == "x"]


def late_cluster() -> CopiedCluster:
    cluster = CopiedCluster(allow_anonymous=False)
    cluster.all_copied()
    return cluster


def publish(cluster: CopiedCluster, client: PacketClient, payload: bytes, packet_id: int = 1) -> None:
    """Publish with QoS 1, and require PUBACK."""
    answers = client.publish("t", payload, 1, packet_id=packet_id)
    cluster.pass_s(1)
    assert [(type(each), each.reason) for each in [*answers, *client.take()]] == [(packets.Puback, 0)]


@pytest.mark.parametrize("second", [1, 2, 3])
def test_a_late_answer_of_a_plugin_does_not_discard_the_newer_session(second: int) -> None:
    late = Late(1, clean=True, expiry_s=600)
    cluster = late.cluster
    x = cluster[second].client("x", clean=True, expiry_s=600)
    x.subscribe(("t", 1))
    cluster.pass_s(1)
    x.leave()
    pub = cluster[3].client("pub")
    publish(cluster, pub, b"acknowledged")
    late.answer()
    back, connack = cluster[second].connect("x", clean=False, expiry_s=600)
    got = [each.payload for each in back.drain()]
    publish(cluster, pub, b"later", 2)
    got += [each.payload for each in back.drain()]
    assert (connack.session_present, got, late.refusals()) == (True, [b"acknowledged", b"later"], [OUTDATED])


@pytest.mark.parametrize("second", [1, 2, 3])
def test_a_late_answer_of_a_plugin_does_not_take_over_a_client_that_is_well(second: int) -> None:
    cluster = late_cluster()
    reader = cluster[3].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("will", 1))
    late = Late(1, cluster, clean=False, expiry_s=600, will=FIRST)
    x = cluster[second].client("x", clean=False, expiry_s=600, will=SECOND)
    cluster.pass_s(1)
    late.answer()
    cluster.pass_s(10)
    assert ([each.payload for each in reader.drain()], x.closed, x.take()) == ([], False, [])


@pytest.mark.parametrize("second", [1, 2, 3])
@pytest.mark.parametrize(("older_s", "newer_s"), [(0, 0), (600, 0), (0, 600)])
def test_a_late_answer_of_a_plugin_does_not_take_over_a_client_without_a_session(
    second: int, older_s: int, newer_s: int
) -> None:
    late = Late(1, clean=True, expiry_s=older_s)
    x = late.cluster[second].client("x", clean=True, expiry_s=newer_s)
    late.answer()
    assert (x.closed, x.take(), late.refusals()) == (False, [], [OUTDATED])
    again = late.cluster[3].client("x", clean=True)
    assert x.closed and not again.closed


def _fail_over(cluster: CopiedCluster) -> None:
    primary, _ = cluster.copied("x")
    cluster[primary].kill()
    cluster.taken_over(primary, "x")


def _move(cluster: CopiedCluster) -> None:
    _, follower = cluster.copied("x")
    cluster.move("x", follower)


def _move_and_restart(cluster: CopiedCluster) -> None:
    """The slot comes back to its node, which has started again meanwhile."""
    primary, _ = cluster.copied("x")
    cluster[primary].kill()
    cluster.pass_s(1)
    cluster[primary].start()
    cluster.pass_s(20)
    cluster.copied("x")


@pytest.mark.parametrize("change", [_fail_over, _move, _move_and_restart])
def test_the_next_primary_knows_when_the_latest_connect_began(change: Any) -> None:
    cluster = late_cluster()
    third = cluster.third("x")
    late = Late(third, cluster, clean=True, expiry_s=600)
    x = cluster[third].client("x", clean=True, expiry_s=600)
    x.subscribe(("t", 1))
    x.leave()
    pub = cluster[third].client("pub", clean=False, expiry_s=600)
    publish(cluster, pub, b"acknowledged")
    change(cluster)
    late.answer()
    cluster.pass_s(10)
    back, connack = cluster[third].connect("x", clean=False, expiry_s=600)
    assert (connack.session_present, [each.payload for each in back.drain()]) == (True, [b"acknowledged"])
    assert late.refusals() == [OUTDATED]


def test_the_next_registrar_knows_when_the_latest_connect_began() -> None:
    cluster = late_cluster()
    primary, follower = cluster.copied("x")
    third = cluster.third("x")
    late = Late(third, cluster, clean=True)
    x = cluster[follower].client("x", clean=True)
    cluster[primary].kill()
    new = cluster.taken_over(primary, "x")
    cluster.pass_s(10)
    assert (new, x.closed) == (follower, False)
    late.answer()
    assert (x.closed, x.take(), late.refusals()) == (False, [], [OUTDATED])


def test_a_registrar_learns_from_a_report_when_the_latest_connect_began() -> None:
    cluster = late_cluster()
    primary, follower = cluster.copied("x")
    third = cluster.third("x")
    late = Late(follower, cluster, clean=True)
    x = cluster[third].client("x", clean=True)
    cluster.move("x", follower)
    cluster.pass_s(2)
    assert cluster.copied("x")[0] == follower and not x.closed
    late.answer()
    assert (x.closed, x.take(), late.refusals()) == (False, [], [OUTDATED])
    assert primary != follower


@pytest.mark.parametrize("late_s", [0.0, 0.02])
def test_a_connect_that_waits_for_a_dead_primary_does_not_take_over_the_newer_connection(late_s: float) -> None:
    cluster = CopiedCluster()
    cluster[1].client("x", clean=False, expiry_s=600).leave()
    cluster.all_copied()
    primary, follower = cluster.copied("x")
    third = 6 - primary - follower
    reader = cluster[third].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("will", 1))
    cluster.pass_s(10)
    if late_s:
        for a, b in ((1, 2), (1, 3), (2, 3)):
            cluster.network.delay(f"n{a}", f"n{b}", late_s)
    cluster[primary].kill()
    cluster.pass_s(0.5)
    first = cluster[third].connect_soon("x", clean=True, expiry_s=600, will=FIRST)
    cluster.pass_s(1)
    assert first.take() == []
    first.close()
    x = cluster[follower].connect_soon("x", clean=True, expiry_s=600, will=SECOND)
    found: list[Any] = []

    def answered() -> bool:
        found.extend(x.take())
        return bool(found) or x.closed

    cluster.until(answered)
    assert found and found[0].reason == 0
    cluster.pass_s(15)
    if reader.closed:
        reader = cluster[third].client("reader", clean=False, expiry_s=600)
    assert ([each.payload for each in reader.drain()], x.closed, x.take()) == ([], False, [])


def test_the_only_connection_is_accepted_however_late_the_plugin_answers() -> None:
    cluster = late_cluster()
    cluster[2].client("x", clean=False, expiry_s=600).leave()
    cluster.pass_s(1)
    plugin = LateOnce()
    for harness in cluster.nodes:
        harness.node.env.hooks.remove("plugin")
        harness.node.env.hooks.add("late", plugin)
    hooks = PendingHooks(cluster[1])  # type: ignore[arg-type]
    x = cluster[1].connect_soon("x", clean=False, expiry_s=600)
    cluster.pass_s(50)
    hooks.answer()
    cluster.pass_s(1)
    assert [(each.reason, each.session_present) for each in x.take()] == [(0, True)]
