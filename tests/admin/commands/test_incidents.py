"""`cluster incidents`."""

from __future__ import annotations

from pathlib import Path

from ..fake_operator_port import FakeOperatorPort
from ..server_harness import ServerHarness, run_with_server


def test_the_last_incident_comes_first(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        harness.server.cluster = FakeOperatorPort()  # type: ignore[assignment]
        answer = await harness.good("cluster", "incidents", "--format=csv")
        assert answer.out.splitlines() == [
            "Number,Incident,Begin (UTC),Detected (UTC),Healed (UTC),Window (ms),Split (ms),State,Worst,Peers,View,"
            "Uncertain,Counts",
            "2,6,2023-11-14T22:15:00.000,2023-11-14T22:15:01.000,,1000,,majority,majority,c@127.0.0.1,7,,",
            "1,4,2023-11-14T22:13:20.250,2023-11-14T22:13:22.750,2023-11-14T22:13:32.000,2500,9250,majority,minority,"
            '"b@127.0.0.1, c@127.0.0.1",5,publish_accepted 3,"publish_accepted 4, publish_refused 2"',
        ]
        rows = (await harness.good("cluster", "incidents", "--limit=1", "--format=json")).table
        assert [(row["Number"], row["Healed (UTC)"], row["Split (ms)"], row["Counts"]) for row in rows] == [
            (2, None, None, None)
        ]

    run_with_server(tmp_path, test)


def test_a_node_alone_has_none(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        answer = await harness.admin("cluster", "incidents")
        assert answer.status == 1 and "is a standalone node: no listener.vmq" in answer.err

    run_with_server(tmp_path, test)
