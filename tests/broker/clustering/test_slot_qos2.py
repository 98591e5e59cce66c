"""A QoS 2 handshake continues at the next primary of the publisher's slot: every session gets it once (H-47)."""

from __future__ import annotations

from itertools import product

import pytest

from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from strogoff.storage import keys
from tests.broker.clustering.copied_cluster import CopiedCluster, durable, placed_at
from tests.harness.broker import PacketClient, publish
from tests.harness.thinning import thinned


def everything(cluster: CopiedCluster, number: int, client_id: str) -> list[bytes]:
    client, connack = cluster[number].connect(client_id, clean=False, expiry_s=600)
    assert connack.session_present
    return [each.payload for each in client.drain()]


def inbound(cluster: CopiedCluster, number: int) -> dict[bytes, bytes]:
    """The open handshakes of publishers on the disk of a node."""
    return {key: value for key, value in cluster[number].disks[0].content().items() if key[:1] == b"i"}


def _placed(publisher: int, *receivers: int) -> CopiedCluster:
    """A cluster with the publisher's slot at one node, and the slot of one receiver at each of these nodes."""
    cluster = CopiedCluster()
    homes = {"writer": publisher, **{f"r{number}": number for number in receivers}}
    for client_id in homes:
        durable(cluster, 1, client_id, *((("t", 2),) if client_id != "writer" else ())).leave()
    for client_id, number in homes.items():
        cluster.move(client_id, number)
        assert cluster.copied(client_id)[0] == number
    return cluster


def _finish(cluster: CopiedCluster, number: int) -> PacketClient:
    """The publisher comes back at a node, sends its message again, and ends the handshake. Returns it."""
    again, connack = cluster[number].connect("writer", clean=False, expiry_s=600)
    assert connack.session_present
    again.send(publish("t", b"1", 2, 5, dup=True))
    cluster.until(lambda: any(isinstance(each, packets.Pubrec) for each in again.take()))
    again.send(packets.Pubrel(5))
    cluster.until(lambda: any(isinstance(each, packets.Pubcomp) for each in again.take()))
    return again


@pytest.mark.parametrize("steps", thinned(range(1, 7), 3))
def test_the_publishers_primary_is_killed_in_the_handshake(steps: int) -> None:
    """It is killed after some turns of the loop: before the copies leave, behind some of them, before PUBREC leaves."""
    cluster = _placed(1, 1, 2, 3)
    writer = durable(cluster, 1, "writer")
    for client_id in ("writer", "r1", "r2", "r3"):
        cluster.copied(client_id)
    writer.send(publish("t", b"1", 2, 5))
    cluster.pass_s(steps * 0.0004)
    got = writer.take()
    cluster[1].kill()
    successor = cluster.taken_over(1, "writer")
    cluster.taken_over(1, "r1")
    again, connack = cluster[successor].connect("writer", clean=False, expiry_s=600)
    assert connack.session_present
    if not any(isinstance(each, packets.Pubrec) for each in got):
        again.send(publish("t", b"1", 2, 5, dup=True))
        cluster.until(lambda: any(isinstance(each, packets.Pubrec) for each in again.take()))
    again.send(packets.Pubrel(5))
    cluster.until(lambda: any(isinstance(each, packets.Pubcomp) for each in again.take()))
    for name, number in product(("r1", "r2", "r3"), (successor,)):
        assert everything(cluster, number, name) == [b"1"], name


def test_what_the_dead_primary_may_have_delivered_with_qos_1_comes_with_dup() -> None:
    """The slot of the receiver is at the same node. So its next primary cannot know what it has got (H-51)."""
    cluster = _placed(1)
    durable(cluster, 1, "sub", ("t", 1))
    cluster.move("sub", 1)
    reader, _ = cluster[1].connect("sub", clean=False, expiry_s=600)
    writer = durable(cluster, 1, "writer")
    follower = cluster.copied("writer")[1]
    cluster.until(lambda: cluster.copied("sub") == (1, follower))
    writer.send(publish("t", b"1", 2, 5))
    while not inbound(cluster, follower):
        assert cluster.loop.turn()
    cluster.network.one_way("n1", f"n{follower}")  # it has the mid of the message, and does not learn who gets that
    cluster.pass_s(0.1)
    assert [(each.payload, each.dup) for each in reader.drain()] == [(b"1", False)]
    cluster[1].kill()
    assert cluster.taken_over(1, "sub") == cluster.taken_over(1, "writer") == follower
    writer, _ = cluster[follower].connect("writer", clean=False, expiry_s=600)
    writer.send(publish("t", b"1", 2, 5, dup=True))
    cluster.until(lambda: any(isinstance(each, packets.Pubrec) for each in writer.take()))
    reader, connack = cluster[follower].connect("sub", clean=False, expiry_s=600)
    assert connack.session_present
    assert [(each.payload, each.dup) for each in reader.drain()] == [(b"1", True)]


def test_a_slot_that_moves_waits_until_all_copies_have_what_its_clients_published() -> None:
    """The receiver's copy lacks the message, and its node takes the slot over: the publisher's next primary routes the
    message again."""
    cluster = CopiedCluster()
    writer_id, reader_id = placed_at(cluster, 2, "writer"), placed_at(cluster, 3, "reader", ("t", 2))
    writer = durable(cluster, 1, writer_id)
    cluster.pass_s(0.5)
    cluster.network.one_way("n1", "n3")
    writer.send(publish("t", b"1", 2, 5))
    cluster.pass_s(0.1)
    assert writer.take() == []
    clustering = cluster[1].host.clustering
    assert clustering is not None
    moves, outcome = clustering.slots.moves, list[str]()
    moves.begin(slot_of("", writer_id), "n2", outcome.append)
    cluster.pass_s(0.3)
    assert moves.departure is not None and not outcome and writer.closed
    cluster[1].kill()
    assert (cluster.taken_over(1, writer_id), cluster.taken_over(1, reader_id)) == (2, 3)
    again, connack = cluster[2].connect(writer_id, clean=False, expiry_s=600)
    assert connack.session_present
    again.send(publish("t", b"1", 2, 5, dup=True))
    cluster.until(lambda: any(isinstance(each, packets.Pubrec) for each in again.take()))
    assert everything(cluster, 3, reader_id) == [b"1"]


def test_the_successor_dies_too_and_the_message_still_arrives_once() -> None:
    cluster = _placed(1, 1, 2, 3)
    writer = durable(cluster, 1, "writer")
    for client_id in ("writer", "r1", "r2", "r3"):
        cluster.copied(client_id)
    writer.ask(publish("t", b"1", 2, 5))
    cluster[1].kill()
    successor = cluster.taken_over(1, "writer")
    again, _ = cluster[successor].connect("writer", clean=False, expiry_s=600)
    assert [type(each) for each in again.ask(publish("t", b"1", 2, 5, dup=True))] == [packets.Pubrec]
    cluster[1].start()
    cluster.whole()
    cluster.all_copied()
    cluster[successor].kill()
    last = cluster.taken_over(successor, "writer")
    again, connack = cluster[last].connect("writer", clean=False, expiry_s=600)
    assert connack.session_present
    again.send(publish("t", b"1", 2, 5, dup=True))
    cluster.until(lambda: any(isinstance(each, packets.Pubrec) for each in again.take()))
    again.send(packets.Pubrel(5))
    cluster.until(lambda: any(isinstance(each, packets.Pubcomp) for each in again.take()))
    for name in ("r1", "r2", "r3"):
        assert everything(cluster, last, name) == [b"1"], name


def test_a_node_that_has_lost_the_slot_speaks_for_it_no_more() -> None:
    """Copies that it still had for other nodes are dropped there: its successor sends the message."""
    cluster = _placed(1, 2)
    other = cluster.copied("writer")[1]
    writer = durable(cluster, 1, "writer")
    cluster.copied("writer")
    receiver = cluster[2].host.clustering
    assert receiver is not None
    slot = slot_of("", "writer")
    assert receiver.receiver._speaks_for("n1", f"#{slot}") and not receiver.receiver._speaks_for("n3", f"#{slot}")
    writer.ask(publish("t", b"1", 2, 5))
    cluster[1].pause_process()
    assert cluster.taken_over(1, "writer") == other
    cluster.until(lambda: receiver.receiver._speaks_for(f"n{other}", f"#{slot}"))
    assert not receiver.receiver._speaks_for("n1", f"#{slot}")


def test_a_node_that_has_lost_the_slot_remembers_what_its_sessions_took() -> None:
    """A will of the slot has ended there, and the follower does not know that. So this counts when the slot is lost. It
    ends no other mid of the slot: the successor sends their messages once more."""
    cluster = CopiedCluster(nodes=5)
    durable(cluster, 1, "r3", ("t", 2)).leave()
    for client_id in ("writer", "r3"):
        durable(cluster, 1, client_id).leave()
        cluster.move(client_id, 1)
    follower, other = cluster.copied("writer")[1], cluster.copied("r3")[1]
    assert follower != other
    writer = durable(cluster, 1, "writer", will=packets.Will("will", b"gone", 1))
    cluster.copied("writer")
    assert [type(each) for each in writer.ask(publish("t", b"1", 2, 5))] == [packets.Pubrec]
    cluster.pass_s(1)
    writer.break_off()
    while not any(key[:1] == b"z" for key in cluster.rows(follower, "writer")):
        assert cluster.loop.turn()
    cluster.network.one_way("n1", f"n{follower}")
    cluster.pass_s(0.1)
    assert not cluster[1].node.wills._routed, "all have the will, and its end is not safe"
    for number in {2, 3, 4, 5} - {other}:  # the slot of the reader has no other copy
        cluster.network.cut("n1", f"n{number}")
        cluster.network.cut(f"n{other}", f"n{number}")
    assert cluster.taken_over(1, "writer") == follower
    cluster[other].kill()
    cluster.network.heal()
    cluster.state_of(1, ViewState.MAJORITY)
    _finish(cluster, follower)
    assert everything(cluster, 1, "r3") == [b"1"]


def test_a_node_that_has_lost_the_slot_remembers_what_its_clean_sessions_took() -> None:
    """It was cut off, and its clean sessions are still connected: nobody accepted a message meanwhile. The next primary
    of the publisher's slot sends the message once more."""
    cluster = CopiedCluster(nodes=3)
    durable(cluster, 1, "writer").leave()
    cluster.move("writer", 1)
    follower = cluster.copied("writer")[1]
    reader = cluster[1].client("reader")
    reader.subscribe(("t", 2))
    writer = durable(cluster, 1, "writer")
    cluster.copied("writer")
    assert [type(each) for each in writer.ask(publish("t", b"1", 2, 5))] == [packets.Pubrec]
    for number in (2, 3):
        cluster.network.cut("n1", f"n{number}")
    assert cluster.taken_over(1, "writer") == follower
    cluster.network.heal()
    cluster.state_of(1, ViewState.WHOLE)
    again = _finish(cluster, follower)
    assert not reader.closed
    got = [each.payload for each in reader.take() if isinstance(each, packets.Publish)]
    again.ask(publish("t", b"2", 2, 6))
    assert [*got, *[each.payload for each in reader.drain()]] == [b"1", b"2"]


def test_receivers_forget_the_mids_of_a_slot_when_its_handshakes_are_over() -> None:
    cluster = _placed(1, 2)
    writer = durable(cluster, 1, "writer")
    cluster.copied("writer")
    slot = slot_of("", "writer")
    receiver, own = cluster[2].host.clustering, cluster[1].host.clustering
    assert receiver is not None and own is not None
    cluster[1].client("clean").subscribe(("t", 2))
    for number in range(20):
        writer.send(publish("t", b"%d" % number, 2, number + 1))
        cluster.until(lambda: any(isinstance(each, packets.Pubrec) for each in writer.take()))
        assert 1 <= len(receiver.receiver._seen[f"#{slot}"]) <= 2
        assert len(own.receiver._seen[f"#{slot}"]) == 1, "for the clean session here"
        writer.send(packets.Pubrel(number + 1))
        cluster.until(lambda: any(isinstance(each, packets.Pubcomp) for each in writer.take()))
    assert not own.receiver._seen[f"#{slot}"]


def test_a_slot_that_has_moved_keeps_no_mid_longer_than_its_handshake() -> None:
    """It moves while a client of another slot has a handshake open, whose message it has."""
    cluster = _placed(1, 1)
    writer = durable(cluster, 1, "writer")
    slot, origin = slot_of("", "r1"), f"#{slot_of('', 'writer')}"

    def taken(number: int) -> list[tuple[int, str, int, int]]:
        rows = cluster[number].node.env.store.keys(*keys.slot_range(b"a", slot))
        return [keys.parse_seen_in_slot_key(key) for key in rows]

    assert [type(each) for each in writer.ask(publish("t", b"1", 2, 5))] == [packets.Pubrec]
    cluster.move("r1", 2)
    first = taken(2)
    assert [each[:2] for each in first] == [(slot, origin)]
    assert [type(each) for each in writer.ask(packets.Pubrel(5))] == [packets.Pubcomp]
    assert [type(each) for each in writer.ask(publish("t", b"2", 2, 6))] == [packets.Pubrec]
    cluster.until(lambda: first[0] not in taken(2))
    assert [each[:2] for each in taken(2)] == [(slot, origin)]
    assert everything(cluster, 3, "r1") == [b"1", b"2"]


def test_a_packet_id_that_a_loss_of_power_has_brought_back_stands_for_a_new_message() -> None:
    """Both copies of the publisher's slot lose the removal of the id. The receiver still knows the former message."""
    cluster = _placed(1, 2)
    writer = durable(cluster, 1, "writer")
    holders = cluster.copied("writer")
    cluster.move("r2", 6 - sum(holders))
    cluster.copied("r2")
    assert [type(each) for each in writer.ask(publish("t", b"1", 2, 5))] == [packets.Pubrec]
    cluster.pass_s(1)
    before = {number: inbound(cluster, number) for number in holders}
    assert [type(each) for each in writer.ask(packets.Pubrel(5))] == [packets.Pubcomp]
    cluster.pass_s(1)
    for number, rows in before.items():
        assert len(rows) == 1 and not inbound(cluster, number)
        cluster[number].kill()
        for key, value in rows.items():
            cluster[number].disks[0].rot(key, value)
    for number in holders:
        cluster[number].start()
    cluster.whole()
    again, connack = cluster[cluster.copied("writer")[0]].connect("writer", clean=False, expiry_s=600)
    assert connack.session_present
    for payload in (b"2", b"3"):
        assert [type(each) for each in again.ask(publish("t", payload, 2, 5))] == [packets.Pubrec]
        assert [type(each) for each in again.ask(packets.Pubrel(5))] == [packets.Pubcomp]
    assert everything(cluster, cluster.copied("r2")[0], "r2") == [b"1", b"2", b"3"]


def _cut_off_without_the_writer(cluster: CopiedCluster) -> int:
    """The writer's message is at a member of a group at n1, and n1 is cut off before PUBREL. Another node takes the
    writer's slot over, and nobody that of the member. Returns that node."""
    durable(cluster, 1, "r3", ("$share/g/t", 2)).leave()
    for client_id in ("writer", "r3"):
        durable(cluster, 1, client_id).leave()
        cluster.move(client_id, 1)
    follower, other = cluster.copied("writer")[1], cluster.copied("r3")[1]
    assert follower != other
    writer = durable(cluster, 1, "writer")
    cluster.copied("writer")
    assert [type(each) for each in writer.ask(publish("t", b"1", 2, 5))] == [packets.Pubrec]
    cluster.pass_s(1)
    for number in {2, 3, 4, 5} - {other}:  # the slot of the reader has no other copy
        cluster.network.cut("n1", f"n{number}")
        cluster.network.cut(f"n{other}", f"n{number}")
    assert cluster.taken_over(1, "writer") == follower
    cluster[other].kill()
    return follower


def test_a_node_that_has_lost_the_slot_remembers_which_member_of_a_group_it_chose() -> None:
    """The successor chooses the same node again: its member has the message."""
    cluster = CopiedCluster(nodes=5)
    follower = _cut_off_without_the_writer(cluster)
    cluster.network.heal()
    cluster.state_of(1, ViewState.MAJORITY)
    _finish(cluster, follower)
    assert everything(cluster, 1, "r3") == [b"1"]


def test_a_node_that_lost_the_slot_while_it_was_down_remembers_which_member_of_a_group_it_chose() -> None:
    cluster = CopiedCluster(nodes=5)
    follower = _cut_off_without_the_writer(cluster)
    cluster[1].kill()
    cluster.network.heal()
    cluster[1].start()
    cluster.state_of(1, ViewState.MAJORITY)
    _finish(cluster, follower)
    assert everything(cluster, 1, "r3") == [b"1"]


def test_a_group_whose_member_is_here_costs_no_row_of_its_own() -> None:
    """The node knows in memory which member it chose, until the handshake is over. The copy does not take that over."""
    cluster = CopiedCluster()
    for client_id, filters in (("writer", ()), ("member", (("$share/g/t", 2),))):
        durable(cluster, 1, client_id, *filters).leave()
        cluster.move(client_id, 1)
    writer = durable(cluster, 1, "writer")
    follower = cluster.copied("writer")[1]
    cluster.copied("member")
    clustering, origin = cluster[1].host.clustering, f"#{slot_of('', 'writer')}"
    assert clustering is not None
    known = clustering.receiver._seen
    for number in (1, 2):
        assert [type(each) for each in writer.ask(publish("t", b"m", 2, number))] == [packets.Pubrec]
        assert [list(each.homes) for each in known[origin].values()] == [["$share/g/t"]]
        assert not [key for key in cluster[1].disks[0].content() if key[:1] in b"ax"]
        if number == 1:
            assert [type(each) for each in writer.ask(packets.Pubrel(number))] == [packets.Pubcomp]
            assert not known[origin]
    cluster.pass_s(1)
    cluster[1].kill()
    assert cluster.taken_over(1, "writer") == follower
    session = cluster[follower].node.sessions.known("", "writer")
    assert session is not None and [each.members for each in session.inbound.records.values()] == [{}]
