"""The sentence about a node for its service manager."""

from __future__ import annotations

from pathlib import Path

from strogoff.broker.process.node_summary import summary

from ...harness.servers import ServersInMemory, run
from ...harness.waiting import until


def test_a_node_with_and_without_a_cluster(tmp_path: Path) -> None:
    async def scenario(servers: ServersInMemory) -> None:
        first = await servers.start("n1")
        one = servers.servers["n1"]
        assert summary(one) == "n1@127.0.0.1 serves clients, and is in no cluster."
        second = await servers.start("n2")
        two = servers.servers["n2"]
        await second.join(first.address, merge=False)
        await until(lambda: summary(two) == "n2@127.0.0.1 serves clients: 2 of 2 nodes of its cluster serve.")
        await until(lambda: summary(one) == "n1@127.0.0.1 serves clients: 2 of 2 nodes of its cluster serve.")
        voter, other = (
            (one, "n2") if len([r for r in first.rows() if r.voter and r.node == "n1@127.0.0.1"]) else (two, "n1")
        )
        await servers.stop(other)
        policy = "and does what the split policy says for a majority: 1 of 2 nodes of its cluster serve."
        await until(lambda: summary(voter) == f"{voter.node.name} misses members, {policy}")

    run(tmp_path, scenario)


def test_a_node_that_waits_for_its_cluster(tmp_path: Path) -> None:
    async def scenario(servers: ServersInMemory) -> None:
        await servers.start("n1", discovery__nodes="127.0.0.1:44001 127.0.0.1:44002", distributed_cookie="5f0c")
        said = summary(servers.servers["n1"])
        assert said.startswith("n1@127.0.0.1 serves no clients: ") and "Start the others" in said

    run(tmp_path, scenario)


def test_the_disk_comes_first(tmp_path: Path) -> None:
    async def scenario(servers: ServersInMemory) -> None:
        await servers.start("n1")
        server = servers.servers["n1"]
        store = server.node.env.store
        store.state = "full"
        assert summary(server) == "n1@127.0.0.1 refuses messages: the disk is full."
        store.state, store.detail = "failed", "its folder is gone"
        assert summary(server) == (
            "n1@127.0.0.1: the message store has failed, start the node again: its folder is gone"
        )
        store.state = "serving"  # else the stop waits for the disk

    run(tmp_path, scenario)
