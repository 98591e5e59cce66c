"""Snapshots of subscriptions: with the notes they give exactly what the rows of the subscriptions say."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec import Raw

from strogoff.broker.queues.records import decode_subscription, encode
from strogoff.broker.routing.subscriptions import PARTS
from strogoff.broker.sessions import snapshots as module
from strogoff.broker.sessions.snapshots import LAYOUT, SnapshotPart, SnapshotRow, restored
from strogoff.broker.sessions.startup import Startup
from strogoff.cluster.identity import slot_of
from strogoff.mqtt.packets import SubscribeOptions
from strogoff.sim.engine.host import STEP_S
from strogoff.storage import keys

from ...harness.broker import BrokerHarness, PacketClient, connect

Held = tuple[bytes, str, str | None, int, bool, bool, int, int]


def rows(broker: BrokerHarness) -> set[Held]:
    """Returns what the rows of the subscriptions say."""
    found = set()
    for key, value in broker.disk.content().items():
        if key[:1] == b"b":
            client, text = keys.parse_subscription_key(key)
            found.add(held(client, restored(None, text, decode_subscription(key, value))))
    return found


def held(client: bytes, each: Any) -> Held:
    """Returns a subscription as a value."""
    options = each.qos, each.no_local, each.retain_as_published, each.retain_handling, each.identifier
    return client, each.filter, each.group, *options


def table(broker: BrokerHarness) -> set[Held]:
    """Returns what the tables of the node have."""
    router = broker.node.router
    found = [held(bytes(each.session.key), each) for name in router.mountpoints for each in router.table(name)]
    assert len(set(found)) == len(found)
    return set(found)


def subscribe(broker: BrokerHarness, client_id: str, *wanted: Any, **properties: Any) -> None:
    """Subscribe with a persistent session, whose client then leaves."""
    client = broker.persistent(client_id, 5)
    client.subscribe(*wanted, **properties)
    client.leave()


def read_by_snapshot(broker: BrokerHarness, monkeypatch: pytest.MonkeyPatch) -> int:
    """Restart, and return how many clients' rows the start has read beside the snapshots."""
    read: list[bytes] = []
    of_client = Startup._of_client

    def noted(self: Startup, client: bytes) -> int:
        read.append(client)
        return of_client(self, client)

    with monkeypatch.context() as patch:
        patch.setattr(Startup, "_of_client", noted)
        broker.restart()
        broker.pass_s(0.5)
    return len(read)


def slot_of_client(client_id: str) -> int:
    """Returns the slot of a client id."""
    return slot_of("", client_id)


def test_a_snapshot_has_every_option(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerHarness(snapshot_notes=1)
    subscribe(
        broker,
        "s",
        SubscribeOptions("a/+", 2, no_local=True, retain_as_published=True, retain_handling=2),
        ("$share/g/b/#", 1),
        ("c", 0),
        subscription_identifier=268_435_455,
    )
    subscribe(broker, "x", ("c", 1))
    broker.pass_s(5)
    assert len(broker.keys(b"v")) == 2 and broker.keys(b"f") == []
    wanted = rows(broker)
    assert read_by_snapshot(broker, monkeypatch) == 0
    assert table(broker) == wanted and len(wanted) == 4


def test_a_changed_client_is_read_from_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """It subscribes, unsubscribes, or its session ends; the others of its slot come from the snapshot."""
    broker = BrokerHarness(snapshot_notes=1)
    names = [name for name in (f"c{number}" for number in range(3000)) if slot_of_client(name) == 7][:6]
    for name in names:
        subscribe(broker, name, (f"t/{name}", 1), ("all", 1))
    broker.pass_s(10)
    assert broker.keys(b"f") == [] and len(broker.keys(b"v")) == 1
    broker.node.options.snapshot_notes = 1000
    subscribe(broker, names[0], ("more", 2))
    client = broker.persistent(names[1], 5)
    client.unsubscribe("all")
    client.leave()
    broker.client(names[2]).leave()
    assert len(broker.keys(b"f")) == 3
    wanted = rows(broker)
    assert read_by_snapshot(broker, monkeypatch) == 3
    assert table(broker) == wanted and len(wanted) == 2 * 6 + 1 - 1 - 2


def test_only_a_slot_with_enough_notes_gets_a_snapshot() -> None:
    broker = BrokerHarness(snapshot_notes=3)
    names = [name for name in (f"c{number}" for number in range(20_000)) if slot_of_client(name) == 7][:60]
    assert len(names) == 60
    for name in names[:2]:
        subscribe(broker, name, ("t", 1))
    broker.pass_s(10)
    assert broker.keys(b"v") == []
    for name in names[2:]:
        subscribe(broker, name, ("t", 1))
    broker.pass_s(10)
    assert len(broker.keys(b"v")) == 1
    for name in names[:3]:  # three of sixty are less than a sixteenth
        subscribe(broker, name, ("u", 1))
    broker.pass_s(10)
    assert len(broker.keys(b"f")) == 3
    subscribe(broker, names[4], ("u", 1))
    broker.pass_s(10)
    assert broker.keys(b"f") == []


def test_one_snapshot_is_made_at_a_time() -> None:
    broker = BrokerHarness(snapshot_notes=1)
    for number in range(5):
        subscribe(broker, f"c{number}", ("t", 1))
    made = len(broker.keys(b"v"))
    assert made <= 1
    for seconds in range(1, 6):
        broker.pass_s(1.01)
        assert len(broker.keys(b"v")) <= made + seconds
    broker.pass_s(5)
    assert len(broker.keys(b"v")) == 5


def test_a_change_during_a_snapshot_stays_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 1)
    broker = BrokerHarness(snapshot_notes=1)
    names = [name for name in (f"c{number}" for number in range(5000)) if slot_of_client(name) == 7][:12]
    for name in names:
        subscribe(broker, name, ("t", 1))
    broker.node.options.snapshot_notes = 1000
    broker.pass_s(1 + 5 * STEP_S)
    first, last = sorted(names)[0], sorted(names)[-1]
    subscribe(broker, first, ("u", 1))
    subscribe(broker, last, ("u", 1))
    broker.pass_s(1)
    assert {keys.parse_client_key(key[1:])[1] for key in broker.keys(b"f")} >= {first}
    wanted = rows(broker)
    broker.restart()
    broker.pass_s(1)
    assert table(broker) == wanted


def test_rows_of_a_snapshot_that_became_smaller_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENTS", 2)
    broker = BrokerHarness(snapshot_notes=1)
    names = [name for name in (f"c{number}" for number in range(3000)) if slot_of_client(name) == 7][:6]
    for name in names:
        subscribe(broker, name, ("t", 1))
    broker.pass_s(5)
    assert len(broker.keys(b"v")) == 3
    for name in names[:3]:
        broker.client(name).leave()
    broker.pass_s(5)
    assert len(broker.keys(b"v")) == 2
    wanted = rows(broker)
    broker.restart()
    assert table(broker) == wanted and len(wanted) == 3


DAMAGED_PARTS = encode(["", 1, [1] * PARTS]), encode(["", 1, [[["a"], []]] * PARTS])


@pytest.mark.parametrize("value", [b"\xc1", b"\x93\x90\x90\x90", encode(["", 1, []]), *DAMAGED_PARTS])
def test_a_snapshot_that_cannot_be_read_costs_time_only(value: bytes) -> None:
    broker = BrokerHarness(snapshot_notes=1)
    for number in range(4):
        subscribe(broker, f"c{number}", ("t", 1))
    broker.pass_s(10)
    broker.node.env.store.put(broker.keys(b"v")[1], bytes((LAYOUT,)) + value)
    broker.settle()
    wanted = rows(broker)
    broker.restart()
    assert table(broker) == wanted
    assert any("one by one" in line for _, line in broker.host.lines)


def test_a_snapshot_of_another_layout_is_not_used() -> None:
    """The node reads the rows of the subscriptions, and makes a new snapshot."""
    broker = BrokerHarness(snapshot_notes=1)
    for number in range(4):
        subscribe(broker, f"c{number}", ("t", 1))
    broker.pass_s(10)
    key = broker.keys(b"v")[1]
    client = next(client for client, *_ in rows(broker) if client[0] == key[1])
    wrong = SnapshotRow("", 1, [Raw(encode(SnapshotPart(["x"], [b"\x00" + client])))] * PARTS)
    broker.node.env.store.put(key, bytes((LAYOUT + 1,)) + encode(wrong))
    broker.settle()
    wanted = rows(broker)
    broker.restart()
    assert table(broker) == wanted
    assert [line for _, line in broker.host.lines if "layout" in line] == [
        "1 snapshots of subscriptions have another layout; the node makes new ones of their slots"
    ]
    broker.pass_s(2)
    assert {value[0] for key, value in broker.disk.content().items() if key[:1] == b"v"} == {LAYOUT}


@pytest.mark.parametrize("damaged", [False, True])
def test_no_snapshot_is_made_while_the_start_reads(damaged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take the notes away, and the start would read the subscriptions of ended sessions."""
    monkeypatch.setattr(module, "PAUSE_MS", 0)
    broker = BrokerHarness(snapshot_notes=1, load_step=1)
    for number in range(20):
        subscribe(broker, f"c{number}", (f"t/{number}", 1), ("all", 1))
    broker.pass_s(1)
    assert broker.keys(b"f") == []
    if damaged:
        broker.node.env.store.put(broker.keys(b"v")[7], bytes((LAYOUT,)) + DAMAGED_PARTS[0])
        broker.settle()
    broker.disk.crash(False)
    broker.host.kill()
    broker.settle()
    broker.disk = broker.disk.reopen()
    broker.host.start()
    for number in range(10):
        assert not broker.node.sessions.startup.ready
        PacketClient(broker, 4).send(connect(f"c{number}"))  # Clean Start: the session ends
        broker.pass_s(STEP_S)
    broker.pass_s(1)
    assert table(broker) == rows(broker) and len(rows(broker)) == 20


@pytest.mark.parametrize("seed", range(30))
def test_random_changes_and_kills(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each kill, at any moment, the node has exactly the subscriptions on its disk."""
    rng = Random(seed)
    monkeypatch.setattr(module, "CLIENTS", rng.choice((1, 2, 2000)))
    monkeypatch.setattr(module, "ROWS", rng.choice((1, 2, 500)))
    monkeypatch.setattr(module, "NOTES", rng.choice((1, 2, 1000)))
    monkeypatch.setattr(module, "PAUSE_MS", rng.choice((0, 3, 1000)))
    load_step, idle = rng.choice((1, 2000)), rng.choice((0, 60))
    broker = BrokerHarness(snapshot_notes=rng.choice((1, 2)), load_step=load_step, idle_session_s=idle)
    pool = [name for name in (f"c{number}" for number in range(1000)) if slot_of_client(name) in (7, 8)][:5]
    filters = ["a", "a/+", "b/#", "$share/g/a", "c"]
    clients: dict[str, PacketClient] = {}
    for _ in range(60):
        name = rng.choice(pool)
        step = rng.random()
        if step < 0.15:
            broker.client(name).leave()  # Clean Start: the session ends
            clients.pop(name, None)
        elif step < 0.75:
            client = clients[name] = broker.persistent(name, 5)
            if rng.random() < 0.7:
                client.subscribe((rng.choice(filters), rng.randrange(3)))
            else:
                client.unsubscribe(rng.choice(filters))
            if rng.random() < 0.5:
                client.leave()
        elif step < 0.85:
            broker.pass_s(rng.choice((STEP_S, 0.004, 1.5)))
        else:
            broker.restart()
            broker.pass_s(0.3)
            assert table(broker) == rows(broker)
