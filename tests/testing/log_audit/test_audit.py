"""The audit: a clean log is valid, and each anomaly that is planted in one is found, alone."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from strogoff.testing.log_audit.audit import audit

from .log_builder import NODE, Log


def clean() -> Log:
    """A log in which all is well: QoS 0, 1 and 2, a resend, a resumption, a will, an end."""
    log = Log()
    log.subscriber("rx")
    log.connect("tx", will=True)
    log.whole()
    log.whole(qos=2)
    quick = log.accept(qos=0)
    log.say("pub.route", mid=quick, targets=["rx"])
    log.say("dlv.send", mid=quick, client="rx", qos=0)
    again = log.accept()
    log.route(again, "rx")
    log.send(again, packet_id=9)
    log.ack(again)
    log.say("conn.close", client="rx", reason="closed")
    log.connect("rx", present=True)
    log.send(again, packet_id=9, dup=True)
    log.got(again, packet_id=9)
    log.say("conn.close", client="tx", reason="closed")
    will = (NODE, 1, 999)
    log.say("will.fire", client="tx", topic="will", mid=will)
    log.say("sess.end", client="tx", reason="disconnected")
    log.send(log.accept(client="other"), packet_id=10)
    return log


def stale_route(log: Log) -> None:
    """A1r: the origin did not know the subscription."""
    mid = log.accept()
    log.say("pub.route", mid=mid, targets=[])
    log.ack(mid)


def queue_loss(log: Log) -> None:
    """A1q: it was in a queue, not safe, and the node was killed."""
    mid = log.accept()
    log.route(mid, "rx", durable=False)
    log.ack(mid)
    log.boot()
    log.connect("rx", present=True)


def overtaken(log: Log) -> None:
    """A1: a later message of the same publisher was sent, this one never."""
    mid = log.accept()
    log.route(mid, "rx")
    log.ack(mid)
    log.whole()


def not_resent(log: Log) -> None:
    """A1: after a resumption the later message comes, and this one not again."""
    mid = log.accept()
    log.route(mid, "rx")
    log.send(mid, packet_id=20)
    log.ack(mid)
    log.say("conn.close", client="rx", reason="closed")
    log.connect("rx", present=True)
    log.whole()


def group_loss(log: Log) -> None:
    """A1 for a shared subscription: no member was given it."""
    log.subscriber("member", "$share/g/s/#")
    mid = log.accept(topic="s/1")
    log.say("pub.route", mid=mid, targets=[])
    log.ack(mid)


def never_accepted(log: Log) -> None:
    """A3: nobody published it."""
    log.send((NODE, 1, 5000), packet_id=30)


def no_subscription(log: Log) -> None:
    """A3: nobody asked for it."""
    log.send(log.accept(topic="elsewhere"), packet_id=30)


def no_subscription_at_all(log: Log) -> None:
    """A3: a session from its begin on, and it has never asked for anything."""
    log.connect("quiet")
    log.send(log.accept(), "quiet", packet_id=30)


def sent_again(log: Log) -> None:
    """A4: QoS 1, acknowledged, and sent again."""
    log.send(log.whole(), packet_id=40, dup=True)


def qos2_other_id(log: Log) -> None:
    """A5: a receiver cannot know that it is the same."""
    log.send(log.whole(qos=2), packet_id=41, dup=True)


def qos2_as_new(log: Log) -> None:
    """A5: answered, and sent again as if it were new."""
    mid = log.whole(qos=2)
    log.send(mid, packet_id=mid[2])


def reordered(log: Log) -> None:
    """A6: the second one first."""
    one, two = log.accept(), log.accept()
    for mid in (one, two):
        log.route(mid, "rx")
    for mid in (two, one):
        log.send(mid, packet_id=mid[2])


def amnesia(log: Log) -> None:
    """A12: a session that has outlived a connection is not there after a restart."""
    log.boot()
    log.connect("rx")


def will_lost(log: Log) -> None:
    """A14: the session is over, its will neither published nor given up."""
    log.connect("mortal", will=True)
    log.say("conn.close", client="mortal", reason="closed")
    log.say("sess.end", client="mortal", reason="disconnected")


def will_of_a_lasting_session_lost(log: Log) -> None:
    """A14: the client has been away and is back, and nobody has said anything of its will."""
    log.connect("mortal", will=True)
    log.say("conn.close", client="mortal", reason="closed")
    log.connect("mortal", present=True, will=True)
    log.say("will.cancel", client="mortal", reason="disconnected")


def will_dup(log: Log) -> None:
    """A14: published twice."""
    log.connect("mortal", will=True)
    for counter in (6000, 6001):
        log.say("will.fire", client="mortal", topic="will", mid=(NODE, 1, counter))


def will_spurious(log: Log) -> None:
    """A14: published although the client came back in time."""
    log.connect("mortal", will=True)
    log.say("will.cancel", client="mortal", reason="resumed")
    log.say("will.fire", client="mortal", topic="will", mid=(NODE, 1, 6000))


PLANTS: list[tuple[Callable[[Log], None], str, str]] = [
    (stale_route, "lost_acked", "A1 lost, stale-route"),
    (queue_loss, "lost_acked", "A1 lost, queue"),
    (overtaken, "lost_acked", "A1 lost, overtaken"),
    (not_resent, "lost_acked", "A1 lost, not-resent"),
    (group_loss, "lost_acked", "A1 lost, stale-route"),
    (never_accepted, "unexpected", "A3 unexpected, never accepted"),
    (no_subscription, "unexpected", "A3 unexpected, no subscription"),
    (no_subscription_at_all, "unexpected", "A3 unexpected, no subscription"),
    (sent_again, "duplicates", "A4 duplicate"),
    (qos2_other_id, "qos2_violations", "A5 QoS 2"),
    (qos2_as_new, "qos2_violations", "A5 QoS 2"),
    (reordered, "reordered", "A6 reordered"),
    (amnesia, "amnesia", "A12 session forgotten: rx"),
    (will_lost, "wills", "A14 will lost: mortal"),
    (will_of_a_lasting_session_lost, "wills", "A14 will lost: mortal"),
    (will_dup, "wills", "A14 will dup: mortal"),
    (will_spurious, "wills", "A14 will spurious: mortal"),
]


def test_a_clean_log_is_valid() -> None:
    """Nothing is found in it, and everything is counted."""
    found = audit(clean().rows)
    assert str(found) == "valid: 5 published, 3 acknowledged, 5 delivered, 0 waiting"


@pytest.mark.parametrize(("plant", "where", "text"), PLANTS, ids=[plant[0].__name__ for plant in PLANTS])
def test_a_planted_anomaly_is_found_alone(plant: Callable[[Log], None], where: str, text: str) -> None:
    """One, in its own list, with words; a duplicate of QoS 1 leaves the run valid."""
    log = clean()
    plant(log)
    found = audit(log.rows)
    assert len(getattr(found, where)) == 1
    (problem,) = found.problems()
    assert problem.startswith(text)
    assert found.verdict == ("valid" if plant is sent_again else "invalid")


def test_the_order_of_rows_does_not_matter() -> None:
    """Rows of several nodes come as they come."""
    log = clean()
    reordered(log)
    rows = list(log.rows)
    random.Random(3).shuffle(rows)
    assert audit(rows) == audit(log.rows)


def test_a_hole_in_the_log_makes_it_unknown() -> None:
    """A0: whatever else was found, and it is said which rows."""
    log = clean()
    stale_route(log)
    del log.rows[5]
    found = audit(log.rows)
    assert found.verdict == "unknown"
    assert found.problems()[0] == f"A0 hole in the log: {NODE}, boot 1: rows 6 to 6 are missing"


def test_rows_that_were_given_up_are_a_hole() -> None:
    """A0: the writer says so itself."""
    log = clean()
    log.say("log.gap", first=100, last=120, rows=21, reason="overflow")
    assert audit(log.rows).holes == [f"{NODE}, boot 1: 21 rows were given up (overflow)"]


def test_what_waits_is_not_lost() -> None:
    """It is in a queue when the log closes, on disk or of a node that lives."""
    log = clean()
    mid = log.accept()
    log.route(mid, "rx")
    log.ack(mid)
    found = audit(log.rows)
    assert (found.verdict, found.waiting) == ("valid", 1)


def test_what_was_not_acknowledged_is_neither_lost_nor_kept() -> None:
    """Its publisher does not know either."""
    log = clean()
    log.accept()
    assert audit(log.rows).verdict == "valid"


@pytest.mark.parametrize("kind", ["q.drop", "q.expire"])
def test_what_was_given_up_visibly_is_not_lost(kind: str) -> None:
    """A limit or an interval that somebody set."""
    log = clean()
    mid = log.accept()
    more = {"reason": "queue_full"} if kind == "q.drop" else {}
    log.say(kind, client="rx", topic="t/1", mid=mid, **more)
    log.route(mid, "rx", durable=False)
    log.ack(mid)
    log.whole()
    assert audit(log.rows).verdict == "valid"


def test_a_clean_session_ends_with_its_node() -> None:
    """Nobody promised more, and a new session of the same client is no amnesia."""
    log = Log()
    log.subscriber("rx")
    mid = log.accept()
    log.route(mid, "rx", durable=False)
    log.ack(mid)
    log.boot()
    log.connect("rx")
    assert audit(log.rows).verdict == "valid"


@pytest.mark.parametrize("filter", ["t/#", "$share/g/t/#"])
def test_nothing_new_is_owed_to_a_clean_session_of_a_dead_node(filter: str) -> None:
    """The node is back before the client; one that lasts is owed it."""
    for lasts in (False, True):
        log = Log()
        log.subscriber("rx", filter)
        if lasts:
            log.say("conn.close", client="rx", reason="closed")
            log.connect("rx", present=True)
        log.boot()
        mid = log.accept()
        log.say("pub.route", mid=mid, targets=[])
        log.ack(mid)
        assert [case.kind for case in audit(log.rows).lost_acked] == ["stale-route"] * lasts


def test_lifo_queues_have_another_order() -> None:
    """So it is not judged."""
    log = clean()
    reordered(log)
    assert audit(log.rows, lifo=True).verdict == "valid"


def test_a_retained_message_may_come_again() -> None:
    """Each SUBSCRIBE brings it."""
    log = clean()
    mid = log.whole(retain=True)
    log.say("sub.add", client="rx", filter="t/#", qos=2)
    log.say("ret.deliver", client="rx", topic="t/1")
    log.send(mid, packet_id=50)
    assert audit(log.rows).problems() == []


@pytest.mark.parametrize("plant", [sent_again, qos2_other_id, qos2_as_new, reordered, overtaken])
def test_what_is_not_retained_is_judged_beside_what_is(plant: Callable[[Log], None]) -> None:
    """A retained message of the topic came with a SUBSCRIBE: that excuses nothing else."""
    log = clean()
    mid = log.whole(retain=True)
    log.say("sub.add", client="rx", filter="t/#", qos=2)
    log.say("ret.deliver", client="rx", topic="t/1")
    log.send(mid, packet_id=50)
    accept = log.accept
    log.accept = lambda *of, **more: accept(*of, retain=False, **more)  # type: ignore[method-assign]
    plant(log)
    (problem,) = audit(log.rows).problems()
    assert problem.startswith(next(text for planted, _, text in PLANTS if planted is plant))


def test_nothing_is_owed_to_who_left() -> None:
    """Unsubscribed, or ended, before the message or after it."""
    log = clean()
    log.say("sub.del", client="rx", filter="t/#")
    log.ack(log.accept())
    log.subscriber("brief")
    mid = log.accept()
    log.route(mid, "brief")
    log.say("sess.end", client="brief", reason="clean_start")
    log.ack(mid)
    assert audit(log.rows).verdict == "valid"


@pytest.mark.parametrize("said", ["fire", "fire and end", "cancel"])
def test_a_kill_may_undo_what_was_said_of_a_will(said: str) -> None:
    """It is published once more by the next boot; but not if the first time was safe in somebody's queue."""
    for safe in (False, True) if said.startswith("fire") else (False,):
        log = clean()
        log.connect("mortal", will=True)
        if said == "cancel":
            log.say("will.cancel", client="mortal", reason="disconnected")
        else:
            log.say("will.fire", client="mortal", topic="will", mid=(NODE, 1, 6000))
            if safe:
                log.say("q.durable", mid=(NODE, 1, 6000), client="rx", lsn=1)
        if "end" in said:
            log.say("sess.end", client="mortal", reason="disconnected")
        log.boot()
        log.say("will.fire", client="mortal", topic="will", mid=(NODE, 2, 6001))
        assert audit(log.rows).verdict == ("invalid" if safe else "valid")
        log.say("will.fire", client="mortal", topic="will", mid=(NODE, 2, 6002))
        assert [case.kind for case in audit(log.rows).wills][-1] == "dup"


def test_a_will_may_wait_for_a_lease() -> None:
    """A node without one publishes it at the heal, after the end of its session or beside the next connection."""
    for lasts in (False, True):
        log = clean()
        log.say("split.detect", nodes=["other"], state="minority")
        log.connect("mortal", will=True)
        log.say("conn.close", client="mortal", reason="closed")
        if lasts:
            log.connect("mortal", present=True, will=True)
        else:
            log.say("sess.end", client="mortal", reason="disconnected")
        assert audit(log.rows).verdict == "valid"
        waiting = list(log.rows)
        log.say("split.heal", nodes=["other"], state="minority")
        assert [case.kind for case in audit(log.rows).wills] == ["lost"]
        log.say("will.fire", client="mortal", topic="will", mid=(NODE, 1, 6000))
        assert audit(log.rows).verdict == "valid"
        if lasts:
            log.say("conn.close", client="mortal", reason="closed")
            log.say("will.fire", client="mortal", topic="will", mid=(NODE, 1, 6001))
            assert audit(log.rows).verdict == "valid"
        log.say("will.fire", client="mortal", topic="will", mid=(NODE, 1, 6002))
        assert [case.kind for case in audit(log.rows).wills] == ["dup" if lasts else "spurious"]
        assert audit(waiting).verdict == "valid"


def test_what_a_session_was_owed_when_its_node_died() -> None:
    """Acknowledged, and not safe: a session that lasts has lost it. The log alone does not show that it lasts."""
    log = Log()
    log.subscriber("rx")
    kept = [(log.rows[-1]["hlc"], NODE, "rx")]
    mid = log.accept()
    log.route(mid, "rx", durable=False)
    log.ack(mid)
    log.boot()
    assert audit(log.rows).verdict == "valid"
    assert [case.kind for case in audit(log.rows, kept=kept).lost_acked] == ["queue"]
