"""`strogoff config check FILE` and `strogoff config reference`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from .loader import load
from .problems import ConfigError, Problem
from .reference import reference
from .secret_keys import is_secret
from .settings import Settings
from .shipped import shipped_conf

WhatStops = Callable[[Settings, Callable[[str, str], None]], Iterable[str]]
"""Yields a sentence for each problem of the settings that stops the start of a node, and logs warnings."""


def check(path: Path | str, what_stops: WhatStops, environ: Mapping[str, str] = {}) -> tuple[int, str]:
    """Load a file as `strogoff start` does, and look for what would stop the start, without starting a node.

    The modules of plugins are not imported. Returns the exit status (0 or 1) and a report.
    """
    try:
        settings = load(Path(path), environ)
        stopped = what_stops(settings, lambda _, text: settings.notices.append(text))
        problems = [Problem(str(path), 0, "", sentence) for sentence in stopped]
        if problems := [*_missing_modules(settings), *problems]:
            raise ConfigError(problems)
    except ConfigError as error:
        return 1, str(error)
    return 0, "\n".join([f"{path}: no errors", *_summary(settings)])


def register(parser: argparse.ArgumentParser, what_stops: WhatStops) -> None:
    """Add the two subcommands of `strogoff config`."""
    parser.usage = "strogoff config check FILE | strogoff config reference [--text | --conf] [WORD]"
    commands = parser.add_subparsers(prog="strogoff config", metavar="check | reference", required=True)
    checks = commands.add_parser("check", description="Look for mistakes in a vernemq.conf.")
    checks.add_argument("file", help="the vernemq.conf; the conf.d/*.conf beside it are read too")
    checks.set_defaults(run=partial(_check, what_stops))
    explains = commands.add_parser("reference", description="Explain the keys of vernemq.conf.")
    form = explains.add_mutually_exclusive_group()
    form.add_argument("--text", action="store_true", help="plain text instead of markdown")
    form.add_argument("--conf", action="store_true", help="a vernemq.conf with every documented key and its default")
    explains.add_argument("word", nargs="?", default="", help="only keys that contain this")
    explains.set_defaults(run=_reference)


def _check(what_stops: WhatStops, arguments: argparse.Namespace) -> int:
    code, text = check(arguments.file, what_stops, os.environ)
    print(text)
    return code


def _reference(arguments: argparse.Namespace) -> int:
    text = shipped_conf() if arguments.conf else reference(not arguments.text, arguments.word)
    print(text, end="")
    return 0 if text else 1


def _missing_modules(settings: Settings) -> Iterator[Problem]:
    for plugin in settings.python_plugins():
        key = f"plugins.python.{plugin.name}"
        try:
            found = find_spec(plugin.module)
        except Exception:  # the package above the module is missing, or fails
            found = None
        setting = settings.explicit(key)
        if found is None and setting is not None:
            said = "this Python finds no such module: if the service has a PYTHONPATH, set the same one for this check"
            yield Problem(setting.line.file, setting.line.line, key, said, "", plugin.module)


def _summary(settings: Settings) -> list[str]:
    lines = [f"listener {each.type} {each.name} at {each.address}" for each in settings.listeners()]
    lines += [f"warning: {notice}" for notice in settings.notices]
    for key, value in settings.changed().items():
        setting = settings.explicit(key)
        if setting is not None and not key.startswith("listener."):
            written = value if isinstance(value, str) else setting.line.text
            lines.append(f"{key} = {'(hidden)' if is_secret(key) else written} from {settings.source(key)}")
    return lines
