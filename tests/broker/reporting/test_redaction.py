"""Names become keyed hashes, and a log says the same as before."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from bench.steady import SteadyClient
from strogoff.analytics.schema import HEADER, validate
from strogoff.broker.process.eventlog_key import read_key
from strogoff.broker.process.server import Server
from strogoff.broker.reporting.redaction import Redactor
from strogoff.cluster.identity import slot_of
from strogoff.judge.findings import Finding, Subject
from strogoff.judge.planted.generate import CASES, PlantedLog
from strogoff.judge.run import judge
from strogoff.mqtt.topics import matches, parse_shared, valid_filter, valid_topic_name
from strogoff.testing.log_audit.log_files import read_log

from ..process.test_server import during, lines, make, port

REDACTOR = Redactor(b"a key of a test, long enough")
ENVELOPE = {each.name for each in HEADER}


def redacted(row: dict[str, Any], redactor: Redactor = REDACTOR) -> dict[str, Any]:
    """The row as a node with this key writes it."""
    fields = {name: value for name, value in row.items() if name not in ENVELOPE}
    return {name: row[name] for name in ENVELOPE} | redactor.fields(row["type"], fields)


def names_in(row: dict[str, Any]) -> set[str]:
    """What a row must not show: ids, users, addresses, and the levels of topics and filters."""
    found = {row.get("username"), row.get("peer"), *row.get("targets", ())}
    found |= {each for each in (row.get("client"),) if each and not each.startswith("$share/")}
    for text in (row.get("topic"), row.get("filter"), row.get("group"), *row.get("filters", ())):
        found |= set((text or "").split("/")) - {"+", "#", "$share", "$SYS"}
    return {each for each in found if each}


def test_a_log_leads_to_the_same_findings() -> None:
    """All planted cases: the same findings, with the same rows, about the same clients and topics."""
    rows = list(PlantedLog(11, 2500, CASES).rows())
    hidden = [redacted(dict(row)) for row in rows]
    assert [text for row in hidden for text in validate(row)] == []
    names = {name for row in rows for name in names_in(dict(row))}
    assert len(names) > 100 and not names & {name for row in hidden for name in names_in(row)}

    def told(found: Finding, subject: Subject) -> tuple[Any, ...]:
        about = (found.anomaly, found.kind, found.severity, found.at, found.rows, found.sure, found.value)
        return (replace(found, subject=subject).id, *about)

    plain, other = judge(rows, complete=False), judge(hidden, complete=False)
    assert len(plain.findings) > 60
    expected = {
        told(each, replace(each.subject, client=REDACTOR.client(each.subject.client), topic=_topic(each.subject.topic)))
        for each in plain.findings
    }
    assert {told(each, each.subject) for each in other.findings} == expected
    counts = ("published", "acked", "delivered", "waiting", "open", "verdict")
    assert [getattr(other, name) for name in counts] == [getattr(plain, name) for name in counts]


def _topic(text: str) -> str:
    return REDACTOR.topic(text) if text else ""


def test_wildcards_match_hashes_as_they_match_names() -> None:
    """Also groups, empty levels, and topics that begin with a dollar."""
    levels = ("a", "", "$SYS", "$x", "b")
    topics = ["/".join(each) for size in (1, 2, 3) for each in product(levels, repeat=size)]
    filters = ["/".join(each) for size in (1, 2, 3) for each in product((*levels, "+", "#"), repeat=size)]
    topics, filters = list(filter(valid_topic_name, topics)), list(filter(valid_filter, filters))
    hidden = {text: REDACTOR.topic(text) for text in (*topics, *filters)}
    assert all(map(valid_filter, hidden.values()))
    for pattern, topic in product(filters[:120], topics):
        assert matches(hidden[pattern], hidden[topic]) is matches(pattern, topic), (pattern, topic)
    group, rest = parse_shared(REDACTOR.topic("$share/g/a/+"))
    assert group not in (None, "g") and rest == REDACTOR.topic("a/+")
    assert REDACTOR.client("$share/g/a/+") == REDACTOR.topic("$share/g/a/+")


def test_hashes_depend_on_the_key_and_on_the_kind_of_value() -> None:
    same, other = Redactor(b"a key of a test, long enough"), Redactor(b"another key of a test")
    assert same.client("c") == REDACTOR.client("c") != other.client("c")
    assert same.fingerprint == REDACTOR.fingerprint != other.fingerprint
    row = REDACTOR.fields("conn.open", {"client": "x", "username": "x", "peer": "x:7"})
    assert len({row["client"], row["username"], row["peer"].removesuffix(":7"), REDACTOR.topic("x")}) == 4
    assert row["peer"].endswith(":7")


def test_what_says_nothing_of_clients_stays() -> None:
    row = {"client": "", "username": None, "mountpoint": "m", "reason": "r", "target": "n1@10.0.0.1", "conn": 3}
    assert REDACTOR.fields("conn.close", row) == row
    lease = {"view": 3, "detail": "its disk does not answer"}
    assert REDACTOR.fields("lease.lose", lease) == lease


def test_texts_and_settings_that_may_name_clients_are_replaced() -> None:
    assert REDACTOR.fields("conn.close", {"client": "c", "detail": "c was rude"}) == {"client": REDACTOR.client("c")}
    taken = REDACTOR.fields("sess.takeover.start", {"client": "c", "peer": "1.2.3.4:5", "old": "1.2.3.4:6"})
    assert taken["old"].removesuffix(":6") == taken["peer"].removesuffix(":5") != "1.2.3.4"
    assert REDACTOR.fields("node.join", {"old": "r1"}) == {"old": "r1"}
    clients = ",".join(map(REDACTOR.client, ("c", "d")))
    started = REDACTOR.fields("node.start", {"settings": ["eventlog.clients=c, d", "queue_type=fifo"]})
    assert started == {"settings": [f"eventlog.clients={clients}", "queue_type=fifo"]}
    joined = REDACTOR.fields("node.join", {"settings": ["eventlog.redact=on"]})
    assert joined == {"settings": [f"eventlog.redact={REDACTOR.fingerprint}"]}
    changed = REDACTOR.fields("config.change", {"key": "eventlog.topics", "old": "", "new": "a/+"})
    assert changed == {"key": "eventlog.topics", "old": "", "new": REDACTOR.topic("a/+")}
    other = {"key": "queue_type", "old": "fifo", "new": "lifo"}
    assert REDACTOR.fields("config.change", other) == other


def test_rows_of_sessions_have_the_slot_of_the_client() -> None:
    """A hash does not tell it, and sessions move with their slots."""
    for kind in ("sess.create", "sess.resume", "sub.add", "will.arm"):
        assert REDACTOR.fields(kind, {"client": "c1", "mountpoint": "m"})["slot"] == slot_of("m", "c1")
    assert "slot" not in REDACTOR.fields("sess.end", {"client": "c1"})


def test_files_have_hashes_in_place_of_names(tmp_path: Path) -> None:
    """The same at each start, and readable for who has the key. The log for operators keeps the names."""
    settings = {"eventlog__level": "message", "eventlog__redact": "on", "eventlog__clients": "eventful"}

    async def test() -> None:
        async def work(server: Server) -> None:
            client = SteadyClient("eventful", port(server), username="somebody")
            await client.connect()
            await client.subscribe("private/topic", 1)
            await client.disconnect()
            server.node.env.event("conn.refuse", client="eventful", peer="p:1", version=4, code=1, reason="x")

        for _ in range(2):
            server = make(tmp_path, **settings)
            await during(server, work)
            assert any("eventful" in line for line in lines(server))

    asyncio.run(test())
    redactor = Redactor(read_key(tmp_path / "eventlog.key"))
    rows, _ = read_log(tmp_path / "eventlog")
    text = json.dumps(rows)
    assert not any(name in text for name in ("eventful", "somebody", "private", "127.0.0.1:"))
    opened = [row["client"] for row in rows if row["type"] == "conn.open"]
    assert opened == [redactor.client("eventful")] * 2
    for row in rows:
        if row["type"] == "node.start":
            assert {f"eventlog.redact={redactor.fingerprint}", f"eventlog.clients={opened[0]}"} <= {*row["settings"]}
    assert {row["filter"] for row in rows if row["type"] == "sub.add"} == {redactor.topic("private/topic")}
