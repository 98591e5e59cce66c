"""How often one session may get a message, and which messages of groups the policy `on` may lose."""

from __future__ import annotations

import pytest

from strogoff.judge.message import POLICY, Message
from strogoff.judge.run import Grouped
from strogoff.judge.shares import passed_on_without_lease, times_owed

from ..testing.log_audit.log_builder import NODE, Log, two_nodes
from .anomalies.found import kinds

RX = (NODE, "", "rx")
G, H = "$share/g/t/#", "$share/h/t/+"


def owed(log: Log) -> int:
    grouped = Grouped(log.rows)
    world = grouped.world()
    ((mid, rows),) = grouped.messages.items()
    message = Message(mid, rows, world)
    return times_owed(message, RX, message.sent[0], world)


def passed_on(log: Log) -> bool:
    grouped = Grouped(log.rows)
    ((mid, rows),) = grouped.messages.items()
    world = grouped.world()
    message = Message(mid, rows, world)
    assert message.publish is not None and message.answer is not None
    return passed_on_without_lease(message, message.publish, message.answer, world)


def log_of(*entries: str, copies: str = "") -> tuple[Log, tuple[str, int, int]]:
    """A message that enters the queue of rx for each of these groups, "" for none, and is sent."""
    log = Log()
    if copies:
        log.say("config.change", key="queue_replicas", new=copies)
    log.subscriber(expiry_s=60)
    mid = log.accept(qos=2)
    for each in entries:
        log.say("q.enq", mid=mid, client="rx", group=each or None)
    log.send(mid)
    return log, mid


@pytest.mark.parametrize(
    ("entries", "times"), [((), 1), (("",), 1), (("", ""), 1), ((G,), 1), ((G, G), 1), ((G, H), 2), (("", G, H), 3)]
)
@pytest.mark.parametrize("copies", ["", "1", "2"])
def test_once_for_each_group_and_once_outside(entries: tuple[str, ...], times: int, copies: str) -> None:
    """The same process gives it once, however often the message enters."""
    log, _ = log_of(*entries, copies=copies)
    assert owed(log) == times


@pytest.mark.parametrize(("copies", "times"), [("", 2), ("2", 2), ("1", 1)])
@pytest.mark.parametrize("group", [G, ""])
def test_another_process_may_choose_a_member_again(group: str, copies: str, times: int) -> None:
    """With copies of slots, and only for a group."""
    log, mid = log_of(group, copies=copies)
    log.boot()
    log.say("q.enq", mid=mid, client="rx", group=group or None)
    assert owed(log) == (times if group else 1)


@pytest.mark.parametrize(("copies", "times"), [("2", 2), ("1", 1)])
@pytest.mark.parametrize("group", [G, ""])
def test_an_entry_that_the_log_lacks_counts(group: str, copies: str, times: int) -> None:
    """What was sent had an entry, of which a kill may have taken the row."""
    log, mid = log_of(copies=copies)
    log.say("q.enq", mid=mid, client="rx", group=group or None)
    assert owed(log) == (times if group else 1)


@pytest.mark.parametrize("alone", ["accepts", "passes on", "later", "no part", ""])
@pytest.mark.parametrize("policy", ["on", "majority"])
def test_a_node_without_a_lease_passes_a_message_of_a_group_on(alone: str, policy: str) -> None:
    """One with the policy `on` answers at once. So no loss, and no late disk, is found behind it."""
    a, b = two_nodes()
    for log in (a, b):
        log.say("config.change", key=POLICY, new=policy)
    b.subscriber(filter=G, expiry_s=60)
    mid = a.accept(qos=2)
    who = {"accepts": a, "passes on": b, "no part": b}.get(alone)
    if alone != "no part":
        b.say("fwd.recv", mid=mid, source="a", topic="t/1")
    if who is not None:
        who.say("split.detect", nodes=[], incident=1, state="minority")
        who.say("split.change", nodes=[], incident=1, state="whole")
    a.ack(mid)
    if alone == "later":
        b.say("split.detect", nodes=[], incident=1, state="minority")
    a.rows += b.rows
    excused = policy == "on" and alone in ("accepts", "passes on")
    assert passed_on(a) is excused
    assert (("A1", "stale-route") in kinds(a)) is not excused
