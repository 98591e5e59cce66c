"""Ranks of lanes, and the events of links."""

from __future__ import annotations

from strogoff.cluster.links.ports import Lane, LinkEvents, Traffic

from .link_harness import LinkHarness


def test_ranks() -> None:
    """The numbers are part of the protocol: they never change."""
    lanes = [("METADATA", 0), ("REPLICA", 3), ("APPEND", 1), ("PUBLISH", 2)]
    assert [(lane.name, int(lane)) for lane in Lane] == lanes


def test_the_events_of_links() -> None:
    listener: LinkEvents = LinkHarness().node("a")
    assert listener.watermark("b", "disk", 1, Lane.PUBLISH) == 0
    assert Traffic().resent == 0
