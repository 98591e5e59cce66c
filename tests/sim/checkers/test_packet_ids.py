"""A packet id stands for one message."""

from __future__ import annotations

from strogoff.sim.checkers.packet_ids import check
from strogoff.sim.history import Mixed

from ..scene import Story


def test_again_under_another_id() -> None:
    """[MQTT-4.4.0-1] what is sent again keeps its packet id."""
    story = Story()
    story.connect("s")
    story.publish("w-1", qos=2)
    story.deliver("w-1", packet_id=5)
    story.deliver("w-1", packet_id=5, dup=True)
    assert list(check(story.case())) == []
    story.deliver("w-1", packet_id=6, dup=True)
    assert list(check(story.case())) == ["packet id: s got w-1 again under 6, before it was [5]"]


def test_what_there_may_be_two_of() -> None:
    story = Story()
    story.publish("w-1", resent=1)
    story.publish("w-2", topic="r/0")
    story.publish("w-3", topic="s/0")
    for key in ("w-1", "w-2", "w-3"):
        story.deliver(key, packet_id=5)
        story.deliver(key, packet_id=6, dup=True)
    assert list(check(story.case())) == []


def test_a_node_that_died_gets_it_again_from_the_writers_node() -> None:
    """It had sent it on before it was on the disk (3 nodes, seed 339)."""
    for node, wrong in (("n1", 1), ("n2", 0)):
        story = Story()
        story.connect("s")
        story.publish("w-1", node=node)
        story.deliver("w-1", packet_id=5)
        story.fault("kill")
        story.deliver("w-1", packet_id=6, dup=True)
        assert len(list(check(story.case()))) == wrong


def test_what_clients_saw_at_once() -> None:
    story = Story()
    story.history.ids.append(Mixed("s", 1, "s: packet id 5 came with w-2 while it stands for w-1"))
    assert list(check(story.case())) == ["packet id: s: packet id 5 came with w-2 while it stands for w-1"]


def test_an_old_copy_of_a_disk_knows_no_ids_and_serves_only_where_no_lease_is_asked_for() -> None:
    """Until the others refuse it: nothing on the copy says that it is one."""
    story = Story()
    story.connect("s")
    story.publish("w-1", qos=2)
    story.deliver("w-1", packet_id=5)
    connection = story.connect_to_old_copy("s")
    story.deliver("w-1", connection=2, packet_id=6, dup=True)
    story.history.ids.append(Mixed("s", 2, "another message"))
    wrong = ["packet id: another message", "packet id: s got w-1 again under 6, before it was [5]"]
    assert list(check(story.case())) == wrong
    connection.ap = True
    assert list(check(story.case())) == []
    story.history.life().entered.append(connection.asked_at - 0.5)
    assert list(check(story.case())) == wrong
