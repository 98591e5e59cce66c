"""A queue that cannot be read from disk: its client is refused with a reason, others are not affected, nothing is
deleted.
"""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker import operations
from strogoff.mqtt.packets import Connack, Disconnect, Puback, Publish, Will
from strogoff.storage.engine import Corrupted, StorageError
from strogoff.storage.keys import queue_prefix

from ..harness.broker import BrokerHarness, PacketClient, connect

SAME_SLOT = "s226"
"""A client id in the slot of `s`."""

WHY = "messages/000005.ldb: a block of the table is damaged: its keys cannot be read. Run `strogoff repair`"


class Damage:
    """Reads of keys from `first` on and below `last` fail as those of LevelDB do."""

    def __init__(self, broker: BrokerHarness, first: bytes, last: bytes) -> None:
        self.on = True
        self.error: StorageError = Corrupted("messages/000005.ldb", WHY[21:].split(". ")[0], "Run `strogoff repair`")
        engine: Any = broker.disk
        get, scan, keys = engine.get, engine.scan, engine.keys

        def broken_get(key: bytes) -> Any:
            self._look(first <= key < last)
            return get(key)

        def broken_range(read: Any) -> Any:
            def broken(start: bytes, stop: bytes, *rest: Any, **more: Any) -> Any:
                rows = read(start, stop, *rest, **more)
                found = [row[0] if isinstance(row, tuple) else row for row in rows]
                self._look(any(first <= key < last for key in found))
                return rows

            return broken

        engine.get, engine.scan, engine.keys = broken_get, broken_range(scan), broken_range(keys)

    def _look(self, touched: bool) -> None:
        if touched and self.on:
            raise self.error


def backlog(broker: BrokerHarness, count: int, version: int = 4, payload: bytes = b"m") -> bytes:
    """Make an offline session `s` with this number of messages; returns the prefix of its queue."""
    broker.persistent("s", version).subscribe(("t", 1))
    session = broker.node.sessions.get("", "s")
    assert session is not None
    session.connection.drop("test")  # type: ignore[union-attr]
    publisher = broker.client("filler")
    for number in range(count):
        publisher.publish("t", payload + b"%d" % number, 1, number + 1)
    publisher.leave()
    return queue_prefix(session.key, session.incarnation)


def attempt(broker: BrokerHarness, version: int) -> tuple[PacketClient, Connack]:
    client = PacketClient(broker, version)
    client.send(connect("s", version, False, 1000 if version == 5 else None))
    broker.settle()
    connack, *client.received = client.take()
    return client, connack


@pytest.mark.parametrize(("version", "code"), [(3, 3), (4, 3), (5, 0x88)])
def test_the_client_of_an_unreadable_queue_is_refused_with_a_reason(version: int, code: int) -> None:
    """The client gets everything once the disk can be read again."""
    broker = BrokerHarness()
    prefix = backlog(broker, 5, version)
    damage = Damage(broker, prefix, prefix + b"\xff")
    for _ in range(3):
        client, connack = attempt(broker, version)
        assert (connack.reason, client.closed) == (code, True)
        if version == 5:
            assert "cannot read the queue" in connack.properties["reason_string"]  # type: ignore[index]
    assert broker.node.env.store.damage == WHY
    (event,) = broker.events("store.state")
    assert (event["state"], event["detail"]) == ("damaged", WHY)
    damage.on = False
    client, connack = attempt(broker, version)
    assert connack.reason == 0
    assert [m.payload for m in client.drain()] == [b"m%d" % number for number in range(5)]


def test_a_refused_connect_changes_nothing_of_the_session() -> None:
    """It would end the session with its connection, and had another will. Once the disk can be read again, all is
    there."""
    broker = BrokerHarness()
    prefix = backlog(broker, 5, 5)
    broker.persistent("s", 5, will=Will("w", b"will", 0, False, {"will_delay_interval": 100})).vanish()
    watcher = broker.client("watcher")
    watcher.subscribe(("w", 0))
    session = broker.node.sessions.known("", "s")
    assert session is not None
    latest = session.latest
    broker.pass_s(1.0)
    damage = Damage(broker, prefix, prefix + b"\xff")
    client = PacketClient(broker, 5)
    client.send(connect("s", 5, False, 0, will=Will("w", b"later")))
    broker.settle()
    assert client.closed and session.latest == latest
    damage.on = False
    broker.pass_s(150.0)
    assert watcher.payloads() == [b"will"]
    armed, fired = broker.events("will.arm", "will.cancel", "will.fire")
    assert (armed["type"], fired["type"]) == ("will.arm", "will.fire") and armed["will"] == fired["will"]
    client, connack = attempt(broker, 5)
    assert connack.session_present
    assert [m.payload for m in client.drain()] == [b"m%d" % number for number in range(5)]


def test_an_unreadable_record_affects_its_own_client_only() -> None:
    """Also while the store takes nothing; operators and publishers get an answer."""
    broker = BrokerHarness()
    prefix = backlog(broker, 2)
    broker.restart()
    key = b"s" + prefix[1:-8]
    damage = Damage(broker, key, key + b"\xff")
    client, connack = attempt(broker, 4)
    assert (connack.reason, client.closed) == (3, True)
    assert broker.client("p").publish("t", b"more", 1, 9) == [Puback(9)]
    assert broker.node.sessions.get("", "s") is None
    assert not operations.disconnect(broker.node, "", "s", True)
    assert broker.node.sessions.on_disk("", "s")
    assert any("'s': its session cannot be read" in line for _, line in broker.host.lines)
    damage.on = False
    client, _ = attempt(broker, 4)
    assert [m.payload for m in client.drain()] == [b"m0", b"m1"]


@pytest.mark.parametrize("counted", [True, False])
def test_an_unreadable_queue_affects_no_other_client(counted: bool) -> None:
    """Its publishers are answered, and their messages are kept; another session gets its messages."""
    broker = BrokerHarness()
    prefix = backlog(broker, 5)
    if not counted:
        broker.restart()
    damage = Damage(broker, prefix, prefix + b"\xff")
    other, publisher = broker.client("other"), broker.client("p")
    other.subscribe(("t", 0))
    assert publisher.publish("t", b"more", 1, 9) == [Puback(9)]
    assert other.payloads() == [b"more"]
    attempt(broker, 4)
    assert publisher.publish("t", b"and more", 1, 10) == [Puback(10)]
    assert not publisher.closed and not other.closed
    damage.on = False
    client, _ = attempt(broker, 4)
    assert [m.payload for m in client.drain()][5:] == [b"more", b"and more"]


@pytest.mark.parametrize("version", [4, 5])
def test_damage_further_back_ends_the_connection_when_it_is_reached(version: int) -> None:
    """Messages before it are delivered; messages behind it are kept."""
    broker = BrokerHarness(memory_window=4)
    prefix = backlog(broker, 20, version)
    damage = Damage(broker, prefix + (10).to_bytes(8, "big"), prefix + b"\xff")
    client, connack = attempt(broker, version)
    assert connack.reason == 0
    came = client.received
    got = client.drain()
    assert len(got) >= 4 and client.closed
    assert [each.payload for each in got] == [b"m%d" % number for number in range(len(got))]
    assert (version == 5) is any(isinstance(each, Disconnect) for each in [*came, *client.received])
    damage.on = False
    client, _ = attempt(broker, version)
    rest = [each.payload for each in client.drain()]
    assert rest[-1] == b"m19" and set(rest) | {each.payload for each in got} == {b"m%d" % n for n in range(20)}


def test_a_shared_body_that_cannot_be_read() -> None:
    """The body of a message that several queues hold: those sessions are refused, the message stays."""
    broker = BrokerHarness()
    for name in ("s", SAME_SLOT):
        client = broker.persistent(name)
        client.subscribe(("t", 1))
        client.leave()
    publisher = broker.client("p")
    publisher.publish("t", bytes(1000), 1, 1)
    damage = Damage(broker, b"p", b"q")
    _, connack = attempt(broker, 4)
    assert connack.reason == 3
    damage.on = False
    client, connack = attempt(broker, 4)
    assert [type(each) for each in client.drain()] == [Publish]


def test_a_count_of_holders_that_cannot_be_read() -> None:
    """The publisher is answered; each queue keeps the message in itself."""
    broker = BrokerHarness()
    for name in ("s", SAME_SLOT):
        client = broker.persistent(name)
        client.subscribe(("t", 1))
        client.leave()
    damage = Damage(broker, b"u", b"v")
    real = broker.disk.get
    broker.disk.get = lambda key: damage._look(key[:1] == b"u") or real(key)  # type: ignore[method-assign,func-returns-value]
    publisher = broker.client("p")
    assert publisher.publish("t", bytes(1000), 1, 1) == [Puback(1)]
    client, connack = attempt(broker, 4)
    assert connack.reason == 0 and len(client.drain()) == 1


def test_a_clean_start_replaces_an_unreadable_queue() -> None:
    """The client can start a new session; the old data is deleted once it can be read."""
    broker = BrokerHarness()
    prefix = backlog(broker, 5)
    damage = Damage(broker, prefix, prefix + b"\xff")
    client = broker.client("s")
    assert client.publish("x", qos=1) == [Puback(1)]
    damage.on = False
    broker.restart()
    assert [key for key in broker.keys(b"q") if key.startswith(prefix)] == []


def test_a_lack_of_descriptors_is_no_damage() -> None:
    """The client is refused for now; the log reports no damage."""
    from strogoff.storage.engine import OutOfDescriptors

    broker = BrokerHarness()
    prefix = backlog(broker, 5)
    damage = Damage(broker, prefix, prefix + b"\xff")
    damage.error = OutOfDescriptors("no file descriptor is left")
    _, connack = attempt(broker, 4)
    assert (connack.reason, broker.node.env.store.damage) == (3, "")
    damage.on = False
    _, connack = attempt(broker, 4)
    assert connack.reason == 0


def test_a_session_that_could_not_be_read_gets_later_messages() -> None:
    """A plan of their topic was made while its record could not be read. The log says that once."""
    broker = BrokerHarness()
    prefix = backlog(broker, 0)
    broker.restart()
    key = b"s" + prefix[1:-8]
    damage = Damage(broker, key, key + b"\xff")
    publisher = broker.client("p")
    for number in (1, 2):
        assert publisher.publish("t", b"not kept", 1, number) == [Puback(number)]
    assert len([line for _, line in broker.host.lines if "its session cannot be read" in line]) == 1
    damage.on = False
    assert publisher.publish("t", b"1", 1, 3) == [Puback(3)]
    client, _ = attempt(broker, 4)
    assert publisher.publish("t", b"2", 1, 4) == [Puback(4)]
    assert [m.payload for m in client.drain()] == [b"1", b"2"]


@pytest.mark.parametrize("kind", [b"b", b"i"])
def test_a_session_that_the_disk_returns_in_part_is_not_made(kind: bytes) -> None:
    """Else two objects would have the session when the disk returns the rest. It still counts as one on disk."""
    broker = BrokerHarness()
    backlog(broker, 1)
    broker.restart()
    engine: Any = broker.disk
    scan, on = engine.scan, True

    def broken(start: bytes, *rest: Any, **more: Any) -> Any:
        if on and start[:1] == kind:
            raise Corrupted("messages/000005.ldb", "a block of the table is damaged", "Run `strogoff repair`")
        return scan(start, *rest, **more)

    engine.scan = broken
    publisher = broker.client("p")
    assert publisher.publish("t", b"not kept", 1, 1) == [Puback(1)]
    assert len(broker.node.sessions) == 2 and broker.node.sessions.known("", "s") is None
    on = False
    assert publisher.publish("t", b"kept", 1, 2) == [Puback(2)]
    client, _ = attempt(broker, 4)
    assert publisher.publish("t", b"live", 1, 3) == [Puback(3)]
    assert [m.payload for m in client.drain()] == [b"m0", b"kept", b"live"]
    assert len(broker.node.sessions) == 2
