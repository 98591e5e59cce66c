"""What became of one message: of its acknowledgement, and for each client and node that it was on the way to.

This tells what the rows say, and judges nothing: `judge/` decides what is right.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..schema import LOGICAL_BITS
from .event_words import printable, value_of

Row = Mapping[str, Any]

MOST_RECEIVERS: Final = 10_000
_REFUSED: Final = 0x80
"""Reason codes from here on are refusals."""


@dataclass
class _Receiver:
    """How far the message came for one client."""

    text: str
    epoch: int | None = None
    over: bool = False


@dataclass
class _Link:
    """How far the message came on the link to a node. `sender`: who sent it there; "" if nobody did."""

    text: str
    sender: str = ""
    over: bool = False


class Fate:
    """Takes the rows of one message in their order. It tells `most` receivers apart, and counts the rows of others."""

    def __init__(self, most: int = MOST_RECEIVERS) -> None:
        self._most = most
        self._others = 0
        self._publish: Row | None = None
        self._answer = ""
        self._released = False
        self._receivers: dict[str, _Receiver] = {}
        self._links: dict[str, _Link] = {}
        """Links by the node at their end."""
        self._routes: dict[tuple[str, str], set[str]] = {}
        """(node that routed the message, its shared subscription or "") -> the nodes to which it routed the message."""

    @property
    def receivers(self) -> Collection[str]:
        """The clients that are told apart."""
        return self._receivers

    def ends(self, row: Row) -> bool:
        """Whether a row ends a session that still has the message."""
        receiver = self._receivers.get(row["client"])
        return receiver is not None and not receiver.over and receiver.epoch == row["epoch"]

    def add(self, row: Row) -> None:
        """Take the next row."""
        step = _STEPS.get(row["type"])
        if step is not None:
            step(self, row)

    def lines(self) -> list[str]:
        """What became of it: a line for the publisher, one for each receiver, one for each node without its arrival."""
        lines = []
        if self._publish is None:
            lines.append("the log has no row that it was published")
        else:
            lines.append(self._of_publisher(self._publish))
        if self._publish is not None and self._routes and not self._receivers and not self._links:
            lines.append("it was for no session")
        lines += [f"{printable(client)}: {each.text}" for client, each in self._receivers.items()]
        if self._others:
            lines.append(f"more clients than {self._most}: {self._others} rows are about others")
        return lines + [f"node {printable(node)}: {each.text}" for node, each in self._links.items() if each.text]

    def open_ends(self) -> list[str]:
        """The receivers and links where it has no end yet, in words."""
        waiting = [f"{printable(client)}: {each.text}" for client, each in self._receivers.items() if not each.over]
        return waiting + [f"node {printable(node)}: {each.text}" for node, each in self._links.items() if not each.over]

    def _of_publisher(self, publish: Row) -> str:
        client = printable(publish["client"])
        if publish["type"] == "will.fire":
            return f"{client}: this is its will, which has no acknowledgement"
        if publish["qos"] == 0:
            return f"{client}: QoS 0, which has no acknowledgement"
        if not self._answer:
            return f"{client}: has got no acknowledgement"
        return f"{client}: {self._answer}{', QoS 2 is complete' if self._released else ''}"

    # -- steps

    def _published(self, row: Row) -> None:
        self._publish = row

    def _acknowledged(self, row: Row) -> None:
        verb = "acknowledged" if row["code"] < _REFUSED else "refused"
        self._answer = f"{verb} with code {value_of('code', row['code'])}{self._after(row)}"

    def _completed(self, _: Row) -> None:
        self._released = True

    def _went(self, row: Row) -> None:
        node, group = row["node"], row.get("group", "")
        if (node, group) in self._routes:
            self._routed_again(node)
        self._routes.setdefault((node, group), set()).update(row.get("nodes", ()))

    def _routed_again(self, node: str) -> None:
        """What the node had sent before arrives at other places: where the sessions are that it was for."""
        for link in self._links.values():
            if link.sender == node and not link.over:
                link.text, link.over = f"was sent there by {printable(node)}, which routed it again later", True

    def _receiver(self, row: Row) -> _Receiver:
        known = self._receivers.get(row["client"])
        if known is None:
            known = _Receiver("")
            if len(self._receivers) < self._most:
                self._receivers[row["client"]] = known
            else:
                self._others += 1
        return known

    def _queued(self, row: Row) -> None:
        receiver = self._receiver(row)
        receiver.text, receiver.epoch, receiver.over = (
            f"waits in the queue at {printable(row['node'])}",
            row["epoch"],
            False,
        )

    def _sent(self, row: Row) -> None:
        receiver = self._receiver(row)
        if row["qos"] == 0:
            receiver.text, receiver.over = f"sent with QoS 0{self._from(row)}", True
        elif not receiver.over:
            receiver.text = f"sent{self._from(row)}, and not acknowledged"

    def _answered(self, row: Row) -> None:
        verb = "delivered" if row["code"] < _REFUSED else f"refused with code {value_of('code', row['code'])}"
        receiver = self._receiver(row)
        receiver.text, receiver.over = f"{verb}{self._from(row)}", True

    def _dropped(self, row: Row) -> None:
        reason = f"dropped: {printable(row['reason'])}" if row["type"] == "q.drop" else "expired"
        receiver = self._receiver(row)
        receiver.text, receiver.over = f"{reason}, at {printable(row['node'])}{self._after(row)}", True

    def _ended(self, row: Row) -> None:
        reason = printable(row.get("reason", "expired"))
        receiver = self._receivers[row["client"]]
        receiver.text, receiver.over = f"was not delivered: the session ended with its queue ({reason})", True

    def _left(self, row: Row) -> None:
        sender, target = row["node"], row["target"]
        planned = {each for (node, _), nodes in self._routes.items() if node == sender for each in nodes}
        if planned and target not in planned:
            self._routed_again(sender)
        known = self._links.get(target)
        if known is None or (known.over and known.text):
            text = f"was sent there by {printable(sender)}, and no row says it arrived"
            self._links[target] = _Link(text, sender)

    def _arrived(self, row: Row) -> None:
        self._links[row["node"]] = _Link("", over=True)

    def _not_forwarded(self, row: Row) -> None:
        self._links[row["target"]] = _Link(f"was not forwarded: {printable(row['reason'])}")

    def _from(self, row: Row) -> str:
        return f" by {printable(row['node'])}{self._after(row)}"

    def _after(self, row: Row) -> str:
        """How long after the PUBLISH."""
        if self._publish is None:
            return ""
        return f" after {(row['hlc'] >> LOGICAL_BITS) - (self._publish['hlc'] >> LOGICAL_BITS)} ms"


_STEPS: Final = {
    "pub.recv": Fate._published,
    "will.fire": Fate._published,
    "pub.ack": Fate._acknowledged,
    "pub.comp": Fate._completed,
    "pub.route": Fate._went,
    "q.enq": Fate._queued,
    "dlv.send": Fate._sent,
    "dlv.ack": Fate._answered,
    "q.drop": Fate._dropped,
    "q.expire": Fate._dropped,
    "sess.end": Fate._ended,
    "sess.expire": Fate._ended,
    "fwd.send": Fate._left,
    "fwd.recv": Fate._arrived,
    "fwd.drop": Fate._not_forwarded,
}
