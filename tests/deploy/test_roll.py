"""The rolling restart of `deploy/upgrading/roll.py`: with nodes, and with pages that say that something is wrong."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from bench.broker_process import free_port
from bench.cluster_nodes import Node, end, start_joined, until
from bench.ha_test import SETTINGS, Slots
from tests.harness.scripts import load_script

SCRIPT = Path(__file__).parents[2] / "deploy/upgrading/roll.py"


roll = load_script("deploy/upgrading/roll.py")


class Pages(ThreadingHTTPServer):
    """The pages of a node of a cluster of one, whose state a test changes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.ready: tuple[int, dict[str, object]] = (200, {"status": "OK"})
        self.metrics_status = 200
        self.figures = {
            "cluster_members": 1.0,
            "cluster_serving": 1.0,
            "slots_without_primary": 0.0,
            "slots_without_copy": 0.0,
            "process_start_time_seconds": 1000.0,
        }
        self.place = f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Pages

    def do_GET(self) -> None:
        if self.path == "/metrics":
            lines = [f'vernemq_{name}{{node="n1@h"}} {value}' for name, value in self.server.figures.items()]
            self._answer(self.server.metrics_status, "# HELP x y\n" + "\n".join(lines) + "\n")
        else:
            self._answer(self.server.ready[0], json.dumps(self.server.ready[1]))

    def _answer(self, status: int, body: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def pages() -> Iterator[Pages]:
    """Pages of a node that is well."""
    served = Pages()
    thread = Thread(target=served.serve_forever, args=(0.01,))
    thread.start()
    yield served
    served.shutdown()
    thread.join()
    served.server_close()


def run(*words: str, restart: str = "true", within: str = "0") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--restart", restart, "--within", within, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def test_what_keeps_a_node_from_being_stopped(pages: Pages) -> None:
    node = roll.place(pages.place)
    assert roll.trouble(node, 1) == ""
    for name, value, said in (
        ("slots_without_copy", 3.0, f"{node} has 3 slots without second copy"),
        ("slots_without_primary", 2.0, f"{node} has 2 slots without primary"),
        ("cluster_serving", 0.0, f"{node} sees 0 of 1 nodes serve"),
        ("cluster_members", 3.0, f"{node} is in a cluster of 3 nodes, but 1 addresses were given"),
    ):
        former, pages.figures[name] = pages.figures[name], value
        assert roll.trouble(node, 1) == said
        pages.figures[name] = former
    pages.ready = (503, {"status": "DOWN", "reasons": ["this node stops"]})
    assert roll.trouble(node, 1) == f"{node}: /health/ready has status 503: this node stops"
    pages.ready = (200, {})
    del pages.figures["slots_without_copy"]
    with pytest.raises(roll.Wrong, match="lacks slots_without_copy"):
        roll.trouble(node, 1)
    pages.metrics_status = 401
    with pytest.raises(roll.Wrong, match="/metrics has status 401; set STROGOFF_API_KEY"):
        roll.trouble(node, 1)


def test_it_restarts_nothing_while_something_is_wrong(pages: Pages, tmp_path: Path) -> None:
    pages.figures["slots_without_copy"] = 1.0
    ended = run(pages.place, restart=f"touch {tmp_path}/restarted")
    assert ended.returncode == 1 and not (tmp_path / "restarted").exists()
    wrong = f"not well within 0 s: {pages.place} has 1 slots without second copy. No further node is restarted.\n"
    assert ended.stderr == wrong


def test_a_restart_that_fails(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll, "LOOK_S", 0.01)
    node = roll.place(pages.place)
    for command, said in (
        ("false {host}", r": false 127.0.0.1 has ended with status 1"),
        ("true", "but its process is the same as before after 0 s"),
        ("/no/such/program", "could not be run"),
    ):
        with pytest.raises(roll.Wrong, match=said):
            roll.roll([node], command, 0.0, lambda _: None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["10.0.0.1"], "'10.0.0.1': HOST:PORT of an HTTP listener is expected"),
        (["a:1", "a:1"], "an address is given twice"),
    ],
)
def test_a_wrong_command_line(words: list[str], said: str) -> None:
    ended = run(*words)
    assert ended.returncode == 2 and said in ended.stderr


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(180)
@pytest.mark.by_hand
def test_three_nodes_restart_in_turn(tmp_path: Path) -> None:
    """Each has an address of its own, and a script that stops it in order and starts it again."""
    nodes = [
        Node(tmp_path, f"n{n}", f"127.0.0.{n}", **SETTINGS, listener__http__default=f"127.0.0.{n}:{free_port()}")
        for n in (1, 2, 3)
    ]

    async def scenario() -> None:
        try:
            await start_joined(nodes)
            before = [node.pid for node in nodes]
            for node in nodes:
                script = tmp_path / f"restart-{node.host}"
                script.write_text(
                    f"{shlex.join([*node.command()[:3], 'stop', '--data-dir', str(node.data)])} || exit 1\n"
                    f"{shlex.join(node.command())} >> {node.log} 2>&1 &\n"
                )
            places = [node.settings["listener.http.default"] for node in nodes]
            restart = f"sh {tmp_path}/restart-{{host}}"
            ended = await asyncio.to_thread(run, *places, restart=restart, within="60")
            assert ended.returncode == 0, ended
            assert [line for line in ended.stdout.splitlines() if "restarts" in line] == [
                f"{number} of 3: {place} restarts" for number, place in enumerate(places, 1)
            ]
            assert ended.stdout.endswith("all slots have their copies\n")
            pids = [int((node.data / "lock").read_text().split()[0]) for node in nodes]
            assert not set(pids) & set(before)
            await until("each slot has two copies", Slots(nodes).all_copied)
            killed = await asyncio.to_thread(_killed_before_the_second, nodes, places, restart, pids)
            assert killed.returncode == 1 and "No further node is restarted" in killed.stderr, killed
        finally:
            await end(nodes)
            for node in nodes:
                stop = [*node.command()[:3], "stop", "--data-dir", str(node.data)]
                await asyncio.to_thread(subprocess.run, stop, capture_output=True)

    asyncio.run(scenario())


def _killed_before_the_second(
    nodes: list[Node], places: list[str], restart: str, pids: list[int]
) -> subprocess.CompletedProcess[str]:
    """The third node dies: no node is restarted."""
    os.kill(pids[2], signal.SIGKILL)
    ended = run(*places, restart=restart, within="3")
    assert "restarts" not in ended.stdout
    assert [int((node.data / "lock").read_text().split()[0]) for node in nodes[:2]] == pids[:2]
    return ended
