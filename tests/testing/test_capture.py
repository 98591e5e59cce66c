"""The capture: all published messages, without guessed waiting times."""

from __future__ import annotations

from collections.abc import Callable

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from strogoff.testing.capture import Capture
from strogoff.testing.client_errors import ConnectionLost
from strogoff.testing.sync import SyncCluster


def test_a_capture_has_every_message() -> None:
    """Messages, pairs, and a new begin."""
    with SyncCluster() as c:
        capture = Capture(c)
        assert capture.messages == []
        assert capture.publish("a", "1", qos=1) == 0
        with c.client("tx") as tx:
            tx.publish("b", b"2")
            assert capture.records == [("a", b"1"), ("b", b"2")]
        assert [message.topic for message in capture.wait(2)] == ["a", "b"]
        with pytest.raises(TimeoutError, match=r"2 of 3 messages within 0\.02 s"):
            capture.wait(3, timeout=0.02)
        capture.clear()
        assert capture.messages == [] and capture.wait(0) == []
        assert Capture(c, "only/#", "second").records == []


def test_two_captures_of_one_broker_do_not_share_a_session() -> None:
    """By default each capture of a broker has another client id. The captures of another broker are counted apart."""
    with SyncCluster() as c, SyncCluster() as other:
        everything, some = Capture(c), Capture(c, "only/#")
        everything.publish("a", "1", qos=1)
        some.publish("only/b", "2", qos=1)
        assert some.records == [("only/b", b"2")]
        assert everything.records == [("a", b"1"), ("only/b", b"2")]
        assert [capture._client.name for capture in (everything, some)] == ["mqtt-capture", "mqtt-capture-2"]
        assert Capture(other)._client.name == "mqtt-capture"


def test_a_capture_has_messages_of_paho() -> None:
    """A client in a thread of its own, outside of the cluster: `wait` waits for it."""
    with SyncCluster() as c:
        capture = Capture(c)
        client = paho.Client(CallbackAPIVersion.VERSION2, "paho")
        client.connect(c.host, c.port)
        client.loop_start()
        client.publish("p", b"x", qos=0)
        assert [message.payload for message in capture.wait(1)] == [b"x"]
        client.publish("p", b"y", qos=1).wait_for_publish(5)
        assert capture.records == [("p", b"x"), ("p", b"y")]
        client.disconnect()
        client.loop_stop()


@pytest.mark.parametrize("end", [SyncCluster.kill, SyncCluster.stop])
def test_a_capture_continues_when_its_broker_starts_again(end: Callable[[SyncCluster], None]) -> None:
    """Its session waits meanwhile. While the broker is down, it has what came before."""
    with SyncCluster() as c:
        capture = Capture(c)
        tx = c.client("tx")
        tx.publish("t", "1", qos=1)
        assert capture.records == [("t", b"1")]
        end(c)
        tx.closed()
        assert capture.records == [("t", b"1")]
        with pytest.raises(ConnectionLost, match="mqtt-capture got no message, 1 before"):
            capture.wait(2)
        c.start()
        tx.reconnect()
        tx.publish("t", "2", qos=1)
        assert capture.records == [("t", b"1"), ("t", b"2")]
        end(c)
        c.start()
        assert capture.publish("t", "3", qos=1) == 0
        assert [message.text for message in capture.wait(3)] == ["1", "2", "3"]
        end(c)
        c.start()
        capture.clear()
        tx.reconnect()
        tx.publish("t", "4")
        assert capture.records == [("t", b"4")]


def test_a_capture_whose_session_has_ended_subscribes_again() -> None:
    with SyncCluster() as c:
        capture = Capture(c)
        c.client("mqtt-capture").disconnect()
        assert capture.messages == []
        c.client("tx").publish("t", "1", qos=1)
        assert capture.records == [("t", b"1")]
