"""The report of an error of a client or a cluster ends at the author's line; a defect is shown whole."""

from __future__ import annotations

import re

import pytest

from strogoff.testing.hidden_frames import of_documented_errors

from .run_sample import run_sample

pytest_plugins = "pytester"

SOURCE = """
    import asyncio
    from strogoff.testing import Client, Cluster

    def test_refused(mqtt_client):
        mqtt_client("tx").publish("$SYS/no", "x", qos=1)  # here

    def test_timeout(mqtt_broker, mqtt_client):
        tx = mqtt_client("tx")
        mqtt_broker.pause()
        tx.publish("t", "x", qos=1, timeout=0.01)  # here

    def test_cluster(mqtt_broker):
        mqtt_broker.sees(0, "minority", timeout=0.01)  # here

    def test_fault(mqtt_broker):
        mqtt_broker.start()  # here

    def test_bridged(mqtt_client):
        async def work():
            tx = await mqtt_client.aio("tx")
            await tx.publish("$SYS/no", "x", qos=1)  # here
        asyncio.run(work())

    def test_own_loop(mqtt_cluster):
        async def work():
            async with mqtt_cluster() as c:
                await c.client("nobody", node=2)  # here
        asyncio.run(work())

    def test_no_connection(mqtt_broker):
        mqtt_broker.kill()
        async def work():
            await Client("tx", port=mqtt_broker.port).connect()  # here
        asyncio.run(work())

    def test_no_connection_from_a_thread(mqtt_broker, mqtt_client):
        mqtt_broker.kill()
        mqtt_client("tx")  # here

    def test_defect(mqtt_broker):
        mqtt_broker.cluster.settled = lambda *arguments: 1 / 0
        mqtt_broker.settled()
"""


def test_a_report_ends_at_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    result = run_sample(pytester, SOURCE, "--tb=short")
    result.assert_outcomes(failed=9)
    _, *reports = re.split(r"\n_+ (?=test_)", result.stdout.str())
    for report in reports[:-1]:
        *_, last = [line for line in report.split("\nE ")[0].splitlines() if line.strip(" ^")]
        frames = re.findall(r"strogoff/testing/\S+", report.split("\nE ")[0])
        assert last.endswith("# here"), report
        assert frames == [], report
    assert "testing/sync.py" in reports[-1]


def test_other_errors_are_shown_whole() -> None:
    """Also if pytest does not say which error it is."""
    with pytest.raises(ConnectionRefusedError) as refused:
        raise ConnectionRefusedError
    with pytest.raises(KeyError) as defect:
        raise KeyError
    assert [of_documented_errors(each) for each in (refused, defect, None)] == [True, False, False]
