"""The index of deadlines: sessions on disk expire, and their wills fire, although nothing else needs them."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.broker.cluster_port import Standalone
from strogoff.broker.queues.records import RecordError
from strogoff.broker.sessions import deadlines as module
from strogoff.broker.sessions.session import Session
from strogoff.mqtt.packets import Will
from strogoff.storage import keys
from strogoff.storage.engine import StorageError

from ...harness.broker import BrokerHarness


def sleeping(**options: Any) -> BrokerHarness:
    """Returns a node that releases every session as soon as its client is absent."""
    return BrokerHarness(idle_session_s=0, **options)


def rows(broker: BrokerHarness) -> list[tuple[str, int]]:
    """Returns client id and time, in ms from now, of all deadlines on disk; 0 for a session with a connection."""
    found = []
    for key in broker.keys(b"e"):
        client, deadline = keys.parse_deadline_key(key)
        found.append((keys.parse_client_key(client)[1], deadline and deadline - broker.node.env.tick()))
    return sorted(found)


def asleep(broker: BrokerHarness, *client_ids: str) -> bool:
    """Whether none of these sessions is in memory."""
    return all(broker.node.sessions.known("", name) is None for name in client_ids)


def test_a_row_names_the_earliest_deadline() -> None:
    broker = BrokerHarness()
    broker.client("plain")
    broker.client("on", 5, False, 100)
    broker.client("off", 5, False, 100).leave()
    broker.client("never", 5, False, 0xFFFFFFFF).leave()
    delayed = Will("w", b"", properties={"will_delay_interval": 30})
    broker.client("will", 5, False, 100, will=delayed).vanish()
    broker.client("mortal", will=Will("w", b""))
    assert [(name, round(left / 1000)) for name, left in rows(broker)] == [
        ("off", 100),
        ("on", 0),
        ("will", 30),
    ]
    broker.pass_s(31)
    assert ("will", 69) in [(name, round(left / 1000)) for name, left in rows(broker)]
    broker.pass_s(70)
    assert [name for name, _ in rows(broker)] == ["on"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_sleeping_session_expires(restart: bool) -> None:
    """Also after a restart, and with many sessions of one time."""
    broker = sleeping()
    for number in range(3):
        for seconds in (10, 20, 300):
            broker.client(f"{seconds}-{number}", 5, False, seconds).leave()
    broker.pass_s(2)
    assert asleep(broker, "10-0", "20-1", "300-2")
    if restart:
        broker.restart()
    for seconds, left in ((9, 6), (10, 3), (290, 0)):
        broker.pass_s(seconds)
        assert len(broker.node.sessions) == len(broker.keys(b"s")) == left
    assert len(broker.events("sess.expire")) == 9 and broker.keys(b"e") == []


@pytest.mark.parametrize("restart", [False, True])
def test_the_will_of_a_sleeping_session_fires_once(restart: bool) -> None:
    broker = sleeping()
    watcher = broker.client("w", 5)
    watcher.subscribe(("will", 0))
    delayed = Will("will", b"late", properties={"will_delay_interval": 30})
    broker.client("c", 5, False, 100, will=delayed).vanish()
    broker.pass_s(5)
    assert asleep(broker, "c")
    if restart:
        broker.restart()
        watcher = broker.client("w", 5)
        watcher.subscribe(("will", 0))
    broker.pass_s(20)
    assert watcher.payloads() == []
    broker.pass_s(8)
    assert watcher.payloads() == [b"late"]
    broker.pass_s(60)
    assert watcher.payloads() == [] and broker.node.sessions.get("", "c") is not None
    broker.pass_s(20)
    assert broker.node.sessions.get("", "c") is None


def test_the_absence_of_a_session_begins_with_the_next_start() -> None:
    """A session that had a connection when the process was killed; nothing touches it until it expires."""
    broker = sleeping()
    broker.client("c", 5, False, 60)
    broker.pass_s(300)
    broker.restart()
    broker.pass_s(50)
    assert asleep(broker, "c") and len(broker.node.sessions) == 1
    broker.pass_s(11)
    assert len(broker.node.sessions) == 0 and broker.keys(b"e") == []


def test_more_sessions_than_a_turn_makes_expire_at_one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP", 2)
    broker = sleeping()
    for number in range(15):
        broker.client(f"c{number}", 5, False, 10).leave()
    broker.pass_s(11)
    assert len(broker.node.sessions) == 0


class Graceful(Standalone):
    """A cluster that gives clients 5 s to come back."""

    def failover_grace_s(self) -> int:
        return 5


def test_a_slot_is_not_deferred_for_long_if_the_clock_is_set_back() -> None:
    broker = sleeping()
    env, deadlines = broker.node.env, broker.node.sessions.deadlines
    env.cluster = Graceful()
    env.tick()
    deadlines.defer(7)
    assert (deadlines.pause_ms(7), deadlines.pause_ms(8)) == (5000, 0)
    env.clock.ask_cluster()
    env.follow(env.now - 86_400_000 - broker.loop.now_s * 1000)
    env.tick()
    assert deadlines.pause_ms(7) == 0


def test_a_row_that_its_session_does_not_confirm_is_deleted() -> None:
    broker = sleeping()
    broker.client("c", 5, False, 100).leave()
    broker.pass_s(2)
    (key,) = broker.keys(b"e")
    client, deadline = keys.parse_deadline_key(key)
    stale = keys.deadline_key(client, deadline - 90_000)
    nobody = keys.deadline_key(keys.client_key(3, "", "nobody"), deadline - 90_000)
    for wrong in (stale, nobody):
        broker.node.env.store.put(wrong, b"")
    broker.restart()
    broker.pass_s(20)
    assert broker.keys(b"e") == [key]
    assert len(broker.node.sessions) == 1


@pytest.mark.parametrize("error", [StorageError("damaged"), RecordError("damaged")])
def test_a_session_that_cannot_be_read_keeps_its_row(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others of its slot expire; it expires itself once the disk can be read."""
    monkeypatch.setattr(module, "STEP", 1)
    broker = sleeping()
    broker.client("c", 5, False, 10).leave()
    broker.pass_s(2)
    deadlines: Any = broker.node.sessions.deadlines
    wake = deadlines._wake

    def fails(client: bytes) -> Session | None:
        raise error

    deadlines._wake = fails
    broker.pass_s(30)
    assert len(broker.keys(b"e")) == 1
    deadlines._wake = wake
    broker.pass_s(61)
    assert broker.keys(b"e") == [] and len(broker.node.sessions) == 0


def test_sessions_expire_when_the_disk_returns_the_index_again(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = sleeping()
    broker.client("c", 5, False, 10).leave()
    broker.pass_s(2)

    def fails(*_: Any) -> list[bytes]:
        raise StorageError("damaged")

    with monkeypatch.context() as patched:
        patched.setattr(broker.disk, "keys", fails)
        broker.pass_s(30)
    assert len(broker.keys(b"e")) == 1
    broker.pass_s(61)
    assert broker.keys(b"e") == [] and len(broker.node.sessions) == 0


def test_a_session_expires_when_the_disk_returns_its_record_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other session of its slot is due, before or after it."""
    broker = sleeping()
    broker.client("c", 5, False, 10).leave()
    broker.pass_s(2)
    get = broker.disk.get

    def fails(key: bytes) -> bytes | None:
        if key[:1] == b"s":
            raise StorageError("too many open files")
        return get(key)

    with monkeypatch.context() as patched:
        patched.setattr(broker.disk, "get", fails)
        broker.pass_s(30)
    assert len(broker.keys(b"e")) == 1
    broker.pass_s(61)
    assert broker.keys(b"e") == [] and len(broker.node.sessions) == 0
