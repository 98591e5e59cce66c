"""Alerts: each limit, and what is no alert."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.judge.alerts import (
    DROPS,
    LOSS,
    SLOW,
    STORM,
    Alert,
    Hit,
    Limits,
    Minute,
    due_ms,
    hits_of,
    judge_message,
    judge_minute,
    judge_splits,
)
from strogoff.judge.building import Summary, world_of
from strogoff.judge.lives import BootRows
from strogoff.judge.presence import Presence
from strogoff.judge.rows import LOGICAL_BITS, Row

LIMITS = Limits(late_ms=100, slow_ms=40)
MID = ("a", 1, 7)
MINUTE = 1_200_000


class Log:
    """Rows of one node at given milliseconds. A subscriber `rx` is connected from 1 ms on."""

    def __init__(self, close_at: int = 0) -> None:
        self.rows: list[Row] = []
        self.say(1, "conn.open", client="rx", conn=1, expiry_s=60)
        self.say(1, "sess.create", client="rx", epoch=1)
        self.say(2, "sub.add", client="rx", epoch=1, filter="t", qos=1)
        self.say(3, "sub.ack", client="rx", filters=["t"], codes=["1"])
        if close_at:
            self.say(close_at, "conn.close", client="rx", conn=1)

    def say(self, ms: int, kind: str, **fields: Any) -> Row:
        seq = len(self.rows) + 1
        row = {"v": 7, "run_id": "r", "node": "a", "boot": 1, "seq": seq, "hlc": (ms << LOGICAL_BITS) + seq}
        self.rows.append({**row, "type": kind, **fields})
        return self.rows[-1]

    def publish(self, code: int = 0, targets: tuple[str, ...] = ("rx",)) -> None:
        """`tx` publishes at 10 ms, and is answered at 20 ms."""
        self.say(10, "pub.recv", mid=MID, client="tx", topic="t", qos=1, conn=2)
        self.say(10, "pub.route", mid=MID, targets=[*targets])
        if targets:
            self.say(11, "q.enq", mid=MID, client="rx", epoch=1, topic="t", qos=1)
        self.say(20, "pub.ack", mid=MID, client="tx", conn=2, packet_id=1, qos=1, code=code, right="lease")

    def send(self, ms: int, answer: int = 0) -> None:
        self.say(ms, "dlv.send", mid=MID, client="rx", conn=1, qos=1, packet_id=1)
        if answer:
            self.say(answer, "dlv.ack", mid=MID, client="rx", conn=1, packet_id=1, code=0)

    def found(self, limits: Limits = LIMITS, killed_at: int = 0) -> list[str]:
        boots = {("a", 1): BootRows(1, 1, 99, 1000 << LOGICAL_BITS, False)}
        if killed_at:
            boots["a", 2] = BootRows(1, killed_at << LOGICAL_BITS, 1, 1000 << LOGICAL_BITS, False)
        world = world_of(self.rows, Summary(boots))
        due = 20 + limits.late_ms
        of_message = [row for row in self.rows if row.get("mid") and row["hlc"] >> LOGICAL_BITS <= due]
        presence = Presence(self.rows, world)
        found = judge_message("r", MID, of_message, world, presence, limits)
        return [f"{each.alert} {each.kind}" for each in (x if isinstance(x, Alert) else x.minute for x in found)]


def test_a_message_that_waits_for_a_connected_client() -> None:
    log = Log()
    log.publish()
    assert log.found() == ["loss waits"]


def test_a_message_that_was_never_routed_is_lost() -> None:
    log = Log()
    log.publish(targets=())
    assert log.found() == ["loss stale-route"]


def test_a_node_that_writes_no_rows_of_messages_shows_no_loss() -> None:
    for level, found in (("message", ["loss stale-route"]), ("session", [])):
        log = Log()
        log.say(0, "node.start", level=level)
        log.publish(targets=())
        assert log.found() == found


def test_a_message_that_was_delivered_is_none() -> None:
    log = Log()
    log.publish()
    log.send(15, answer=18)
    assert log.found() == []


def test_a_message_that_was_delivered_too_late() -> None:
    log = Log()
    log.publish()
    log.send(121, answer=122)
    assert log.found() == ["loss waits"]


def test_a_message_that_was_refused_is_not_owed() -> None:
    log = Log()
    log.publish(code=0x97)
    assert log.found() == []


@pytest.mark.parametrize(("close_at", "found"), [(60, []), (121, ["loss waits"])])
def test_a_client_that_goes_away_meanwhile_is_not_owed_it_now(close_at: int, found: list[str]) -> None:
    log = Log(close_at)
    log.publish()
    assert log.found() == found


@pytest.mark.parametrize(("end", "found"), [(60, []), (130, ["loss waits"])])
def test_a_session_that_ends_later_had_been_owed_it(end: int, found: list[str]) -> None:
    """Whether the end was read already depends on how the log was read."""
    log = Log()
    log.publish()
    log.say(end, "sess.end", client="rx", epoch=1, reason="x")
    assert log.found() == found


@pytest.mark.parametrize(("killed_at", "found"), [(60, []), (130, ["loss waits"])])
def test_what_a_later_kill_takes_had_waited(killed_at: int, found: list[str]) -> None:
    log = Log()
    log.publish()
    assert log.found(killed_at=killed_at) == found


@pytest.mark.parametrize(("answer", "found"), [(54, []), (56, ["slow unanswered"]), (0, ["slow unanswered"])])
def test_a_client_that_answers_too_late_is_slow(answer: int, found: list[str]) -> None:
    log = Log()
    log.publish()
    log.send(15, answer)
    assert log.found() == found
    assert log.found(Limits(late_ms=100, slow_ms=0)) == []


def test_a_client_that_got_it_shortly_before_is_not_slow_yet() -> None:
    log = Log()
    log.publish()
    log.send(90)
    assert log.found() == []


def test_a_client_that_goes_away_before_its_time_is_over_is_not_slow() -> None:
    log = Log(close_at=30)
    log.publish()
    log.send(15)
    assert log.found() == []


def test_only_an_acknowledgement_says_when_a_message_is_due() -> None:
    log = Log()
    log.publish()
    assert [due_ms(row, LIMITS) for row in log.rows[-2:]] == [None, 120]
    assert due_ms({**log.rows[-1], "code": 0x80}, LIMITS) is None
    assert due_ms({**log.rows[-1], "code": 0x10}, LIMITS) == 120


def hits(ms: int, kind: str, **fields: Any) -> list[Hit]:
    row = {"run_id": "r", "node": "a", "boot": 1, "seq": 5, "hlc": ms << LOGICAL_BITS, "type": kind, **fields}
    return [*hits_of(row)]


def test_what_counts_for_a_minute() -> None:
    client, node = hits(MINUTE + 59_999, "conn.open", client="c", mountpoint="m")
    assert client.minute == Minute("r", STORM, "client", "", "m", "c", MINUTE)
    assert node.minute == Minute("r", STORM, "node", "a", "", "", MINUTE)
    (later,) = hits(MINUTE + 60_000, "q.drop", client="c", reason="queue_full")
    assert later.minute == Minute("r", DROPS, "queue_full", "a", "", "", MINUTE + 60_000)
    assert later.row == ("a", 1, 5)
    assert [each.minute.kind for each in hits(0, "q.expire", client="c")] == ["expired"]
    for kind in ("fwd.drop", "ret.refuse"):
        assert [each.minute.kind for each in hits(0, kind, reason="x")] == ["x"]
    assert hits(0, "conn.close", client="c", reason="x") == []


@pytest.mark.parametrize(
    ("alert", "kind", "limits"),
    [
        (STORM, "client", Limits(storm_client=5)),
        (STORM, "node", Limits(storm_node=5)),
        (DROPS, "queue_full", Limits(drops=5)),
    ],
)
def test_the_limit_of_a_minute(alert: str, kind: str, limits: Limits) -> None:
    minute = Minute("r", alert, kind, "a", "", "c", MINUTE)
    assert [*judge_minute(minute, 4, 1, ("a", 1, 1), limits)] == []
    (found,) = judge_minute(minute, 5, 1, ("a", 1, 1), limits)
    assert (found.alert, found.kind, found.number, found.rows) == (alert, kind, 5, (("a", 1, 1),))
    assert "5 " in found.text
    off = Limits(storm_client=0, storm_node=0, drops=0)
    assert [*judge_minute(minute, 10**6, 1, ("a", 1, 1), off)] == []


@pytest.mark.parametrize(("alert", "severity"), [(LOSS, "error"), (SLOW, "info")])
def test_one_message_is_enough(alert: str, severity: str) -> None:
    (found,) = judge_minute(Minute("r", alert, "waits", "", "", "c", MINUTE), 1, 1, ("a", 1, 1), LIMITS)
    assert (found.severity, found.subject.client) == (severity, "c")


def test_ids_tell_apart_what_differs() -> None:
    base = Minute("r", STORM, "client", "a", "m", "c", MINUTE)
    others = [
        base._replace(run_id="s"),
        base._replace(alert=SLOW),
        base._replace(kind="node"),
        base._replace(node="b"),
        base._replace(mountpoint=""),
        base._replace(client="d"),
        base._replace(begin_ms=0),
    ]
    limits = Limits(storm_node=1, storm_client=1)
    ids = [each.id for minute in (base, *others) for each in judge_minute(minute, 99, 1, ("a", 1, 1), limits)]
    assert len({*ids}) == len(others) + 1
    (again,) = judge_minute(base, 100, 2, ("a", 1, 2), limits)
    assert again.id == ids[0]


def test_a_split_is_told_once_when_it_is_detected() -> None:
    log = Log()
    detected = log.say(30, "split.detect", state="minority", incident=4, window_ms=12)
    healed = log.say(40, "split.heal", incident=4)
    world = world_of(log.rows, Summary({}))
    (found,) = judge_splits(world, [detected, healed], "r")
    assert (found.alert, found.subject.node, found.number, found.rows) == ("split", "a", 12, (("a", 1, 5),))
    assert [*judge_splits(world, [healed], "r")] == []
