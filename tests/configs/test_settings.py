"""Reading settings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strogoff import configs

Conf = Callable[[str], configs.Settings]


def test_our_own_keys_have_their_defaults() -> None:
    loaded = configs.load(None)
    expected = {
        "message_store.durability": "os",
        "message_store.engine": "leveldb",
        "eventlog.level": "session",
        "eventlog.dir": "./data/eventlog",
        "eventlog.rotation.size": 64 << 20,
        "eventlog.rotation.age": 3600,
        "eventlog.keep_days": 7,
        "eventlog.keep_size": 10 << 30,
        "queue.memory_window": 256,
        "node.admin_socket": "./data/admin.sock",
        "session.max_parked_publishes": 20,
        "session.max_unanswered_packets": 1000,
        "retained.max_messages": 0,
        "retained.max_bytes": 0,
        "flow.pause_reading_bytes": 16 << 20,
        "flow.out_buffer_bytes": 1 << 20,
        "log.console": "file",
    }
    assert {key: loaded[key] for key in expected} == expected


def test_values_have_the_types_of_their_keys(conf: Conf) -> None:
    loaded = conf("persistent_client_expiration = 1d\nmax_ws_frame_size = infinity\nallow_anonymous = on")
    assert loaded["persistent_client_expiration"] == 86400
    assert loaded["max_last_will_delay"] is None
    assert loaded["max_ws_frame_size"] is None
    assert loaded["allow_anonymous"] is True
    assert loaded["max_apikey_expiry_days"] is None
    assert loaded["plugins.other"] is None


def test_a_key_that_does_not_exist_is_a_key_error() -> None:
    loaded = configs.load(None)
    assert "nothing" not in loaded and "queue_type" in loaded and 5 not in loaded
    with pytest.raises(KeyError):
        loaded["nothing"]
    with pytest.raises(KeyError):
        loaded.source("nothing")


def test_only_values_other_than_defaults_count_as_changed(conf: Conf) -> None:
    loaded = conf("retry_interval = 20\nqueue_type = lifo\nplatform_data_dir = /d\neventlog.dir = /d/eventlog")
    assert loaded.changed() == {"queue_type": "lifo", "platform_data_dir": "/d"}
    assert list(loaded) == ["retry_interval", "queue_type", "platform_data_dir", "eventlog.dir"]


def test_keys_without_effect_are_listed_once(conf: Conf) -> None:
    loaded = conf("erlang.async_threads = 64\nplumtree.outstanding_limit = 5\nleveldb.threads = 3")
    (notice,) = loaded.notices
    assert notice.startswith("accepted, but without effect in this broker: erlang.async_threads (")
    assert ":1), plumtree.outstanding_limit (" in notice and ":2), leveldb.threads (" in notice


@pytest.mark.parametrize(
    "line",
    [
        "vmq_webhooks.mine.hook = auth_on_register",
        "plugins.vmq_webhooks = on",
        "plugins.vmq_diversity = on",
        "plugins.my_erlang_plugin = on",
        "vmq_diversity.auth_redis.enabled = on",
        "vmq_bridge.tcp.br0 = 10.0.0.1:1883",
        "vmq_http_pub.mqtt_auth.mode = predefined",
        "graphite_enabled = on",
        "log.syslog = on",
        "vmq_web_ui.admin.user_name = me",
        "vmq_swc.sync_interval = 1",
    ],
)
def test_keys_that_are_not_implemented_are_warnings(conf: Conf, line: str) -> None:
    (notice,) = conf(line).notices
    key = line.split(" = ")[0]
    assert notice.endswith(f"vernemq.conf:1: {key} is not implemented in this version and does nothing")


def test_defaults_of_keys_that_are_not_implemented_are_silent(conf: Conf) -> None:
    assert conf("plugins.vmq_webhooks = off\ngraphite_port = 2003\nvmq_swc.swc_groups = 10").notices == []


def test_plugins_in_python_come_by_priority(conf: Conf) -> None:
    plugins = conf(
        "plugins.python.last = a.b:C\nplugins.python.second = m:S\nplugins.python.second.priority = 5\n"
        "plugins.python.first = m:F\nplugins.python.first.priority = -1"
    ).python_plugins()
    assert plugins == [
        configs.PythonPlugin("first", "m", "F", -1),
        configs.PythonPlugin("second", "m", "S", 5),
        configs.PythonPlugin("last", "a.b", "C", None),
    ]
