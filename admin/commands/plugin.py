"""`plugin`: what plugins there are and what they are asked."""

from __future__ import annotations

from ...broker.plugins.hook_table import HOOKS
from ..context import Context
from ..grammar import Call, Command, Flag
from ..result import Cell, Part, Table

_APPLICATIONS = ("vmq_passwd", "vmq_acl")
"""Plugins that come with the broker; all others are modules of the operator's own."""


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
        "The plugins in the order in which they are asked, a row for each of their hooks.",
        _show,
        flags=(
            Flag("plugin", "only this plugin", value="NAME"),
            Flag("hook", "only those that have this hook", value="NAME"),
        ),
    ),
)
