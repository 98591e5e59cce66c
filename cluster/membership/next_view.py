"""The next view, from what the leader knows: who goes, who comes in, who may serve (H-04, H-06)."""

from __future__ import annotations

from msgspec import Struct

from .clique import connected
from .commands import Row, SetView
from .messages import LeaseRequest
from .state_machine import MembershipState


class Outlook(Struct, frozen=True):
    """What the leader knows. All names are nodes'.

    `requests`: the last request of each. `removable`: rows to be removed, whose last lease has certainly ended.
    `unwanted`: rows to be removed, now or later. `ready`: who asked for a lease lately and may come in.
    """

    membership: MembershipState
    requests: dict[str, LeaseRequest]
    removable: tuple[str, ...]
    unwanted: tuple[str, ...]
    ready: tuple[str, ...]
    gathering: bool = False
    """The leader is new: who does not speak yet may only be later than others."""


def next_view(outlook: Outlook) -> SetView | None:
    """The command for the next view, or None if the present one is as it should be.

    A node comes in when it is connected to everybody that stays, and knows the present view. Who is to be removed but
    may still hold a lease counts as staying: nobody comes in past it.
    """
    view = outlook.membership.view
    staying = [row for row in view.rows if row.node not in outlook.removable]
    able = _able(outlook, [row.node for row in staying])
    rows = tuple(sorted([*_promoted(outlook, staying, able), *_coming(outlook, able)]))
    serving = [row.node for row in rows if row.serving]
    alone = bool(serving) and all(name in outlook.ready for name in serving)
    if rows == view.rows and (outlook.membership.agreed or not alone):
        return None
    return SetView(view.id, rows, alone)


def _able(outlook: Outlook, names: list[str]) -> list[str]:
    """Who may come in beside `names`, in order: last starts of members, connected to all of them and to each other."""
    membership = outlook.membership
    hears = {name: request.hears for name, request in outlook.requests.items()}
    able: list[str] = []
    for name in outlook.ready:
        member = membership.members.get(name)
        request = outlook.requests[name]
        if member is None or member.stale or membership.view.row(name) is not None:
            continue
        this_process = (request.boot, request.process) == (member.boot, member.process)
        if this_process and connected(name, names + able, hears):
            able.append(name)
    return able


def _coming(outlook: Outlook, able: list[str]) -> list[Row]:
    """The rows of those that know the present view: others would be behind from the start."""
    membership = outlook.membership
    view = membership.view.id
    known = [name for name in able if outlook.requests[name].view >= view]
    return [Row(name, membership.members[name].boot, view + 1) for name in known]


def _promoted(outlook: Outlook, staying: list[Row], able: list[str]) -> list[Row]:
    """The rows that stay, those of them serving now that have completed their exchanges."""
    serving = [row for row in staying if row.serving]
    required = serving or list(staying)
    known = outlook.membership.known_to([row.node for row in staying])
    if not serving and (able or (outlook.gathering and _missed(outlook, staying)) or not known):
        # Nobody serves, as after a restart of all: whoever is about to come in may know what the others do not.
        return staying
    rows: list[Row] = []
    for row in staying:
        if not row.serving and row.node not in outlook.unwanted and _has_exchanged(outlook, row, required):
            row = Row(row.node, row.boot, row.since, True)
            required.append(row)
        rows.append(row)
    return rows


def _missed(outlook: Outlook, staying: list[Row]) -> bool:
    """Somebody who has served, and has sessions that last, perhaps, is not there yet."""
    names = [row.node for row in staying]
    return any(row.served and row.node not in names for row in outlook.membership.members.values())


def _has_exchanged(outlook: Outlook, row: Row, required: list[Row]) -> bool:
    """It says so from the present view: who serves first there has asked everybody since, and has to be asked anew.

    It names itself when it has told its own routes: nobody else may be left whom it had to ask.
    """
    request, view = outlook.requests.get(row.node), outlook.membership.view
    if request is None or (request.boot, request.since, request.view) != (row.boot, row.since, view.id):
        return False
    return all((other.node, other.since) in request.exchanged for other in (*required, row))
