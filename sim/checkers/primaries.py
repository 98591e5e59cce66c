"""A session is served at one node at a time, and never by a node whose table names another one (H-22 to H-25)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Served:
    """A client that has its CONNACK and whose connection `node` has not closed.

    `primary` and `epoch` are those of its slot in the applied table of that node, `opened_in` the epoch in which the
    connection was opened; None if the socket is at this node. `leased`: the node holds a lease. `leaving`: the client
    has ended the connection, and its last packets wait. The node handles them also in a slot that it closes (H-19).
    """

    node: str
    client: str
    primary: str | None
    epoch: int
    opened_in: int | None
    leased: bool
    leaving: bool = False


def judge(served: Iterable[Served]) -> Iterator[str]:
    """Yield the violations at one moment."""
    owners: dict[str, Served] = {}
    for each in served:
        if each.primary not in (each.node, None):
            yield f"primary: {each.node} serves {each.client}, whose primary is {each.primary}"
        if each.opened_in is not None and (each.opened_in != each.epoch or (each.primary is None and not each.leaving)):
            yield f"primary: {each.node} serves {each.client} of epoch {each.opened_in} in epoch {each.epoch}"
        if not each.leased:
            continue
        other = owners.setdefault(each.client, each)
        if other is not each:
            yield f"two owners: {other.node} and {each.node} serve {each.client} at the same time"
