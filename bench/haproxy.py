"""HAProxy with a configuration of deploy/haproxy, in front of nodes of this machine, for tests and benchmarks.

All nodes have the same ports, as in production, so each needs an address of its own: node N has 127.0.1.N.
"""

from __future__ import annotations

import asyncio
import csv
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from .broker_process import free_port
from .cluster_nodes import Node, until

CONFIGURATIONS = Path(__file__).parents[1] / "deploy" / "haproxy"
ANSWER_S = 5.0
"""How long the statistics page may take."""


class Ports(NamedTuple):
    """The ports that all nodes have in common: plain MQTT, MQTT over TLS and WebSocket, each behind a PROXY header, and
    the HTTP port with /health."""

    plain: int
    tls: int
    websocket: int
    health: int

    @classmethod
    def free(cls) -> Ports:
        """Reserve four ports."""
        return cls(*(free_port() for _ in cls._fields))


def proxied_node(folder: Path, number: int, ports: Ports, **settings: str) -> Node:
    """A node, not started, with a listener for HAProxy beside the one for direct clients. `number` counts from 1."""
    node = Node(folder, f"n{number}", f"127.0.1.{number}", **settings)
    node.settings["listener.tcp.proxied"] = f"{node.host}:{ports.plain}"
    node.settings["listener.tcp.proxied.proxy_protocol"] = "on"
    node.settings["listener.ws.proxied"] = f"{node.host}:{ports.websocket}"
    node.settings["listener.ws.proxied.proxy_protocol"] = "on"
    node.settings["listener.http.health"] = f"{node.host}:{ports.health}"
    return node


class HAProxy:
    """A process with a configuration of deploy/haproxy. `port` is for clients; `log` has its output."""

    def __init__(self, folder: Path, name: str, nodes: Sequence[Node], ports: Ports, **variables: str) -> None:
        self.file = CONFIGURATIONS / f"{name}.cfg"
        self.log = folder / f"haproxy-{name}.log"
        self.port, self.websocket, self._stats = free_port(), free_port(), free_port()
        self.process: Process | None = None
        self._servers = [f"node{number}" for number in range(1, len(nodes) + 1)]
        self._environment = {
            **{f"STROGOFF_NODE{number}": node.host for number, node in enumerate(nodes, 1)},
            "STROGOFF_BIND": f"127.0.0.1:{self.port}",
            "STROGOFF_WS_BIND": f"127.0.0.1:{self.websocket}",
            "STROGOFF_STATS_BIND": f"127.0.0.1:{self._stats}",
            "STROGOFF_PORT": str(ports.tls if name == "tls-passthrough" else ports.plain),
            "STROGOFF_WS_PORT": str(ports.websocket),
            "STROGOFF_HEALTH_PORT": str(ports.health),
            **variables,
        }

    async def start(self) -> None:
        """Start it, and wait until it has found all nodes well. Raises `TimeoutError`."""
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                "haproxy", "-db", "-f", str(self.file), env={**os.environ, **self._environment}, stdout=log, stderr=log
            )

        async def all_checked() -> bool:
            found = await self.rows()
            return all(found.get(server, {}).get("check_status") == "L7OK" for server in self._servers)

        await until(f"HAProxy with {self.file.name} finds all nodes well, see {self.log}", all_checked)

    async def stop(self) -> None:
        """End it."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            await process.wait()

    async def rows(self) -> dict[str, dict[str, str]]:
        """Returns the rows of the backend `nodes` on the statistics page, by the names of the servers; none if it does
        not answer."""

        def page() -> str:
            with urlopen(f"http://127.0.0.1:{self._stats}/;csv", timeout=ANSWER_S) as answer:
                return str(answer.read(), "ascii")

        try:
            text = await asyncio.to_thread(page)
        except OSError:
            return {}
        found = csv.DictReader(text.removeprefix("# ").splitlines())
        return {row["svname"]: row for row in found if row["pxname"] == "nodes"}

    async def is_down(self, number: int) -> bool:
        """Whether it takes the node with this number for dead."""
        return (await self.rows()).get(f"node{number}", {}).get("status", "").startswith("DOWN")

    async def is_up(self, number: int) -> bool:
        """Whether it sends new clients to the node with this number."""
        return (await self.rows()).get(f"node{number}", {}).get("status") == "UP"


async def write_slot_map(nodes: Sequence[Node], file: Path) -> None:
    """Write the map for slots.cfg, with the commands of docs/haproxy.md. Raises RuntimeError if one fails."""
    admin = Path(sys.executable).with_name("vmq-admin")
    asked = [str(admin), "--data-dir", str(nodes[0].data), "slot", "show", "--format=json"]
    shown = await _output(asked, b"")
    servers = [f"{node.name}=node{number}" for number, node in enumerate(nodes, 1)]
    lines = await _output([sys.executable, str(CONFIGURATIONS / "slot_map.py"), *servers], shown)
    await asyncio.to_thread(file.write_bytes, lines)


async def _output(command: Sequence[str], text: bytes) -> bytes:
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    output, errors = await asyncio.wait_for(process.communicate(text), 60)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: {errors.decode()}")
    return output
