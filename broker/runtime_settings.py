r"""Settings that are changed while the node runs: what was set for this node counts more than what was set
for all nodes, and both count more than the files. They are kept, and outlive restarts.

What may be changed is what the configuration's reference marks so and the node's options are made of. A change counts
from the next time that somebody looks: many limits are looked at when a client connects.

A node without a way to others keeps them in its own store: `nset.KEY` for itself, `nset.\0KEY` for all. One with a way
keeps them where all nodes have them (`shared_config.py`): `nset.NODE\0KEY`, and no NODE for all. What of that is for
this node it copies into its own store (`nsetcopy.`): when it starts, sessions and their limits come before the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..configs import Key, Settings, schema
from ..configs.schema import ACTIVE
from ..configs.settings import is_secret
from ..configs.values import Value, WrongValueError
from ..storage.keys import after
from .options import Options, from_settings
from .shared_config import Shelf

EVERYWHERE = ""
"""In place of the name of a node: for all nodes, also those that join later."""
_PREFIX = b"nset."
_COPY = b"nsetcopy."
_END = b"\0"


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
    """What was changed at run time, and the node's `options` that follow from it, changed in place.

    `applied` is called with the keys whose value has changed, `told` with a line for the log about what came from
    another node and its level.
    """

    def __init__(self, settings: Settings, shelf: Shelf, node: str = "this node") -> None:
        self._settings = settings
        self._store = self._shelf = shelf
        self._node = node
        self._shared = False
        self._own: dict[str, str] = {}
        self._global: dict[str, str] = {}
        self.applied: Callable[[Sequence[str]], None] = lambda names: None
        self.told: Callable[[str, str], None] = lambda level, line: None
        self.problems: list[str] = []
        """Stored changes that this version cannot apply, one line for each."""
        self._read()
        self.options: Options = from_settings(self._overlay())

    def share(self, shelf: Shelf) -> None:
        """From now on keep them in the store of the cluster; those that this node kept for itself move there, once."""
        store, rows = self._store, self._store.scan(_PREFIX, after(_PREFIX))
        kept = [(*self._whose(place), value) for place, value in rows]
        self._shelf, self._shared = shelf, True
        for node, name, value in kept:
            place = self._place(node, name)
            # a value in the cluster for all nodes counts more: an operator set it there for all of them
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
        """The keys that are changed, by name."""
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

    def configured(self, key: str) -> str | None:
        """The value from files, environment and defaults, in the form of vernemq.conf; secrets are hidden.

        Raises `SetError` for a key that there is not.
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
        """The value that counts. Raises `SetError` for a key that there is not."""
        changed = self.text(key)
        return changed if changed is not None else self.configured(key)

    def set(self, key: str, text: str, node: str | None = None) -> None:
        """Change a setting now and for later starts: of this node if `node` is None, of that one, or `EVERYWHERE`.

        Raises `SetError`; then nothing has changed.
        """
        self._parsed(key, text)
        whose = self._node if node is None else node
        self._shelf.put(self._place(whose, key), text.encode())
        self._copy(whose, key, text.encode() if self._shared else None)
        self._change(whose, key, text)

    def reset(self, key: str, node: str | None = None) -> bool:
        """Let what counts less count again; False if the key was not changed there. `node` as for `set`."""
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
        """Another node changed something on the shelf, perhaps nothing of ours."""
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
        """Copy the cluster's values for this node into the node's own store."""
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
        """Node and key of a place."""
        node, end, key = place[len(_PREFIX) :].decode(errors="replace").partition(_END.decode())
        return (node, key) if end else (self._node, node)

    def _parsed(self, name: str, text: str) -> Value:
        key = schema().keys.get(name)
        if key is None:
            raise _unknown(name)
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
        self.applied(names)


def _unknown(name: str) -> SetError:
    near = schema().nearest(name)
    return SetError(f"{name}: unknown key{f', did you mean {near}?' if near else ''}")


def _copy_of(node: str, key: str) -> bytes:
    return _COPY + node.encode() + _END + key.encode()


def _written(name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise SetError(f"{name}: the stored value is no text: {error}") from None
