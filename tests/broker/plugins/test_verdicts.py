"""The short forms of an answer, and the CONNACK codes of refusals."""

from __future__ import annotations

import pytest

from strogoff.broker.plugins.hook_table import HOOKS
from strogoff.broker.plugins.verdicts import NEXT, Allow, Refuse, answer_of, connack_code

PUBLISH = HOOKS["auth_on_publish"]
SUBSCRIBE = HOOKS["auth_on_subscribe"]


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        (True, Allow()),
        ("ok", Allow()),
        (Allow({"qos": 1}, True), Allow({"qos": 1}, True)),
        ({"topic": "b", "throttle": 10}, Allow({"topic": "b", "throttle": 10})),
        (b"other", Allow({"payload": b"other"})),
        (False, Refuse("not_authorized")),
        (Refuse("no", 0x87), Refuse("no", 0x87)),
        (None, NEXT),
        ("next", NEXT),
        (NEXT, NEXT),
    ],
)
def test_short_forms(value: object, meaning: object) -> None:
    assert answer_of(PUBLISH, ("ann", None, 0, "a", b"", False), value) == meaning


def test_a_list_is_the_topics_of_a_subscribe_and_nothing_elsewhere() -> None:
    asked = ("ann", None, [("a", 1), ("b", 1)])
    assert answer_of(SUBSCRIBE, asked, [("a", 0), ("b", "not_allowed")]) == Allow({"topics": [("a", 0), ("b", 0x80)]})
    with pytest.raises(TypeError, match=r"auth_on_publish returned .* must return Allow"):
        answer_of(PUBLISH, (), [("a", 0)])


@pytest.mark.parametrize("code", [0, 0x10, 0x7F, 0xFF, 0x100])
def test_a_refusal_needs_the_code_of_a_refusal(code: int) -> None:
    with pytest.raises(ValueError, match="MQTT 5 has no such failure"):
        answer_of(PUBLISH, (), Refuse("no", code))


@pytest.mark.parametrize(
    ("refusal", "version", "code"),
    [
        (Refuse("invalid_credentials"), 3, 4),
        (Refuse("invalid_credentials"), 4, 4),
        (Refuse("plugin_chain_exhausted"), 4, 5),
        (Refuse("no_matching_hook_found", 0x8A), 4, 5),
        (Refuse("invalid_credentials"), 5, 0x86),
        (Refuse("plugin_error"), 5, 0x86),
        (Refuse("banned", 0x8A), 5, 0x8A),
    ],
)
def test_connack_codes(refusal: Refuse, version: int, code: int) -> None:
    """[MQTT5-3.2.2-8]: one of the reason codes that the standard lists for CONNACK."""
    assert connack_code(refusal, version) == code
