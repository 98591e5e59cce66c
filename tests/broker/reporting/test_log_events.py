"""Each domain event for operators is a line with client, operation and reason."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.analytics.schema import TYPES, validate
from strogoff.broker.reporting.log_events import LINES, line_of

from ...harness.broker import BrokerHarness, PacketClient

HEADER: dict[str, Any] = {"v": 2, "run_id": "r", "node": "n1", "boot": 1, "seq": 1, "hlc": 0, "mono_ns": 0}


def row(type_: str, **fields: Any) -> dict[str, Any]:
    return {**HEADER, "type": type_, **fields}


def test_every_line_is_of_an_event_of_the_schema() -> None:
    assert set(LINES) <= set(TYPES)


def test_fields_have_the_names_of_the_log_and_the_header_is_left_out() -> None:
    line = line_of(row("conn.refuse", client="c", username="u", peer="1.2.3.4:5", version=5, code=0x86, reason="no"))
    assert line.fields == {
        "client_id": "c",
        "user": "u",
        "peer": "1.2.3.4:5",
        "version": 5,
        "code": 134,
        "reason": "no",
    }


@pytest.mark.parametrize(
    ("event", "level", "words"),
    [
        (row("policy.deny", operation="publish", client="c", topic="t"), "warning", "publish refused: not authorised"),
        (row("policy.deny", operation="subscribe", client="c", topic="", reason="netsplit"), "warning", "not whole"),
        (row("policy.deny", operation="publish", client="c", topic="", reason="store_full"), "warning", "store_full"),
        (row("store.state", state="full", detail="no space"), "error", "message store: full: no space"),
        (row("store.state", state="serving"), "warning", "message store: serving again"),
        (row("conn.close", client="c", reason="disconnect"), "debug", ""),
        (row("conn.close", client="c", reason="peer_closed"), "debug", ""),
        (row("conn.close", client="c", reason="gateway_stopped"), "debug", ""),
        (row("conn.refuse", client="c", username="bob", reason="invalid_credentials"), "warning", "CONNECT refused c"),
        (
            row("conn.refuse", client="c", username="bob", reason="plugin_chain_exhausted"),
            "warning",
            "CONNECT refused: no plugin knows this user client_id=c user=bob",
        ),
        (
            row("conn.refuse", client="c", reason="plugin_chain_exhausted"),
            "warning",
            "CONNECT refused: no user name, no plugin that lets it in without one, and allow_anonymous = off",
        ),
        (row("conn.close", client="c", reason="gateway_lost"), "info", ""),
        (row("conn.close", client="c", reason="administrative_action"), "info", "ended: an operator has closed it"),
        (row("conn.close", client="c", reason="protocol_error", detail="bad flags"), "info", 'detail="bad flags"'),
        (row("mem.view", view=3, nodes=["n1", "n2"], missing=["n3"]), "warning", "missing=n3"),
        (row("mem.view", view=3, nodes=["n1", "n2"], missing=[]), "notice", "all members serve"),
        (row("lease.lose", view=3, detail="its disk does not answer"), "warning", "lost its lease"),
        (row("fwd.drop", target="n2", reason="absent"), "warning", "a QoS 0 message for another node is dropped"),
        (row("fwd.drop", target="n1", reason="unreadable", source="n2"), "warning", "cannot read an item of another"),
        (row("q.drop", client="c", topic="t", reason="queue_full"), "warning", "a message for a session is dropped"),
        (row("q.drop", client="c", topic="t", reason="unhandled"), "debug", "cannot have it now"),
        (row("lease.get", view=3), "notice", "has a lease"),
        (row("log.sample", state="begin"), "warning", "leaves out whole messages: its writer does not keep up"),
        (row("log.sample", state="end", count=7), "notice", "has all messages again"),
        (row("split.detect", nodes=["n3"], state="majority"), "warning", "vmq-admin cluster leave node=n3"),
        (row("split.detect", nodes=["n3"], state="minority"), "warning", "Check the network"),
        (row("split.change", nodes=[], state="whole"), "notice", "no member is missing any more"),
        (row("split.heal", nodes=["n3"]), "notice", "no member is missing any more, and all is merged"),
        (row("mem.view", view=3, nodes=["n2"], missing=["n1"]), "warning", "this node is not in it"),
        (row("mem.view", view=3, nodes=["n1"], missing=[], joining=["n2"]), "notice", "members are joining"),
        (row("split.change", nodes=["n2"], state="minority"), "warning", "no lease now"),
        (row("split.change", nodes=["n2"], state="majority"), "warning", "these members are missing"),
        (
            row("slot.primary", count=9, slots=["0-8"], view=4, primaries={"n2": 9}, without=0),
            "notice",
            "primaries=n2:9",
        ),
        (row("slot.primary", count=9, slots=["0-8"], view=4, primaries={}, without=9), "warning", "Start these nodes"),
        (row("slot.lost", target="n3", count=9, slots=["0-8"]), "warning", "peer_node=n3 count=9"),
        (row("slot.few", count=9, slots=["0-8"]), "warning", "new operations for their sessions are refused"),
        (row("slot.few", count=0, slots=[]), "notice", "nothing is refused for that"),
        (
            row("slot.loss_possible", target="n3", count=9, slots=["0-8"], nodes=["n1"], reason="recovered"),
            "warning",
            "an operator has recovered them. These nodes had them",
        ),
        (
            row("slot.loss_possible", target="n3", count=9, slots=["0-8"], nodes=["n1"], reason="power_loss"),
            "warning",
            "all nodes with copies have lost power",
        ),
        (row("split.heal", nodes=["n3"], counts={"publish_refused": 3}), "notice", "counts=publish_refused:3"),
    ],
)
def test_level_and_sentence(event: dict[str, Any], level: str, words: str) -> None:
    known = LINES[event["type"]]
    assert known.level(event) == level
    assert words in line_of(event)


class Nobody:
    """A plugin that accepts clients with the user name `please`, and refuses every publish."""

    def auth_on_register(self, peer: Any, subscriber: Any, username: str | None, *_: Any) -> bool:
        return username == "please"

    def auth_on_publish(self, *_: Any) -> bool:
        return False

    def auth_on_subscribe(self, *_: Any) -> bool:
        return False


def test_client_problems_are_logged_with_client_user_and_address() -> None:
    """A refused CONNECT, an ACL refusal, a takeover, and a packet that breaks the rules."""
    broker = BrokerHarness(Nobody(), allow_anonymous=False)
    broker.connect("stranger", 4, username="mallory", password=b"guess")
    first, _ = broker.connect("c", 4, username="please")
    first.subscribe(("secret/#", 1))
    broker.connect("c", 4, username="please")
    broker.connect("d", 4, username="please")[0].publish("t", qos=1)
    told = [line_of(event) for event in broker.events("conn.refuse", "policy.deny", "sess.takeover.start")]
    assert [(line.event, line.fields["client_id"], line.fields["user"]) for line in told] == [
        ("conn.refuse", "stranger", "mallory"),
        ("policy.deny", "c", "please"),
        ("sess.takeover.start", "c", "please"),
        ("policy.deny", "d", "please"),
    ]
    assert all(line.fields["peer"] for line in told)
    assert told[0].fields["code"] == 5 and told[1].fields["topic"] == "secret/#" and told[2].fields["old"]


@pytest.mark.parametrize("data", [b"\x10\x05hello", b"\x15\x00", b"GET / HTTP/1.1\r\n\r\n"])
def test_bytes_that_are_not_mqtt_are_logged_with_the_address(data: bytes) -> None:
    broker = BrokerHarness()
    PacketClient(broker, 4).send(data)
    broker.settle()
    (event,) = broker.events("conn.refuse")
    assert event["peer"] and event["client"] == "" and event["code"] == 0 and event["reason"]
    assert validate(event) == []
