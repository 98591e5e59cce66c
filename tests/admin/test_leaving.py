"""A node whose ports `cluster leave` has closed, from the view of clients, load balancers and operators."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from strogoff.cluster.transport.memory_asyncio import memory_network
from strogoff.mqtt import packets
from tests.admin.test_newcomers import Linked, opened


async def _closed_and_opened_again(tmp_path: Path) -> None:
    network = memory_network()
    http = {"listener.http.default": "127.0.0.1:0"}
    async with opened(Linked(tmp_path, "a", network)) as a, opened(Linked(tmp_path, "b", network, **http)) as b:
        await b.good("cluster", "join", f"discovery-node={a.place}")
        client, port = await b.client("c"), b.port
        assert (await b.get("/health"))[0] == 200
        answer = await a.good("cluster", "leave", "node=b@127.0.0.1")
        assert answer.out.splitlines()[-1].startswith("Done! Use -k")
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await b.client_at(port, "other")
        client.send(packets.Pingreq())
        assert isinstance(await client.packet(), packets.Pingresp)
        status, text = await b.get("/health")
        assert (status, json.loads(text)["reasons"]) == (503, [f"listener mqtt 127.0.0.1:{port} is stopped"])
        await b.good("listener", "restart", "address=127.0.0.1", f"port={port}")
        assert (await b.get("/health"))[0] == 200
        await b.client_at(port, "other")


def test_leave_closes_the_ports_and_keeps_connections(tmp_path: Path) -> None:
    """VerneMQ without -k does the same. Before, connections were closed, and load balancers saw a healthy node."""
    asyncio.run(_closed_and_opened_again(tmp_path))
