"""Time that a test lets pass at once: expiry, wills and lifetimes come; sessions, leases and clients stay."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.cluster.clock import SavedTime
from strogoff.testing import Will
from strogoff.testing.cluster import Cluster
from strogoff.testing.runtime.convergence import member_of
from strogoff.testing.runtime.node_links import Links
from strogoff.testing.runtime.node_time import AdvancingClock, NodeTime
from strogoff.testing.runtime.running_cluster import MAX_ADVANCE_S

from ..run_loop import run

HOUR_S = 3600
DAY_S = 24 * HOUR_S


def view_ids(cluster: Cluster) -> set[int]:
    """The ids of the views in which the nodes are."""
    members = [member_of(each) for each in cluster.nodes]
    return {member.view.id for member in members if member is not None}


class Machine:
    """The two clocks of a machine, in ms."""

    def __init__(self) -> None:
        self.wall = 1_000_000.0
        self.mono = 5_000.0
        self.time = NodeTime()

    def clock(self, saved: SavedTime | None = None) -> AdvancingClock:
        return AdvancingClock(self.time, lambda: self.wall, lambda: self.mono, saved, int(self.mono), "")

    def pass_ms(self, ms: float) -> None:
        self.wall += ms
        self.mono += ms


def test_advanced_time_stays_advanced() -> None:
    """It does not slew back to the wall clock."""
    machine = Machine()
    clock = machine.clock()
    machine.time.skipped_ms += HOUR_S * 1000
    clock.advance(HOUR_S * 1000)
    assert clock.now_ms() == clock.set_at_ms == 1_000_000 + HOUR_S * 1000
    machine.pass_ms(60_000)
    assert clock.now_ms() == 1_060_000 + HOUR_S * 1000 and clock.off_ms == 0 and not clock.alarmed


def test_a_node_that_hears_no_leader_stays_advanced() -> None:
    machine = Machine()
    clock = machine.clock()
    clock.follow(machine.wall - machine.mono)
    machine.time.skipped_ms += HOUR_S * 1000
    clock.advance(HOUR_S * 1000)
    machine.pass_ms(60_000)
    assert clock.now_ms() == 1_060_000 + HOUR_S * 1000 and clock.off_ms == 0


def test_a_clock_that_starts_later_has_the_skipped_time() -> None:
    machine = Machine()
    machine.time.skipped_ms = HOUR_S * 1000
    assert machine.clock().now_ms() == 1_000_000 + HOUR_S * 1000


def test_a_session_ends_after_its_expiry_and_not_before() -> None:
    async def test() -> None:
        async with Cluster() as c:
            device = await c.client("device", clean_start=False, session_expiry=DAY_S)
            await device.disconnect()
            await c.advance(DAY_S - 60)
            assert (await device.reconnect()).session_present
            await device.disconnect()
            await c.advance(DAY_S - 60)
            await c.advance(60)
            await c.settled()
            assert c[0].node.sessions.get("", "device") is None
            assert not (await device.reconnect()).session_present
            assert c.audit().verdict == "valid"
            assert c.faults == [f"advance by {each} s" for each in (86340, 86340, 60)]

    run(test())


def test_a_delayed_will_is_published_and_a_returning_client_prevents_it() -> None:
    async def test() -> None:
        async with Cluster() as c:
            watcher = await c.client("watcher")
            await watcher.subscribe("gone/#", qos=1)
            for name in ("back", "away"):
                will = Will(f"gone/{name}", b"", qos=1, properties={"will_delay_interval": HOUR_S})
                device = await c.client(name, clean_start=False, session_expiry=DAY_S, will=will)
                device.abort()
                await device.closed()
                if name == "back":
                    await c.advance(HOUR_S / 2)
                    await device.reconnect()
            await c.advance(HOUR_S)
            assert (await watcher.message()).topic == "gone/away"
            await c.settled()
            assert watcher.take() == [] and c.audit().verdict == "valid"

    run(test())


def test_messages_expire_in_queues_and_as_retained_messages() -> None:
    async def test() -> None:
        async with Cluster() as c:
            reader = await c.client("reader", clean_start=False)
            await reader.subscribe("t/#", qos=1)
            await reader.disconnect()
            writer = await c.client("writer")
            for seconds in (HOUR_S, DAY_S):
                await writer.publish(f"t/{seconds}", "x", qos=1, retain=True, message_expiry_interval=seconds)
            await c.advance(2 * HOUR_S)
            await reader.reconnect()
            kept = await reader.message()
            assert kept.topic == f"t/{DAY_S}" and kept.properties["message_expiry_interval"] in (79_199, 79_200)
            late = await c.client("late")
            await late.subscribe("t/#", qos=1)
            assert (await late.message()).topic == f"t/{DAY_S}"
            await c.settled()
            assert reader.take() == late.take() == [] and c.audit().verdict == "valid"
            assert c.audit().dropped == {"expired": 1}

    run(test())


def test_a_connection_gets_too_old() -> None:
    async def test() -> None:
        async with Cluster(conf={"listener.max_connection_lifetime": 600}) as c:
            client = await c.client("c")
            await c.advance(599)
            assert client.connected
            await c.advance(1)
            closed = await client.closed()
            assert closed is not None and closed.reason == 0xA0

    run(test())


@pytest.mark.parametrize("links", ["memory", "grpc"])
def test_connected_clients_have_kept_alive(links: Links) -> None:
    """At each node, so also relayed ones; the view stays, and no clock is said to be wrong."""

    async def test() -> None:
        async with Cluster(3, links=links, pace=4) as c:
            clients = []
            for node in range(3):
                will = Will("gone", b"", qos=1)
                clients.append(await c.client(f"c{node}", node=node, keepalive=10, clean_start=False, will=will))
                await clients[-1].subscribe("t", qos=1)
            views = view_ids(c)
            for _ in range(3):
                await c.advance(DAY_S)
                await c.settled()
            await (await c.client("w")).publish("t", "x", qos=1)
            assert [(await client.message()).text for client in clients] == ["x"] * 3
            assert view_ids(c) == views and c.audit().verdict == "valid"
            assert not [line for each in c.nodes for line in each.log if "clock" in line or "keep alive" in line]

    run(test())


def test_a_node_that_was_down_or_paused_finds_the_time_passed() -> None:
    """The session ends, after the 5 s that clients of a dead node have to connect again."""

    async def test() -> None:
        async with Cluster(3, conf={"allow_register_during_netsplit": "majority"}, pace=10) as c:
            device = await c.client("device", clean_start=False, session_expiry=DAY_S)
            await device.disconnect()
            await c.settled()
            home = c.primary("device")
            assert home is not None
            other = (home + 1) % 3
            await c.kill(home)
            await c.pause(other)
            await c.advance(2 * DAY_S)
            await c.resume(other)
            await c.start(home)
            await c.whole()
            for node in range(3):
                now = c[node].node.env.tick()
                assert abs(now - c[0].node.env.tick()) < 1000
            await c.advance(6)
            await c.settled()
            assert not (await device.reconnect(node=home)).session_present
            assert c.audit().verdict == "valid"

    run(test())


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_one_node_keeps_its_time_over_a_restart(end: str) -> None:
    """Time passes before the stop and while the node is down."""

    async def test() -> None:
        async with Cluster(engine="leveldb") as c:
            device = await c.client("device", clean_start=False, session_expiry=DAY_S)
            await device.disconnect()
            before = c[0].node.env.tick()
            await c.advance(DAY_S / 2 - 60)
            await getattr(c, end)(0)
            await c.advance(DAY_S / 2 - 60)
            await c.start(0)
            assert DAY_S - 120 <= (c[0].node.env.tick() - before) / 1000 < DAY_S - 100
            assert c[0].node.sessions.get("", "device") is not None
            await c.stop(0)
            await c.advance(120)
            await c.start(0)
            await c.settled()
            assert not (await device.reconnect()).session_present

    run(test())


def test_hundreds_of_sessions_end_before_the_cluster_is_settled() -> None:
    """One turn of the loop ends a part of them."""

    async def test() -> None:
        async with Cluster() as c:
            for number in range(250):
                device = await c.client(f"d{number}", clean_start=False, session_expiry=HOUR_S)
                await device.disconnect()
            await c.advance(HOUR_S + 1)
            await c.settled()
            assert len(c[0].node.sessions) == 0

    run(test())


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), MAX_ADVANCE_S + 1])
def test_an_impossible_time_is_refused(seconds: Any) -> None:
    async def test() -> None:
        async with Cluster() as c:
            with pytest.raises(ValueError, match="between 0 and"):
                await c.advance(seconds)
            assert c.faults == []

    run(test())


def test_a_blocking_cluster_advances() -> None:
    with Cluster.sync() as c:
        device = c.client("device", clean_start=False, session_expiry=DAY_S)
        device.disconnect()
        c.advance(DAY_S + 1)
        c.settled()
        device.reconnect()
        assert not device.session_present
