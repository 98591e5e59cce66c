"""Wills: once for each connection that ends without DISCONNECT, on time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from strogoff.broker.connection.transport import PEER_CLOSED
from strogoff.cluster.identity import slot_of
from strogoff.sim.checkers.wills import check
from strogoff.sim.history import FIRST, NEVER, Fault
from strogoff.sim.workload.swarm import WATCHER

from ..histories import HistoryBuilder, will


def builder(**fields: Any) -> tuple[HistoryBuilder, Any]:
    made = HistoryBuilder()
    made.connect(WATCHER)
    made.subscribe(WATCHER, "w/#")
    return made, made.connect("c", present=False, **fields)


def kinds(made: HistoryBuilder) -> list[str]:
    return [text.split(":")[0] for text in check(made.case())]


@pytest.mark.parametrize(("count", "wrong"), [(0, ["will lost", "will late"]), (1, []), (2, ["will twice"])])
def test_once_when_the_connection_was_lost(count: int, wrong: list[str]) -> None:
    """[MQTT-3.1.2-8] [MQTT5-3.1.2-8]"""
    made, connection = builder(will=will())
    made.close(connection)
    if count:
        made.event("will.fire", "c")
    for _ in range(count):
        made.deliver("c!1", WATCHER)
    made.now += 10
    assert kinds(made) == wrong


def test_no_will_while_the_connection_lasts() -> None:
    made, _ = builder(will=will())
    made.deliver("c!1", WATCHER)
    assert kinds(made) == ["will spurious"]


def test_after_disconnect_only_a_kill_excuses_it() -> None:
    """[MQTT-3.14.4-3] [MQTT5-3.14.4-3]"""

    class Arrived:
        over_at = 100.0

        to_node = SimpleNamespace(under_way=0)

    made, connection = builder(will=will(), polite=True)
    made.close(connection)
    connection.pipe = Arrived()
    Arrived.over_at = made.now
    made.deliver("c!1", WATCHER)
    assert kinds(made) == ["will spurious"]
    made.history.faults.clear()
    made.now = connection.closed_at
    made.fault("kill")
    made.history.faults[-1].at_s = connection.closed_at
    made.start()
    assert kinds(made) == []


def test_a_disconnect_at_a_suspended_node_that_is_killed_may_be_undone() -> None:
    """3 nodes, seed 3538."""
    made, connection = builder(will=will(), polite=True)
    made.close(connection)
    connection.pipe = SimpleNamespace(over_at=made.now, to_node=SimpleNamespace(under_way=0))
    made.deliver("c!1", WATCHER)
    made.now += 20.0
    made.fault("kill")
    made.start()
    case = made.case()
    assert [each.partition(":")[0] for each in check(case)] == ["will spurious"]
    case.stood = (("n1", connection.closed_at - 1.0, made.now),)
    assert list(check(case)) == []
    case.stood = (("n1", connection.closed_at + 0.5 * case.commit_s, made.now),)
    assert list(check(case)) == [], "the process stopped before its disk had the DISCONNECT (3 nodes, seed 228644)"
    case.stood = (("n1", connection.closed_at + 1.5 * case.commit_s, made.now),)
    assert list(check(case)) != []


def test_a_waiting_disconnect_at_a_suspended_and_killed_node_is_undone() -> None:
    """The process never knew that the connection was over; the next process knows when it starts."""
    made, connection = builder(will=will(), polite=True)
    made.close(connection)
    made.fault("kill")
    made.start()
    connection.pipe = SimpleNamespace(over_at=None, to_node=SimpleNamespace(under_way=0))
    connection.came_back_at = made.now
    made.deliver("c!1", WATCHER)
    assert kinds(made) == []


def test_a_delayed_will_is_cancelled_by_a_resumption() -> None:
    """[MQTT5-3.1.3-9]"""
    made, connection = builder(will=will(delay_s=50))
    made.close(connection)
    made.connect("c", present=True)
    assert kinds(made) == []
    made.event("will.fire", "c")
    made.deliver("c!1", WATCHER)
    assert kinds(made) == ["will spurious"]


@pytest.mark.parametrize(
    ("end", "after_s", "last", "found"),
    [
        ("kill", 1, None, []),
        ("kill", 30, None, ["will spurious"]),
        ("kill", 1, will("c!2"), ["will spurious"]),
        ("taken", 1, None, []),
        ("taken", -9, None, ["will spurious"]),
    ],
)
def test_a_cancelled_will_is_back_if_its_node_ends_at_once(end: str, after_s: int, last: Any, found: list[str]) -> None:
    """The disk, or the copy, need not have the end of the will."""
    made, connection = builder(will=will(delay_s=90))
    made.close(connection)
    made.now += 10
    later = made.connect("c", present=True, will=last)
    if end == "kill":
        made.now = later.opened_at + after_s
        made.fault("kill")
        made.start()
    else:
        made.history.slot_arrivals[slot_of("", "c")] = [later.opened_at + after_s]
    made.deliver("c!1", WATCHER)
    assert [text for text in kinds(made) if text == "will spurious"] == found


def test_a_delayed_will_comes_neither_early_nor_late() -> None:
    made, connection = builder(will=will(delay_s=50))
    made.close(connection)
    made.event("will.fire", "c")
    made.deliver("c!1", WATCHER)
    made.now += 100
    assert kinds(made) == ["will early", "will late"]


def test_the_end_of_the_session_does_not_wait_for_the_delay() -> None:
    """A will waits for its delay or for the end of the session, whichever is first [MQTT5-3.1.3-9]."""
    made, connection = builder(will=will(delay_s=50), expiry_s=0)
    made.close(connection)
    made.event("will.fire", "c")
    made.deliver("c!1", WATCHER)
    made.now += 100
    assert kinds(made) == []


def test_qos_1_may_be_repeated_after_a_kill() -> None:
    made, connection = builder(will=will(qos=1))
    made.close(connection)
    made.event("will.fire", "c")
    for _ in range(2):
        made.deliver("c!1", WATCHER, qos=1)
    made.now += 10
    assert kinds(made) == ["will twice"]
    made.start()
    assert kinds(made) == []


def test_a_watcher_of_a_node_without_a_lease_may_miss_wills() -> None:
    """Policy on: other nodes do not know its route yet (3 nodes, seed 301)."""
    made, connection = builder(will=will())
    made.history.subscriptions[0].without_lease = True
    made.close(connection)
    made.event("will.fire", "c")
    made.now += 10
    assert kinds(made) == []


def test_a_watcher_may_miss_a_will_after_a_kill_of_its_node() -> None:
    """Its queue may be unwritten at the kill (5 nodes, seed 1613)."""
    made, connection = builder(will=will(qos=1))
    made.history.connections[WATCHER][0].node = "n2"
    made.close(connection)
    made.event("will.fire", "c")
    for _ in range(2):
        made.deliver("c!1", WATCHER, qos=1)
    made.now += 10
    assert kinds(made) == ["will twice"]
    made.history.life("n2").starts.append(made.now)
    assert kinds(made) == []


@pytest.mark.parametrize(("fired", "lost"), [("never", 1), ("before CONNACK", 0), ("after it", 0)])
def test_a_will_may_be_lost_with_the_only_node_that_has_it(fired: str, lost: int) -> None:
    """Watchers at other nodes were away when the will was sent (H-19). CONNACK may come after that (5 nodes, seed
    103393)."""
    made, first = builder(will=will())
    made.close(first)
    made.event("conn.open", "c")
    made.event("will.fire", "c")
    made.deliver("c!1", WATCHER)
    made.event("conn.open", "c")
    if fired == "before CONNACK":
        made.event("will.fire", "c")
    made.close(made.connect("c", present=False, will=will("c!2")))
    if fired == "after it":
        made.event("will.fire", "c")
    made.now += 10
    case = made.case()
    case.scattered = True
    assert [text.split(":")[0] for text in check(case)] == ["will lost"]
    made.fault("stop")
    assert len(list(check(case))) == lost


def test_a_watcher_whose_subscription_was_lost_with_a_disk_misses_wills() -> None:
    """A session of the same client was made on the new disk, and its CONNACK was lost (3 nodes, seed 227083)."""
    made, _ = builder()
    made.now += 1
    made.history.life("n1").emptied.append(made.now)
    made.close(made.connect("d", will=will("d!1")))
    made.now += 10
    assert kinds(made) == []
    made.history.life("n1").emptied.clear()
    assert kinds(made) == ["will lost", "will late"]


def test_a_will_of_a_slot_outlives_the_node_that_sends_it() -> None:
    """H-50: the next primary sends it again."""
    made, connection = builder(will=will())
    made.close(connection)
    made.event("will.fire", "c", origin="#7")
    made.now += 10
    case = made.case()
    case.scattered = True
    made.fault("stop")
    assert [text.split(":")[0] for text in check(case)] == ["will lost"]


@pytest.mark.parametrize(("after_s", "lost"), [(2, []), (30, ["will lost"])])
def test_a_clean_start_soon_after_the_end_may_cancel_a_will_in_a_slot(after_s: int, lost: list[str]) -> None:
    made, connection = builder(will=will(), expiry_s=0)
    made.history.copied = True
    made.close(connection)
    made.now += after_s
    made.connect("c", present=False, clean=True)
    case = made.case()
    case.relay_s = 1
    assert [text.split(":")[0] for text in check(case) if "late" not in text] == lost
    case.relay_s = 0
    made.history.copied = False
    assert "will lost" in [text.split(":")[0] for text in check(case)]


def test_a_will_may_come_if_the_slot_was_taken_over_although_the_next_connect_was_refused() -> None:
    """The next primary does not know of the DISCONNECT (3 nodes, copies, seed 8116)."""
    made, connection = builder(will=will(), polite=True)
    made.history.copied = True
    made.now += 1
    made.close(connection)
    connection.pipe = SimpleNamespace(over_at=made.now, to_node=SimpleNamespace(under_way=0))
    made.event("will.fire", "c")
    made.deliver("c!1", WATCHER)
    refused = made.connect("c")
    refused.opened, refused.opened_at = NEVER, 0.0
    assert kinds(made) == ["will spurious"]
    made.history.slot_arrivals[slot_of("", "c")] = [connection.opened_at + 0.5]
    assert kinds(made) == []


@pytest.mark.parametrize(("read_after_s", "found"), [(0.1, ["will spurious"]), (4.0, [])])
def test_a_will_may_come_if_the_slot_was_taken_over_before_the_primary_read_the_disconnect(
    read_after_s: float, found: list[str]
) -> None:
    """The primary stood still, and the client was back before another node took over (seed 5500280)."""
    made, connection = builder(will=will(), polite=True)
    made.history.copied, connection.expiry_s = True, 0
    made.now += 1
    made.close(connection)
    closed_at = made.now
    connection.pipe = SimpleNamespace(over_at=made.now, to_node=SimpleNamespace(under_way=0))
    assert made.connect("c").opened_at < closed_at + 3
    made.now = closed_at + 3
    made.history.slot_arrivals[slot_of("", "c")] = [made.now]
    made.event("will.fire", "c")
    made.deliver("c!1", WATCHER)
    made.now = closed_at + read_after_s
    made.event("sess.end", "c")
    made.now = closed_at + 5
    assert kinds(made) == found


def gateway_ends(kind: str, fires: str = "after it", back_s: float = 0, **fields: Any) -> tuple[HistoryBuilder, Any]:
    """The gateway n2 of a client of the primary n1 ends, n1 publishes its will, and the client is back 3 s after the
    end, or `back_s` later."""
    made, connection = builder(**{"expiry_s": 600, "gateway": "n2", "will": will(), **fields})
    made.now += 0.5
    if fires == "before it":
        made.event("will.fire", "c")
    made.now += 0.5
    if kind == "stop":
        made.history.faults.append(Fault("stop", made.history.next(), made.now, "n2"))
    made.history.life("n2").ends.append(made.now + (6 if kind == "stop" else 0))
    made.close(connection)
    if fires == "after it":
        made.event("will.fire", "c")
    made.now += back_s
    made.connect("c", present=True, expiry_s=600)
    return made, connection


def judged(made: HistoryBuilder, watched: bool) -> list[str]:
    """The kinds of the violations if the watcher gets the will, or sees no wills of that time."""
    if watched:
        made.deliver("c!1", WATCHER)
    else:
        made.history.subscriptions[0].granted = made.history.next()
    case = made.case()
    case.relay_s = 30.0
    return [text.split(":")[0] for text in check(case)]


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("kind", ["stop", "kill"])
def test_no_will_for_the_end_of_a_gateway_if_the_client_is_back(kind: str, watched: bool) -> None:
    """H-39 (3 nodes, copies and small, seed 9400080)."""
    assert judged(gateway_ends(kind)[0], watched) == ["will spurious"]
    made, _ = gateway_ends(kind, expiry_s=0)
    made.history.copied = True
    assert judged(made, watched) == ["will spurious"]


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("kind", ["stop", "kill"])
@pytest.mark.parametrize(
    "other",
    [
        {"gateway": "n1"},
        {"gateway": "n3"},
        {"back_s": 2},
        {"expiry_s": 0},
        "the primary stops",
        "the primary dies",
        "the primary had given up the gateway",
        "the client has gone before",
        "it never came back",
        "another node serves it",
    ],
)
def test_a_will_that_another_end_explains(other: Any, kind: str, watched: bool) -> None:
    made, connection = gateway_ends(kind, **(other if isinstance(other, dict) else {}))
    later = made.history.connections["c"][1]
    if other == "the primary stops":
        made.history.faults.append(Fault("stop", made.history.next(), later.opened_at - 0.5, "n1"))
    elif other == "the primary dies":
        made.history.life().ends.append(later.opened_at - 0.5)
    elif other == "the primary had given up the gateway":
        made.history.given_up["c"] = connection.opened_at + 0.5
    elif other == "the client has gone before":
        connection.closed_at = connection.opened_at + 0.5
    elif other == "it never came back":
        later.opened = NEVER
    elif other == "another node serves it":
        later.node = "n3"
    assert "will spurious" not in judged(made, watched)


@pytest.mark.parametrize("row", ["of a second connection", "before the end", "later", "of another client"])
def test_a_will_that_nobody_watches_is_known_by_its_row(row: str) -> None:
    made, connection = gateway_ends("stop", "before it" if row == "before the end" else "after it")
    at_s, event = made.history.events[-1]
    if row == "of a second connection":
        connection.number = 2
    elif row == "later":
        made.history.events[-1] = made.now + 1, event
    elif row == "of another client":
        made.history.events[-1] = at_s, {**event, "client": "d"}
    assert judged(made, False) == []


def test_a_will_after_disconnect_that_nobody_watches_is_not_judged() -> None:
    made, _ = gateway_ends("stop", polite=True)
    assert judged(made, False) == []


@pytest.mark.parametrize(
    ("reason", "seen", "wrong"),
    [
        ("disconnect", True, []),
        (PEER_CLOSED, False, ["disconnect unheard"]),
        ("gateway_lost", False, []),
        ("gateway_lost", True, ["disconnect unheard"]),
        ("moved", True, []),
    ],
)
@pytest.mark.parametrize("polite", [True, False])
def test_a_node_that_has_all_packets_handles_disconnect(
    reason: str, seen: bool, wrong: list[str], polite: bool
) -> None:
    """H-19. A node that gives up the gateway may lack the last packets, unless it was seen with them."""
    made, connection = builder(polite=polite)
    made.history.events.append((connection.asked_at, row("conn.open")))
    made.close(connection)
    if seen:
        made.history.leaving["c"] = [(made.now, connection.node)]
    made.tick()
    made.history.events.append((made.now, row("conn.close", reason=reason)))
    made.history.events.append((made.now, row("conn.close", conn=8, reason=PEER_CLOSED)))
    assert kinds(made) == (wrong if polite else [])


def row(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "client": "c", "node": FIRST, "boot": 1, "conn": 7, **fields}
