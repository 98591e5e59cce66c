"""`cluster`: every answer, every format, every sentence."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from strogoff.admin.dispatch import run_command
from strogoff.admin.result import Text

from ..fake_operator_port import THIS_NODE, FakeOperatorPort
from ..server_harness import ServerHarness, run_with_server

ALONE = (
    f"{THIS_NODE} is a standalone node: no listener.vmq or listener.vmqs is configured, "
    "through which other nodes could "
)


def give(harness: ServerHarness) -> FakeOperatorPort:
    """Give a node of the test a fake operator port."""
    fake = FakeOperatorPort()
    harness.server.cluster = fake  # type: ignore[assignment]
    return fake


def test_show_on_a_node_alone(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        assert (await harness.good("cluster", "show")).out == (
            "+-----------------+-------+\n"
            "|      Node       |Running|\n"
            "+-----------------+-------+\n"
            "|VerneMQ@127.0.0.1| true  |\n"
            "+-----------------+-------+\n"
        )
        assert (
            await harness.good("cluster", "show", "--format", "csv")
        ).out == "Node,Running\nVerneMQ@127.0.0.1,true\n"

    run_with_server(tmp_path, test)


@pytest.mark.parametrize(
    "words",
    [("show", "--verbose"), ("status",), ("join", "discovery-node=b@127.0.0.1"), ("leave", "node=b@127.0.0.1")],
)
def test_a_command_for_clusters_is_an_error_on_a_node_alone(tmp_path: Path, words: tuple[str, ...]) -> None:
    async def test(harness: ServerHarness) -> None:
        answer = await harness.admin("cluster", *words)
        assert (answer.status, answer.out) == (1, "")
        assert answer.err.startswith(ALONE)

    run_with_server(tmp_path, test)


def test_show(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        give(harness)
        assert (await harness.good("cluster", "show")).out == (
            "+-----------------+-------+\n"
            "|      Node       |Running|\n"
            "+-----------------+-------+\n"
            "|VerneMQ@127.0.0.1| true  |\n"
            "|   b@127.0.0.1   | true  |\n"
            "|   c@127.0.0.1   | false |\n"
            "+-----------------+-------+\n"
        )
        assert (await harness.good("cluster", "show", "--format=json")).table == [
            {"Node": THIS_NODE, "Running": True},
            {"Node": "b@127.0.0.1", "Running": True},
            {"Node": "c@127.0.0.1", "Running": False},
        ]
        harness.server.node.closing = True
        assert (await harness.good("cluster", "show", "--format=json")).table[0] == {
            "Node": THIS_NODE,
            "Running": False,
        }
        harness.server.node.closing = False

    run_with_server(tmp_path, test)


def test_show_with_everything(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        give(harness)
        answer = await harness.good("cluster", "show", "--verbose", "--format=csv")
        assert answer.out == (
            "Node,Running,State,View,Address,Heard (ms),Voter,Stale,Waiting\n"
            f"{THIS_NODE},true,serving,boot 1 since view 5,127.0.0.1:44053,,true,false,0\n"
            "b@127.0.0.1,true,serving,boot 1 since view 5,127.0.0.1:44053,120,true,false,0\n"
            "c@127.0.0.1,false,absent,,127.0.0.1:44053,0,false,true,0\n"
        )
        gone = (await harness.good("cluster", "show", "--verbose", "--format=json")).table[2]
        assert gone == {
            "Node": "c@127.0.0.1",
            "Running": False,
            "State": "absent",
            "View": None,
            "Address": "127.0.0.1:44053",
            "Heard (ms)": 0,
            "Voter": False,
            "Stale": True,
            "Waiting": 0,
        }

    run_with_server(tmp_path, test)


def test_status(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = give(harness)
        fake.sees(leader=None)
        answer = await harness.good("cluster", "status")
        assert answer.out.startswith(
            "+-------------+---------+\n"
            "|   Status    |  Value  |\n"
            "+-------------+---------+\n"
            "| cluster_id  |   c1    |\n"
            "|   view_id   |    7    |\n"
            "|    sees     |majority |\n"
            "|   leader    |undefined|\n"
            "|lease_ms_left|  1500   |\n"
            "|   members   |    3    |\n"
            "|   serving   |    2    |\n"
            "|metadata_keys|   12    |\n"
            "| tombstones  |    1    |\n"
            "|  incidents  |    1    |\n"
            "|  log_disk   | serving |\n"
            "+-------------+---------+\n"
        )
        assert "|      Node       |Running| State |" in answer.out
        facts, nodes = (await harness.good("cluster", "status", "--format=json")).json
        assert {"Status": "leader", "Value": None} in facts["table"]
        assert [row["State"] for row in nodes["table"]] == ["serving", "serving", "absent"]

    run_with_server(tmp_path, test)


def test_join(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = give(harness)
        assert (await harness.good("cluster", "join", "discovery-node=b@127.0.0.1")).out == "Done\n"
        assert (await harness.good("cluster", "join", "discovery-node=d@x", "--merge")).out == "Done\n"
        assert (await harness.good("cluster", "join", "discovery-node=e@x", "--replace")).out == "Done\n"
        assert fake.asked == [
            ("join", "b@127.0.0.1", False, False),
            ("join", "d@x", True, False),
            ("join", "e@x", False, True),
        ]
        assert "notice joined the cluster of d@x" in harness.lines
        fake.wrong = "d@x cannot be reached: nobody listens at 10.0.0.1:44053."
        answer = await harness.admin("cluster", "join", "discovery-node=d@x")
        assert (answer.status, answer.out, answer.err) == (1, "", f"{fake.wrong}\n")
        answer = await harness.admin("cluster", "join", "discovery-node=d@x", "--format=json")
        assert answer.json == [{"type": "alert", "alert": [{"type": "text", "text": fake.wrong}]}]
        answer = await harness.admin("cluster", "join", f"discovery-node={THIS_NODE}")
        assert (answer.status, answer.err) == (1, f"{THIS_NODE} is this node. A node cannot join itself.\n")
        assert (await harness.admin("cluster", "join")).err.startswith("discovery-node=... must be given.\nUsage: ")

    run_with_server(tmp_path, test)


def test_leave(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = give(harness)
        leave = ("cluster", "leave", "node=c@127.0.0.1")
        assert (await harness.good(*leave)).out == "10 sessions to go\nDone\n"
        assert (await harness.good(*leave, "-k", "-i", "1", "-t=2", "--accept-loss", "--format=json")).json == [
            {"type": "text", "text": "10 sessions to go"},
            {"type": "text", "text": "Done"},
        ]
        await harness.good(*leave, "--kill_sessions", "--summary-interval=7", "--timeout=8")
        assert fake.asked == [
            ("leave", "c@127.0.0.1", False, 5.0, 60.0, False),
            ("leave", "c@127.0.0.1", True, 1.0, 2.0, True),
            ("leave", "c@127.0.0.1", True, 7.0, 8.0, False),
        ]
        assert "notice cluster leave node=c@127.0.0.1: 10 sessions to go" in harness.lines
        fake.lines = ["Done! Use -k to move its sessions as well."]
        assert (await harness.good(*leave)).out == "Done! Use -k to move its sessions as well.\n"

    run_with_server(tmp_path, test)


@pytest.mark.parametrize(
    ("lines", "wrong", "out", "err"),
    [
        (["half"], "The cluster is inconsistent, retry.", "half\n", "The cluster is inconsistent, retry.\n"),
        ([], "Sessions would be lost: a, b. Say --accept-loss.", "", "Sessions would be lost: a, b. Say --accept-l"),
        (["3 queues are still online"], "", "3 queues are still online\n", "c@127.0.0.1 has not left.\n"),
    ],
)
def test_a_leave_that_does_not_succeed(tmp_path: Path, lines: list[str], wrong: str, out: str, err: str) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = give(harness)
        fake.lines, fake.wrong = lines, wrong
        answer = await harness.admin("cluster", "leave", "node=c@127.0.0.1")
        assert (answer.status, answer.out) == (1, out)
        assert answer.err.startswith(err)
        assert harness.context.membership_change == ""

    run_with_server(tmp_path, test)


def test_leave_without_a_lease_does_not_judge_membership(tmp_path: Path) -> None:
    """The known members may be outdated: the cluster decides about the membership."""

    async def test(harness: ServerHarness) -> None:
        fake = give(harness)
        fake.sees(sees="minority")
        fake.wrong = "n1 knows of no member d@x, but it has no lease"
        answer = await harness.admin("cluster", "leave", "node=d@x")
        assert (answer.status, answer.err) == (1, "n1 knows of no member d@x, but it has no lease\n")

    run_with_server(tmp_path, test)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["node=d@x"], f"d@x is not a member of this cluster. Members are {THIS_NODE}, b@127.0.0.1, c@127.0.0.1.\n"),
        ([], "node=... must be given.\n"),
        (["node=c@127.0.0.1", "-i=0"], "--summary-interval: '0' is invalid: expected a whole number of seconds"),
        (["node=c@127.0.0.1", "-i=301"], "--summary-interval: '301' is invalid: expected a whole number of second"),
        (["node=c@127.0.0.1", "-t=-5"], "--timeout: '-5' is invalid: expected a whole number of seconds, 1 to 8"),
        (["node=c@127.0.0.1", "-t=1e3"], "--timeout: '1e3' is invalid"),
        (["node=c@127.0.0.1", "-t=999999"], "--timeout: '999999' is invalid"),
    ],
)
def test_leave_refuses_wrong_arguments(tmp_path: Path, words: list[str], said: str) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = give(harness)
        answer = await harness.admin("cluster", "leave", *words)
        assert answer.status == 1 and answer.err.startswith(said)
        assert fake.asked == []

    run_with_server(tmp_path, test)


def test_one_change_at_a_time(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = give(harness)
        fake.go_on.clear()
        first = asyncio.create_task(run_command(harness.context, ["cluster", "leave", "node=c@127.0.0.1"]))
        await harness.until(lambda: fake.asked)
        for words in (["leave", "node=b@127.0.0.1"], ["join", "discovery-node=d@x"]):
            answer = await harness.admin("cluster", *words)
            assert answer.status == 1
            assert answer.err == "cluster leave node=c@127.0.0.1 is running; wait for its end.\n"
        fake.go_on.set()
        assert await first == ([Text("10 sessions to go"), Text("Done")], 0)
        await harness.good("cluster", "join", "discovery-node=d@x")

    run_with_server(tmp_path, test)


def test_a_leave_continues_without_the_caller(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = give(harness)
        fake.lines = [*(f"{number} to go" for number in range(30, 0, -1)), "Done"]
        fake.go_on.clear()
        reader, writer = await asyncio.open_unix_connection(tmp_path / "d" / "admin.sock")
        body = b'{"words":["cluster","leave","node=c@127.0.0.1"]}'
        writer.write(b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert b"30 to go" in await reader.readuntil(b"30 to go")
        writer.close()
        await writer.wait_closed()
        fake.go_on.set()
        await harness.until(lambda: "notice cluster leave node=c@127.0.0.1: Done" in harness.lines)

    run_with_server(tmp_path, test)


def test_progress_lines_arrive_during_a_leave(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = give(harness)
        fake.go_on.clear()
        reader, writer = await asyncio.open_unix_connection(tmp_path / "d" / "admin.sock")
        body = b'{"words":["cluster","leave","node=c@127.0.0.1"]}'
        writer.write(b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert b'{"kind":"progress","text":"10 sessions to go"}\n' in await reader.readuntil(b'go"}\n')
        fake.go_on.set()
        assert b'{"kind":"text","text":"Done"}\n' in await reader.readuntil(b'"end"}\n')
        writer.close()

    run_with_server(tmp_path, test)


def test_found_makes_a_cluster_without_the_others(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = give(harness)
        await harness.good("cluster", "found")
        assert fake.asked == [("found",)]
        fake.wrong = "it is a member already"
        answer = await harness.admin("cluster", "found")
        assert answer.status == 1 and "it is a member already" in answer.err

    run_with_server(tmp_path, test)
