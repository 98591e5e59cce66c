"""The answers to clients on both sides while one node is cut off: the tables of docs/netsplit.md, on the wire."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pytest

from bench.cluster_nodes import Node, until, whole
from strogoff.mqtt import packets
from strogoff.netsplit.policy import FLAGS, OPERATIONS, REFUSALS, TABLE, Decision, Refusal, ViewState

from .conftest import Apart
from .probe import Probe
from .test_faults import sees

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(120)]

SIDES = {"majority": 0, "minority": 2}
"""What a side sees -> one of its nodes; the third is cut off."""
ANSWERS: dict[str, Refusal] = {refusal.packet: refusal for refusal in REFUSALS}


class Client(NamedTuple):
    """A client that connected before the cut."""

    side: str
    probe: Probe

    def code(self, packet: str) -> int | None:
        """Returns the answer to a refused packet; None if there is none."""
        return ANSWERS[packet].v5 if self.probe.version == 5 else ANSWERS[packet].v3


class Split(NamedTuple):
    """The third node is cut off from the others; clients of both versions are at both sides."""

    nodes: list[Node]
    clients: list[Client]
    apart: Apart

    async def flags(self, value: str) -> None:
        """Set all four flags on all nodes."""
        words = [f"allow_{operation}_during_netsplit={value}" for operation in OPERATIONS]
        for node in self.nodes:
            answer = await node.ask("set", *words)
            assert answer.status == 0 or "has the change, but no lease" in answer.text, answer


@pytest.fixture
def split(apart: Apart) -> Iterator[Split]:
    """The split, which is healed in the end."""
    space, nodes, background = apart

    async def begin() -> Split:
        clients = [
            Client(side, Probe(nodes[SIDES[side]], f"early-{side}-{version}", version))
            for side, version in itertools.product(SIDES, (4, 5))
        ]
        for client in clients:
            assert (await client.probe.connect()).reason == 0
            assert await client.probe.subscribe(f"echo/{client.probe.client_id}/#", 2) == 2
        await space.soon(space.isolate, 3)
        for side, number in SIDES.items():
            await until(f"{side} is known", partial(sees, nodes[number], side))
        return Split(nodes, clients, apart)

    try:
        yield background.run(begin())
    finally:
        space.heal()
    background.run(whole(nodes))


async def registers(client: Client, node: Node, served: bool) -> None:
    """Check the answer to a CONNECT against the table, and that a refusal closes the connection."""
    late = Probe(node, f"late-{client.probe.client_id}", client.probe.version)
    connack = await late.connect()
    assert connack.reason == (0 if served else client.code("CONNECT"))
    if not served:
        await late.gone.wait()
    await late.close()


async def subscribes(client: Client, served: bool) -> None:
    """Check SUBSCRIBE and UNSUBSCRIBE; a refused filter is not subscribed."""
    probe = client.probe
    assert await probe.subscribe("some/filter", 1) == (1 if served else client.code("SUBSCRIBE"))
    refused = client.code("UNSUBSCRIBE")
    probe.send(packets.Unsubscribe(probe.packet_id(), ["some/filter"]))
    if served:
        assert all(code < 0x80 for code in (await probe.expect(packets.Unsuback)).reasons)
    elif refused is None:
        await probe.unanswered()
    else:
        assert (await probe.expect(packets.Unsuback)).reasons == [refused]


async def publishes(client: Client, qos: int, served: bool, word: str) -> bytes:
    """Publish to a subscription of the client itself; returns the payload."""
    probe = client.probe
    payload = f"{word}-{qos}".encode()
    packet_id = probe.offer(f"echo/{probe.client_id}/{word}", payload, qos)
    if qos == 0:
        await probe.unanswered()
        return payload
    kind: type[packets.Puback | packets.Pubrec] = packets.Puback if qos == 1 else packets.Pubrec
    refused = client.code(f"PUBLISH QoS {qos}")
    if not served and refused is None:
        await probe.unanswered()
        return payload
    answer = await probe.expect(kind)
    assert answer.packet_id == packet_id
    assert answer.reason < 0x80 if served else answer.reason == refused
    if served and qos == 2:
        probe.send(packets.Pubrel(packet_id))
        await probe.expect(packets.Pubcomp)
    return payload


def test_majority_and_on(split: Split) -> None:
    """Every operation of both versions on both sides, with one value for all four flags. Clean sessions of the cut-off
    node have missed messages: they are closed when it returns (H-18).
    """
    space, nodes, background = split.apart

    async def scenario() -> None:
        for flag, client in itertools.product(("majority", "on"), split.clients):
            await split.flags(flag)
            await everything(client, nodes[SIDES[client.side]], flag)
        await space.soon(space.heal)
        await whole(nodes)
        for client in split.clients:
            if client.side == "majority":
                await client.probe.unanswered()
            elif client.probe.version == 5:
                assert (await client.probe.expect(packets.Disconnect)).reason == 0x83
            else:
                await client.probe.gone.wait()

    background.run(scenario())


async def everything(client: Client, node: Node, flag: str) -> None:
    """Check all operations of one client against the table."""
    served = TABLE[flag, ViewState(client.side)] is not Decision.REFUSE
    await registers(client, node, served)
    await subscribes(client, served)
    if served:
        before = len(client.probe.messages)
        sent = [await publishes(client, qos, served, flag) for qos in (0, 1, 2)]
        assert (await client.probe.got(before + 3))[before:] == sent
    elif client.probe.version == 5:  # packets that 3.1.1 parks would delay the next ones
        for qos in (0, 1, 2):
            await publishes(client, qos, served, flag)


def test_off_refuses_on_both_sides_and_parks_until_the_heal(split: Split) -> None:
    """The default. Packets that MQTT 3.1.1 cannot refuse are accepted in order after the heal; refused ones are not."""
    space, nodes, background = split.apart
    assert FLAGS[0] == "off"

    async def scenario() -> None:
        await split.flags("off")
        before = {client: len(client.probe.messages) for client in split.clients}
        for client in split.clients:
            await registers(client, nodes[SIDES[client.side]], False)
            await subscribes(client, False)
            for qos in (0, 1, 2):
                await publishes(client, qos, False, "off")
        await space.soon(space.heal)
        await whole(nodes)
        for client in split.clients:
            if client.probe.version == 4:
                await parked_are_accepted(client)
            sent = [await publishes(client, 1, True, "healed")]
            expected = [b"off-1", b"off-2", *sent] if client.probe.version == 4 else sent
            assert (await client.probe.got(before[client] + len(expected)))[before[client] :] == expected

    background.run(scenario())


async def parked_are_accepted(client: Client) -> None:
    """Check that the parked publishes get their answers in order."""
    probe = client.probe
    await probe.expect(packets.Puback)
    received = await probe.expect(packets.Pubrec)
    probe.send(packets.Pubrel(received.packet_id))
    await probe.expect(packets.Pubcomp)
