"""A8: nothing is sent although a message waits. More cases are planted."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.cluster.identity import slot_of
from strogoff.judge.anomalies.a08_stall import LIMIT, UNREAD, Wait, judge, waits
from strogoff.judge.building import Summary, world_of
from strogoff.judge.lives import BootRows
from strogoff.judge.message import Message
from strogoff.judge.rows import LOGICAL_BITS, Row
from strogoff.judge.world import World

from ...testing.log_audit.log_builder import two_nodes
from .found import findings

END = 100 * LIMIT


def row(kind: str, hlc: int, **fields: Any) -> Row:
    return {"type": kind, "v": 8, "node": "n", "boot": 1, "seq": hlc, "hlc": hlc, "conn": 1, **fields}


def opened(receive_max: int = 9, v: int = 8) -> Row:
    return row("conn.open", 1, receive_max=receive_max, v=v)


def sent(hlc: int, packet_id: int, qos: int = 1) -> Row:
    return row("dlv.send", hlc, packet_id=packet_id, qos=qos)


def wait(begin: int, end: int, due: int = 0) -> Wait:
    return Wait("n", 1, 1, begin, due or begin, end, (("n", "", "c"), 1), ("n", 1, begin), ("n", 1, begin))


def world(*rows: Row) -> World:
    return world_of(rows, Summary({("n", 1): BootRows(1, 1, END, END, False), ("o", 1): BootRows(1, 1, 9, END, False)}))


def spans(*steps: Wait | Row) -> list[tuple[int, int]]:
    """Begin and length in ms of what is found."""
    return [(each.at, each.value) for each in judge(steps, world())]


@pytest.mark.parametrize("more", [0, 1])
def test_a_node_may_send_nothing_for_ten_seconds(more: int) -> None:
    until = 5 + LIMIT + more
    assert spans(wait(2, until), opened(), sent(5, 1), sent(until, 2)) == [(5, 10_000)] * more


def test_the_message_must_wait_all_the_time() -> None:
    assert spans(wait(50, 40 + LIMIT), opened(), sent(5, 1), sent(END, 2)) == []


def test_waits_that_overlap_are_one() -> None:
    steps = wait(10, 11 + LIMIT), wait(20, 30 + 2 * LIMIT), wait(4 * LIMIT, 8 * LIMIT)
    assert spans(*steps, opened(), sent(5, 1), sent(END, 2)) == [(10, 20_000)]


def test_a_message_waits_from_when_those_before_it_may_leave() -> None:
    """One has QoS 2 and is on the disk late; the other one entered the queue before it, or after it."""
    at = 3 * LIMIT
    held = wait(10, at, due=at)
    for late in (0, 1):
        found = spans(held, wait(20, at + LIMIT + late), opened(), sent(5, 1), sent(at + LIMIT + late, 2))
        assert found == [(at, 10_000)] * late
    assert spans(wait(9, at), held, opened(), sent(5, 1), sent(END, 2)) == [(9, 29_999)]
    # one that was safe earlier does not leave before it either
    earlier = wait(11, 2 * LIMIT, due=2 * LIMIT)
    assert spans(held, earlier, wait(20, at + LIMIT), opened(), sent(5, 1), sent(END, 2)) == []


def test_the_rows_of_a_stall_are_of_the_message_that_was_due() -> None:
    held = wait(10, 3 * LIMIT, due=3 * LIMIT)
    found = list(judge([held, wait(20, END), opened(), sent(5, 1)], world()))
    assert [each.rows for each in found] == [(("n", 1, 5), ("n", 1, 20))]


@pytest.mark.parametrize("code", [0, 0x97])
def test_a_message_with_qos_2_is_under_way_until_pubcomp_or_a_refusal(code: int) -> None:
    steps = [opened(1), sent(5, 1, 2), row("dlv.ack", 6, packet_id=1, code=code)]
    assert len(spans(wait(2, END), *steps)) == (code != 0)
    steps.append(row("dlv.rel", 7, packet_id=1))
    assert len(spans(wait(2, END), *steps, row("dlv.comp", 8, packet_id=1))) == 1


def test_a_pubrel_that_is_sent_again_takes_room() -> None:
    assert spans(wait(2, END), opened(1), row("dlv.rel", 5, packet_id=1)) == []


def test_a_client_does_not_read_from_a_second_before_the_row() -> None:
    at = LIMIT + UNREAD
    for late in (0, 1):
        pause = row("dlv.pause", 1 + at + late)
        assert len(spans(wait(2 - 1, END), opened(), pause)) == late
    assert len(spans(wait(2, END), opened(), row("dlv.pause", 5), row("dlv.resume", 9))) == 1


def test_nothing_is_judged_after_the_end_of_the_connection() -> None:
    assert spans(wait(2, END), opened(), row("conn.close", LIMIT)) == []


def test_older_logs_and_connections_without_a_begin_are_not_judged() -> None:
    assert spans(wait(2, END), opened(v=7)) == []
    assert spans(wait(2, END), sent(5, 1)) == []


def test_a_node_that_is_cut_off_is_not_judged() -> None:
    steps = wait(2, END), opened()
    gone = row("mem.down", 50, target="n", node="o")
    alone = row("split.detect", 50, nodes=["o"], state="minority", incident=1)
    assert list(judge(steps, world(gone))) == list(judge(steps, world(alone))) == []
    assert len(list(judge(steps, world(row("mem.down", 50, target="x", node="o"))))) == 1


def test_a_message_waits_on_each_connection_of_its_session() -> None:
    client = {"client": "c", "epoch": 1}
    rows = [row("conn.open", 1, **client, expiry_s=9, receive_max=9), row("sess.create", 2, **client)]
    rows += [row("conn.close", 4 * LIMIT, **client)]
    rows += [row("conn.open", 5 * LIMIT, **client, expiry_s=9, receive_max=9, boot=2, conn=3)]
    known = world_of(
        rows, Summary({("n", 1): BootRows(1, 1, 9, 4 * LIMIT, True), ("n", 2): BootRows(1, 5 * LIMIT, 9, END, False)})
    )
    mid = ("n", 1, 1)
    queued = row("q.enq", 9, **client, qos=1, mid=mid)
    found = list(waits(Message(mid, [queued], known), known))
    assert [(each.place, each.due, each.end) for each in found] == [(("n", 1, 1), 9, 4 * LIMIT)]
    late = row("dlv.send", 8 * LIMIT, **client, boot=2, conn=3, qos=1, packet_id=1, mid=mid)
    found = list(waits(Message(mid, [queued, late], known), known))
    assert [(each.place, each.due, each.end) for each in found] == [
        (("n", 1, 1), 9, 4 * LIMIT),
        (("n", 2, 3), 5 * LIMIT, 8 * LIMIT),
    ]
    dropped = row("q.drop", 99, **client, qos=1, mid=mid)
    assert list(waits(Message(mid, [queued, dropped], known), known)) == []


def test_messages_enter_the_queue_in_an_order_before_the_connection() -> None:
    client = {"client": "c", "epoch": 1}
    rows = [row("conn.open", 1, **client, expiry_s=9, receive_max=9), row("sess.create", 2, **client)]
    known = world(*rows, row("conn.close", 5, **client), row("conn.open", 20, **client, expiry_s=9, conn=3))
    mids = [("n", 1, 1), ("n", 1, 2)]
    queued = [Message(mid, [row("q.enq", 8 + mid[2], **client, qos=1, mid=mid)], known) for mid in mids]
    found = [(each.begin, each.due) for message in queued for each in waits(message, known)]
    assert found == [(9, 20), (10, 20)]


def test_a_message_with_qos_2_may_leave_when_it_is_on_the_disk() -> None:
    """Also one that expires then is handed on, for those behind it."""
    client = {"client": "c", "epoch": 1}
    rows = [row("conn.open", 1, **client, expiry_s=9, receive_max=9), row("sess.create", 2, **client)]
    known = world(*rows)
    mid, at = ("n", 1, 1), 5 * LIMIT
    queued, safe = row("q.enq", 9, **client, qos=2, mid=mid), row("q.durable", at, **client, mid=mid)

    def found(*rows: Row, qos: int = 2) -> list[tuple[int, int, int]]:
        of_message = Message(mid, [{**queued, "qos": qos}, *rows], known)
        return [(each.begin, each.due, each.end) for each in waits(of_message, known)]

    expired = row("q.expire", at, **client, mid=mid)
    late = row("dlv.send", 9 * LIMIT, **client, qos=2, packet_id=1, mid=mid)
    assert found(safe, late) == [(9, at, 9 * LIMIT)]
    assert found(safe) == [(9, at, END)]
    assert found() == [(9, END, END)]
    assert found(safe, expired) == [(9, at, at)]
    assert found(safe, expired, qos=1) == []
    assert found(row("q.durable", 9 + LIMIT, **client, mid=mid), expired) == []


SHARED = "$share/g/t"


def group(*rows: Row, ends: int = 20) -> list[tuple[int, int, int]]:
    """Connection, begin and end of the waits of a message of a group, which `c` got at 9; its first connection `ends`,
    and its second one begins at 30."""
    c = {"client": "c", "epoch": 1}
    told = [row("conn.open", 1, **c, expiry_s=9, receive_max=9), row("sess.create", 2, **c)]
    told += [row("sub.add", 3, **c, filter=SHARED, qos=1), row("conn.close", ends, **c), *rows]
    told += [row("conn.open", 30, **c, expiry_s=9, receive_max=9, conn=3)]
    known = world(*told)
    mid = ("n", 1, 1)
    of_message = [row("q.enq", 9, **c, qos=1, mid=mid, group=SHARED), *(each for each in rows if "mid" in each)]
    return [(each.conn, each.due, each.end) for each in waits(Message(mid, of_message, known), known)]


def member(filter: str = SHARED, closed: int = 25, node: str = "n") -> list[Row]:
    """Another client with a connection and a subscription."""
    d = {"client": "d", "epoch": 1, "conn": 2, "node": node}
    told = [row("conn.open", 4, **d, expiry_s=9, receive_max=9), row("sess.create", 5, **d)]
    return [*told, row("sub.add", 6, **d, filter=filter, qos=1), row("conn.close", closed, **d)]


def test_a_message_of_a_group_goes_to_another_member_at_the_end_of_a_connection() -> None:
    """The log has no row for that. One that was sent later has waited, and so has one without another member there."""
    waited = [(3, 30, END)]
    assert group(*member()) == []
    assert group() == group(*member("$share/h/t")) == group(*member("t")) == waited
    assert group(*member(closed=19)) == group(*member(node="o")) == waited
    back = {"client": "d", "epoch": 1, "conn": 5, "expiry_s": 9, "receive_max": 9}
    assert group(*member(closed=19), row("conn.open", 22, **back)) == []  # its CONNACK was on its way
    assert group(*member(closed=19), row("conn.open", 21 + LIMIT, **back)) == waited
    assert group(*member(), ends=8) == []  # another connection of `c` may have ended, whose CONNACK never left
    assert group(*member(node="o"), ends=8) == waited
    taken_over = row("conn.open", 19, client="c", epoch=1, expiry_s=9, receive_max=9, conn=4)
    assert group(taken_over) == [(4, 19, END), *waited]
    left = row("sub.del", 15, client="d", epoch=1, conn=2, filter=SHARED)
    joined = row("sub.add", 28, client="d", epoch=1, conn=2, filter=SHARED, qos=1)
    assert group(*member(), left) == group(*member(), left, joined) == waited
    late = row("dlv.send", END - 5, client="c", epoch=1, conn=3, qos=1, packet_id=1, mid=("n", 1, 1))
    assert group(*member(), late) == [(3, 30, END - 5)]


def test_a_message_of_a_group_is_judged_up_to_the_end_of_its_connection() -> None:
    c = {"client": "c", "epoch": 1}
    rows = [row("conn.open", 1, **c, expiry_s=9, receive_max=9), row("sess.create", 2, **c)]
    known = world(*rows, *member(closed=END), row("conn.close", 9 + LIMIT + 1, **c))
    mid = ("n", 1, 1)
    found = list(waits(Message(mid, [row("q.enq", 9, **c, qos=1, mid=mid, group=SHARED)], known), known))
    assert [(each.due, each.end) for each in found] == [(9, 10 + LIMIT)]


@pytest.mark.parametrize("leaves", ["", "before", "after"])
def test_a_message_does_not_wait_for_a_session_that_another_node_had_meanwhile(leaves: str) -> None:
    """The session leaves before the message is queued (3 nodes, copies,small,moves,sparse, seed 16450049), or before it
    has come to the next node (3 nodes, copies,moves, seed 16300153). Then it comes back."""
    a, b = two_nodes()
    a.subscriber(expiry_s=60)
    if leaves == "before":
        b.say("slot.arrive", slot=slot_of("", "rx"))
    mid = a.accept()
    a.route(mid, "rx")
    if leaves == "after":
        b.say("slot.arrive", slot=slot_of("", "rx"))
    if leaves:
        a.say("slot.arrive", slot=slot_of("", "rx"))
        a.connect("rx", present=True, expiry_s=60)
    for _ in range((LIMIT >> LOGICAL_BITS) + 1):
        next(a._now)
    a.say("lease.get", view=2)
    a.rows += b.rows
    assert [each.kind for each in findings(a) if each.anomaly == "A8"] == ["stall"] * (not leaves)
