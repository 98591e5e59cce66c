"""The table of hooks agrees with itself, and modifiers are checked by name and kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strogoff import broker
from strogoff.broker.plugins.hook_table import ALL, HOOKS, TILL_OK, checked_modifiers
from strogoff.broker.routing.shared import POLICIES


def test_names_styles_and_old_forms() -> None:
    for name, spec in HOOKS.items():
        assert spec.name == name
        assert spec.style in (ALL, TILL_OK)
        assert (spec.style == TILL_OK) == bool(spec.modifiers)
        assert spec.v4 == "" or (spec.v4 + "_m5" == name and HOOKS[spec.v4].style == spec.style)
        assert not name.endswith("_m5") or "properties" in spec.arguments


def test_the_hooks_that_webhooks_may_register_all_exist() -> None:
    v3 = "auth_on_register auth_on_publish auth_on_subscribe on_register on_publish on_subscribe on_unsubscribe "
    v3 += "on_deliver"
    queue = "on_offline_message on_client_wakeup on_client_offline on_client_gone on_session_expired on_auth_m5"
    for name in [*v3.split(), *queue.split(), *(f"{name}_m5" for name in v3.split())]:
        assert name in HOOKS


def test_the_broker_calls_every_hook() -> None:
    """A hook that is in the table, and that nobody calls, would be silent for ever."""
    folder = Path(broker.__file__).parent
    sources = [path.read_text() for path in folder.rglob("*.py") if path.parent.name != "plugins"]
    names = [name.removesuffix("_m5") for name in HOOKS]
    assert [name for name in names if not any(f'"{name}' in text for text in sources)] == []


GOOD: list[tuple[str, str, Any]] = [
    ("auth_on_register", "subscriber_id", ("mp", "c")),
    ("auth_on_register", "subscriber_id", ("", "c")),
    ("auth_on_register", "allow_publish", "majority"),
    ("auth_on_register", "max_offline_messages", -1),
    ("auth_on_register_m5", "properties", {"reason_string": "hello"}),
    ("auth_on_publish", "topic", "a/b"),
    ("on_auth_m5", "reason_code", 0x18),
]
GOOD += [("auth_on_register", "shared_subscription_policy", policy) for policy in POLICIES]
BAD: list[tuple[str, str, Any, str]] = [
    ("auth_on_register", "shared_subscription_policy", "nearest", "must be prefer_local, random, local_only or"),
    ("auth_on_register_m5", "queue_type", "heap", "must be fifo or lifo"),
    ("auth_on_publish", "colour", 1, "known are: mountpoint, payload, qos, retain, throttle, topic"),
    ("on_publish", "qos", 1, "known are: none"),
    ("auth_on_publish", "qos", True, "must be 0, 1 or 2"),
    ("auth_on_publish", "topic", "a/+", "must be a topic without wildcards"),
    ("auth_on_publish", "topic", "", "must be a topic without wildcards"),
    ("auth_on_publish", "payload", "text", "must be bytes"),
    ("auth_on_register", "max_message_size", -1, "0 or more"),
    ("auth_on_register", "max_message_size", 1.5, "0 or more"),
    ("auth_on_publish", "topic", "\ud800", "must be a topic without wildcards"),
    ("auth_on_publish", "topic", b"a", "must be a topic without wildcards"),
    ("auth_on_register", "subscriber_id", "c", "pair"),
    ("auth_on_register", "subscriber_id", ("", "c", ""), "pair"),
    ("auth_on_register", "subscriber_id", ("", ""), "the client id not empty"),
    ("auth_on_register", "subscriber_id", ("", b"c"), "pair"),
    ("auth_on_register", "subscriber_id", ("", "c" * 65536), "pair"),
    ("auth_on_register", "subscriber_id", ("\ud800", "c"), "pair"),
    ("auth_on_register", "clean_start", True, "does not know"),
    ("auth_on_register_m5", "clean_session", True, "does not know"),
]


@pytest.mark.parametrize(("hook", "name", "value"), GOOD)
def test_modifiers_that_fit(hook: str, name: str, value: Any) -> None:
    assert checked_modifiers(HOOKS[hook], (), {name: value}) == {name: value}


@pytest.mark.parametrize(("hook", "name", "value", "text"), BAD)
def test_modifiers_that_do_not_fit(hook: str, name: str, value: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text) as caught:
        checked_modifiers(HOOKS[hook], (), {name: value})
    assert hook in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("topics", "text"),
    [
        ([("a", 0)], "1 topics for 2"),
        ([("a", 0), "b"], "no pair"),
        ([("a", 0), ("", 1)], "no pair"),
        ([("a", 0), ("b", 3)], "no pair"),
        ([("a", 0), ("b", 0xFF)], "no pair"),
        ([("a", 0), ("b", {"no_local": True})], "no pair"),
        ([("a", 0), ("b", "never")], "no pair"),
    ],
)
def test_topics_answer_one_by_one(topics: list[Any], text: str) -> None:
    """[MQTT-3.8.4-5] and [MQTT5-3.8.4-6]: one return code for each filter."""
    with pytest.raises(ValueError, match=text):
        checked_modifiers(HOOKS["auth_on_subscribe"], ("ann", None, [("a", 1), ("b", 1)]), {"topics": topics})


def test_topics_of_an_unsubscribe_are_filters() -> None:
    asked: tuple[Any, ...] = ("ann", None, ["a", "b"], {})
    assert checked_modifiers(HOOKS["on_unsubscribe_m5"], asked, {"topics": ["x", "b"]}) == {"topics": ["x", "b"]}
    with pytest.raises(ValueError, match="no topic filter"):
        checked_modifiers(HOOKS["on_unsubscribe_m5"], asked, {"topics": ["x", 1]})
