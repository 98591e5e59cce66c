"""Settings that are changed while the node runs (INV 1.14): kept in the store, they count more than the files.

What may be changed is what the configuration's reference marks so and the node's options are made of. A change counts
from the next time that somebody looks: many limits are looked at when a client connects.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..configs import Key, Settings, schema
from ..configs.schema import ACTIVE
from ..configs.values import Value, WrongValueError
from ..storage.keys import after
from ..storage.store import Store
from .options import Options, from_settings

_PREFIX = b"nset."


class SetError(ValueError):
    """A setting cannot be changed so; the text says why, for the operator."""


class _Overlay:
    """The settings with what was changed laid over them; remembers which keys are asked for."""

    def __init__(self, settings: Settings, values: dict[str, Value]) -> None:
        self._settings = settings
        self._values = values
        self.asked: set[str] = set()

    def __getitem__(self, key: str) -> Value:
        self.asked.add(key)
        return self._values[key] if key in self._values else self._settings[key]


class RuntimeSettings:
    """What was changed at run time, and the node's `options` that follow from it, changed in place."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._texts: dict[str, str] = {}
        self.problems: list[str] = []
        """Stored changes that this version cannot apply, one line for each."""
        for key, value in store.scan(_PREFIX, after(_PREFIX)):
            name, text = key[len(_PREFIX) :].decode(), value.decode()
            try:
                self._parsed(name, text)
            except SetError as error:
                self.problems.append(f"set at run time and not applied: {error}")
            else:
                self._texts[name] = text
        self.options: Options = from_settings(self._overlay())

    def __iter__(self) -> Iterator[str]:
        """The keys that are changed, by name."""
        return iter(sorted(self._texts))

    def text(self, key: str) -> str | None:
        """What a key was set to at run time, None if it was not."""
        return self._texts.get(key)

    def set(self, key: str, text: str) -> None:
        """Change a setting now and for later starts. Raises `SetError`; then nothing has changed."""
        self._parsed(key, text)
        self._texts[key] = text
        self._store.put(_PREFIX + key.encode(), text.encode())
        self._apply()

    def reset(self, key: str) -> bool:
        """Let the files count again; False if the key was not changed."""
        if self._texts.pop(key, None) is None:
            return False
        self._store.delete(_PREFIX + key.encode())
        self._apply()
        return True

    def check(self, key: str, text: str) -> None:
        """Raises `SetError` if `set` would."""
        self._parsed(key, text)

    def _parsed(self, name: str, text: str) -> Value:
        key = schema().keys.get(name)
        if key is None:
            near = schema().nearest(name)
            raise SetError(f"{name}: unknown key{f', did you mean {near}?' if near else ''}")
        if not self.changeable(key):
            raise SetError(f"{name}: cannot be changed at run time; set it in vernemq.conf and restart the node")
        try:
            return key.parse(text)
        except WrongValueError as error:
            meant = f"; did you mean {error.suggestion}?" if error.suggestion else ""
            raise SetError(f"{name}: expected {error}, found {text!r}{meant}") from None

    def changeable(self, key: Key) -> bool:
        """Whether a change of this key takes effect while the node runs."""
        if not key.runtime or key.effect != ACTIVE:
            return False
        overlay = self._overlay()
        from_settings(overlay)
        return key.name in overlay.asked

    def _overlay(self) -> _Overlay:
        keys = schema().keys
        return _Overlay(self._settings, {name: keys[name].parse(text) for name, text in self._texts.items()})

    def _apply(self) -> None:
        changed = from_settings(self._overlay())
        for field in Options.__struct_fields__:
            setattr(self.options, field, getattr(changed, field))
