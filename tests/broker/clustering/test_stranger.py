"""A stranger at the port between nodes, over gRPC: no attack reveals or changes anything."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import msgspec
import pytest

from strogoff.broker.clustering.config_calls import VALUES
from strogoff.broker.clustering.leaving import DEPART
from strogoff.broker.process.server import Server
from strogoff.cluster.links.hello import PeerInfo, encode_hello
from strogoff.cluster.membership.admission import JOIN, LEAVE, JoinRequest, LeaveRequest, encode_call
from strogoff.cluster.membership.discovery import WHO
from strogoff.cluster.membership.join_leave import VERSIONS
from strogoff.cluster.transport.grpc_wire import CALL, CHALLENGE, PROOF_HEADER, STREAM, GrpcTransport
from strogoff.cluster.transport.wire import DEFAULT_COOKIE, CallFailed, Unproven
from strogoff.configs import load
from tests.cluster.transport.raw_http2 import PREFACE, SETTINGS, RawHttp2Client, frame
from tests.cluster.transport.relay import Relay
from tests.cluster.transport.wire_server import Recorder
from tests.harness.loop_errors import collect_loop_errors

COOKIE = "7c0b9d54e1"


def make(folder: Path, name: str, cookie: str = COOKIE) -> tuple[Server, list[str]]:
    lines: list[str] = []
    wanted = {
        "nodename": f"{name}@127.0.0.1",
        "listener.tcp.default": "127.0.0.1:0",
        "listener.vmq.default": "127.0.0.1:0",
        "allow_anonymous": "off",
        "distributed_cookie": cookie,
        "systree_enabled": "off",
        "platform_data_dir": str(folder / name),
    }
    return Server(load(None, {}, wanted), lambda level, text: lines.append(f"{level}: {text}")), lines


class JoinTarget:
    """A cluster of one node that can be joined; the stranger knows its address only."""

    def __init__(self, server: Server, lines: list[str]) -> None:
        self.server = server
        self.lines = lines

    @property
    def address(self) -> str:
        assert self.server.cluster is not None
        return self.server.cluster.address

    @property
    def facts(self) -> list[bytes]:
        """Facts that no stranger may learn."""
        cluster = self.server.cluster
        assert cluster is not None and cluster.member is not None
        me = cluster.member.me
        return [each.encode() for each in (me.node, me.disk, me.process, me.cluster_id)]

    @property
    def state(self) -> Any:
        """State that no stranger may change."""
        cluster = self.server.cluster
        assert cluster is not None and cluster.member is not None
        member = cluster.member
        return (member.clustered, sorted(member.membership.members), member.view, len(self.server.listeners.show()))


def attack_node(tmp_path: Path, attack: Callable[[JoinTarget], Awaitable[None]]) -> JoinTarget:
    """Run an attack on one node. Afterwards its state is unchanged and its loop has no error."""
    complaints: list[dict[str, Any]] = []

    async def main() -> JoinTarget:
        collect_loop_errors(complaints)
        server, lines = make(tmp_path, "n1")
        await server.start()
        try:
            target = JoinTarget(server, lines)
            before = target.state
            async with asyncio.timeout(30):
                await attack(target)
            assert target.state == before
            return target
        finally:
            await server.stop()

    target = asyncio.run(main())
    assert complaints == []
    return target


def a_hello() -> bytes:
    return encode_hello(PeerInfo("n2@127.0.0.1", 1, "disk", "process", "cluster", "127.0.0.1:1"))


def requests() -> list[tuple[str, bytes]]:
    join = JoinRequest("n2@127.0.0.1", "disk", 1, "process", "127.0.0.1:1", VERSIONS)
    return [
        (WHO, b""),
        (JOIN, encode_call(join)),
        (LEAVE, encode_call(LeaveRequest("n1@127.0.0.1", True))),
        (DEPART, bytes((1, 1, 0, 0, 0, 60))),
        (VALUES, msgspec.msgpack.encode(["allow_anonymous", "nodename"])),
    ]


@pytest.mark.parametrize("cookie", [DEFAULT_COOKIE, "", COOKIE.upper(), COOKIE + " "])
def test_with_a_guessed_cookie(tmp_path: Path, cookie: str) -> None:
    """No call is answered, no stream opens, and the refusals reveal nothing about the cluster."""

    async def attack(target: JoinTarget) -> None:
        stranger = GrpcTransport(cookie=cookie)
        told: list[str] = []
        for method, request in requests():
            with pytest.raises(Unproven) as caught:
                await stranger.call(target.address, method, request, 5)
            told.append(str(caught.value))
        events = Recorder()
        stranger.dial(target.address, a_hello(), events)
        told += await events.until("closed")
        assert events.all("opened") == []
        assert [fact for fact in target.facts if fact in " ".join(told).encode()] == []
        await stranger.close()

    target = attack_node(tmp_path, attack)
    warned = [line for line in target.lines if "refused" in line]
    assert len(warned) == 1, "one log line for all attempts"
    assert "connection of another node from 127.0.0.1 refused: its proof is wrong" in warned[0]
    assert "all nodes of a cluster have the same distributed_cookie" in warned[0]


@pytest.mark.parametrize("proof", [None, b"", bytes(73), b"\x02" + bytes(72)], ids=["none", "empty", "zeros", "shaped"])
def test_without_a_handshake(tmp_path: Path, proof: bytes | None) -> None:
    """Messages to every method, with no proof or a forged one: each call ends without a message and without facts."""

    async def attack(target: JoinTarget) -> None:
        metadata = () if proof is None else ((PROOF_HEADER, proof),)
        for method in (CALL, STREAM, CHALLENGE, "/strogoff.Peer/Other", "/x/y"):
            async with grpc.aio.insecure_channel(target.address) as channel:
                call = channel.stream_stream(method)(metadata=metadata)
                with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    await call.write(a_hello())
                    answer = await call.read()
                    assert answer is grpc.aio.EOF
                told = repr((await call.initial_metadata(), await call.trailing_metadata())).encode()
                told += (await call.details() or "").encode()
                assert method == CHALLENGE or await call.code() is not grpc.StatusCode.OK
                assert [fact for fact in target.facts if fact in told] == []

    attack_node(tmp_path, attack)


def test_a_recorded_call_is_not_answered_again(tmp_path: Path) -> None:
    """An attacker on the path repeats the recorded bytes of a real node on a connection of its own."""

    async def main() -> None:
        server, _ = make(tmp_path, "n1")
        await server.start()
        target = JoinTarget(server, [])
        asked: list[str] = []

        def in_force(key: str) -> str:
            asked.append(key)
            return "the value in force"

        assert server.cluster is not None
        server.cluster.in_force = in_force
        relay = Relay(int(target.address.rpartition(":")[2]))
        node = GrpcTransport(cookie=COOKIE)
        place = await relay.open()
        assert await node.call(place, VALUES, msgspec.msgpack.encode(["allow_anonymous"]), 5)
        assert asked == ["allow_anonymous"]
        await node.close()
        await relay.close()
        (recorded,) = relay.sent
        assert b"strogoff-proof-bin" in recorded and COOKIE.encode() not in recorded
        answer = await asyncio.to_thread(_play, target.address, bytes(recorded))
        assert answer and b"the value in force" not in answer and asked == ["allow_anonymous"]
        assert [fact for fact in target.facts if fact in answer] == []
        await server.stop()

    asyncio.run(main())


def _play(address: str, recorded: bytes) -> bytes:
    stranger = RawHttp2Client(address, 3)
    stranger.send(recorded)
    while not stranger.closed and not stranger.late:
        stranger.hear(0.1)
    stranger.close()
    return stranger.heard


def test_a_large_message_before_the_proof_is_not_read(tmp_path: Path) -> None:
    """Of the 64 MiB that a stranger announces, the node reads one HTTP/2 window, and ends the stream."""

    async def attack(target: JoinTarget) -> None:
        def push(path: str) -> int:
            stranger = RawHttp2Client(target.address, 10)
            stranger.hello()
            stranger.hear()
            sent = 0
            for stream in (1, 3, 5):
                stranger.ask(stream, path)
                sent = max(sent, stranger.push(stream, 64 << 20))
            stranger.close()
            return sent

        for path in (STREAM, CALL, CHALLENGE, "/x/y"):
            assert await asyncio.to_thread(push, path) <= 64 << 10

    attack_node(tmp_path, attack)


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01" + bytes(500), b"PRI * HT"]
)
def test_connections_with_garbage_or_without_calls_are_closed(tmp_path: Path, first: bytes) -> None:
    """A connection without a handshake is closed after a time; so is one that makes no call."""

    async def attack(target: JoinTarget) -> None:
        began = time.monotonic()
        assert await asyncio.to_thread(_until_closed, target.address, first)
        assert time.monotonic() - began < 7

    attack_node(tmp_path, attack)


@pytest.mark.slow
def test_an_http2_connection_without_calls_is_closed(tmp_path: Path) -> None:
    async def attack(target: JoinTarget) -> None:
        assert await asyncio.to_thread(_until_closed, target.address, PREFACE + frame(SETTINGS, 0, 0))

    attack_node(tmp_path, attack)


def _until_closed(address: str, first: bytes) -> bool:
    stranger = RawHttp2Client(address, 8)
    stranger.mute = not first
    stranger.send(first)
    while not stranger.closed and not stranger.late:
        stranger.hear(0.2)
    stranger.close()
    return stranger.closed


def test_the_number_of_stranger_connections_is_bounded(tmp_path: Path) -> None:
    """The number of connections is bounded. When the strangers have gone, a node with the cookie can join."""

    async def attack(target: JoinTarget) -> None:
        def crowd() -> int:
            strangers = [RawHttp2Client(target.address, 10) for _ in range(300)]
            for each in strangers:
                each.hello()
            for _ in range(3):
                for each in strangers:
                    if not each.closed:
                        each.hear(0.005)
            inside = sum(not each.closed for each in strangers)
            for each in strangers:
                each.close()
            return inside

        assert await asyncio.to_thread(crowd) <= 256
        node = GrpcTransport(cookie=COOKIE)
        answer = b""
        while not answer:
            with suppress(CallFailed):  # until the node has noticed that they have gone
                answer = await node.call(target.address, WHO, b"", 10)
        await node.close()

    attack_node(tmp_path, attack)


def test_nodes_with_different_cookies_name_the_setting(tmp_path: Path) -> None:
    """Both logs name the setting; a node with the right cookie joins."""

    async def main() -> None:
        (one, said), (two, _) = make(tmp_path, "n1"), make(tmp_path, "n2", "another")
        await one.start()
        await two.start()
        assert one.cluster is not None and two.cluster is not None
        with pytest.raises(Exception, match="set the same distributed_cookie on all nodes"):
            await two.cluster.join(one.cluster.address, False)
        assert any("refused: its proof is wrong" in line for line in said)
        await two.stop()
        three, _ = make(tmp_path, "n3")
        await three.start()
        assert three.cluster is not None
        await three.cluster.join(one.cluster.address, False)
        assert sorted(row.node for row in one.cluster.rows()) == ["n1@127.0.0.1", "n3@127.0.0.1"]
        with pytest.raises(CallFailed):
            await GrpcTransport(cookie="x").call(one.cluster.address, WHO, b"", 5)
        await three.stop()
        await one.stop()

    asyncio.run(main())
