"""The judges by key: each needs only its own rows and the world."""

from __future__ import annotations

import pickle

from strogoff.judge.judging import judge_lane, judge_message, judge_queue
from strogoff.judge.run import Grouped

from ..testing.log_audit.log_builder import NODE, Log

OWNER = (NODE, "", "rx")


def test_a_message_is_judged_in_another_process() -> None:
    """With its own rows, as lists from files, and a copy of the world."""
    log = Log()
    log.subscriber()
    mid = log.whole()
    grouped = Grouped([{**row, "mid": list(row["mid"])} if "mid" in row else row for row in log.rows])
    world = pickle.loads(pickle.dumps(grouped.world()))
    judged = judge_message(mid, grouped.messages[mid], world)
    assert (judged.published, judged.acked, judged.delivered, judged.findings) == (True, True, 1, [])
    assert list(judged.queued) == [(OWNER, 1)]
    assert pickle.loads(pickle.dumps(judged.entries)) == judged.entries


def test_a_queue_is_judged_by_its_session() -> None:
    """An unknown session has no depth."""
    log = Log()
    log.subscriber()
    mid = log.accept()
    log.route(mid, "rx")
    log.ack(mid)
    log.say("q.depth", client="rx", count=0)
    grouped = Grouped(log.rows)
    world = grouped.world()
    _, waiting = judge_lane(judge_message(mid, grouped.messages[mid], world).entries)
    assert len(waiting) == 1
    assert [each.kind for each in judge_queue((OWNER, 1), waiting, -1, world)] == ["gone"]
    assert judge_queue((OWNER, 0), waiting, -1, world) == []
