"""`show`, `describe`, `set` and `config`: the configuration in force, and changes of it at run time (INV 1.14)."""

from __future__ import annotations

from ...broker.runtime_settings import SetError
from ...configs import Key as ConfigKey
from ...configs import schema
from ...configs.reference import EFFECTS
from ...configs.settings import is_secret
from ..context import Context
from ..reply import Cell, CommandError, Part, Table, Text
from ..words import Call, Command, Flag


def _known(name: str) -> ConfigKey:
    key = schema().find(name)
    if key is None:
        near = schema().nearest(name)
        raise CommandError(
            f"{name}: unknown key. {f'Did you mean {near}?' if near else '`strogoff config reference` lists all.'}"
        )
    return key


def _configured(context: Context, name: str) -> Cell:
    """What files, environment and defaults say, as it would stand in vernemq.conf."""
    settings = context.server.settings
    key, setting, value = _known(name), settings.explicit(name), settings[name]
    if is_secret(name):
        return "(hidden)"
    if isinstance(value, str):
        return value
    return setting.line.text if setting is not None else key.default


def _in_force(context: Context, name: str) -> Cell:
    changed = context.server.runtime.text(name)
    return changed if changed is not None else _configured(context, name)


async def _show(context: Context, call: Call) -> list[Part]:
    return [Table(("node", *call.rest), [(context.node.name, *(_in_force(context, name) for name in call.rest))])]


async def _describe(context: Context, call: Call) -> list[Part]:
    parts: list[Part] = []
    for name in call.rest:
        key = _known(name)
        run_time = "yes" if context.server.runtime.changeable(key) else "no"
        lines = [
            name,
            f"  {key.meaning}",
            f"  values: {key.expected}",
            f"  default: {'-' if key.default is None else key.default or '(empty)'}",
            f"  effect: {EFFECTS[key.effect]}",
            f"  can be set at run time: {run_time}",
        ]
        parts.append(Text("\n".join(lines)))
    return parts


async def _set(context: Context, call: Call) -> list[Part]:
    runtime = context.server.runtime
    wanted = []
    for word in call.rest:
        name, equals, text = word.partition("=")
        if not equals:
            raise CommandError(f"{word}: KEY=VALUE is expected.")
        wanted.append((name, text))
    try:
        for name, text in wanted:
            runtime.check(name, text)
        for name, text in wanted:
            runtime.set(name, text)
            context.server.log("notice", f"vmq-admin: {name} = {text}, until `config reset`")
    except SetError as error:
        raise CommandError(f"{error}. Nothing was changed.") from None
    _changed(context, [name for name, _ in wanted])
    await context.committed()
    return [Text(f"{name} = {text}") for name, text in wanted]


def _changed(context: Context, names: list[str]) -> None:
    if any(name.startswith("systree_") for name in names):
        context.node.wake()
        context.server.systree.start()


async def _config_show(context: Context, call: Call) -> list[Part]:
    settings, runtime = context.server.settings, context.server.runtime
    wanted = call.flag("key", None)
    names = [wanted] if wanted is not None else sorted({*settings, *runtime})
    rows: list[tuple[Cell, ...]] = [(name, _configured(context, name), runtime.text(name)) for name in names]
    return [Table(("Config", "Env", "Node"), rows)]


async def _config_reset(context: Context, call: Call) -> list[Part]:
    name = call.flag("key", None)
    if name is None:
        raise CommandError("--key=KEY must be given.")
    if not context.server.runtime.reset(name):
        raise CommandError(f"{name} was not set at run time.")
    _changed(context, [name])
    await context.committed()
    context.server.log("notice", f"vmq-admin: {name} = {_configured(context, name)} again")
    return [Text(f"{name} = {_configured(context, name)}")]


COMMANDS = (
    Command("show", "The values in force.", _show, rest="KEY ..."),
    Command("describe", "What a key means and which values it takes.", _describe, rest="KEY ..."),
    Command(
        "set",
        "Change settings now; they outlive restarts and count more than vernemq.conf until `config reset`.",
        _set,
        rest="KEY=VALUE ...",
    ),
    Command(
        "config show",
        "What files and environment set (Env) and what was set at run time (Node).",
        _config_show,
        flags=(Flag("key", "only this key", "k", "KEY"),),
    ),
    Command(
        "config reset",
        "Forget what was set at run time: the files count again.",
        _config_reset,
        flags=(Flag("key", "the key", "k", "KEY"),),
    ),
)
