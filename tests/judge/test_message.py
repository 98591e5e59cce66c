"""The life of a message, read from its rows."""

from __future__ import annotations

import random

import pytest

from strogoff.judge.message import Message
from strogoff.judge.run import Grouped

from ..testing.log_audit.log_builder import NODE, Log

RX = (NODE, "", "rx")


def read(log: Log) -> Message:
    """The first message of a log, from its rows in a random order."""
    grouped = Grouped(log.rows)
    mid, rows = next(iter(grouped.messages.items()))
    random.Random(4).shuffle(rows)
    return Message(mid, rows, grouped.world())


def test_the_steps_of_a_message() -> None:
    log = Log()
    log.subscriber()
    mid = log.whole()
    found = read(log)
    assert found.publish is not None and found.answer is not None and found.id == mid
    assert (found.publish.client, found.publish.topic, found.publish.qos) == ("tx", "t/1", 1)
    assert found.routed == set(found.queued) == set(found.safe) == set(found.received) == {RX}
    assert found.made and [each.owner for each in found.sent] == [RX] and found.given_up == set()
    assert found.publish.stamp < found.queued[RX].stamp < found.answer.stamp < found.sent[0].stamp


def test_a_refused_message_is_not_acknowledged() -> None:
    log = Log()
    log.ack(log.accept(), code=0x87)
    assert read(log).answer is None


@pytest.mark.parametrize("client", ["tx", "other"])
def test_only_an_answer_to_its_own_publisher_after_the_publish_counts(client: str) -> None:
    log = Log()
    mid = NODE, 1, 1
    log.ack(mid, client)
    assert log.accept() == mid
    if client != "tx":
        log.ack(mid, client)
    assert read(log).answer is None
    log.ack(mid)
    assert (found := read(log).answer) is not None and found.row[2] == log.rows[-1]["seq"]


def test_the_lane_of_older_logs() -> None:
    """Their rows do not number connections: they are counted."""
    log = Log()
    log.connect("tx")
    log.connect("tx", present=True)
    log.accept()
    assert (found := read(log).publish) is not None and found.lane == (NODE, 1, "tx", 2, "t/1", 1)
    log = Log()
    for _ in range(3):
        log.connect("tx", present=True)
    log.accept()
    for row in log.rows:
        row.pop("conn", None)
    assert (found := read(log).publish) is not None and found.lane == (NODE, 1, "tx", 3, "t/1", 1)


def test_a_will_is_made_by_its_node() -> None:
    log = Log()
    log.say("will.fire", client="tx", topic="will", mid=(NODE, 1, 9), mountpoint="m")
    found = read(log)
    assert found.made and found.publish is None and found.mountpoint == "m"


def test_sendings_by_session() -> None:
    log = Log()
    log.subscriber()
    mid = log.accept()
    log.send(mid)
    log.send(mid, dup=True)
    log.send(mid, "unknown")
    found = {key: len(sent) for key, sent in read(log).sendings.items()}
    assert found == {(RX, 1): 2, ((NODE, "", "unknown"), 0): 1}


def test_the_node_of_a_message_is_that_of_its_row() -> None:
    """A message of a durable session has the session's slot in its id, on all nodes that answer it."""
    log = Log()
    log.say("pub.recv", mid=("#152", 39, 4), client="tx")
    log.ack(("#152", 39, 4))
    found = read(log)
    assert found.publish is not None and found.answer is not None and found.id == ("#152", 39, 4)
    assert found.publish.node == found.answer.node == NODE


@pytest.mark.parametrize("answered", [False, True])
def test_a_client_may_publish_a_message_again(answered: bool) -> None:
    """That counts if it had no acknowledgement."""
    log = Log()
    mid = log.accept(qos=2)
    first = log.rows[-1]["hlc"]
    if answered:
        log.ack(mid)
    for _ in range(2):
        log.say("pub.recv", mid=mid, client="tx", topic="t/1", qos=2)
    found = read(log).publish
    assert found is not None
    assert (found.stamp, found.repeated) == (first, -1 if answered else log.rows[-1]["hlc"])
