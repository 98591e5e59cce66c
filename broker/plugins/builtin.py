"""The plugins that come with the broker and those that vernemq.conf names, put into a node's hooks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...configs import Settings
from .acl import AclPlugin
from .hooks import Hooks, load_plugin
from .passwords import PasswordPlugin
from .reloader import Reloader
from .watched_file import WatchedFile

Log = Callable[[str, str], None]

_PASSWORDS = "vmq_passwd.password_file"
_RULES = "vmq_acl.acl_file"
_INTERVALS = {_PASSWORDS: "vmq_passwd.password_reload_interval", _RULES: "vmq_acl.acl_reload_interval"}


class PluginFileError(Exception):
    """A configured file of a plugin is missing or broken at start; the text says which, where and why."""


class BuiltinPlugins:
    """Loads the plugins, and watches their files until `close`."""

    def __init__(self, settings: Settings, hooks: Hooks, log: Log) -> None:
        self._hooks = hooks
        self._log = log
        self._watches: list[tuple[WatchedFile, float]] = []
        self._tasks: list[asyncio.Task[None]] = []
        if settings["plugins.vmq_passwd"]:
            passwords = PasswordPlugin()
            hooks.add("vmq_passwd", passwords, settings["plugins.vmq_passwd.priority"] or 0)
            self._watch(settings, _PASSWORDS, passwords.reloader)
        if settings["plugins.vmq_acl"]:
            acl = AclPlugin()
            hooks.add("vmq_acl", acl, settings["plugins.vmq_acl.priority"] or 0)
            self._watch(settings, _RULES, acl.reloader)
        for number, plugin in enumerate(settings.python_plugins()):
            priority = plugin.priority if plugin.priority is not None else 1000 + number
            hooks.add(plugin.name, load_plugin(f"{plugin.module}:{plugin.class_name}", {}), priority)
        for listener in settings.listeners():
            for chain in (listener.auth_plugins, listener.authz_plugins):
                hooks.check_chain(chain or ())

    def _watch(self, settings: Settings, key: str, reloader: Reloader[Any]) -> None:
        watched = _opened(settings, key, reloader, self._log)
        interval = settings[_INTERVALS[key]]
        assert isinstance(interval, int | float)
        self._watches.append((watched, float(interval)))

    def start(self) -> None:
        """Start to look for changes of the files. Call it in the running event loop."""
        for watched, interval_s in self._watches:
            self._tasks.append(asyncio.create_task(self._run(watched, interval_s)))

    async def _run(self, watched: WatchedFile, interval_s: float) -> None:
        await watched.watch(interval_s, partial(self._changed, watched), self._failed)

    async def reload(self) -> None:
        """Read the files now that have changed."""
        for watched, _ in self._watches:
            await watched.look(partial(self._changed, watched), self._failed)

    def _changed(self, watched: WatchedFile) -> None:
        self._hooks.invalidate()
        self._log("info", f"{watched.path}: read again")

    def _failed(self, problem: str) -> None:
        self._log("error", f"{problem}; the old rules stay")

    async def close(self) -> None:
        """Stop to look for changes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()


def check_plugin_files(settings: Settings, log: Log) -> Iterator[str]:
    """Yield a sentence for each file of a plugin that stops the start. `log` gets the warnings of the start.

    It also gets a warning for a file that the user of this process may not read, which is not checked.
    """
    for switch, key, reloader in (
        ("plugins.vmq_passwd", _PASSWORDS, PasswordPlugin().reloader),
        ("plugins.vmq_acl", _RULES, AclPlugin().reloader),
    ):
        if not settings[switch]:
            continue
        if not _may_read(Path(str(settings[key]))):
            log("warning", f"{key}: {settings[key]} was not checked: this user may not read it")
            continue
        try:
            _opened(settings, key, reloader, log)
        except PluginFileError as error:
            yield str(error)


def _may_read(path: Path) -> bool:
    """False if the file exists and this process may not read it, or if a folder above it hides whether it exists."""
    try:
        path.stat()
    except PermissionError:
        return False
    except OSError:
        return True
    return os.access(path, os.R_OK)


def _opened(settings: Settings, key: str, reloader: Reloader[Any], log: Log) -> WatchedFile:
    """Read the file that the setting `key` names into `reloader`. Raises `PluginFileError` if it cannot be read. If it
    is missing, `log` gets a warning.

    A link to nothing does not count as missing, nor does a file in a folder that this process may not enter: there may
    be rules.
    """
    path = Path(str(settings[key]))
    missing = not _has_entry(path)
    open_to_all = missing and settings.source(key) == "default" and key == _RULES
    if open_to_all:
        # the file that VerneMQ installs: everybody may publish and subscribe everything, until `path` exists
        WatchedFile(Path(str(files("strogoff.configs") / "vmq.acl")), reloader).check()
    watched = WatchedFile(path, reloader)
    watched.check()
    if missing:
        said = _missing(key, path, bool(settings["allow_anonymous"]), bool(settings[_INTERVALS[key]]), open_to_all)
        if said:
            log("warning", said)
    elif watched.problem:
        link = f" (a link to {os.readlink(path)})" if os.path.islink(path) else ""
        raise PluginFileError(f"{key}: {watched.problem}{link}")
    return watched


def _has_entry(path: Path) -> bool:
    """False if the folder has no entry of this name. True if that cannot be found out: reading the file says why."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def _missing(key: str, path: Path, anonymous: bool, watched: bool, open_to_all: bool) -> str:
    """The warning for a missing file. It counts as empty, as in VerneMQ: no client has a password or a permission.

    `open_to_all`: it is the ACL file that nobody has configured, so each client has each permission.
    """
    then = "it is read as soon as it exists" if watched else "create it and start the node again"
    if open_to_all:
        said = "every client that is let in may publish and subscribe everything. Write rules into that file"
        return f"{key}: there is no {path.absolute()}: {said}; {then}"
    if key == _RULES:
        return f"{key}: there is no {path.absolute()}: no client may publish or subscribe; {then}"
    return "" if anonymous else f"{key}: there is no {path.absolute()}: no client can log in with a password; {then}"
