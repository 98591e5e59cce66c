"""TLS through HAProxy: ended by the nodes (tls-passthrough.cfg), or by HAProxy, which hands on the names (tls.cfg)."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trustme

from bench.cluster_nodes import Node, until
from bench.haproxy import Ports
from strogoff.broker.listeners.proxy_protocol import SIGNATURE
from strogoff.mqtt import packets
from strogoff.mqtt.encoder import encode

from ..brokers import WITHIN_S, run_test
from ..mosquitto import Sub, pub
from .proxied import Certificates, behind, sessions

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(100)]

ACL = "topic read news/#\npattern write own/%u\npattern read own/%u\n"
ADDRESSES = bytes([192, 0, 2, 7, 192, 0, 2, 1]) + struct.pack("!HH", 5678, 1884)


async def logs(nodes: list[Node], text: str) -> None:
    """Wait until the log of one of the nodes has this text."""

    async def found() -> bool:
        return any(text in node.log.read_text() for node in nodes)

    await until(f"a log has: {text}", found)


async def is_refused(port: int, options: list[str]) -> None:
    assert await pub("-p", str(port), *options, "-t", "own/x", "-m", "x", "-q", "1") != 0


def test_the_nodes_end_tls(tmp_path: Path) -> None:
    """Their own certificate, those of the clients, and the clients' addresses: all are as without HAProxy. A client
    without a certificate is refused by the node, which names its reason; so is TLS without a PROXY header."""
    pem = Certificates(tmp_path)

    def prepare(node: Node, ports: Ports) -> None:
        key = "listener.ssl.proxied"
        more = {"certfile": pem.cert, "keyfile": pem.key, "cafile": pem.ca, "tls_version": "tlsv1.2,tlsv1.3"}
        more |= {"require_certificate": "on", "use_identity_as_username": "on", "proxy_protocol": "on"}
        node.settings[key] = f"{node.host}:{ports.tls}"
        node.settings |= {f"{key}.{option}": str(value) for option, value in more.items()}

    async def scenario() -> None:
        async with behind(tmp_path, "tls-passthrough", prepare) as (nodes, proxy):
            at = ["-p", str(proxy.port)]
            device = pem.client("device-1")
            subs = [await Sub.start(*at, *device, "-i", f"s{number}", "-u", "admin", "-t", "t") for number in range(3)]
            shown = await sessions(nodes[0], "user", "peer_host", "gateway", "node")
            assert {row["user"] for row in shown.values()} == {"device-1"}
            assert {row["peer_host"] for row in shown.values()} == {"127.0.0.1"}
            assert len({row["gateway"] or row["node"] for row in shown.values()}) == 3
            assert await pub(*at, *device, "-t", "t", "-m", "hello", "-q", "1") == 0
            for sub in subs:
                assert await sub.finish(1) == ["hello"]
            await is_refused(proxy.port, pem.without())
            await logs(nodes, "TLS handshake failed: peer did not return a certificate")
            await is_refused(proxy.port, pem.client("stranger", trustme.CA()))
            address = nodes[0].settings["listener.ssl.proxied"].split(":")
            assert await pub("-h", address[0], "-p", address[1], *device, "--insecure", "-t", "t", "-m", "x") != 0
            await logs(nodes[:1], "refused: no PROXY header")

    run_test(scenario())


def only_certificates(folder: Path, node: Node, _ports: Ports) -> None:
    """Settings as in docs/haproxy.md: no anonymous clients, except at the listener for HAProxy."""
    acl = folder / "vmq.acl"
    acl.write_text(ACL)
    node.settings |= {
        "allow_anonymous": "off",
        "plugins.vmq_acl": "on",
        "vmq_acl.acl_file": str(acl),
        "listener.tcp.proxied.allow_anonymous_override": "on",
    }


def test_haproxy_ends_tls_and_hands_on_the_name(tmp_path: Path) -> None:
    """The name in the certificate is the user name, whatever CONNECT claims. Who has no certificate, one of another
    authority, or one without a name, is refused by HAProxy, whose log has the reason."""
    pem = Certificates(tmp_path)
    files = {"STROGOFF_CERTIFICATE": str(pem.both), "STROGOFF_CLIENT_CA": str(pem.ca)}

    async def scenario() -> None:
        async with behind(tmp_path, "tls", partial(only_certificates, tmp_path), files) as (nodes, proxy):
            at = ["-p", str(proxy.port)]
            owner, thief = pem.client("device-1"), pem.client("device-2")
            for number, claim in enumerate(([], ["-u", "device-2"], ["-u", "device-2", "-P", "secret"])):
                sub = await Sub.start(*at, *owner, *claim, "-i", f"s{number}", "-q", "1", "-t", "own/device-1")
                shown = await sessions(nodes[0], "user", "peer_host")
                assert shown[f"s{number}"]["user"] == "device-1"
                assert shown[f"s{number}"]["peer_host"] == "127.0.0.1"
                # the rights are those of the certificate: the claimed name does not write to the topic of the other
                await pub(*at, *thief, "-u", "device-1", "-t", "own/device-1", "-m", "stolen", "-q", "1")
                assert await pub(*at, *owner, *claim, "-t", "own/device-1", "-m", "mine", "-q", "1") == 0
                assert await sub.finish(1) == ["mine"]
            await is_refused(proxy.port, pem.without())
            await is_refused(proxy.port, pem.client("stranger", trustme.CA()))
            said = proxy.log.read_text().splitlines()
            assert len(said) == 2, said
            assert said[0].endswith("mqtts/1: SSL handshake failure")
            assert said[1].endswith("mqtts/1: SSL client certificate not trusted")
            served = {name: row["stot"] for name, row in (await proxy.rows()).items()}
            await is_refused(proxy.port, [*pem.client(None), "-u", "device-1"])
            assert len(proxy.log.read_text().splitlines()) == 3
            assert {name: row["stot"] for name, row in (await proxy.rows()).items()} == served

    run_test(scenario())


def tlv(kind: int, value: bytes) -> bytes:
    return bytes([kind]) + struct.pack("!H", len(value)) + value


def header(body: bytes) -> bytes:
    return SIGNATURE + b"\x21\x11" + struct.pack("!H", len(ADDRESSES + body)) + ADDRESSES + body


def named(name: bytes, client: int = 7, verify: int = 0) -> bytes:
    return header(tlv(0x20, bytes([client]) + struct.pack("!I", verify) + tlv(0x22, name)))


@asynccontextmanager
async def raw(node: Node, data: bytes) -> AsyncIterator[bytes]:
    """Send this to the listener for HAProxy, and CONNECT as "claimed". Yields the first bytes of the answer."""
    host, port = node.settings["listener.tcp.proxied"].split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data + encode(packets.Connect("raw", 4, True, username="claimed"), 4))
    try:
        yield await asyncio.wait_for(reader.read(4), WITHIN_S)
    except ConnectionError:
        yield b""
    finally:
        writer.close()


ACCEPTED = b"\x20\x02\0\0"


def test_who_reaches_the_listener_of_the_nodes_without_haproxy(tmp_path: Path) -> None:
    """No header and broken ones are refused, with the reason in the log. The node believes a valid header; without a
    verified name in it the user name is the one in CONNECT. So nobody else may reach this listener."""
    pem = Certificates(tmp_path)
    files = {"STROGOFF_CERTIFICATE": str(pem.both), "STROGOFF_CLIENT_CA": str(pem.ca)}

    async def scenario() -> None:
        async with behind(tmp_path, "tls", partial(only_certificates, tmp_path), files) as (nodes, _):
            node = nodes[0]
            for data, why in (
                (b"", "no PROXY header"),
                (b"PROXY TCP4 1.2.3.4\r\n", "version 1: not PROXY TCP4|TCP6"),
                (header(b"\x20\xff\xff\x07"), "version 2: a truncated extension"),
                (header(tlv(0x20, b"\x07\0")), "version 2: a truncated SSL extension"),
                (header(tlv(0x20, b"\x07\0\0\0\0\x22\xff\xff")), "version 2: a truncated extension"),
                (named(b"\xff\xfe"), "version 2: the SSL extension is not UTF-8"),
            ):
                async with raw(node, data) as answer:
                    assert answer == b"", why
                await logs([node], f"listener.tcp.proxied: connection refused: {why}")
            for data, user in (
                (named(b"device-9"), "device-9"),
                (named(b"x" * 60_000), "x" * 60_000),
                (named(b"device-9", client=1), "claimed"),
                (named(b"device-9", verify=1), "claimed"),
                (named(b""), "claimed"),
                (header(b""), "claimed"),
                (SIGNATURE + b"\x20\0\0\0", "claimed"),
            ):
                async with raw(node, data) as answer:
                    assert answer == ACCEPTED
                    assert (await sessions(node, "user"))["raw"]["user"] == user

    run_test(scenario())
