"""Planted cases of what a loss of power takes, and of what another node goes on with: A1, A5, A13, A14, A18."""

from __future__ import annotations

from ...cluster.identity import slot_of
from ..findings import Subject
from .catalogue import Catalogue
from .clients import Client
from .scene import Actor, Node
from .stage import Stage

CASES = Catalogue()


def _pair(stage: Stage, durability: str) -> tuple[Client, Client]:
    """A publisher and a subscriber at a new node with this durability."""
    tx, rx = stage.pair()
    stage.say(tx.node, "config.change", key="message_store.durability", new=durability)
    return tx, rx


@CASES.anomaly
def subscription_lost_with_the_power(stage: Stage) -> Actor:
    """A1, not sure: without fsync the loss of power took the subscription."""
    tx, rx = _pair(stage, "os")
    yield from stage.power_loss(tx.node)
    mid = stage.published(tx)
    stage.expect("A1", "stale-route", stage.session(rx, mid), sure=False)


@CASES.anomaly
def subscription_lost_in_spite_of_fsync(stage: Stage) -> Actor:
    """A1: with fsync a loss of power takes no subscription."""
    tx, rx = _pair(stage, "sync")
    yield from stage.power_loss(tx.node)
    stage.expect_of("A1", "stale-route", rx, stage.published(tx))


@CASES.anomaly
def unsubscribe_lost_with_the_power(stage: Stage) -> Actor:
    """A3 and A18, not sure: the subscription is there again, because the loss of power took its end."""
    tx, rx = _pair(stage, "os")
    stage.unsubscribe(rx, stage.topic)
    yield from stage.power_loss(tx.node)
    mid = stage.delivered(tx, rx)
    stage.expect("A3", "no subscription", stage.session(rx, mid), sure=False)
    stage.expect("A18", "delivered", stage.session(rx, mid), "error", sure=False)


def _twice(stage: Stage, durability: str, sure: bool) -> Actor:
    tx, rx = _pair(stage, durability)
    mid = stage.published(tx, rx, qos=2)
    stage.send(mid, rx, 2)
    yield from stage.power_loss(tx.node)
    stage.connect(rx, present=True)
    stage.got(mid, rx, stage.send(mid, rx, 2), 2)
    stage.expect("A5", "sent twice", stage.session(rx, mid), sure=sure)


@CASES.anomaly
def packet_id_lost_with_the_power(stage: Stage) -> Actor:
    """A5, not sure: the packet id of a message with QoS 2 was in the memory of the machine."""
    yield from _twice(stage, "os", False)


@CASES.anomaly
def packet_id_lost_in_spite_of_fsync(stage: Stage) -> Actor:
    """A5: with fsync a loss of power takes no packet id."""
    yield from _twice(stage, "sync", True)


@CASES.near_miss
def end_of_a_session_lost_with_the_power(stage: Stage) -> Actor:
    """A session ended, and is there again after a loss of power without fsync, long afterwards."""
    node = stage.node()
    client = stage.client(node)
    stage.say(node, "config.change", key="message_store.durability", new="os")
    stage.close(client)
    stage.of_session(client, "sess.end", reason="disconnected")
    yield 9000
    stage.say(node, "node.stats", connects=1, publishes=0, deliveries=0, drops={})
    yield from stage.power_loss(node)
    stage.connect(client, present=True)


def _from_two_nodes(stage: Stage, group: bool, again: bool = True) -> None:
    """A subscriber gets a message with QoS 2 from two nodes, under two packet ids. `again`: the publisher sent it to
    the second node, too, where it entered the queue once more. Without `group` or `again` that is a finding."""
    tx, rx = stage.pair("$share/g/" + stage.topic if group else "")
    mid = stage.accept(tx, stage.topic, 2)

    def enters(node: Node) -> None:
        stage.route(mid, node, rx)
        of_group = {"group": f"$share/g/{stage.topic}"} if group else {}
        stage.of_session(rx, "q.enq", mid=mid, topic=stage.topic, qos=2, **of_group)
        stage.safe(mid, rx, 2)

    enters(tx.node)
    stage.ack(mid, tx, 2)
    stage.got(mid, rx, stage.send(mid, rx, 2), 2)
    stage.close(rx)
    subject = stage.session(rx, mid)
    rx.node = stage.node()
    stage.say(rx.node, "slot.arrive", slot=slot_of("", rx.name))
    stage.connect(rx, present=True)
    if again:
        enters(rx.node)
    stage.got(mid, rx, stage.send(mid, rx, 2), 2)
    if not (group and again):
        stage.expect("A5", "sent twice", Subject(mid[0], "", rx.name, subject.session, mid))


@CASES.near_miss
def group_message_from_two_nodes(stage: Stage) -> Actor:
    """The next primary does not know which member of a group had the message, and chooses the same one."""
    _from_two_nodes(stage, True)
    yield 0


@CASES.anomaly
def group_message_sent_by_two_nodes(stage: Stage) -> Actor:
    """A5: the next primary has the message in the queue that it took over, and sends it under another packet id."""
    _from_two_nodes(stage, True, again=False)
    yield 0


@CASES.anomaly
def message_from_two_nodes(stage: Stage) -> Actor:
    """A5: the same without a group."""
    _from_two_nodes(stage, False)
    yield 0


@CASES.near_miss
def will_safe_at_another_node_alone(stage: Stage) -> Actor:
    """A kill undid the record that the will was published. It was safe in a queue, but at another node."""
    client = stage.client(stage.node(), expiry_s=0, will=stage.topic)
    other = stage.client(stage.node())
    stage.enqueue(stage.fire(client, stage.topic), other, stage.topic)
    yield from stage.kill(client.node)
    stage.fire(client, stage.topic)


@CASES.anomaly
def will_safe_at_its_own_node(stage: Stage) -> Actor:
    """A14: published once more, although the first one was safe with the record in one commit."""
    client = stage.client(stage.node(), expiry_s=0, will=stage.topic)
    other = stage.client(client.node, "ry")
    stage.enqueue(stage.fire(client, stage.topic), other, stage.topic)
    yield from stage.kill(client.node)
    stage.fire(client, stage.topic)
    stage.expect("A14", "dup", stage.place(client, stage.scene.written[-1]))


@CASES.near_miss
def expired_while_its_slot_arrives(stage: Stage) -> Actor:
    """The next primary ends an expired session before it says that the slot has arrived. Then a new one begins."""
    client = stage.client(stage.node())
    stage.close(client)
    client.node = stage.node()
    yield 20
    for kind, reason in (("sess.expire", {}), ("sess.end", {"reason": "expired"})):
        stage.of_session(client, kind, **reason)
    stage.say(client.node, "slot.arrive", slot=slot_of("", client.name))
    yield 20
    stage.connect(client)


def _ended_alone(stage: Stage, leased: bool) -> Client:
    """A node ends a session with a will. Then another node takes the slot over, and publishes the will."""
    client = stage.client(stage.node(), expiry_s=0, will=stage.topic)
    stage.say(client.node, "lease.get", view=1)
    if not leased:
        stage.say(client.node, "lease.lose", view=1)
    stage.close(client, "gateway_lost")
    client.node = stage.node()
    stage.say(client.node, "slot.arrive", slot=slot_of("", client.name))
    return client


@CASES.near_miss
def ended_by_a_node_without_a_lease(stage: Stage) -> Actor:
    """It had no lease: the next primary of the slot knows nothing of the end, and goes on with session and will."""
    client = _ended_alone(stage, False)
    yield 20
    stage.fire(client, stage.topic)
    yield 9000
    stage.of_session(client, "sess.end", reason="disconnected")


@CASES.anomaly
def will_left_by_a_node_with_a_lease(stage: Stage) -> Actor:
    """A14: it had a lease, and another node has nothing of the session that it ended."""
    client = _ended_alone(stage, True)
    row = next(each for each in stage.scene.written if each["type"] == "conn.close" and each["client"] == client.name)
    detail = f"{row['node']}, boot {row['boot']}, row {row['seq']}"
    stage.expect("A14", "lost", Subject(row["node"], "", client.name, detail=detail))
    yield 15_000
    stage.say(client.node, "node.stats", connects=1, publishes=0, deliveries=0, drops={})


@CASES.near_miss
def slot_lost_before_connack(stage: Stage) -> Actor:
    """A client has no CONNACK yet when the slot of its session goes to another node: nobody has its will."""
    client = stage.client(stage.node(), expiry_s=0)
    stage.close(client)
    stage.arm(client, stage.topic)
    stage.say(client.node, "slot.taken", slot=slot_of("", client.name), target="n2")
    yield 20
    stage.connect(client)
    yield 9000
    stage.close(client)


@CASES.near_miss
def published_by_the_next_node_without_connack(stage: Stage) -> Actor:
    """A client has no CONNACK yet when its node dies. The copy of its slot has session and will: it publishes that."""
    client = stage.client(stage.node(), expiry_s=0)
    stage.close(client)
    stage.arm(client, stage.topic)
    yield from stage.kill(client.node)
    client.node = stage.node()
    stage.say(client.node, "slot.arrive", slot=slot_of("", client.name))
    yield 20
    stage.fire(client, stage.topic)
    yield 9000
    stage.connect(client)


@CASES.near_miss
def two_sessions_in_a_split(stage: Stage) -> Actor:
    """Two nodes had a session of one client. The slot goes to a third one, where the newer of them ends."""
    tx, rx = stage.far_pair(0)
    former = rx.node
    stage.arm(rx, "w")
    rx.node = stage.node()
    stage.connect(rx, will="w")
    stage.subscribe(rx, stage.topic)
    third = stage.node()
    stage.say(third, "slot.arrive", slot=slot_of("", rx.name))
    yield 20
    assert former is not rx.node
    rx.node = third
    stage.drop_will(rx, "resumed")
    stage.of_session(rx, "sess.end", reason="clean_start")
    stage.published(tx)


@CASES.near_miss
def accepted_before_the_first_lease(stage: Stage) -> Actor:
    """Policy `on`: a node that has just started, perhaps with an empty disk, does not know the subscription."""
    tx, rx = stage.far_pair()
    stage.say(tx.node, "lease.get", view=1)
    yield from stage.kill(tx.node)
    stage.connect(tx)
    stage.say(tx.node, "config.change", key="allow_publish_during_netsplit", new="on")
    mid = stage.accept(tx, stage.topic)
    stage.ack(mid, tx, right="policy")
    stage.expect("A21", "policy", Subject(tx.node.name, detail="since 0"), "info")
    assert rx.durable


@CASES.near_miss
def newest_first_in_a_joined_node(stage: Stage) -> Actor:
    """A node that joined the run while it ran has said so with its settings: its queues give the newest first."""
    tx, rx = stage.pair()
    stage.say(tx.node, "node.join", old="own", settings=["queue_type=lifo"])
    first, second = stage.published(tx, rx), stage.published(tx, rx)
    for mid in (second, first):
        stage.got(mid, rx, stage.send(mid, rx))
    yield 0
