"""A14: wills at one node. More cases are in tests/testing/log_audit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strogoff.cluster.identity import slot_of
from strogoff.judge.run import judge

from ...testing.log_audit.log_builder import NODE, Log
from .found import findings, kinds, proof


def mortal(expiry_s: int = 0, delay_s: int = 0) -> Log:
    """A client with a will has connected, and has gone without DISCONNECT."""
    log = Log()
    log.connect("tx", will=True, expiry_s=expiry_s, delay_s=delay_s)
    log.say("conn.close", client="tx", reason="peer_closed")
    return log


def publish(log: Log, number: int = 50) -> None:
    log.say("will.fire", client="tx", topic="will", mid=(log.node, log._boot, number))


def drop(log: Log) -> None:
    log.say("will.cancel", client="tx", topic="will", reason="resumed")


def of_wills(log: Log) -> list[str]:
    """The kinds of the findings about wills."""
    return [kind for anomaly, kind in kinds(log) if anomaly == "A14"]


def test_two_wills_that_are_lost_are_two_findings() -> None:
    """Each names the row of the will and the end of its connection."""
    log = Log()
    for _ in range(2):
        log.connect("tx", will=True)
        log.say("conn.close", client="tx", reason="peer_closed")
        log.say("sess.end", client="tx", reason="disconnected")
    log.pass_s(20)
    found = findings(log)
    assert [each.kind for each in found] == ["lost", "lost"] and found[0].id != found[1].id
    assert proof(found[0], log) == ["will.arm", "conn.close"]


@pytest.mark.parametrize("over", [publish, drop])
def test_a_will_that_is_published_or_dropped_is_not_lost(over: Callable[[Log], None]) -> None:
    log = mortal()
    over(log)
    log.pass_s(20)
    assert of_wills(log) == []


@pytest.mark.parametrize(
    ("expiry_s", "delay_s", "after_s", "lost"),
    [
        (0, 0, 11, False),
        (0, 0, 13, True),
        (0, 30, 13, True),
        (60, 30, 41, False),
        (60, 30, 43, True),
        (9, 30, 22, True),
    ],
)
def test_a_will_waits_for_its_delay(expiry_s: int, delay_s: int, after_s: int, lost: bool) -> None:
    """Its session ends before that, perhaps. Then the client may come back for a while."""
    log = mortal(expiry_s, delay_s)
    log.pass_s(after_s)
    assert of_wills(log) == ["lost"] * lost


def test_a_will_is_not_lost_before_its_connection_ends() -> None:
    log = Log()
    log.connect("tx", will=True)
    log.pass_s(60)
    assert of_wills(log) == []


def test_a_will_is_lost_when_its_own_connection_has_ended() -> None:
    """The next one has begun before that, and lasts."""
    log = Log()
    log.connect("tx", will=True)
    armed, former = log.rows[-3], log.conn("tx")
    log.connect("tx", will=True)
    log.say("conn.close", client="tx", conn=former, reason="session_taken_over")
    log.pass_s(20)
    assert [each.rows[0][2] for each in findings(log) if each.kind == "lost"] == [armed["seq"]]


@pytest.mark.parametrize(("after_s", "lost"), [(11, False), (13, True)])
def test_a_kill_ends_the_connection(after_s: int, lost: bool) -> None:
    """The next boot publishes the will."""
    log = Log()
    log.connect("tx", will=True, expiry_s=60)
    log.pass_s(60)
    log.boot()
    log.pass_s(after_s)
    assert of_wills(log) == ["lost"] * lost
    publish(log)
    assert of_wills(log) == []


@pytest.mark.parametrize("killed", [True, False])
def test_a_will_without_connack_is_not_lost(killed: bool) -> None:
    """It was perhaps not on the disk. It is published once at most, as every other."""
    log = Log()
    log.say("will.arm", client="tx", topic="will")
    if killed:
        log.boot()
    log.pass_s(20)
    assert of_wills(log) == []
    publish(log)
    assert of_wills(log) == []
    publish(log, 51)
    assert of_wills(log) == ["dup"]


def test_wills_of_older_logs_are_not_judged() -> None:
    log = mortal()
    publish(log)
    publish(log, 51)
    assert of_wills(log) == ["dup"]
    rows = [{name: value for name, value in row.items() if name != "will"} for row in log.rows]
    assert judge(rows).findings == []


def test_a_will_that_is_published_again() -> None:
    """Beside the will of the next connection, which is another one."""
    log = mortal()
    former = log.will("tx")
    publish(log)
    log.connect("tx", present=True, will=True)
    log.say("conn.close", client="tx", reason="peer_closed")
    publish(log, 51)
    assert of_wills(log) == []
    log.say("will.fire", client="tx", topic="will", mid=(NODE, 1, 52), will=former)
    (found,) = findings(log)
    assert (found.kind, proof(found, log)) == ("dup", ["will.fire", "will.fire"])


def test_a_will_that_was_dropped_is_not_published() -> None:
    """It may be dropped when it was published, or once more."""
    log = mortal()
    drop(log)
    drop(log)
    assert of_wills(log) == []
    publish(log)
    assert of_wills(log) == ["spurious"]


@pytest.mark.parametrize(("how", "found"), [("open", ["spurious"]), ("closed", ["spurious"]), ("soon", []), ("", [])])
def test_a_will_is_published_when_its_connection_ends(how: str, found: list[str]) -> None:
    """The row of its end may come behind that of the will."""
    log = Log()
    log.connect("tx", will=True)
    if how == "":
        log.say("conn.close", client="tx", reason="peer_closed")
    publish(log)
    if how != "soon":
        log.pass_s(2)
    if how in ("closed", "soon"):
        log.say("conn.close", client="tx", reason="peer_closed")
    assert of_wills(log) == found


@pytest.mark.parametrize("inside", [True, False])
def test_a_will_that_nobody_has_is_not_published(inside: bool) -> None:
    """A log that begins later may lack its row."""
    log = Log()
    log.boot()
    log.say("will.fire", client="tx", topic="will", mid=(NODE, 2, 50), will=f"{NODE}/7")
    if not inside:
        log.rows[:] = [row for row in log.rows if row["boot"] > 1]
    assert of_wills(log) == ["spurious"] * inside


@pytest.mark.parametrize("over", [publish, drop])
@pytest.mark.parametrize("how", ["", "safe", "no kill"])
def test_a_kill_may_undo_the_end_of_a_will(how: str, over: Callable[[Log], None]) -> None:
    """The next boot publishes it, and only once. A will that was safe in a queue stays published."""
    log = mortal()
    over(log)
    if how == "safe":
        log.say("q.durable", mid=(NODE, 1, 50), client="watch")
    if how != "no kill":
        log.boot()
    publish(log, 51)
    final = how == "no kill" or (how == "safe" and over is publish)
    assert of_wills(log) == ["dup" if over is publish else "spurious"] * final
    publish(log, 52)
    assert of_wills(log)[-1] == "dup"


@pytest.mark.parametrize("when", ["before", "after", ""])
@pytest.mark.parametrize("how", ["joins", "given up", "slot"])
def test_a_will_goes_with_its_disk(how: str, when: str) -> None:
    """The node joins with an empty disk, the cluster gives its disk up, or that with the last copy of the slot."""
    log = Log()
    log.boot()

    def lose() -> None:
        if how == "joins":
            log.say("node.join", old="cluster-of-it")
        else:
            slot = slot_of("", "tx")
            slots = "300" if how == "given up" else str(slot)
            log.say("slot.lost", target=NODE if how == "given up" else "b", count=1, slots=[slots], view=2)

    if when == "before":
        lose()
        log.boot()
    log.connect("tx", will=True)
    if when == "after":
        lose()
    log.say("conn.close", client="tx", reason="peer_closed")
    log.pass_s(20)
    assert of_wills(log) == ["lost"] * (when != "after")


def test_a_slot_that_is_lost_takes_no_wills_of_other_slots_along() -> None:
    log = mortal()
    log.say("slot.lost", target="b", count=1, slots=[str(slot_of("", "tx") + 1)], view=2)
    log.pass_s(20)
    assert of_wills(log) == ["lost"]


@pytest.mark.parametrize(
    ("acts", "found"),
    [
        ("get close 20", ["lost"]),
        ("get lose close 20", []),
        ("get close 2 lose 20", []),
        ("get lose close 20 get 2", []),
        ("get lose close 20 get 20", ["lost"]),
        ("minority close 20", []),
        ("minority close 20 heal 1", ["lost"]),
    ],
)
def test_a_will_waits_for_a_lease(acts: str, found: list[str]) -> None:
    log = Log()
    log.connect("tx", will=True)
    for each in acts.split():
        if each in ("get", "lose"):
            log.say(f"lease.{each}", view=1)
        elif each == "minority":
            log.say("split.detect", nodes=["other"], state=each)
        elif each == "heal":
            log.say("split.heal", nodes=["other"], state="minority")
        elif each == "close":
            log.say("conn.close", client="tx", reason="peer_closed")
        else:
            log.pass_s(int(each))
    assert of_wills(log) == found


@pytest.mark.parametrize(("when", "kind", "sure"), [(0, "dup", False), (1, "dup", True), (1, "lost", False)])
def test_a_slot_that_may_have_lost_changes_may_have_lost_a_will(when: int, kind: str, sure: bool) -> None:
    """A will that is published twice was not lost later."""
    log = mortal()
    if kind == "dup":
        publish(log)
    slots = {"count": 256, "slots": ["0-255"], "nodes": ["b"], "reason": "power_loss", "view": 3}
    if when == 0:
        log.say("slot.loss_possible", target="b", **slots)
    if kind == "dup":
        publish(log, 51)
    if when == 1:
        log.say("slot.loss_possible", target="b", **slots)
    log.pass_s(20)
    assert [(each.kind, each.sure) for each in findings(log)] == [(kind, sure)]


@pytest.mark.parametrize("tail", [True, False])
@pytest.mark.parametrize("kind", ["dup", "lost"])
def test_rows_that_a_loss_of_power_took_may_have_said_what_became_of_a_will(kind: str, tail: bool) -> None:
    log = mortal()
    if kind == "dup":
        publish(log)
        publish(log, 51)
    log.boot()
    log.rows[-1]["tail_lost"] = tail
    log.pass_s(20)
    assert [(each.kind, each.sure) for each in findings(log) if each.anomaly == "A14"] == [(kind, not tail)]
