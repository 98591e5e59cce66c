"""Calls between nodes about settings, with real members and transports, and with wrong answers."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from strogoff.broker.clustering.config_calls import VALUES, answer_values, ask_values, spread
from strogoff.broker.clustering.operator_port import ClusterError
from strogoff.broker.runtime_settings import RuntimeSettings
from strogoff.cluster.transport.memory_asyncio import AsyncioMemoryTransport, memory_network
from strogoff.cluster.transport.wire import CallFailed, Refused
from strogoff.configs import load
from strogoff.testing import Cluster

from ...harness.broker import BrokerHarness

SETTINGS = load(None, {}, {"max_inflight_messages": "5", "distributed_cookie": "monster"})


def in_force(key: str) -> str | None:
    return RuntimeSettings(SETTINGS, BrokerHarness().node.env.store).in_force(key)


def asked(answer: Any) -> list[str | None]:
    """Returns the values that `ask_values` reads from a node with this answer."""

    async def run() -> list[str | None]:
        network = memory_network()
        here, there = AsyncioMemoryTransport(network, "a"), AsyncioMemoryTransport(network, "b")

        async def calls(method: str, request: bytes) -> bytes:
            assert method == VALUES
            return bytes(answer(request))

        address = await there.serve("b:1", lambda hello, wire: Refused("nobody"), calls)
        try:
            return await ask_values(here, "b", address, ["max_inflight_messages", "distributed_cookie"])
        finally:
            await here.close()
            await there.close()

    return asyncio.run(run())


def test_values_have_the_order_of_the_keys_and_secrets_are_hidden() -> None:
    assert asked(lambda request: answer_values(request, in_force)) == ["5", "(hidden)"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda request: b"\xc1", "b: "),
        (lambda request: msgspec.msgpack.encode(["1"]), "b: it sent 1 values for 2 keys"),
        (lambda request: answer_values(b"\xc1", in_force), "b: settings: "),
        (lambda request: answer_values(msgspec.msgpack.encode(["x"]), in_force), "b: settings: x: unknown key"),
    ],
)
def test_a_malformed_answer_is_an_error_that_names_the_node(answer: Any, said: str) -> None:
    with pytest.raises(ClusterError) as error:
        asked(answer)
    assert str(error.value).startswith(said)


def test_an_unknown_key_is_reported_to_the_caller() -> None:
    with pytest.raises(CallFailed, match="unknown key; did you mean max_inflight_messages"):
        answer_values(msgspec.msgpack.encode(["max_inflight_mesages"]), in_force)


def test_spread_waits_until_all_nodes_have_the_change_and_leaves_no_barrier() -> None:
    async def run() -> None:
        async with Cluster(3, pace=10) as cluster:
            shell = cluster[0].server.cluster
            assert shell is not None and shell.member is not None
            shell.config.put(b"nkey.x", b"1")
            await spread(shell.member, 5)
            others = [cluster[number].server.cluster for number in (1, 2)]
            assert [other is not None and other.config.get(b"nkey.x") for other in others] == [b"1", b"1"]
            await cluster.partition({0}, {1, 2})
            shell.config.put(b"nkey.x", b"2")
            with pytest.raises(ClusterError, match=r"not every node of its view confirmed it within 0\.05 s"):
                await spread(shell.member, 0.05)
            assert shell.member.metadata.statistics().barriers == 0
            await cluster.sees(0, "minority")
            with pytest.raises(ClusterError, match="has the change, but no lease: the other nodes get it"):
                await spread(shell.member, 60)

    asyncio.run(run())
