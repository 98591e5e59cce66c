"""The next view: which nodes leave, which enter, and which may serve."""

from __future__ import annotations

from typing import Any

import msgspec

from strogoff.cluster.membership.commands import Leave, Row, SetView, Stale
from strogoff.cluster.membership.messages import LeaseRequest
from strogoff.cluster.membership.next_view import Outlook, next_view
from strogoff.cluster.membership.state_machine import MembershipState

from .test_state_machine import apply, boot, cluster, join

A = Row("a", 1, 1, True)
B = Row("b", 1, 2, True)
C = Row("c", 1, 2, True)


def said(membership: MembershipState, node: str, hears: str, **fields: Any) -> LeaseRequest:
    """Returns the report of a healthy node."""
    member, row = membership.members[node], membership.view.row(node)
    entered = row.entered_in_view if row else 0
    says = {"view": membership.view.id, "entered_in_view": entered, "boot": member.boot} | fields
    return LeaseRequest(node=node, process=member.process, number=1, hears=tuple(hears), **says)


def look(
    membership: MembershipState, *requests: LeaseRequest, removable: str = "", ready: str | None = None
) -> SetView | None:
    """Returns the next view if its rows change, whether or not it restricts the informed members."""
    found = propose(membership, *requests, removable=removable, ready=ready)
    if found is None or found.rows == membership.view.rows:
        return None
    assert found.slots
    return msgspec.structs.replace(found, serving_only=False, slots=False)


def propose(
    membership: MembershipState, *requests: LeaseRequest, removable: str = "", ready: str | None = None
) -> SetView | None:
    by_node = {request.node: request for request in requests}
    names = tuple(sorted(by_node)) if ready is None else tuple(ready)
    return next_view(Outlook(membership, by_node, tuple(removable), tuple(removable), names))


def all_well(membership: MembershipState, nodes: str = "abc") -> list[LeaseRequest]:
    return [said(membership, node, nodes.replace(node, "")) for node in nodes if node in membership.members]


def test_no_view_is_proposed_without_a_reason() -> None:
    membership = cluster("a", "b", "c")
    assert look(membership, *all_well(membership)) is None


def test_a_removable_node_is_removed() -> None:
    membership = cluster("a", "b", "c")
    assert look(membership, *all_well(membership), removable="b") == SetView(3, (A, C))


def test_a_member_comes_in_when_all_hear_each_other() -> None:
    membership = cluster("a", "b", "c")
    apply(membership, boot("c", 2))
    a, b, c = all_well(membership)
    assert look(membership, a, b, c) == SetView(4, (A, B, Row("c", 2, 5)))
    assert look(membership, said(membership, "a", "b"), b, c) is None
    assert look(membership, a, b, said(membership, "c", "a")) is None
    assert look(membership, a, c) is None
    assert look(membership, a, b, c, ready="ab") is None


def test_a_node_enters_only_if_it_knows_the_present_view() -> None:
    membership = cluster("a", "b", "c")
    apply(membership, boot("c", 2))
    a, b, _ = all_well(membership)
    assert look(membership, a, b, said(membership, "c", "ab", view=3)) is None


def test_earlier_boots_and_stale_members_do_not_enter() -> None:
    membership = cluster("a", "b", "c")
    apply(membership, boot("c", 2))
    a, b, _ = all_well(membership)
    assert look(membership, a, b, said(membership, "c", "ab", boot=1)) is None
    apply(membership, Stale("c"))
    assert look(membership, *all_well(membership)) is None


def test_no_node_enters_before_a_removed_lease_has_ended() -> None:
    membership = cluster("a", "b")
    apply(membership, join("c"))
    a, c = said(membership, "a", "c"), said(membership, "c", "a")
    assert look(membership, a, c) is None
    assert look(membership, a, c, removable="b") == SetView(3, (A, Row("c", 1, 4)))


def test_two_nodes_enter_at_once_only_if_they_hear_each_other() -> None:
    membership = cluster("a")
    apply(membership, join("b"), join("c"))
    entered = SetView(1, (A, Row("b", 1, 2), Row("c", 1, 2)))
    assert look(membership, *all_well(membership)) == entered
    deaf = [said(membership, "a", "bc"), said(membership, "b", "a"), said(membership, "c", "ab")]
    assert look(membership, *deaf) == SetView(1, (A, Row("b", 1, 2)))


def joining() -> MembershipState:
    """a serves, b and c are joining since view 2."""
    membership = cluster("a")
    apply(membership, join("b"), join("c"), SetView(1, (A, Row("b", 1, 2), Row("c", 1, 2))))
    return membership


def test_a_node_serves_after_an_exchange_with_all_serving_nodes() -> None:
    membership = joining()
    a, b, c = all_well(membership)
    assert look(membership, a, b, c) is None
    b = said(membership, "b", "ac", exchanged=(("a", 1), ("b", 2)))
    assert look(membership, a, b, c) == SetView(2, (A, B, Row("c", 1, 2)))
    old = said(membership, "b", "ac", exchanged=(("a", 1), ("b", 2)), entered_in_view=1)
    assert look(membership, a, old, c) is None
    assert look(membership, a, said(membership, "b", "ac", exchanged=(("a", 9), ("b", 2))), c) is None


def test_a_node_without_announced_routes_does_not_serve_even_alone() -> None:
    membership = joining()
    b = said(membership, "b", "c")
    assert look(membership, b, said(membership, "c", "b"), removable="a") == SetView(
        2, (Row("b", 1, 2), Row("c", 1, 2))
    )


def test_the_second_of_two_nodes_needs_an_exchange_with_the_first() -> None:
    membership = joining()
    a = said(membership, "a", "bc")
    both = [said(membership, node, f"a{other}", exchanged=(("a", 1), (node, 2))) for node, other in ("bc", "cb")]
    assert look(membership, a, *both) == SetView(2, (A, B, Row("c", 1, 2)))
    both[1] = said(membership, "c", "ab", exchanged=(("a", 1), ("b", 2), ("c", 2)))
    assert look(membership, a, *both) == SetView(2, (A, B, C))


def test_a_node_to_be_removed_counts_until_it_is_removed() -> None:
    membership = cluster("a", "b")
    apply(membership, join("c"), SetView(3, (A, B, Row("c", 1, 4))))
    a, b, _ = all_well(membership)
    c = said(membership, "c", "ab", exchanged=(("a", 1), ("c", 4)))
    assert look(membership, a, b, c) is None
    assert look(membership, a, b, c, removable="b") == SetView(4, (A, Row("c", 1, 4, True)))


def test_after_a_restart_of_all_nodes_each_exchanges_with_all() -> None:
    membership = cluster("a", "b", "c")
    apply(membership, *[boot(node, 2) for node in "abc"])
    view = membership.view.id
    assert look(membership, said(membership, "a", "")) == SetView(view, (Row("a", 2, view + 1),))
    apply(membership, SetView(view, (Row("a", 2, view + 1),)))
    assert look(membership, said(membership, "a", "b"), said(membership, "b", "a", view=1)) is None
    assert look(membership, said(membership, "a", "")) is None  # it has not announced its routes yet
    serving_only = look(membership, said(membership, "a", "", exchanged=(("a", view + 1),)))
    assert serving_only == SetView(view + 1, (Row("a", 2, view + 1, True),))
    apply(membership, SetView(view + 1, (Row("a", 2, view + 1), Row("b", 2, view + 2))))
    a, b = said(membership, "a", "b"), said(membership, "b", "a")
    assert look(membership, a, b) is None
    a = said(membership, "a", "b", exchanged=(("a", view + 1), ("b", view + 2)))
    assert look(membership, a, b) == SetView(view + 2, (Row("a", 2, view + 1, True), Row("b", 2, view + 2)))


def test_exchanges_made_before_the_last_node_entered_do_not_count() -> None:
    """No node served: the second node would miss facts of the last one, unless it asked the first again."""
    membership = cluster("a", "b", "c")
    apply(membership, *[boot(node, 2) for node in "abc"])
    view = membership.view.id
    apply(membership, SetView(view, (Row("a", 2, view + 1), Row("b", 2, view + 1))))
    apply(membership, SetView(view + 1, (Row("a", 2, view + 1), Row("b", 2, view + 1), Row("c", 2, view + 2))))
    a = said(membership, "a", "bc", exchanged=(("a", view + 1), ("b", view + 1), ("c", view + 2)))
    b = said(membership, "b", "ac", exchanged=(("a", view + 1), ("b", view + 1)))
    c = said(membership, "c", "ab")
    rows = (Row("a", 2, view + 1, True), Row("b", 2, view + 1), Row("c", 2, view + 2))
    assert look(membership, a, b, c) == SetView(view + 2, rows)
    apply(membership, SetView(view + 2, rows))
    a, again = said(membership, "a", "bc"), msgspec.structs.replace(b, view=view + 3)
    assert look(membership, a, b, c) is None  # reported before a served
    promoted = look(membership, a, again, c)
    assert promoted and promoted.rows[1].serving


def test_no_node_serves_while_all_informed_members_are_away() -> None:
    """No other node knows the promises of that time, above all the subscriptions of their sessions (3 nodes, seed
    110389).
    """
    membership = cluster("a")
    apply(membership, join("b"), join("c"), SetView(1, (A, Row("b", 1, 2))))
    apply(membership, SetView(2, (Row("b", 1, 2),)))
    done = said(membership, "b", "", exchanged=(("b", 2),))
    assert look(membership, done) is None
    apply(membership, SetView(3, (Row("a", 1, 4), Row("b", 1, 2))))
    exchanged = (("a", 4), ("b", 2))
    both = [said(membership, node, other, exchanged=exchanged) for node, other in ("ab", "ba")]
    assert look(membership, *both) == SetView(4, (Row("a", 1, 4, True), Row("b", 1, 2, True)))
    apply(membership, SetView(4, (Row("b", 1, 2),)), Leave("a"))
    done = said(membership, "b", "", exchanged=(("b", 2),))
    assert look(membership, done) == SetView(5, (Row("b", 1, 2, True),))


def test_barriers_wait_until_the_log_excludes_an_absent_informed_member() -> None:
    """A boot is in the log at once; after a restart of all nodes the absent ones are still listed as serving."""
    membership = cluster("a", "b", "c")
    apply(membership, boot("c", 2))
    a, b = said(membership, "a", "b"), said(membership, "b", "a")
    assert propose(membership, a) is None  # b may be dead, and c the only node that knows
    serving_only = propose(membership, a, b)
    assert serving_only == SetView(4, (A, B), True, True)
    apply(membership, serving_only)
    assert membership.view.id == 4 and propose(membership, a, b) is None
