"""A slot moves while its publisher is absent in a QoS 2 handshake that only the client can finish (H-47)."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.slot_moves import SlotMoves
from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from tests.broker.clustering.copied_cluster import CopiedCluster, durable, placed_at
from tests.harness.broker import PacketClient, publish
from tests.harness.thinning import thinned

READERS = ("r1", "r2", "r3")
TURNS = (2, 4, 6, 8, 10, 12, 100)


def _placed(*receivers: int) -> CopiedCluster:
    """The publisher's slot is at n1, and the slot of one receiver at each of these nodes."""
    cluster = CopiedCluster()
    homes = {"writer": 1, **{f"r{number}": number for number in receivers}}
    for client_id in homes:
        durable(cluster, 1, client_id, *((("t", 2),) if client_id != "writer" else ())).leave()
    for client_id, number in homes.items():
        cluster.move(client_id, number)
        cluster.copied(client_id)
    return cluster


def _moves(cluster: CopiedCluster, number: int) -> SlotMoves:
    clustering = cluster[number].host.clustering
    assert clustering is not None
    return clustering.slots.moves


def _failed_over(cluster: CopiedCluster, turns: int = 100) -> int:
    """The publisher sends a message. After some turns of the loop its primary is killed, and starts again. Returns the
    next primary."""
    writer = durable(cluster, 1, "writer")
    for client_id in ("writer", *READERS):
        cluster.copied(client_id)
    writer.send(publish("t", b"1", 2, 5))
    for _ in range(turns):
        assert cluster.loop.turn()
    assert [type(each) for each in writer.take()] == [packets.Pubrec] * (turns == 100)
    writer.vanish()
    return _next_primary(cluster, 1)


def _next_primary(cluster: CopiedCluster, former: int) -> int:
    """Kill the primary of the publisher, and start it again. Returns the next one."""
    cluster[former].kill()
    primary = cluster.taken_over(former, "writer")
    cluster[former].start()
    cluster.whole()
    cluster.all_copied()
    return primary


def _ask(cluster: CopiedCluster, client: PacketClient, packet: packets.Packet, answer: type) -> None:
    client.send(packet)
    cluster.until(lambda: any(isinstance(each, answer) for each in client.take()))


def _finish(cluster: CopiedCluster, number: int, repeats: bool = True) -> None:
    """The publisher comes back at a node, ends the handshake, and sends one more message."""
    again, connack = cluster[number].connect("writer", clean=False, expiry_s=60000)
    assert connack.session_present
    if repeats:
        _ask(cluster, again, publish("t", b"1", 2, 5, dup=True), packets.Pubrec)
    _ask(cluster, again, packets.Pubrel(5), packets.Pubcomp)
    _ask(cluster, again, publish("t", b"2", 2, 5), packets.Pubrec)
    _ask(cluster, again, packets.Pubrel(5), packets.Pubcomp)


def _got(cluster: CopiedCluster, client_id: str) -> list[bytes]:
    client, connack = cluster[1].connect(client_id, clean=False, expiry_s=60000)
    assert connack.session_present
    found = [each.payload for each in client.drain()]
    client.leave()
    return found


@pytest.mark.parametrize("case", thinned([(100, False), *[(each, True) for each in TURNS]], 3))
def test_a_handshake_after_a_failover_goes_on_behind_a_move(case: tuple[int, bool]) -> None:
    """The copies have the handshake, so nobody waits for the client. It was answered before the failover, or not."""
    turns, repeats = case
    cluster = _placed(1, 2, 3)
    primary = _failed_over(cluster, turns)
    for number in (1, 5 - primary, 1):
        cluster.move("writer", number)
    _finish(cluster, 1, repeats)
    assert [_got(cluster, each) for each in READERS] == [[b"1", b"2"]] * 3


@pytest.mark.parametrize("finished", [False, True])
def test_a_handshake_that_has_moved_survives_one_more_failover(finished: bool) -> None:
    """`finished`: the client has repeated its message before that, and does so again."""
    cluster = _placed(1, 2, 3)
    _failed_over(cluster)
    cluster.move("writer", 1)
    cluster.all_copied()
    if finished:
        again, _ = cluster[1].connect("writer", clean=False, expiry_s=60000)
        _ask(cluster, again, publish("t", b"1", 2, 5, dup=True), packets.Pubrec)
        again.vanish()
    primary = _next_primary(cluster, 1)
    cluster.move("writer", 1)
    _finish(cluster, 5 - primary)
    assert [_got(cluster, each) for each in READERS] == [[b"1", b"2"]] * 3


@pytest.mark.parametrize("steps", thinned(range(8), 3))
def test_the_client_repeats_its_message_while_the_slot_leaves(steps: int) -> None:
    cluster = _placed(1, 2, 3)
    primary = _failed_over(cluster)
    writer, _ = cluster[primary].connect("writer", clean=False, expiry_s=60000)
    writer.send(publish("t", b"1", 2, 5, dup=True))
    cluster.pass_s(steps * 0.0004)
    outcome = list[str]()
    _moves(cluster, primary).begin(slot_of("", "writer"), "n1", outcome.append)
    cluster.until(lambda: bool(outcome))
    assert outcome == [""] and writer.closed
    _finish(cluster, 1)
    assert [_got(cluster, each) for each in READERS] == [[b"1", b"2"]] * 3


def test_the_mid_of_a_handshake_whose_slot_stays_is_over_with_it() -> None:
    """The target is lost before the table names it: the slot opens here again, with the open handshake."""
    cluster = _placed(1, 2, 3)
    primary = _failed_over(cluster)
    moves = _moves(cluster, primary)
    cluster[primary].member.request_slots = lambda changes: None  # type: ignore[method-assign, assignment, misc]
    outcome = list[str]()
    _, follower = cluster.copied("writer")
    moves.begin(slot_of("", "writer"), f"n{follower}", outcome.append)
    cluster.until(lambda: moves.departure is not None and moves.departure.phase == "asking")
    cluster[follower].kill()
    cluster.until(lambda: bool(outcome))
    assert outcome != [""]
    del cluster[primary].member.request_slots
    cluster[follower].start()
    cluster.whole()
    cluster.all_copied()
    _finish(cluster, primary)
    clustering = cluster[primary].host.clustering
    assert clustering is not None
    assert not clustering.sender.handshakes.of(f"#{slot_of('', 'writer')}").open
    assert [_got(cluster, each) for each in READERS] == [[b"1", b"2"]] * 3


def test_a_member_of_a_group_at_the_former_primary_gets_its_message_once() -> None:
    """It has the message from an earlier process of the publisher's primary. Another member of its group is at the next
    primary. A restart of the former one would read what its disk says of the member."""
    cluster = CopiedCluster()
    writer_id, member_id = placed_at(cluster, 2, "writer"), placed_at(cluster, 2, "member", ("$share/g/t", 2))
    durable(cluster, 1, "other", ("$share/g/t", 2)).leave()
    cluster.move("other", 2)
    writer = durable(cluster, 1, writer_id)
    _ask(cluster, writer, publish("t", b"1", 2, 5), packets.Pubrec)
    writer.vanish()
    cluster[2].kill()
    cluster.until(lambda: all(len(cluster.row(each).in_sync) == 1 for each in (writer_id, member_id)))
    cluster.restart(1)
    cluster.pass_s(30)
    cluster[2].start()
    cluster.whole()
    cluster.all_copied()
    assert cluster.copied(writer_id)[0] == cluster.copied(member_id)[0] == 1
    for client_id in ("other", writer_id):
        cluster.move(client_id, 2)
    cluster.pass_s(1)
    assert [key[:1] for key in cluster[1].disks[0].content() if key[:1] == b"x"] == [b"x"]
    again, connack = cluster[2].connect(writer_id, clean=False, expiry_s=60000)
    assert connack.session_present
    _ask(cluster, again, publish("t", b"1", 2, 5, dup=True), packets.Pubrec)
    assert (_got(cluster, member_id), _got(cluster, "other")) == ([b"1"], [])


def test_a_slot_that_lacks_the_message_of_an_earlier_process_does_not_note_it_when_it_leaves() -> None:
    """The copy of the reader lacked the message when the primary of both died. The reader's slot comes to the next
    primary of the publisher, and leaves it, before the client repeats its message."""
    cluster = CopiedCluster()
    writer_id, reader_id = placed_at(cluster, 2, "writer"), placed_at(cluster, 3, "reader", ("t", 2))
    writer = durable(cluster, 1, writer_id)
    cluster.pass_s(0.5)
    cluster.network.one_way("n1", "n3")
    writer.send(publish("t", b"1", 2, 5))
    cluster.pass_s(0.1)
    assert writer.take() == []
    cluster[1].kill()
    assert (cluster.taken_over(1, writer_id), cluster.taken_over(1, reader_id)) == (2, 3)
    cluster.network.heal()
    cluster[1].start()
    cluster.whole()
    cluster.all_copied()
    for number in (2, 3):
        cluster.move(reader_id, number)
    again, connack = cluster[2].connect(writer_id, clean=False, expiry_s=60000)
    assert connack.session_present
    _ask(cluster, again, publish("t", b"1", 2, 5, dup=True), packets.Pubrec)
    assert _got(cluster, reader_id) == [b"1"]
