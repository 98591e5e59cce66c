"""All commands, in the order of `vmq-admin --help`."""

from __future__ import annotations

from .commands import api_key, cluster, incidents, listener, metrics, node, plugin, retain, session, settings, slot
from .grammar import Command

COMMANDS: tuple[Command, ...] = (
    *node.COMMANDS,
    *cluster.COMMANDS,
    *incidents.COMMANDS,
    *slot.COMMANDS,
    *session.COMMANDS,
    *retain.COMMANDS,
    *listener.COMMANDS,
    *plugin.COMMANDS,
    *metrics.COMMANDS,
    *settings.COMMANDS,
    *api_key.COMMANDS,
)
