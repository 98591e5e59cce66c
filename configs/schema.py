"""The keys of vernemq.conf as data: the tables of `keys/`, read once at first use.

The user chooses segments that are written `$name`. `find` prefers the most literal key that matches, so
`listener.tcp.max_connections` is the option of all TCP listeners and never a listener called "max_connections".
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from .values import Value, WrongValueError, expected_text, parse_value

KEYS = Path(__file__).parent / "keys"
TABLES = ("broker", "storage", "strogoff", "cluster", "plugins", "bridges", "databases", "operations", "erlang")
LISTENER_TYPES = ("tcp", "ssl", "ws", "wss", "vmq", "vmqs", "http", "https")
LISTENER_GROUP = "Listener options"

TEXTS, LISTS = ("string", "file", "directory"), ("hosts", "clients", "filters")
"""Types of values that may be empty."""
ACTIVE, NONE, LATER = "active", "none", "later"
"""Effects: the key works; it has no meaning in this broker; this version lacks the feature."""

_UNIT = re.compile(r"(?:Most )?(Seconds|Milliseconds|Bytes)\b|[^.;]*, in (bytes)\b", re.IGNORECASE)
"""The beginning of the meaning of a key that is a time or a size."""


class Key(msgspec.Struct, frozen=True):
    """One key. `default` is the text of the default, None if there is none."""

    name: str
    type: str
    allowed: str
    default: str | None
    effect: str
    hidden: bool
    runtime: bool
    example: str
    meaning: str
    group: str

    @property
    def ours(self) -> bool:
        """Whether only Strogoff has this key."""
        return self.group.startswith("Strogoff")

    @property
    def expected(self) -> str:
        """The allowed values in words."""
        return expected_text(self.type, self.allowed)

    def parse(self, text: str) -> Value:
        """The value of a text; raises `WrongValueError`. If text is allowed, `""` and `[]` mean "no value"."""
        if text in ('""', "[]"):
            if self.type in LISTS:
                return ()
            if self.type in TEXTS:
                text = ""
        try:
            return parse_value(self.type, self.allowed, text)
        except WrongValueError as error:
            if not self.unit:
                raise
            raise WrongValueError(f"{error.expected} ({self.unit})", self._in_unit(text) or error.suggestion) from None

    @property
    def unit(self) -> str:
        """What a number counts, if it is a time or a size: seconds, milliseconds or bytes; else ""."""
        found = _UNIT.match(self.meaning) if self.type == "integer" else None
        return next((each.lower() for each in found.groups() if each), "") if found is not None else ""

    def _in_unit(self, text: str) -> str:
        """The number that a text with a unit stands for, such as 20 for 20s; "" if it is no value of this key."""
        try:
            amount = parse_value("bytesize" if self.unit == "bytes" else "duration", "", text)
            number = f"{amount * 1000 if self.unit == 'milliseconds' else amount:.15g}"
            parse_value(self.type, self.allowed, number)
        except WrongValueError:
            return ""
        return number

    def default_value(self) -> Value:
        """The default, without substitutions; None if there is none."""
        return None if self.default is None else self.parse(self.default)


class ListenerOption(msgspec.Struct, frozen=True):
    """An option of listeners and the keys by which it can be set: `(type, name of the key, is for one listener)`."""

    option: str
    keys: tuple[tuple[str, str, bool], ...]


class Removed(msgspec.Struct, frozen=True):
    """A key of old versions of VerneMQ. `action`: warn, or netsplit for `trade_consistency`."""

    name: str
    action: str
    replacement: str
    meaning: str


class Schema:
    """All keys."""

    def __init__(self, keys: list[Key], options: list[ListenerOption], removed: list[Removed]) -> None:
        self.keys = {key.name: key for key in keys}
        self.options = options
        self.removed = {entry.name: entry for entry in removed}
        self._tree: dict[str, Any] = {}
        for key in keys:
            node = self._tree
            for segment in key.name.split("."):
                node = node.setdefault("$" if segment.startswith("$") else segment, {})
            node[""] = key

    def find(self, name: str) -> Key | None:
        """Returns the key for a name in a file, or None."""
        return self.keys.get(name) or _walk(self._tree, name.split("."), 0)

    def nearest(self, name: str) -> str:
        """The known key most similar to this name, with the names that the user chose; empty if none is similar."""
        parts = name.split(".")
        candidates = []
        for key in self.keys:
            segments = key.split(".")
            if "$" not in key:
                candidates.append(key)
            elif len(segments) == len(parts):
                pairs = zip(segments, parts, strict=True)
                candidates.append(".".join(own if known.startswith("$") else known for known, own in pairs))
        near = get_close_matches(name[:200].lower(), candidates, 1, 0.75)
        return near[0] if near and near[0] != name else ""

    def nearest_option(self, name: str) -> str:
        """The key `listener.TYPE.OPTION` whose option is most similar to this name; empty if none is similar."""
        prefix, _, option = name.rpartition(".")
        options = [key.rpartition(".")[2] for key in self.keys if key.rpartition(".")[0] == prefix and "$" not in key]
        near = get_close_matches(option[:200].lower(), options, 1, 0.75)
        return f"{prefix}.{near[0]}" if near else ""


def _walk(node: dict[str, Any], parts: list[str], at: int) -> Key | None:
    if at == len(parts):
        return node.get("")
    part = parts[at]
    for step in (part, "$"):
        below = node.get(step) if part else None
        found = _walk(below, parts, at + 1) if below is not None and step != "" else None
        if found is not None:
            return found
    return None


@lru_cache(maxsize=1)
def schema() -> Schema:
    """The schema, read from the tables at the first call."""
    keys: list[Key] = []
    for table in TABLES:
        group = ""
        for cells in _rows(f"{table}.tsv"):
            if len(cells) == 1:
                group = cells[0].removeprefix("## ")
                continue
            name, kind, allowed, default, effect, visibility, runtime, example, meaning = cells
            hidden = visibility == "hidden"
            text = _default(default)
            keys.append(Key(name, kind, allowed, text, effect, hidden, runtime == "set", example, meaning, group))
        if table == "broker":
            options, more = _listener_options()
            keys.extend(more)
    removed = [Removed(*cells) for cells in _rows("removed.tsv")]
    return Schema(keys, options, removed)


def _listener_options() -> tuple[list[ListenerOption], list[Key]]:
    """Each row stands for `listener.TYPE.OPTION` (T) and `listener.TYPE.$name.OPTION` (N) of several types."""
    options: list[ListenerOption] = []
    keys: list[Key] = []
    for cells in _rows("listeners.tsv"):
        if len(cells) == 1:
            continue
        option, where, kind, allowed, default, effect, shown, example, meaning = cells
        mine = [(place.split(":")[0], level) for place in where.split() for level in place.split(":")[1]]
        names = []
        for type_, level in mine:
            name = ".".join(["listener", type_, *(["$name"] if level == "N" else []), *([option] if option else [])])
            names.append((type_, name, level == "N"))
            hidden = f"{type_}:{level}" not in shown.split()
            text = _default(default)
            keys.append(Key(name, kind, allowed, text, effect, hidden, False, example, meaning, LISTENER_GROUP))
        options.append(ListenerOption(option, tuple(names)))
    return options, keys


def _rows(file: str) -> list[list[str]]:
    """The rows of a table: cells, or one cell for the title of a group; it skips the heading."""
    lines = (KEYS / file).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and (not line.startswith("#") or line.startswith("## "))]


def _default(text: str) -> str | None:
    return None if text == "" else "" if text == '""' else text
