"""Three nodes behind HAProxy with a configuration of deploy/haproxy, and where their clients are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trustme

from bench.cluster_nodes import Node, bad_lines, end, start_joined, until
from bench.haproxy import HAProxy, Ports, proxied_node, write_slot_map

from ..brokers import require_program
from .test_forming import MAJORITY


@asynccontextmanager
async def behind(
    folder: Path,
    name: str,
    prepare: Callable[[Node, Ports], None] = lambda _node, _ports: None,
    variables: dict[str, str] | None = None,
) -> AsyncIterator[tuple[list[Node], HAProxy]]:
    """Start three nodes and HAProxy with `name`.cfg in front. `prepare` changes the settings of each node first."""
    require_program("haproxy", "haproxy")
    ports = Ports.free()
    nodes = [proxied_node(folder, number, ports, **MAJORITY) for number in (1, 2, 3)]
    for node in nodes:
        prepare(node, ports)
    slots = folder / "slots.map"
    proxy = HAProxy(folder, name, nodes, ports, STROGOFF_SLOT_MAP=str(slots), **(variables or {}))
    try:
        await start_joined(nodes)
        if name == "slots":
            for node in nodes:
                await until(f"the slots of {node.name} are in their places", partial(_settled, node))
            await write_slot_map(nodes, slots)
        await proxy.start()
        yield nodes, proxy
        assert bad_lines(nodes) == []
    finally:
        await proxy.stop()
        await end(nodes)


async def _settled(node: Node) -> bool:
    status = await node.status()
    return not status.get("slots_misplaced") and str(status.get("balance", "")).startswith("balanced")


async def sessions(node: Node, *columns: str) -> dict[str, dict[str, Any]]:
    """Client identifier -> these columns of `session show`, for the clients that are connected to any node."""
    words = [f"--{column}" for column in ("client_id", *columns)]
    shown = await node.ask("session", "show", "--is_online=true", "--limit=1000", *words)
    return {str(row["client_id"]): row for row in (shown.tables[0] if shown.tables else [])}


class Certificates:
    """An authority, its certificate for this machine, and certificates for clients, as files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._authority = trustme.CA()
        server = self._authority.issue_cert("127.0.0.1", "localhost")
        self.ca, self.cert, self.key = (folder / name for name in ("ca.pem", "cert.pem", "key.pem"))
        self.both = folder / "both.pem"
        self._authority.cert_pem.write_to_path(self.ca)
        server.cert_chain_pems[0].write_to_path(self.cert)
        server.private_key_pem.write_to_path(self.key)
        server.private_key_and_cert_chain_pem.write_to_path(self.both)

    def client(self, name: str | None, authority: trustme.CA | None = None) -> list[str]:
        """The options of mosquitto_pub for a client with this name in its certificate; None: with no name in it."""
        issued = (authority or self._authority).issue_cert("client@example.org", common_name=name)
        cert, key = self.folder / f"{name}-cert.pem", self.folder / f"{name}-key.pem"
        issued.cert_chain_pems[0].write_to_path(cert)
        issued.private_key_pem.write_to_path(key)
        return [*self.without(), "--cert", str(cert), "--key", str(key)]

    def without(self) -> list[str]:
        """The options for a client without a certificate."""
        return ["--cafile", str(self.ca)]
