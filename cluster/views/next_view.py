"""The next view, from what the leader knows: who goes, who comes in, who may serve (review, holes 4 and 6)."""

from __future__ import annotations

from msgspec import Struct

from .clique import connected
from .commands import Row, SetView
from .machine import Membership
from .messages import LeaseRequest


class Outlook(Struct, frozen=True):
    """What the leader knows. All names are nodes'.

    `requests`: the last request of each. `removable`: rows to be removed, whose last lease has certainly ended.
    `unwanted`: rows to be removed, now or later. `ready`: who asked for a lease lately and may come in.
    """

    membership: Membership
    requests: dict[str, LeaseRequest]
    removable: tuple[str, ...]
    unwanted: tuple[str, ...]
    ready: tuple[str, ...]


def next_view(outlook: Outlook) -> SetView | None:
    """The command for the next view, or None if the present one is as it should be.

    A node comes in when it is connected to everybody that stays, and knows the present view. Who is to be removed but
    may still hold a lease counts as staying: nobody comes in past it.
    """
    view = outlook.membership.view
    staying = [row for row in view.rows if row.node not in outlook.removable]
    coming = _coming(outlook, staying)
    rows = tuple(sorted([*_promoted(outlook, staying, coming), *coming]))
    return None if rows == view.rows else SetView(view.id, rows)


def _coming(outlook: Outlook, staying: list[Row]) -> list[Row]:
    membership = outlook.membership
    hears = {name: request.hears for name, request in outlook.requests.items()}
    names = [row.node for row in staying]
    coming: list[Row] = []
    for name in outlook.ready:
        member = membership.members.get(name)
        request = outlook.requests[name]
        if member is None or member.stale or membership.view.row(name) is not None:
            continue
        this_process = (request.boot, request.process) == (member.boot, member.process)
        if this_process and request.view >= membership.view.id and connected(name, names, hears):
            coming.append(Row(name, member.boot, membership.view.id + 1))
            names.append(name)
    return coming


def _promoted(outlook: Outlook, staying: list[Row], coming: list[Row]) -> list[Row]:
    """The rows that stay, those of them serving now that have completed their exchanges."""
    in_view = outlook.membership.view.nodes
    serving = [row for row in staying if row.serving]
    if not serving and (coming or any(name not in in_view for name in outlook.ready)):
        # Nobody serves, as after a restart of all: whoever is about to come in may know what the others do not.
        return staying
    rows: list[Row] = []
    for row in staying:
        if not row.serving and row.node not in outlook.unwanted and _has_exchanged(outlook, row, serving or staying):
            row = Row(row.node, row.boot, row.since, True)
            serving.append(row)
        rows.append(row)
    return rows


def _has_exchanged(outlook: Outlook, row: Row, required: list[Row]) -> bool:
    request = outlook.requests.get(row.node)
    if request is None or (request.boot, request.since) != (row.boot, row.since):
        return False
    return all((other.node, other.since) in request.exchanged for other in required if other.node != row.node)
