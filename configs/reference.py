"""The reference of all keys: meaning, values, default and effect. It is generated from the schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from .schema import ACTIVE, LATER, LISTENER_GROUP, LISTENER_TYPES, NONE, Key, Schema, schema

EFFECTS = {ACTIVE: "yes", NONE: "no effect", LATER: "not implemented"}

_INTRODUCTION = """\
# Configuration

The file is VerneMQ's `vernemq.conf`: one `key = value` per line, comments from `#` to the end of the line, a value that
contains a `#` in single quotes. A later line overrides an earlier one. The files `conf.d/*.conf` beside it override the
file, except those whose name begins with a dot. Environment variables `DOCKER_VERNEMQ_*` override both. `$(key)` in a
value stands for the value of another key.

A relative path, such as the default `./data`, begins at the directory in which the command runs, and not at that of the
file: `strogoff start -c ../vernemq.conf` makes `data` where you are. A service has absolute paths, or always the same
current directory. If a node makes a new data directory, its log names the absolute path.

A node with an unknown key or a wrong value does not start; it reports all errors at once. `strogoff config check FILE`
checks a file, the environment variables, the modules of plugins, and the certificates, password files and ACL files
that a start would read, without starting a node; `strogoff config reference` prints this page.

**Effect**: *yes*: the key works. *No effect*: the key has no meaning in this broker and is accepted; the node logs all
such keys once at start. *Not implemented*: this version lacks the feature; the value is checked, and a value other than
the default is a warning at start. *Run time* marks keys that `vmq-admin set` changes, for one node or for all
([operations.md](operations.md#settings)). Its values override all others. Keys under a heading that begins with
"Strogoff" do not exist in VerneMQ.

In VerneMQ's durations `m` is four weeks and `y` is 48 weeks; minutes do not exist. A dash means "no default".
"""

_LISTENERS = """\
The first level that sets an option counts: `listener.TYPE.NAME.OPTION`, then `listener.TYPE.OPTION`, then
`listener.OPTION` if that exists, then the default. A listener opens only if it is configured. In the column *types*,
T is an option of all listeners of the type, N an option of one listener.
"""


def reference(markdown: bool, word: str = "") -> str:
    """The reference as plain text or as a Markdown page. `word` selects the keys that contain it."""
    known = schema()
    keys = [key for key in known.keys.values() if word in key.name]
    if not markdown:
        return "\n".join(_paragraph(key) for key in keys)
    parts = [] if word else [_INTRODUCTION]
    for group, found in groupby(keys, key=lambda key: key.group):
        members = list(found)
        parts.append(f"## {group}\n")
        parts += _listener_tables(known, members) if group == LISTENER_GROUP else [_table(members)]
    if not word:
        parts.append(_removed(known))
    return "\n".join(parts)


def _paragraph(key: Key) -> str:
    ours = ", ours" if key.ours else ""
    lines = [
        key.name,
        f"    {key.meaning}",
        f"    values: {key.expected}",
        f"    default: {_shown(key.default)}",
        f"    effect: {EFFECTS[key.effect]}{ours}",
    ]
    return "\n".join(lines) + "\n"


def _table(keys: Iterable[Key]) -> str:
    rows = ["| key | values | default | effect | run time | meaning |", "|---|---|---|---|---|---|"]
    for key in keys:
        run_time = "yes" if key.runtime else ""
        cells = [f"`{key.name}`", key.expected, _code(key.default), EFFECTS[key.effect], run_time, key.meaning]
        rows.append(_row(cells))
    return "\n".join(rows) + "\n"


def _listener_tables(known: Schema, keys: list[Key]) -> Iterator[str]:
    """A table with one row for each option, then the list of all keys."""
    names = {key.name for key in keys}
    rows = ["| option | types | values | default | effect | meaning |", "|---|---|---|---|---|---|"]
    for option in known.options:
        first = known.keys[option.keys[0][1]]
        if first.name not in names:
            continue
        types = []
        for type_ in LISTENER_TYPES:
            levels = "".join("N" if one else "T" for for_type, _, one in option.keys if for_type == type_)
            types += [f"{type_}:{levels}"] if levels else []
        option_name = f"`{option.option}`" if option.option else "(address)"
        cells = [
            option_name,
            " ".join(types),
            first.expected,
            _code(first.default),
            EFFECTS[first.effect],
            first.meaning,
        ]
        rows.append(_row(cells))
    yield _LISTENERS
    yield "\n".join(rows) + "\n"
    yield "All keys of listeners:\n"
    yield "\n".join(f"- `{key.name}`" for key in keys) + "\n"


def _removed(known: Schema) -> str:
    rows = ["## Removed keys", "", "Each of these keys causes a warning at the start.", ""]
    rows += ["| key | meaning now |", "|---|---|"]
    for entry in known.removed.values():
        instead = f"; use {entry.replacement}" if entry.replacement else ""
        rows.append(_row([f"`{entry.name}`", f"{entry.meaning}{instead}"]))
    return "\n".join(rows) + "\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _shown(default: str | None) -> str:
    return "-" if default is None else default or "(empty)"


def _code(default: str | None) -> str:
    return "-" if default is None else f"`{default}`" if default else "(empty)"
