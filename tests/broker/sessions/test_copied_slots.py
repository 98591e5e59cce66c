"""A slot with a second copy: what the copy follows, how it becomes the sessions, and how a node loses a slot."""

from __future__ import annotations

from itertools import count, islice
from typing import Any

import pytest

from strogoff.broker.cluster_port import Standalone
from strogoff.broker.queues import session_cleanup
from strogoff.broker.queues.message import Message, Origin
from strogoff.broker.routing.remote import Elsewhere
from strogoff.broker.sessions import slot_sessions as module
from strogoff.broker.sessions import startup
from strogoff.broker.sessions.slot_sessions import ARRIVED, FORGOTTEN, LEAVING
from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from strogoff.netsplit.policy import ViewState
from strogoff.storage import keys
from strogoff.storage.engine import StorageError

from ...harness.broker import BrokerHarness, publish
from ...harness.steps import Steps

SLOT = 9
NAMES = list(islice((name for name in (f"c{n}" for n in count()) if slot_of("", name) == SLOT), 6))
"""Client ids of one slot."""


GONE = packets.Will("will", b"gone", 1)


def late_will(delay_s: int = 30) -> packets.Will:
    return packets.Will("will", b"gone", 1, properties={"will_delay_interval": delay_s})


def copy(primary: BrokerHarness, **options: Any) -> BrokerHarness:
    """Returns another node with a closed copy of the slot, and a watcher of all wills."""
    follower = BrokerHarness(**options)
    watcher = follower.persistent("watcher")
    watcher.subscribe(("will", 1), ("t", 1))
    watcher.leave()
    follower.node.slot_sessions.begin(SLOT)
    for key, value in primary.node.slot_sessions.rows(SLOT):
        follower.node.slot_sessions.apply(key, value)
    follower.node.slot_sessions.mark(SLOT, ARRIVED)
    follower.settle()
    return follower


def wills(broker: BrokerHarness) -> list[bytes]:
    """What the watcher has got since the last call."""
    client = broker.persistent("watcher")
    found = [each.payload for each in client.drain()]
    client.leave()
    return found


def rows_of_slot(broker: BrokerHarness) -> dict[bytes, bytes]:
    broker.commit_late_writes()
    return {key: value for key, value in broker.disk.content().items() if key[:1] in keys.SLOT_KINDS and key[1] == SLOT}


def test_the_rows_of_a_slot_are_those_of_its_sessions() -> None:
    """A client without durable state has none in it, whether its will is due or not."""
    broker = BrokerHarness()
    broker.client(NAMES[0], will=GONE)
    mortal = broker.client(NAMES[1], will=GONE)
    assert list(broker.node.slot_sessions.rows(SLOT)) == []
    broker.node.policy.view_state = ViewState.MINORITY
    mortal.vanish()
    assert list(broker.node.slot_sessions.rows(SLOT)) == [] and len(broker.keys(b"S")) == len(broker.keys(b"Z")) == 1
    broker.node.policy.view_state = ViewState.WHOLE
    broker.persistent(NAMES[2]).subscribe(("t", 1))
    assert {key[:1] for key, _ in broker.node.slot_sessions.rows(SLOT)} == {b"s", b"b", b"e", b"k"}
    assert broker.node.slot_sessions.count(SLOT) == 1 and broker.node.slot_sessions.count(SLOT + 1) == 0


def test_every_row_of_a_slot_is_forgotten() -> None:
    assert sorted(FORGOTTEN) == sorted(keys.SLOT_KINDS + b"vf")
    broker = BrokerHarness()
    broker.client("watcher")
    before = broker.disk.content()
    for kind in keys.SLOT_KINDS + b"vf":
        if kind not in b"bs":
            broker.node.env.store.put(keys.of_slot(b"%c" % kind, SLOT) + bytes(20), bytes(8))
    broker.node.slot_sessions.leave(SLOT)
    assert len(list(broker.node.slot_sessions.forget(SLOT))) == len(FORGOTTEN) - 2
    broker.settle()
    assert broker.disk.content() == before and not broker.node.router.elsewhere


@pytest.mark.parametrize("delay_s", [0, 30])
def test_the_absence_of_a_connected_client_begins_at_the_new_primary(
    delay_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its will and the end of its session count from then, with the grace for failovers."""
    primary = BrokerHarness()
    primary.client(NAMES[0], 5, False, 100, will=late_will(delay_s)).subscribe(("t", 1))
    primary.persistent(NAMES[1]).leave()
    monkeypatch.setattr(Standalone, "failover_grace_s", lambda port: 5)
    follower = copy(primary)
    follower.pass_s(200)
    assert wills(follower) == [] and len(follower.keys(b"e")) == 1
    follower.node.slot_sessions.open(SLOT)
    follower.client("writer").publish("t", b"x", 1, 1)
    due_s = max(delay_s, 5)
    follower.pass_s(due_s - 1)
    assert wills(follower) == [b"x"]
    follower.pass_s(2)
    assert wills(follower) == [b"gone"]
    assert [each.payload for each in follower.client(NAMES[0], 5, False, 100).drain()] == [b"x"]
    follower.pass_s(1)
    follower.restart()
    follower.pass_s(110)
    assert wills(follower) == [] and follower.node.sessions.get("", NAMES[0]) is None
    assert follower.node.sessions.get("", NAMES[1]) is not None


def test_a_client_that_connects_before_its_turn_finds_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its will does not fire; the others begin their absence in later turns, one by one."""
    monkeypatch.setattr(module, "ATTACHED", 1)
    primary = BrokerHarness()
    for name in NAMES:
        primary.client(name, 5, False, 100, will=late_will()).subscribe(("t", 1))
    follower = copy(primary)
    turns = Steps(follower.node.env, monkeypatch)
    follower.node.slot_sessions.open(SLOT)
    assert follower.node.sessions.of_slot(SLOT) == []
    last, connack = follower.connect(NAMES[-1], 5, False, 100, will=late_will())
    assert connack.session_present
    attached = [len(follower.keys(b"e"))]
    assert len(turns) == 1
    while turns:
        turns.pop(0)()
        attached.append(len([key for key in follower.keys(b"e") if not keys.parse_deadline_key(key)[1]]))
    assert attached == [6, 5, 4, 3, 2, 1, 1, 1, 1], "one is connected"
    monkeypatch.undo()
    follower.pass_s(31)
    assert wills(follower) == [b"gone"] * 5
    last.vanish()
    follower.pass_s(31)
    assert wills(follower) == [b"gone"]


@pytest.mark.parametrize("how", ["leave", "lose", "stop"])
def test_absences_stop_to_begin_when_the_slot_closes_again(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ATTACHED", 1)
    primary = BrokerHarness()
    for name in NAMES:
        primary.client(name, 5, False, 100, will=late_will())
    follower = copy(primary)
    turns = Steps(follower.node.env, monkeypatch)
    follower.node.slot_sessions.open(SLOT)
    turns.pop()()
    follower.settle()
    if how == "stop":
        monkeypatch.setattr(follower.node.env.store, "state", "closed")
    else:
        getattr(follower.node.slot_sessions, how)(SLOT)
    turns.pop()()
    assert turns == [] and len(follower.node.sessions.of_slot(SLOT)) == (how == "stop")


def _counted_in_steps(monkeypatch: pytest.MonkeyPatch) -> tuple[BrokerHarness, Steps]:
    """Returns a node that counts the six sessions of the slot two at a time, and has counted two, with its next
    steps."""
    monkeypatch.setattr(startup, "SHOWN", 2)
    primary = BrokerHarness()
    for name in NAMES:
        client = primary.persistent(name)
        client.subscribe(("t", 1))
        client.leave()
    follower = copy(primary)
    assert follower.node.sessions.durable == 1, "the watcher"
    steps = Steps(follower.node.env, monkeypatch)
    follower.node.slot_sessions.open(SLOT)
    assert follower.node.sessions.durable == 3
    return follower, steps


def _count(follower: BrokerHarness, steps: Steps) -> int:
    """Run the steps that are left. Returns the number of durable sessions without the watcher."""
    while steps:
        steps.pop(0)()
    return follower.node.sessions.durable - 1


def test_the_sessions_of_a_slot_are_counted_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    follower, steps = _counted_in_steps(monkeypatch)
    assert _count(follower, steps) == 6


def test_sessions_that_wake_end_and_begin_between_two_steps_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    follower, steps = _counted_in_steps(monkeypatch)
    by_key = sorted(NAMES, key=lambda name: keys.client_key(SLOT, "", name))
    counted, later, ended = by_key[0], by_key[-1], by_key[-2]
    clients = [follower.client(name, 4, False) for name in (counted, later)]
    assert follower.node.sessions.durable == 4, "one of them was counted before"
    follower.client(ended, 4, True).leave()
    assert _count(follower, steps) == 5
    for client in clients:
        client.leave()
    follower.pass_s(60)
    assert follower.node.sessions.durable - 1 == 5


def test_a_slot_that_leaves_between_two_steps_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    follower, steps = _counted_in_steps(monkeypatch)
    follower.node.slot_sessions.leave(SLOT)
    assert follower.node.sessions.durable == 1
    assert _count(follower, steps) == 0
    follower.node.slot_sessions.open(SLOT)
    follower.node.slot_sessions.leave(SLOT)
    follower.node.slot_sessions.open(SLOT)
    assert _count(follower, steps) == 6, "it has come back twice"


def test_a_damaged_disk_ends_the_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    follower, steps = _counted_in_steps(monkeypatch)

    def fail(*_: object) -> None:
        raise StorageError("damaged")

    monkeypatch.setattr(type(follower.node.env.store), "keys", fail)
    assert _count(follower, steps) == 2


def test_a_damaged_disk_ends_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    primary = BrokerHarness()
    primary.client(NAMES[0], 5, False, 100)
    follower = copy(primary)
    turns = Steps(follower.node.env, monkeypatch)
    follower.node.slot_sessions.open(SLOT)

    def fail(*_: object) -> None:
        raise StorageError("damaged")

    monkeypatch.setattr(type(follower.node.env.store), "keys", fail)
    turns.pop()()
    assert turns == [] and not follower.node.slot_sessions._absences


def test_a_clean_start_that_the_former_primary_did_not_see_ends_the_session() -> None:
    """The client is at this node without durable state, when the node becomes the primary."""
    primary = BrokerHarness()
    primary.client(NAMES[0], 5, False, 100, will=late_will()).subscribe(("t", 1))
    follower = copy(primary)
    clean = follower.client(NAMES[0], will=packets.Will("will", b"clean", 1))
    assert follower.node.sessions.durable == 1, "the watcher"
    follower.node.slot_sessions.open(SLOT)
    follower.settle()
    assert follower.node.sessions.durable == 1 and {key[:1] for key in rows_of_slot(follower)} <= {b"k", b"z"}
    assert clean.ask(packets.Pingreq()) == [packets.Pingresp()]
    assert wills(follower) == [b"gone"]
    clean.vanish()
    assert wills(follower) == [b"clean"]
    assert not follower.connect(NAMES[0], 5, False, 100)[1].session_present


def test_a_will_that_waits_moves_with_its_slot() -> None:
    """It does not keep the slot, and only the new node publishes it."""
    primary = BrokerHarness()
    primary.persistent("watcher").subscribe(("will", 1))
    client = primary.persistent(NAMES[0], will=GONE)
    primary.node.policy.view_state = ViewState.MINORITY
    client.vanish()
    assert primary.node.slot_sessions.busy(SLOT) == ""
    primary.node.slot_sessions.leave(SLOT)
    follower = copy(primary)
    primary.node.policy.view_state = ViewState.WHOLE
    primary.pass_s(10)
    assert wills(primary) == [] and wills(follower) == []
    for _ in range(2):
        follower.node.slot_sessions.open(SLOT)
    assert wills(follower) == [b"gone"] and follower.keys(b"z") == []
    primary.node.slot_sessions.open(SLOT)
    assert wills(primary) == [b"gone"], "as if the slot had stayed"


def test_deletions_of_an_ended_session_go_on_at_the_new_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_cleanup, "STEP", 2)
    primary = BrokerHarness()
    client = primary.persistent(NAMES[0])
    client.subscribe(("t", 1))
    client.leave()
    writer = primary.client("writer")
    for number in range(10):
        writer.publish("t", b"x", 1, number + 1)
    primary.hold_disk()
    session = primary.node.sessions.get("", NAMES[0])
    assert session is not None
    session.end("test")
    assert "being deleted" in primary.node.slot_sessions.busy(SLOT)
    follower = copy(primary)
    assert len(follower.keys(b"q")) == 10 and len(follower.keys(b"j")) == 1
    follower.restart()
    follower.pass_s(10)
    assert len(follower.keys(b"q")) == 10
    follower.node.slot_sessions.open(SLOT)
    assert follower.keys(b"q") == follower.keys(b"j") == []


# -- rows of a copy


def matched(broker: BrokerHarness, topic: str) -> list[tuple[str, int]]:
    """Client id and QoS of the sessions of the slot that match, which are not in memory."""
    found = broker.node.router.table("").dormant(topic)
    return sorted([(keys.parse_client_key(each.session.key)[1], each.qos) for each in found])


def test_a_copy_follows_the_subscriptions() -> None:
    broker = BrokerHarness()
    sessions = broker.node.slot_sessions
    client, other = (keys.client_key(SLOT, "", name) for name in NAMES[:2])
    primary = BrokerHarness()
    for qos in (1, 2):
        primary.persistent(NAMES[0]).subscribe(("t", qos), ("$share/g/t", qos))
        found = list(primary.node.slot_sessions.rows(SLOT))
        if qos == 1:
            sessions.begin(SLOT)
        for key, value in found:
            sessions.apply(key, value)
        assert matched(broker, "t") == [(NAMES[0], qos)] * 2 and len(broker.node.router.table("")) == 2
    for unknown in (keys.subscription_prefix(client, 1) + b"x", keys.subscription_prefix(other, 1) + b"t"):
        sessions.apply(unknown, None)
    assert len(broker.node.router.table("")) == 2
    (shared,) = (key for key, _ in found if key.endswith(b"$share/g/t"))
    for _ in range(2):
        sessions.apply(shared, None)
    assert matched(broker, "t") == [(NAMES[0], 2)]
    for key, _ in found:
        sessions.apply(key, None)
    assert matched(broker, "t") == [] and len(broker.node.router.table("")) == 0
    assert rows_of_slot(broker) == {}


def test_a_restarted_copy_reads_no_old_snapshot() -> None:
    """A copy makes snapshots of its own, and notes what its primary changes."""
    primary = BrokerHarness()
    for name in NAMES[:2]:
        primary.persistent(name).subscribe(("a", 1), ("b", 1))
    follower = copy(primary, snapshot_notes=2)
    follower.pass_s(5)
    assert [key for key in follower.keys(b"v") if key[1] == SLOT] and matched(follower, "a") != []
    found = [key for key, _ in primary.node.slot_sessions.rows(SLOT) if key[:1] == b"b" and key[-1:] == b"a"]
    follower.node.slot_sessions.apply(found[0], None)
    follower.settle()
    follower.restart()
    assert len(matched(follower, "a")) == 1 and len(matched(follower, "b")) == 2


def test_sessions_begin_and_end_in_a_slot_that_was_elsewhere() -> None:
    """The table may name this node again, without rows."""
    broker = BrokerHarness(idle_session_s=0)
    broker.node.slot_sessions.begin(SLOT)
    list(broker.node.slot_sessions.forget(SLOT))
    client = broker.client(NAMES[0], 5, False, 10, will=late_will())
    broker.node.policy.view_state = ViewState.MINORITY
    client.ask(packets.Disconnect(4, {"session_expiry_interval": 10}))
    broker.pass_s(5)
    assert broker.node.sessions.durable == 1 and not broker.node.sessions.in_memory()
    broker.node.policy.view_state = ViewState.WHOLE
    broker.pass_s(10)
    assert broker.node.sessions.durable == 0 and rows_of_slot(broker).keys() == {keys.reserved_key(SLOT)}


def test_a_disk_with_a_session_of_the_slot_gets_no_copy_of_it() -> None:
    broker = BrokerHarness()
    assert not broker.node.slot_sessions.strange_rows(SLOT)
    broker.persistent(NAMES[0])
    assert broker.node.slot_sessions.strange_rows(SLOT)


# -- a slot that another node has taken over


def busy_primary() -> tuple[BrokerHarness, dict[str, Any]]:
    """A node with all that a session can have, in the slot: returns the clients by name."""
    broker = BrokerHarness(snapshot_notes=1)
    broker.persistent("watcher").subscribe(("will", 1))
    broker.client("writer").publish("kept", b"k", 1, 1, retain=True)
    clients = {
        "connected": broker.client(NAMES[0], 5, False, 100, will=late_will(0)),
        "absent": broker.client(NAMES[1], 5, False, 50, will=late_will()),
        "member": broker.persistent(NAMES[2]),
        "clean": broker.client(NAMES[3], will=packets.Will("will", b"clean", 1)),
        "mate": broker.client("mate", 5),
    }
    clients["absent"].subscribe(("t", 1))
    clients["absent"].vanish()
    clients["member"].subscribe(("$share/g/s", 1))
    clients["connected"].subscribe(("t", 1), ("t", 2), ("$share/g/s", 1))
    clients["connected"].publish("x", b"1", 2, 7)
    writer = broker.client("writer")
    for number in range(8):
        writer.publish("t", b"t", 1, number + 1)
        writer.publish("s", b"s", 1, number + 101)
    broker.pass_s(5)
    return broker, clients


def test_a_lost_slot_leaves_no_trace_of_its_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """No will, no message to another member, no row: only the connections are closed."""
    broker, clients = busy_primary()
    node = broker.node
    before = rows_of_slot(broker)
    assert {key[:1] for key in before} >= {b"s", b"b", b"q", b"i", b"e"}
    sessions = [each for each in node.sessions.in_memory() if each.durable and each.key[0] == SLOT]
    plan = node.router.plans("").of("t")
    queues = [target.queue for target in plan.targets]
    assert len(sessions) == 3 and len(queues) == 2
    clients["mate"].subscribe(("$share/g/s", 1))
    broker.host.events.clear()
    monkeypatch.setattr(node.env.cluster, "forward", lambda *_: None, raising=False)
    for _ in range(2):
        node.slot_sessions.lose(SLOT, Elsewhere("n2", False))
        broker.settle()
    closed = broker.events("conn.close")
    assert sorted([(event["client"], event["reason"]) for event in closed]) == [
        (name, "moved") for name in sorted((NAMES[0], NAMES[2]))
    ]
    assert {event["type"] for event in broker.host.events} == {"conn.close"}
    assert all(each.ending and (each.timer is None or each.timer.callback is None) for each in sessions)
    assert node.sessions.of_slot(SLOT) == [] and node.slot_sessions.marks == {SLOT: LEAVING}
    assert node.router.elsewhere == {SLOT: Elsewhere("n2", False)}
    assert not [key for kind in (b"v", b"f") for key in broker.keys(kind) if key[1] == SLOT]
    message = Message("", "t", b"late", 1, False, None, 0, "p", Origin("n1", 1), 99)
    for queue in queues:
        assert queue.push(message, 1, False, ()) is False
    for each in sessions:
        each.inbound.routed(7, [("g", "x", "n2")], None, (3,))
        each.save()
    broker.client("writer2").publish("t", b"later", 1, 9)
    broker.client("writer3").publish("s", b"later", 1, 9)
    broker.pass_s(1000)
    assert rows_of_slot(broker) == before
    assert wills(broker) == [] and [each.payload for each in clients["mate"].drain()] == [b"later"]
    clients["clean"].vanish()
    assert wills(broker) == [b"clean"], "it is a client of the node"


def test_a_lost_slot_stays_closed_after_a_restart() -> None:
    broker, _ = busy_primary()
    before = rows_of_slot(broker)
    broker.node.slot_sessions.lose(SLOT)
    broker.settle()
    broker.restart()
    broker.pass_s(200)
    assert rows_of_slot(broker) == before and wills(broker) == [b"clean"]
    assert broker.node.slot_sessions.marks == {SLOT: LEAVING} and broker.node.sessions.of_slot(SLOT) == []


def test_a_lost_slot_can_come_back() -> None:
    """Its sessions continue from the rows, and their wills fire."""
    broker, _ = busy_primary()
    broker.node.slot_sessions.lose(SLOT)
    broker.settle()
    broker.node.slot_sessions.open(SLOT)
    broker.pass_s(1)
    assert wills(broker) == [b"gone"]
    client, connack = broker.connect(NAMES[0], 5, False, 100)
    assert connack.session_present
    assert [each.payload for each in client.drain()].count(b"t") == 8
    assert [type(each) for each in client.ask(publish("x", b"1", 2, 7, dup=True))] == [packets.Pubrec]


def test_a_replay_of_a_lost_slot_ends() -> None:
    broker = BrokerHarness()
    writer = broker.client("writer")
    for number in range(200):
        writer.publish(f"kept/{number}", b"k", 1, number + 1, retain=True)
    client = broker.client(NAMES[0], 5, False, 100, receive_maximum=1)
    client.subscribe(("kept/#", 1))
    session = broker.node.sessions.known("", NAMES[0])
    assert session is not None and session.queue.replay is not None
    before = rows_of_slot(broker)
    replay: Any = session.queue.replay
    broker.node.slot_sessions.lose(SLOT)
    replay.wake()
    broker.pass_s(1)
    assert session.queue.replay is None and rows_of_slot(broker) == before


def test_wills_and_deletions_of_a_lost_slot_end() -> None:
    broker = BrokerHarness()
    broker.persistent("watcher").subscribe(("will", 1))
    client = broker.persistent(NAMES[0], will=GONE)
    broker.node.policy.view_state = ViewState.MINORITY
    client.vanish()
    broker.node.env.store.put(keys.cleanup_key(keys.queue_prefix(keys.client_key(SLOT, "", "x"), 1)), b"")
    broker.node.cleanup.load_slot(SLOT)
    broker.node.slot_sessions.lose(SLOT)
    broker.node.policy.view_state = ViewState.WHOLE
    broker.pass_s(10)
    assert wills(broker) == [] and len(broker.keys(b"z")) == len(broker.keys(b"j")) == 1


def test_the_end_of_a_clean_client_leaves_the_copy_as_it_is() -> None:
    """The copy has a session of the same client id, whose client is connected."""
    primary = BrokerHarness()
    primary.client(NAMES[0], 5, False, 100, will=late_will()).subscribe(("t", 1))
    follower = copy(primary)
    before = rows_of_slot(follower)
    follower.client(NAMES[0], will=packets.Will("will", b"clean", 1))
    follower.restart()
    assert wills(follower) == [b"clean"] and follower.keys(b"S") == []
    assert rows_of_slot(follower) == before


def test_a_row_that_cannot_be_deleted_takes_no_other_subscription_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy has the row of a former session. The disk cannot be read when it deletes it; the next copy goes on."""
    primary = BrokerHarness()
    client = primary.persistent(NAMES[0])
    client.subscribe(("t", 1))
    client.leave()
    follower = copy(primary)
    slots, store = follower.node.slot_sessions, follower.node.env.store
    ((present, value),) = store.scan(b"b%c" % SLOT, b"b%c" % (SLOT + 1))
    former = present[:-9] + bytes(8) + b"t"
    for key in (former, present):
        slots.apply(key, value)
    follower.settle()

    def unreadable(*_: Any) -> Any:
        raise StorageError("too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(follower.disk, "keys", unreadable)
        with pytest.raises(StorageError):
            slots.remove(former)
    assert len(follower.node.router.table("").dormant("t")) == 1
    assert store.keys(*keys.slot_range(b"b", SLOT)) == sorted((former, present))
    slots.remove(former)
    assert len(follower.node.router.table("").dormant("t")) == 1
    assert store.keys(*keys.slot_range(b"b", SLOT)) == [present]
