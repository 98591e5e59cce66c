"""A packet id stands for one message."""

from __future__ import annotations

from strogoff.cluster.identity import slot_of
from strogoff.sim.checkers.packet_ids import check
from strogoff.sim.history import IdReuse

from ..histories import HistoryBuilder


def test_a_message_repeated_under_another_id_is_a_violation() -> None:
    """[MQTT-4.4.0-1] a message that is sent again keeps its packet id."""
    builder = HistoryBuilder()
    builder.connect("s")
    builder.publish("w-1", qos=2)
    builder.deliver("w-1", packet_id=5)
    builder.deliver("w-1", packet_id=5, dup=True)
    assert list(check(builder.case())) == []
    builder.deliver("w-1", packet_id=6, dup=True)
    assert list(check(builder.case())) == ["packet id: s got w-1 again under 6, before it was [5]"]


def test_messages_that_may_arrive_as_two_copies() -> None:
    builder = HistoryBuilder()
    builder.publish("w-1", resent=1)
    builder.publish("w-2", topic="r/0")
    builder.publish("w-3", topic="s/0")
    for key in ("w-1", "w-2", "w-3"):
        builder.deliver(key, packet_id=5)
        builder.deliver(key, packet_id=6, dup=True)
    assert list(check(builder.case())) == []


def test_a_handshake_without_a_lease_may_begin_again() -> None:
    """The session of the writer expired while no node could serve it: then the message is another one (3 nodes, seed
    9141).
    """
    for resent, without_lease, wrong in ((1, True, 0), (1, False, 1), (0, True, 1)):
        builder = HistoryBuilder()
        builder.connect("s")
        attempt = builder.publish("w-1", qos=2, resent=resent)
        attempt.without_lease = without_lease
        builder.deliver("w-1", packet_id=5)
        builder.deliver("w-1", packet_id=6, dup=True)
        assert len(list(check(builder.case()))) == wrong


def test_a_dead_node_gets_the_message_again_from_the_publishers_node() -> None:
    """The dead node had sent the message to the client before it was on disk (3 nodes, seed 339)."""
    for node, wrong in (("n1", 1), ("n2", 0)):
        builder = HistoryBuilder()
        builder.connect("s")
        builder.publish("w-1", node=node)
        builder.deliver("w-1", packet_id=5)
        builder.fault("kill")
        builder.deliver("w-1", packet_id=6, dup=True)
        assert len(list(check(builder.case()))) == wrong


def test_a_node_that_takes_a_slot_over_gets_the_message_from_the_publishers_node() -> None:
    """The former primary had sent it before it was in the copies (3 nodes, `--variant copies,moves`, seed 760214)."""
    for qos, copied, client, wrong in ((1, True, "s", 0), (2, True, "s", 1), (1, False, "s", 1), (1, True, "x", 1)):
        builder = HistoryBuilder()
        builder.history.copied = copied
        builder.connect("s")
        builder.publish("w-1", qos=qos)
        builder.deliver("w-1", packet_id=5)
        builder.tick()
        builder.history.slot_arrivals[slot_of("", client)] = [builder.now]
        builder.deliver("w-1", packet_id=6, dup=True)
        assert len(list(check(builder.case()))) == wrong


def test_a_former_primary_that_does_not_know_its_successor_may_send_a_message_first() -> None:
    """Its message never gets into the copies, so the next primary gets it anew from the publisher's node (3 nodes,
    `--variant copies,small`, seed 1330069).
    """
    for qos, copied, taker, taken, wrong in (
        (1, True, "n2", True, 0),
        (2, True, "n2", True, 1),
        (1, False, "n2", True, 1),
        (1, True, "n1", True, 1),
        (1, True, "n2", False, 1),
    ):
        builder = HistoryBuilder()
        builder.history.copied = copied
        builder.publish("w-1", qos=qos)
        builder.connect("s")
        builder.event("conn.open", "s", node="n1")
        builder.event("conn.open", "x", node="n3")
        builder.tick()
        if taken:
            builder.history.slot_arrivals[slot_of("", "s")] = [builder.now]
        builder.deliver("w-1", packet_id=5)
        builder.tick()
        builder.connect("s")
        builder.event("conn.open", "s", node=taker)
        builder.deliver("w-1", connection=2, packet_id=6, dup=True)
        assert len(list(check(builder.case()))) == wrong, (qos, copied, taker, taken)


def test_problems_that_clients_noted() -> None:
    builder = HistoryBuilder()
    builder.history.ids.append(IdReuse("s", 1, "s: packet id 5 came with w-2 while it stands for w-1"))
    assert list(check(builder.case())) == ["packet id: s: packet id 5 came with w-2 while it stands for w-1"]


def test_an_old_copy_of_a_disk_has_no_ids_and_serves_only_without_a_lease() -> None:
    """A node cannot know that its disk is an old copy until the others refuse it."""
    builder = HistoryBuilder()
    builder.connect("s")
    builder.publish("w-1", qos=2)
    builder.deliver("w-1", packet_id=5)
    connection = builder.connect_to_old_copy("s")
    builder.deliver("w-1", connection=2, packet_id=6, dup=True)
    builder.history.ids.append(IdReuse("s", 2, "another message"))
    wrong = ["packet id: another message", "packet id: s got w-1 again under 6, before it was [5]"]
    assert list(check(builder.case())) == wrong
    connection.without_lease = True
    assert list(check(builder.case())) == []
    builder.history.life().entered.append(connection.asked_at - 0.5)
    assert list(check(builder.case())) == wrong
