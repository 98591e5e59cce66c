"""Password and ACL files through a vernemq.conf, and client addresses through the PROXY protocol."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiomqtt
import gmqtt
import paho.mqtt.client
import pytest
from amqtt.client import MQTTClient
from amqtt.errors import ConnectError
from gmqtt.mqtt.constants import MQTTv50

from bench.broker_process import free_port

from .brokers import WITHIN_S, Background, ConfBroker, EveryListener, require_program, run_test, until
from .paho_client import MQTT_5, Paho

pytestmark = [pytest.mark.system, pytest.mark.timeout(60)]

modern = pytest.mark.parametrize("version", [4, 5])

ACL = """\
topic read news/#
user alice
topic alice/#
topic write news/alice
user bob
topic read alice/public
pattern %u/%c/#
"""

CONF = """\
listener.tcp.default = 127.0.0.1:{port}
allow_anonymous = off
vmq_passwd.password_file = {folder}/vmq.passwd
vmq_passwd.password_reload_interval = 1
session.max_failed_logins = 1000
vmq_acl.acl_file = {folder}/vmq.acl
vmq_acl.acl_reload_interval = 1
log.console.file = {folder}/log/console.log
log.error.file = {folder}/log/error.log
platform_data_dir = {folder}/data
"""


def set_password(file: Path, user: str, password: str) -> None:
    """`vmq-passwd`, as an operator's script calls it."""
    create = [] if file.exists() else ["-c"]
    command = [sys.executable, "-m", "strogoff.broker.plugins.passwd_cli", *create, str(file), user]
    subprocess.run(command, input=f"{password}\n{password}\n", text=True, check=True, timeout=WITHIN_S)


@pytest.fixture(scope="module")
def guarded(background: Background, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfBroker]:
    """A broker with the users alice (wonder), bob (builder) and carol (changes) that refuses all others."""
    folder = tmp_path_factory.mktemp("guarded")
    for user, password in (("alice", "wonder"), ("bob", "builder"), ("carol", "first")):
        set_password(folder / "vmq.passwd", user, password)
    (folder / "vmq.acl").write_text(ACL)
    port = free_port()
    broker = ConfBroker(folder, CONF.format(port=port, folder=folder), port)
    background.run(broker.start())
    yield broker
    assert background.run(broker.stop()) == 0
    assert broker.tracebacks() == []
    assert (folder / "log" / "console.log").read_text().count("Traceback") == 0


def knocker(
    broker: ConfBroker, shared: EveryListener, name: str, version: int, user: str, password: str, **more: Any
) -> Paho:
    """A paho client at the guarded broker."""
    return Paho(shared, name, version, port=broker.port, user=user, password=password, **more)


@modern
def test_a_known_user_is_let_in_and_others_are_not(
    guarded: ConfBroker, shared: EveryListener, name: str, version: int
) -> None:
    """[MQTT-3.2.2-4] [MQTT-3.2.2-5] [MQTT5-3.1.4-2] [MQTT5-3.2.2-7]"""
    with knocker(guarded, shared, name, version, "alice", "wonder"):
        pass
    # one answer for a wrong password and an unknown user; paho shows code 4 of 3.1.1 as that of 5
    for user, password in (("alice", "wrong"), ("bob", "wonder"), ("mallory", "wonder")):
        with knocker(guarded, shared, name, version, user, password, expect=0x86) as stranger:
            assert stranger.gone.wait(WITHIN_S)
    log = guarded.conf.parent / "log" / "console.log"

    def refused(user: str, reason: str) -> bool:
        return any(
            "CONNECT refused" in line
            and f"client_id={name} peer=127.0.0.1:" in line
            and f"user={user} " in line
            and f"reason={reason}" in line
            for line in log.read_text().splitlines()
        )

    until(lambda: refused("alice", "invalid_credentials") and refused("bob", "invalid_credentials"))
    assert refused("mallory", "plugin_chain_exhausted")


@modern
def test_the_acl_file_decides(guarded: ConfBroker, shared: EveryListener, name: str, version: int) -> None:
    """Reading and writing separately, rules for all users, for one, and with %u and %c. [MQTT-3.3.5-2]"""
    refused = 0x87 if version == MQTT_5 else 0x80
    with (
        knocker(guarded, shared, f"{name}-a", version, "alice", "wonder") as alice,
        knocker(guarded, shared, f"{name}-b", version, "bob", "builder") as bob,
    ):
        assert bob.subscribe("news/#", 1) == [1]
        assert bob.subscribe("alice/public", 1) == [1]
        assert bob.subscribe("alice/secret", 1) == [refused]
        assert bob.subscribe("alice/#", 1) == [refused]
        assert bob.subscribe("#", 1) == [refused]
        assert bob.subscribe(f"bob/{name}-b/x", 1) == [1]
        assert alice.publish("news/alice", b"read all about it", 1) == 0
        assert bob.next().payload == b"read all about it"
        bob.publish(f"bob/{name}-b/x", b"mine", 1)
        assert bob.next().payload == b"mine"
        assert alice.subscribe("news/#", 1) == [1]
        if version == MQTT_5:
            assert bob.publish("news/bob", b"fake", 1) == 0x87
        else:
            # 3.1.1 has no refusal code
            bob.client.publish("news/bob", b"fake", 1)
            assert bob.gone.wait(WITHIN_S)
        alice.publish("news/alice", b"the end", 1)
        assert alice.next().payload == b"the end"


def test_a_new_password_counts_without_a_restart(guarded: ConfBroker, shared: EveryListener, name: str) -> None:
    """The file is checked every second; connected clients stay connected."""
    with knocker(guarded, shared, f"{name}-old", MQTT_5, "carol", "first") as connected:
        set_password(guarded.conf.parent / "vmq.passwd", "carol", "second")
        for attempt in range(200):
            try:
                with knocker(guarded, shared, f"{name}-{attempt}", MQTT_5, "carol", "second"):
                    break
            except AssertionError:
                assert not connected.gone.wait(0.05)
        else:
            raise AssertionError("the new password was not accepted")
        assert not connected.gone.is_set()
    with pytest.raises(AssertionError, match="CONNACK"), knocker(guarded, shared, name, MQTT_5, "carol", "first"):
        pass


def test_the_other_clients_can_log_in_too(guarded: ConfBroker, name: str) -> None:
    """aiomqtt, gmqtt, amqtt and mosquitto: accepted with the right password, refused with a wrong one."""

    async def run() -> None:
        place: dict[str, Any] = {"hostname": "127.0.0.1", "port": guarded.port, "identifier": name}
        async with aiomqtt.Client(**place, username="alice", password="wonder"):
            pass
        with pytest.raises(aiomqtt.MqttError):
            async with aiomqtt.Client(**place, username="alice", password="wrong"):
                pass

        client = gmqtt.Client(name)
        client.set_config({"reconnect_retries": 0})
        client.set_auth_credentials("alice", "wonder")
        await client.connect("127.0.0.1", guarded.port, version=MQTTv50)
        await client.disconnect()

        for password, accepted in (("wonder", True), ("wrong", False)):
            amqtt = MQTTClient(name, config={"auto_reconnect": False, "plugins": {}})
            try:
                await amqtt.connect(f"mqtt://alice:{password}@127.0.0.1:{guarded.port}")
                assert accepted
                await amqtt.disconnect()
            except ConnectError:
                assert not accepted

        for password, status in (("wonder", 0), ("wrong", 4)):
            process = await asyncio.create_subprocess_exec(
                *(require_program("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(guarded.port), "-V", "mqttv311"),
                *("-u", "alice", "-P", password, "-t", "alice/x", "-m", "x", "-q", "1"),
                stderr=asyncio.subprocess.DEVNULL,
            )
            assert await asyncio.wait_for(process.wait(), WITHIN_S) == status

    run_test(run())


@modern
@pytest.mark.parametrize("header", ["PROXY TCP4 203.0.113.9 127.0.0.1 5555 1883\r\n", "PROXY UNKNOWN\r\n"])
def test_a_client_behind_a_proxy(shared: EveryListener, name: str, version: int, header: str) -> None:
    """The PROXY header comes before MQTT; without it the listener does not answer."""

    class Proxied(paho.mqtt.client.Client):
        def _create_socket(self) -> Any:
            made = super()._create_socket()
            assert isinstance(made, socket.socket)
            made.sendall(header.encode())
            return made

    client = Paho(shared, name, version, "proxied")
    client.client.__class__ = Proxied
    with client:
        client.subscribe(name, 1)
        client.publish(name, b"through a proxy", 1)
        assert client.next().payload == b"through a proxy"


def test_the_address_of_the_proxy_header_is_logged(shared: EveryListener, name: str) -> None:
    """A refusal is logged with the client's address, not with the proxy's."""

    async def run() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", shared.proxied)
        too_long = "x" * 120
        writer.write(b"PROXY TCP4 203.0.113.77 127.0.0.1 5555 1883\r\n")
        body = b"\0\x04MQTT\x04\x02\0\x3c" + len(too_long).to_bytes(2, "big") + too_long.encode()
        writer.write(b"\x10" + bytes([len(body) | 0x80, len(body) >> 7]) + body)
        assert await asyncio.wait_for(reader.read(), WITHIN_S) == b"\x20\x02\0\x02"
        writer.close()
        await asyncio.to_thread(until, lambda: "203.0.113.77" in shared.broker.log.read_text())

    run_test(run())
