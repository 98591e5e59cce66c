"""Each event type has a sentence, and no field of a row is hidden."""

from __future__ import annotations

from typing import Any

import pytest

from strogoff.analytics.follow.event_words import NAMED, OPTION, SENTENCES, printable, value_of, words
from strogoff.analytics.schema import BOOL, COUNTS, FIELDS, INT, MID, STRING, STRINGS, TYPES, EventType


def full(kind: EventType, names: tuple[str, ...]) -> dict[str, Any]:
    """Returns a row with these fields; each value tells which field it is of."""
    values: dict[str, Any] = {}
    for number, name in enumerate(names):
        values[name] = {
            STRING: f"<{name}>",
            INT: 700_000 + number,
            BOOL: True,
            MID: ("n1", 1, 2),
            STRINGS: [f"<{name}>", "second"],
            COUNTS: {f"<{name}>": 3},
        }[FIELDS[name].kind]
    return {"type": kind.name, "node": "n1", **values}


def test_each_type_has_a_sentence() -> None:
    """A new type of the schema needs one, and a sentence without its type is left over."""
    assert set(SENTENCES) == set(TYPES)


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
def test_a_sentence_names_fields_of_its_type(kind: EventType) -> None:
    named = {*NAMED.findall(SENTENCES[kind.name]), *(part[2] for part in OPTION.finditer(SENTENCES[kind.name]))}
    assert named <= {*kind.required, *kind.optional}


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
def test_no_value_of_a_row_is_hidden(kind: EventType) -> None:
    row = full(kind, (*kind.required, *kind.optional))
    text = words(row)
    for name in (*kind.required, *kind.optional):
        if FIELDS[name].kind not in (BOOL, MID) and f"[!{name}:" not in SENTENCES[kind.name]:
            shown = (
                name in ("will_delay_s",) or value_of(name, row[name]) in text or f"[{name}:" in SENTENCES[kind.name]
            )
            assert shown, (name, text)
    assert not {"{", "}", "[!"} & {*text.split()}


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
def test_a_row_may_lack_what_is_optional(kind: EventType) -> None:
    text = words(full(kind, kind.required))
    assert "?" not in text
    assert "{" not in text


def test_optional_parts_follow_their_fields() -> None:
    row = {"type": "pub.recv", "client": "c", "topic": "t", "qos": 1, "packet_id": 7}
    assert words(row) == "c published to t with QoS 1, packet id 7"
    assert words(row | {"retain": True}) == "c published to t with QoS 1, packet id 7, to be retained"
    assert words(row | {"retain": False}).endswith("packet id 7 (retain no)") is False
    assert words({"type": "pub.route", "targets": []}) == "goes to sessions here: none"
    assert words({"type": "pub.route", "targets": ["a", "b"], "nodes": ["n2"]}) == (
        "goes to sessions here: a, b; to nodes: n2"
    )


def test_fields_that_the_sentence_lacks_follow_it() -> None:
    row = {"type": "node.start", "retained": 4, "level": "message"}
    assert words(row) == "the node started (level message, retained 4)"


def test_codes_are_those_of_the_standard() -> None:
    assert value_of("code", 0x83) == "0x83"
    assert value_of("code", 0) == "0"


def test_a_name_cannot_act_on_the_terminal() -> None:
    assert printable("a\x1b[2J\nb") == "a?[2J?b"
    assert "\n" not in words({"type": "sess.create", "client": "a\nb", "epoch": 1})
    assert words({"type": "sess.create", "client": "", "epoch": 1}) == 'session 1 of "" began'
