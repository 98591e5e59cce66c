"""QoS 2 reaches the application once."""

from __future__ import annotations

from strogoff.cluster.identity import slot_of
from strogoff.sim.checkers.exactly_once import check

from ..histories import HistoryBuilder


def test_a_second_delivery_is_a_violation() -> None:
    """[MQTT-4.3.3-2] a receiver that gets one message under two ids passes it on twice."""
    builder = HistoryBuilder()
    builder.publish("w-1", qos=2)
    builder.deliver("w-1")
    builder.deliver("w-1", first=False)
    assert list(check(builder.case())) == []
    builder.deliver("w-1")
    assert list(check(builder.case())) == ["duplicate: s, session 1 got w-1 2 times with QoS 2"]


def test_a_primary_that_may_lack_changes_may_send_again() -> None:
    """The cluster has said so since the first delivery."""
    builder = HistoryBuilder()
    builder.history.copied = True
    builder.publish("w-1", qos=2)
    builder.deliver("w-1")
    builder.history.slot_losses[slot_of("", "s")] = [builder.now]
    builder.deliver("w-1")
    assert list(check(builder.case())) == []
    builder.deliver("w-1")
    assert list(check(builder.case())) == ["duplicate: s, session 1 got w-1 2 times with QoS 2"]


def test_a_shared_message_goes_to_one_member() -> None:
    builder = HistoryBuilder()
    groups = {"a": "$share/g/s/#", "b": "$share/g/s/#", "c": "$share/h/s/+"}
    for client, group in groups.items():
        builder.connect(client)
        builder.subscribe(client, group)
    builder.publish("w-1", topic="s/0", qos=2)
    builder.deliver("w-1", "a")
    builder.deliver("w-1", "c")
    assert list(check(builder.case())) == []
    builder.deliver("w-1", "b")
    assert list(check(builder.case())) == ["duplicate: $share/g/s/# got w-1 2 times with QoS 2"]


def test_a_clean_session_whose_node_dies_leaves_no_record() -> None:
    """The record of a clean session is lost with its node: another member may get the message again
    (docs/promises.md).
    """
    builder = HistoryBuilder()
    for client in ("a", "b"):
        builder.connect(client, expiry_s=0 if client == "a" else None)
        builder.subscribe(client, "$share/g/s/#")
    builder.publish("w-1", topic="s/0", qos=2)
    builder.fault("kill")
    builder.deliver("w-1", "a")
    builder.deliver("w-1", "b")
    assert len(list(check(builder.case()))) == 1
    builder.fault("kill")
    assert list(check(builder.case())) == []


def test_a_session_that_goes_with_the_disk_of_its_node_leaves_no_record() -> None:
    """The node was removed before it could report that a member of the group has the message."""
    builder = HistoryBuilder()
    for client in ("a", "b"):
        builder.connect(client)
        builder.subscribe(client, "$share/g/s/#")
    builder.publish("w-1", topic="s/0", qos=2)
    builder.history.life("n1").emptied.append(builder.now)
    builder.deliver("w-1", "a")
    builder.deliver("w-1", "b")
    assert len(list(check(builder.case()))) == 1
    builder.history.life("n1").emptied.append(builder.now)
    assert list(check(builder.case())) == []


def test_messages_that_may_arrive_more_than_once() -> None:
    """QoS 1 on either side, retained messages, another session."""
    builder = HistoryBuilder()
    builder.publish("w-1", qos=1)
    builder.publish("w-2", qos=2)
    for _ in range(2):
        builder.deliver("w-1")
        builder.deliver("w-2", qos=1)
        builder.deliver("w-2", client="r", retained=True)
    builder.deliver("w-2", client="u")
    builder.deliver("w-2", client="u", epoch=2)
    assert list(check(builder.case())) == []


def test_an_old_copy_of_a_disk_may_repeat_a_message_only_without_a_lease() -> None:
    """A node cannot know that its disk is an old copy until the others refuse it (5 nodes, seed 1165)."""
    builder = HistoryBuilder()
    builder.connect("s")
    builder.publish("w-1", qos=2)
    builder.deliver("w-1")
    connection = builder.connect_to_old_copy("s")
    builder.deliver("w-1", connection=2)
    assert list(check(builder.case())) == ["duplicate: s, session 1 got w-1 2 times with QoS 2"]
    connection.without_lease = True
    assert list(check(builder.case())) == []
    builder.history.life().entered.append(connection.asked_at - 0.5)
    assert list(check(builder.case())) == ["duplicate: s, session 1 got w-1 2 times with QoS 2"]


def test_a_lost_disk_of_the_publisher_loses_the_handshake() -> None:
    """The CONNACK of the new session is lost; the next one reports the empty session made since (5
    nodes, seed 115621).
    """
    builder = HistoryBuilder()
    builder.connect("s")
    attempt = builder.publish("w-1", qos=2, acked=False)
    builder.deliver("w-1")
    attempt.node = "n2"
    builder.history.life("n2").emptied.append(builder.now)
    builder.now += 1
    builder.deliver("w-1")
    assert list(check(builder.case())) == ["duplicate: s, session 1 got w-1 2 times with QoS 2"], (
        "it was not sent again"
    )
    attempt.resent = 1
    assert list(check(builder.case())) == []
    attempt.sent_at = builder.history.life("n2").emptied[0]
    assert list(check(builder.case())) == ["duplicate: s, session 1 got w-1 2 times with QoS 2"]
