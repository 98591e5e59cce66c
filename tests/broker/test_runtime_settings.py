"""Settings changed at run time: in force at once, kept over restarts, and validated."""

from __future__ import annotations

import pytest

from strogoff.broker.options import Options, from_settings
from strogoff.broker.runtime_settings import EVERYWHERE, RuntimeSettings, SetError
from strogoff.broker.shared_config import SharedConfig
from strogoff.configs import Settings, load, schema
from strogoff.configs.schema import ACTIVE

from ..harness.broker import BrokerHarness
from ..harness.routes import RouteMap

SETTINGS: Settings = load(None, {}, {"max_inflight_messages": "5"})


def runtime(broker: BrokerHarness, settings: Settings = SETTINGS) -> RuntimeSettings:
    return RuntimeSettings(settings, broker.node.env.store)


def test_a_change_is_in_force_at_once_and_after_a_restart_until_it_is_reset() -> None:
    broker = BrokerHarness()
    changes = runtime(broker)
    options = changes.options
    assert (options.max_inflight_messages, options.retry_interval_s) == (5, 20)
    changes.set("max_inflight_messages", "7")
    changes.set("retry_interval", "3")
    changes.set("persistent_client_expiration", "1h")
    assert (options.max_inflight_messages, options.retry_interval_s, options.persistent_client_expiration_s) == (
        7,
        3,
        3600,
    )
    assert list(changes) == ["max_inflight_messages", "persistent_client_expiration", "retry_interval"]
    broker.settle()
    broker.restart()
    again = runtime(broker)
    assert again.options == options
    assert again.text("max_inflight_messages") == "7"
    assert again.reset("max_inflight_messages")
    assert not again.reset("max_inflight_messages")
    assert again.options.max_inflight_messages == 5
    assert again.text("max_inflight_messages") is None


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("max_inflight_mesages", "7", "unknown key; did you mean max_inflight_messages?"),
        ("max_inflight_messages", "many", "expected an integer from 0 to 65535, found 'many'"),
        ("allow_anonymous", "yes", "expected on or off, found 'yes'; did you mean on?"),
        ("allow_anonymous", "", "expected on or off, found ''"),
        ("nodename", "a@b", "cannot be changed at run time"),
        ("graphite_enabled", "on", "has no effect in this version, also in vernemq.conf"),
        ("coordinate_registrations", "on", "has no effect in Strogoff, also in vernemq.conf"),
        ("queue_deliver_mode", "balance", "has no effect in Strogoff, also in vernemq.conf"),
        ("listener.tcp.default", "127.0.0.1:1", "cannot be changed at run time; set it in vernemq.conf"),
        ("retry_interval", "20s", "an integer, 1 or more (seconds), found '20s'; did you mean 20?"),
        ("queue_min_in_sync", "2", "slots get no more copies than queue_replicas = 1"),
        ("queue_follower_patience", "199", "a node does not notice that shorter commits are slow"),
        ("vmq_acl.acl_file", "/x", "cannot be changed at run time"),
    ],
)
def test_an_invalid_change_is_refused_without_effect(key: str, text: str, said: str) -> None:
    broker = BrokerHarness()
    settings = load(None, {}, {"queue_replicas": "1"})
    changes = runtime(broker, settings)
    for attempt in (changes.check, changes.set):
        with pytest.raises(SetError) as error:
            attempt(key, text)
        assert said in str(error.value)
    assert list(changes) == []
    assert changes.options == from_settings(settings)


def test_the_values_of_single_nodes_are_known() -> None:
    cluster = SharedConfig(RouteMap())
    changes = RuntimeSettings(SETTINGS, BrokerHarness().node.env.store, "n1")
    changes.set("retry_interval", "3")
    assert changes.of_nodes("retry_interval") == {"n1": "3"}
    changes.share(cluster)
    changes.set("retry_interval", "4", "n2")
    changes.set("retry_interval", "5", EVERYWHERE)
    changes.set("max_inflight_messages", "6", "n2")
    assert changes.of_nodes("retry_interval") == {"n1": "3", "n2": "4"}


def test_an_unusable_stored_change_is_logged_and_ignored() -> None:
    broker = BrokerHarness()
    broker.node.env.store.put(b"nset.gone", b"1")
    changes = runtime(broker)
    assert changes.problems == ["set at run time and not applied: gone: unknown key"]
    assert changes.options == from_settings(SETTINGS)


def test_every_key_marked_as_changeable_can_be_changed() -> None:
    """Every key that the reference calls changeable reaches the options."""
    changes = runtime(BrokerHarness())
    left = {
        key.name
        for key in schema().keys.values()
        if key.runtime and key.effect == ACTIVE and not changes.changeable(key)
    }
    assert left == set()
    assert isinstance(changes.options, Options)


LIMIT = "max_inflight_messages"


def shared() -> tuple[RuntimeSettings, SharedConfig, list[list[str]], list[str]]:
    """Settings of the node n1 in a cluster, its shared configuration, the applied changes, and the log lines."""
    changes, shelf = RuntimeSettings(SETTINGS, BrokerHarness().node.env.store, "n1"), SharedConfig(RouteMap())
    applied: list[list[str]] = []
    log: list[str] = []
    changes.applied = lambda made: applied.append([change.key for change in made])
    changes.told = lambda level, line: log.append(f"{level} {line}")
    changes.share(shelf)
    shelf.listeners.append(changes.changed)
    return changes, shelf, applied, log


def test_a_change_for_one_node_overrides_a_change_for_all() -> None:
    changes = runtime(BrokerHarness())
    seen = []
    for step in (
        lambda: changes.set(LIMIT, "7", EVERYWHERE),
        lambda: changes.set(LIMIT, "8"),
        lambda: changes.set(LIMIT, "9", EVERYWHERE),
        lambda: changes.reset(LIMIT),
        lambda: changes.reset(LIMIT, EVERYWHERE),
    ):
        step()
        seen.append((changes.options.max_inflight_messages, changes.own(LIMIT), changes.everywhere(LIMIT)))
    assert seen == [(7, None, "7"), (8, "8", "7"), (8, "8", "9"), (9, None, "9"), (5, None, None)]
    assert not changes.reset(LIMIT, EVERYWHERE)


def test_both_kinds_of_changes_survive_a_restart_of_a_node_alone() -> None:
    broker = BrokerHarness()
    changes = runtime(broker)
    changes.set(LIMIT, "7", EVERYWHERE)
    changes.set("retry_interval", "3")
    broker.settle()
    broker.restart()
    again = runtime(broker)
    assert (again.everywhere(LIMIT), again.own("retry_interval"), again.options) == ("7", "3", changes.options)


def test_changes_of_a_node_alone_move_to_its_cluster_once() -> None:
    store = BrokerHarness().node.env.store
    alone = RuntimeSettings(SETTINGS, store, "n1")
    alone.set(LIMIT, "7")
    alone.set("retry_interval", "3", EVERYWHERE)
    alone.set("max_client_id_size", "30", EVERYWHERE)
    store.put(b"nset.gone", b"1")
    shelf = SharedConfig(RouteMap())
    shelf.put(b"nset.\0retry_interval", b"4")
    shelf.put(b"nset.n1\0max_inflight_messages", b"6")
    shelf.put(b"nset.n2\0max_inflight_messages", b"9")
    changes = RuntimeSettings(SETTINGS, store, "n1")
    changes.share(shelf)
    assert store.scan(b"nset.", b"nset/") == []
    options = changes.options
    assert (options.max_inflight_messages, options.retry_interval_s, options.max_client_id_size) == (7, 4, 30)
    assert changes.problems == ["set at run time and not applied: gone: unknown key"]
    changes.set(LIMIT, "8")
    again = RuntimeSettings(SETTINGS, store, "n1")
    again.share(shelf)
    assert again.options.max_inflight_messages == 8
    assert shelf.get(b"nset.n2\0max_inflight_messages") == b"9"


def test_changes_by_other_nodes_for_this_node_are_applied_and_logged() -> None:
    changes, shelf, applied, log = shared()
    shelf.changed(b"cnset.\0max_inflight_messages", b"7")
    shelf.changed(b"cnset.n2\0max_inflight_messages", b"8")
    shelf.changed(b"cnkey.mgmt.abc", b"")
    assert changes.options.max_inflight_messages == 7
    shelf.changed(b"cnset.n1\0max_inflight_messages", b"9")
    shelf.changed(b"cnset.\0max_inflight_messages", None)
    assert changes.options.max_inflight_messages == 9
    shelf.changed(b"cnset.n1\0max_inflight_messages", None)
    assert changes.options.max_inflight_messages == 5
    assert applied == [[LIMIT]] * 3
    assert log == [
        f"notice {LIMIT} = 7 for all nodes, set at another node",
        f"notice {LIMIT} = 9 for n1, set at another node",
        f"notice {LIMIT} is reset for all nodes, set at another node",
        f"notice {LIMIT} is reset for n1, set at another node",
    ]


def test_a_change_for_another_node_is_stored_and_not_applied_here() -> None:
    changes, shelf, applied, _ = shared()
    changes.set(LIMIT, "8", "n2")
    assert (changes.text(LIMIT), applied) == (None, [])
    assert shelf.get(b"nset.n2\0max_inflight_messages") == b"8"
    assert changes.reset(LIMIT, "n2")
    assert shelf.get(b"nset.n2\0max_inflight_messages") is None


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (b"max_inflight_messages", b"many", "expected an integer from 0 to 65535, found 'many'"),
        (b"max_inflight_messages", b"\xff", "the stored value is not text"),
        (b"of_a_later_version", b"1", "of_a_later_version: unknown key"),
    ],
)
def test_an_unknown_setting_from_another_node_is_logged_and_ignored(name: bytes, value: bytes, said: str) -> None:
    changes, shelf, applied, log = shared()
    shelf.changed(b"cnset.\0" + name, value)
    assert (list(changes), applied, changes.options) == ([], [], from_settings(SETTINGS))
    (line,) = log
    assert line.startswith("warning set at another node and not applied: ") and said in line


def test_values_in_force() -> None:
    changes = runtime(BrokerHarness())
    assert (changes.in_force(LIMIT), changes.configured("distributed_cookie")) == ("5", "(hidden)")
    changes.set(LIMIT, "7")
    assert (changes.in_force(LIMIT), changes.configured(LIMIT)) == ("7", "5")
    with pytest.raises(SetError, match="unknown key; did you mean max_inflight_messages"):
        changes.in_force("max_inflight_mesages")


def test_a_node_starts_with_the_last_settings_of_its_cluster() -> None:
    """Sessions are restored with their limits before the cluster's metadata is read."""
    store, shelf = BrokerHarness().node.env.store, SharedConfig(RouteMap())

    def boot() -> RuntimeSettings:
        return RuntimeSettings(SETTINGS, store, "n1")

    first = boot()
    first.share(shelf)
    shelf.listeners.append(first.changed)
    first.set(LIMIT, "7", EVERYWHERE)
    first.set("max_offline_messages", "70")
    first.set("retry_interval", "9", "n2")
    shelf.changed(b"cnset.n1\0max_client_id_size", b"30")
    options = boot().options
    assert options == first.options
    assert (options.max_inflight_messages, options.max_offline_messages, options.max_client_id_size) == (7, 70, 30)
    assert options.retry_interval_s == 20
    shelf.changed(b"cnset.n1\0max_client_id_size", None)
    first.reset("max_offline_messages")
    again = boot()
    assert list(again) == [LIMIT]
    shelf.put(b"nset.\0max_inflight_messages", b"8")
    again.share(shelf)
    assert boot().options.max_inflight_messages == again.options.max_inflight_messages == 8


def test_a_node_outside_its_cluster_keeps_its_settings_until_a_reset() -> None:
    store, shelf = BrokerHarness().node.env.store, SharedConfig(RouteMap())
    clustered = RuntimeSettings(SETTINGS, store, "n1")
    clustered.share(shelf)
    clustered.set(LIMIT, "7")
    alone = RuntimeSettings(SETTINGS, store, "n1")
    assert alone.own(LIMIT) == "7"
    alone.set(LIMIT, "8")
    assert RuntimeSettings(SETTINGS, store, "n1").own(LIMIT) == "8"
    assert alone.reset(LIMIT)
    assert RuntimeSettings(SETTINGS, store, "n1").own(LIMIT) is None
