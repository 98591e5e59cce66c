"""Operators at one node see and change the sessions and retained messages of the whole cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from strogoff.admin.commands import session
from strogoff.admin.commands.cluster import TIMEOUT_S
from strogoff.admin.fan_out import ASKED_BY, NodeResult, RemoteCommand, answer_peers
from strogoff.admin.result import Alert, Table, Text
from strogoff.broker.reporting.journal import PLAIN
from tests.admin.cluster_harness import ClusterHarness, running_cluster
from tests.admin.fake_operator_port import FakeOperatorPort
from tests.admin.server_harness import ServerHarness, run_with_server


def run(test: Any, **conf: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(TIMEOUT_S), running_cluster(**conf) as fake:
            await test(fake)

    asyncio.run(bounded())


def test_sessions_of_all_nodes() -> None:
    """They are shown, filtered, limited, disconnected and unsubscribed from any node."""

    async def test(fake: ClusterHarness) -> None:
        cluster = fake.cluster
        clients = [await cluster.client(f"c{number}", number) for number in range(3)]
        names = [each.name for each in cluster.nodes]
        for at in range(3):
            rows = await fake.rows(at, "session", "show", "--client_id", "--node")
            assert {(row["client_id"], row["node"]) for row in rows} == {(f"c{n}", names[n]) for n in range(3)}
        assert await fake.rows(0, "session", "show", "--client_id=c2") == [{"client_id": "c2"}]
        assert len(await fake.rows(0, "session", "show", "--client_id", "--limit=2")) == 2
        await clients[2].subscribe("t/#", 1)
        assert await fake.rows(1, "session", "show", "--topic=~^t", "--client_id") == [
            {"topic": "t/#", "client_id": "c2"}
        ]
        assert await fake.said(0, "session", "unsubscribe", "client-id=c2", "topic=t/#") == ["Done"]
        said = await fake.refused(0, "session", "unsubscribe", "client-id=c2", "topic=t/#")
        assert said == "c2 has no subscription to t/#."
        assert await fake.said(0, "session", "disconnect", "client-id=c1") == ["Done"]
        await clients[1].closed()
        assert await fake.said(0, "session", "disconnect", "clients", "client-ids=c0,c2") == ["Done"]
        await clients[0].closed()
        await clients[2].closed()
        assert await fake.refused(1, "session", "disconnect", "client-id=c9") == "There is no session of c9."

    run(test)


def test_a_node_that_is_away_is_named() -> None:
    async def test(fake: ClusterHarness) -> None:
        cluster = fake.cluster
        await cluster.client("c1", 1)
        await cluster.kill(2)
        await cluster.sees((0, 1), "majority")
        parts, status = await fake.run_command(0, "session", "show", "--client_id")
        assert status == 0 and isinstance(parts[0], Table) and parts[0].rows == [("c1",)]
        assert parts[1:] == [Alert(f"{cluster[2].name} was left out: it does not run.")]
        said = await fake.refused(0, "session", "disconnect", "client-id=c9")
        assert said == f"No node that answered has a session of c9.\n{cluster[2].name} was left out: it does not run."
        parts, status = await fake.run_command(0, "session", "disconnect", "client-id=c1")
        assert (status, parts[0]) == (0, Text("Done")) and isinstance(parts[1], Alert)

    run(test)


def test_retained_messages_of_the_cluster() -> None:
    """They are shown at every node, counted, and deleted everywhere when the command answers."""

    async def test(fake: ClusterHarness) -> None:
        client = await fake.cluster.client("p", 1)
        for number in range(3):
            await client.publish(f"t/{number}", "x", qos=1, retain=True)
        for at in range(3):
            rows = await fake.rows(at, "retain", "show", "--topic")
            assert [row["topic"] for row in rows] == ["t/0", "t/1", "t/2"]
            assert fake.context(at).metrics.totals()["retain_memory"] > 0
        assert await fake.said(2, "retain", "delete", "--topic=t/1") == ["Done"]
        for at in range(3):
            rows = await fake.rows(at, "retain", "show", "--topic")
            assert [row["topic"] for row in rows] == ["t/0", "t/2"]
        assert await fake.refused(0, "retain", "delete", "--topic=t/1") == "There is no retained message on t/1."
        reader = await fake.cluster.client("r", 0)
        await reader.subscribe("t/#", 1)
        assert sorted([(await reader.message()).topic, (await reader.message()).topic]) == ["t/0", "t/2"]
        assert await fake.rows(0, "retain", "delete-expired") == [{"expired": 0}]

    run(test)


def test_results_of_other_nodes_are_merged_and_bounded(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        await harness.client("here")
        fake: Any = FakeOperatorPort()
        harness.server.cluster = fake
        fake.answers["b@127.0.0.1"] = msgspec.msgpack.encode(NodeResult([("b1",), ("b2",)], truncated=True))
        answer = await harness.admin("session", "show", "--client_id", "--limit=2", "--format=json")
        assert answer.json[0]["table"] == [{"client_id": "here"}, {"client_id": "b1"}]
        assert "There are more rows than --limit=2 shows: --limit=20 shows more" in answer.out
        assert "b@127.0.0.1 has more rows than one result holds: run the command on that node" in answer.out
        assert answer.status == 1
        assert "c@127.0.0.1 was left out: it does not run" in answer.out
        fake.answers = {}
        answer = await harness.admin("session", "show", "--client_id")
        assert "b@127.0.0.1 did not answer: nobody answers" in answer.err and "here" in answer.out
        assert answer.status == 1
        answer = await harness.admin("session", "disconnect", "client-id=x")
        assert answer.err.startswith("No node that answered has a session of x.\nb@127.0.0.1 did not answer")
        fake.answers["b@127.0.0.1"] = b"\xc1"
        answer = await harness.admin("session", "show", "--client_id")
        assert "b@127.0.0.1 did not answer" in answer.err

    run_with_server(tmp_path, test)


def test_a_command_of_another_node_is_logged_with_what_it_is_about(tmp_path: Path) -> None:
    """Whoever asks why a client was disconnected finds the client, and the node at which the operator was."""

    async def test(harness: ServerHarness) -> None:
        await harness.client("pump-8")
        for number in range(PLAIN):  # so the log has no room for one more line without a kind
            harness.server.log("info", f"line {number}")
        harness.server.cluster = port = cast(Any, FakeOperatorPort())
        answer_peers(harness.context, session.LOCAL_HANDLERS)
        asked = RemoteCommand(
            "session disconnect", {"client-id": "pump-8", ASKED_BY: "b@10.0.0.2"}, [("cleanup", None)]
        )
        await port.operate(msgspec.msgpack.encode(asked))
        said = "info vmq-admin session disconnect client-id=pump-8 --cleanup, asked by b@10.0.0.2"
        assert said in harness.lines
        asked = RemoteCommand("session show", {"password": "x"}, [("limit", 1)])  # of a node that does not name itself
        await port.operate(msgspec.msgpack.encode(asked))
        said = "info vmq-admin session show password=(hidden) --limit=1, asked by another node of the cluster"
        assert said in harness.lines
        port.answers["b@127.0.0.1"] = msgspec.msgpack.encode(NodeResult())
        await harness.admin("session", "show", "--client_id")
        assert msgspec.msgpack.decode(port.requests[-1])[1] == {ASKED_BY: port.name}

    run_with_server(tmp_path, test)


def test_only_the_answer_to_another_node_has_a_small_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fits into one message between nodes. The node that the operator asks shows all of its own rows."""
    show = ("session", "show", "--client_id", "--format=json")

    async def test(harness: ServerHarness) -> None:
        for number in range(3):
            await harness.client(f"client-{number}")
        monkeypatch.setattr(session, "MAX_RESULT_BYTES", 20)
        assert len((await harness.good(*show)).table) == 3
        harness.server.cluster = port = cast(Any, FakeOperatorPort())
        answer_peers(harness.context, session.LOCAL_HANDLERS)
        answer = await port.operate(msgspec.msgpack.encode(RemoteCommand("session show", {}, [("client_id", None)])))
        assert msgspec.msgpack.decode(answer, type=NodeResult) == NodeResult([("client-0",), ("client-1",)], True)
        harness.server.cluster = None
        monkeypatch.setattr(session, "MAX_OWN_BYTES", 20)
        too_long = await harness.admin(*show)
        assert (too_long.status, len(too_long.json[0]["table"])) == (1, 2)
        assert f"{harness.context.node.name} has more rows than one result holds" in too_long.out

    run_with_server(tmp_path, test)
