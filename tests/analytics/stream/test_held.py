"""What is held until it is due."""

from __future__ import annotations

from strogoff.analytics.stream.held import KEPT_MS, Held
from strogoff.analytics.stream.items import AT_ONCE, BOOT, MESSAGE, MINUTE, NOT_DUE, WORLD, Item


def item(ms: int, due_ms: int, row: str, kind: str = MESSAGE, key: str = "k") -> Item:
    return Item("r", "1", ms, due_ms, kind, key, row)


def test_a_message_is_due_at_its_time_with_all_rows_until_then() -> None:
    held = Held()
    held.add([item(7, NOT_DUE, "c"), item(5, 10, "b"), item(1, NOT_DUE, "a"), item(10, NOT_DUE, "d")])
    held.add([item(11, NOT_DUE, "e"), item(2, NOT_DUE, "x", key="other")])
    assert held.next_ms == 10
    assert [*held.take(9)] == []
    assert [*held.take(10)] == [(MESSAGE, "k", 5, ["a", "b", "c", "d"])]
    assert [*held.take(1000)] == []


def test_what_is_held_survives_as_bytes() -> None:
    held = Held()
    held.add([item(5, 10, "b"), item(1, 2, "a", kind=WORLD)])
    again = Held(held.state)
    assert [*again.take(2)] == [(WORLD, "k", 1, ["a"])]
    assert [*Held(again.state).take(10)] == [(MESSAGE, "k", 1, ["b"])]
    assert Held().next_ms is None and Held(Held().state).next_ms is None


def test_a_message_without_an_acknowledgement_is_forgotten() -> None:
    held = Held()
    held.add([item(5, NOT_DUE, "a")])
    assert held.next_ms == 5 + KEPT_MS
    assert [*held.take(5 + KEPT_MS - 1)] == []
    assert held.next_ms is not None
    assert [*held.take(5 + KEPT_MS)] == []
    assert held.next_ms is None


def test_a_second_acknowledgement_does_not_delay() -> None:
    held = Held()
    held.add([item(5, 30, "b"), item(4, 20, "a")])
    assert held.next_ms == 20


def test_of_a_minute_only_the_first_row_is_held() -> None:
    held = Held()
    held.add([item(ms, 60, str(ms), kind=MINUTE) for ms in (30, 12, 45)])
    assert len(held.state) < 60
    assert [*held.take(60)] == [(MINUTE, "k", 3, ["12"])]


def test_how_far_a_boot_is_read_is_due_at_once() -> None:
    held = Held()
    held.add([item(50, AT_ONCE, "a", kind=BOOT)])
    assert [*held.take(2)] == [(BOOT, "k", 1, ["a"])]
