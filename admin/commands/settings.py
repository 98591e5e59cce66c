"""`show`, `describe`, `set` and `config`: the effective configuration, and changes at run time.

A change applies to one node, by default this one, or to all nodes, including those that join later.
"""

from __future__ import annotations

from ...broker.clustering.operator_port import ClusterError
from ...broker.runtime_settings import EVERYWHERE, SetError
from ...configs import Key as ConfigKey
from ...configs import schema
from ...configs.checks import in_months
from ...configs.reference import EFFECTS
from ..context import Context
from ..fan_out import ask_each
from ..grammar import NO_EFFECT, Argument, Call, Command, Flag
from ..result import Alert, Cell, CommandError, Part, Table, Text, sentence

_APP = Argument("app", NO_EFFECT, optional=True)


def _known(name: str) -> ConfigKey:
    key = schema().find(name)
    if key is None:
        near = schema().nearest(name)
        raise CommandError(
            f"{name}: unknown key. {f'Did you mean {near}?' if near else '`strogoff config reference` lists all.'}"
        )
    return key


def _members(context: Context) -> list[str]:
    cluster = context.cluster
    return [context.node.name] if cluster is None else [row.node for row in cluster.rows()]


def _one_node(context: Context, call: Call) -> str:
    """The node of `--node`; by default this one. Raises `CommandError` for an unknown node."""
    node = str(call.flag("node", context.node.name))
    known = _members(context)
    if node not in known:
        raise CommandError(f"{node} is not a member of this cluster. Members are {', '.join(known)}.")
    if call.has("all") and call.has("node"):
        raise CommandError("--all and --node exclude each other.")
    return node


async def _values(context: Context, node: str, names: list[str]) -> list[str | None]:
    if node == context.node.name:
        return [context.server.runtime.in_force(name) for name in names]
    assert context.cluster is not None
    return await context.cluster.values(node, names)


async def _show(context: Context, call: Call) -> list[Part]:
    nodes = [_one_node(context, call)]
    for name in call.positionals:
        _known(name)
    if call.has("all"):
        nodes = _members(context)

    async def ask(node: str) -> tuple[Cell, ...] | Alert:
        try:
            return (node, *await _values(context, node, call.positionals))
        except ClusterError as error:
            if len(nodes) == 1:
                raise
            return Alert(str(error), incomplete=True)

    rows: list[tuple[Cell, ...]] = []
    missing: list[Part] = []
    for answer in await ask_each(nodes, ask):
        if isinstance(answer, Alert):
            missing.append(answer)
        else:
            rows.append(answer)
    return [Table(("node", *call.positionals), rows), *missing]


async def _describe(context: Context, call: Call) -> list[Part]:
    parts: list[Part] = []
    for name in call.positionals:
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
    node = _one_node(context, call)
    goal = EVERYWHERE if call.has("all") else node
    wanted = []
    for word in call.positionals:
        name, equals, text = word.partition("=")
        if not equals:
            raise CommandError(f"{word}: KEY=VALUE is expected.")
        wanted.append((name, text))
    try:
        for name, text in wanted:
            runtime.check(name, text)
        for name, text in wanted:
            runtime.set(name, text, goal)
            context.server.log("notice", f"vmq-admin: {name} = {text}{_scope(context, goal)}, until `config reset`")
    except SetError as error:
        raise CommandError(f"{sentence(str(error))} Nothing was changed.") from None
    await context.replicated()
    return [
        *(Text(f"{name} = {text}") for name, text in wanted),
        *(Text(warning) for name, text in wanted if (warning := in_months(_known(name), text))),
        *_remarks(context, goal, [name for name, _ in wanted]),
    ]


def _scope(context: Context, goal: str) -> str:
    return "" if goal == context.node.name else f" for {goal or 'all nodes'}"


def _remarks(context: Context, goal: str, names: list[str]) -> list[Part]:
    """The reasons why a change is not effective on all of its nodes yet."""
    runtime, cluster = context.server.runtime, context.cluster
    lines = []
    if goal == EVERYWHERE:
        for name in names:
            own = runtime.of_nodes(name)
            lines += [
                f"{node} has {name} = {own[node]} of its own, which overrides this."
                for node in _members(context)
                if node in own
            ]
    absent = [] if cluster is None else [row.node for row in cluster.rows() if row.state == "absent"]
    lines += [f"{node} is absent: it gets the change when it returns." for node in absent if goal in (node, EVERYWHERE)]
    return [Text(line) for line in lines]


async def _config_show(context: Context, call: Call) -> list[Part]:
    settings, runtime = context.server.settings, context.server.runtime
    wanted = call.flag("key", None)
    if wanted is not None:
        _known(wanted)
    names = [wanted] if wanted is not None else sorted({*settings, *runtime})
    rows: list[tuple[Cell, ...]] = [
        (name, runtime.configured(name), runtime.own(name), runtime.everywhere(name)) for name in names
    ]
    return [Table(("Config", "Env", "Node", "Global"), rows)]


async def _config_reset(context: Context, call: Call) -> list[Part]:
    name = call.flag("key", None)
    if name is None:
        raise CommandError("--key=KEY must be given.")
    if call.has("node") and (call.has("local") or call.has("global")):
        raise CommandError("--node excludes --local and --global.")
    runtime, node = context.server.runtime, _one_node(context, call)
    if node != context.node.name:
        return await _reset_elsewhere(context, name, node)
    local, everywhere = call.has("local") or not call.has("global"), call.has("global")
    done = local and runtime.reset(name)
    done = (everywhere and runtime.reset(name, EVERYWHERE)) or done
    if not done:
        raise CommandError(_was_not_set(context, name, local, everywhere))
    said = f"{name} = {runtime.in_force(name)}"
    context.server.log("notice", f"vmq-admin: {said} again{' for all nodes' if everywhere else ''}")
    await context.replicated()
    return [Text(said), *_remarks(context, EVERYWHERE if everywhere else context.node.name, [name])]


async def _reset_elsewhere(context: Context, name: str, node: str) -> list[Part]:
    if not context.server.runtime.reset(name, node):
        _known(name)
        raise CommandError(f"{name} was not set for {node}.")
    said = f"{name} is not set for {node} any more"
    context.server.log("notice", f"vmq-admin: {said}")
    await context.replicated()
    return [Text(f"{said}."), *_remarks(context, node, [name])]


def _was_not_set(context: Context, name: str, local: bool, everywhere: bool) -> str:
    """Why nothing was reset. Raises `CommandError` for an unknown key; a former version may have stored one."""
    _known(name)
    runtime = context.server.runtime
    if not everywhere and runtime.everywhere(name) is not None:
        return f"{name} was set for all nodes, not for this one alone: --global resets that."
    if not local and runtime.own(name) is not None:
        return f"{name} was set for this node, not for all: --local resets that."
    return f"{name} was not set at run time."


COMMANDS = (
    Command(
        "show",
        "Show effective values.",
        _show,
        flags=(Flag("node", "on that node of the cluster", value="NODE"), Flag("all", "on all nodes")),
        positionals="KEY ...",
    ),
    Command("describe", "Describe a key and its values.", _describe, positionals="KEY ..."),
    Command(
        "set",
        "Change settings now. They survive restarts and override vernemq.conf until `config reset`.",
        _set,
        flags=(
            Flag("node", "for that node; default: this one", value="NODE"),
            Flag("all", "for all nodes, including those that join later; a setting for one node overrides it there"),
        ),
        positionals="KEY=VALUE ...",
    ),
    Command(
        "config show",
        "Show the values of files and environment (Env), of this node (Node), and of all nodes (Global).",
        _config_show,
        arguments=(_APP,),
        flags=(Flag("key", "only this key", "k", "KEY"),),
    ),
    Command(
        "config reset",
        "Remove a setting of this node, or with --global of all nodes: the next lower level becomes effective.",
        _config_reset,
        arguments=(_APP,),
        flags=(
            Flag("key", "the key", "k", "KEY"),
            Flag("local", "the setting for this node"),
            Flag("global", "the setting for all nodes"),
            Flag("node", "the setting for that node", value="NODE"),
        ),
    ),
)
