"""The judges by key: each needs only its own rows and the world."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from weakref import finalize

from strogoff.judge.findings import Finding
from strogoff.judge.judging import judge_lane, judge_message, judge_queue
from strogoff.judge.lanes import Entry
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
    (waits,) = judge_lane(judge_message(mid, grouped.messages[mid], world).entries)
    assert isinstance(waits, Entry)
    (gone,) = judge_queue((OWNER, 1), [waits], -1, world)
    assert isinstance(gone, Finding) and gone.kind == "gone"
    assert [*judge_queue((OWNER, 0), [waits], -1, world)] == [waits]


def test_a_lane_of_any_length_is_judged_entry_by_entry() -> None:
    """Of a hundred thousand entries, which are made one by one, it remembers two."""
    last = 100_000

    def entries() -> Iterator[Entry]:
        alive: set[int] = set()
        for number in range(last, 0, -1):
            entry = Numbered(((NODE, "", "rx"), 1), ("n", 1, "tx", 1, "t", 1), ("n", 1, number), number, number, number)
            alive.add(id(entry))
            finalize(entry, alive.discard, id(entry))
            yield entry
            del entry
            most.append(len(alive))

    most: list[int] = []
    assert [*judge_lane(entries())] == [] and len(most) == last and max(most) <= 4


class Numbered(Entry):
    """An entry whose end can be seen."""

    __slots__ = ("__weakref__",)
