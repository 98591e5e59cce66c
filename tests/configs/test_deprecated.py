"""Removed keys."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strogoff import configs
from strogoff.configs.deprecated import without_removed
from strogoff.configs.schema import schema
from strogoff.configs.syntax import Line

Conf = Callable[[str], configs.Settings]
OPERATIONS = ("register", "publish", "subscribe", "unsubscribe")


def netsplit(loaded: configs.Settings) -> list[str]:
    return [loaded[f"allow_{operation}_during_netsplit"] for operation in OPERATIONS]


def test_trade_consistency_is_three_flags_and_a_warning(conf: Conf) -> None:
    loaded = conf("trade_consistency = on")
    assert netsplit(loaded) == ["off", "on", "on", "on"]
    (notice,) = loaded.notices
    assert notice.endswith(
        "vernemq.conf:1: trade_consistency is deprecated: on means on for publish, subscribe and unsubscribe; use "
        "allow_publish_during_netsplit, allow_subscribe_during_netsplit and allow_unsubscribe_during_netsplit"
    )
    assert loaded.source("allow_publish_during_netsplit").endswith("vernemq.conf:1")


def test_explicit_flags_override_trade_consistency_in_any_order(conf: Conf) -> None:
    loaded = conf("allow_publish_during_netsplit = majority\ntrade_consistency = on")
    assert netsplit(loaded) == ["off", "majority", "on", "on"]


@pytest.mark.parametrize("text", ["trade_consistency = off", "trade_consistency = on\ntrade_consistency = off"])
def test_trade_consistency_off_is_only_a_warning(conf: Conf, text: str) -> None:
    loaded = conf(text)
    assert netsplit(loaded) == ["off"] * 4
    assert loaded.changed() == {}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "allow_multiple_sessions = on",
            "allow_multiple_sessions is not applied: a client id has one session; a second connection takes it over",
        ),
        ("accept_eula = yes", "accept_eula is not needed: Strogoff needs no consent to a licence"),
        (
            "message_size_limit = 100",
            "message_size_limit is not applied: it is now called max_message_size; use max_message_size",
        ),
        (
            "topic_alias_max = 5",
            "topic_alias_max is not applied: there is now one bound for each direction; "
            "use topic_alias_max_client and topic_alias_max_broker",
        ),
    ],
)
def test_renamed_keys_are_not_applied_and_name_their_replacement(conf: Conf, line: str, said: str) -> None:
    loaded = conf(line)
    (notice,) = loaded.notices
    assert notice.endswith(f"vernemq.conf:1: {said}")
    assert loaded.changed() == {}


def test_a_file_of_vernemq_1_has_warnings_for_the_keys_of_its_logger(conf: Conf) -> None:
    """VerneMQ 2 refuses these lines, which each vernemq.conf of VerneMQ 1 has."""
    lines = [
        "log.crash.maximum_message_size = 64KB",
        "log.crash.size = 10MB",
        "log.crash.rotation = $D0",
        "log.error.messages_per_second = 100",
        "log.error.redirect = on",
        "log.syslog.ident = vernemq",
    ]
    loaded = conf("\n".join(lines))
    said = [notice.partition("vernemq.conf:")[2] for notice in loaded.notices]
    keys = [line.partition(" ")[0] for line in lines]
    why = "has no effect: it belongs to the logger of VerneMQ 1"
    assert said == [f"{number}: {key} {why}" for number, key in enumerate(keys, 1)]
    assert loaded.changed() == {}


def test_every_removed_key_warns() -> None:
    for name, entry in schema().removed.items():
        lines, problems, warnings = without_removed([Line(name, "on", "f", 1, "f:1")], schema())
        assert problems == []
        assert len(warnings) == 1
        assert len(lines) == (3 if entry.action == "netsplit" else 0)
        assert name not in schema().keys
