"""The server of a node: the resources it opens, the cleanup after a failed start, and the state kept for the next
start.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from bench.steady import SteadyClient
from strogoff.broker.clustering import listening
from strogoff.broker.listeners.listeners import ListenError
from strogoff.broker.plugins.hooks import Subscriber
from strogoff.broker.plugins.loader import PluginError
from strogoff.broker.process import server as module
from strogoff.broker.process.server import Server, tune_gc
from strogoff.cluster.clock import decode_saved
from strogoff.cluster.transport.wire import TransportError
from strogoff.configs import load
from strogoff.mqtt.packets import Will
from strogoff.storage.engine import DirectoryInUse, WrongDirectory
from strogoff.storage.leveldb import LevelDBEngine
from strogoff.testing.log_audit.log_files import read_log
from tests.harness.listeners import Authority
from tests.harness.loop_errors import collect_loop_errors


def make(folder: Path, **settings: str) -> Server:
    """A server on a free port with its data in `folder`; its log lines are in `server.log.write.lines`."""
    lines: list[str] = []

    def log(level: str, text: str) -> None:
        lines.append(f"{level}: {text}")

    log.lines = lines  # type: ignore[attr-defined]
    wanted = {
        "listener.tcp.default": "127.0.0.1:0",
        "allow_anonymous": "on",
        "platform_data_dir": str(folder),
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    return Server(load(None, {}, wanted), log)


def lines(server: Server) -> list[str]:
    """Returns the lines of its log."""
    found: list[str] = server.log.write.lines  # type: ignore[attr-defined]
    return found


def port(server: Server) -> int:
    """Returns the port of its listener."""
    return server.listeners.show()[0].port


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a test within a time limit; the loop must have no error at the end."""
    complaints: list[dict[str, Any]] = []

    async def bounded() -> None:
        collect_loop_errors(complaints)
        async with asyncio.timeout(30):
            await work

    asyncio.run(bounded())
    assert complaints == []


async def during(server: Server, work: Callable[[Server], Awaitable[None]]) -> None:
    """Start the server, run the test, stop the server."""
    await server.start()
    try:
        await work(server)
    finally:
        await server.stop()


async def refused(server: Server, error: type[Exception]) -> str:
    """Check that the start fails with this error; returns its text."""
    with pytest.raises(error) as caught:
        await server.start()
    assert server.listeners.show() == []
    return str(caught.value)


def test_two_nodes_in_one_process(tmp_path: Path) -> None:
    """Nothing of a node is global: each has its own sessions."""

    async def test() -> None:
        one, two = make(tmp_path / "one"), make(tmp_path / "two")
        await asyncio.gather(one.start(), two.start())
        clients = [SteadyClient("same", port(server)) for server in (one, two)]
        for client in clients:
            assert not (await client.connect()).session_present
        assert all(client.online for client in clients)
        for client in clients:
            await client.disconnect()
        await asyncio.gather(one.stop(), two.stop())
        assert (tmp_path / "one" / "strogoff.json").exists() and (tmp_path / "two" / "strogoff.json").exists()

    run(test())


def test_a_restart_brings_back_sessions_under_a_new_boot(tmp_path: Path) -> None:
    """P7, and no number of an earlier process is used again. [MQTT-4.1.0-2] [MQTT5-4.1.0-1]"""
    boots = []

    async def test() -> None:
        reader = SteadyClient("reader", 0)
        got: list[bytes] = []
        reader.delivered = lambda topic, payload, qos, properties: got.append(payload)

        async def first(server: Server) -> None:
            reader.port = port(server)
            await reader.connect()
            await reader.subscribe("x", 2)
            await reader.disconnect()
            writer = SteadyClient("writer", port(server))
            acked: asyncio.Queue[bytes] = asyncio.Queue()
            writer.acked = acked.put_nowait
            await writer.connect()
            for payload in (b"1", b"2"):
                await writer.publish("x", payload, 2)
                assert await acked.get() == payload
            await writer.disconnect()
            boots.append(server.node.env.numbers.boot)

        async def second(server: Server) -> None:
            boots.append(server.node.env.numbers.boot)
            reader.port = port(server)
            assert (await reader.connect()).session_present
            await reader.subscribe("y", 2)
            assert got == [b"1", b"2"] and reader.faults == []
            await reader.disconnect()

        await during(make(tmp_path), first)
        await during(make(tmp_path), second)

    run(test())
    assert boots[1] == boots[0] + 1


def test_a_failed_start_leaves_nothing_behind(tmp_path: Path) -> None:
    """Port, directory, plugin, name: after each failure the next start succeeds."""

    async def test() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            place = f"127.0.0.1:{taken.getsockname()[1]}"
            server = make(tmp_path, listener__tcp__second=place)
            assert f"listener.tcp.second: cannot listen on {place}" in await refused(server, ListenError)
        assert "no_such_module" in await refused(
            make(tmp_path, plugins__python__mine="no_such_module:Plugin"), PluginError
        )

        async def work(server: Server) -> None:
            assert "is in use by process" in await refused(make(tmp_path), DirectoryInUse)

        await during(make(tmp_path), work)
        assert "'other@here'" in await refused(make(tmp_path, nodename="other@here"), WrongDirectory)
        await during(make(tmp_path), lambda server: asyncio.sleep(0))

    run(test())


def test_certificates_between_nodes_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    """gRPC only says that it cannot listen. Before, the log named a port in use instead."""
    (tmp_path / "other").mkdir()
    mine, other = Authority(tmp_path), Authority(tmp_path / "other")

    def secured(**files: str) -> Server:
        wanted = {"cafile": mine.cafile, "certfile": mine.certfile, "keyfile": mine.keyfile, **files}
        options = {f"listener__vmqs__default__{name}": value for name, value in wanted.items()}
        return make(tmp_path, listener__vmqs__default="127.0.0.1:0", **options)

    async def test() -> None:
        said = await refused(secured(keyfile=other.keyfile), TransportError)
        assert said == f"listener.vmqs: keyfile: {other.keyfile}: not the key of the certificate {mine.certfile}"
        await during(secured(), lambda server: asyncio.sleep(0))

    run(test())


def test_the_memory_engine_warns_and_keeps_nothing(tmp_path: Path) -> None:
    """message_store.engine = memory."""

    async def test() -> None:
        async def work(server: Server) -> None:
            assert [line for line in lines(server) if "nothing survives" in line]
            client = SteadyClient("c", port(server))
            assert not (await client.connect()).session_present
            await client.disconnect()
            assert (await client.connect()).session_present
            await client.disconnect()

        for _ in range(2):
            await during(make(tmp_path, message_store__engine="memory"), work)

    run(test())


def test_cluster_time_does_not_go_back(tmp_path: Path) -> None:
    """A start with a clock that was set back continues from the time in the store, and logs the difference."""
    future = int((time.time() + 3600) * 1000)

    async def test() -> None:
        await during(make(tmp_path), lambda server: asyncio.sleep(0))
        written: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        engine = LevelDBEngine(tmp_path / "messages", asyncio.get_running_loop().call_soon_threadsafe)
        engine.write({module._CLOCK_KEY: future.to_bytes(8, "big")}, written.set_result)
        assert await written is None
        engine.close()

        async def work(server: Server) -> None:
            assert server.node.env.now >= future
            assert [line for line in lines(server) if "off cluster time" in line]

        await during(make(tmp_path), work)

    run(test())


def test_a_clock_that_is_set_is_saved_at_once(tmp_path: Path) -> None:
    """A node that joins does not know the cluster's time. It learns it with its first lease."""

    async def work(server: Server) -> None:
        clock, store = server.node.env.clock, server.store
        clock.ask_cluster()
        server.node.env.follow(1_000_000_000_000 - server._mono_ms())
        saved = decode_saved(store.get(module._CLOCK_KEY))
        assert saved is not None and saved.clusters and 0 <= saved.cluster_ms - 1_000_000_000_000 < 60_000

    run(during(make(tmp_path), work))


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_is_wrong_at_a_restart_ends_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """The machine was not booted since: its clock tells how long the process was away."""
    assert module.machine_boot() and module.uptime_ms() > 0, "this system has no name for the boot of the machine"

    async def test() -> None:
        async def leave(server: Server) -> None:
            client = SteadyClient("c", port(server))
            await client.connect()
            await client.disconnect()

        async def come_back(server: Server) -> None:
            assert abs(server.node.env.clock.now_ms() - time.time() * 1000) < 60_000
            client = SteadyClient("c", port(server))
            assert (await client.connect()).session_present
            await client.disconnect()

        await during(make(tmp_path, persistent_client_expiration="10m"), leave)
        wrong = (lambda: time.time() * 1000 + hours * 3_600_000, lambda: time.monotonic() * 1000)
        monkeypatch.setattr(module, "OF_THE_MACHINE", wrong)
        again = make(tmp_path, persistent_client_expiration="10m")
        await during(Server(again.settings, again.log, clocks=wrong), come_back)

    run(test())


def test_events_have_later_stamps_than_those_of_the_process_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if that one had not saved its time, and the clock was set back."""
    monkeypatch.setattr(Server, "_save_clock", lambda server: None)
    wrong = (lambda: time.time() * 1000 - 3_600_000, lambda: time.monotonic() * 1000)

    async def test() -> None:
        settings = {"eventlog__dir": str(tmp_path / "log"), "eventlog__level": "session"}
        await during(make(tmp_path / "data", **settings), lambda server: asyncio.sleep(0))
        again = make(tmp_path / "data", **settings)
        await during(Server(again.settings, again.log, clocks=wrong), lambda server: asyncio.sleep(0))

    run(test())
    found, _ = read_log(tmp_path / "log")
    rows = sorted(found, key=lambda row: (row["boot"], row["seq"]))
    assert {row["boot"] for row in rows} == {1, 2}
    assert [row["hlc"] for row in rows] == sorted({row["hlc"] for row in rows})


class Doorman:
    """A plugin with an asynchronous answer."""

    async def auth_on_register_m5(
        self, peer: Any, subscriber: Any, username: str | None, password: Any, clean_start: bool, properties: Any
    ) -> Any:
        await asyncio.sleep(0)
        if username == "breaks":
            raise RuntimeError("out of order")
        return username == "friend"


def test_asynchronous_plugins_answer_and_their_failures_are_logged(tmp_path: Path) -> None:
    """A failed answer is a refusal and a line in the log."""

    async def test() -> None:
        server = make(tmp_path, allow_anonymous="off", plugins__vmq_passwd="off")
        server.hooks.add("doorman", Doorman())

        async def work(server: Server) -> None:
            friend = SteadyClient("friend", port(server), username="friend")
            await friend.connect()
            await friend.disconnect()
            for name in ("stranger", "breaks"):
                with pytest.raises(ConnectionRefusedError, match="Connack"):
                    await SteadyClient(name, port(server), username=name).connect()
            assert [line for line in lines(server) if line.startswith("error") and "out of order" in line]

        await during(server, work)

    run(test())


def test_client_problems_are_logged_and_further_ones_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This does not need an event log; the counts are logged without a trigger."""
    monkeypatch.setattr(module, "FLUSH_S", 0.5)

    async def test() -> None:
        server = make(tmp_path, allow_anonymous="off", eventlog__level="off", session__max_failed_logins="0")
        counted = asyncio.Event()
        shown: list[str] = []

        def log(level: str, line: str) -> None:
            (counted.set if "more of these" in line else lambda: shown.append(line))()

        async def refused(server: Server) -> None:
            with pytest.raises(ConnectionRefusedError):
                await SteadyClient("stranger", port(server), username="mallory").connect()

        async def work(server: Server) -> None:
            server.log.write = log
            async with asyncio.timeout(20):
                while not counted.is_set():
                    await asyncio.gather(*[refused(server) for _ in range(40)])
            assert (
                "CONNECT refused: no plugin knows this user client_id=stranger peer=127.0.0.1:" in shown[0]
                and "user=mallory" in shown[0]
            )

        await during(server, work)

    run(test())


def test_the_start_waits_for_a_port_that_a_connection_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """44053 may be the local port of an outgoing connection. Before, the start ended with an error."""
    monkeypatch.setattr(listening, "AGAIN_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        caller = socket.create_connection(somebody.getsockname())
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        said: list[str] = []

        def log(level: str, text: str) -> None:
            if "is held by a connection" in text:
                said.append(text)
                caller.close()

        async def test() -> None:
            server = make(tmp_path, listener__vmq__default=f"127.0.0.1:{caller.getsockname()[1]}")
            server.log.write = log
            await server.start()
            await server.stop()

        run(test())
    assert len(said) == 1


class Cancelled:
    """An asynchronous plugin whose answer is cancelled, by the plugin or by the task that it waits for."""

    async def auth_on_register(self, peer: object, subscriber: object, user: str, *_: object) -> bool:
        if user == "waits":
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future
        raise asyncio.CancelledError

    async def on_client_gone(self, subscriber: object) -> None:
        raise asyncio.CancelledError


def test_a_plugin_that_is_cancelled_refuses_and_is_reported(tmp_path: Path) -> None:
    """Before, the client never got an answer, and no line was logged."""

    async def test() -> None:
        server = make(tmp_path, allow_anonymous="off", plugins__vmq_passwd="off")
        server.hooks.add("cancelled", Cancelled())

        async def work(server: Server) -> None:
            for name in ("raises", "waits"):
                with pytest.raises(ConnectionRefusedError, match="Connack"):
                    await asyncio.wait_for(SteadyClient(name, port(server), username=name).connect(), 5)
            said = [line for line in lines(server) if "plugin cancelled, hook auth_on_register" in line]
            assert len(said) == 2 and "the plugin waited for a task that was cancelled" in said[0]
            told: asyncio.Queue[str] = asyncio.Queue()
            server.log.write = lambda level, line: told.put_nowait(line)
            for _ in range(2):  # the second client finds that the lane of the first continues
                server.hooks.notify("on_client_gone", Subscriber("", "c"))
                assert "plugin cancelled, hook on_client_gone" in await asyncio.wait_for(told.get(), 5)

        await during(server, work)

    run(test())


def test_timers_wake_the_node(tmp_path: Path) -> None:
    """A will with a delay of a second, on an idle node."""

    async def test() -> None:
        async def work(server: Server) -> None:
            came: asyncio.Queue[bytes] = asyncio.Queue()
            reader = SteadyClient("reader", port(server))
            reader.delivered = lambda topic, payload, qos, properties: came.put_nowait(payload)
            await reader.connect()
            await reader.subscribe("will", 1)
            dying = SteadyClient(
                "dying", port(server), will=Will("will", b"gone", 1, False, {"will_delay_interval": 1})
            )
            await dying.connect()
            before = time.monotonic()
            await dying.abort()
            assert await came.get() == b"gone"
            assert 0.9 <= time.monotonic() - before <= 5
            await reader.disconnect()

        await during(make(tmp_path, systree_enabled="off"), work)

    run(test())


@pytest.mark.parametrize("level", ["off", "session"])
def test_the_event_log(tmp_path: Path, level: str) -> None:
    """The log is complete at the end of the stop, or was never begun."""

    async def test() -> None:
        async def work(server: Server) -> None:
            client = SteadyClient("eventful", port(server))
            await client.connect()
            await client.disconnect()

        await during(make(tmp_path, eventlog__level=level), work)
        await during(make(tmp_path, eventlog__level=level), work)

    run(test())
    rows, _ = read_log(tmp_path)
    assert ("eventful" in [row.get("client") for row in rows]) is (level == "session")
    if rows:
        first, second = (row for row in rows if row["type"] == "node.start")
        last = max(row["seq"] for row in rows if row["boot"] == first["boot"])
        assert "known_seq" not in first and (second["known_seq"], second["tail_lost"]) == (last, False)


def test_a_stop_waits_for_the_disk_for_a_bounded_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that never ends, in the writer's thread: the stop ends, and logs the missing rows."""
    monkeypatch.setattr(module, "STOP_S", 0.2)
    over = threading.Event()

    async def test() -> None:
        server = make(tmp_path)
        await server.start()
        settled = asyncio.Event()
        server.store.flush(settled.set)
        await settled.wait()
        assert server._engine is not None
        monkeypatch.setattr(LevelDBEngine, "_attempt", lambda self, batch: over.wait(20) and None)
        async with asyncio.timeout(5):
            await server.stop()
        assert [line for line in lines(server) if "not everything could be written within" in line]
        assert not over.is_set()
        over.set()
        server._close_databases()

    run(test())


def test_the_collector_is_tuned(collector: None) -> None:
    """Objects of the start are not scanned again, and full collections are rare."""
    tune_gc()
    assert gc.get_threshold()[0] == 10_000
    assert gc.get_freeze_count() > 0


def test_a_deadline_comes_in_time_after_cluster_time_was_set(tmp_path: Path) -> None:
    """A joining node takes the time of its cluster: deadlines set before that fire on time."""

    async def main() -> None:
        server = make(tmp_path / "data")
        await server.start()
        node, due = server.node, asyncio.Event()
        node.env.timers.at(node.env.tick() + 15_000, lambda: None)
        node.env.clock.ask_cluster()
        node.env.follow(node.env.clock.now_ms() + 3_600_000 - server._mono_ms())
        node.env.timers.at(node.env.tick() + 20, due.set)
        await asyncio.wait_for(due.wait(), 5)
        await server.stop()

    run(main())


def test_a_deleted_data_directory_ends_the_acknowledgements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds also for a node without writes."""
    monkeypatch.setattr(module, "_WATCH_S", 0.05)
    monkeypatch.setattr(module, "STOP_S", 0.2)

    async def main() -> None:
        server = make(tmp_path / "data")
        await server.start()
        failed = asyncio.Event()
        told = server.store.on_state

        def on_state(state: str, detail: str) -> None:
            if told is not None:
                told(state, detail)
            if state == "failed" and "was removed or replaced" in detail:
                failed.set()

        server.store.on_state = on_state
        (tmp_path / "data").rename(tmp_path / "elsewhere")
        await asyncio.wait_for(failed.wait(), 10)
        assert not server.store.accepting
        await server.stop()

    run(main())


def test_a_start_tells_a_loss_of_power_from_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process under another boot of the kernel finds that the last one has stopped in order, or that it has not."""

    def note() -> str:
        return str(json.loads((tmp_path / "strogoff.json").read_text())["unsynced"])

    async def nothing(_: Server) -> None:
        assert note() == module.machine_boot()

    def complaints(server: Server) -> list[str]:
        return [line for line in lines(server) if "may lack its last writes" in line]

    async def test() -> None:
        server = make(tmp_path)
        await during(server, nothing)
        assert note() == "" and not complaints(server)
        monkeypatch.setattr(module, "machine_boot", lambda: "another")
        server = make(tmp_path)
        await during(server, nothing)
        assert not complaints(server)
        monkeypatch.setattr(Server, "_note_synced", lambda _: asyncio.sleep(0))  # as after a kill
        await during(make(tmp_path), nothing)
        server = make(tmp_path)
        await during(server, nothing)
        assert note() == "another" and not complaints(server)
        monkeypatch.setattr(module, "machine_boot", lambda: "a third")
        server = make(tmp_path)
        await during(server, nothing)
        assert len(complaints(server)) == 1

    run(test())


def test_a_system_without_a_boot_of_its_kernel_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(_: Server) -> None: ...

    async def test() -> None:
        monkeypatch.setattr(module, "machine_boot", lambda: "")
        for settings, expected in (({}, True), ({"message_store__durability": "sync"}, False)):
            server = make(tmp_path, **settings)
            await during(server, nothing)
            assert any("has no id for the boot of its kernel" in line for line in lines(server)) is expected

    run(test())


def test_a_store_in_memory_lacks_everything_at_the_next_start(tmp_path: Path) -> None:
    async def nothing(_: Server) -> None: ...

    async def test() -> None:
        for expected in (0, 1):
            server = make(tmp_path, message_store__engine="memory")
            await during(server, nothing)
            assert sum("may lack its last writes" in line for line in lines(server)) == expected

    run(test())
