"""What the rows of a log are for the stream."""

from __future__ import annotations

from typing import Any

from strogoff.analytics.stream import items
from strogoff.analytics.stream.items import (
    AT_ONCE,
    BOOT,
    MESSAGE,
    MINUTE,
    NOT_DUE,
    WORLD,
    Item,
    ReadBoots,
    both,
    counted,
    items_of,
)
from strogoff.judge.alerts import STORM, Limits, Minute
from strogoff.judge.lives import BootRows

BEGIN = 1_200_000


def row(ms: int, kind: str, seq: int = 1, **fields: Any) -> dict[str, Any]:
    envelope = {"v": 7, "run_id": "r", "node": "a", "boot": 1, "seq": seq, "hlc": ms << 16, "mono_ns": 0}
    return {**envelope, "type": kind, **fields}


def found(ms: int, kind: str, **fields: Any) -> list[Item]:
    return [*items_of(row(ms, kind, **fields), Limits(late_ms=500), 4)]


def test_the_rows_of_a_message_have_one_key_and_part() -> None:
    mid = ["a", 1, 7]
    (first,) = found(5, "pub.recv", mid=mid, client="c", topic="t", qos=1)
    (ack,) = found(6, "pub.ack", mid=mid, client="c", code=0)
    (sent,) = found(7, "dlv.send", mid=mid, client="d", conn=1, qos=1)
    assert {each[:2] + each[4:6] for each in (first, ack, sent)} == {
        ("r", first.part, MESSAGE, "a/000001/000000000007")
    }
    assert [each.due_ms for each in (first, ack, sent)] == [NOT_DUE, 506, NOT_DUE]
    assert items.row_of(sent.row) == row(7, "dlv.send", mid=mid, client="d", conn=1, qos=1)
    parts = {found(5, "pub.recv", mid=["a", 1, n], client="c", topic="t", qos=1)[0].part for n in range(50)}
    assert len(parts) == 4


def test_a_connection_is_of_the_world_and_counts_for_two_minutes() -> None:
    world, client, node = found(BEGIN + 5, "conn.open", client="c", conn=1)
    assert (world.kind, world.due_ms, world.part) == (WORLD, BEGIN + 5, WORLD)
    assert (client.kind, client.due_ms, node.due_ms) == (MINUTE, BEGIN + 60_000, BEGIN + 60_000)
    assert items.minute_of(client.key) == Minute("r", STORM, "client", "", "", "c", BEGIN)
    assert items.minute_of(node.key) == Minute("r", STORM, "node", "a", "", "", BEGIN)
    assert items.hit_of(node.row) == (BEGIN + 5 << 16, ("a", 1, 1))


def test_a_drop_of_a_message_counts_and_ends_it() -> None:
    kinds = [each.kind for each in found(5, "q.drop", mid=["a", 1, 7], client="c", topic="t", reason="x")]
    assert kinds == [MESSAGE, MINUTE]


def test_rows_that_nothing_asks_for_are_no_items() -> None:
    assert found(5, "store.sync") == found(5, "gateway.open") == []


def test_how_far_boots_are_read() -> None:
    read = ReadBoots()
    for each in (row(5, "node.start", 1), row(7, "x", 2), row(6, "x", 1) | {"node": "b"}, row(9, "node.stop", 3)):
        read.note(each)
    a, b = read.items()
    assert (a.kind, a.due_ms, a.ms) == (BOOT, AT_ONCE, 9)
    assert items.boot_of(a.row) == (("a", 1), BootRows(1, 5 << 16, 3, 9 << 16, True))
    assert items.boot_of(b.row) == (("b", 1), BootRows(1, 6 << 16, 1, 6 << 16, False))


def test_two_readings_of_a_boot_are_one() -> None:
    early, late = BootRows(1, 10, 5, 50, False), BootRows(6, 60, 9, 90, True)
    assert both(None, early) == early
    assert both(early, late) == both(late, early) == BootRows(1, 10, 9, 90, True)


def test_counts_of_a_minute_add_up_and_keep_the_first() -> None:
    a, b = (2, 9, ("a", 1, 4)), (3, 7, ("b", 1, 1))
    assert counted(None, a) == a
    assert counted(a, b) == counted(b, a) == (5, 7, ("b", 1, 1))
