"""The receivers of a message on other nodes: the part of a plan beside the sessions of this node."""

from __future__ import annotations

from typing import NamedTuple


class RemoteTarget(NamedTuple):
    """A node with ordinary subscriptions that match. `live`: of clean sessions; `durable`: of sessions that last.

    `absent` says that the node's incarnation is not in the view: only its durable sessions are still owed anything.
    """

    node: str
    live: bool
    durable: bool
    absent: bool = False


class RemoteMembers(NamedTuple):
    """The members of a shared subscription on another node: how many `online`, how many `holding` while offline; how
    many of both have sessions that last."""

    group: str
    filter: str
    node: str
    online: int
    holding: int
    lasting: int = 0

    @property
    def text(self) -> str:
        """The filter as the members wrote it."""
        return f"$share/{self.group}/{self.filter}"
