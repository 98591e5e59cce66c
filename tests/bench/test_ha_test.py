"""Which node suffers in which round, and the names of the clients."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bench.cluster_nodes import Node
from bench.ha_test import FAULTS, ROLES, Load, Plan, Walker, name_in
from strogoff.cluster.identity import slot_of
from strogoff.mqtt import packets
from strogoff.mqtt.decoder import Decoder
from strogoff.mqtt.encoder import encode


@pytest.mark.parametrize("role", ROLES)
def test_the_node_that_suffers_has_that_role_alone(role: str, tmp_path: Path) -> None:
    primary, follower, third = (Node(tmp_path, name) for name in ("n1", "n2", "n3"))
    plan = Plan(ROLES, FAULTS, (1, 2), seed=5)
    for _ in range(20):
        gateway, sender, victim = plan.places(role, primary, follower, third)
        roles = {"primary": primary, "follower": follower, "gateway": gateway, "sender": sender}
        assert [name for name, node in roles.items() if node is victim] == [role]


def test_each_case_comes_once_before_any_comes_again() -> None:
    plan = Plan(("primary", "sender"), ("kill", "stop"), (1,), seed=3)
    cases = [plan.next_case() for _ in range(8)]
    every = {("primary", "kill"), ("primary", "stop"), ("sender", "kill"), ("sender", "stop")}
    assert set(cases[:4]) == set(cases[4:]) == every


def test_a_seed_gives_the_same_cases() -> None:
    first, second = (Plan(ROLES, FAULTS, (1, 2), seed=9) for _ in range(2))
    assert [first.next_case() for _ in range(32)] == [second.next_case() for _ in range(32)]


def test_a_client_id_is_in_one_of_the_slots() -> None:
    name = name_in({7, 200}, "sub-")
    assert name.startswith("sub-")
    assert slot_of("", name) in {7, 200}
    with pytest.raises(ValueError, match="no slot for sub-"):
        name_in((), "sub-")


def test_a_payload_has_its_size_and_its_number() -> None:
    assert Load().payload(1, "pub-1", 17) == b"1:pub-1-17"
    filled = Load(size=150).payload(1, "pub-1", 17)
    assert (len(filled), filled.rpartition(b"-")[0], int(filled.rpartition(b"-")[2])) == (150, b"1:pub-1", 17)


def test_a_client_says_what_it_sends_again_and_what_has_dup() -> None:
    """The broker closes the first connection without PUBACK. In the second one it sends two messages."""
    asyncio.run(_connect_twice())


async def _connect_twice() -> None:
    connections = 0

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        decoder = Decoder("server")
        while data := await reader.read(65536):
            for packet in decoder.feed(data):
                if isinstance(packet, packets.Connect):
                    writer.write(encode(packets.Connack(connections > 1, 0), 4))
                    if connections == 2:
                        for dup, payload in ((False, b"new"), (True, b"old")):
                            writer.write(encode(packets.Publish("t", payload, 1, False, dup, 1 + dup), 4))
                elif isinstance(packet, packets.Publish) and connections == 1:
                    writer.close()

    resent: list[bytes] = []
    came: list[tuple[bytes, bool]] = []
    two = asyncio.Event()

    def delivered(topic: str, payload: bytes, qos: int, properties: dict[str, Any]) -> None:
        came.append((payload, client.dup))
        if len(came) == 2:
            two.set()

    async with await asyncio.start_server(broker, "127.0.0.1", 0) as server, asyncio.timeout(10):
        client = Walker("walker", server.sockets[0].getsockname()[1], 4)
        client.resent = resent.append
        client.delivered = delivered
        await client.connect()
        await client.publish("t", b"mine", 1)
        await client.gone.wait()
        assert resent == []
        await client.connect()
        await two.wait()
        await client.abort()
    assert (resent, came) == ([b"mine"], [(b"new", False), (b"old", True)])
