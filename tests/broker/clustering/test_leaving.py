"""A member is taken out: one that runs gives its durable sessions away first, one that does not run loses them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.steady import SteadyClient
from strogoff.broker.clustering import leaving
from strogoff.broker.clustering.operator_port import ClusterError
from strogoff.broker.clustering.runtime import ClusterRuntime
from strogoff.cluster.identity import SLOTS, slot_of
from strogoff.cluster.membership.admission import LEAVE, CallAnswer, encode_call
from strogoff.cluster.slots.placement import wanted
from strogoff.cluster.slots.table import SlotRow
from strogoff.cluster.transport.wire import CallFailed
from strogoff.mqtt import packets
from strogoff.storage.engine import StorageError
from tests.harness.servers import ServersInMemory, id_at, run, said
from tests.harness.waiting import until

LEAVES = [
    ("n9", "n9 is not a member of this cluster"),
    ("n1@127.0.0.1", "n1@127.0.0.1 is the only member of its cluster"),
]


def test_an_impossible_leave_gives_its_reason(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1"), await harness.start("n2")
        await two.join("127.0.0.1:44001", False)
        with pytest.raises(ClusterError, match=LEAVES[0][1]):
            await said(one, LEAVES[0][0])
        for shell in (one, two):
            with pytest.raises(ClusterError, match="is needed for a majority of the members that vote"):
                await said(shell, "n1@127.0.0.1")
        client = await harness.client("n1", "c", clean=True)  # a refused leave keeps the listeners open
        await client.abort()
        await said(one, "n2@127.0.0.1")
        with pytest.raises(ClusterError, match=LEAVES[1][1]):
            await said(one, LEAVES[1][0])

    run(tmp_path, scenario)


def test_no_node_is_removed_without_a_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaving, "LEASE_S", -1)

    async def scenario(harness: ServersInMemory) -> None:
        _, two = await harness.start("n1"), await harness.start("n2")
        await two.join("127.0.0.1:44001", False)
        await harness.stop("n1")
        await until(lambda: two.status().sees == "minority")
        with pytest.raises(ClusterError, match="has no lease: to take a member out"):
            await said(two, "n1@127.0.0.1")
        with pytest.raises(ClusterError, match="knows of no member n9, but it has no lease, and may not know all"):
            await said(two, "n9")

    run(tmp_path, scenario)


@pytest.mark.slow
def test_a_node_that_leaves_without_sessions_loses_no_slots(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1"), await harness.start("n2")
        await two.join("127.0.0.1:44001", False)
        await id_at(two, "n2@127.0.0.1")
        assert (await said(one, "n2@127.0.0.1"))[-1] == "Done"
        await until(lambda: len(one.slots()[0].slots_by_primary["n1@127.0.0.1"]) == SLOTS)
        assert [line for line in harness.log["n1"] if "slots are lost" in line] == []

    run(tmp_path, scenario)


@pytest.mark.parametrize("asked", ["n1", "n2"])
def test_a_node_that_leaves_gives_its_sessions_to_the_others(tmp_path: Path, asked: str) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1"), await harness.start("n2")
        await two.join("127.0.0.1:44001", False)
        name = await id_at(two, "n2@127.0.0.1")
        client = await harness.client("n1", name, clean=False)
        got: list[bytes] = []
        client.delivered = lambda topic, payload, qos, properties: got.append(payload)
        await client.subscribe("kept/#", 1)
        writer = await harness.client("n1", "writer")
        await client.abort()
        await writer.publish("kept/1", b"1", 1)
        service = two.clustering._member.lease_service
        assert service is not None and not service.leaves
        assert (await said({"n1": one, "n2": two}[asked], "n2@127.0.0.1"))[-1] == "Done"
        assert service.leaves and two.clustering.slots.balance.leaving, "it gets no copies and no slots, and keeps none"
        await writer.publish("kept/2", b"2", 1)
        assert (await client.connect()).session_present
        await until(lambda: got == [b"1", b"2"])

    run(tmp_path, scenario)


@pytest.mark.parametrize(("hears", "last"), [(True, "Done"), (False, "Done, but n1@127.0.0.1 has not heard of it yet")])
def test_a_leave_ends_when_the_asked_node_has_heard_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hears: bool, last: str
) -> None:
    """The answer of the node that left comes before the view of the leader."""
    monkeypatch.setattr(leaving, "CALL_S", 12.0 if hears else 0.1)

    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1"), await harness.start("n2")
        await two.join("127.0.0.1:44001", False)
        calls: list[asyncio.Task[bytes]] = []

        async def answers_at_once(address: str, method: str, request: bytes, timeout_s: float) -> bytes:
            if hears:
                calls.append(asyncio.create_task(call(address, method, request, timeout_s)))
            return b"Done"

        transport = one._leaving._transport
        call = transport.call
        monkeypatch.setattr(transport, "call", answers_at_once)
        assert (await said(one, "n2@127.0.0.1"))[-1] == last
        assert [row.node for row in one.rows()] == ["n1@127.0.0.1", "n2@127.0.0.1"][: 1 if hears else 2]
        await asyncio.gather(*calls)

    run(tmp_path, scenario)


def test_a_leave_whose_last_answer_is_lost_has_succeeded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node ends as soon as it has left."""

    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1"), await harness.start("n2")
        await two.join("127.0.0.1:44001", False)
        transport = one._leaving._transport
        call = transport.call

        async def loses_the_end(address: str, method: str, request: bytes, timeout_s: float) -> bytes:
            answer = await call(address, method, request, timeout_s)
            if method == leaving.DEPART and answer.startswith(b"Done"):
                raise CallFailed("the connection is closed")
            return answer

        monkeypatch.setattr(transport, "call", loses_the_end)
        assert (await said(one, "n2@127.0.0.1"))[-1] == "Done"

    run(tmp_path, scenario)


def test_sessions_that_do_not_move_in_time_are_lost_only_on_request(tmp_path: Path) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1"), await harness.start("n2")
        await two.join("127.0.0.1:44001", False)
        name = await id_at(two, "n2@127.0.0.1")
        await (await harness.client("n1", name, clean=False)).abort()
        with pytest.raises(ClusterError, match=r"1 durable sessions \(not all have moved within 0 s\).*--accept-loss"):
            await said(one, "n2@127.0.0.1", timeout_s=0)
        assert harness.servers["n2"].node.sessions.durable == 1
        again = await harness.client("n1", name, clean=False)  # the node serves its slots as before
        assert again.present
        other = await harness.client("n1", "other")
        assert (await said(one, "n2@127.0.0.1", kill=False))[-1].startswith("Done! Use -k")
        assert (await said(one, "n2@127.0.0.1", accept_loss=True, timeout_s=0))[-1] == "Done"
        await again.abort()
        await other.abort()

    run(tmp_path, scenario)


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["n1", "n2"])
def test_a_node_that_cannot_read_its_sessions_does_not_leave_and_serves_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1"), await harness.start("n2")
        await two.join("127.0.0.1:44001", False)
        name = await id_at(two, "n2@127.0.0.1")

        def damaged() -> None:
            raise StorageError("message database: a block cannot be read")

        with monkeypatch.context() as patched:
            patched.setattr(harness.servers["n2"].node.sessions, "everything", damaged)
            with pytest.raises(ClusterError, match="a block cannot be read"):
                await said({"n1": one, "n2": two}[asked], "n2@127.0.0.1")
        await (await harness.client("n1", name, clean=False)).abort()
        assert (await said(one, "n2@127.0.0.1"))[-1] == "Done"

    run(tmp_path, scenario)


@pytest.mark.slow
def test_a_leave_whose_operator_asks_no_more_ends_with_a_line_and_a_later_one_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second operator got the reason of the first leave, although this one had --accept-loss."""
    monkeypatch.setattr(leaving, "FORGOTTEN_S", 0.01)

    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1"), await harness.start("n2")
        await two.join("127.0.0.1:44001", False)
        await (await harness.client("n1", await id_at(two, "n2@127.0.0.1"), clean=False)).abort()
        with monkeypatch.context() as patched:
            patched.setattr(leaving, "ROUND_S", 0.0)
            assert (await two._leaving.answer(bytes((1, 0, 0, 0, 0, 0)))).startswith(b"n2@127.0.0.1 gives its sessions")
        says = "warning: n2@127.0.0.1 has not left: n2@127.0.0.1 still has 1 durable sessions"
        await until(lambda: any(line.startswith(says) for line in harness.log["n2"]))
        await until(lambda: two._leaving._departing is None)
        assert (await said(one, "n2@127.0.0.1", accept_loss=True, timeout_s=0))[-1] == "Done"

    run(tmp_path, scenario)


COPIES = {"queue_replicas": "2", "allow_register_during_netsplit": "majority"}
ONE_COPY = {**COPIES, "queue_replicas": "1"}


async def three_with_one_copy(harness: ServersInMemory) -> list[ClusterRuntime]:
    """Start the nodes n1, n2 and n3 of one cluster, with one copy of each slot."""
    shells = [await harness.start(f"n{number}", **ONE_COPY) for number in range(1, 4)]
    for shell in shells[1:]:
        await shell.join("127.0.0.1:44001", False)
    return shells


async def with_copies(harness: ServersInMemory, nodes: int) -> tuple[list[ClusterRuntime], str]:
    """Start nodes n1, n2, ... with two copies of each slot, and wait until all slots are where they should be.

    Returns the nodes, and a client id whose slot is at the last but one, with a copy at the last one.
    """
    shells = [await harness.start(f"n{number}", **COPIES) for number in range(1, nodes + 1)]
    for shell in shells[1:]:
        await shell.join("127.0.0.1:44001", False)
    names = {shell.name: "" for shell in shells}

    def rows() -> tuple[SlotRow, ...]:
        return shells[0].slots()[0].rows

    def nodes_of(row: SlotRow) -> tuple[str, ...]:
        own = () if row.primary is None else (row.primary.node,)
        return (*own, *[holder.node for holder in row.in_sync if holder.node not in own])

    await until(lambda: all(set(nodes_of(row)) == set(wanted(row.slot, names, 2)) for row in rows()), 20)
    await until(lambda: all(nodes_of(row)[0] == wanted(row.slot, names, 1)[0] for row in rows()), 20)
    last = (shells[-2].name, shells[-1].name)
    return shells, next(each for each in map(str, range(400)) if nodes_of(rows()[slot_of("", each)]) == last)


@pytest.mark.slow
def test_a_node_that_leaves_takes_no_sessions_with_it_of_a_node_that_stops_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it becomes their primary when it has looked for sessions, and before it leaves."""

    async def scenario(harness: ServersInMemory) -> None:
        shells, name = await with_copies(harness, 4)
        client = await harness.client("n1", name, clean=False)
        got: list[bytes] = []
        client.delivered = lambda topic, payload, qos, properties: got.append(payload)
        await client.subscribe("kept/#", 1)
        await client.abort()
        await (await harness.client("n1", "writer")).publish("kept/1", b"1", 1)
        monkeypatch.setattr(shells[2].clustering.slots.replicator, "lacking", dict)  # it makes no other copy in time
        leaver = shells[3]._leaving
        take_out = leaver._take_out

        async def after_a_stop(node: str, empty: bool = False) -> None:
            await harness.stop("n3")
            await until(lambda: shells[2].name not in shells[3].slots()[0].slots_by_primary)
            await take_out(node, empty)

        monkeypatch.setattr(leaver, "_take_out", after_a_stop)
        assert (await said(shells[0], shells[3].name, timeout_s=1))[-1] == "Done"
        await harness.start("n3", **COPIES)
        await until(lambda: shells[0].status().sees == "whole")
        assert (await client.connect()).session_present
        await until(lambda: got == [b"1"])

    run(tmp_path, scenario)


@pytest.mark.slow
def test_the_others_have_two_copies_when_a_node_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        shells, _ = await with_copies(harness, 3)
        for shell in shells[:2]:
            monkeypatch.setattr(shell.clustering.slots.replicator, "lacking", dict)  # they make no copy yet
        leave = asyncio.create_task(said(shells[0], shells[2].name))
        await until(lambda: leave.done() or bool(shells[2]._leaving._waits_for))
        assert not leave.done()
        monkeypatch.undo()
        assert (await leave)[-1] == "Done"
        rows = shells[0].slots()[0].rows
        followed = [row for row in rows if row.primary is not None and row.moved < row.version]
        assert followed and all(len(row.in_sync) == 2 for row in followed)

    run(tmp_path, scenario)


@pytest.mark.slow
@pytest.mark.parametrize("accept_loss", [False, True])
def test_a_node_does_not_leave_with_a_will_for_an_absent_node(tmp_path: Path, accept_loss: bool) -> None:
    """No other node has the will: its sessions ended because the node leaves."""

    async def scenario(harness: ServersInMemory) -> None:
        shells = [await harness.start(f"n{number}", **ONE_COPY) for number in range(1, 5)]
        for shell in shells[1:]:
            await shell.join("127.0.0.1:44001", False)
        one, three, four = shells[0], shells[2], shells[3]
        client = await harness.client("n1", await id_at(one, three.name), clean=False)
        got: list[bytes] = []
        client.delivered = lambda topic, payload, qos, properties: got.append(payload)
        await client.subscribe("will", 1)
        await client.abort()
        dies = SteadyClient("dies", harness.servers["n4"].listeners.show()[0].port, 4)
        dies.connect_fields = {"will": packets.Will("will", b"gone", 1, False, None)}
        harness.clients.append(dies)
        await dies.connect(True)
        await harness.stop("n3")
        await until(lambda: one.status().sees == "majority")
        if accept_loss:
            assert (await said(one, four.name, accept_loss=True))[-1] == "Done"
            return
        with pytest.raises(ClusterError, match=r"n4.* has wills, or messages of ended sessions, for n3"):
            await said(one, four.name)
        await harness.start("n3", **ONE_COPY)
        await until(lambda: one.status().sees == "whole")
        await client.connect()
        await until(lambda: got == [b"gone"])
        assert (await said(one, four.name))[-1] == "Done"

    run(tmp_path, scenario)


@pytest.mark.slow
@pytest.mark.parametrize("undecided", [False, True])
def test_no_session_begins_at_a_node_whose_leave_is_not_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undecided: bool
) -> None:
    """The node has said that it has no session, and the log may still take it out: the answer is lost, or says that the
    log has not decided yet."""

    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1", **ONE_COPY), await harness.start("n2", **ONE_COPY)
        await two.join("127.0.0.1:44001", False)
        name = await id_at(two, "n2@127.0.0.1")
        transport = two._leaving._transport
        call = transport.call
        asked: list[asyncio.Task[bytes]] = []

        async def loses_an_answer(address: str, method: str, request: bytes, timeout_s: float) -> bytes:
            answer = asyncio.create_task(call(address, method, request, timeout_s))
            if method == LEAVE and address == one.address:
                asked.append(answer)
                if len(asked) == 1 and undecided:
                    return encode_call(CallAnswer("the cluster did not decide within 10 s", undecided=True))
                if len(asked) == 1:
                    raise CallFailed("the connection is closed")
            return await answer

        monkeypatch.setattr(transport, "call", loses_an_answer)
        leave = asyncio.create_task(said(two, "n2@127.0.0.1"))
        await until(lambda: len(asked) > 1 or leave.done())
        client = await harness.client("n1", name, clean=False)
        await client.subscribe("kept", 1)
        await client.abort()
        assert (await leave)[-1] == "Done"
        await asyncio.gather(*asked)
        assert (await client.connect()).session_present

    run(tmp_path, scenario)


@pytest.mark.slow
def test_a_session_without_subscriptions_is_lost_with_a_dead_node_only_on_request(tmp_path: Path) -> None:
    """With one copy. It may have messages for a subscription that has ended, or a handshake."""

    async def scenario(harness: ServersInMemory) -> None:
        shells = await three_with_one_copy(harness)
        one, three = shells[0], shells[2]
        await (await harness.client("n1", await id_at(one, three.name), clean=False)).abort()
        await harness.stop("n3")
        await until(lambda: one.status().sees == "majority")
        with pytest.raises(ClusterError, match=r"n3.* does not run.*0 subscriptions.*--accept-loss"):
            await said(one, three.name)
        removed = f"{three.name} does not run: it is removed for good"
        assert await said(one, three.name, accept_loss=True) == [removed, "Done"]

    run(tmp_path, scenario)


@pytest.mark.slow
@pytest.mark.parametrize("patience_s", [leaving.WILLS_S, 0.1])
def test_a_node_does_not_leave_with_a_will_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience_s: float
) -> None:
    """n3 has the only copy of a will, and the session of the will has ended already. n3 waits for the will. If that
    takes too long, for example because n3 had no lease for a moment, n3 does not leave."""
    monkeypatch.setattr(leaving, "WILLS_S", patience_s)

    async def scenario(harness: ServersInMemory) -> None:
        shells = await three_with_one_copy(harness)
        name = await id_at(shells[0], shells[2].name)
        reader = await harness.client("n1", "reader")
        got: list[bytes] = []
        reader.delivered = lambda topic, payload, qos, properties: got.append(payload)
        await reader.subscribe("will", 1)
        mortal = SteadyClient(name, harness.servers["n1"].listeners.show()[0].port, 4)
        mortal.connect_fields = {"will": packets.Will("will", b"gone", 1, False, None)}
        harness.clients.append(mortal)
        await mortal.connect(False)
        wills = harness.servers["n3"].node.wills
        wills.ask_gateway = lambda _ended, _answered: False  # n1 does not take the last bytes of the client
        await harness.client("n2", name)
        assert wills.waiting == 1 and harness.servers["n3"].node.sessions.durable == 0
        if patience_s < 1:
            with pytest.raises(ClusterError, match=r"n3.* has wills that wait. Repeat the command"):
                await said(shells[0], shells[2].name)
            await until(lambda: not wills.waiting)
        assert (await said(shells[0], shells[2].name))[-1] == "Done"
        await until(lambda: got == [b"gone"])

    run(tmp_path, scenario)


def checked_leases(leaver: ClusterRuntime, monkeypatch: pytest.MonkeyPatch, has: Callable[[int], bool]) -> list[int]:
    """The node has a lease at its leave's check number N only if `has(N)`. Returns the checks so far."""
    leased, asked = leaver._leaving._member.leased, list[int]()

    def may() -> bool:
        asked.append(len(asked) + 1)
        return leased() and has(asked[-1])

    check = leaver._leaving._knows_its_slots

    async def checks() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(leaver._leaving._member, "leased", may)
            await check()

    monkeypatch.setattr(leaver._leaving, "_knows_its_slots", checks)
    return asked


def test_the_asked_node_waits_for_a_lease_that_comes_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        one, two = await harness.start("n1"), await harness.start("n2")
        await two.join("127.0.0.1:44001", False)
        leased, asked = one._leaving._member.leased, list[int]()

        def late() -> bool:
            asked.append(1)
            return leased() and len(asked) > 3

        with monkeypatch.context() as patched:
            patched.setattr(one._leaving._member, "leased", late)
            lines = one._leaving.leave(two.name, False, 0.0, 10.0, False)
            assert await anext(lines) == f"{two.name} runs: it is asked to close its listeners"
        assert len(asked) > 3
        async for _ in lines:
            pass

    run(tmp_path, scenario)


@pytest.mark.slow
def test_a_node_leaves_when_its_lease_comes_a_moment_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(harness: ServersInMemory) -> None:
        shells = await three_with_one_copy(harness)
        asked = checked_leases(shells[2], monkeypatch, lambda number: number > 3)
        assert (await said(shells[0], shells[2].name))[-1] == "Done"
        assert len(asked) > 4

    run(tmp_path, scenario)


@pytest.mark.slow
@pytest.mark.parametrize("checks", [1, 2])
def test_a_node_without_a_lease_does_not_say_that_it_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checks: int
) -> None:
    """It has started again and was in no view since, or it has lost its lease at the end: it may have got a slot with
    sessions that it does not know of."""

    async def scenario(harness: ServersInMemory) -> None:
        shells = await three_with_one_copy(harness)
        one, three = shells[0], shells[2]
        asked = checked_leases(three, monkeypatch, lambda number: number < checks)
        monkeypatch.setattr(leaving, "LEASE_S", -1)
        with pytest.raises(ClusterError, match=r"n3.* has no lease"):
            await said(one, three.name)
        assert len(asked) == checks and three.name in one._member.membership.members
        monkeypatch.undo()
        assert (await said(one, three.name))[-1] == "Done"

    run(tmp_path, scenario)
