"""The options, policies and trace directories of the fixtures. The fixtures themselves are in test_plugin."""

from __future__ import annotations

from typing import Any, cast

import pytest

from strogoff.testing.cluster import Cluster
from strogoff.testing.fixtures import OPERATIONS, External, _warnings_of, directory_name, number, option, policy_conf


class _Config:
    """A pytest configuration: values of the command line and of the ini file."""

    def __init__(self, line: dict[str, Any], ini: dict[str, str]) -> None:
        self._line = line
        self._ini = ini

    def getoption(self, name: str, default: Any = None) -> Any:
        return self._line.get(name, default)

    def getini(self, name: str) -> str | None:
        return self._ini.get(name)


def config(line: dict[str, Any] | None = None, ini: dict[str, str] | None = None) -> pytest.Config:
    return cast(pytest.Config, _Config(line or {}, ini or {}))


def test_the_command_line_wins() -> None:
    """It overrides the ini file; an empty line there is no value."""
    assert option(config({"mqtt_seed": "1"}, {"mqtt_seed": "2"}), "mqtt_seed") == "1"
    assert option(config({}, {"mqtt_seed": "2"}), "mqtt_seed") == "2"
    assert option(config({}, {"mqtt_seed": ""}), "mqtt_seed") is None
    assert number(config({"mqtt_port": 1884}), "mqtt_port") == 1884


def test_an_external_broker() -> None:
    """Without a value the standard address is used."""
    assert External.of(config()).url == "mqtt://127.0.0.1:1883"
    assert External.of(config({"mqtt_host": "h"}, {"mqtt_port": "2"})) == External("h", 2)


def test_policies() -> None:
    """One policy for all operations, or some by name."""
    assert policy_conf("on") == {f"allow_{operation}_during_netsplit": "on" for operation in OPERATIONS}
    assert policy_conf({"publish": "majority"}) == {"allow_publish_during_netsplit": "majority"}
    with pytest.raises(pytest.UsageError, match="operations are register, publish, subscribe, unsubscribe"):
        policy_conf({"publish": "sometimes"})


def test_a_report_has_no_warnings_about_the_end_of_the_cluster() -> None:
    """Each node misses those that `close` stops before it. A second `close` changes nothing."""
    with Cluster.sync(2, pace=10) as c:
        c[0]._log_line("warning", "this belongs to the test")
    c[0].test_is_over()
    assert any("incident begins" in line for line in c[0].log)
    assert _warnings_of(c[0]) == ["log of node 0: warning: this belongs to the test"]


def test_each_test_has_a_directory_of_its_own() -> None:
    """Although parameters have characters that no name of a file should have, and although they are long."""
    names = [directory_name(f"t/test_a.py::test_it[{filter}]") for filter in ("a/#", "a/+", "\u20ac" * 300, "x" * 300)]
    assert len(set(names)) == 4 and all(len(name.encode()) <= 255 for name in names)
    assert names[0].startswith("t-test_a.py-test_it-a-") and names[0] == directory_name("t/test_a.py::test_it[a/#]")
