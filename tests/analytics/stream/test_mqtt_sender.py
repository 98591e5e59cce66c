"""Alerts on MQTT: a broker that is away, that breaks off, and that refuses."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from strogoff.analytics.stream import alerts_table, mqtt_sender
from strogoff.analytics.stream.mqtt_sender import SENT, Broker, Sender, broker_of
from strogoff.analytics.trouble import Trouble
from strogoff.judge.alerts import Alert
from strogoff.judge.findings import Subject
from strogoff.mqtt import packets
from strogoff.mqtt.decoder import Decoder
from strogoff.mqtt.encoder import encode
from strogoff.testing.cluster import Cluster

from ...testing.run_loop import run

WITHIN_S = 20
Answer = Callable[[Any], list[Any]]


class Peer:
    """A broker that answers as it is told. It closes a connection when `answer` returns None in its list."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.got: list[dict[str, Any]] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.connects: list[packets.Connect] = []
        self.changed = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def broker(self) -> Broker:
        return broker_of(f"mqtt://me:s%3A@127.0.0.1:{self.listener.getsockname()[1]}", "a/b")

    def wait(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, WITHIN_S)

    def _run(self) -> None:
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            with link:
                self._serve(link)

    def _serve(self, link: socket.socket) -> None:
        decoder = Decoder("server")
        while data := link.recv(65536):
            for packet in decoder.feed(data):
                answers = self.answer(packet)
                with self.changed:
                    if isinstance(packet, packets.Publish) and None not in answers:
                        assert (packet.topic, packet.qos) == ("a/b", 1)
                        self.got.append(json.loads(packet.payload))
                    elif isinstance(packet, packets.Connect):
                        self.connects.append(packet)
                    self.changed.notify_all()
                if None in answers:
                    return
                link.sendall(b"".join(encode(each, 4) for each in answers))


def friendly(packet: Any) -> list[Any]:
    if isinstance(packet, packets.Connect):
        return [packets.Connack(False, 0)]
    return [packets.Puback(packet.packet_id)] if isinstance(packet, packets.Publish) else []


@contextmanager
def peer(answer: Answer = friendly) -> Iterator[Peer]:
    made = Peer(answer)
    try:
        yield made
    finally:
        made.listener.shutdown(socket.SHUT_RDWR)  # ends `accept`
        made.listener.close()


def alerts(out: Path, batch: int, number: int) -> list[str]:
    """Write so many alerts as one batch. Returns their ids."""
    found = [Alert("r", "drops", "x", "info", Subject(detail=f"{batch}-{each}"), 1, "t") for each in range(number)]
    records = [alerts_table.record_of(each) for each in found]
    alerts_table.write(out, batch, records)
    return [each.id for each in found]


def ids(peer: Peer) -> list[str]:
    return [each["id"] for each in peer.got]


def test_all_alerts_are_published_once(tmp_path: Path) -> None:
    expected = alerts(tmp_path, 2, 50) + alerts(tmp_path, 11, 3)
    with peer() as broker:
        sender = Sender(tmp_path, broker.broker, "me")
        sender.send()
        sender.send()
        assert ids(broker) == expected
        assert (tmp_path / SENT).read_text() == "11\n"
        (connect,) = broker.connects
        assert (connect.username, connect.password, connect.client_id) == ("me", b"s:", "me")
        more = alerts(tmp_path, 12, 1)
        Sender(tmp_path, broker.broker, "me").send()
        assert ids(broker) == expected + more


def test_what_a_broken_connection_took_comes_again(tmp_path: Path) -> None:
    """The broker closes behind the thirtieth PUBLISH, and does not acknowledge it."""
    first, second = alerts(tmp_path, 1, 20), alerts(tmp_path, 2, 20)
    seen = []

    def breaks(packet: Any) -> list[Any]:
        seen.append(packet)
        published = sum(isinstance(each, packets.Publish) for each in seen)
        return [None] if isinstance(packet, packets.Publish) and published == 30 else friendly(packet)

    with peer(breaks) as broker:
        sender = Sender(tmp_path, broker.broker, "me")
        with pytest.raises(OSError, match=r"closed|Broken pipe|reset"):
            sender.send()
        assert (tmp_path / SENT).read_text() == "1\n"
        sender.send()
        assert ids(broker) == first + second[:9] + second


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda packet: [packets.Connack(False, 5)], "CONNECT"),
        (lambda packet: [packets.Pingresp()], "CONNECT"),
    ],
)
def test_a_broker_that_refuses(tmp_path: Path, answer: Answer, why: str) -> None:
    alerts(tmp_path, 1, 1)
    with peer(answer) as broker, pytest.raises(OSError, match=why):
        Sender(tmp_path, broker.broker, "me").send()
    assert not (tmp_path / SENT).exists()


def test_alerts_wait_for_a_broker_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mqtt_sender, "WAIT_S", (0.01, 0.02))
    away = threading.Event()
    away.set()

    def answer(packet: Any) -> list[Any]:
        return [None] if away.is_set() else friendly(packet)

    with peer(answer) as broker:
        sender = Sender(tmp_path, broker.broker, "me")
        sender.start()
        expected = alerts(tmp_path, 0, 3)
        sender.wake()
        broker.wait(lambda: len(broker.connects) > 3)  # it tries again and again
        away.clear()
        broker.wait(lambda: ids(broker) == expected)
        expected += alerts(tmp_path, 1, 1)
        sender.wake()
        broker.wait(lambda: ids(broker) == expected)
        assert sender.stop() == 0
    assert capsys.readouterr().err.count("wait for the broker at 127.0.0.1:") == 1


def test_the_end_says_what_was_not_published(tmp_path: Path) -> None:
    alerts(tmp_path, 0, 3)
    with peer() as broker:
        gone = broker.broker
    sender = Sender(tmp_path, gone, "me")
    sender.start()
    assert sender.stop() == 1


def test_a_real_broker_that_is_killed_and_comes_back(tmp_path: Path) -> None:
    async def play() -> None:
        async with Cluster(1) as c:
            rx = await c.client("rx", clean_start=False)
            await rx.subscribe("a/b", qos=1)
            sender = Sender(tmp_path, broker_of(f"mqtt://127.0.0.1:{c.node(0).port}", "a/b"), "alerts")
            expected = alerts(tmp_path, 1, 30)
            await asyncio.to_thread(sender.send)
            await c.kill(0)
            expected += alerts(tmp_path, 2, 3)
            with pytest.raises(OSError, match="refused"):
                await asyncio.to_thread(sender.send)
            await c.start(0)
            await asyncio.to_thread(sender.send)
            await rx.reconnect(node=0)
            got: dict[str, None] = {}
            while len(got) < len(expected):
                got[json.loads((await rx.message()).payload)["id"]] = None  # a kill may repeat some
            assert [*got] == expected

    run(play())


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mqtt://h", Broker("h", 1883, False, None, None, "t")),
        ("mqtts://u@h", Broker("h", 8883, True, "u", None, "t")),
        ("mqtt://[::1]:99", Broker("::1", 99, False, None, None, "t")),
    ],
)
def test_urls(url: str, expected: Broker) -> None:
    assert broker_of(url, "t") == expected


@pytest.mark.parametrize(
    ("url", "topic"), [("http://h", "t"), ("h:1883", "t"), ("mqtt://", "t"), ("mqtt://h:x", "t"), ("mqtt://h", "a/#")]
)
def test_wrong_urls_and_topics(url: str, topic: str) -> None:
    with pytest.raises(Trouble, match=r"--mqtt|--topic"):
        broker_of(url, topic)
