"""Certificates: both sides show one, and a side without one gets the reason."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import trustme

from strogoff.cluster.links.settings import LinkSettings
from strogoff.cluster.transport.grpc_settings import OPTIONS, PING_EVERY_MS, PING_TIMEOUT_MS, Tls
from strogoff.cluster.transport.grpc_wire import GrpcTransport
from strogoff.cluster.transport.wire import NOTICE_S, CallFailed, TransportError

from .wire_server import Recorder, WireServer


def make_tls(folder: Path, authority: trustme.CA, name: str = "127.0.0.1", expect: str = "") -> Tls:
    """The files of one node."""
    folder.mkdir()
    certificate = authority.issue_cert(name)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    certificate.private_key_pem.write_to_path(str(folder / "key.pem"))
    with (folder / "cert.pem").open("wb") as file:
        for blob in certificate.cert_chain_pems:
            file.write(blob.bytes())
    return Tls(folder / "ca.pem", folder / "cert.pem", folder / "key.pem", expect)


async def dial(here: GrpcTransport, there: GrpcTransport) -> tuple[str, str]:
    """Returns the result for the dialer: the kind of its first event, and the value as text."""
    mine = Recorder()
    try:
        here.dial(await WireServer(there).open("127.0.0.1:0"), b"me", mine)
        await asyncio.wait(
            [asyncio.ensure_future(mine.until(kind)) for kind in ("opened", "closed")],
            return_when=asyncio.FIRST_COMPLETED,
        )
        return mine.seen[0][0], str(mine.seen[0][1])
    finally:
        await here.close()
        await there.close()


def test_mutual_tls(tmp_path: Path) -> None:
    """Streams and calls between two nodes with certificates of one authority."""
    authority = trustme.CA()
    one, two = make_tls(tmp_path / "1", authority), make_tls(tmp_path / "2", authority)

    async def main() -> None:
        here, there = GrpcTransport(one), GrpcTransport(two)
        mine, place = Recorder(), WireServer(there)

        async def calls(method: str, request: bytes) -> bytes:
            return request + method.encode()

        address = await place.open("127.0.0.1:0", calls)
        here.dial(address, b"me", mine)
        await mine.until("opened")
        assert mine.wire is not None
        mine.wire.send(b"secret")
        assert await (await place.comes()).until("received") == [b"secret"]
        assert await here.call(address, "x", b"y", 5) == b"yx"
        await here.close()
        await there.close()

    asyncio.run(main())


def test_one_certificate_for_all_nodes(tmp_path: Path) -> None:
    """The name in the certificate is not the host of the address; it is the expected name."""
    authority = trustme.CA()
    one = make_tls(tmp_path / "1", authority, "strogoff.example", "strogoff.example")
    assert asyncio.run(_dial_with(one, one))[0] == "opened"


async def _dial_with(here: Tls | None, there: Tls | None) -> tuple[str, str]:
    return await dial(GrpcTransport(here), GrpcTransport(there))


def test_a_dialer_without_certificates(tmp_path: Path) -> None:
    """The reason says that the other side may want TLS."""
    tls = make_tls(tmp_path / "1", trustme.CA())
    kind, reason = asyncio.run(_dial_with(None, tls))
    assert kind == "closed" and "listener.vmqs" in reason, reason


@pytest.mark.parametrize("side", ["here", "there"])
def test_certificates_of_another_authority(tmp_path: Path, side: str) -> None:
    """They are refused on either side."""
    one, two = make_tls(tmp_path / "1", trustme.CA()), make_tls(tmp_path / "2", trustme.CA())
    here, there = (one, two) if side == "here" else (two, one)
    kind, reason = asyncio.run(_dial_with(here, there))
    assert kind == "closed" and "certificates on both sides" in reason, reason


def test_a_server_without_tls(tmp_path: Path) -> None:
    """A dialer with certificates does not speak without TLS."""
    kind, reason = asyncio.run(_dial_with(make_tls(tmp_path / "1", trustme.CA()), None))
    assert kind == "closed" and "TLS" in reason, reason


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    """The error names option and file."""
    tls = make_tls(tmp_path / "1", trustme.CA())
    missing = Tls(tls.cafile, tmp_path / "none.pem", tls.keyfile)
    with pytest.raises(TransportError, match=r"certfile .*none\.pem: No such file"):
        missing.server()
    (tmp_path / "junk.pem").write_text("junk")
    with pytest.raises(TransportError, match=r"keyfile .*junk\.pem: this is not PEM"):
        Tls(tls.cafile, tls.certfile, tmp_path / "junk.pem").channel()

    async def main() -> None:
        here, mine = GrpcTransport(missing), Recorder()
        here.dial("127.0.0.1:1", b"me", mine)
        assert "none.pem" in (await mine.until("closed"))[0]
        with pytest.raises(CallFailed, match=r"none\.pem"):
            await here.call("127.0.0.1:1", "m", b"", 1)
        with pytest.raises(TransportError, match=r"none\.pem"):
            await here.serve("127.0.0.1:0", lambda hello, wire: pytest.fail("accepted"))
        await here.close()

    asyncio.run(main())


def test_the_option_that_notices_a_stopped_peer() -> None:
    """Without it, gRPC waits 60 s whatever the keepalive says."""
    assert dict(OPTIONS)["grpc.http2.ping_timeout_ms"] == 700


def test_a_reading_end_sends_no_pings() -> None:
    """A frame delays the next ping; without frames a dead peer is noticed in time."""
    links = LinkSettings()
    assert max(links.heartbeat_s, links.echo_s) * 1500 < PING_EVERY_MS
    assert PING_EVERY_MS + PING_TIMEOUT_MS < NOTICE_S * 1000
    assert dict(OPTIONS)["grpc.http2.bdp_probe"] == 0
