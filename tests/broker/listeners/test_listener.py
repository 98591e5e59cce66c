"""One listener: the row that it shows, and that renewed certificates apply to new connections."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from strogoff.broker.listeners.listener import ListenerRow
from strogoff.broker.listeners.sockets import ListenError
from strogoff.broker.listeners.tls import TlsError

from ...harness.listeners import Authority, ListenerHarness, Peer, both_loops, tcp, with_listeners

CLOSED = r"refused|Connect call failed|reset"


@both_loops
def test_a_row_shows_the_present_state(loop: str) -> None:
    async def test(harness: ListenerHarness) -> None:
        settings = tcp(mountpoint="m", max_connections=None)
        port = await harness.open(settings)
        assert port > 0
        listener = harness.listeners.find("tcp.default")
        first, second = await Peer.connect(port), await Peer.connect(port)
        await harness.handler(1)
        second.close()
        await harness.until(lambda: harness.listeners.active() == 1)
        row = ListenerRow("listener.tcp.default", "mqtt", "running", "127.0.0.1", port, "m", None, 1, 2)
        assert listener.row() == row
        await listener.stop()
        await listener.stop()
        assert listener.row().status == "stopped"
        with pytest.raises(OSError, match=CLOSED):
            await Peer.connect(port)
        first.send(b"still served")
        await first.expect(b"still served")
        await listener.start()
        await listener.start()
        third = await Peer.connect(port)
        third.send(b"again")
        await third.expect(b"again")

    with_listeners(test, loop)


@both_loops
def test_a_port_is_free_although_a_forked_process_has_the_socket(loop: str, tmp_path: Path) -> None:
    """It has the same socket, as a copy of the descriptor has it here."""

    async def test(harness: ListenerHarness) -> None:
        for settings in (tcp(), Authority(tmp_path).settings()):
            await harness.open(settings)
            listener = harness.listeners.find(settings.key.removeprefix("listener."))
            port = listener.settings.port
            assert listener._socket is not None
            with listener._socket.dup():
                await listener.stop()
                with pytest.raises(OSError, match=CLOSED):
                    await Peer.connect(port)
                await listener.start()
                assert listener.settings.port == port
                (await Peer.connect(port)).close()

    with_listeners(test, loop)


@both_loops
def test_a_unix_socket_leaves_no_file(loop: str, tmp_path: Path) -> None:
    async def test(harness: ListenerHarness) -> None:
        path = tmp_path / "s"
        await harness.open(tcp(host="", unix_path=str(path)))
        assert harness.listeners.show()[0].address == f"local:{path}"
        listener = harness.listeners.find(str(path))
        await listener.stop()
        assert not path.exists()
        await listener.start()
        (await Peer.unix(str(path))).close()

    with_listeners(test, loop)


def served_certificate(port: int) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port))


def test_a_renewed_certificate(tmp_path: Path) -> None:
    async def test(harness: ListenerHarness) -> None:
        authority = Authority(tmp_path)
        port = await harness.open(authority.settings())
        before = await asyncio.to_thread(served_certificate, port)
        renewed = authority.ca.issue_cert("127.0.0.1")
        renewed.cert_chain_pems[0].write_to_path(authority.certfile)
        listener = harness.listeners.find("ssl.default")
        with pytest.raises(TlsError, match="not the key of the certificate"):
            await listener.reload_tls()
        assert await asyncio.to_thread(served_certificate, port) == before
        renewed.private_key_pem.write_to_path(authority.keyfile)
        await listener.reload_tls()
        assert await asyncio.to_thread(served_certificate, port) == renewed.cert_chain_pems[0].bytes().decode()

    with_listeners(test)


def test_wrong_tls_options_are_one_line(tmp_path: Path) -> None:
    async def test(harness: ListenerHarness) -> None:
        authority = Authority(tmp_path)
        with pytest.raises(ListenError) as error:
            await harness.open(authority.settings(certfile="", port=8883))
        assert str(error.value) == "listener.ssl.default: cannot listen on 127.0.0.1:8883: certfile is not set"

    with_listeners(test)
