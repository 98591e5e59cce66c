"""Settings that are changed at run time: in force at once, kept over restarts, refused where they mean nothing."""

from __future__ import annotations

import pytest

from strogoff.broker.options import Options, from_settings
from strogoff.broker.runtime_settings import RuntimeSettings, SetError
from strogoff.configs import Settings, load, schema
from strogoff.configs.schema import ACTIVE

from .stage import Stage

SETTINGS: Settings = load(None, {}, {"max_inflight_messages": "5"})


def runtime(stage: Stage, settings: Settings = SETTINGS) -> RuntimeSettings:
    return RuntimeSettings(settings, stage.node.store)


def test_a_change_is_in_force_at_once_and_after_a_restart_until_it_is_reset() -> None:
    stage = Stage()
    changes = runtime(stage)
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
    stage.settle()
    stage.restart()
    again = runtime(stage)
    assert again.options == options
    assert again.text("max_inflight_messages") == "7"
    assert again.reset("max_inflight_messages")
    assert not again.reset("max_inflight_messages")
    assert again.options.max_inflight_messages == 5
    assert again.text("max_inflight_messages") is None


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("max_inflight_mesages", "7", "unknown key, did you mean max_inflight_messages?"),
        ("max_inflight_messages", "many", "expected an integer from 0 to 65535, found 'many'"),
        ("allow_anonymous", "yes", "expected on or off, found 'yes'; did you mean on?"),
        ("allow_anonymous", "", "expected on or off, found ''"),
        ("nodename", "a@b", "cannot be changed at run time"),
        ("graphite_enabled", "on", "cannot be changed at run time"),
        ("coordinate_registrations", "on", "cannot be changed at run time"),
        ("vmq_acl.acl_file", "/x", "cannot be changed at run time"),
    ],
)
def test_what_cannot_be_set_is_refused_and_changes_nothing(key: str, text: str, said: str) -> None:
    stage = Stage()
    changes = runtime(stage)
    for attempt in (changes.check, changes.set):
        with pytest.raises(SetError) as error:
            attempt(key, text)
        assert said in str(error.value)
    assert list(changes) == []
    assert changes.options == from_settings(SETTINGS)


def test_a_stored_change_that_means_nothing_any_more_is_named_and_left_aside() -> None:
    stage = Stage()
    stage.node.store.put(b"nset.gone", b"1")
    changes = runtime(stage)
    assert changes.problems == ["set at run time and not applied: gone: unknown key"]
    assert changes.options == from_settings(SETTINGS)


def test_everything_that_says_so_can_be_set() -> None:
    """Every key that the reference calls changeable reaches the options, except for the files of the plugins."""
    changes = runtime(Stage())
    left = {
        key.name
        for key in schema().keys.values()
        if key.runtime and key.effect == ACTIVE and not changes.changeable(key)
    }
    assert {name.split(".")[0] for name in left} == {"vmq_acl", "vmq_passwd"}
    assert isinstance(changes.options, Options)
