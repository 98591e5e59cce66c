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


def test_status_tells_what_the_event_log_leaves_out(tmp_path: Path) -> None:
    """Only while its writer does not keep up, or its disk fails."""

    async def test(harness: ServerHarness) -> None:
        log, choice = harness.server.eventlog, harness.server.node.env.observer.choice
        assert log is not None
        client = await harness.client("a")
        assert "event log" not in (await harness.good("node", "status")).out
        log._ring._pressed = True
        log._ring._size = 1 << 30
        await client.publish("t", b"x")
        assert choice.sampling
        answer = await harness.admin("node", "status")
        assert (
            "leaves out whole messages, because its writer does not keep up: 1 since the start"
            in answer.out + answer.err
        )
        metrics = (await harness.good("metrics", "show")).out
        assert "eventlog_sampling = 1" in metrics and "eventlog_messages_left_out = 1" in metrics
        log._drain.failing = True
        answer = await harness.admin("node", "status")
        assert "cannot be written" in answer.out + answer.err

    run_with_server(tmp_path, test, eventlog__level="message")
