"""Listed certificates between nodes: which ones are accepted, by the dialer and by the acceptor."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest

from strogoff.cluster.transport.grpc_settings import HANDSHAKE_S, Tls
from strogoff.cluster.transport.grpc_wire import GrpcTransport
from strogoff.cluster.transport.pinning import trusted
from strogoff.cluster.transport.wire import CallFailed, TransportError, Unproven

from .authority import Authority, Node
from .wire_server import Recorder, WireServer


async def meet(here: Tls, there: Tls) -> tuple[str, str, list[str]]:
    """Dial and call; returns the dialer's event with its value, and the log lines of the other
    side. Both must agree.
    """
    lines: list[str] = []
    one, two = GrpcTransport(here), GrpcTransport(there, log=lambda level, text: lines.append(text))
    place, mine = WireServer(two), Recorder()

    async def calls(method: str, request: bytes) -> bytes:
        return b"answer"

    try:
        address = await place.open("127.0.0.1:0", calls)
        one.dial(address, b"me", mine)
        waits = [asyncio.ensure_future(mine.until(kind)) for kind in ("opened", "closed")]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        try:
            called = await one.call(address, "x", b"", 5) == b"answer"
        except CallFailed:
            called = False
        kind, value = mine.seen[0][0], str(mine.seen[0][1])
        assert called == (kind == "opened")
        assert bool(place.accepted) == called
        return kind, value, lines
    finally:
        await one.close()
        await two.close()


def two_nodes(tmp_path: Path) -> tuple[Authority, Node, Node]:
    authority = Authority()
    return authority, Node(tmp_path / "1", authority, "n1.example"), Node(tmp_path / "2", authority, "n2.example")


def test_nodes_that_name_each_other(tmp_path: Path) -> None:
    _, one, two = two_nodes(tmp_path)
    by_name = one.tls(names=("*.example",)), two.tls(names=("n1.example", "n2.example"))
    assert asyncio.run(meet(*by_name))[0] == "opened"
    by_fingerprint = one.tls(fingerprints=(sha256(two.der).hexdigest(),)), two.tls(names=("n1.example",))
    assert asyncio.run(meet(*by_fingerprint))[0] == "opened"


def test_a_dialer_without_a_listed_certificate_is_refused(tmp_path: Path) -> None:
    """It has a certificate of the authority, as an MQTT client may have."""
    _, device, node = two_nodes(tmp_path)
    kind, reason, lines = asyncio.run(meet(device.tls(), node.tls(names=("n2.example",))))
    assert kind == "closed" and "look at cluster.peer_names" in reason
    assert len(lines) == 1 and "the certificate of 127.0.0.1, n1.example, fingerprint" in lines[0]


def test_a_call_that_is_refused_because_of_the_certificate_is_unproven(tmp_path: Path) -> None:
    """Discovery learns that a node is there, and founds no cluster without it."""
    _, device, node = two_nodes(tmp_path)

    async def main() -> None:
        here, there = GrpcTransport(device.tls()), GrpcTransport(node.tls(names=("n2.example",)))
        try:
            with pytest.raises(Unproven, match="does not take the certificate of this node"):
                await here.call(await WireServer(there).open("127.0.0.1:0"), "who", b"", 5)
        finally:
            await here.close()
            await there.close()

    asyncio.run(main())


def test_an_acceptor_without_a_listed_certificate_is_refused(tmp_path: Path) -> None:
    """The dialer does not even connect with gRPC."""
    _, node, device = two_nodes(tmp_path)
    kind, reason, lines = asyncio.run(meet(node.tls(names=("n1.example",)), device.tls()))
    assert kind == "closed" and "is not accepted as a node: the certificate of 127.0.0.1, n2.example" in reason
    assert lines == []


@pytest.mark.parametrize("revoked", ["dialer", "acceptor"])
def test_a_certificate_that_was_revoked(tmp_path: Path, revoked: str) -> None:
    """The list is read again for each connection: a change has effect at once."""
    authority, one, two = two_nodes(tmp_path)
    crl = authority.revoke(tmp_path / "crl.pem")
    here, there = one.tls(crl=crl), two.tls(crl=crl)
    assert asyncio.run(meet(here, there))[0] == "opened"
    mine, yours = (None, crl) if revoked == "dialer" else (crl, None)
    authority.revoke(crl, one if revoked == "dialer" else two)
    kind, reason, lines = asyncio.run(meet(one.tls(crl=mine), two.tls(crl=yours)))
    assert kind == "closed"
    assert "is revoked" in (lines[0] if revoked == "dialer" else reason)


def test_an_unreadable_list_refuses_all_connections(tmp_path: Path) -> None:
    authority, one, two = two_nodes(tmp_path)
    crl = authority.revoke(tmp_path / "crl.pem")
    here, there = one.tls(), two.tls(crl=crl)
    crl.write_text("-----BEGIN JUNK-----")
    kind, _, lines = asyncio.run(meet(here, there))
    assert kind == "closed" and "there is no revocation list in it" in lines[0]
    with pytest.raises(TransportError, match=r"crl\.pem: there is no revocation list in it"):
        there.rules()


def test_the_certificate_of_the_connection_itself_counts(tmp_path: Path) -> None:
    """An attacker shows the certificate of a node first, and its own to gRPC: gRPC does not connect."""
    _, one, two = two_nodes(tmp_path)

    async def main() -> None:
        there = GrpcTransport(two.tls())
        address = await WireServer(there).open("127.0.0.1:0")
        assert await trusted(address, one.tls(names=("n2.example",)), 5) == two.pem
        assert await trusted(address, one.tls(), 5) == one.cafile.read_bytes()
        async with grpc.aio.secure_channel(address, one.tls().channel(one.pem)) as wrong:
            call = wrong.stream_stream("/strogoff.Peer/Challenge")()
            assert await call.code() is grpc.StatusCode.UNAVAILABLE
        await there.close()

    asyncio.run(main())


def test_an_address_without_a_listener_and_one_without_tls(tmp_path: Path) -> None:
    _, one, _ = two_nodes(tmp_path)

    async def main() -> None:
        with pytest.raises(TransportError, match=r"cannot connect to 127\.0\.0\.1:1 with TLS"):
            await trusted("127.0.0.1:1", one.tls(names=("x",)), 5)
        connections: list[object] = []  # an unused connection is closed
        silent = await asyncio.start_server(lambda *streams: connections.append(streams), "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        with pytest.raises(TransportError, match="no answer from"):
            await trusted(f"127.0.0.1:{port}", one.tls(names=("x",)), 0.2)
        silent.close()

    asyncio.run(main())


@pytest.mark.slow
def test_a_silent_connection_ends(tmp_path: Path) -> None:
    """The peer connects and never begins TLS."""
    _, _, node = two_nodes(tmp_path)

    async def main() -> None:
        there = GrpcTransport(node.tls())
        host, _, port = (await WireServer(there).open("127.0.0.1:0")).rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        async with asyncio.timeout(3 * HANDSHAKE_S):
            assert await reader.read() == b""
        writer.close()
        await there.close()

    asyncio.run(main())
