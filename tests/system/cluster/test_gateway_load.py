"""Takeovers under load and kills of a gateway, in short; `make gateway-test` is the long form."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.gateway_test import GatewayKills, Takeovers

from ..brokers import run_test

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(150)]


@pytest.mark.by_hand
def test_one_connection_of_a_client_id_is_served(tmp_path: Path) -> None:
    """P1, P2, P3: connections at random nodes, one after the other and many at once."""

    async def scenario() -> None:
        run = Takeovers(300, 4, seed=7, folder=tmp_path)
        assert await run.run() == []
        assert len(run.ledger.acked) > 100

    run_test(scenario())


def test_qos_2_messages_survive_kills_of_the_gateway(tmp_path: Path) -> None:
    """P1, P2, P6: the sessions are at two nodes, and the clients connect to the third."""

    async def scenario() -> None:
        run = GatewayKills(4, seed=7, folder=tmp_path)
        assert await run.run() == []
        assert len(run.ledger.acked) > 200

    run_test(scenario())
