"""`node status`."""

from __future__ import annotations

from pathlib import Path

from ..server_harness import ServerHarness, run_with_server


def test_status(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        await harness.client("a")
        assert (await harness.good("node", "status")).out == (
            "+-----------------+-----+\n"
            "|     Status      |Value|\n"
            "+-----------------+-----+\n"
            "|   num_online    |  1  |\n"
            "|   num_offline   |  0  |\n"
            "|     msg_in      |  0  |\n"
            "|     msg_out     |  0  |\n"
            "|    queue_in     |  0  |\n"
            "|    queue_out    |  0  |\n"
            "|   queue_drop    |  0  |\n"
            "| queue_unhandled |  0  |\n"
            "|num_subscriptions|  0  |\n"
            "|  num_retained   |  0  |\n"
            "|  matches_local  |  0  |\n"
            "| matches_remote  |  0  |\n"
            "|     version     |0.1.0|\n"
            "+-----------------+-----+\n"
        )

    run_with_server(tmp_path, test)
