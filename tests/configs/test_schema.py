"""The tables of keys."""

from __future__ import annotations

from pathlib import Path

import pytest

import strogoff
from strogoff.broker.options import Options
from strogoff.configs.schema import ACTIVE, LATER, NONE, schema
from strogoff.configs.values import WrongValueError

VERNEMQ = [line.split("\t") for line in (Path(__file__).parent / "vernemq_keys.tsv").read_text().splitlines()]


def test_all_633_keys_of_vernemq_are_known() -> None:
    assert len(VERNEMQ) == 633
    assert [name for name, _ in VERNEMQ if name not in schema().keys] == []


PROXY_IN_FRONT_OF_TLS = {
    f"listener.{kind}{level}.{option}"
    for kind in ("ssl", "wss")
    for level in ("", ".$name")
    for option in ("proxy_protocol", "proxy_protocol_use_cn_as_username")
}
"""Options of VerneMQ that VerneMQ has for fewer kinds of listeners; their meaning says so."""


def test_every_other_key_is_marked_as_ours() -> None:
    known = {name for name, _ in VERNEMQ} | PROXY_IN_FRONT_OF_TLS
    assert {key.name for key in schema().keys.values() if key.ours} == set(schema().keys) - known
    for name in PROXY_IN_FRONT_OF_TLS:
        assert "VerneMQ has it only without TLS" in schema().keys[name].meaning


def test_each_row_is_complete() -> None:
    for key in schema().keys.values():
        assert key.effect in (ACTIVE, NONE, LATER), key.name
        assert key.expected, key.name
        assert key.meaning.endswith("."), key.name
        key.default_value()
        if key.example:
            key.parse(key.example)


PACKAGE = Path(strogoff.__file__).parent
READ_IN_PARTS = ("discovery.s3.access_key", "discovery.s3.secret_key")


def test_each_key_with_an_effect_is_read() -> None:
    """The code names it, or ends an f-string with its last words. Options of listeners are in `test_listeners.py`."""
    folders = ("admin", "broker", "cluster", "configs", "netsplit", "storage")
    code = "".join(path.read_text() for folder in folders for path in (PACKAGE / folder).rglob("*.py"))
    active = [name for name, key in schema().keys.items() if key.effect == ACTIVE and not name.startswith("listener.")]
    unread = []
    for name in active:
        ends = [name[at:] for at, char in enumerate(name) if char == "."]
        named = f'"{name}"' in code or any(f'}}{end}"' in code for end in ends)
        if not named and name not in (*Options.__struct_fields__, *READ_IN_PARTS):
            unread.append(name)
    assert len(active) > 100
    assert unread == []


def test_defaults_are_those_of_vernemq() -> None:
    """Some defaults are set one level higher here, or refer to the data directory; the values are the same.

    Exceptions are sizes that VerneMQ does not bound: log files, packets, and the filters of a client
    (docs/differences.md).
    """
    assert (schema().keys["max_message_size"].default, dict(VERNEMQ)["max_message_size"]) == ("10485760", "0")
    filters = "max_subscriptions_per_client"
    assert (schema().keys[filters].default, dict(VERNEMQ)[filters]) == ("100000", "0")
    written = {"yes": "on", "true": "on"}
    for name, default in VERNEMQ:
        key = schema().keys[name]
        if name.endswith(".rotation.size") and key.default == "64MB":  # VerneMQ's log files grow without bound
            continue
        if name in ("max_message_size", filters):  # VerneMQ's packets and sessions may have any size
            continue
        if default == "—" or key.group == "Listener options" or key.name == "vmq_generic_msg_store.store_dir":
            continue
        text = "" if default == '""' else default
        text = written.get(text, text) if key.type == "flag" else text
        assert key.default == text or key.parse(text) == key.default_value(), name


def test_the_most_literal_key_is_found() -> None:
    find = schema().find
    for name, key in (
        ("listener.tcp.max_connections", "listener.tcp.max_connections"),
        ("listener.tcp.mine", "listener.tcp.$name"),
        ("listener.tcp.mine.max_connections", "listener.tcp.$name.max_connections"),
        ("plugins.vmq_acl", "plugins.vmq_acl"),
        ("plugins.vmq_acl.priority", "plugins.$name.priority"),
        ("plugins.python.mine", "plugins.python.$name"),
        ("plugins.python", "plugins.$name"),
        ("vmq_bridge.tcp.br0.topic.1", "vmq_bridge.tcp.br0.topic.1"),
        ("vmq_bridge.tcp.br1.topic.1", "vmq_bridge.tcp.$name.topic.$topic_id"),
    ):
        found = find(name)
        assert found is not None and found.name == key
    for name in ("", ".", "nothing", "listener", "listener.tcp", "listener.tcp.a.b.c", "listener..x", "plugins."):
        assert find(name) is None


def test_the_nearest_key_keeps_the_users_own_segments() -> None:
    nearest = schema().nearest
    assert nearest("allow_anonymouss") == "allow_anonymous"
    assert nearest("Allow_Anonymous") == "allow_anonymous"
    assert nearest("listener.tcp.mine.max_conections") == "listener.tcp.mine.max_connections"
    assert nearest("zzz") == ""


def test_a_misspelt_option_is_distinguished_from_a_listener_name() -> None:
    assert schema().nearest_option("listener.tcp.max_conections") == "listener.tcp.max_connections"
    assert schema().nearest_option("listener.tcp.default") == ""


@pytest.mark.parametrize(
    ("key", "text", "expected", "suggestion"),
    [
        ("retry_interval", "20s", "an integer, 1 or more (seconds)", "20"),
        ("retry_interval", "2m", "an integer, 1 or more (seconds)", "120"),
        ("retry_interval", "0s", "an integer, 1 or more (seconds)", ""),
        ("retry_interval", "soon", "an integer, 1 or more (seconds)", ""),
        ("max_message_size", "10MB", "an integer from 0 to 268435455 (bytes)", "10485760"),
        ("max_message_size", "10GB", "an integer from 0 to 268435455 (bytes)", ""),
        ("systree_interval", "20s", "an integer, 0 or more (milliseconds)", "20000"),
        ("systree_interval", "50ms", "an integer, 0 or more (milliseconds)", "50"),
        ("vmq_acl.acl_reload_interval", "500ms", "an integer, 0 or more (seconds)", ""),
        ("max_ws_frame_size", "infinty", "an integer, 1 or more, or infinity (bytes)", "infinity"),
        ("max_inflight_messages", "20s", "an integer from 0 to 65535", ""),
        ("allow_anonymous", "yes", "on or off", "on"),
    ],
)
def test_an_error_about_a_time_or_a_size_names_its_unit(key: str, text: str, expected: str, suggestion: str) -> None:
    with pytest.raises(WrongValueError) as error:
        schema().keys[key].parse(text)
    assert (error.value.expected, error.value.suggestion) == (expected, suggestion)
