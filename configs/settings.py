"""The configuration of a node, for the other packages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from .listeners import ListenerSettings, resolve_listeners
from .lookup import Setting
from .schema import LATER, NONE, Key, Schema
from .values import Value

REFERENCE = re.compile(r"\$\(([^()\s]+)\)")
"""`$(key)` in a value stands for the value of another key."""


class PythonPlugin(msgspec.Struct, frozen=True):
    """A plugin written in Python: `module:class_name`. Lower priorities come first, None last."""

    name: str
    module: str
    class_name: str
    priority: int | None


class Settings:
    """Values by key. Immutable; `notices` are the warnings that belong in the log at start."""

    def __init__(self, schema: Schema, explicit: Mapping[str, Setting], notices: list[str]) -> None:
        self._schema = schema
        self._explicit = dict(explicit)
        self._defaults: dict[str, Value] = {}
        self.notices = [*notices, *self._not_implemented(), *self._without_effect()]

    def __getitem__(self, key: str) -> Value:
        """The typed value of a key, or its default. Raises KeyError for an unknown key."""
        setting = self._explicit.get(key)
        if setting is not None:
            return setting.value
        if key not in self._defaults:
            definition = self._schema.find(key)
            if definition is None:
                raise KeyError(key)
            self._defaults[key] = self._default(definition)
        return self._defaults[key]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._schema.find(key) is not None

    def __iter__(self) -> Iterator[str]:
        """The keys that are set, in the order of their first lines."""
        return iter(self._explicit)

    def explicit(self, key: str) -> Setting | None:
        """The setting of a key, None if it is not set."""
        return self._explicit.get(key)

    def source(self, key: str) -> str:
        """Where the value comes from: "default", "file:line", "environment" or "override"."""
        setting = self._explicit.get(key)
        if setting is None and key not in self:
            raise KeyError(key)
        return setting.line.source if setting is not None else "default"

    def changed(self) -> dict[str, Value]:
        """The keys with another value than the default, in the order of their first lines."""
        return {name: setting.value for name, setting in self._explicit.items() if self._differs(setting)}

    def listeners(self) -> list[ListenerSettings]:
        """The listeners with all of their options resolved, in the order of the file."""
        return resolve_listeners(self)

    def python_plugins(self) -> list[PythonPlugin]:
        """The Python plugins, in the order of their calls."""
        plugins = []
        for name, setting in self._explicit.items():
            if setting.key.name == "plugins.python.$name":
                module, _, class_name = setting.value.partition(":")
                plugins.append(PythonPlugin(name.split(".")[2], module, class_name, self[f"{name}.priority"]))
        return sorted(plugins, key=lambda plugin: (plugin.priority is None, plugin.priority or 0))

    def without_effect(self) -> list[Setting]:
        """The settings of keys that have no meaning in this broker."""
        return [setting for setting in self._explicit.values() if setting.key.effect == NONE]

    def not_implemented(self) -> list[Setting]:
        """The settings, other than defaults, of features that this version lacks."""
        return [s for s in self._explicit.values() if s.key.effect == LATER and self._differs(s)]

    def _default(self, definition: Key) -> Value:
        value = definition.default_value()
        return REFERENCE.sub(lambda match: str(self[match[1]]), value) if isinstance(value, str) else value

    def _differs(self, setting: Setting) -> bool:
        return bool(setting.value != self._default(setting.key))

    def _not_implemented(self) -> list[str]:
        said = "is not implemented in this version and does nothing"
        return [f"{setting.line.place}: {setting.line.key} {said}" for setting in self.not_implemented()]

    def _without_effect(self) -> list[str]:
        names = [f"{setting.line.key} ({setting.line.place})" for setting in self.without_effect()]
        return [f"accepted, but without effect in this broker: {', '.join(names)}"] if names else []
