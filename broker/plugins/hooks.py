"""Hooks: the broker calls plugins to ask for permission and to report events (docs/plugins.md).

A plugin is any object whose methods are named after hooks; a method may be synchronous or asynchronous. `Hooks` knows
which plugin implements which hook, and their order, and turns their return values into a `Verdict`. An answer comes at
once unless one of the called plugins is asynchronous. An error of a plugin refuses the operation and is reported; it
never disturbs the session.
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from inspect import Parameter, isawaitable, signature
from typing import Any, Final, NamedTuple

from .hook_compat import answer_from_v4, args_for_v4
from .hook_table import HOOKS, HookSpec
from .loader import PluginError, load_plugin
from .notifications import Lanes, NotificationsDropped, OnError, Spawn
from .verdicts import NEXT, Allow, Answer, Refuse, Subscriber, Verdict, answer_of, connack_code

__all__ = [
    "NEXT",
    "Allow",
    "Answer",
    "Hooks",
    "NotificationsDropped",
    "PluginError",
    "Refuse",
    "Subscriber",
    "Verdict",
    "connack_code",
    "load_plugin",
]

NO_HOOK: Final = Refuse("no_matching_hook_found")
EXHAUSTED: Final = Refuse("plugin_chain_exhausted")
BROKEN: Final = Refuse("plugin_error")
PLAIN: Final = frozenset({Allow, Refuse, type(NEXT), type(None), bool, dict, str})
"""Types that are never awaitable: saves the slow check for every PUBLISH (1 us)."""


class _Implementer(NamedTuple):
    """One plugin's method for one hook. `v4` is set where it is the v3 form of that hook, called for a v5 client."""

    plugin: str
    method: Callable[..., object]
    spec: HookSpec
    most: int
    v4: HookSpec | None
    cacheable: bool

    def call(self, args: tuple[Any, ...]) -> object:
        if self.v4 is not None:
            args = args_for_v4(self.spec, args)
        return self.method(*args[: self.most])

    def answer(self, args: tuple[Any, ...], value: object) -> Answer:
        if self.v4 is None:
            return answer_of(self.spec, args, value)
        # topics stand before properties in both forms, so the v5 arguments do for the check
        return answer_from_v4(self.spec, args, answer_of(self.v4, args, value))


class Hooks:
    """All plugins of a node.

    Ports: `on_error(plugin, hook, exception)`; `spawn(coroutine)` for asynchronous notifications; `within(awaitable)`
    puts a limit of time on an asynchronous answer (by raising TimeoutError); `apart(awaitable)` raises an `Exception`
    where the awaitable raises CancelledError by itself, and nobody has cancelled the task that waits for it. At most
    `max_notifications` asynchronous notifications are unfinished at a time.

    `epoch` changes whenever cached answers may have become wrong.
    """

    def __init__(
        self,
        *,
        on_error: OnError | None = None,
        spawn: Spawn | None = None,
        within: Callable[[Awaitable[object]], Awaitable[object]] = lambda work: work,
        max_notifications: int = 1000,
        apart: Callable[[Awaitable[object]], Awaitable[object]] = lambda work: work,
    ) -> None:
        self._on_error = _warn if on_error is None else on_error
        self._within = within
        self._lanes = Lanes(_no_spawn if spawn is None else spawn, self._on_error, max_notifications, apart)
        self._apart = apart
        self._plugins: dict[str, tuple[int, dict[str, _Implementer]]] = {}
        self._found: dict[tuple[str, tuple[str, ...] | None], tuple[_Implementer, ...]] = {}
        self.epoch = 0

    # -- plugins

    def add(self, name: str, plugin: object, priority: int = 0) -> None:
        """Add a plugin under a name of its own; lower priorities are asked first, equal ones in the order of adding.

        PluginError if the name is taken or the plugin's methods are not what the hooks need.
        """
        if name in self._plugins:
            raise PluginError(f"a plugin named {name!r} is already there")
        self._plugins[name] = (priority, _implementers_of(name, plugin))
        self._plugins = dict(sorted(self._plugins.items(), key=lambda item: item[1][0]))
        self._changed()

    def remove(self, name: str) -> None:
        """Take a plugin out. KeyError if there is none of that name."""
        del self._plugins[name]
        self._changed()

    def invalidate(self) -> None:
        """Invalidate cached answers: a plugin's rules have changed."""
        self.epoch += 1

    def _changed(self) -> None:
        self._found.clear()
        self.invalidate()

    @property
    def names(self) -> tuple[str, ...]:
        """The plugins in the order in which they are asked."""
        return tuple(self._plugins)

    def implemented_by(self, name: str) -> tuple[str, ...]:
        """The hooks that a plugin implements itself. KeyError if there is none of that name."""
        return tuple(hook for hook, it in self._plugins[name][1].items() if it.v4 is None)

    def check_chain(self, chain: Sequence[str]) -> None:
        """PluginError unless a listener's `auth_plugins` or `authz_plugins` names enabled plugins, each once."""
        for at, name in enumerate(chain):
            if name not in self._plugins:
                raise PluginError(
                    f"no plugin named {name!r} is enabled; enabled are: {', '.join(self.names) or 'none'}"
                )
            if name in chain[:at]:
                raise PluginError(f"the plugin {name!r} is named twice in a chain")

    # -- asking and telling

    def has(self, hook: str, chain: Sequence[str] | None = None) -> bool:
        """True if a plugin, of those that `chain` names if it is given, implements the hook, or its v3 form."""
        return bool(self._implementers(hook, chain))

    def ask(self, hook: str, *args: Any, chain: Sequence[str] | None = None) -> Verdict | Awaitable[Verdict]:
        """The verdict of the first plugin that does not answer NEXT (`till_ok`).

        `chain` names the plugins to ask, in that order, instead of all. Refused with `no_matching_hook_found` if no
        plugin implements the hook, `plugin_chain_exhausted` if all answered NEXT, `plugin_error` if a plugin failed.
        KeyError for a hook that does not exist. The result is awaitable only if an asynchronous plugin was asked.
        """
        implementers = self._implementers(hook, chain)
        if not implementers:
            return NO_HOOK
        return self._ask(implementers, args, True)

    def notify(self, hook: str, *args: Any) -> None:
        """Tell all plugins (`all`). Asynchronous ones run in the background, for one client in order."""
        for it in self._implementers(hook, None):
            try:
                work = it.call(args)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                self._on_error(it.plugin, hook, error)
                continue
            if work is not None and isawaitable(work):
                told = it.spec.arguments
                client = args[told.index("subscriber")] if "subscriber" in told else None
                self._lanes.add(it.plugin, hook, client, work)

    def _ask(
        self, implementers: tuple[_Implementer, ...], args: tuple[Any, ...], cacheable: bool
    ) -> Verdict | Awaitable[Verdict]:
        for at, it in enumerate(implementers):
            try:
                value = it.call(args)
                if type(value) not in PLAIN and isawaitable(value):
                    return self._wait(implementers[at:], args, value, cacheable)
                answer = it.answer(args, value)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # also CancelledError and SystemExit: nobody cancels what does not wait
                return self._failed(it, error)
            if answer is not NEXT:
                return _kept(answer, cacheable)
            cacheable = cacheable and it.cacheable
        return EXHAUSTED

    async def _wait(
        self, implementers: tuple[_Implementer, ...], args: tuple[Any, ...], work: Awaitable[object], cacheable: bool
    ) -> Verdict:
        """Await the answer of an asynchronous plugin that was asked already, then ask the rest of the chain."""
        it = implementers[0]
        try:
            answer = it.answer(args, await self._apart(self._within(work)))
        except Exception as error:
            return self._failed(it, error)
        if answer is not NEXT:
            return _kept(answer, cacheable)
        if len(implementers) == 1:
            return EXHAUSTED
        verdict = self._ask(implementers[1:], args, cacheable and it.cacheable)
        return verdict if isinstance(verdict, (Allow, Refuse)) else await verdict

    def _failed(self, it: _Implementer, error: BaseException) -> Refuse:
        self._on_error(it.plugin, it.spec.name, error)
        return BROKEN

    def _implementers(self, hook: str, chain: Sequence[str] | None) -> tuple[_Implementer, ...]:
        key = (hook, None if chain is None else tuple(chain))
        found = self._found.get(key)
        if found is None:
            if hook not in HOOKS:
                raise KeyError(f"{hook} is no hook")
            names = self.names if chain is None else [name for name in chain if name in self._plugins]
            methods = [self._plugins[name][1] for name in names]
            found = self._found[key] = tuple(own[hook] for own in methods if hook in own)
        return found


def _kept(answer: Verdict, cacheable: bool) -> Verdict:
    """An answer may be cached only if each plugin that answered NEXT before would do so every time."""
    if isinstance(answer, Allow) and answer.cacheable and not cacheable:
        return Allow(answer.modifiers)
    return answer


def _implementers_of(name: str, plugin: object) -> dict[str, _Implementer]:
    cacheable = getattr(plugin, "cacheable_hooks", ())
    methods: dict[str, tuple[Callable[..., object], int]] = {}
    for attribute in dir(plugin):
        if attribute in HOOKS:
            method = getattr(plugin, attribute)
            methods[attribute] = (method, _most_arguments(name, HOOKS[attribute], method))
        elif attribute.startswith(("on_", "auth_on_")) and callable(getattr(plugin, attribute)):
            raise PluginError(f"plugin {name!r}: {attribute} is no hook; hooks are: {', '.join(HOOKS)}")
    if not methods:
        raise PluginError(f"plugin {name!r} implements no hook; hooks are: {', '.join(HOOKS)}")
    found: dict[str, _Implementer] = {}
    for hook, spec in HOOKS.items():
        own = hook if hook in methods else spec.v4
        if own in methods:
            v4 = None if own == hook else HOOKS[own]
            found[hook] = _Implementer(name, methods[own][0], spec, methods[own][1], v4, own in cacheable)
    return found


def _most_arguments(name: str, spec: HookSpec, method: object) -> int:
    """How many of the hook's arguments the method takes; optional ones may be left out of its signature."""
    wanted = len(spec.arguments)
    if callable(method):
        parameters = list(signature(method).parameters.values())
        plain = [p for p in parameters if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
        required = sum(p.default is Parameter.empty for p in plain)
        keywords = any(p.kind is Parameter.KEYWORD_ONLY and p.default is Parameter.empty for p in parameters)
        most = wanted if any(p.kind is Parameter.VAR_POSITIONAL for p in parameters) else min(len(plain), wanted)
        if not keywords and required <= wanted - spec.optional <= most:
            return most
    raise PluginError(f"plugin {name!r}: {spec.name} must be a method with the arguments ({', '.join(spec.arguments)})")


def _warn(plugin: str, hook: str, error: BaseException) -> None:
    warnings.warn(f"plugin {plugin!r} failed in {hook}: {error!r}", RuntimeWarning, stacklevel=3)


def _no_spawn(work: Coroutine[Any, Any, None]) -> None:
    work.close()
    raise RuntimeError("an asynchronous notification needs the port `spawn`")
