"""Planted cases of logs, disks, splits, policies and leases: A0, A1, A19 to A21, A23, A24."""

from __future__ import annotations

from typing import Any

from ..findings import Subject
from ..lives import RENUMBERED
from ..rows import Row
from .catalogue import Catalogue
from .clients import Client
from .scene import Actor, Node
from .stage import Stage

CASES = Catalogue()
FLAG = "allow_publish_during_netsplit"


@CASES.anomaly
def hole(stage: Stage) -> Actor:
    """A0: a row is missing."""
    tx, rx = stage.pair()
    stage.delivered(tx, rx)
    missing = stage.scene.written.pop(-2)
    detail = f"boot {missing['boot']}, row {missing['seq']}"
    stage.expect("A0", "gap", Subject(tx.node.name, detail=detail))
    yield 0


@CASES.anomaly
def end_of_a_boot_missing(stage: Stage) -> Actor:
    """A0: the last rows of a boot are missing. The next start knows of them, and of no loss of power."""
    node = stage.node()
    yield 5
    stage.expect("A0", "gap", Subject(node.name, detail=f"boot {node.boot}, row {node.seq + 1}"))
    stage.say(node, "node.loaded", sessions=0)
    stage.scene.written.clear()
    yield from stage.kill(node)


@CASES.anomaly
def boot_missing(stage: Stage) -> Actor:
    """A0: all rows of a boot are missing. It has ended with another row than the boot before it."""
    node = stage.node()
    stage.expect("A0", "gap", Subject(node.name, detail=f"boot {node.boot}, row {node.seq + 1}"))
    yield from stage.kill(node)
    stage.say(node, "node.loaded", sessions=0)
    stage.scene.written.clear()
    yield from stage.kill(node)


def _start_after(stage: Stage, row: int) -> None:
    """The node that has just started knows with which row the boot before ended."""
    stage.scene.written[-1] = {**stage.scene.written[-1], "known_seq": row, "tail_lost": False}


@CASES.near_miss
def another_disk(stage: Stage) -> Actor:
    """The cluster gives another number to a node with an empty disk. The log has files of the first disk, too."""
    node = stage.node()
    yield from stage.kill(node)
    stage.scene.stop(node)
    node.boot += RENUMBERED
    stage.scene.boot(node)
    _start_after(stage, 99)
    yield 0


@CASES.near_miss
def log_from_the_second_boot_on(stage: Stage) -> Actor:
    """The log of the first boot was deleted with its day."""
    stage.node()
    _start_after(stage, 99)
    yield 0


@CASES.anomaly
def rows_given_up(stage: Stage) -> Actor:
    """A0: the node itself has dropped rows, and says so."""
    node = stage.node()
    first = node.seq + 1
    node.seq += 9
    stage.say(node, "log.gap", first=first, last=node.seq + 1, rows=10, reason="overflow")
    stage.expect("A0", "given-up", Subject(node.name, detail=f"boot {node.boot}, row {first}"))
    yield 0


@CASES.anomaly
def lost_with_the_tail(stage: Stage) -> Actor:
    """A1, not sure: the rows that may say that the message was safe are lost."""
    tx, rx = stage.pair()
    mid = stage.published(tx, rx, safe=False)
    stage.expect("A1", "queue", stage.session(rx, mid), sure=False)
    yield from stage.power_loss(tx.node)


@CASES.near_miss
def tail_without_a_doubt(stage: Stage) -> Actor:
    """Rows are lost, and nothing rests on them."""
    tx, rx = stage.pair()
    stage.delivered(tx, rx)
    yield from stage.power_loss(tx.node)


def _split(stage: Stage, kind: str, node: Node, other: Node, state: str) -> Row:
    begin = stage.scene.now - 20
    if kind == "split.detect":
        stage.expect("A20", state, Subject(node.name, detail="incident 1"), "metric")
    return stage.say(node, kind, nodes=[other.name], incident=1, state=state, begin_ms=begin, window_ms=20)


def _forwarded(stage: Stage, tx: Client, rx: Client, mid: Any) -> None:
    stage.forward(mid, tx.node, rx.node)
    stage.route(mid, rx.node, rx)
    stage.enqueue(mid, rx, stage.topic)
    stage.forwarded(mid, tx.node, rx.node)
    stage.got(mid, rx, stage.send(mid, rx))


def _alone(stage: Stage, arrives: bool, flag: str) -> Actor:
    """A node without a lease accepts a message for the other side, which gets it after the heal, or not."""
    tx, rx = stage.far_pair()
    stage.say(tx.node, "config.change", key=FLAG, new=flag)
    detected = _split(stage, "split.detect", tx.node, rx.node, "minority")
    stage.say(tx.node, "lease.lose", view=1)
    yield 20
    mid = stage.accept(tx, stage.topic)
    stage.route(mid, tx.node)
    stage.ack(mid, tx, right="policy")
    stage.expect("A21", "policy", Subject(tx.node.name, detail=f"since {detected['hlc']}"), "info")
    if flag != "on":
        stage.expect("A19", "accepted", Subject(tx.node.name, "", tx.name, message=mid))
    yield 20
    if arrives:
        _forwarded(stage, tx, rx, mid)
    else:
        stage.expect_of("A1", "stale-route", rx, mid)
    stage.say(tx.node, "lease.get", view=2)
    _split(stage, "split.heal", tx.node, rx.node, "minority")
    yield 6_000  # it may stop after that: it has had time to send the message


@CASES.near_miss
def late_after_the_heal(stage: Stage) -> Actor:
    """Policy `on`: the other side gets it late."""
    yield from _alone(stage, True, "on")


@CASES.anomaly
def lost_in_a_split(stage: Stage) -> Actor:
    """A1: policy `on`, and a durable session from before the split never gets it."""
    yield from _alone(stage, False, "on")


@CASES.anomaly
def accepted_against_the_policy(stage: Stage) -> Actor:
    """A19: the policy is `majority`, and a node without a lease acknowledges."""
    yield from _alone(stage, True, "majority")


@CASES.near_miss
def clean_session_out_of_the_view(stage: Stage) -> Actor:
    """A clean session has ended for each node out of whose view its node is."""
    tx, rx = stage.far_pair(0)
    stage.say(tx.node, "mem.down", target=rx.node.name, view=2)
    stage.published(tx)
    yield 5
    stage.say(tx.node, "mem.up", target=rx.node.name, view=3)


@CASES.anomaly
def durable_session_out_of_the_view(stage: Stage) -> Actor:
    """A1: a durable session is still owed everything."""
    tx, rx = stage.far_pair()
    stage.say(tx.node, "mem.down", target=rx.node.name, view=2)
    stage.expect_of("A1", "stale-route", rx, stage.published(tx))
    yield 5
    stage.say(tx.node, "mem.up", target=rx.node.name, view=3)


@CASES.anomaly
def acknowledged_without_the_lease(stage: Stage) -> Actor:
    """A21: the node had said that it lost its lease, and acknowledged by the right of one."""
    tx, rx = stage.pair()
    stage.say(tx.node, "lease.lose", view=1)
    mid = stage.delivered(tx, rx)
    stage.expect("A21", "lease", Subject(tx.node.name, "", tx.name, message=mid))
    yield 5
    stage.say(tx.node, "lease.get", view=1)
    stage.delivered(tx, rx)


def _refused(stage: Stage, in_split: bool) -> Actor:
    tx, rx = stage.far_pair()
    stage.say(tx.node, "lease.get", view=1)
    if in_split:
        _split(stage, "split.detect", tx.node, rx.node, "majority")
    state = "majority" if in_split else "whole"
    denied = {"client": tx.name, "operation": "publish", "topic": stage.topic, "reason": "netsplit", "state": state}
    row = stage.say(tx.node, "policy.deny", **denied)
    if not in_split:
        detail = f"boot {row['boot']}, row {row['seq']}"
        stage.expect("A19", "refused", Subject(tx.node.name, "", tx.name, detail=detail), "error")
    yield 5
    if in_split:
        _split(stage, "split.heal", tx.node, rx.node, "majority")


@CASES.anomaly
def refused_without_a_split(stage: Stage) -> Actor:
    """A19: the node had a lease and was in no incident."""
    yield from _refused(stage, False)


@CASES.near_miss
def refused_in_a_split(stage: Stage) -> Actor:
    """Policy `off` refuses while a member is missing."""
    yield from _refused(stage, True)


def _in_memory(stage: Stage, copied: bool) -> None:
    tx, rx = stage.pair()
    mid = stage.accept(tx, stage.topic)
    stage.route(mid, tx.node, rx)
    stage.enqueue(mid, rx, stage.topic, safe=False)
    stage.of_session(rx, "q.durable", mid=mid, lsn=1, durability="os", copied=copied)
    stage.ack(mid, tx)
    stage.got(mid, rx, stage.send(mid, rx))
    if not copied:
        stage.expect("A23", "os", Subject(tx.node.name, detail=f"boot {tx.node.boot}"), "metric")


@CASES.anomaly
def only_in_memory(stage: Stage) -> Actor:
    """A23: the durability is os, and no other node has a copy."""
    _in_memory(stage, False)
    yield 0


@CASES.near_miss
def in_the_memory_of_two_machines(stage: Stage) -> Actor:
    """The durability is os, and another node has a copy."""
    _in_memory(stage, True)
    yield 0


@CASES.anomaly
def damaged_records(stage: Stage) -> Actor:
    """A24: after a restart a node meets records that it cannot read, twice."""
    tx, rx = stage.pair()
    stage.delivered(tx, rx)
    yield from stage.kill(tx.node)
    for _ in range(2):
        stage.say(tx.node, "store.state", state="damaged", detail="checksum mismatch")
    stage.expect("A24", "damaged", Subject(tx.node.name, detail="boot 2"), "error")


@CASES.near_miss
def full_disk(stage: Stage) -> Actor:
    """A store that is full acknowledges nothing, and loses nothing."""
    tx, rx = stage.pair()
    stage.say(tx.node, "store.state", state="full", detail="no space")
    yield 100
    stage.say(tx.node, "store.state", state="serving")
    stage.delivered(tx, rx)
