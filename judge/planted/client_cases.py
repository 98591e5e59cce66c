"""Planted cases of sessions, connections and wills: A10 to A14."""

from __future__ import annotations

from ...cluster.identity import slot_of
from ..findings import Subject
from .catalogue import Catalogue
from .clients import Client
from .scene import Actor
from .stage import Stage

CASES = Catalogue()


def _second_connection(stage: Stage, first: Client, again: int) -> None:
    """The client connects at another node; after `again` ms its first connection ends."""
    second = Client(first.name, stage.node(), first.expiry_s)
    stage.connect(second)
    opened = stage.scene.written[-2]
    detail = f"{second.node.name}, boot {opened['boot']}, row {opened['seq']}"
    if again > 2000:
        stage.expect("A10", "overlap", Subject(client=first.name, detail=detail), "error")


@CASES.anomaly
def two_owners(stage: Stage) -> Actor:
    """A10: two connections of a client are served for 3 s."""
    first = stage.client(stage.node(), expiry_s=0)
    _second_connection(stage, first, 3000)
    yield 3000
    stage.close(first)


@CASES.near_miss
def quick_takeover(stage: Stage) -> Actor:
    """The former connection ends a second after the new one has begun."""
    first = stage.client(stage.node(), expiry_s=0)
    _second_connection(stage, first, 1000)
    yield 1000
    stage.close(first)


@CASES.near_miss
def former_node_died(stage: Stage) -> Actor:
    """The node of the former connection was killed: nothing ended that connection in the log."""
    first = stage.client(stage.node(), expiry_s=0)
    _second_connection(stage, first, 0)
    yield from stage.kill(first.node)
    yield 5000


@CASES.anomaly
def takeover_hangs(stage: Stage) -> Actor:
    """A11: the former connection is never fenced."""
    client = stage.client(stage.node())
    row = stage.say(client.node, "sess.takeover.start", client=client.name)
    stage.expect("A11", "hang", stage.place(client, row), "error")
    yield 6000


@CASES.near_miss
def takeover_of_a_dead_node(stage: Stage) -> Actor:
    """The node was killed meanwhile; another takeover takes 4 s."""
    client = stage.client(stage.node())
    stage.say(client.node, "sess.takeover.start", client=client.name)
    yield from stage.kill(client.node)
    stage.connect(client, present=True)
    stage.say(client.node, "sess.takeover.start", client=client.name)
    yield 4000
    stage.of_session(client, "sess.takeover.end")


@CASES.anomaly
def forgotten(stage: Stage) -> Actor:
    """A12: a durable session is missing after a restart."""
    client = stage.client(stage.node())
    stage.close(client)
    yield from stage.kill(client.node)
    stage.connect(client)
    stage.expect_of("A12", "forgotten", client)


@CASES.near_miss
def ended_with_its_node(stage: Stage) -> Actor:
    """A clean session ends with its node; another one ended in order."""
    node = stage.node()
    clean, lasting = stage.client(node, "rx", 0), stage.client(node, "ry")
    stage.close(lasting)
    stage.of_session(lasting, "sess.expire")
    yield from stage.kill(node)
    for each in (clean, lasting):
        stage.connect(each)


@CASES.anomaly
def forgotten_by_its_new_node(stage: Stage) -> Actor:
    """A12: the slot of the session arrived at another node, which does not have it."""
    client = stage.client(stage.node())
    stage.close(client)
    stage.expect_of("A12", "forgotten", client)
    client.node = stage.node()
    stage.say(client.node, "slot.arrive", slot=slot_of("", client.name))
    yield 5
    stage.connect(client)


@CASES.near_miss
def continued_by_its_new_node(stage: Stage) -> Actor:
    """The same, and the new node has it: it gets the message that waited."""
    tx, rx = stage.pair()
    stage.close(rx)
    mid = stage.published(tx, rx)
    rx.node = stage.node()
    stage.say(rx.node, "slot.arrive", slot=slot_of("", rx.name))
    yield 5
    stage.connect(rx, present=True)
    stage.of_session(rx, "q.depth", count=1)
    stage.got(mid, rx, stage.send(mid, rx))


@CASES.anomaly
def resumed_after_its_end(stage: Stage) -> Actor:
    """A13: the session expired, and is there again."""
    client = stage.client(stage.node())
    stage.close(client)
    stage.of_session(client, "sess.expire")
    yield 5
    stage.connect(client, present=True)
    stage.expect("A13", "resumed", stage.session(client, number=2), "error")


@CASES.near_miss
def end_undone_by_a_kill(stage: Stage) -> Actor:
    """The node was killed right after the end, which was not on its disk yet."""
    client = stage.client(stage.node())
    stage.close(client)
    stage.of_session(client, "sess.end", reason="disconnected")
    yield from stage.kill(client.node)
    stage.connect(client, present=True)


@CASES.anomaly
def will_lost(stage: Stage) -> Actor:
    """A14: the session has ended, and its will is neither published nor dropped."""
    client = stage.client(stage.node(), expiry_s=0, will=stage.topic)
    stage.close(client)
    stage.expect("A14", "lost", stage.place(client, stage.scene.written[-2]))
    yield 15_000


@CASES.anomaly
def will_twice(stage: Stage) -> Actor:
    """A14: published twice."""
    client = stage.client(stage.node(), expiry_s=0, will=stage.topic)
    for _ in range(2):
        stage.fire(client, stage.topic)
    stage.expect("A14", "dup", stage.place(client, stage.scene.written[-1]))
    yield 0


@CASES.anomaly
def will_not_due(stage: Stage) -> Actor:
    """A14: published although its client had said goodbye."""
    client = stage.client(stage.node(), expiry_s=0, will=stage.topic)
    stage.drop_will(client, "disconnected")
    stage.fire(client, stage.topic)
    stage.expect("A14", "spurious", stage.place(client, stage.scene.written[-1]))
    yield 0


@CASES.near_miss
def will_again_after_a_kill(stage: Stage) -> Actor:
    """A kill undid the record that the will was published."""
    client = stage.client(stage.node(), expiry_s=0, will=stage.topic)
    stage.fire(client, stage.topic)
    yield from stage.kill(client.node)
    stage.fire(client, stage.topic)


@CASES.near_miss
def will_at_a_disk_that_was_given_up(stage: Stage) -> Actor:
    """The cluster does not take the node any more: it ends its sessions, and publishes nothing."""
    client, other = stage.client(stage.node(), expiry_s=0, will=stage.topic), stage.node()
    stage.say(other, "slot.lost", target=client.node.name, count=1, slots=["300"], view=2)
    stage.close(client)
    yield 15_000


@CASES.near_miss
def will_of_a_connection_without_connack(stage: Stage) -> Actor:
    """Two connections end before their CONNACK: the will of one is published, a kill may have taken the other's."""
    client = stage.client(stage.node(), expiry_s=0)
    stage.close(client)
    stage.arm(client, stage.topic)
    stage.fire(client, stage.topic)
    stage.arm(client, stage.topic)
    yield from stage.kill(client.node)
    stage.connect(client)


@CASES.near_miss
def ended_late_by_its_former_node(stage: Stage) -> Actor:
    """A node stands still, and ends the session with its will when another node has had both for long."""
    client = stage.client(stage.node(), will=stage.topic)
    stage.close(client)
    former, client.node = client.node, stage.node()
    stage.say(client.node, "slot.arrive", slot=slot_of("", client.name))
    stage.drop_will(client, "resumed")
    yield 5
    stage.connect(client, present=True, will=stage.topic)
    stage.say(former, "sess.end", client=client.name, epoch=client.epoch, reason="disconnected")
    yield 6000
    stage.drop_will(client, "disconnected")


@CASES.near_miss
def ended_where_it_was_served(stage: Stage) -> Actor:
    """The slot of a clean session with a will goes to another node, and the client stays where it is connected."""
    client = stage.client(stage.node(), expiry_s=0, will=stage.topic)
    stage.say(stage.node(), "slot.arrive", slot=slot_of("", client.name))
    yield 5
    stage.drop_will(client, "disconnected")
    stage.close(client)
    stage.connect(client)
