"""A slot moves to another node with its durable sessions: nothing is lost, doubled or reordered."""

from __future__ import annotations

from itertools import chain

import pytest

from strogoff.broker.clustering.slot_departure import COPYING, PARTING, PARTING_MS, Departure
from strogoff.broker.connection.transport import PEER_CLOSED
from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from tests.broker.clustering.copied_cluster import CopiedCluster
from tests.broker.clustering.copied_cluster import subscriber as copied_subscriber
from tests.broker.clustering.moving_cluster import MovingCluster, resumed, subscriber
from tests.harness.broker import PacketClient, option, publish


@pytest.fixture
def cluster() -> MovingCluster:
    return MovingCluster()


def test_a_sleeping_session_moves_with_its_queue(cluster: MovingCluster) -> None:
    subscriber(cluster).leave()
    writer = cluster[3].client("writer")
    for each in (b"1", b"2", b"3"):
        writer.publish("t", each, 1)
    assert cluster.move(2) == ""
    assert [node for node, _ in cluster.places("sub")] == ["n2"] * 3
    writer.publish("t", b"4", 1)
    assert resumed(cluster, 3) == [b"1", b"2", b"3", b"4"]
    cluster.until(lambda: not cluster.rows(1))
    assert not cluster.moves(1)._node.slot_sessions.marks and cluster[1].node.sessions.durable == 0
    assert cluster[2].node.sessions.durable == 1


def test_the_event_logs_of_both_nodes_name_the_slot_and_its_sessions(cluster: MovingCluster) -> None:
    subscriber(cluster).leave()

    def told(number: int) -> list[tuple[str, int, str | None]]:
        rows = cluster[number].host.events
        return [(row["type"], row["slot"], row.get("target")) for row in rows if row.get("slot") == cluster.slot]

    cluster.cut_while_copying()
    assert "n2 has left" in cluster.ended()
    cluster.network.heal()
    cluster.whole()
    stay = next(row for row in cluster[1].host.events if row["type"] == "slot.stay")
    assert stay["reason"] == "n2 has left" and stay["slot"] == cluster.slot
    assert cluster.move(3) == ""
    moved = next(row for row in cluster[1].host.events if row["type"] == "slot.moved")
    assert moved["sessions"] == 1 and moved["bytes"] > 0
    slot = cluster.slot
    assert told(1) == [
        ("slot.move", slot, "n2"), ("slot.stay", slot, "n2"), ("slot.move", slot, "n3"), ("slot.moved", slot, "n3")
    ]  # fmt: skip
    assert told(3) == [("slot.arrive", slot, None)]


def test_a_connected_client_is_disconnected_and_continues_at_the_new_node(cluster: MovingCluster) -> None:
    """Its will is not published, because it comes back in time."""
    watcher = cluster[3].client("watcher")
    watcher.subscribe(("will", 1))
    client = subscriber(cluster, 3, will=packets.Will("will", b"gone", 1, False))
    assert cluster.move(2) == "" and client.closed
    writer = cluster[1].client("writer")
    writer.publish("t", b"1", 1)
    assert resumed(cluster, 1) == [b"1"]
    cluster.pass_s(20)
    assert watcher.payloads() == []


@pytest.mark.parametrize("number", [1, 2, 3])
def test_messages_wait_while_the_slot_is_copied(cluster: MovingCluster, number: int) -> None:
    """Publishers at any node get their PUBACK when the message is in the queue at the new node."""
    subscriber(cluster).leave()
    writer = cluster[number].client("writer")
    writer.publish("t", b"1", 1)
    cluster.cut_while_copying()
    writer.send(publish("t", b"2", 1, 2), publish("t", b"3", 1, 3))
    cluster.settle()
    assert writer.take() == []
    cluster.network.heal()
    cluster.until(lambda: bool(cluster.outcome))
    assert cluster.outcome == [""]
    cluster.until(lambda: len(writer.received) == 2)
    assert [each.packet_id for each in writer.take()] == [2, 3]
    assert resumed(cluster, 3) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("number", [1, 3])
def test_messages_that_waited_are_delivered_here_if_the_slot_stays(cluster: MovingCluster, number: int) -> None:
    subscriber(cluster).leave()
    writer = cluster[number].client("writer")
    cluster.copying()
    writer.send(publish("t", b"1", 1, 1))
    cluster.settle()
    assert writer.take() == []
    cluster.until(lambda: bool(cluster.outcome))
    assert "stays at n1" in cluster.outcome[0] and not cluster.phase()
    cluster.until(lambda: bool(writer.received))
    assert [each.packet_id for each in writer.take()] == [1]
    cluster[2].resume_process()
    cluster.whole()
    writer.publish("t", b"2", 1, 2)
    assert resumed(cluster, 3) == [b"1", b"2"]
    cluster.until(lambda: not cluster.rows(2))
    assert cluster.move(2) == "" and [node for node, _ in cluster.places("sub")] == ["n2"] * 3


def test_a_connect_waits_while_the_slot_moves(cluster: MovingCluster) -> None:
    subscriber(cluster).leave()
    cluster.cut_while_copying()
    waiting = [cluster[number].connect_soon("sub", clean=False, expiry_s=600) for number in (1, 3)][-1]
    assert waiting.take() == []
    cluster.network.heal()
    cluster.until(lambda: bool(waiting.received))
    found = waiting.take()
    assert isinstance(found[0], packets.Connack) and found[0].reason == 0 and found[0].session_present


def test_a_client_whose_slot_moves_before_its_connack_is_told_of_no_session(cluster: MovingCluster) -> None:
    """H-35: the table arrives before the answer of the former node; the new one has the session that this one made."""
    assert cluster.move(2) == ""
    cluster.pass_s(2)
    cluster.network.delay("n2", "n3", 0.5)
    client = cluster[3].connect_soon("sub", clean=False, expiry_s=600)
    cluster.until(lambda: any(key.startswith(b"s") for key in cluster.rows(2)))
    assert client.take() == []
    assert cluster.move(1, 2) == "" and cluster.homes() == {"n1"}
    cluster.pass_s(2)
    assert [each.session_present for each in client.take()] == [False] and client.closed
    _, connack = cluster[3].connect("sub", clean=False, expiry_s=600)
    assert connack.session_present


def test_a_clean_start_ends_the_session_at_the_new_node(cluster: MovingCluster) -> None:
    """The client asks for no session while its old one is on its way."""
    subscriber(cluster).leave()
    cluster.cut_while_copying()
    waiting = cluster[1].connect_soon("sub", clean=True, expiry_s=0)
    assert waiting.take() == []
    cluster.network.heal()
    cluster.until(lambda: bool(waiting.received))
    found = waiting.take()
    assert found[0].reason == 0 and not found[0].session_present
    cluster.until(lambda: cluster[2].node.sessions.durable == 0)


@pytest.mark.parametrize("qos", [1, 2])
def test_a_slot_goes_round_the_cluster_while_messages_arrive(cluster: MovingCluster, qos: int) -> None:
    client = subscriber(cluster, 3, qos)
    writers = [cluster[number].client(f"writer{number}") for number in (1, 2, 3)]
    got: list[bytes] = []

    def read() -> None:
        for each in client.drain():
            if not each.dup or each.payload not in got:  # the answer to it was lost with a connection
                got.append(each.payload)

    sent: list[bytes] = []
    here = 1
    for round_ in range(8):
        target = here % 3 + 1
        cluster.begin(target, here)
        for number in range(6):
            for at, writer in enumerate(writers):
                payload = b"%d/%d/%d" % (round_, number, at)
                sent.append(payload)
                writer.send(publish("t", payload, qos, round_ * 6 + number + 1))
            cluster.pass_s(0.005)
        cluster.until(lambda: bool(cluster.outcome), 30)
        assert cluster.outcome == [""]
        here = target
        read()
        client = cluster[round_ % 3 + 1].client("sub", clean=False, expiry_s=600)
        for writer in writers:
            writer.drain()
    cluster.settle()
    read()
    for at in range(3):
        mine = b"/%d" % at
        assert [each for each in got if each.endswith(mine)] == [each for each in sent if each.endswith(mine)]


@pytest.mark.parametrize(
    ("slot_of_other", "target", "reason"),
    [
        (False, "n1", "n1 is the primary of slot"),
        (False, "n9", "n9 does not serve now"),
        (True, "n2", "n2 is the primary of slot"),
    ],
)
def test_a_move_that_cannot_begin_has_a_reason(
    cluster: MovingCluster, slot_of_other: bool, target: str, reason: str
) -> None:
    subscriber(cluster).leave()
    other = cluster.slot
    if slot_of_other:
        cluster.give("other", cluster[2])
        other = slot_of("", "other")
    said: list[str] = []
    cluster.moves(1).begin(other, target, said.append)
    assert reason in said[0] and not cluster.phase()


def test_one_slot_moves_at_a_time(cluster: MovingCluster) -> None:
    subscriber(cluster).leave()
    cluster.cut_while_copying()
    said: list[str] = []
    cluster.moves(1).begin(7, "n2", said.append)
    assert said == [f"n1 is just moving slot {cluster.slot}: one slot moves at a time"]
    cluster.moves(1).begin(cluster.slot, "n2", said.append)
    cluster.network.heal()
    assert cluster.ended() == "" and said[1:] == [""], "who asks for the same move again waits for it"


def test_a_slot_whose_publishers_wait_for_a_node_stays(cluster: MovingCluster) -> None:
    """What they have published may not arrive behind what they publish at the new node (H-45)."""
    cluster.give("reader", cluster[3])
    reader = cluster[3].client("reader", clean=False, expiry_s=600)
    reader.subscribe(("other", 1))
    client = subscriber(cluster)
    cluster[3].pause_process()
    client.send(publish("other", b"1", 1))
    cluster.pass_s(0.01)
    assert "a client of this slot has published" in cluster.move(2)
    cluster[3].resume_process()
    cluster.whole()
    assert cluster.homes() == {"n1"} and resumed(cluster, 1) == []


def test_a_member_of_a_shared_subscription_moves(cluster: MovingCluster) -> None:
    """Messages of the group wait for it, if it is the only member."""
    subscriber(cluster, text="$share/g/t", qos=2).leave()
    writer = cluster[1].client("writer")
    cluster.cut_while_copying()
    writer.send(publish("t", b"1", 1, 1), publish("t", b"2", 2, 2))
    cluster.settle()
    assert writer.take() == []
    cluster.network.heal()
    assert cluster.ended() == ""
    cluster.until(lambda: len(writer.received) == 2)
    writer.drain()
    assert sorted(resumed(cluster, 3)) == [b"1", b"2"]


def test_members_that_stay_get_the_messages_of_a_group(cluster: MovingCluster) -> None:
    subscriber(cluster, text="$share/g/t").leave()
    other = cluster[3].client("other")
    other.subscribe(("$share/g/t", 1))
    writer = cluster[1].client("writer")
    cluster.cut_while_copying()
    writer.publish("t", b"1", 1)
    assert other.payloads() == [b"1"]
    cluster.network.heal()
    assert cluster.ended() == ""
    assert resumed(cluster, 1) == []


def test_the_leader_is_asked_when_the_mark_is_on_disk(cluster: MovingCluster) -> None:
    """Otherwise a restarted node would not know that the slot may have left it."""
    subscriber(cluster).leave()
    cluster.cut_while_copying()
    departure = cluster.moves(1).departure
    assert departure is not None
    cluster.settle()
    departure.safe = False
    cluster.network.heal()
    cluster.pass_s(2)
    copying = cluster.moves(1)._copying
    assert copying is not None and copying.complete and cluster.phase() == COPYING
    departure.safe = True
    cluster.moves(1)._ask(departure)
    assert cluster.ended() == ""


def test_a_slot_stays_if_the_disk_is_full_before_it_has_the_mark(
    cluster: MovingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the slot would be closed until the disk has space, and the messages of other nodes for other clients would
    wait behind one for it."""
    subscriber(cluster).leave()
    clean, writer = cluster[1].client("clean"), cluster[3].client("writer")
    clean.subscribe(("u", 1))
    moves = cluster.moves(1)
    leave = moves._leave

    def with_a_full_disk(departure: Departure) -> None:
        cluster[1].disks[0].full = True
        leave(departure)

    monkeypatch.setattr(moves, "_leave", with_a_full_disk)
    cluster.begin(2)
    cluster.until(lambda: cluster.phase() == COPYING)
    writer.send(publish("t", b"1", 1, 1))
    writer.send(publish("u", b"2", 1, 2))
    cluster.until(lambda: clean.payloads() == [b"2"])
    assert cluster.ended() == "slot 210 stays at n1: the disk of n1 is full"
    cluster[1].disks[0].full = False
    cluster.until(lambda: cluster[1].node.env.store.accepting)
    assert resumed(cluster, 1) == [b"1"]
    monkeypatch.undo()
    assert cluster.move(2) == ""


def test_a_client_without_its_suback_is_not_taken_for_one_without_a_session(cluster: MovingCluster) -> None:
    """It counts at its node until the other nodes have answered. The new registrar asks for such clients, and would end
    the session."""
    client = subscriber(cluster)
    cluster[3].pause_process()
    client.send(packets.Subscribe(2, [option("u", 1)]))
    cluster.pass_s(0.01)
    cluster.begin(2)
    cluster.pass_s(1)
    departure = cluster.moves(1).departure
    assert departure is not None and "have not answered a client of this slot" in departure.waits_for
    assert cluster.ended() == ""
    cluster[3].resume_process()
    cluster.whole()
    _, connack = cluster[3].connect("sub", clean=False, expiry_s=600)
    assert connack.session_present


@pytest.mark.parametrize("writer_at", [1, 2, 3])
def test_many_sessions_with_one_filter_get_everything_after_their_slots_have_moved(
    cluster: MovingCluster, writer_at: int
) -> None:
    """A node counts the subscribers of a filter that has many. The ones that had come with a slot were missing."""
    slots = sorted({slot_of("", f"c{number}") for number in range(12)})
    names = {slot: [f"c{n}" for n in range(3000) if slot_of("", f"c{n}") == slot][:3] for slot in slots}
    for each in chain(*names.values()):
        client = cluster[1].client(each, clean=False, expiry_s=600)
        client.subscribe(("all", 1))
        client.leave()
    writer = cluster[writer_at].client("writer")
    sent = []
    for number, slot in enumerate(slots):
        home = next(at for at in (1, 2, 3) if f"n{at}" == cluster.places(names[slot][0])[0][0])
        assert cluster.move(1 + home % 3, home, names[slot][0]) == ""
        sent.append(b"%d" % number)
        assert [each.reason for each in writer.publish("all", sent[-1], 1)] in ([0], [])
    cluster.pass_s(5)
    sent.append(b"end")
    writer.publish("all", b"end", 1)
    for each in chain(*names.values()):
        client, connack = cluster[2].connect(each, clean=False, expiry_s=600)
        assert connack.session_present
        assert [message.payload for message in client.drain()] == sent


def test_a_move_ends_when_the_disk_of_its_target_is_full() -> None:
    """The target is to get a copy first, and takes none."""
    cluster = CopiedCluster()
    copied_subscriber(cluster).leave()
    primary, _ = cluster.copied()
    target, outcome = cluster.third(), list[str]()
    clustering = cluster[primary].host.clustering
    assert clustering is not None
    clustering.slots.moves.begin(cluster.slot, f"n{target}", outcome.append)
    cluster[target].disks[0].full = True
    cluster.until(lambda: bool(outcome), 60)
    assert f"n{target} takes no slots" in outcome[0] and cluster.row().primary is not None


@pytest.mark.parametrize("back", [False, True])
def test_a_session_that_lacks_retained_messages_moves(back: bool) -> None:
    """Its client has left in the middle of the replay, which goes on where it stopped."""
    cluster = MovingCluster()
    writer = cluster[3].client("writer")
    topics = [f"r/{number:02}" for number in range(30)]
    for topic in topics:
        writer.publish(topic, b"m", 1, retain=True)
    client = subscriber(cluster, text="r/#", receive_maximum=5)
    cluster.pass_s(1)
    client.leave()
    assert cluster.move(2) == ""
    if back:
        assert cluster.move(1, 2) == ""
    again, connack = cluster[3].connect("sub", clean=False, expiry_s=600, receive_maximum=5)
    assert connack.session_present
    assert [each.topic for each in again.drain()] == topics


def gone(cluster: MovingCluster, place: int, *last: object) -> PacketClient:
    """A client with a will at this node has gone behind these packets, which wait for its rate at n1.

    Returns a watcher of all messages.
    """
    watcher = cluster[3].client("watcher")
    watcher.subscribe(("#", 0))
    client = cluster[place].client("sub", 4, clean=False, will=packets.Will("will", b"will"))
    if place == 1:  # as a WebSocket, whose end comes while packets are held
        client.send(*last)
        cluster.settle()
        (connection,) = (each for each in cluster[1].node.connections.values() if each.client_id == "sub")
        connection.lost(PEER_CLOSED)
    else:
        client.send(*last[:-1])
        cluster.settle()
        client.send(last[-1])  # it waits in the relay
        client.close()
    cluster.settle()
    assert cluster[1].node.slot_sessions.connections(cluster.slot) == 1
    return watcher


@pytest.mark.parametrize("place", [1, 2])
@pytest.mark.parametrize("polite", [True, False])
def test_a_client_that_has_gone_is_heard_out_before_its_slot_moves(place: int, polite: bool) -> None:
    """Its DISCONNECT waits (H-19). Without one, its will comes behind its last messages."""
    cluster = MovingCluster(max_message_rate=10)
    last = [publish("t", b"%d" % number) for number in range(25)]
    watcher = gone(cluster, place, *last, *[packets.Disconnect()] * polite)
    cluster.begin(3)
    assert cluster.phase() == PARTING
    assert cluster.ended() == ""
    cluster.pass_s(10)
    assert watcher.payloads() == [each.payload for each in last] + [b"will"] * (not polite)


@pytest.mark.parametrize("place", [1, 2])
def test_a_slot_does_not_wait_longer_for_a_client_that_has_gone(place: int) -> None:
    cluster = MovingCluster(max_message_rate=10)
    watcher = gone(cluster, place, *[publish("t", b"%d" % number) for number in range(200)], packets.Disconnect())
    begun_s = cluster.loop.now_s
    assert cluster.move(3) == ""
    assert PARTING_MS / 1000 <= cluster.loop.now_s - begun_s < PARTING_MS / 1000 + 2
    cluster.pass_s(10)
    *handled, will = watcher.payloads()
    assert will == b"will" and 40 <= len(handled) < 60
