"""From rows to a world: sessions, subscriptions, connections, moves, deaths."""

from __future__ import annotations

import pytest

from strogoff.cluster.identity import slot_of
from strogoff.judge.rows import BEFORE, NEVER
from strogoff.judge.run import Grouped
from strogoff.judge.sessions import Session
from strogoff.judge.world import World

from ..testing.log_audit.log_builder import NODE, Log, two_nodes

OWNER = (NODE, "", "rx")


def world(log: Log) -> World:
    return Grouped(log.rows).world()


def held(found: World, session: Session, topic: str, stamp: int) -> list[tuple[str | None, str, int]]:
    """The subscriptions of a session that match a topic at a stamp: group, filter, QoS."""
    return [
        (each.group, each.filter, each.qos)
        for holders in found.subscriptions.matching("", topic)
        for each in holders.of(session.key, stamp, stamp)
    ]


def test_sessions_follow_each_other() -> None:
    """A client's sessions are numbered; each has its own subscriptions."""
    log = Log()
    log.subscriber("rx", "a")
    log.say("conn.close", client="rx", reason="session_taken_over")
    log.say("sess.end", client="rx", reason="clean_start")
    log.subscriber("rx", "b")
    found = world(log)
    one, two = found.sessions[OWNER]
    assert (one.number, two.number, str(two)) == (1, 2, "rx (session 2)")
    assert held(found, one, "a", one.ended) == [(None, "a", 2)] and held(found, one, "b", NEVER - 1) == []
    assert one.ended < two.begun
    assert [found.session_at(OWNER, each.begun) for each in (one, two)] == [one, two]
    assert found.session_at(OWNER, one.ended) is None


def test_a_subscription_is_replaced_or_removed() -> None:
    """It matches from its SUBSCRIBE to its end."""
    log = Log()
    log.subscriber("rx", "t/#", 1)
    log.accept()
    log.say("sub.add", client="rx", filter="t/#", qos=2)
    replaced = log.rows[-1]["hlc"]
    log.say("sub.add", client="rx", filter="$share/g/t/#", qos=1)
    log.say("sub.del", client="rx", filter="t/#")
    removed = log.rows[-1]["hlc"]
    found = world(log)
    (session,) = found.sessions[OWNER]
    assert held(found, session, "t/1", replaced - 1) == [(None, "t/#", 1)]
    assert held(found, session, "t/1", replaced + 1) == [(None, "t/#", 2)]
    assert held(found, session, "t/1", removed + 1) == [("g", "t/#", 1)]


def test_a_later_session_does_not_change_subscriptions_of_an_earlier_one() -> None:
    """They end with their session, whatever the next one unsubscribes from."""
    log = Log()
    log.subscriber("rx", "a")
    log.say("conn.close", client="rx", reason="session_taken_over")
    log.say("sess.end", client="rx", reason="clean_start")
    log.connect("rx")
    log.say("sub.del", client="rx", filter="a")
    (holders,) = world(log).subscriptions.matching("", "a")
    assert [(each.session, each.until) for several in holders.held.values() for each in several] == [
        ((OWNER, 1), NEVER)
    ]


def test_which_sessions_outlive_a_connection() -> None:
    """CONNACK said so, it was resumed, or a part of it was safe on a disk."""
    log = Log()
    for client in ("resumed", "stored", "clean"):
        log.subscriber(client)
    log.subscriber("lasting", expiry_s=60)
    log.connect("resumed", present=True)
    log.route(log.accept(), "stored")
    sessions = world(log).sessions
    assert {client: each[0].durable for (_, _, client), each in sessions.items()} == {
        "resumed": True,
        "stored": True,
        "clean": False,
        "lasting": True,
    }


def test_a_later_session_is_durable_by_its_own_messages() -> None:
    """The first session of the client was clean; sessions are told apart by their epoch."""
    log = Log()
    log.subscriber("rx")
    log.say("conn.close", client="rx", reason="session_taken_over")
    log.say("sess.end", client="rx", reason="clean_start")
    log.subscriber("rx")
    log.route(log.accept(), "rx")
    assert [each.durable for each in world(log).sessions[OWNER]] == [False, True]


def test_sessions_from_before_the_log() -> None:
    """A session that the log only continues began before it; one that has no row but of messages is unknown."""
    log = Log()
    log.connect("old", present=True)
    log.send((NODE, 1, 1), "older")
    found = world(log)
    (old,) = found.sessions[NODE, "", "old"]
    assert (old.begun, old.ended, old.known) == (BEFORE, NEVER, False)
    assert (NODE, "", "older") not in found.sessions


def test_a_mountpoint_has_its_own_clients_and_topics() -> None:
    """Rows without mountpoint have that of their connection."""
    log = Log()
    log.say("conn.open", client="rx", mountpoint="m", conn=7)
    log.say("sess.create", client="rx", mountpoint="m")
    log.say("sub.add", client="rx", mountpoint="m", filter="t", qos=1)
    log.say("dlv.ack", mid=(NODE, 1, 1), client="rx", conn=7)
    found = world(log)
    assert list(found.sessions) == [(NODE, "m", "rx")]
    assert found.owner_of(log.rows[-1]) == (NODE, "m", "rx")
    assert found.subscriptions.matching("", "t") == () and len(found.subscriptions.matching("m", "t")) == 1


def test_a_session_keeps_its_name_when_it_moves() -> None:
    """Rows of its new node are of the same owner from the arrival of its slot on; before, the name meant another."""
    a, b = two_nodes()
    b.say("mem.up", target="a")
    a.subscriber(expiry_s=60)
    b.say("slot.arrive", slot=slot_of("", "rx"))
    arrived = b.rows[-1]["hlc"]
    b.connect("rx", present=True)
    found = Grouped([*a.rows, *b.rows]).world()
    (session,) = [each for several in found.sessions.values() for each in several]
    assert found.owner("b", "", "rx", arrived) == ("a", "", "rx") == session.owner
    assert found.owner("b", "", "rx", arrived - 1) == ("b", "", "rx")
    assert [session.home_at(stamp).node for stamp in (arrived - 1, arrived)] == ["a", "b"]
    assert found.died(session, arrived + 1) is False
    session.durable = False
    assert found.died(session, arrived + 1) is True


def test_a_node_that_has_lost_the_slot_again_begins_sessions_of_its_own() -> None:
    """Its rows are of another owner as soon as it knows. The session that it had goes on at the next primary."""
    a, b = two_nodes()
    slot = slot_of("", "rx")
    a.subscriber(expiry_s=60)
    b.say("slot.arrive", slot=slot)
    b.connect("rx", present=True)
    a.say("slot.arrive", slot=slot)
    before = a.rows[-1]["hlc"]
    b.say("slot.taken", slot=slot, target="a")
    b.connect("rx")
    found = Grouped([*a.rows, *b.rows]).world()
    assert found.owner("b", "", "rx", before) == ("a", "", "rx")
    assert found.owner_of(b.rows[-1]) == ("b", "", "rx")
    (one,), (two,) = found.sessions["a", "", "rx"], found.sessions["b", "", "rx"]
    assert (one.ended, one.forgotten, one.home.node) == (NEVER, False, "a") and two.known


@pytest.mark.parametrize("first", ["arrive", "taken"])
@pytest.mark.parametrize(
    ("kind", "owner"), [("clean", "a"), ("will", "b"), ("durable", "b"), ("gone", "b")], ids=lambda each: each
)
def test_a_clean_session_keeps_its_name_at_a_node_that_has_lost_the_slot(kind: str, owner: str, first: str) -> None:
    """It is not in the slot: its client stays connected there. `gone`: it began at the node that has died. `first`: the
    next primary says that it has the slot, or the former one says that it has it no more."""
    a, b, c = nodes("a", "b", "c")
    a.connect("rx")
    a.say("fault.kill", nodes=["a"])
    b.say("slot.arrive", slot=SLOT)
    if kind != "gone":
        b.connect("rx", will=kind == "will", expiry_s=60 if kind == "durable" else 0)
    if first == "arrive":
        c.say("slot.arrive", slot=SLOT)
    b.say("slot.taken", slot=SLOT, target="c")
    if first == "taken":
        c.say("slot.arrive", slot=SLOT)
    assert built(a, b, c).owner("b", "", "rx", NEVER) == (owner, "", "rx")


def test_a_refused_subscription_is_not_answered() -> None:
    """The first SUBACK was lost with its node; the next SUBSCRIBE is refused, and the one after that is not."""
    log = Log()
    log.connect("rx", expiry_s=60)
    log.say("sub.add", client="rx", filter="t/#", qos=2)
    log.boot()
    log.connect("rx", present=True)
    log.say("sub.ack", client="rx", filters=["x", "t/#"], codes=["2", "128"])
    refused = log.rows[-1]["hlc"]
    log.subscribe("rx")
    (holders,) = world(log).subscriptions.matching("", "t/1")
    first, last = (each for several in holders.held.values() for each in several)
    assert first.answered == NEVER and refused < last.answered < NEVER


def test_sessions_on_a_disk_that_the_cluster_gave_up_have_ended() -> None:
    """Each node says it when it learns of the view; what the target has got since then stays."""
    a, b = two_nodes()
    for client in ("rx", "clean"):
        a.subscriber(client, expiry_s=60 if client == "rx" else 0)
    slots = ["0-200", "201", "202-255"]
    b.say("slot.lost", target="a", count=256, slots=slots, view=6)
    lost = b.rows[-1]["hlc"]
    a.boot()
    a.subscriber("rx", expiry_s=60)
    a.say("slot.lost", target="a", count=256, slots=slots, view=6)
    found = Grouped([*a.rows, *b.rows]).world()
    assert [each.ended for each in found.sessions["a", "", "rx"]] == [lost, NEVER]
    assert [each.ended for each in found.sessions["a", "", "clean"]] == [NEVER]
    assert not any(each.forgotten for each in found.sessions["a", "", "rx"])


@pytest.mark.parametrize("expiry_s", [0, 60])
def test_what_a_node_without_a_lease_has_ended_goes_on_if_it_lasts(expiry_s: int) -> None:
    """The next primary has the durable session, and no clean one without a will."""
    a, b = two_nodes()
    a.say("lease.get", view=1)
    a.subscriber(expiry_s=expiry_s)
    a.say("lease.lose", view=1)
    a.say("sess.end", client="rx", reason="disconnected")
    b.say("slot.arrive", slot=slot_of("", "rx"))
    found = Grouped([*a.rows, *b.rows]).world()
    (session,) = found.sessions["a", "", "rx"]
    assert (session.ended == NEVER) is (expiry_s > 0)


SLOT = slot_of("", "rx")


def nodes(*names: str) -> list[Log]:
    """Nodes whose rows have one clock."""
    logs = [Log(name) for name in names]
    for log in logs:
        log._now = logs[0]._now
        log._events._now_ms = lambda: next(logs[0]._now)
    return logs


def built(*logs: Log) -> World:
    return Grouped([row for log in logs for row in log.rows]).world()


def homes(found: World, node: str, number: int = 1) -> tuple[list[str], bool]:
    """Where a session was that began at a node, and whether it has not ended."""
    session = found.sessions[node, "", "rx"][number - 1]
    return [each.node for each in session.homes], session.ended == NEVER


@pytest.mark.parametrize("closed", [False, True])
def test_a_will_that_comes_while_its_client_is_connected_is_of_a_former_connection(closed: bool) -> None:
    """It was in doubt. The present one is still armed, so its clean session goes with the slot."""
    a, b = nodes("a", "b")
    for _ in range(2):
        a.connect("rx", will=True)
        a.say("conn.close", client="rx", reason="session_taken_over")
        a.say("sess.end", client="rx", reason="disconnected")
    a.connect("rx", will=True)
    if closed:
        a.say("conn.close", client="rx", reason="peer_closed")
    a.say("will.fire", client="rx", topic="will", mid=("a", 1, 50))
    b.say("slot.arrive", slot=SLOT)
    assert homes(built(a, b), "a", 3)[0] == (["a"] if closed else ["a", "b"])


@pytest.mark.parametrize("restarts", [False, True])
def test_a_will_that_comes_from_the_next_boot_is_of_the_last_connection(restarts: bool) -> None:
    """The kill has ended that connection, without a row. Only a session with a will goes on elsewhere."""
    a, b = nodes("a", "b")
    a.connect("rx", will=True)
    if restarts:
        a.boot()
    a.say("lease.get", view=1)
    a.say("will.fire", client="rx", topic="will", mid=("a", 1, 50))
    a.say("lease.lose", view=1)
    a.say("sess.end", client="rx", reason="disconnected")
    b.say("slot.arrive", slot=SLOT)
    assert homes(built(a, b), "a") == ((["a"], False) if restarts else (["a", "b"], True))


@pytest.mark.parametrize("newer", [True, False])
def test_a_session_that_the_next_primary_has_already_replaces_older_ones(newer: bool) -> None:
    """A dead node had a clean session of the client, whose gateway is now the next primary."""
    a, b = nodes("a", "b")
    if newer:
        a.subscriber("rx")
        b.subscriber("rx")
    else:
        b.subscriber("rx")
        a.subscriber("rx")
    a.say("fault.kill", nodes=["a"])
    b.say("slot.arrive", slot=SLOT)
    found = built(a, b)
    assert homes(found, "a") == ((["a"], False) if newer else (["a", "b"], True))
    assert found.owner("b", "", "rx", NEVER) == ("b" if newer else "a", "", "rx")


@pytest.mark.parametrize("connected", [True, False])
def test_a_session_that_came_with_its_slot_ends_because_its_client_has_a_later_one(connected: bool) -> None:
    """A node dies. Its client connects to the next primary, and the slot arrives there later, with the older session
    (3 nodes, copies, seed 40100182)."""
    a, b = nodes("a", "b")
    a.subscriber("rx")
    b.subscriber("rx")
    if not connected:
        b.say("conn.close", client="rx", reason="disconnect")
    a.say("fault.kill", nodes=["a"])
    b.say("sess.end", client="rx", reason="clean_start")
    b.say("slot.arrive", slot=SLOT)
    found = built(a, b)
    assert homes(found, "b") == (["b"], connected)
    assert homes(found, "a") == ((["a"], False) if connected else (["a", "b"], True))


@pytest.mark.parametrize("there", [True, False])
def test_a_session_from_before_the_log_goes_with_its_slot(there: bool) -> None:
    """If the next primary has one from before the log, too, the log does not show which is the newer one."""
    a, b = nodes("a", "b")
    a.connect("rx", present=True, expiry_s=60)
    if there:
        b.connect("rx", present=True, expiry_s=60)
    b.say("slot.arrive", slot=SLOT)
    found = built(a, b)
    assert homes(found, "a") == (["a"] if there else ["a", "b"], True)
    assert found.owner("b", "", "rx", NEVER) == ("b" if there else "a", "", "rx")


def test_of_two_sessions_the_one_from_before_the_log_has_ended() -> None:
    a, b, c = nodes("a", "b", "c")
    a.connect("rx", present=True, expiry_s=60)
    c.connect("rx", expiry_s=60)
    b.say("slot.arrive", slot=SLOT)
    found = built(a, b, c)
    assert homes(found, "a") == (["a"], False) and homes(found, "c") == (["c", "b"], True)


def test_a_session_that_died_with_the_next_primary_replaces_none() -> None:
    """It was clean, and is not there any more."""
    a, b = nodes("a", "b")
    a.connect("rx", will=True)
    b.subscriber("rx")
    b.boot()
    b.say("slot.arrive", slot=SLOT)
    assert homes(built(a, b), "a") == (["a", "b"], True)


@pytest.mark.parametrize("dies", [True, False])
def test_a_gateway_keeps_the_client_of_a_primary_that_is_dead(dies: bool) -> None:
    """The dead node had the session of the slot. If none of two nodes dies, the newer session is taken for that one."""
    a, b, c = nodes("a", "b", "c")
    a.connect("rx", will=True)
    c.connect("rx", will=True)
    b.say("slot.arrive", slot=SLOT)
    if dies:
        a.boot()  # the log shows only now that it had died
    found = built(a, b, c)
    assert homes(found, "a") == ((["a", "b"], True) if dies else (["a"], False))
    assert homes(found, "c") == (["c"] if dies else ["c", "b"], True)


@pytest.mark.parametrize("away", ["a", "c", "back", ""])
def test_a_gateway_keeps_the_client_of_a_primary_that_is_out_of_the_view(away: str) -> None:
    """The node runs on. It loses its slots while the next primary's view lacks it; when that view has it again, it does
    not."""
    a, b, c = nodes("a", "b", "c")
    for node in ("a", "c"):
        b.say("mem.up", target=node, view=1)
    a.connect("rx", will=True)
    if away:
        b.say("mem.down", target=away.replace("back", "a"), view=2)
    c.connect("rx", will=True)
    if away == "back":
        b.say("mem.up", target="a", view=3)
    b.say("slot.arrive", slot=SLOT)
    found = built(a, b, c)
    moved = "a" if away == "a" else "c"
    assert [homes(found, node)[0] for node in ("a", "c")] == [
        [node, "b"] if node == moved else [node] for node in ("a", "c")
    ]
    assert homes(found, "c")[1] and homes(found, "a")[1] is (away == "a")


def test_the_session_of_a_dead_node_that_had_rows_later_is_not_that_of_the_slot() -> None:
    """It died after the slot had gone."""
    a, b, c = nodes("a", "b", "c")
    a.connect("rx", will=True)
    c.connect("rx", will=True)
    b.say("slot.arrive", slot=SLOT)
    a.say("node.stats", connects=1, publishes=0, deliveries=0, drops={})
    a.boot()
    assert homes(built(a, b, c), "a") == (["a"], False)


@pytest.mark.parametrize("primary", ["a", "c", ""])
@pytest.mark.parametrize("copied", [False, True])
def test_the_session_of_the_last_primary_is_that_of_the_slot(primary: str, copied: bool) -> None:
    """The log shows where the slot had arrived last, or which node has copied it."""
    a, b, c = nodes("a", "b", "c")
    for log in (a, c):
        if log.node == primary and copied:
            log.say("slot.copied", slot=SLOT, target="b", bytes=1)
        elif log.node == primary:
            log.say("slot.arrive", slot=SLOT)
    for log in (a, c):
        log.connect("rx", will=True)
    b.say("slot.arrive", slot=SLOT)
    found = built(a, b, c)
    moved = "a" if primary == "a" else "c"
    assert [homes(found, node)[0] for node in ("a", "c")] == [
        [node, "b"] if node == moved else [node] for node in ("a", "c")
    ]
    assert homes(found, "c")[1] and homes(found, "a")[1] is (primary == "a")


@pytest.mark.parametrize("primary", ["a", "c", "unknown"])
def test_a_node_without_the_slot_ends_its_own_session_for_good(primary: str) -> None:
    """It has no lease. The next primary has the session of the former one, and knows nothing of this end if that was
    the node. If the log does not show the former one, that is a node that has left the view."""
    a, b, c = nodes("a", "b", "c")
    c.say("lease.get", view=1)
    if primary == "unknown":
        b.say("mem.up", target="a", view=1)
        b.say("mem.down", target="a", view=2)
    else:
        (a if primary == "a" else c).say("slot.copied", slot=SLOT, target="b", bytes=1)
    a.connect("rx", will=True)
    c.say("lease.lose", view=1)
    c.connect("rx", will=True)
    c.say("sess.end", client="rx", reason="restart")
    ended = c.rows[-1]["hlc"]
    b.say("slot.arrive", slot=SLOT)
    found = built(a, b, c)
    assert homes(found, "a") == ((["a"], False) if primary == "c" else (["a", "b"], True))
    assert homes(found, "c") == ((["c", "b"], True) if primary == "c" else (["c"], False))
    assert (found.sessions["c", "", "rx"][0].ended == ended) is (primary != "c")


@pytest.mark.parametrize("how", ["copied", "arrived"])
@pytest.mark.parametrize("primary", ["a", "c", ""])
def test_the_end_at_a_node_without_the_slot_is_final_if_the_primary_has_no_session(primary: str, how: str) -> None:
    """A client whose CONNECT waits for its CONNACK there has no session yet, but perhaps a will."""
    a, b, c = nodes("a", "b", "c")
    c.say("lease.get", view=1)
    for log in (a, c):
        if log.node == primary and how == "copied":
            log.say("slot.copied", slot=SLOT, target="b", bytes=1)
        elif log.node == primary:
            log.say("slot.arrive", slot=SLOT)
    c.say("lease.lose", view=1)
    c.connect("rx", will=True)
    c.say("sess.end", client="rx", reason="disconnected")
    a.say("will.arm", client="rx", topic="will")
    b.say("slot.arrive", slot=SLOT)
    found = built(a, b, c)
    assert homes(found, "c") == ((["c"], False) if primary == "a" else (["c", "b"], True))
    assert found.owner("b", "", "rx", NEVER) == ("a" if primary == "a" else "c", "", "rx")


@pytest.mark.parametrize("how", ["", "before", "to another", "arrived", "said late", "durable"])
def test_a_session_that_begins_behind_the_move_of_its_slot_does_not_go_with_it(how: str) -> None:
    """A node that has given the slot away, and does not reach the next primary, serves the client without the slot."""
    a, b, c = nodes("a", "b", "c")
    expiry_s = 60 if how == "durable" else 0
    if how == "before":
        a.connect("rx", will=True)
    if how == "said late":
        b.say("slot.arrive", slot=SLOT)
    a.say("slot.moved", slot=SLOT, target="c" if how == "to another" else "b", sessions=1, bytes=0)
    if how == "arrived":
        c.say("slot.arrive", slot=SLOT)
    if how != "before":
        a.connect("rx", will=True, expiry_s=expiry_s)
    b.say("slot.arrive", slot=SLOT)
    found = built(a, b, c)
    assert homes(found, "a") == (["a", "b"] if how else ["a"], True)
    assert found.owner("b", "", "rx", NEVER) == ("a" if how else "b", "", "rx")


@pytest.mark.parametrize(("ends", "ended"), [("a", False), ("b", True)])
def test_a_former_node_does_not_end_a_session_that_another_one_has_taken_over(ends: str, ended: bool) -> None:
    """It stood still. The session goes on where its client has resumed it."""
    a, b = nodes("a", "b")
    a.connect("rx", expiry_s=60)
    b.say("slot.arrive", slot=SLOT)
    b.connect("rx", present=True, expiry_s=60)
    (a if ends == "a" else b).say("sess.end", client="rx", reason="disconnected")
    assert homes(built(a, b), "a") == (["a", "b"], not ended)


@pytest.mark.parametrize("dropped", [True, False])
def test_a_clean_session_ends_at_the_node_of_its_connection(dropped: bool) -> None:
    """Its slot is elsewhere. A will that is not dropped goes on there, and so does the session."""
    a, b = nodes("a", "b")
    a.connect("rx", will=True)
    b.say("slot.arrive", slot=SLOT)
    a.say("conn.close", client="rx", reason="disconnect")
    if dropped:
        a.say("will.cancel", client="rx", topic="will", reason="disconnected")
    a.say("sess.end", client="rx", reason="disconnected")
    assert homes(built(a, b), "a") == (["a", "b"], not dropped)


@pytest.mark.parametrize("kind", ["durable", "will"])
def test_a_session_with_state_is_rather_in_the_slot_than_a_newer_one_without(kind: str) -> None:
    """Both nodes have died. Gateways have sessions with less state."""
    a, b, c = nodes("a", "b", "c")
    a.connect("rx", will=True, expiry_s=60 if kind == "durable" else 0)
    c.connect("rx", will=kind == "durable")
    for log in (a, c):
        log.say("fault.kill", nodes=[log.node])
    b.say("slot.arrive", slot=SLOT)
    found = built(a, b, c)
    assert homes(found, "a") == (["a", "b"], True) and homes(found, "c") == (["c"], True)


@pytest.mark.parametrize("copies", ["1", "2", ""])
def test_a_clean_session_with_a_will_is_in_its_slot_if_slots_have_copies(copies: str) -> None:
    """With one copy its client stays connected where it is."""
    a, b = nodes("a", "b")
    if copies:
        a.say("config.change", key="queue_replicas", new=copies)
    a.connect("rx", will=True)
    a.subscribe()
    a.say("slot.moved", slot=SLOT, target="b", sessions=0, bytes=0)
    b.say("slot.arrive", slot=SLOT)
    (session,) = built(a, b).sessions["a", "", "rx"]
    assert [each.node for each in session.homes] == (["a"] if copies == "1" else ["a", "b"])


@pytest.mark.parametrize("joins", [True, False])
def test_a_node_that_joins_with_an_empty_disk_begins_sessions_of_its_own(joins: bool) -> None:
    """It has no sessions of the slots that it had."""
    a, b, c = nodes("a", "b", "c")
    a.connect("rx", will=True, expiry_s=60)
    b.say("slot.arrive", slot=SLOT)
    b.boot()
    c.say("slot.arrive", slot=SLOT)
    if joins:
        b.say("node.join", old="cluster-of-b")
    b.connect("rx", will=True)
    found = built(a, b, c)
    assert found.owner_of(b.rows[-1]) == ("b" if joins else "a", "", "rx")
    assert found.owner("c", "", "rx", NEVER) == ("a", "", "rx")


@pytest.mark.parametrize("how", ["taken", "moved"])
@pytest.mark.parametrize("back", ["", "from there", "at once"])
def test_a_node_that_has_lost_the_slot_names_new_sessions_otherwise(how: str, back: str) -> None:
    """The session of the slot keeps its name, also when the slot comes back: from `b`, or before it was there."""
    a, b = nodes("a", "b")
    a.connect("rx", will=True)
    a.say(f"slot.{how}", slot=SLOT, target="b", **({"sessions": 1, "bytes": 0} if how == "moved" else {}))
    a.connect("rx", will=True)
    a.say("sess.end", client="rx", reason="disconnected")
    if back != "at once":
        b.say("slot.arrive", slot=SLOT)
    if back:
        a.say("slot.arrive", slot=SLOT)
    found = built(a, b)
    assert found.owner("a", "", "rx", NEVER) == ("a" if back else "a (2)", "", "rx")
    assert found.owner("b", "", "rx", NEVER) == ("b" if back == "at once" else "a", "", "rx")
    (one,), (two,) = found.sessions["a", "", "rx"], found.sessions["a (2)", "", "rx"]
    assert one.ended == NEVER and two.ended < NEVER
    assert [each.node for each in one.homes] == {"": ["a", "b"], "from there": ["a", "b", "a"]}.get(back, ["a", "a"])


@pytest.mark.parametrize("ends", [True, False])
def test_a_node_has_ended_a_session_before_its_slot_comes_back(ends: bool) -> None:
    a, b = nodes("a", "b")
    a.connect("rx", will=True)
    a.say("slot.taken", slot=SLOT, target="b")
    if ends:
        a.say("sess.end", client="rx", reason="disconnected")
    a.say("slot.arrive", slot=SLOT)
    (session,) = built(a, b).sessions["a", "", "rx"]
    assert (session.ended < NEVER) is ends


def test_a_node_that_joins_does_not_name_its_sessions_as_one_that_is_elsewhere() -> None:
    a, b = nodes("a", "b")
    a.connect("rx", will=True)
    a.say("slot.taken", slot=SLOT, target="b")
    b.say("slot.arrive", slot=SLOT)
    a.say("node.join", old="cluster-of-a")
    a.connect("rx", will=True)
    found = built(a, b)
    assert found.owner_of(a.rows[-1]) == ("a (3)", "", "rx")
    assert homes(found, "a") == (["a", "b"], True)
