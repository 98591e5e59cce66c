"""The port for reading settings."""

from __future__ import annotations

from strogoff import configs
from strogoff.configs.lookup import Lookup, Setting


def test_settings_can_be_looked_up() -> None:
    lookup: Lookup = configs.load(None, {}, {"retry_interval": "7"})
    setting = lookup.explicit("retry_interval")
    assert isinstance(setting, Setting)
    assert (setting.key.name, setting.value, setting.line.source) == ("retry_interval", 7, "override")
    assert list(lookup) == ["retry_interval"]
    assert lookup["queue_type"] == "fifo"
