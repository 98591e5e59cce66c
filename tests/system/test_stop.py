"""Nodes that are told to stop while something hangs: the process ends, and what it acknowledged is there afterwards."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.broker_process import BrokerProcess, free_port

from .brokers import WITHIN_S, Background, until
from .paho_client import MQTT_5, Paho

pytestmark = [pytest.mark.system, pytest.mark.timeout(90)]
CLIENTS = 40
"""More than the event loop has threads."""
CONNECT = b"\x10\x0d\0\x04MQTT\x04\x02\0\0\0\x01c"
PLUGIN = """
import asyncio, time
class Plugin:
    auth_on_subscribe = auth_on_publish = lambda *arguments: True
    async def auth_on_register(self, peer, client, *arguments):
        if client[1] == "well":
            return True
        open("called", "a").close()
        {hangs}
"""
THREADS = PLUGIN.format(hangs="await asyncio.to_thread(time.sleep, 600)  # a user database that does not answer")
TASK = PLUGIN.format(
    hangs="""while True:
            try:
                await asyncio.sleep(600)
            except BaseException:
                pass  # try again"""
)
DISK = """
import time
from strogoff.storage import directory
directory.sync_files = lambda folder: time.sleep(600)
class Plugin:
    auth_on_subscribe = auth_on_publish = lambda *arguments: True
    def auth_on_register(self, *arguments):
        open("called", "a").close()
        return True
"""


class PluginBroker(BrokerProcess):
    """A node with a plugin."""

    def __init__(self, folder: Path, plugin: str) -> None:
        settings = {"plugins__python__mine": "of_the_test:Plugin", "plugins__vmq_passwd": "off"}
        super().__init__(folder / "data", free_port(), allow_anonymous="off", plugins__vmq_acl="off", **settings)
        self.folder = folder
        (folder / "of_the_test.py").write_text(plugin)

    def command(self) -> list[str]:
        return ["env", f"PYTHONPATH={self.folder}", *super().command()]

    def stop_from_outside(self) -> str:
        """`strogoff stop`, which reports the end of the process. Returns what the process said last."""
        command = [sys.executable, "-m", "strogoff", "stop", "--data-dir", str(self.data), "--timeout", f"{WITHIN_S}"]
        ended = subprocess.run(command, capture_output=True, text=True)
        assert ended.returncode == 0 and ended.stdout.endswith("has stopped.\n"), ended.stderr
        return self.log.read_text()


@pytest.mark.parametrize(
    ("plugin", "named"),
    [
        pytest.param(THREADS, "thread uvloop_0 (", marks=pytest.mark.slow),
        (TASK, "task <coroutine "),
        pytest.param(DISK, "thread last work_0 (", marks=pytest.mark.slow),
    ],
    ids=["threads", "task", "disk"],
)
def test_what_hangs_does_not_keep_the_process(background: Background, tmp_path: Path, plugin: str, named: str) -> None:
    """Before, it never ended, with plugins that hang; with such a disk only if the sync ended."""
    node = PluginBroker(tmp_path, plugin)
    background.run(node.start())
    with ExitStack() as clients:
        well = clients.enter_context(
            Paho(None, "well", MQTT_5, port=node.port, connect={"SessionExpiryInterval": 300}, clean=False)
        )
        assert well.subscribe("t", 1) == [1]
        for _ in range(CLIENTS):
            clients.enter_context(socket.create_connection(("127.0.0.1", node.port), WITHIN_S)).sendall(CONNECT)
        until((tmp_path / "called").exists)
        well.publish("r", b"kept", 1, retain=True)
        said = node.stop_from_outside()
    assert "the process ends, although this has not ended: " in said and named in said
    assert background.run(node.stop()) == 0
    (tmp_path / "of_the_test.py").write_text(THREADS)
    background.run(node.start())
    with Paho(None, "well", MQTT_5, port=node.port, connect={"SessionExpiryInterval": 300}, clean=False) as well:
        assert well.session_present and well.subscribe("r", 1) == [1]
        assert well.next().payload == b"kept"
        node.stop_from_outside()
    assert background.run(node.stop()) == 0
