"""Computes the next view from the leader's knowledge: rows to remove, rows to add, rows that may serve (H-04, H-06)."""

from __future__ import annotations

from msgspec import Struct

from .clique import connected
from .commands import Row, SetView
from .messages import LeaseRequest
from .state_machine import MembershipState


class Outlook(Struct, frozen=True):
    """The input of `next_view`. All names are names of nodes.

    `requests`: the last lease request of each node. `removable`: rows to remove whose last lease has certainly ended.
    `unwanted`: rows to remove, now or later. `ready`: nodes that asked for a lease lately and may enter the view.
    """

    membership: MembershipState
    requests: dict[str, LeaseRequest]
    removable: tuple[str, ...]
    unwanted: tuple[str, ...]
    ready: tuple[str, ...]
    gathering: bool = False
    """The leader is new: a node that it has not heard yet may only be slower than the others."""


def next_view(outlook: Outlook) -> SetView | None:
    """Returns the command for the next view; None if the present one needs no change.

    A node enters when it is connected to every node that stays and has applied the present view. A node to be removed
    that may still hold a lease counts as staying: another node enters only if it is connected to that one, too.
    """
    view = outlook.membership.view
    staying = [row for row in view.rows if row.node not in outlook.removable]
    able = _able(outlook, [row.node for row in staying])
    rows = tuple(sorted([*_promoted(outlook, staying, able), *_coming(outlook, able)]))
    serving = [row.node for row in rows if row.serving]
    serving_only = bool(serving) and all(name in outlook.ready for name in serving)
    if rows == view.rows and (outlook.membership.barriers_allowed or not serving_only):
        return None
    return SetView(view.id, rows, serving_only, slots=True)


def _able(outlook: Outlook, names: list[str]) -> list[str]:
    """Returns the nodes that may enter beside `names`, in order: connected to all of these and to each other.

    Only the last logged start of a member may enter.
    """
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
    """Returns rows for the able nodes that have applied the present view: others would be behind from the start."""
    membership = outlook.membership
    view = membership.view.id
    known = [name for name in able if outlook.requests[name].view >= view]
    return [Row(name, membership.members[name].boot, view + 1) for name in known]


def _promoted(outlook: Outlook, staying: list[Row], able: list[str]) -> list[Row]:
    """Returns the rows that stay. A joining row that has completed its exchanges becomes serving."""
    serving = [row for row in staying if row.serving]
    required = serving or list(staying)
    known = outlook.membership.known_to([row.node for row in staying])
    if not serving and (able or (outlook.gathering and _missed(outlook, staying)) or not known):
        # No node serves, as after a restart of the whole cluster. A node that is about to enter may know writes that
        # the others lack.
        return staying
    rows: list[Row] = []
    for row in staying:
        if not row.serving and row.node not in outlook.unwanted and _has_exchanged(outlook, row, required):
            row = Row(row.node, row.boot, row.entered_in_view, True)
            required.append(row)
        rows.append(row)
    return rows


def _missed(outlook: Outlook, staying: list[Row]) -> bool:
    """Whether a member that has served, and so may have durable sessions, is not in the view yet."""
    names = [row.node for row in staying]
    return any(row.served and row.node not in names for row in outlook.membership.members.values())


def _has_exchanged(outlook: Outlook, row: Row, required: list[Row]) -> bool:
    """True if the node's last request names every required node and itself, and was made in the present view.

    Exchanges of an earlier view do not count: the first node to serve has asked all others since and has to be asked
    again. The node names itself when its own routes are announced; without that it must not serve, even if no other
    node is left to exchange with.
    """
    request, view = outlook.requests.get(row.node), outlook.membership.view
    if request is None or (request.boot, request.entered_in_view, request.view) != (
        row.boot,
        row.entered_in_view,
        view.id,
    ):
        return False
    return all((other.node, other.entered_in_view) in request.exchanged for other in (*required, row))
