"""`cluster`: every answer, every format, every sentence."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from strogoff.admin.performing import perform
from strogoff.admin.reply import Text

from ..house import House, in_house
from ..office import HERE, Office

ALONE = f"{HERE} is a node on its own: no listener.vmq or listener.vmqs is configured, through which other nodes could "


def give(house: House) -> Office:
    """The office to a node of the test."""
    office = Office()
    house.server.cluster = office  # type: ignore[assignment]
    return office


def test_show_on_a_node_alone(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        assert (await house.good("cluster", "show")).out == (
            "+-----------------+-------+\n"
            "|      Node       |Running|\n"
            "+-----------------+-------+\n"
            "|VerneMQ@127.0.0.1| true  |\n"
            "+-----------------+-------+\n"
        )
        assert (await house.good("cluster", "show", "--format", "csv")).out == "Node,Running\nVerneMQ@127.0.0.1,true\n"

    in_house(tmp_path, test)


@pytest.mark.parametrize(
    "words",
    [("show", "--verbose"), ("status",), ("join", "discovery-node=b@127.0.0.1"), ("leave", "node=b@127.0.0.1")],
)
def test_a_node_alone_says_so(tmp_path: Path, words: tuple[str, ...]) -> None:
    async def test(house: House) -> None:
        answer = await house.admin("cluster", *words)
        assert (answer.status, answer.out) == (1, "")
        assert answer.err.startswith(ALONE)

    in_house(tmp_path, test)


def test_show(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        give(house)
        assert (await house.good("cluster", "show")).out == (
            "+-----------------+-------+\n"
            "|      Node       |Running|\n"
            "+-----------------+-------+\n"
            "|VerneMQ@127.0.0.1| true  |\n"
            "|   b@127.0.0.1   | true  |\n"
            "|   c@127.0.0.1   | false |\n"
            "+-----------------+-------+\n"
        )
        assert (await house.good("cluster", "show", "--format=json")).table == [
            {"Node": HERE, "Running": True},
            {"Node": "b@127.0.0.1", "Running": True},
            {"Node": "c@127.0.0.1", "Running": False},
        ]
        house.server.node.closing = True
        assert (await house.good("cluster", "show", "--format=json")).table[0] == {"Node": HERE, "Running": False}
        house.server.node.closing = False

    in_house(tmp_path, test)


def test_show_with_everything(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        give(house)
        answer = await house.good("cluster", "show", "--verbose", "--format=csv")
        assert answer.out == (
            "Node,Running,State,View,Address,Heard (ms),Voter,Stale,Waiting\n"
            f"{HERE},true,serving,boot 1 since view 5,127.0.0.1:44053,,true,false,0\n"
            "b@127.0.0.1,true,serving,boot 1 since view 5,127.0.0.1:44053,120,true,false,0\n"
            "c@127.0.0.1,false,absent,,127.0.0.1:44053,0,false,true,0\n"
        )
        gone = (await house.good("cluster", "show", "--verbose", "--format=json")).table[2]
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

    in_house(tmp_path, test)


def test_status(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        office = give(house)
        office.sees(leader=None)
        answer = await house.good("cluster", "status")
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
        facts, nodes = (await house.good("cluster", "status", "--format=json")).json
        assert {"Status": "leader", "Value": None} in facts["table"]
        assert [row["State"] for row in nodes["table"]] == ["serving", "serving", "absent"]

    in_house(tmp_path, test)


def test_join(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        office = give(house)
        assert (await house.good("cluster", "join", "discovery-node=b@127.0.0.1")).out == "Done\n"
        assert (await house.good("cluster", "join", "discovery-node=d@x", "--merge")).out == "Done\n"
        assert (await house.good("cluster", "join", "discovery-node=e@x", "--replace")).out == "Done\n"
        assert office.asked == [
            ("join", "b@127.0.0.1", False, False),
            ("join", "d@x", True, False),
            ("join", "e@x", False, True),
        ]
        assert "notice joined the cluster of d@x" in house.lines
        office.wrong = "d@x cannot be reached: nobody listens at 10.0.0.1:44053."
        answer = await house.admin("cluster", "join", "discovery-node=d@x")
        assert (answer.status, answer.out, answer.err) == (1, "", f"{office.wrong}\n")
        answer = await house.admin("cluster", "join", "discovery-node=d@x", "--format=json")
        assert answer.json == [{"type": "alert", "alert": [{"type": "text", "text": office.wrong}]}]
        answer = await house.admin("cluster", "join", f"discovery-node={HERE}")
        assert (answer.status, answer.err) == (1, f"{HERE} is this node: a node cannot join itself.\n")
        assert (await house.admin("cluster", "join")).err.startswith("discovery-node=... must be given.\nUsage: ")

    in_house(tmp_path, test)


def test_leave(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        office = give(house)
        leave = ("cluster", "leave", "node=c@127.0.0.1")
        assert (await house.good(*leave)).out == "10 sessions to go\nDone\n"
        assert (await house.good(*leave, "-k", "-i", "1", "-t=2", "--accept-loss", "--format=json")).json == [
            {"type": "text", "text": "10 sessions to go"},
            {"type": "text", "text": "Done"},
        ]
        await house.good(*leave, "--kill_sessions", "--summary-interval=7", "--timeout=8")
        assert office.asked == [
            ("leave", "c@127.0.0.1", False, 5.0, 60.0, False),
            ("leave", "c@127.0.0.1", True, 1.0, 2.0, True),
            ("leave", "c@127.0.0.1", True, 7.0, 8.0, False),
        ]
        assert "notice cluster leave node=c@127.0.0.1: 10 sessions to go" in house.lines
        office.lines = ["Done! Use -k to move its sessions as well."]
        assert (await house.good(*leave)).out == "Done! Use -k to move its sessions as well.\n"

    in_house(tmp_path, test)


@pytest.mark.parametrize(
    ("lines", "wrong", "out", "err"),
    [
        (["half"], "The cluster is inconsistent, retry.", "half\n", "The cluster is inconsistent, retry.\n"),
        ([], "Sessions would be lost: a, b. Say --accept-loss.", "", "Sessions would be lost: a, b. Say --accept-l"),
        (["3 queues are still online"], "", "3 queues are still online\n", "c@127.0.0.1 has not left.\n"),
    ],
)
def test_a_leave_that_does_not_succeed(tmp_path: Path, lines: list[str], wrong: str, out: str, err: str) -> None:
    async def test(house: House) -> None:
        office = give(house)
        office.lines, office.wrong = lines, wrong
        answer = await house.admin("cluster", "leave", "node=c@127.0.0.1")
        assert (answer.status, answer.out) == (1, out)
        assert answer.err.startswith(err)
        assert house.context.moving == ""

    in_house(tmp_path, test)


def test_a_node_without_a_lease_does_not_say_that_somebody_is_no_member(tmp_path: Path) -> None:
    """What it knows may be old: the cluster's own part says what it knows of."""

    async def test(house: House) -> None:
        office = give(house)
        office.sees(sees="minority")
        office.wrong = "n1 knows of no member d@x, but it has no lease"
        answer = await house.admin("cluster", "leave", "node=d@x")
        assert (answer.status, answer.err) == (1, "n1 knows of no member d@x, but it has no lease\n")

    in_house(tmp_path, test)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["node=d@x"], f"d@x is not a member of this cluster. Members are {HERE}, b@127.0.0.1, c@127.0.0.1.\n"),
        ([], "node=... must be given.\n"),
        (["node=c@127.0.0.1", "-i=0"], "--summary-interval: '0' is not what is expected: a whole number of seconds"),
        (["node=c@127.0.0.1", "-i=301"], "--summary-interval: '301' is not what is expected: a whole number of second"),
        (["node=c@127.0.0.1", "-t=-5"], "--timeout: '-5' is not what is expected: a whole number of seconds, 1 to 8"),
        (["node=c@127.0.0.1", "-t=1e3"], "--timeout: '1e3' is not what is"),
        (["node=c@127.0.0.1", "-t=999999"], "--timeout: '999999' is not what is"),
    ],
)
def test_what_leave_does_not_understand(tmp_path: Path, words: list[str], said: str) -> None:
    async def test(house: House) -> None:
        office = give(house)
        answer = await house.admin("cluster", "leave", *words)
        assert answer.status == 1 and answer.err.startswith(said)
        assert office.asked == []

    in_house(tmp_path, test)


def test_one_change_at_a_time(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        office = give(house)
        office.go_on.clear()
        first = asyncio.create_task(perform(house.context, ["cluster", "leave", "node=c@127.0.0.1"]))
        await house.until(lambda: office.asked)
        for words in (["leave", "node=b@127.0.0.1"], ["join", "discovery-node=d@x"]):
            answer = await house.admin("cluster", *words)
            assert answer.status == 1
            assert answer.err == "cluster leave node=c@127.0.0.1 is under way; wait for its end.\n"
        office.go_on.set()
        assert await first == ([Text("10 sessions to go"), Text("Done")], 0)
        await house.good("cluster", "join", "discovery-node=d@x")

    in_house(tmp_path, test)


def test_a_leave_goes_on_when_whoever_asked_has_gone(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        office = give(house)
        office.lines = [*(f"{number} to go" for number in range(30, 0, -1)), "Done"]
        office.go_on.clear()
        reader, writer = await asyncio.open_unix_connection(tmp_path / "d" / "admin.sock")
        body = b'{"words":["cluster","leave","node=c@127.0.0.1"]}'
        writer.write(b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert b"30 to go" in await reader.readuntil(b"30 to go")
        writer.close()
        await writer.wait_closed()
        office.go_on.set()
        await house.until(lambda: "notice cluster leave node=c@127.0.0.1: Done" in house.lines)

    in_house(tmp_path, test)


def test_lines_come_while_it_goes_on(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        office = give(house)
        office.go_on.clear()
        reader, writer = await asyncio.open_unix_connection(tmp_path / "d" / "admin.sock")
        body = b'{"words":["cluster","leave","node=c@127.0.0.1"]}'
        writer.write(b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert b'{"kind":"progress","text":"10 sessions to go"}\n' in await reader.readuntil(b'go"}\n')
        office.go_on.set()
        assert b'{"kind":"text","text":"Done"}\n' in await reader.readuntil(b'"end"}\n')
        writer.close()

    in_house(tmp_path, test)


def test_found(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        office = give(house)
        await house.good("cluster", "found")
        assert office.asked == [("found",)]
        office.wrong = "it is a member already"
        answer = await house.admin("cluster", "found")
        assert answer.status == 1 and "it is a member already" in answer.err

    in_house(tmp_path, test)
