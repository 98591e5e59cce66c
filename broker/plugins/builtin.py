"""The plugins that come with the broker and those that vernemq.conf names, put into a node's hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...configs import Settings
from .acl import AclPlugin
from .hooks import Hooks, load_plugin
from .passwords import PasswordPlugin
from .watched_file import WatchedFile

Log = Callable[[str, str], None]


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
            self._watch(settings, "vmq_passwd.password_file", "vmq_passwd.password_reload_interval", passwords.reloader)
        if settings["plugins.vmq_acl"]:
            acl = AclPlugin()
            hooks.add("vmq_acl", acl, settings["plugins.vmq_acl.priority"] or 0)
            self._watch(settings, "vmq_acl.acl_file", "vmq_acl.acl_reload_interval", acl.reloader)
        for number, plugin in enumerate(settings.python_plugins()):
            priority = plugin.priority if plugin.priority is not None else 1000 + number
            hooks.add(plugin.name, load_plugin(f"{plugin.module}:{plugin.class_name}", {}), priority)
        for listener in settings.listeners():
            for chain in (listener.auth_plugins, listener.authz_plugins):
                hooks.check_chain(chain or ())

    def _watch(self, settings: Settings, key: str, interval_key: str, reloader: Any) -> None:
        path = Path(str(settings[key]))
        missing = not path.exists()
        open_to_all = missing and settings.source(key) == "default" and key == "vmq_acl.acl_file"
        if open_to_all:
            # the file that VerneMQ installs: everybody may publish and subscribe everything, until `path` exists
            WatchedFile(Path(str(files("strogoff.configs") / "vmq.acl")), reloader).check()
        watched = WatchedFile(path, reloader)
        watched.check()
        if missing:
            anonymous, reads_again = bool(settings["allow_anonymous"]), bool(settings[interval_key])
            self._say_missing(key, path, anonymous, reads_again, open_to_all)
        elif watched.problem:
            raise PluginFileError(f"{key}: {watched.problem}")
        interval = settings[interval_key]
        assert isinstance(interval, int | float)
        self._watches.append((watched, float(interval)))

    def _say_missing(self, key: str, path: Path, anonymous: bool, watched: bool, open_to_all: bool) -> None:
        """Log a missing file. It counts as empty, as in VerneMQ: no client has a password or a permission.

        `open_to_all`: it is the ACL file that nobody has configured, so each client has each permission.
        """
        then = "it is read as soon as it exists" if watched else "create it and start the node again"
        if open_to_all:
            said = "every client that is let in may publish and subscribe everything. Write rules into that file"
            self._log("warning", f"{key}: there is no {path.absolute()}: {said}; {then}")
        elif key == "vmq_acl.acl_file":
            self._log("warning", f"{key}: there is no {path.absolute()}: no client may publish or subscribe; {then}")
        elif not anonymous:
            self._log("warning", f"{key}: there is no {path.absolute()}: no client can log in with a password; {then}")

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
