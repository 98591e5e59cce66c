"""The cluster without asyncio: the same methods, blocking; nothing is left in the process."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from strogoff.mqtt.packets import Pingreq
from strogoff.testing import FaultError, MqttClosed, MqttRefused
from strogoff.testing.client import Client
from strogoff.testing.cluster import Cluster
from strogoff.testing.runtime.loop_thread import LoopThread
from strogoff.testing.sync import SyncClient, SyncCluster


def test_a_whole_test_without_asyncio(tmp_path: Path) -> None:
    """Clients, faults, rest, audit."""
    with Cluster.sync(seed=5) as c:
        assert (len(c), c.seed, c.host) == (1, 5, "127.0.0.1") and c.url == f"mqtt://{c.host}:{c.port}"
        rx = c.client("rx", clean_start=False)
        assert rx.subscribe("t/#", qos=2) == [2]
        with c.client("tx") as tx:
            drop = c.drop("PUBACK", nth=2, then="cut")
            assert tx.publish("t/1", "a", qos=1) == 0
            with pytest.raises(ConnectionError):
                tx.publish("t/1", "b", qos=1)
            drop.happened()
            assert drop.dropped and tx.closed() is None and not tx.connected
        c.settled()  # the store has committed the answer of the receiver
        c.kill()
        rx.closed()
        c.start()
        assert rx.reconnect().session_present and rx.session_present
        c.settled()
        assert [message.text for message in rx.messages(timeout=0.02)] == ["a", "b"]
        assert len(rx.received) == 2 and rx.take() == []
        c.pause()
        c.resume()
        c.restart()
        c.stop()
        c.start(0)
        rx.reconnect()
        assert rx.unsubscribe("t/#") == [0]
        rx.abort()
        rx.closed()
        assert c.audit().verdict == "valid"
        assert c.faults[1:] == [f"{what} node 0" for what in ("kill", "start", "pause", "resume", "stop", "start")] + [
            "stop node 0",
            "start node 0",
        ]
    assert c.audit().verdict == "valid" and c.rows
    assert c.write_log(tmp_path) == tmp_path and list(tmp_path.rglob("*.jsonl"))


@pytest.mark.parametrize(("asynchronous", "blocking"), [(Cluster, SyncCluster), (Client, SyncClient)])
def test_blocking_methods_have_the_same_parameters(asynchronous: type, blocking: type) -> None:
    compared = 0
    for name, method in inspect.getmembers(blocking, inspect.isfunction):
        if hasattr(asynchronous, name) and not name.startswith("_") and name != "client":
            same = inspect.signature(getattr(asynchronous, name)).parameters
            assert list(inspect.signature(method).parameters) == list(same), name
            compared += 1
    assert compared >= 10


def test_raw_bytes_and_packets_are_sent() -> None:
    with Cluster.sync() as c:
        client = c.client("c")
        client.send(Pingreq())
        client.send(b"\x00\x00")
        closed = client.closed()
        assert closed is not None and closed.reason == 0x81
        with pytest.raises(MqttClosed):
            client.send(b"")


def test_errors_are_the_same() -> None:
    """They are those of the asynchronous cluster."""
    with SyncCluster(conf={"allow_anonymous": False}) as c:
        with pytest.raises(MqttRefused):
            c.client("nobody")
        with pytest.raises(FaultError):
            c.partition({0})
        with pytest.raises(FaultError):
            c.one_way(0, 1)
        with pytest.raises(FaultError):
            c.heal()
    with pytest.raises(RuntimeError, match="the cluster is not open"):
        c.settled()
    with pytest.raises(ValueError, match="1 to 7"), SyncCluster(8):
        pass


def test_nothing_is_left() -> None:
    """This holds after a failed start as well; a second close is no error."""
    with SyncCluster() as c:
        c.client("left open")
        with pytest.raises(RuntimeError, match="the cluster is open"), c:
            pass
    c.close()
    with pytest.raises(ValueError, match="1 to 7"):
        SyncCluster(9)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("strogoff cluster")]


def test_messages_are_acknowledged_by_hand() -> None:
    """For tests of repeated messages."""
    with SyncCluster() as c:
        rx = c.client("rx", auto_ack=False)
        rx.subscribe("t", qos=1)
        rx.publish("t", "x", qos=1)
        rx.ack(rx.message())
        c.settled()
        rx.disconnect()
        assert c[0].up and c.node(0) is c[0]


def test_a_long_wait_is_not_cut_short() -> None:
    """The thread waits as long as the client does, and longer."""
    limits = []

    class RecordingThread(LoopThread):
        """Runs nothing."""

        def __init__(self) -> None:
            pass

        def call(self, work: Coroutine[Any, Any, Any], limit_s: float = 0.0) -> Any:
            limits.append(limit_s)
            work.close()

    client = SyncClient(RecordingThread(), Client("patient"))
    client.publish("t", "x", qos=1, timeout=100)
    client.subscribe("t", timeout=100)
    client.unsubscribe("t", timeout=100)
    client.reconnect(timeout=100)
    client.message(timeout=100)
    client.closed(timeout=100)
    assert limits == [100] * 6
