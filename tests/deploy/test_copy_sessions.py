"""Sessions of another broker, made at this one before their clients move."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.migration.copy_sessions import main, read
from strogoff.mqtt.packets import SubscribeOptions
from strogoff.testing import Cluster, SyncCluster
from strogoff.testing.fixtures import ClientFactory

ROWS = [
    {"client_id": "c1", "topic": "a/#", "qos": 1, "rap": True, "no_local": False, "clean_session": False},
    {"client_id": "c1", "topic": "b/+/c", "qos": 2, "rap": "false", "no_local": "true", "clean_session": False},
    {"client_id": "client two", "topic": "$share/g/x", "qos": 1, "clean_session": False},
    {"client_id": "silent", "topic": None, "qos": None, "clean_session": False},
]


def test_both_forms_of_the_output_are_read() -> None:
    wanted = {
        "c1": {
            "a/#": SubscribeOptions("a/#", 1, False, True, 2),
            "b/+/c": SubscribeOptions("b/+/c", 2, True, False, 2),
        },
        "client two": {"$share/g/x": SubscribeOptions("$share/g/x", 1, False, False, 2)},
        "silent": {},
    }
    assert read(json.dumps([{"type": "table", "table": ROWS}])) == wanted
    assert read(json.dumps({"type": "table", "table": ROWS})) == wanted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("+---+", "not the output of session show --format=json"),
        ("[]", "there are no sessions in it"),
        ('{"table": [{"topic": "a"}]}', "has no client_id"),
        ('{"table": [{"client_id": "c", "topic": "a", "qos": "x"}]}', "a wrong qos"),
    ],
)
def test_other_files_are_refused_with_the_reason(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sessions.json").write_text(text)
    assert main([str(tmp_path / "sessions.json")]) == 1
    assert why in capsys.readouterr().err


def test_the_clients_find_their_sessions_and_what_came_meanwhile(
    mqtt_broker: SyncCluster, mqtt_client: ClientFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A retained message comes once, and a message that came before the client is not lost."""
    writer = mqtt_client("writer")
    writer.publish("a/1", "retained", qos=1, retain=True)
    (tmp_path / "sessions.json").write_text(json.dumps([{"type": "table", "table": ROWS}]))
    host, port = mqtt_broker.host, str(mqtt_broker.port)
    assert main([str(tmp_path / "sessions.json"), "--host", host, "--port", port]) == 0
    assert capsys.readouterr().out == "3 sessions with 3 subscriptions, 0 problems\n"
    writer.publish("a/2", "while away", qos=1, retain=True)
    writer.publish("b/x/c", "twice?", qos=2)
    client = mqtt_client("c1", clean_start=False)
    assert client.session_present
    client.publish("b/own/c", "no local", qos=1)
    writer.publish("a/3", "last", qos=1)
    came = [client.message() for _ in range(3)]
    assert [(each.text, each.retain) for each in came] == [("while away", True), ("twice?", False), ("last", False)]
    assert mqtt_client("client two", clean_start=False).session_present
    assert mqtt_client("silent", clean_start=False).session_present


def test_each_session_that_could_not_be_made_is_named(
    mqtt_broker: SyncCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [*ROWS, {"client_id": "wrong", "topic": "a/#/b", "qos": 1}]
    (tmp_path / "sessions.json").write_text(json.dumps({"table": rows}))
    port = str(mqtt_broker.port)
    assert main([str(tmp_path / "sessions.json"), "--host", mqtt_broker.host, "--port", port]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("wrong: ") and said.out.endswith("1 problems\n")
    assert main([str(tmp_path / "sessions.json"), "--host", mqtt_broker.host, "--port", "1"]) == 1
    assert capsys.readouterr().out.endswith("4 problems\n")


def test_the_acl_lets_the_user_of_the_copy_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the lines that docs/migrating-from-vernemq.md adds to a file that grants nothing to anonymous clients."""
    page = (Path(__file__).parents[2] / "docs" / "migrating-from-vernemq.md").read_text()
    lines = "user moving\ntopic #\n"
    assert lines in page.replace("    ", "") and "--port 1899 --username moving" in page
    (tmp_path / "vmq.acl").write_text(f"user bob\ntopic bob/#\n{lines}")
    (tmp_path / "sessions.json").write_text(json.dumps({"table": ROWS}))
    with Cluster.sync(conf={"plugins.vmq_acl": "on", "vmq_acl.acl_file": str(tmp_path / "vmq.acl")}) as broker:
        words = [str(tmp_path / "sessions.json"), "--host", broker.host, "--port", str(broker.port)]
        assert main(words) == 1
        assert "not authorized" in capsys.readouterr().err
        assert main([*words, "--username", "moving"]) == 0
