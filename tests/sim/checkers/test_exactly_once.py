"""QoS 2 reaches the application once."""

from __future__ import annotations

from strogoff.sim.checkers.exactly_once import check

from ..scene import Story


def test_twice_is_once_too_often() -> None:
    """[MQTT-4.3.3-2] a receiver that is sent one message under two ids hands it on twice."""
    story = Story()
    story.publish("w-1", qos=2)
    story.deliver("w-1")
    story.deliver("w-1", first=False)
    assert list(check(story.case())) == []
    story.deliver("w-1")
    assert list(check(story.case())) == ["duplicate: s, session 1 got w-1 2 times with QoS 2"]


def test_a_shared_message_goes_to_one_member() -> None:
    story = Story()
    groups = {"a": "$share/g/s/#", "b": "$share/g/s/#", "c": "$share/h/s/+"}
    for client, group in groups.items():
        story.connect(client)
        story.subscribe(client, group)
    story.publish("w-1", topic="s/0", qos=2)
    story.deliver("w-1", "a")
    story.deliver("w-1", "c")
    assert list(check(story.case())) == []
    story.deliver("w-1", "b")
    assert list(check(story.case())) == ["duplicate: $share/g/s/# got w-1 2 times with QoS 2"]


def test_a_clean_session_whose_node_dies_leaves_no_record() -> None:
    """docs/promises.md, what comes later."""
    story = Story()
    for client in ("a", "b"):
        story.connect(client, expiry_s=0 if client == "a" else None)
        story.subscribe(client, "$share/g/s/#")
    story.publish("w-1", topic="s/0", qos=2)
    story.fault("kill")
    story.deliver("w-1", "a")
    story.deliver("w-1", "b")
    assert len(list(check(story.case()))) == 1
    story.fault("kill")
    assert list(check(story.case())) == []


def test_a_session_that_goes_with_the_disk_of_its_node_leaves_no_record() -> None:
    """The node was taken out before it could say that a member of the group has it."""
    story = Story()
    for client in ("a", "b"):
        story.connect(client)
        story.subscribe(client, "$share/g/s/#")
    story.publish("w-1", topic="s/0", qos=2)
    story.history.life("n1").emptied.append(story.now)
    story.deliver("w-1", "a")
    story.deliver("w-1", "b")
    assert len(list(check(story.case()))) == 1
    story.history.life("n1").emptied.append(story.now)
    assert list(check(story.case())) == []


def test_what_may_come_more_often() -> None:
    """QoS 1 on either side, retained messages, another session."""
    story = Story()
    story.publish("w-1", qos=1)
    story.publish("w-2", qos=2)
    for _ in range(2):
        story.deliver("w-1")
        story.deliver("w-2", qos=1)
        story.deliver("w-2", client="r", retained=True)
    story.deliver("w-2", client="u")
    story.deliver("w-2", client="u", epoch=2)
    assert list(check(story.case())) == []


def test_an_old_copy_of_a_disk_may_have_it_again_only_where_no_lease_is_asked_for() -> None:
    """Until the others refuse it: nothing on the copy says that it is one (5 nodes, seed 1165)."""
    story = Story()
    story.connect("s")
    story.publish("w-1", qos=2)
    story.deliver("w-1")
    connection = story.connect_to_old_copy("s")
    story.deliver("w-1", connection=2)
    assert list(check(story.case())) == ["duplicate: s, session 1 got w-1 2 times with QoS 2"]
    connection.ap = True
    assert list(check(story.case())) == []
    story.history.life().entered.append(connection.asked_at - 0.5)
    assert list(check(story.case())) == ["duplicate: s, session 1 got w-1 2 times with QoS 2"]


def test_with_the_disk_of_its_writer_goes_the_handshake() -> None:
    """The CONNACK that said so got lost; the next speaks of the empty session since (5 nodes, seed 115621)."""
    story = Story()
    story.connect("s")
    attempt = story.publish("w-1", qos=2, acked=False)
    story.deliver("w-1")
    attempt.node = "n2"
    story.history.life("n2").emptied.append(story.now)
    story.now += 1
    story.deliver("w-1")
    assert list(check(story.case())) == ["duplicate: s, session 1 got w-1 2 times with QoS 2"], "it was not sent again"
    attempt.resent = 1
    assert list(check(story.case())) == []
    attempt.sent_at = story.history.life("n2").emptied[0]
    assert list(check(story.case())) == ["duplicate: s, session 1 got w-1 2 times with QoS 2"]
