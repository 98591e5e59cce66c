"""Forming a cluster: by discovery, by hand, behind HAProxy; and messages between its nodes."""

from __future__ import annotations

import asyncio
import csv
import re
import shutil
import textwrap
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest

from bench.broker_process import free_port
from bench.cluster_nodes import Node, bad_lines, balanced, end, start_joined, until, whole
from bench.ha_test import Slots

from ..brokers import WITHIN_S, require_program, run_test
from ..mosquitto import Sub, pub
from ..paho_client import Paho
from .test_faults import serves_without

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(100)]

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"


STATS = """
    frontend stats
        mode http
        bind 127.0.0.1:{port}
        stats enable
        stats uri /
"""


def haproxy_cfg(port: int, stats: int, nodes: list[Node], health: list[int]) -> str:
    """Returns the configuration of the page with the addresses of the test. All nodes have one host, so each has a
    port.

    The port `stats` shows HAProxy's knowledge of the nodes.
    """
    shown = re.search(r"\n\n(    defaults\n.*?)\n\nWith `send-proxy-v2`", PAGE.read_text(), re.DOTALL)
    assert shown
    text = textwrap.dedent(shown[1]).replace("bind :1883", f"bind 127.0.0.1:{port}").replace(" port 8888", "")
    for n, (node, check) in enumerate(zip(nodes, health, strict=True), 1):
        text = text.replace(f"10.0.0.{n}:1883", f"127.0.0.1:{node.port} port {check}")
    assert "10.0.0" not in text
    return text + "\n" + textwrap.dedent(STATS.format(port=stats))


@asynccontextmanager
async def three(folder: Path, **settings: str) -> AsyncIterator[list[Node]]:
    """Three nodes, not started; stopped afterwards, without an error in their logs."""
    nodes = [Node(folder, f"n{n}", **settings) for n in (1, 2, 3)]
    try:
        yield nodes
        for node in nodes:
            assert await node.stop() == 0
        assert bad_lines(nodes) == []
    finally:
        await end(nodes)


async def everybody_talks(nodes: list[Node]) -> None:
    """Check that a subscriber at each node gets the publishes of each node, in the order of each publisher."""
    subs = [
        await Sub.start("-p", str(node.port), "-i", f"sub-{node.name}", "-t", "news/#", "-q", "1", "-F", "%t %p")
        for node in nodes
    ]
    for node in nodes:
        for n in range(5):
            assert await pub("-p", str(node.port), "-t", f"news/{node.name}", "-m", str(n), "-q", "1") == 0
    for sub in subs:
        got = await sub.finish(15)
        assert sorted(got) == sorted(f"news/{node.name} {n}" for node in nodes for n in range(5))
        for node in nodes:
            own = [line for line in got if line.startswith(f"news/{node.name} ")]
            assert own == [f"news/{node.name} {n}" for n in range(5)]


def test_by_discovery(tmp_path: Path) -> None:
    """All three start at once and know each other's addresses: they form one cluster."""

    async def scenario() -> None:
        async with three(tmp_path) as nodes:
            await start_joined(nodes)
            assert len({(await node.status())["cluster_id"] for node in nodes}) == 1
            await everybody_talks(nodes)

    run_test(scenario())


def test_a_node_that_lost_its_disk_rejoins_without_an_operator(tmp_path: Path) -> None:
    """Its process restarts itself when it knows the last boot number of its lost disk."""

    async def scenario() -> None:
        async with three(tmp_path, queue_balance_wait="1") as nodes:
            await start_joined(nodes)
            await until("each slot is in its place", partial(balanced, nodes), 60)
            await until("each slot has two copies", Slots(nodes).all_copied)
            lost = nodes[2]
            await lost.kill()
            shutil.rmtree(lost.data)
            await lost.start()
            await whole(nodes)
            await everybody_talks(nodes)

    run_test(scenario())


@pytest.mark.by_hand
def test_by_discovery_one_after_the_other(tmp_path: Path) -> None:
    """Two form a cluster; the third, whose name is the lowest, starts later. One of the two votes: the other one may be
    lost.
    """

    async def scenario() -> None:
        async with three(tmp_path, **MAJORITY) as nodes:
            first, second, third = nodes
            for node in nodes:
                node.settings["discovery.nodes"] = " ".join(each.address for each in nodes)
                node.settings["discovery.expected_nodes"] = "2"
            await asyncio.gather(second.start(), third.start())
            await whole([second, third])
            rows = {row["Node"]: row["Voter"] for row in (await second.status())["nodes"]}
            votes = second if rows[second.name] else third
            other = third if votes is second else second
            assert rows == {votes.name: True, other.name: False}
            await other.kill()
            await until("the one that votes goes on alone", partial(serves_without, votes, other))
            await other.start()
            await whole([second, third])
            await first.start()
            await whole(nodes)
            assert all(row["Voter"] for row in (await first.status())["nodes"])
            await everybody_talks(nodes)

    run_test(scenario())


@pytest.mark.by_hand
def test_by_hand(tmp_path: Path) -> None:
    """`cluster join` at the second and at the third, which asks a node that need not be the leader."""

    async def scenario() -> None:
        async with three(tmp_path) as nodes:
            await asyncio.gather(*[node.start() for node in nodes])
            first, second, third = nodes
            for node, other in ((second, first), (third, second)):
                answer = await node.ask("cluster", "join", f"discovery-node={other.address}")
                assert (answer.status, answer.text) == (0, "Done")
            await whole(nodes)
            shown = await first.ask("cluster", "show")
            assert [(row["Node"], row["Running"]) for row in shown.tables[0]] == [(n.name, True) for n in nodes]
            await everybody_talks(nodes)

    run_test(scenario())


def test_behind_haproxy(tmp_path: Path) -> None:
    """As in docs/operations.md: round robin over three nodes, the PROXY protocol, health by HTTP. Each client is at
    another node, and messages arrive everywhere. A killed node gets no more clients.
    """

    async def scenario() -> None:
        async with behind_haproxy(tmp_path) as (nodes, port, _):
            clients = await asyncio.to_thread(clients_meet, port)
            await their_addresses_are_known(nodes, clients)
            await nodes[1].kill()
            await until("new clients meet living nodes only", lambda: _served(port, 4))
            await asyncio.to_thread(part, clients)

    run_test(scenario())


@asynccontextmanager
async def behind_haproxy(folder: Path, **settings: str) -> AsyncIterator[tuple[list[Node], int, int]]:
    """Three joined nodes behind HAProxy, as in docs/operations.md; its ports for clients and for `all_are_well`."""
    require_program("haproxy", "haproxy")
    file, port, stats = folder / "haproxy.cfg", free_port(), free_port()
    async with three(folder, listener__tcp__default__proxy_protocol="on", **(settings or MAJORITY)) as nodes:
        health = [free_port() for _ in nodes]
        for node, check in zip(nodes, health, strict=True):
            node.settings["listener.http.health"] = f"127.0.0.1:{check}"
        file.write_text(haproxy_cfg(port, stats, nodes, health))
        await start_joined(nodes)
        proxy = await asyncio.create_subprocess_exec("haproxy", "-db", "-f", str(file), stderr=DEVNULL)
        try:
            await until("HAProxy knows that all are well", partial(all_are_well, stats))
            yield nodes, port, stats
        finally:
            proxy.kill()
            await proxy.wait()


MAJORITY = {
    f"allow_{operation}_during_netsplit": "majority"
    for operation in ("register", "publish", "subscribe", "unsubscribe")
}


async def all_are_well(stats: int) -> bool:
    """Wait until each node has answered HAProxy's health check: before that, one late answer removes a node."""

    def page() -> str:
        with urlopen(f"http://127.0.0.1:{stats}/;csv", timeout=WITHIN_S) as answer:
            return str(answer.read(), "ascii")

    try:
        rows = csv.DictReader((await asyncio.to_thread(page)).removeprefix("# ").splitlines())
    except OSError:
        return False
    return [row["check_status"] for row in rows if row["svname"] in ("n1", "n2", "n3")] == ["L7OK"] * 3


async def _served(port: int, count: int) -> bool:
    """Wait until this number of connections in a row is accepted."""
    for n in range(count):
        if await pub("-p", str(port), "-i", f"late-{n}", "-t", "late", "-m", "x", "-q", "1") != 0:
            return False
    return True


async def their_addresses_are_known(nodes: list[Node], clients: list[Paho]) -> None:
    """Check that each node has one of the clients, with the address from which it called HAProxy;
    each node lists all.
    """
    for node in nodes:
        shown = (await node.ask("session", "show", "--client_id", "--peer_host", "--peer_port", "--node")).tables[0]
        assert sorted(row["node"] for row in shown) == sorted(each.name for each in nodes)
        seen = sorted((row["client_id"], row["peer_host"], row["peer_port"]) for row in shown)
        assert seen == [(f"met-{n}", *client.local_address()) for n, client in enumerate(clients)]


def clients_meet(port: int) -> list[Paho]:
    """Let three clients, each at another node, send messages to each other."""
    clients = [Paho(None, f"met-{n}", 5, port=port) for n in range(3)]
    for client in clients:
        client.__enter__()
    for n, client in enumerate(clients):
        assert client.subscribe(f"meet/{n}/#", 1) == [1]
    for n, client in enumerate(clients):
        for other in range(3):
            client.publish(f"meet/{other}/{n}", f"{n} to {other}", qos=1)
    for n, client in enumerate(clients):
        assert sorted(client.payloads(3)) == [f"{other} to {n}".encode() for other in range(3)]
    return clients


def part(clients: list[Paho]) -> None:
    """Disconnect them; one has lost its node."""
    assert sum(client.gone.is_set() for client in clients) == 1
    for client in clients:
        client.__exit__()
