"""One listener: what it shows, and that renewed certificates are for new connections."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from strogoff.broker.listeners.listener import ListenerRow
from strogoff.broker.listeners.sockets import ListenError
from strogoff.broker.listeners.tls import TlsError

from .street import Authority, House, Peer, both_loops, in_house, tcp

CLOSED = r"refused|Connect call failed|reset"


@both_loops
def test_a_row_shows_what_is_so(loop: str) -> None:
    async def test(house: House) -> None:
        settings = tcp(mountpoint="m", max_connections=None)
        port = await house.open(settings)
        assert port > 0
        listener = house.listeners.find("tcp.default")
        first, second = await Peer.connect(port), await Peer.connect(port)
        await house.front(1)
        second.close()
        await house.until(lambda: house.listeners.active() == 1)
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

    in_house(test, loop)


@both_loops
def test_a_unix_socket_leaves_no_file(loop: str, tmp_path: Path) -> None:
    async def test(house: House) -> None:
        path = tmp_path / "s"
        await house.open(tcp(host="", unix_path=str(path)))
        assert house.listeners.show()[0].address == f"local:{path}"
        listener = house.listeners.find(str(path))
        await listener.stop()
        assert not path.exists()
        await listener.start()
        (await Peer.unix(str(path))).close()

    in_house(test, loop)


def served_certificate(port: int) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port))


def test_a_renewed_certificate(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        authority = Authority(tmp_path)
        port = await house.open(authority.settings())
        before = await asyncio.to_thread(served_certificate, port)
        renewed = authority.ca.issue_cert("127.0.0.1")
        renewed.cert_chain_pems[0].write_to_path(authority.certfile)
        listener = house.listeners.find("ssl.default")
        with pytest.raises(TlsError, match="not the key of the certificate"):
            await listener.reload_tls()
        assert await asyncio.to_thread(served_certificate, port) == before
        renewed.private_key_pem.write_to_path(authority.keyfile)
        await listener.reload_tls()
        assert await asyncio.to_thread(served_certificate, port) == renewed.cert_chain_pems[0].bytes().decode()

    in_house(test)


def test_wrong_tls_options_are_one_line(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        authority = Authority(tmp_path)
        with pytest.raises(ListenError) as error:
            await house.open(authority.settings(certfile="", port=8883))
        assert str(error.value) == "listener.ssl.default: cannot listen on 127.0.0.1:8883: certfile is not set"

    in_house(test)
