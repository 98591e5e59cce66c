"""Entries of lanes."""

from __future__ import annotations

from strogoff.judge.judging import judge_message
from strogoff.judge.lanes import Entry, lane_order, queue_order
from strogoff.judge.rows import NEVER
from strogoff.judge.run import Grouped

from ..testing.log_audit.log_builder import NODE, Log

RX = ((NODE, "", "rx"), 1)


def entries(log: Log) -> list[Entry]:
    grouped = Grouped(log.rows)
    world = grouped.world()
    return [each for mid, rows in grouped.messages.items() for each in judge_message(mid, rows, world).entries]


def test_an_entry_for_each_session_that_waits_or_was_sent_to() -> None:
    log = Log()
    log.subscriber()
    mids = [log.accept() for _ in range(3)]
    for mid in mids:
        log.route(mid, "rx")
    log.ack(mids[0])
    log.ack(mids[1])
    log.send(mids[1])
    log.send(mids[2])
    log.send(mids[2], dup=True)
    log.got(mids[2])
    log.connect("rx", present=True)
    waits, unanswered, answered = entries(log)
    resumed = log.rows[-1]["hlc"]
    assert {each.key for each in (waits, unanswered, answered)} == {(RX, (NODE, 1, "tx", 1, "t/1", 1))}
    assert (waits.first_sent, waits.owed, waits.queued, waits.resumed, waits.ordered) == (
        -1,
        True,
        True,
        resumed,
        False,
    )
    assert unanswered.owed and unanswered.first_sent == unanswered.last_sent > 0 and unanswered.ordered
    assert not answered.owed and answered.first_sent < answered.last_sent and answered.resumed == NEVER


def test_what_was_sent_as_a_retained_message_has_no_place_in_the_lane() -> None:
    log = Log()
    log.subscriber()
    mid = log.accept()
    log.say("ret.deliver", client="rx", topic="t/1", mid=mid)
    log.send(mid)
    (entry,) = entries(log)
    assert entry.first_sent == -1 and entry.last_sent > 0


def test_the_newest_entry_comes_first() -> None:
    """Those of a queue that gives the newest message first before all others: then no order is judged."""

    def entry(number: int, acked: int = 0, lifo: bool = False) -> Entry:
        return Entry(RX, (NODE, 1, "tx", 1, "t", 1), (NODE, 1, number), number, acked, lifo=lifo)

    old, new, lifo = entry(1, acked=9), entry(2, acked=8), entry(0, lifo=True)
    assert lane_order([lifo, old, new]) == [lifo, new, old]
    assert queue_order([lifo, new, old]) == [old, new, lifo]
    assert queue_order([entry(1), entry(2)]) == [entry(2), entry(1)]
