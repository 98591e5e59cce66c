"""A20 split-incident: a node did not see the whole cluster, from its detection to the heal.

The number is the Window of Uncertainty in ms: how long the node went on after the last common contact, before it knew.
The kind is what the node saw at worst: `minority` or `majority`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..findings import Finding, Subject
from ..incidents import Incident
from ..rows import NEVER, ms_of
from ..world import World

ID = "A20"


def judge(world: World) -> Iterator[Finding]:
    """Report all incidents of all nodes."""
    for each in world.incidents.all:
        lasted = "not over" if each.healed == NEVER else f"{ms_of(each.healed - each.detected)} ms"
        text = f"{each.node} in a {each.state or 'split'}: window {each.window_ms} ms, {lasted}"
        subject = Subject(each.node, detail=_name(each))
        kind = each.state or "majority"
        yield Finding(ID, kind, "metric", subject, each.detected, text, tuple(each.rows), value=each.window_ms)


def _name(incident: Incident) -> str:
    again = incident.occurrence > 1
    return f"{incident.name}, occurrence {incident.occurrence}" if again else incident.name
