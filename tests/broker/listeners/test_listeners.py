"""All listeners of a node: starting all or none, adding, stopping, limits, and the end."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from strogoff.broker.listeners.listeners import ListenError

from ...harness.listeners import Authority, ListenerHarness, Peer, both_loops, tcp, with_listeners

CLOSED = r"refused|Connect call failed"


@both_loops
def test_a_port_in_use_stops_the_start_and_leaves_nothing_open(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            with pytest.raises(ListenError) as error:
                await harness.open(tcp(name="first"), tcp(port=port))
        assert str(error.value) == (f"listener.tcp.default: cannot listen on 127.0.0.1:{port}: address already in use")
        first = int(harness.lines[0].rpartition(":")[2])
        with pytest.raises(OSError, match=CLOSED):
            await Peer.connect(first)
        assert harness.listeners.show() == []

    with_listeners(test, loop)


@both_loops
def test_a_listener_added_later_fails_alone(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(tcp())
        with pytest.raises(
            ListenError, match=f"listener.ws.second: cannot listen on 127.0.0.1:{port}: address already"
        ):
            await harness.listeners.add(tcp(type="ws", name="second", port=port))
        with pytest.raises(ListenError, match="a listener of that name exists already"):
            await harness.listeners.add(tcp())
        with pytest.raises(ListenError, match="not a listener for MQTT"):
            await harness.listeners.add(tcp(type="http"))
        row = await harness.listeners.add(tcp(name="second"))
        assert row == harness.listeners.show()[1]
        for number in (port, row.port):
            peer = await Peer.connect(number)
            peer.send(b"hello")
            await peer.expect(b"hello")

    with_listeners(test, loop)


def test_only_listeners_for_mqtt_are_opened(tmp_path: Path) -> None:
    async def test(harness: ListenerHarness) -> None:
        authority = Authority(tmp_path)
        await harness.open(
            tcp(),
            tcp(type="vmq"),
            tcp(type="http"),
            authority.settings(),
            tcp(type="ws"),
            authority.settings(type="wss"),
        )
        assert [row.type for row in harness.listeners.show()] == ["mqtt", "mqtts", "mqttws", "mqttwss"]
        assert await harness.listeners.reload_tls() == []
        authority.ca.cert_pem.write_to_path(authority.keyfile)
        problems = await harness.listeners.reload_tls()
        assert [problem.partition(": ")[0] for problem in problems] == ["listener.ssl.default", "listener.wss.default"]
        assert all(authority.keyfile in problem for problem in problems)

    with_listeners(test)


@both_loops
@pytest.mark.parametrize("kind", ["tcp", "ssl"])
def test_connections_do_not_take_the_last_descriptors(tmp_path: Path, loop: str, kind: str) -> None:
    """The check uses the number of the accepted socket, for both kinds of accepting."""

    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(Authority(tmp_path).settings() if kind == "ssl" else tcp())
        assert await (await Peer.connect(port)).rest() == b""
        assert harness.traffic.connections_refused == 1

    with_listeners(test, loop, max_descriptor=1)


@both_loops
def test_connections_above_the_limit_are_closed_at_once(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(tcp(max_connections=2))
        peers = [await Peer.connect(port) for _ in range(2)]
        await harness.handler(1)
        for _ in range(3):
            assert await (await Peer.connect(port)).rest() == b""
        assert harness.traffic.connections_refused == 3
        refusals = [line for line in harness.lines if "max_connections = 2 is reached" in line]
        assert len(refusals) == 1
        peers[0].close()
        await harness.until(lambda: harness.listeners.active() == 1)
        peer = await Peer.connect(port)
        peer.send(b"room again")
        await peer.expect(b"room again")
        row = harness.listeners.show()[0]
        assert (row.max_conns, row.active_conns, row.all_conns) == (2, 2, 3)

    with_listeners(test, loop)


@both_loops
def test_stop_restart_and_delete(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(tcp())
        address = f"127.0.0.1:{port}"
        peer = await Peer.connect(port)
        handler = await harness.handler()
        await harness.listeners.stop(address)
        assert harness.listeners.show()[0].status == "stopped"
        assert handler.reasons == []
        await harness.listeners.restart("listener.tcp.default")
        assert harness.listeners.show()[0].port == port
        await harness.listeners.stop(address, kill_sessions=True)
        assert handler.reasons == ["listener_stopped"]
        assert await peer.rest() == b"too late"
        await harness.listeners.restart(address)
        other = await Peer.connect(port)
        await harness.handler(1)
        await harness.listeners.delete(address)
        assert harness.listeners.show() == []
        other.send(b"still served")
        await other.expect(b"still served")
        assert harness.listeners.active("tcp") == 1
        assert harness.listeners.active("ws") == 0
        for wrong in (address, "tcp.default"):
            with pytest.raises(ListenError, match=f"there is no listener {wrong}"):
                await harness.listeners.stop(wrong)

    with_listeners(test, loop)


@both_loops
def test_a_port_taken_meanwhile_fails_only_its_restart(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(tcp())
        await harness.listeners.stop("tcp.default")
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", port))
            other.listen()
            with pytest.raises(ListenError, match="address already in use"):
                await harness.listeners.restart("tcp.default")
        await harness.listeners.restart("tcp.default")
        (await Peer.connect(port)).close()

    with_listeners(test, loop)


@both_loops
def test_close_reports_to_handlers_and_aborts_clients_that_do_not_read(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        port = await harness.open(tcp())
        good = await Peer.connect(port)
        handler = await harness.handler()
        await Peer.connect(port, limit=1)
        deaf = await harness.handler(1)
        deaf.link.write(bytes(16 << 20))
        await harness.listeners.close(0.1)
        assert handler.reasons == deaf.reasons == ["shutting_down"]
        assert await good.rest() == b"too late"
        assert harness.listeners.active() == 0
        with pytest.raises(OSError, match=CLOSED):
            await Peer.connect(port)

    with_listeners(test, loop)
