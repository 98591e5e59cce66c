"""Pairs of rows of different nodes of which one led to the other, as the rows themselves tell.

All rows of a message come after the one with which it entered the cluster. What arrives from a node was sent by it
before, and what another node acknowledges has arrived there before. A row must have a larger stamp than its cause,
whatever the clocks of the nodes say (docs/eventlog.md#time).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from .rows import MessageId, Row, message_id_of

ENTRANCES: Final = frozenset(("pub.recv", "will.fire"))
"""The types of rows with which a message enters the cluster."""


def pairs(rows: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    """Yields cause and effect. The rows come in any order, those of a boot with their `seq`."""
    messages: defaultdict[MessageId, list[Row]] = defaultdict(list)
    for row in rows:
        if row.get("mid") is not None:
            messages[message_id_of(row)].append(row)
    for of_message in messages.values():
        yield from _entered(of_message)
        yield from _forwarded(of_message)


def _entered(rows: list[Row]) -> Iterator[tuple[Row, Row]]:
    entrances = [row for row in rows if row["type"] in ENTRANCES]
    if len(entrances) != 1:
        return  # without a row, or with several, nothing tells which one came first
    entrance = entrances[0]
    yield from ((entrance, row) for row in rows if row["node"] != entrance["node"])


def _forwarded(rows: list[Row]) -> Iterator[tuple[Row, Row]]:
    """The first one of each kind is a cause of all later ones."""
    sent = _first((row["node"], row["target"], row) for row in rows if row["type"] == "fwd.send")
    arrived = _first((row["source"], row["node"], row) for row in rows if row["type"] == "fwd.recv")
    for row in rows:
        if row["type"] == "fwd.recv" and (row["source"], row["node"]) in sent:
            yield sent[row["source"], row["node"]], row
        elif row["type"] == "fwd.ack" and (row["node"], row["target"]) in arrived:
            yield arrived[row["node"], row["target"]], row


def _first(found: Iterable[tuple[str, str, Row]]) -> dict[tuple[str, str], Row]:
    """Returns the first row of each sender and receiver, in the order of its own node."""
    first: dict[tuple[str, str], Row] = {}
    for sender, receiver, row in found:
        known = first.get((sender, receiver))
        if known is None or (row["boot"], row["seq"]) < (known["boot"], known["seq"]):
            first[sender, receiver] = row
    return first
