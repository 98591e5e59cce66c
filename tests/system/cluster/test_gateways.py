"""Durable sessions of real processes: a client may connect to any node."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from bench.cluster_nodes import client_at, until, whole

from ..brokers import WITHIN_S, run_test
from .probe import Probe
from .test_commands import some
from .test_faults import serves_without

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(100)]


def test_a_session_is_resumed_at_any_node(tmp_path: Path) -> None:
    """Its messages arrive in order, although it begins at one node, leaves, and comes back at another one."""

    async def scenario() -> None:
        async with some(tmp_path, 3, joined=True) as nodes:
            client_id = await client_at(nodes[0], "c")
            writer = Probe(nodes[1], "writer")
            assert (await writer.connect()).reason == 0
            sent: list[bytes] = []
            for turn in range(6):
                probe = Probe(nodes[turn % 3], client_id)
                assert (await probe.connect(clean=False)).session_present == bool(turn)
                assert await probe.got(len(sent)) == sent
                assert await probe.subscribe("kept/#", 1) == 1
                await probe.close()
                sent = [b"%d-%d" % (turn, number) for number in range(20)]
                for payload in sent:
                    assert await writer.publish("kept/1", payload) == 0

    run_test(scenario())


def test_a_client_waits_for_its_primary(tmp_path: Path) -> None:
    """While the primary is away CONNECT waits, and then says why. After its restart the client gets everything."""

    async def scenario() -> None:
        async with some(tmp_path, 3, joined=True) as (first, second, third):
            client_id = await client_at(third, "c")
            probe, writer = Probe(first, client_id), Probe(second, "writer")
            assert (await probe.connect(clean=False)).reason == (await writer.connect()).reason == 0
            assert await probe.subscribe("kept/#", 1) == 1
            await probe.close()
            for number in range(10):
                assert await writer.publish("kept/1", b"%d" % number) == 0
            await third.kill()
            await until("the view is without it", partial(serves_without, first, third))
            connack = await Probe(first, client_id).connect(clean=False)
            assert connack.reason == 0x88 and connack.properties is not None
            said = connack.properties["reason_string"]
            assert "has no primary" in said or said == "the cluster is not complete"
            await third.start()
            await whole([first, second, third])
            probe = Probe(second, client_id)
            assert (await probe.connect(clean=False)).session_present
            assert await probe.got(10) == [b"%d" % number for number in range(10)]
            await probe.close()

    run_test(scenario())


def test_a_client_id_is_served_once(tmp_path: Path) -> None:
    """A client that connects at another node ends its former connection (0x8E)."""

    async def scenario() -> None:
        async with some(tmp_path, 3, joined=True) as nodes:
            former = None
            for turn in range(30):
                probe = Probe(nodes[turn * 7 % 3], "wanderer")
                assert (await probe.connect(clean=turn % 4 < 2)).reason == 0
                if former is not None:
                    await asyncio.wait_for(former.gone.wait(), WITHIN_S)
                former = probe
            assert former is not None
            await former.close()

    run_test(scenario())
