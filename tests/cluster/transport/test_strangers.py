"""Log lines about refused peers: enough to help, and bounded."""

from __future__ import annotations

from strogoff.cluster.transport.strangers import AGAIN_MS, OTHERS, REMEMBERED, Strangers


def test_the_first_refusal_is_logged_with_a_remedy() -> None:
    line = Strangers().refused("10.0.0.9:5555", "its proof is wrong", 0)
    assert line is not None
    assert line.startswith("connection of another node from 10.0.0.9 refused: its proof is wrong.")
    assert line.endswith("If it is no node of this cluster, keep it away from this port")


def test_more_of_them_are_counted() -> None:
    """Refusals from other ports count as well. After a minute there is another line with their number."""
    strangers = Strangers()
    strangers.refused("10.0.0.9:1", "x", 0)
    assert [strangers.refused(f"10.0.0.9:{port}", "x", port) for port in range(2, 500)] == [None] * 498
    line = strangers.refused("10.0.0.9:7", "x", AGAIN_MS)
    assert line is not None and "(498 more since the last line)" in line
    assert strangers.refused("10.0.0.8:7", "x", AGAIN_MS) is not None


def test_a_flood_from_many_hosts_is_one_log_line() -> None:
    strangers = Strangers()
    lines = [strangers.refused(f"10.0.{number // 256}.{number % 256}:1", "x", number) for number in range(5000)]
    said = [line for line in lines if line is not None]
    assert len(said) == REMEMBERED + 1
    assert OTHERS in said[-1]
    assert len(strangers._hosts) == REMEMBERED + 1
    assert strangers.refused("10.9.9.9:1", "x", 2 * AGAIN_MS) is not None
    assert len(strangers._hosts) <= 2


def test_ipv6_hosts() -> None:
    line = Strangers().refused("[fd00::1]:5555", "x", 0)
    assert line is not None and "from [fd00::1] refused" in line
