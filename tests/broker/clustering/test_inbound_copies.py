"""A copy from before its sender's entrance is void; one of an entrance that is not applied yet is held."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from strogoff.broker.clustering.forward_codec import Head, encode_head
from strogoff.broker.clustering.inbound_copies import InboundCopies
from strogoff.cluster.identity import Incarnation
from strogoff.cluster.links.ports import Refuse
from strogoff.cluster.membership.commands import Row
from strogoff.cluster.membership.view import View
from tests.harness.broker import BrokerHarness


class FakeReceiver:
    """Notes what it gets."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, int, Head, bytes]] = []
        self.skipped: list[int] = []
        self.pass_on: Any = None

    def deliver(self, origin: str, seq: int, head: Head, body: bytes) -> None:
        self.taken.append((origin, seq, head, body))

    def skip(self, origin: str, seq: int) -> None:
        self.skipped.append(seq)


class Gateway:
    """A node whose view the test sets."""

    def __init__(self) -> None:
        self.direct, self.relays = FakeReceiver(), FakeReceiver()
        self.member: Any = SimpleNamespace(view=View())  # the view is all that is asked for
        receivers: Any = (self.direct, self.relays)
        nobody: Any = SimpleNamespace()
        member: Any = self.member
        self.copies = InboundCopies(BrokerHarness().node, member, receivers, (nobody, nobody))

    def view(self, entered: int | None) -> None:
        before = self.member.view
        rows = () if entered is None else (Row("n2", 1, entered, True),)
        self.member.view = View(before.id + 1, rows)
        self.copies.view_applied(before, self.member.view)

    def take(self, seq: int, since: int) -> None:
        self.copies.deliver("n2", seq, encode_head(Head(since, True)) + b"body")


@pytest.fixture
def node() -> Gateway:
    made = Gateway()
    made.view(5)
    return made


def test_a_copy_of_the_present_entrance_is_taken(node: Gateway) -> None:
    node.take(1, 5)
    node.take(2, 5)
    assert node.direct.taken == [("n2", 1, Head(5, True), b"body"), ("n2", 2, Head(5, True), b"body")]
    assert Incarnation("n2", 1, 5) in node.member.view.incarnations


def test_a_copy_of_an_earlier_entrance_is_void(node: Gateway) -> None:
    node.take(1, 5)
    node.view(None)
    node.view(7)
    node.take(2, 5)
    node.take(3, 7)
    assert node.direct.skipped == [2] and [seq for _, seq, _, _ in node.direct.taken] == [1, 3]


def test_a_copy_of_a_later_entrance_is_held(node: Gateway) -> None:
    with pytest.raises(Refuse, match="n2 is not in the view 1 since 6"):
        node.take(1, 6)
    node.view(None)
    with pytest.raises(Refuse):
        node.copies.deliver_relayed("n2", 1, encode_head(Head(0, False)))


def test_a_copy_that_is_never_void_needs_only_its_sender_in_the_view(node: Gateway) -> None:
    node.take(1, 0)
    node.copies.deliver_relayed("n2", 4, encode_head(Head(0, False)) + b"relayed")
    assert [seq for _, seq, _, _ in node.direct.taken] == [1]
    assert node.relays.taken == [("n2", 4, Head(0, False), b"relayed")]
