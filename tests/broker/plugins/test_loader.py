"""Loading a plugin by its name, and the errors for the operator."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from strogoff.broker.plugins.loader import PluginError, load_plugin

SOURCE = """
class Greeter:
    def __init__(self, greeting, *, times=1):
        if times > 9:
            raise RuntimeError("too polite")
        self.greeting = greeting * times
    def on_register(self, peer, subscriber, user): pass
number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "greeter_plugin.py").write_text(SOURCE)
    (tmp_path / "broken_plugin.py").write_text("import no_such_thing_at_all")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "greeter_plugin", raising=False)
    return "greeter_plugin"


def test_settings_are_keyword_arguments(module: str) -> None:
    plugin = load_plugin(f"{module}:Greeter", {"greeting": "hi ", "times": 2})
    assert vars(plugin) == {"greeting": "hi hi "}


@pytest.mark.parametrize(
    ("spec", "settings", "text"),
    [
        ("greeter_plugin", {}, "write it as module:Class"),
        (":Greeter", {}, "write it as module:Class"),
        ("greeter_plugin:a.b", {}, "write it as module:Class"),
        ("no_plugin_here:X", {}, "'no_plugin_here' cannot be imported: No module named"),
        ("broken_plugin:X", {}, "'broken_plugin' cannot be imported: No module named 'no_such_thing_at_all'"),
        ("greeter_plugin:Nobody", {}, "has no class 'Nobody'"),
        ("greeter_plugin:number", {}, "has no class 'number'"),
        ("greeter_plugin:Greeter", {}, "missing a required argument: 'greeting'; its settings are: greeting, times"),
        (
            "greeter_plugin:Greeter",
            {"greeting": "x", "shout": True},
            "unexpected keyword argument 'shout'; its settings",
        ),
        ("greeter_plugin:Greeter", {"greeting": "x", "times": 10}, "could not be made: too polite"),
    ],
)
def test_clear_errors(module: str, spec: str, settings: dict[str, object], text: str) -> None:
    with pytest.raises(PluginError, match=text):
        load_plugin(spec, settings)
