"""Retained messages of another broker, published at this one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.migration import copy_retained
from deploy.migration.copy_retained import main
from strogoff.testing import Cluster, SyncCluster
from strogoff.testing.fixtures import ClientFactory

QUIET = ["--quiet", "1"]
PROPERTIES: dict[str, Any] = {
    "payload_format_indicator": 1,
    "content_type": "text/plain",
    "response_topic": "answers/1",
    "correlation_data": b"\x00\xff",
    "user_property": [("b", "1"), ("a", "2"), ("b", "0")],
}
RETAINED = {
    "r/with space": (b" x\n y ", 0, {}),
    "r/bytes": (bytes(range(256)), 2, {}),
    "r/properties": ("gr\u00fc\u00df".encode(), 1, PROPERTIES),
    "r/enormous": (bytes(300), 0, {}),
    "r/expiry": (b"soon", 1, {"message_expiry_interval": 10_000}),
    "'$HOME' \"r\"": (b"%q %t %p", 1, {}),
}
"""Topic -> payload, QoS and properties."""


@pytest.fixture
def old() -> Iterator[SyncCluster]:
    """The broker with the messages."""
    with Cluster.sync() as broker:
        writer = broker.client("writer")
        for topic, (payload, qos, properties) in RETAINED.items():
            writer.publish(topic, payload, qos, retain=True, **properties)
        yield broker


def words(old: SyncCluster, new: SyncCluster) -> list[str]:
    """The command line of a copy."""
    return [old.host, "--old-port", str(old.port), "--host", new.host, "--port", str(new.port), *QUIET]


def test_each_message_is_copied_as_it_is(
    old: SyncCluster, mqtt_broker: SyncCluster, mqtt_client: ClientFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    mqtt_client("other").publish("of/the/new", b"mine", qos=1, retain=True)
    assert main(words(old, mqtt_broker)) == 0
    assert capsys.readouterr().out == "6 retained messages, 0 problems\n"
    reader = mqtt_client("reader")
    reader.subscribe("#", qos=2)
    came = {each.topic: each for each in (reader.message() for _ in range(len(RETAINED) + 1))}
    assert came.pop("of/the/new").payload == b"mine"
    assert {topic: (each.payload, each.qos) for topic, each in came.items()} == {
        topic: (payload, qos) for topic, (payload, qos, _) in RETAINED.items()
    }
    assert all(each.retain for each in came.values())
    assert 9_900 < came.pop("r/expiry").properties["message_expiry_interval"] <= 10_000
    assert {topic: each.properties for topic, each in came.items()} == {
        topic: properties for topic, (_, _, properties) in RETAINED.items() if topic != "r/expiry"
    }


def test_each_topic_that_was_not_copied_is_named(
    old: SyncCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new broker refuses a message with QoS 0 without a word, and ends the connection for one that is too large."""
    monkeypatch.setattr(copy_retained, "AT_ONCE", 1)  # the good message comes behind the two that end the connection
    (tmp_path / "vmq.acl").write_text("topic read #\ntopic write r/bytes\ntopic write r/expiry\n")
    conf = {"plugins.vmq_acl": "on", "vmq_acl.acl_file": str(tmp_path / "vmq.acl"), "max_message_size": "200"}
    with Cluster.sync(conf=conf) as new:
        assert main(words(old, new)) == 1
    said = capsys.readouterr()
    assert said.out == "6 retained messages, 5 problems\n"
    lines = dict(line.split(": ", 1) for line in said.err.splitlines())
    assert set(lines) == RETAINED.keys() - {"r/expiry"}
    assert "was refused: not authorized" in lines["r/properties"]
    assert lines["r/with space"] == "the new cluster does not have this message"
    assert "packet too large" in lines["r/bytes"]


def test_a_cluster_that_does_not_answer_is_an_error(
    mqtt_broker: SyncCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["127.0.0.1", "--old-port", "1", "--port", str(mqtt_broker.port), *QUIET]) == 1
    assert capsys.readouterr().err.startswith("127.0.0.1:1: ")


def test_a_copy_that_cannot_be_read_back_is_named(
    old: SyncCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "vmq.acl").write_text("topic write #\n")
    with Cluster.sync(conf={"plugins.vmq_acl": "on", "vmq_acl.acl_file": str(tmp_path / "vmq.acl")}) as new:
        assert main(words(old, new)) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(RETAINED)
    assert all("is unknown" in line and "SUBSCRIBE to # was refused: not authorized" in line for line in lines)
