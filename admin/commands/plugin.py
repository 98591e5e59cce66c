"""`plugin`: the enabled plugins and their hooks."""

from __future__ import annotations

from ...broker.plugins.hook_table import HOOKS
from ..context import Context
from ..grammar import NO_EFFECT, Call, Command, Flag
from ..result import Cell, Part, Table

_APPLICATIONS = ("vmq_passwd", "vmq_acl")
"""Plugins of the broker. All others are modules of the operator."""


async def _show(context: Context, call: Call) -> list[Part]:
    plugin, hook = call.flag("plugin", None), call.flag("hook", None)
    hooks = context.server.hooks
    rows: list[tuple[Cell, ...]] = []
    for name in hooks.names:
        kind = "application" if name in _APPLICATIONS else "module"
        for each in hooks.implemented_by(name):
            if plugin in (None, name) and hook in (None, each):
                spec = HOOKS[each]
                rows.append((name, kind, each, f"{name}:{each}/{len(spec.arguments) - spec.optional}"))
    return [Table(("Plugin", "Type", "Hook(s)", "M:F/A"), rows)]


COMMANDS = (
    Command(
        "plugin show",
        "Show the plugins in the order of their calls, one row for each hook.",
        _show,
        flags=(
            Flag("plugin", "only this plugin", value="NAME"),
            Flag("hook", "only plugins with this hook", value="NAME"),
            Flag("internal", NO_EFFECT),
        ),
    ),
)
