"""Where a node dials the other members, and peers that its log does not know yet (H-48)."""

from __future__ import annotations

import pytest

from strogoff.cluster.links.hello import PeerInfo
from strogoff.cluster.membership.commands import Join, Settle, encode_command
from strogoff.cluster.membership.peer_addresses import STRANGERS_MOST, PeerAddresses
from strogoff.cluster.membership.state_machine import MembershipState


def membership() -> MembershipState:
    """The cluster of a at entry 1, with b at entry 5."""
    state = MembershipState()
    state.apply(1, encode_command(Settle("cluster", "a", "disk-a", 1, "a/1", "a:1")))
    state.apply(5, encode_command(Join("b", "disk-b", 1, "b/1", "b:1")))
    return state


def hello(node: str, disk: str, joined: int) -> PeerInfo:
    return PeerInfo(node, 9, disk, f"{node}/9", "cluster", f"{node}:9", joined=joined)


def test_the_members_that_took_the_node_in_are_dialled_until_the_log_names_one() -> None:
    addresses = PeerAddresses("b")
    addresses.joined_through({"a": "a:7", "b": "b:7", "c": "c:7"})
    assert addresses.of(MembershipState()) == {"a": "a:7", "c": "c:7"}
    assert addresses.of(membership()) == {"a": "a:1"}


def test_a_new_node_reads_old_addresses_in_the_log_and_dials_none_of_them_before_it_reads_of_itself() -> None:
    """All members may have moved since these entries. Where they are now stands behind the node's own entry."""
    addresses, state = PeerAddresses("d"), membership()
    addresses.joined_through({"a": "a:7", "b": "b:7"})
    assert addresses.of(state) == {"a": "a:7", "b": "b:7"}
    state.apply(6, encode_command(Join("d", "disk-d", 1, "d/1", "d:1")))
    assert addresses.of(state) == {"a": "a:1", "b": "b:1"}


def test_discovery_goes_before_the_log_until_the_log_has_a_later_start() -> None:
    addresses = PeerAddresses("a")
    addresses.hint("b", "b:2")
    assert addresses.of(membership()) == {"b": "b:2"}
    addresses.logged("b")
    assert addresses.of(membership()) == {"b": "b:1"}


@pytest.mark.parametrize(
    ("peer", "ahead"),
    [
        (hello("c", "disk-c", 6), True),
        (hello("c", "disk-c", 5), False),
        (hello("c", "disk-c", 0), False),
        (hello("b", "new-disk", 6), True),
        (hello("b", "old-disk", 3), False),
        (hello("b", "disk-b", 6), False),
    ],
)
def test_a_peer_is_ahead_if_its_disk_joined_at_an_entry_that_is_not_applied(peer: PeerInfo, ahead: bool) -> None:
    addresses = PeerAddresses("a")
    assert addresses.is_ahead(peer, membership()) is ahead
    if ahead:
        addresses.trust(peer)
    assert addresses.of(membership()) == {"b": "b:1"} | ({peer.node: peer.address} if ahead else {})


def test_the_number_of_peers_ahead_is_bounded_and_those_that_have_gone_are_forgotten() -> None:
    addresses, state = PeerAddresses("a"), membership()
    for number in range(STRANGERS_MOST):
        assert addresses.trust(hello(f"x{number}", "disk-x", 1 << 40))
    assert addresses.trust(hello("x0", "disk-x", 1 << 40)) and not addresses.trust(hello("c", "disk-c", 6))
    assert addresses.forget(lambda node: node != "x1") == ["x1"]
    assert addresses.trust(hello("c", "disk-c", 6))
    assert len(addresses.of(state)) == STRANGERS_MOST + 1 and addresses.of(state)["c"] == "c:9"


def test_the_log_goes_before_the_hello_when_the_entry_is_applied() -> None:
    addresses, state = PeerAddresses("a"), membership()
    peer = hello("b", "new-disk", 6)
    assert addresses.is_ahead(peer, state)
    addresses.trust(peer)
    state.apply(6, encode_command(Join("b", "new-disk", 2000, "b/2000", "b:3")))
    assert addresses.of(state) == {"b": "b:3"}
