r"""Settings that operators change while the node runs. They are stored and survive restarts.

A value for this node overrides a value for all nodes, and both override the files. An operator may change a key if the
configuration reference marks it as changeable and `Options` has it. Code sees the new value when it next reads the
option; it reads many limits when a client connects.

A node without cluster links keeps the values in its own store: `nset.KEY` for itself, `nset.\0KEY` for all nodes. A
node with cluster links keeps them in the settings of the cluster (`shared_config.py`): `nset.NODE\0KEY`, with an empty
NODE for all nodes. It copies the values that apply to it into its own store (`nsetcopy.`): when it starts, it loads
sessions with their limits before it can read the settings of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..configs import Key, Settings, schema
from ..configs.checks import LEVEL, MIN_IN_SYNC, PATIENCE, from_or_to_off, too_few_copies, too_impatient
from ..configs.schema import ACTIVE, LATER, NONE
from ..configs.secret_keys import is_secret
from ..configs.values import Value, WrongValueError
from ..storage.keys import after
from .options import Options, from_settings
from .shared_config import Shelf

EVERYWHERE = ""
"""Stands for a node name: all nodes, also those that join later."""
_PREFIX = b"nset."
_COPY = b"nsetcopy."
_END = b"\0"
_WITHOUT_EFFECT = {
    NONE: "has no effect in Strogoff, also in vernemq.conf: see `vmq-admin describe`",
    LATER: "has no effect in this version, also in vernemq.conf",
}
"""Effect of a key -> why it cannot be changed."""


class SetError(ValueError):
    """The change of a setting is not valid; the text tells the operator why."""


class Change(NamedTuple):
    """Another value of a key is in force, in the form of vernemq.conf; None for a key without a value."""

    key: str
    old: str | None
    new: str | None


class _Overlay:
    """The settings, with the values set at run time in front. `asked` has the keys that were read."""

    def __init__(self, settings: Settings, values: dict[str, Value]) -> None:
        self._settings = settings
        self._values = values
        self.asked: set[str] = set()

    def __getitem__(self, key: str) -> Value:
        self.asked.add(key)
        return self._values[key] if key in self._values else self._settings[key]


class RuntimeSettings:
    """The values set at run time, and the node's `options`, which each change updates in place.

    `applied` is called with the changes that are in force. `told` is called with a level and a log line about each
    change that another node made.
    """

    def __init__(self, settings: Settings, shelf: Shelf, node: str = "this node") -> None:
        self._settings = settings
        self._store = self._shelf = shelf
        self._node = node
        self._shared = False
        self._own: dict[str, str] = {}
        self._global: dict[str, str] = {}
        self.applied: Callable[[Sequence[Change]], None] = lambda changes: None
        self.told: Callable[[str, str], None] = lambda level, line: None
        self.problems: list[str] = []
        """Stored values that this version cannot apply, one line for each."""
        self._read()
        self.options: Options = from_settings(self._overlay())

    def share(self, shelf: Shelf) -> None:
        """Keep the values in the cluster's `shelf` from now on, and move those of this node's own store there."""
        store, rows = self._store, self._store.scan(_PREFIX, after(_PREFIX))
        kept = [(*self._whose(place), value) for place, value in rows]
        self._shelf, self._shared = shelf, True
        for node, name, value in kept:
            place = self._place(node, name)
            # a value that the cluster has for all nodes stays: an operator set it for all of them
            if node == self._node or shelf.get(place) is None:
                shelf.put(place, value)
        for place, _ in rows:
            store.delete(place)
        for place, _ in store.scan(_COPY, after(_COPY)):
            store.delete(place)
        for place, value in shelf.scan(_PREFIX, after(_PREFIX)):
            self._copy(*self._whose(place), value)
        before = self._texts()
        self._read()
        self._apply(before)

    def _read(self) -> None:
        self._own, self._global, self.problems = {}, {}, []
        rows = list(self._shelf.scan(_PREFIX, after(_PREFIX)))
        if not self._shared:
            copied = self._store.scan(_COPY, after(_COPY))
            rows = [(_PREFIX + place[len(_COPY) :], value) for place, value in copied] + rows
        for place, value in rows:
            node, name = self._whose(place)
            table = self._table(node)
            if table is None:
                continue
            try:
                text = _written(name, value)
                self._parsed(name, text)
            except SetError as error:
                self.problems.append(f"set at run time and not applied: {error}")
            else:
                table[name] = text

    def __iter__(self) -> Iterator[str]:
        """The keys that were set at run time, in alphabetical order."""
        return iter(sorted({*self._own, *self._global}))

    def text(self, key: str) -> str | None:
        """The value of a key set at run time, for this node or else for all nodes; None if it was not set."""
        return self._own.get(key, self._global.get(key))

    def own(self, key: str) -> str | None:
        """The value of a key set for this node, None if it was not set."""
        return self._own.get(key)

    def everywhere(self, key: str) -> str | None:
        """The value of a key set for all nodes, None if it was not set."""
        return self._global.get(key)

    def of_nodes(self, key: str) -> dict[str, str]:
        """Returns the values of a key that were set for single nodes: name of the node -> value."""
        found = {}
        for place, value in self._shelf.scan(_PREFIX, after(_PREFIX)):
            node, name = self._whose(place)
            if name == key and node != EVERYWHERE:
                found[node] = value.decode(errors="replace")
        return found

    def configured(self, key: str) -> str | None:
        """The value from files, environment and defaults, in the form of vernemq.conf; secrets are hidden.

        Raises `SetError` for an unknown key.
        """
        found = schema().find(key)
        if found is None:
            raise _unknown(key)
        setting, value = self._settings.explicit(key), self._settings[key]
        if is_secret(key):
            return "(hidden)"
        if isinstance(value, str):
            return value
        return setting.line.text if setting is not None else found.default

    def in_force(self, key: str) -> str | None:
        """The value that applies: set at run time, or else configured. Raises `SetError` for an unknown key."""
        changed = self.text(key)
        return changed if changed is not None else self.configured(key)

    def set(self, key: str, text: str, node: str | None = None) -> None:
        """Change a setting now and for later starts. `node` is a node name, `EVERYWHERE`, or None for this node.

        Raises `SetError`; then nothing has changed.
        """
        self._parsed(key, text)
        whose = self._node if node is None else node
        self._shelf.put(self._place(whose, key), text.encode())
        self._copy(whose, key, text.encode() if self._shared else None)
        self._change(whose, key, text)

    def reset(self, key: str, node: str | None = None) -> bool:
        """Remove a value set at run time; False if none was set there. `node` as for `set`."""
        whose = self._node if node is None else node
        place = self._place(whose, key)
        if self._shelf.get(place) is None and self._store.get(_copy_of(whose, key)) is None:
            return False
        self._shelf.delete(place)
        self._copy(whose, key, None)
        self._change(whose, key, None)
        return True

    def check(self, key: str, text: str) -> None:
        """Raises `SetError` if `set` would."""
        self._parsed(key, text)

    def changed(self, place: bytes, value: bytes | None) -> None:
        """Another node has set a key of the shelf (None: deleted it). Apply it if it is a setting of this node."""
        if not place.startswith(_PREFIX):
            return
        node, name = self._whose(place)
        if self._table(node) is None:
            return
        self._copy(node, name, value)
        text = None
        try:
            if value is not None:
                text = _written(name, value)
                self._parsed(name, text)
        except SetError as error:
            self.told("warning", f"set at another node and not applied: {error}")
            text = None
        else:
            scope = f"for {node or 'all nodes'}, set at another node"
            self.told("notice", f"{name} is reset {scope}" if text is None else f"{name} = {text} {scope}")
        self._change(node, name, text)

    def _table(self, node: str) -> dict[str, str] | None:
        return {self._node: self._own, EVERYWHERE: self._global}.get(node)

    def _copy(self, node: str, key: str, value: bytes | None) -> None:
        """Copy a value of the cluster (None: its deletion) into this node's own store, if it applies to this node."""
        if self._table(node) is None:
            return
        place = _copy_of(node, key)
        if value is None:
            self._store.delete(place)
        else:
            self._store.put(place, value)

    def _place(self, node: str, key: str) -> bytes:
        if node == self._node and not self._shared:
            return _PREFIX + key.encode()
        return _PREFIX + node.encode() + _END + key.encode()

    def _whose(self, place: bytes) -> tuple[str, str]:
        """Return the node name and the key of the setting at this place of a shelf."""
        node, end, key = place[len(_PREFIX) :].decode(errors="replace").partition(_END.decode())
        return (node, key) if end else (self._node, node)

    def _parsed(self, name: str, text: str) -> Value:
        key = schema().find(name)
        if key is None:
            raise _unknown(name)
        if key.effect != ACTIVE:
            raise SetError(f"{name}: {_WITHOUT_EFFECT[key.effect]}")
        if not self.changeable(key):
            raise SetError(f"{name}: cannot be changed at run time; set it in vernemq.conf and restart the node")
        try:
            value = key.parse(text)
        except WrongValueError as error:
            meant = f"; did you mean {error.suggestion}?" if error.suggestion else ""
            raise SetError(f"{name}: expected {error}, found {text!r}{meant}") from None
        if name == MIN_IN_SYNC and (wrong := too_few_copies(value, self._settings["queue_replicas"])):
            raise SetError(f"{name}: {wrong}")
        if name == PATIENCE and (wrong := too_impatient(value)):
            raise SetError(f"{name}: {wrong}")
        if name == LEVEL and (wrong := from_or_to_off(value, self._settings[LEVEL])):
            raise SetError(f"{name}: {wrong}")
        return value

    def changeable(self, key: Key) -> bool:
        """True if a change of this key takes effect while the node runs."""
        if not key.runtime or key.effect != ACTIVE:
            return False
        overlay = self._overlay()
        from_settings(overlay)
        return key.name in overlay.asked

    def _texts(self) -> dict[str, str]:
        return {**self._global, **self._own}

    def _overlay(self) -> _Overlay:
        keys = schema().keys
        return _Overlay(self._settings, {name: keys[name].parse(text) for name, text in self._texts().items()})

    def _change(self, node: str, key: str, text: str | None) -> None:
        table = self._table(node)
        if table is None:
            return
        before = self._texts()
        if text is None:
            table.pop(key, None)
        else:
            table[key] = text
        self._apply(before)

    def _apply(self, before: dict[str, str]) -> None:
        now = self._texts()
        names = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
        if not names:
            return
        changed = from_settings(self._overlay())
        for field in Options.__struct_fields__:
            setattr(self.options, field, getattr(changed, field))
        self.applied([Change(name, *[self._value(name, texts) for texts in (before, now)]) for name in names])

    def _value(self, key: str, texts: Mapping[str, str]) -> str | None:
        return texts[key] if key in texts else self.configured(key)


def _unknown(name: str) -> SetError:
    near = schema().nearest(name)
    return SetError(f"{name}: unknown key{f'; did you mean {near}?' if near else ''}")


def _copy_of(node: str, key: str) -> bytes:
    return _COPY + node.encode() + _END + key.encode()


def _written(name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise SetError(f"{name}: the stored value is not text: {error}") from None
