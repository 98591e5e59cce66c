"""The audit: a clean log is valid, and each planted anomaly is found, and only that one."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from strogoff.testing.log_audit.audit import audit

from .log_builder import NODE, Log


def clean() -> Log:
    """A valid log: QoS 0, 1 and 2, a resend, a resumption, a will, an end."""
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
    """A1: after a resumption the later message is sent, and this one is not sent again."""
    mid = log.accept()
    log.route(mid, "rx")
    log.send(mid, packet_id=20)
    log.ack(mid)
    log.say("conn.close", client="rx", reason="closed")
    log.connect("rx", present=True)
    log.whole()


def group_loss(log: Log) -> None:
    """A1 for a shared subscription: no member got it."""
    log.subscriber("member", "$share/g/s/#")
    mid = log.accept(topic="s/1")
    log.say("pub.route", mid=mid, targets=[])
    log.ack(mid)


def never_accepted(log: Log) -> None:
    """A3: no client published it."""
    log.send((NODE, 1, 5000), packet_id=30)


def no_subscription(log: Log) -> None:
    """A3: the client had no matching subscription."""
    log.send(log.accept(topic="elsewhere"), packet_id=30)


def no_subscription_at_all(log: Log) -> None:
    """A3: a session without any subscription from its begin."""
    log.connect("quiet")
    log.send(log.accept(), "quiet", packet_id=30)


def sent_again(log: Log) -> None:
    """A4: QoS 1, acknowledged, and sent again."""
    log.send(log.whole(), packet_id=40, dup=True)


def qos2_other_id(log: Log) -> None:
    """A5: the receiver cannot know that it is the same message."""
    log.send(log.whole(qos=2), packet_id=41, dup=True)


def qos2_as_new(log: Log) -> None:
    """A5: the receiver answered it, and the broker sent it again like a new one."""
    mid = log.whole(qos=2)
    log.send(mid, packet_id=mid[2])


def reordered(log: Log) -> None:
    """A6: the second message is sent first."""
    one, two = log.accept(), log.accept()
    for mid in (one, two):
        log.route(mid, "rx")
    for mid in (two, one):
        log.send(mid, packet_id=mid[2])


def amnesia(log: Log) -> None:
    """A12: a session that has survived a connection is missing after a restart."""
    log.boot()
    log.connect("rx")


def will_lost(log: Log) -> None:
    """A14: the session has ended, and its will is neither published nor dropped."""
    log.connect("mortal", will=True)
    log.say("conn.close", client="mortal", reason="closed")
    log.say("sess.end", client="mortal", reason="disconnected")
    log.pass_s(20)


def will_of_a_lasting_session_lost(log: Log) -> None:
    """A14: the client was away and is back, and no row mentions its will."""
    log.connect("mortal", will=True)
    log.say("conn.close", client="mortal", reason="closed")
    log.connect("mortal", present=True, will=True)
    log.say("will.cancel", client="mortal", reason="disconnected")
    log.pass_s(20)


def will_dup(log: Log) -> None:
    """A14: published twice."""
    log.connect("mortal", will=True)
    for counter in (6000, 6001):
        log.say("will.fire", client="mortal", topic="will", mid=(NODE, 1, counter))


def will_spurious(log: Log) -> None:
    """A14: published although the client returned in time."""
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
    """The audit finds nothing, and counts everything."""
    found = audit(clean().rows)
    assert str(found) == "valid: 5 published, 3 acknowledged, 5 delivered, 0 waiting"


@pytest.mark.parametrize(("plant", "where", "text"), PLANTS, ids=[plant[0].__name__ for plant in PLANTS])
def test_a_planted_anomaly_is_found_alone(plant: Callable[[Log], None], where: str, text: str) -> None:
    """One anomaly, in its own list, with a text; a duplicate of QoS 1 leaves the run valid."""
    log = clean()
    plant(log)
    found = audit(log.rows)
    assert len(getattr(found, where)) == 1
    (problem,) = found.problems()
    assert problem.startswith(text)
    assert found.verdict == ("valid" if plant is sent_again else "invalid")


def test_the_order_of_rows_does_not_matter() -> None:
    """Rows of several nodes are in arbitrary order."""
    log = clean()
    reordered(log)
    rows = list(log.rows)
    random.Random(3).shuffle(rows)
    assert audit(rows) == audit(log.rows)


def test_a_gap_in_the_log_makes_the_result_unknown() -> None:
    """A0: this holds whatever else is found, and the result names the rows."""
    log = clean()
    stale_route(log)
    del log.rows[5]
    found = audit(log.rows)
    assert found.verdict == "unknown"
    assert found.problems()[0] == f"A0 hole in the log: {NODE}, boot 1: rows 6 to 6 are missing"


def test_dropped_rows_are_a_gap() -> None:
    """A0: the writer itself records them."""
    log = clean()
    log.say("log.gap", first=100, last=120, rows=21, reason="overflow")
    assert audit(log.rows).holes == [f"{NODE}, boot 1: 21 rows were given up (overflow)"]


def test_waiting_messages_are_not_lost() -> None:
    """It is in a queue when the log closes, on disk or in the memory of a living node."""
    log = clean()
    mid = log.accept()
    log.route(mid, "rx")
    log.ack(mid)
    found = audit(log.rows)
    assert (found.verdict, found.waiting) == ("valid", 1)


def test_messages_that_have_left_a_queue_without_a_trace_are_lost() -> None:
    """The depth of the queue, noted after the last message entered it, says how many can wait."""
    log = clean()
    mids = [log.accept(), log.accept()]
    for mid in mids:
        log.route(mid, "rx")
        log.ack(mid)
    log.say("q.depth", client="rx", count=2)
    assert audit(log.rows).waiting == 2
    log.say("q.depth", client="rx", count=1)
    found = audit(log.rows)
    assert [(case.kind, case.message_id) for case in found.lost_acked] == [("gone", mids[0])]
    assert found.waiting == 1
    log.route(log.accept(), "rx")
    assert audit(log.rows).verdict == "valid", "the queue has changed since: its depth is not known"


def test_unacknowledged_messages_are_neither_lost_nor_kept() -> None:
    """Its publisher does not know its fate either."""
    log = clean()
    log.accept()
    assert audit(log.rows).verdict == "valid"


@pytest.mark.parametrize(("kind", "reason"), [("q.drop", "queue_full"), ("q.expire", "expired")])
def test_messages_dropped_with_an_event_are_not_lost(kind: str, reason: str) -> None:
    """A configured limit or interval dropped it; the audit counts it."""
    log = clean()
    mid = log.accept()
    more = {"reason": reason} if kind == "q.drop" else {}
    log.say(kind, client="rx", topic="t/1", mid=mid, **more)
    log.route(mid, "rx", durable=False)
    log.ack(mid)
    log.whole()
    found = audit(log.rows)
    assert (found.verdict, found.dropped) == ("valid", {reason: 1})
    assert found.summary.endswith(f", 1 dropped ({reason})")


def test_a_clean_session_ends_with_its_node() -> None:
    """No promise goes further, and a new session of the same client is no amnesia."""
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
    """The node is back before its client; a durable session must get the message."""
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
    """Their order is not judged."""
    log = clean()
    reordered(log)
    assert audit(log.rows, lifo=True).verdict == "valid"


def test_a_retained_message_may_be_sent_again() -> None:
    """Each SUBSCRIBE may get it."""
    log = clean()
    mid = log.whole(retain=True)
    log.subscribe()
    log.say("ret.deliver", client="rx", topic="t/1", mid=mid)
    log.send(mid, packet_id=50)
    assert audit(log.rows).problems() == []


def test_older_logs_do_not_name_a_retained_message() -> None:
    """Each message on its topic may be a retained one there."""
    log = clean()
    mid = log.whole(retain=True)
    log.subscribe()
    log.say("ret.deliver", client="rx", topic="t/1")
    del log.rows[-1]["mid"]
    log.send(mid, packet_id=50)
    assert audit(log.rows).problems() == []
    sent_again(log)
    assert audit(log.rows).problems() == []


@pytest.mark.parametrize("plant", [sent_again, qos2_other_id, qos2_as_new, reordered, overtaken])
def test_a_retained_message_does_not_excuse_other_losses(plant: Callable[[Log], None]) -> None:
    """A retained message of the topic was sent for a SUBSCRIBE: this does not excuse other losses."""
    log = clean()
    mid = log.whole(retain=True)
    log.subscribe()
    log.say("ret.deliver", client="rx", topic="t/1", mid=mid)
    log.send(mid, packet_id=50)
    accept = log.accept
    log.accept = lambda *of, **more: accept(*of, retain=False, **more)  # type: ignore[method-assign]
    plant(log)
    (problem,) = audit(log.rows).problems()
    assert problem.startswith(next(text for planted, _, text in PLANTS if planted is plant))


def test_messages_for_departed_subscribers_are_not_required() -> None:
    """The client unsubscribed, or its session ended, before the message or after it."""
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
def test_a_kill_may_undo_the_record_of_a_will(said: str) -> None:
    """The next boot publishes the will once more, unless the first one was safe in a queue."""
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
    """A node without a lease publishes it at the heal, after the end of its session or beside the next connection."""
    for lasts in (False, True):
        log = clean()
        log.say("split.detect", nodes=["other"], state="minority")
        log.connect("mortal", will=True)
        former = log.will("mortal")
        log.say("conn.close", client="mortal", reason="closed")
        if lasts:
            log.connect("mortal", present=True, will=True)
        else:
            log.say("sess.end", client="mortal", reason="disconnected")
        assert audit(log.rows).verdict == "valid"
        log.pass_s(20)
        assert audit(log.rows).verdict == "valid"
        log.say("split.heal", nodes=["other"], state="minority")
        assert [case.kind for case in audit(log.rows).wills] == ["lost"]
        log.say("will.fire", client="mortal", topic="will", mid=(NODE, 1, 6000), will=former)
        assert audit(log.rows).verdict == "valid"
        if lasts:
            log.say("conn.close", client="mortal", reason="closed")
            log.say("will.fire", client="mortal", topic="will", mid=(NODE, 1, 6001))
            assert audit(log.rows).verdict == "valid"
        log.say("will.fire", client="mortal", topic="will", mid=(NODE, 1, 6002))
        assert [case.kind for case in audit(log.rows).wills] == ["dup"]


@pytest.mark.parametrize("lives", [False, True])
def test_a_will_may_wait_until_its_gateway_is_known_to_live(lives: bool) -> None:
    """The client has connected again. The broker publishes or drops the will of the former connection, and keeps that
    of the present one."""
    log = clean()
    log.connect("mortal", will=True)
    former = log.will("mortal")
    log.say("conn.close", client="mortal", reason="session_taken_over")
    log.connect("mortal", present=True, will=True)
    log.pass_s(20)
    assert [case.kind for case in audit(log.rows).wills] == ["lost"]
    if lives:
        log.say("will.fire", client="mortal", topic="will", mid=(NODE, 1, 6000), will=former)
    else:
        log.say("will.cancel", client="mortal", reason="gateway_lost", topic="will", will=former)
    assert audit(log.rows).verdict == "valid"
    log.say("conn.close", client="mortal", reason="closed")
    log.say("will.fire", client="mortal", topic="will", mid=(NODE, 1, 6001))
    assert audit(log.rows).verdict == "valid"


def test_unsafe_messages_of_a_dead_node_are_lost() -> None:
    """Acknowledged, and not safe: a durable session has lost it. The log alone does not show that it is durable."""
    log = Log()
    for expiry_s, lost in ((0, []), (60, ["queue"])):
        log = Log()
        log.subscriber("rx", expiry_s=expiry_s)
        mid = log.accept()
        log.route(mid, "rx", durable=False)
        log.ack(mid)
        log.boot()
        assert [case.kind for case in audit(log.rows).lost_acked] == lost
