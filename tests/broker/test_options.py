"""Options: the part of the configuration that the core uses."""

from __future__ import annotations

from strogoff.broker.options import Options, from_settings
from strogoff.configs import load


def test_the_defaults_are_those_of_the_configuration() -> None:
    assert from_settings(load(None)) == Options()


def test_every_option_comes_from_its_key() -> None:
    settings = load(
        None,
        {},
        {
            "retry_interval": "7",
            "persistent_client_expiration": "2d",
            "max_last_will_delay": "1h",
            "queue_type": "lifo",
            "allow_publish_during_netsplit": "majority",
            "flow.out_buffer_bytes": "2MB",
            "logging.keepalive_as_warning": "off",
            "session.max_parked_publishes": "5",
            "session.max_unanswered_packets": "6",
        },
    )
    options = from_settings(settings)
    assert options.retry_interval_s == 7
    assert options.persistent_client_expiration_s == 172_800
    assert options.max_last_will_delay_s == 3600
    assert options.queue_type == "lifo"
    assert options.allow_publish_during_netsplit == "majority"
    assert options.out_buffer_bytes == 2 << 20
    assert options.keepalive_as_warning is False
    assert options.max_parked_publishes == 5
    assert options.max_unanswered_packets == 6
