"""A8: nothing is sent although a message waits. More cases are planted."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.judge.anomalies.a08_stall import LIMIT, UNREAD, Wait, judge, waits
from strogoff.judge.lives import BootRows
from strogoff.judge.message import Message
from strogoff.judge.rows import Row
from strogoff.judge.world import Summary, World

END = 100 * LIMIT


def row(kind: str, hlc: int, **fields: Any) -> Row:
    return {"type": kind, "v": 8, "node": "n", "boot": 1, "seq": hlc, "hlc": hlc, "conn": 1, **fields}


def opened(receive_max: int = 9, v: int = 8) -> Row:
    return row("conn.open", 1, receive_max=receive_max, v=v)


def sent(hlc: int, packet_id: int, qos: int = 1) -> Row:
    return row("dlv.send", hlc, packet_id=packet_id, qos=qos)


def wait(begin: int, end: int) -> Wait:
    return Wait("n", 1, 1, begin, end, (("n", "", "c"), 1), ("n", 1, begin), ("n", 1, begin))


def world(*rows: Row) -> World:
    return World.of(rows, Summary({("n", 1): BootRows(1, 1, END, END, False), ("o", 1): BootRows(1, 1, 9, END, False)}))


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
    steps = wait(10, 9 + LIMIT), wait(20, 30 + LIMIT), wait(2 * LIMIT, 2 * LIMIT + 40)
    assert spans(*steps, opened(), sent(5, 1), sent(END, 2)) == [(10, 10_000)]


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
    known = World.of(
        rows, Summary({("n", 1): BootRows(1, 1, 9, 4 * LIMIT, True), ("n", 2): BootRows(1, 5 * LIMIT, 9, END, False)})
    )
    mid = ("n", 1, 1)
    queued = row("q.enq", 9, **client, qos=1, mid=mid)
    found = list(waits(Message(mid, [queued], known), known))
    assert [(each.place, each.begin, each.end) for each in found] == [(("n", 1, 1), 9, 4 * LIMIT)]
    late = row("dlv.send", 8 * LIMIT, **client, boot=2, conn=3, qos=1, packet_id=1, mid=mid)
    found = list(waits(Message(mid, [queued, late], known), known))
    assert [(each.place, each.begin, each.end) for each in found] == [
        (("n", 1, 1), 9, 4 * LIMIT),
        (("n", 2, 3), 5 * LIMIT, 8 * LIMIT),
    ]
    dropped = row("q.drop", 99, **client, qos=1, mid=mid)
    assert list(waits(Message(mid, [queued, dropped], known), known)) == []


@pytest.mark.parametrize(
    ("group", "late", "count"), [("", False, 2), ("$share/g/t", False, 1), ("$share/g/t", True, 2)]
)
def test_a_message_of_a_group_may_go_to_another_member_when_the_connection_ends(
    group: str, late: bool, count: int
) -> None:
    """The log does not show it. If this member was sent the message later, it has waited there. A message that is safe
    only after the end of the connection may have gone, too."""
    client = {"client": "c", "epoch": 1}
    rows = [row("conn.open", 1, **client, expiry_s=9, receive_max=9), row("sess.create", 2, **client)]
    rows += [row("conn.close", 4 * LIMIT, **client)]
    rows += [row("conn.open", 5 * LIMIT, **client, expiry_s=9, receive_max=9, conn=3)]
    known = world(*rows)
    mid = ("n", 1, 1)
    of_message = [row("q.enq", 9, **client, qos=1, mid=mid, group=group or None)]
    if late:
        of_message.append(row("dlv.send", 8 * LIMIT, **client, conn=3, qos=1, packet_id=1, mid=mid))
    found = list(waits(Message(mid, of_message, known), known))
    assert [each.conn for each in found] == [1, 3][:count]
    of_message[0] = {**of_message[0], "qos": 2}
    of_message.append(row("q.durable", 5 * LIMIT - 1, **client, mid=mid))
    assert len(list(waits(Message(mid, of_message, known), known))) == count - 1
