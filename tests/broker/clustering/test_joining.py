"""Joins that end without an answer, on real servers in one process: the node may be a member (H-49)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from strogoff.broker.clustering import asking, runtime
from strogoff.broker.clustering.operator_port import ClusterError, NameTaken
from strogoff.broker.clustering.runtime import ClusterRuntime
from strogoff.broker.clustering.unknown_membership import ASKED
from strogoff.broker.process.eventlog_key import read_key
from strogoff.broker.reporting.redaction import Redactor
from strogoff.cluster.membership.admission import JOIN, CallAnswer
from strogoff.cluster.transport.wire import CallFailed
from strogoff.storage.store import Store
from strogoff.testing.log_audit.log_files import read_log
from tests.harness.servers import ServersInMemory, run
from tests.harness.thinning import thinned
from tests.harness.waiting import until

ONE = "127.0.0.1:44001"
"""The address of n1."""
TWO_AND_THREE = "127.0.0.1:44002 127.0.0.1:44003"
ASKS = f"n2@127.0.0.1 has asked {ONE} to let it join, and does not know the answer"

REFUSED = r"^n2@127\.0\.0\.1 is a running member at 127\.0\.0\.1:44002: [^.]*$"
"""Without a word about a request that has no answer."""


async def founded(harness: ServersInMemory) -> ClusterRuntime:
    """Returns n1, which is a cluster of one node."""
    one = await harness.start("n1")
    await one.found()
    await until(lambda: one.status().sees == "whole" and one.status().lease_ms_left > 0)
    return one


async def serves(harness: ServersInMemory, name: str, client_id: str = "kept") -> None:
    """Check that the node takes a durable client, and acknowledges its subscription and a message for it."""
    client = await harness.client(name, client_id, clean=False)
    await client.subscribe("kept", 1)
    await client.publish("kept", b"1", 1)
    await client.abort()


async def refuses(harness: ServersInMemory, name: str) -> None:
    """Check that a durable client can connect and that the node refuses it."""
    with pytest.raises(ConnectionError):
        await harness.client(name, "kept", clean=False)


async def asked_by(monkeypatch: pytest.MonkeyPatch, one: ClusterRuntime, two: ClusterRuntime) -> asyncio.Task[None]:
    """Let n2 ask n1 to let it join. Returns when n1 has the request; the log does not have it yet."""
    service, came = one._member.join_leave, asyncio.Event()
    join = service.join

    def comes(data: bytes, reply: Callable[[bytes], None]) -> None:
        join(data, reply)
        came.set()

    monkeypatch.setattr(service, "join", comes)
    joining = asyncio.create_task(two.join(ONE, False))
    await came.wait()
    assert two.name not in one._member.membership.members
    return joining


def test_a_node_that_joins_during_its_start_logs_its_settings(tmp_path: Path) -> None:
    """Those that are in force, and the key for names: another one would give a client two names."""

    async def scenario(harness: ServersInMemory) -> None:
        await founded(harness)
        await harness.start(
            "n2", discovery__nodes=ONE, eventlog__redact="on", allow_publish_during_netsplit="on", queue_type="lifo"
        )

    run(tmp_path, scenario)
    rows = read_log(tmp_path / "n2")[0]
    (joined,) = (set(row["settings"]) for row in rows if row["type"] == "node.join")
    redactor = Redactor(read_key(tmp_path / "n2" / "eventlog.key"))
    assert joined >= {"allow_publish_during_netsplit=on", "queue_type=lifo", f"eventlog.redact={redactor.fingerprint}"}
    (started,) = (set(row["settings"]) for row in rows if row["type"] == "node.start")
    assert joined == started
    assert "eventlog.redact=off" in read_log(tmp_path / "n1")[0][0]["settings"]


def without_answers(
    monkeypatch: pytest.MonkeyPatch, shell: ClusterRuntime, lost: str, times: int = 1
) -> Callable[[], int]:
    """Lose the first `times` requests to join of this node, or the answers to them. Returns how many were lost."""
    call: Callable[[str, str, bytes, float], Awaitable[bytes]] = shell._transport.call
    joins: list[str] = []

    async def loses(address: str, method: str, request: bytes, timeout_s: float) -> bytes:
        if method != JOIN or len(joins) == times:
            return await call(address, method, request, timeout_s)
        joins.append(address)
        if lost == "answer":
            await call(address, method, request, timeout_s)
        raise CallFailed("the connection is closed")

    monkeypatch.setattr(shell._transport, "call", loses)
    return lambda: len(joins)


@pytest.mark.parametrize("ends", thinned(["cut off", "restarted", "interrupted"], 3))
def test_a_node_whose_join_gets_no_answer_serves_nobody_until_it_has_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """The log makes it a member meanwhile. With durable sessions of its own it could not join any more."""

    async def scenario(harness: ServersInMemory) -> None:
        monkeypatch.setattr(asking, "CALL_S", 1.0)
        one, two = await founded(harness), await harness.start("n2")
        joining = await asked_by(monkeypatch, one, two)
        if ends == "cut off":
            harness.network.cut("n1", "n2")  # the answer never comes
        elif ends == "restarted":
            await harness.stop("n2")
        if ends != "cut off":
            joining.cancel()
        await until(lambda: two.name in one._member.membership.members)
        ended = (await asyncio.gather(joining, return_exceptions=True))[0]
        assert isinstance(ended, asyncio.CancelledError) or ASKS in str(ended), ended
        if ends == "restarted":
            two = await harness.start("n2")
        assert two.serves_nobody.startswith(ASKS)
        assert f"vmq-admin cluster join discovery-node={ONE} " in two.serves_nobody
        await refuses(harness, "n2")
        assert two.status().sees == "minority" and [row.state for row in two.rows()] == ["absent"]
        harness.network.heal()
        await two.join(ONE, False)
        assert two.serves_nobody == "" and two._meta.get(ASKED) is None
        await serves(harness, "n2")
        await harness.stop("n2")
        two = await harness.start("n2")
        await until(lambda: two.status().serving == 2 and two._member.leased())
        await serves(harness, "n2")

    run(tmp_path, scenario)


def test_its_clients_are_disconnected_and_a_second_lost_answer_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        one, two = await founded(harness), await harness.start("n2")
        client = await harness.client("n2", "clean")
        without_answers(monkeypatch, two, "answer", times=2)
        for _ in range(2):
            with pytest.raises(ClusterError, match=f"the connection is closed. {ASKS}"):
                await two.join(ONE, True)
            await until(lambda: not client.online)
            await refuses(harness, "n2")
        assert len(one.rows()) == 2
        three = await harness.start("n3")
        with pytest.raises(ClusterError, match=f"n2@127.0.0.1 is in no cluster itself: {ASKS}"):
            await three.join("127.0.0.1:44002", False)
        await two.join(ONE, True)
        await serves(harness, "n2")

    run(tmp_path, scenario)


def test_a_join_to_a_wrong_address_has_no_effect(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        two = await harness.start("n2")
        client = await harness.client("n2", "clean")
        with pytest.raises(ClusterError, match=r"44009: nobody listens there\. .*listener\.vmq.* Nothing was changed$"):
            await two.join("127.0.0.1:44009", True)
        assert client.online and two.serves_nobody == "" and two._meta.get(ASKED) is None
        await serves(harness, "n2")

    run(tmp_path, scenario)


def test_a_node_that_is_refused_goes_on_alone(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        await founded(harness)
        other = await harness.start("n2")
        await other.join(ONE, False)
        same = await harness.start("n3", nodename="n2@127.0.0.1")
        client = await harness.client("n3", "clean")
        with pytest.raises(NameTaken, match=REFUSED):
            await same.join(ONE, True)
        assert client.online
        await harness.stop("n3")
        same = await harness.start("n3", nodename="n2@127.0.0.1")
        assert same.serves_nobody == ""
        await serves(harness, "n3")

    run(tmp_path, scenario)


def test_a_node_that_is_refused_when_it_asks_again_serves_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request was lost on its way, and another node has joined under this name meanwhile."""

    async def scenario(harness: ServersInMemory) -> None:
        await founded(harness)
        same = await harness.start("n3", nodename="n2@127.0.0.1")
        without_answers(monkeypatch, same, "request")
        with pytest.raises(ClusterError, match=ASKS):
            await same.join(ONE, False)
        await refuses(harness, "n3")
        other = await harness.start("n2")
        await other.join(ONE, False)
        with pytest.raises(NameTaken, match=REFUSED):
            await same.join(ONE, False)
        assert same.serves_nobody == "" and same.status().sees == "whole"
        await serves(harness, "n3")

    run(tmp_path, scenario)


def test_a_refusal_of_another_node_does_not_end_the_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows nothing of the log that may make this node a member."""

    async def scenario(harness: ServersInMemory) -> None:
        one, two, three = await founded(harness), await harness.start("n2"), await harness.start("n3")
        without_answers(monkeypatch, two, "answer")
        with pytest.raises(ClusterError, match=ASKS):
            await two.join(ONE, False)
        three._member.join_leave.joining = True
        with pytest.raises(ClusterError, match=f"n3@127.0.0.1 is about to join a cluster itself. {ASKS}"):
            await two.join("127.0.0.1:44003", False)
        assert two.name in one._member.membership.members
        await refuses(harness, "n2")
        await two.join(ONE, False)
        await serves(harness, "n2")

    run(tmp_path, scenario)


def test_an_operator_lets_a_node_without_an_answer_serve_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        await founded(harness)
        two = await harness.start("n2")
        without_answers(monkeypatch, two, "request")
        with pytest.raises(ClusterError, match="To serve alone instead: vmq-admin cluster found"):
            await two.join(ONE, False)
        await refuses(harness, "n2")
        await two.found()
        await serves(harness, "n2")
        await harness.stop("n2")
        two = await harness.start("n2")
        assert two.serves_nobody == "" and two._meta.get(ASKED) is None
        await until(lambda: two.status().sees == "whole" and two._member.leased())
        await serves(harness, "n2")

    run(tmp_path, scenario)


@pytest.mark.parametrize("then", ["joins", "founds"])
def test_a_node_that_is_killed_between_the_answer_and_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """It has noted the id of the cluster. If it founds another one, that has another id."""

    class Killed(Exception):
        pass

    async def scenario(harness: ServersInMemory) -> None:
        one, two = await founded(harness), await harness.start("n2")

        def adopt(answer: CallAnswer) -> None:
            raise Killed

        monkeypatch.setattr(two._member, "adopt", adopt)
        with pytest.raises(Killed):
            await two.join(ONE, False)
        await harness.stop("n2")
        two = await harness.start("n2")
        assert two.serves_nobody.startswith(ASKS)
        if then == "joins":
            await two.join(ONE, False)
        else:
            await two.found()
            await until(lambda: two.member is not None and two.member.leased())
        assert (two._member.me.cluster_id == one._member.me.cluster_id) is (then == "joins")
        await serves(harness, "n2")

    run(tmp_path, scenario)


def test_a_node_asks_nobody_before_its_disk_has_the_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk hangs: if the node was killed then, it would not know that it may be a member."""

    async def scenario(harness: ServersInMemory) -> None:
        one, two = await founded(harness), await harness.start("n2")
        with monkeypatch.context() as hanging:
            hanging.setattr(Store, "flush", lambda store, callback: None)
            hanging.setattr(runtime, "NOTE_S", 0.2)
            with pytest.raises(ClusterError, match="has not taken the request to join"):
                await two.join(ONE, False)
        assert len(one.rows()) == 1 and two._meta.get(ASKED) is None
        await serves(harness, "n2")

    run(tmp_path, scenario)


@pytest.mark.slow
def test_a_node_with_discovery_joins_by_itself_after_a_lost_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the process that asked was killed."""

    async def scenario(harness: ServersInMemory) -> None:
        one = await founded(harness)
        two = await harness.start("n2")
        without_answers(monkeypatch, two, "answer")
        with pytest.raises(ClusterError, match=ASKS):
            await two.join(ONE, False)
        await harness.stop("n2")
        two = await harness.start("n2", discovery__nodes=ONE)
        await until(lambda: one.status().serving == two.status().serving == 2)
        assert two._meta.get(ASKED) is None
        three = await harness.start("n3", discovery__nodes="127.0.0.1:44009")
        lost = without_answers(monkeypatch, three, "answer")
        with pytest.raises(ClusterError, match=r"the connection is closed$"):
            await three.join(ONE, False)
        assert lost() == 1 and "has asked" not in three.serves_nobody
        await refuses(harness, "n3")
        await three.join(ONE, False)
        await serves(harness, "n3")

    run(tmp_path, scenario)


@pytest.mark.slow
def test_discovery_founds_no_cluster_while_a_join_waits_for_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator lets n2 join n1. Meanwhile n3 starts, and n2 and n3 are all nodes that discovery expects."""

    async def scenario(harness: ServersInMemory) -> None:
        one = await founded(harness)
        two = await harness.start("n2", discovery__nodes=TWO_AND_THREE)
        call, comes = two._transport.call, asyncio.Event()

        async def slow(address: str, method: str, request: bytes, timeout_s: float) -> bytes:
            answer = await call(address, method, request, timeout_s)
            if method == JOIN:
                await comes.wait()
            return answer

        monkeypatch.setattr(two._transport, "call", slow)
        joining = asyncio.create_task(two.join(ONE, False))
        await until(lambda: two.name in one._member.membership.members)
        three = await harness.start("n3", discovery__nodes=TWO_AND_THREE)
        await until(lambda: two.serves_nobody == "n2@127.0.0.1 is about to join a cluster" or two._member.clustered)
        assert not two._member.clustered
        comes.set()
        await joining
        await until(lambda: one.status().serving == two.status().serving == three.status().serving == 3)

    run(tmp_path, scenario)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["n3@127.0.0.1", "a3@127.0.0.1"])
def test_discovery_founds_no_other_cluster_after_a_join_without_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """n1's log makes n2 a member, and n2 cannot know it. n2 and n3 are all nodes that discovery expects. The one with
    the lower name would found a cluster, which the other would join."""

    async def scenario(harness: ServersInMemory) -> None:
        one = await founded(harness)
        two = await harness.start("n2", discovery__nodes=TWO_AND_THREE)
        without_answers(monkeypatch, two, "answer")
        with pytest.raises(ClusterError, match=r"the connection is closed$"):
            await two.join(ONE, False)
        await harness.stop("n2")
        two = await harness.start("n2", discovery__nodes=TWO_AND_THREE)
        three = await harness.start("n3", nodename=name, discovery__nodes=TWO_AND_THREE)
        who, asked = two._who, []

        def answers(asker: str) -> bytes:
            if two.serves_nobody.startswith(ASKS):  # it has seen n3
                asked.append(asker)
            return who(asker)

        monkeypatch.setattr(two, "_who", answers)
        await until(lambda: asked.count(name) > 2 or three._member.clustered)
        assert not three._member.clustered and f"see each other yet: {two.name}" in three.serves_nobody
        await refuses(harness, "n2")
        await two.join(ONE, False)
        await until(lambda: one.status().serving == two.status().serving == three.status().serving == 3)

    run(tmp_path, scenario)
