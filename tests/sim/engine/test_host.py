"""A machine that is started, killed and stopped."""

from __future__ import annotations

from typing import Any

from strogoff.analytics.schema import LOGICAL_BITS, MESSAGE_TYPES, validate
from strogoff.broker.options import PROMISES_DEPEND_ON, Options
from strogoff.mqtt import packets
from strogoff.sim.engine.host import CLOCK_KEY, EPOCH_MS, STOP_S, EventLog
from strogoff.sim.engine.peer import Peer, connect_packet

from ..histories import make_host

YEAR_MS = 365 * 86400 * 1000.0


def test_a_kill_resets_connections_and_stops_all_work_of_the_process() -> None:
    loop, host, _ = make_host()
    node = host.start()
    peer = Peer(host)
    peer.send(connect_packet("c"))
    loop.run_for(1)
    ran: list[int] = []
    host.soon(lambda: ran.append(1))
    host.later(1.0, lambda: ran.append(2))
    host.kill()
    assert peer.closed and not host.up and host.connect(None) is None  # type: ignore[arg-type]
    loop.run_for(10)
    assert ran == []
    assert host.start() is not node and host.boot == 2


def test_a_stop_closes_connections_and_commits() -> None:
    loop, host, disks = make_host((0.5, 0.5))
    host.start()
    peer = Peer(host, 5)
    peer.send(connect_packet("c", 5, False, properties={"session_expiry_interval": 100}))
    loop.run_for(2)
    peer.take()
    stopped: list[float] = []
    host.stop(lambda: stopped.append(loop.now_s))
    assert not host.up and host.node is not None
    loop.run_for(5)
    assert [packet.reason for packet in peer.take()] == [0x8B] and stopped and host.node is None
    assert not host.unwritten
    disks[0] = disks[0].reopen()
    assert len(host.start().sessions) == 1


def test_a_stop_waits_for_a_bounded_time() -> None:
    loop, host, disks = make_host()
    node = host.start()
    loop.run_for(1)
    disks[0].full = True
    node.env.store.put(b"x", b"1")
    stopped: list[float] = []
    host.stop(lambda: stopped.append(loop.now_s))
    loop.run_for(STOP_S + 1)
    assert stopped == [1 + STOP_S]
    assert host.unwritten


def test_cluster_time_is_noted_and_never_goes_back() -> None:
    """A machine whose clock was set back by a year starts where it was."""
    loop, host, disks = make_host()
    host.start()
    loop.run_for(25)
    noted = disks[0].get(CLOCK_KEY)
    assert noted is not None and int.from_bytes(noted[:8], "big") > EPOCH_MS + 20_000
    host.kill()
    disks[0].crash(False)
    disks[0] = disks[0].reopen()
    host.wall_off_ms = -YEAR_MS
    assert host.start().env.clock.now_ms() >= int.from_bytes(noted[:8], "big")


def test_events_have_later_stamps_than_those_of_the_process_before() -> None:
    """A loss of power takes the machine's time back to what was saved, but not the stamps of its log."""
    loop, host, disks = make_host()
    host.event_level = 1
    node = host.start()
    loop.run_for(25)
    node.env.event("node.start", retained=0)
    host.kill()
    disks[0].crash(False)
    disks[0] = disks[0].reopen()
    host.new_boot()
    host.start()
    stamps = [row["hlc"] for row in host.events]
    assert {row["boot"] for row in host.events} == {1, 2} and stamps == sorted(set(stamps))


def test_wake_comes_in_cluster_time() -> None:
    loop, host, _ = make_host()
    node = host.start()
    woken: list[float] = []
    node.env.timers.at(node.env.clock.now_ms() + 5000, lambda: woken.append(loop.now_s))
    node.env.timers.at(node.env.clock.now_ms() + 2000, lambda: woken.append(loop.now_s))
    host.wall_off_ms = YEAR_MS
    loop.run_for(10)
    assert len(woken) == 2 and 1.9 < woken[0] < 2.1 and 4.9 < woken[1] < 5.1


def test_a_client_that_does_not_read_pauses_the_node() -> None:
    loop, host, _ = make_host()
    node = host.start()
    subscriber, publisher = Peer(host), Peer(host)
    subscriber.send(connect_packet("s"), packets.Subscribe(1, [packets.SubscribeOptions("t", 0)]))
    publisher.send(connect_packet("p"))
    loop.run_for(1)
    connection = next(each for each in node.connections.values() if each.client_id == "s")
    subscriber.pipe.to_client.pause()
    publisher.send(packets.Publish("t", b"x" * 10_000))
    loop.run_for(1)
    assert not connection.output.is_writable
    subscriber.pipe.to_client.resume()
    loop.run_for(1)
    assert connection.output.is_writable and len(subscriber.take()) == 3


def test_observers_get_events() -> None:
    loop, host, _ = make_host()
    host.event_level = 1
    made: list[str] = []
    host.on_node = lambda node: made.append(node.name)
    host.mark = lambda: (42, loop.now_s, False)
    host.start()
    assert made == ["n1"] and [row["type"] for row in host.events] == ["node.start", "node.loaded"]
    peer = Peer(host)
    peer.send(connect_packet("c"))
    loop.run_for(1)
    assert peer.pipe.to_client.arrived[0] == 42


def test_node_start_names_the_settings_of_the_simulated_node() -> None:
    """As a real process does: the keys are the same."""
    _, host, _ = make_host()
    host.options = Options(allow_anonymous=True, queue_type="lifo", persistent_client_expiration_s=9)
    host.event_level = 1
    host.start()
    settings = dict(each.split("=") for each in host.events[0]["settings"])
    assert tuple(settings) == PROMISES_DEPEND_ON
    assert (settings["queue_type"], settings["message_store.durability"]) == ("lifo", "sync")
    assert settings["persistent_client_expiration"] == "9s"


def test_node_start_tells_of_the_log_before() -> None:
    """A loss of power may have taken rows, a kill never, and a new disk has no log."""
    _, host, _ = make_host()
    host.event_level = 1
    host.start()
    host.kill()
    host.start()
    host.kill()
    host.lose_tail()
    host.start()
    host.kill()
    host.forget_log()
    host.start()
    started = [row for row in host.events if row["type"] == "node.start"]
    assert [row.get("tail_lost") for row in started] == [None, False, True, None]
    assert started[1]["known_seq"] == 2 and validate(started[1]) == []


def test_rows_of_messages_go_to_their_own_port() -> None:
    """`on_event` gets what it gets without that."""
    loop, host, _ = make_host()
    rows: list[dict[str, Any]] = []
    host.event_level, host.log = 1, EventLog(rows.append)
    host.start()
    peer = Peer(host)
    peer.send(connect_packet("p"), packets.Publish("t", b""))
    loop.run_for(1)
    kinds = [row["type"] for row in rows]
    assert "pub.recv" in kinds and "conn.open" in kinds
    assert [row["type"] for row in host.events] == [kind for kind in kinds if kind not in MESSAGE_TYPES]


def ignore(row: dict[str, Any]) -> None:
    """A log that nobody reads."""


def test_the_clock_of_the_log_can_be_ahead() -> None:
    _, host, _ = make_host()
    host.event_level, host.log = 1, EventLog(ignore, 500)
    host.start()
    assert host.events[0]["hlc"] >> LOGICAL_BITS == EPOCH_MS + 500
