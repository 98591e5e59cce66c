"""Unreadable and large retained messages and routes in the replicated map."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.retained import RETAINED
from strogoff.broker.clustering.routes import prefix_to_node, prefix_to_slot
from strogoff.cluster.links.settings import LinkSettings
from strogoff.cluster.node import ClusterNode
from strogoff.cluster.ports import Settings
from strogoff.judge.run import judge
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from strogoff.sim.engine import cluster_host
from tests.harness.broker import publish
from tests.harness.cluster import MAJORITY, ON, ClusterHarness
from tests.harness.thinning import thinned

NO_RECORD = b"\xc1"
MESSAGE = RETAINED + b"\0\0"
BROKEN = [
    (MESSAGE + b"t", NO_RECORD, "retained message of the cluster is left out, key b't\\x00\\x00t'"),
    (MESSAGE + b"\xff", NO_RECORD, "invalid start byte"),
    (RETAINED + b"\0\1\xff", NO_RECORD, "invalid start byte"),
    (prefix_to_node("", "n1") + b"x", NO_RECORD, "of route"),
    (prefix_to_slot("", 7), NO_RECORD, "route key"),
]
SMALL_FRAMES = Settings(links=LinkSettings(max_frame_bytes=2 << 20))


@pytest.mark.parametrize(("key", "value", "said"), BROKEN)
def test_an_unreadable_entry_is_skipped_by_every_node(key: bytes, value: bytes, said: str) -> None:
    """Every node gets the entry, and each node gets it again when it starts."""
    cluster = ClusterHarness(3)
    cluster[1].client("before").publish("kept", b"1", 1, retain=True)
    member = cluster[1].host.member
    assert member is not None
    member.metadata.put(key, value)
    cluster.pass_s(1.0)
    assert [sum(said in line for _, line in harness.host.lines) for harness in cluster.nodes] == [0, 1, 1]
    cluster[3].kill()
    cluster[3].start()
    cluster.whole()
    cluster[1].client("writer").publish("u", b"2", 1, retain=True)
    reader = cluster[3].client("reader")
    reader.send(packets.Subscribe(1, [packets.SubscribeOptions("#", 1)], None))
    assert sorted(reader.payloads()) == [b"1", b"2"]


def test_each_node_reports_a_retained_message_and_its_end() -> None:
    """But not those that it loads from its disk."""
    cluster = ClusterHarness(3, level=2)
    writer = cluster[1].client("writer")
    writer.publish("t", b"1", 1, retain=True)
    writer.publish("t", b"", 1, retain=True, packet_id=2)
    cluster.pass_s(1.0)
    rows = [[row for row in harness.host.events if row["type"] == "ret.set"] for harness in cluster.nodes]
    assert [[row["bytes"] for row in each] for each in rows] == [[1, 0]] * 3
    assert len({(tuple(each[0]["mid"]), each[0]["digest"]) for each in rows}) == 1
    assert [each[1].get("mid") is None for each in rows] == [False, True, True]
    writer.publish("u", b"1", 1, retain=True, packet_id=3)
    cluster.pass_s(1.0)
    cluster[3].kill()
    cluster[3].start()
    cluster.whole()
    assert [row["topic"] for row in cluster[3].host.events if row["type"] == "ret.set"].count("u") == 1


def test_a_retained_message_larger_than_a_frame_reaches_every_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message larger than a frame reaches every node, also one with a new disk; acknowledgements continue."""
    monkeypatch.setattr(cluster_host, "Settings", lambda: SMALL_FRAMES)
    cluster = ClusterHarness(3)
    large = bytes(3 << 20)
    writer = cluster[1].client("writer")
    writer.send(publish("large", large, 1, 1, True), publish("small", b"1", 1, 2, True))
    cluster.pass_s(2.0)
    assert [packet.packet_id for packet in writer.take()] == [1, 2]
    reader = cluster[3].client("reader")
    reader.subscribe(("#", 0))
    cluster.pass_s(1.0)
    assert [len(harness.node.retained.table("")) for harness in cluster.nodes] == [2, 2, 2]
    cluster[2].replace_disk()
    cluster[2].host.start()
    assert cluster[2].join() == ""
    cluster.whole()
    assert len(cluster[2].node.retained.table("")) == 2


def test_many_retained_messages_in_one_turn_reach_every_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Together they exceed a frame; each is acknowledged, and each is on every node."""
    monkeypatch.setattr(cluster_host, "Settings", lambda: SMALL_FRAMES)
    cluster = ClusterHarness(3)
    writer = cluster[1].client("writer", receive_maximum=200)
    writer.send(*[publish(f"kept/{number}", bytes(30_000), 1, number, True) for number in range(1, 141)])
    cluster.pass_s(2.0)
    assert len(writer.take()) == 140
    for harness in cluster.nodes:
        assert len(harness.node.retained.table("")) == 140


@pytest.mark.parametrize("right", [True, False])
def test_the_audit_sees_whether_all_nodes_keep_the_same(right: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a split in which both sides set and deleted messages. It finds a node that does not take over what others
    set."""
    cluster = ClusterHarness(3, level=2, **ON)
    run = cluster[1].host.events[0]["run_id"]
    writers = [cluster[number].client(f"w{number}") for number in (1, 2, 3)]
    for number, writer in enumerate(writers, 1):
        writer.publish(f"t/{number}", b"1", 1, number, retain=True)
    cluster.isolate(3)
    cluster.state_of(3, ViewState.MINORITY)
    if not right:
        table = cluster[3].node.retained
        monkeypatch.setattr(table, "report", lambda *_: None)
    writers[0].publish("t/1", b"2", 1, 4, retain=True)
    writers[0].publish("t/2", b"", 1, 5, retain=True)
    cluster.network.heal()
    cluster.whole()
    writers[1].publish("t/new", b"3", 1, 6, retain=True)
    for _ in range(8):
        cluster.pass_s(10.0)
        for harness in cluster.nodes:
            harness.node.env.observer.emit_stats()
    rows = [row for harness in cluster.nodes for row in harness.host.events if row["run_id"] == run]
    for complete in (True, False):
        found = [
            (each.kind, each.subject.node, each.subject.topic)
            for each in judge(rows, complete=complete).findings
            if each.anomaly == "A15"
        ]
        wrong = [("different", "n3", "t/1"), ("different", "n3", "t/2"), ("missing", "n3", "t/new")]
        assert sorted(found) == ([] if right else wrong)


def kept(cluster: ClusterHarness) -> list[list[tuple[str, bytes]]]:
    """The retained messages of each node."""
    tables = [(harness.node.retained.table(""), harness.node.env.now) for harness in cluster.nodes]
    return [[(each.topic, each.payload) for each in table.match("#", now)] for table, now in tables]


def cut_off_with_a_message(cluster: ClusterHarness, killed: bool) -> None:
    """n3 is cut off, and a client sends it a retained message that it cannot acknowledge. Then it may be killed."""
    client = cluster[3].client("client")
    cluster.isolate(3)
    client.send(publish("t", b"first", 1, 1, True))
    cluster.pass_s(0.2)
    if killed:
        cluster[3].commit_late_writes()
        cluster[3].kill()


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(("later", "ahead_ms"), [(b"", 0.0), (b"later", 3_600_000.0)])
def test_what_was_never_acknowledged_gives_way_to_what_was(killed: bool, later: bytes, ahead_ms: float) -> None:
    """A client sends its message again at another node, and then another one, while the first node is away. The wall
    clock of that node is ahead, or the other message deletes the first one."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster[3].host.wall_ahead_ms = ahead_ms
    cluster.pass_s(5.0)
    cluster.whole()
    cut_off_with_a_message(cluster, killed)
    cluster.pass_s(10.0)
    client = cluster[1].client("client")
    assert client.publish("t", b"first", 1, retain=True, dup=True)[0].reason == 0
    assert client.publish("t", later, 1, retain=True, packet_id=2)[0].reason == 0
    cluster.network.heal()
    if killed:
        cluster[3].start()
    cluster.whole()
    cluster.pass_s(1.0)
    assert kept(cluster) == [[("t", later)] if later else []] * 3


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("asks", thinned([True, False], 2))
@pytest.mark.parametrize("killed", [False, True])
def test_what_was_deleted_is_not_back_when_the_node_that_was_away_is(killed: bool, asks: bool, partial: bool) -> None:
    """The client repeats its message at the leader and deletes it there. Then n3 is back (`partial`: it hears only the
    leader). It asks a node what it has missed before it is in the view (`asks`), or after that."""
    cluster = ClusterHarness(3, level=2, **MAJORITY)
    if not asks:
        for harness in cluster.nodes:
            harness.member.metadata.sync_interval_ms = 3_600_000
        cluster.pass_s(8.0)
    cut_off_with_a_message(cluster, killed)
    cluster.pass_s(8.0)
    leader = next(harness for harness in cluster.nodes[:2] if harness.leads)
    client = leader.client("client")
    assert client.publish("t", b"first", 1, retain=True, dup=True)[0].reason == 0
    assert client.publish("t", b"", 1, retain=True, packet_id=2)[0].reason == 0
    cluster.network.heal(*((leader.host.name, "n3") if partial else ()))
    if killed:
        cluster[3].start()
        if not asks:
            cluster[3].member.metadata.sync_interval_ms = 3_600_000
            cluster[3].member.metadata.tick(-1.0)
    cluster.pass_s(10.0)
    for harness in cluster.nodes[:2]:
        assert [row["bytes"] for row in harness.host.events if row["type"] == "ret.set"] == [len(b"first"), 0]
    if not partial:
        cluster.whole()
        cluster.pass_s(1.0)
        assert kept(cluster) == [[]] * 3


def test_what_a_slow_stream_brings_after_the_view_gives_way() -> None:
    """n1 and n2 get what n3 wrote, and never acknowledged, when n3 is already in their view."""
    cluster = ClusterHarness(3, **MAJORITY)
    client = cluster[3].client("client")
    cluster.isolate(3)
    client.send(publish("t", b"first", 1, 1, True))
    cluster.pass_s(10.0)
    client = cluster[1].client("client")
    assert client.publish("t", b"first", 1, retain=True, dup=True)[0].reason == 0
    assert client.publish("t", b"", 1, retain=True, packet_id=2)[0].reason == 0
    for harness in cluster.nodes[:2]:
        hold_until_in_view(harness.member)
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(1.0)
    assert kept(cluster) == [[]] * 3


def hold_until_in_view(member: ClusterNode) -> None:
    """Let this node take messages about metadata of n3, in their order, only when it has the view with n3."""
    receive = member.metadata.receive
    held: list[bytes] = []

    def receives(peer: str, data: bytes) -> None:
        if peer != "n3":
            receive(peer, data)
            return
        held.append(data)
        while held and member.view.row("n3") is not None:
            receive("n3", held.pop(0))

    member.metadata.receive = receives  # type: ignore[method-assign]


@pytest.mark.parametrize("other", [b"other", b""])
def test_a_message_that_gave_way_is_retained_when_it_is_acknowledged(other: bytes) -> None:
    """The client repeats its QoS 2 message at the node that was away. All subscribers get it after the other one."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(writer=3)
    writer = cluster[3].client("writer", clean=False, expiry_s=1000)
    reader = cluster[1].client("reader")
    reader.subscribe(("t", 2))
    cluster.isolate(3)
    writer.send(publish("t", b"m", 2, 7, True))
    cluster.pass_s(10.0)
    assert cluster[1].client("client").publish("t", other, 1, retain=True)[0].reason == 0
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(1.0)
    assert kept(cluster) == [[("t", other)] if other else []] * 3
    writer = cluster[3].client("writer", clean=False, expiry_s=1000)
    (answer,) = writer.publish("t", b"m", 2, 7, True, dup=True)
    assert isinstance(answer, packets.Pubrec)
    assert [each.payload for each in reader.drain()] == [other, b"m"]
    assert kept(cluster) == [[("t", b"m")]] * 3


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("other", [b"other", b""])
def test_an_acknowledged_message_that_is_repeated_replaces_no_later_one(restart: bool, other: bytes) -> None:
    """The node of its QoS 2 publisher was away, so it sends the message to the others again (H-16)."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster.put(writer=3)
    writer = cluster[3].client("writer", clean=False, expiry_s=1000)
    reader = cluster[1].client("reader")
    reader.subscribe(("t", 2))
    (answer,) = writer.publish("t", b"m", 2, 7, True)
    assert isinstance(answer, packets.Pubrec)
    assert cluster[1].client("client").publish("t", other, 1, retain=True)[0].reason == 0
    if restart:
        cluster[3].kill()
        cluster[3].start()
    else:
        cluster.isolate(3)
        cluster.pass_s(10.0)
        cluster.network.heal()
    cluster.whole()
    cluster.pass_s(1.0)
    writer = cluster[3].client("writer", clean=False, expiry_s=1000)
    (answer,) = writer.publish("t", b"m", 2, 7, True, dup=True)
    assert isinstance(answer, packets.Pubrec)
    assert [each.payload for each in reader.drain()] == [b"m", other]
    assert kept(cluster) == [[("t", other)] if other else []] * 3


def test_what_a_dead_node_has_told_only_some_does_not_win_because_its_clock_is_ahead() -> None:
    """n1 is dead before n3 has its message, so nobody has acknowledged that. n3 acknowledges the next one (H-16)."""
    cluster = ClusterHarness(3, **MAJORITY)
    cluster[1].host.wall_ahead_ms = 3_600_000.0
    cluster.pass_s(5.0)
    cluster.whole()
    client, other = cluster[1].client("client"), cluster[3].client("other")
    cluster.network.cut("n1", "n3")
    client.send(publish("t", b"first", 1, 1, True))
    cluster.until(lambda: cluster[2].node.retained.count == 1)
    cluster[1].kill()
    assert cluster[3].node.retained.count == 0
    other.send(publish("t", b"later", 1, 1, True))
    cluster.pass_s(20.0)
    assert [type(each) for each in other.take()] == [packets.Puback]
    cluster.network.heal()
    cluster[1].start()
    cluster.whole()
    assert kept(cluster) == [[("t", b"later")]] * 3


def test_what_a_newcomer_brings_does_not_give_way() -> None:
    cluster = ClusterHarness(3, joined=False)
    assert cluster[2].join() == ""
    cluster[1].client("client").publish("t", b"early", 1, retain=True)
    cluster.pass_s(1.0)
    cluster[3].client("other").publish("t", b"late", 1, retain=True)
    assert cluster[3].join() == ""
    cluster.whole()
    assert kept(cluster) == [[("t", b"late")]] * 3


def test_what_was_accepted_without_a_lease_does_not_give_way() -> None:
    cluster = ClusterHarness(3, **ON)
    cluster.isolate(3)
    cluster.pass_s(20.0)
    cluster[1].client("client").publish("t", b"early", 1, retain=True)
    cluster.pass_s(1.0)
    assert cluster[3].client("other").publish("t", b"late", 1, retain=True)[0].reason == 0
    cluster.network.heal()
    cluster.whole()
    cluster.pass_s(1.0)
    assert kept(cluster) == [[("t", b"late")]] * 3
