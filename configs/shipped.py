"""The shipped vernemq.conf: every documented key with meaning and default. It is generated from the schema."""

from __future__ import annotations

from itertools import groupby
from textwrap import wrap

from .reference import EFFECTS
from .schema import ACTIVE, LISTENER_GROUP, Key, schema
from .syntax import quoted

_HEAD = """\
## Configuration of a node. Lines that begin with # are comments. A later line overrides an earlier one. The node reads
## the files conf.d/*.conf beside this file after it. `strogoff config check FILE` finds mistakes, `strogoff config
## reference` explains every key, also the keys that are not in this file.
##
## A line without # sets a key to its default. A key behind one # is a path with its default, an example, or a key that
## has no effect; the comment above it says so. VerneMQ opens no MQTT listener by default. This file opens one, for
## clients on this machine only: see listener.tcp.default.
"""
_OPEN = {"listener.tcp.$name": "listener.tcp.default = 127.0.0.1:1883"}
_OPEN["listener.http.$name"] = "listener.http.default = 127.0.0.1:8888"
_WIDTH = 117


def shipped_conf() -> str:
    """Returns the text of configs/vernemq.conf."""
    parts = [_HEAD]
    keys = [key for key in schema().keys.values() if not key.hidden]
    for group, members in groupby(keys, key=lambda key: key.group):
        parts.append(f"\n##### {group} {'#' * (_WIDTH - 4 - len(group))}\n")
        parts += [_entry(key) for key in members]
    return "\n".join(parts)


def _entry(key: Key) -> str:
    said = key.meaning
    if key.effect != ACTIVE:
        said += f" [{EFFECTS[key.effect]}]"
    lines = [f"## {line}" for line in wrap(said, _WIDTH, break_long_words=False, break_on_hyphens=False)]
    lines += [f"## {line}" for line in wrap(f"Values: {key.expected}", _WIDTH, break_on_hyphens=False)]
    return "\n".join([*lines, _assignment(key), ""])


def _assignment(key: Key) -> str:
    """The line of a key. It is a comment if the key has no effect or contains a name that the user chooses.

    Paths are comments too, because a file that the configuration names must exist.
    """
    opened = _OPEN.get(key.name)
    if opened is not None:
        return opened
    name = ".".join("name" if segment.startswith("$") else segment for segment in key.name.split("."))
    works = key.effect == ACTIVE and key.default and key.type not in ("file", "directory")
    if works and "$" not in key.name and key.group != LISTENER_GROUP:
        return f"{name} = {key.default}"
    value = key.example or key.default or ""
    return f"# {name} = {quoted(value)}".rstrip()
