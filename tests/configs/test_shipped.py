"""The shipped configuration files."""

from __future__ import annotations

from pathlib import Path

import pytest

from strogoff import configs
from strogoff.configs.schema import schema
from strogoff.configs.shipped import shipped_conf

FOLDER = Path(__file__).parents[2] / "configs"


def test_vernemq_conf_is_up_to_date() -> None:
    """Rewrite it with `strogoff config reference --conf > configs/vernemq.conf`."""
    assert (FOLDER / "vernemq.conf").read_text(encoding="utf-8") == shipped_conf()


def test_vernemq_conf_has_every_documented_key() -> None:
    text = shipped_conf()
    for key in schema().keys.values():
        name = ".".join("name" if part.startswith("$") else part for part in key.name.split("."))
        opened = key.name in ("listener.tcp.$name", "listener.http.$name")
        assert key.hidden or opened or f"\n{name} = " in text or f"\n# {name} =" in text, key.name


def test_vernemq_conf_changes_nothing_but_opens_listeners_on_this_machine() -> None:
    loaded = configs.load(FOLDER / "vernemq.conf")
    assert loaded.notices == []
    assert [listener.address for listener in loaded.listeners()] == ["127.0.0.1:1883", "127.0.0.1:8888"]
    assert set(loaded.changed()) == {"listener.tcp.default"}
    paths = [key for key in loaded if (found := schema().find(key)) and found.type in ("file", "directory")]
    assert paths == []


def test_every_line_that_is_commented_out_is_a_setting_of_a_known_key() -> None:
    for line in shipped_conf().splitlines():
        if line.startswith("# "):
            assert schema().find(line.removeprefix("# ").partition(" =")[0]) is not None, line


@pytest.mark.parametrize("name", ["dev", "ha"])
def test_the_other_files_use_only_working_keys(name: str) -> None:
    loaded = configs.load(FOLDER / f"{name}.conf")
    assert loaded.notices == []
    assert all(listener.host == "127.0.0.1" for listener in loaded.listeners())


def test_dev_conf_accepts_every_client_of_this_machine() -> None:
    loaded = configs.load(FOLDER / "dev.conf")
    assert loaded["allow_anonymous"] is True and loaded["log.console"] == "console"
    assert {(each.type, each.port) for each in loaded.listeners()} >= {("tcp", 1883), ("ws", 8080)}


def test_ha_conf_is_durable_and_serves_the_majority_only() -> None:
    loaded = configs.load(FOLDER / "ha.conf")
    assert loaded["message_store.durability"] == "sync"
    assert all(loaded[f"allow_{each}_during_netsplit"] == "majority" for each in ("register", "publish", "subscribe"))
