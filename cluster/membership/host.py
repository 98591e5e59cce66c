"""The part of a node that the membership modules use."""

from __future__ import annotations

from typing import Protocol

from ..identity import Incarnation
from ..links.links import Links
from ..ports import Identity, Ports, Settings
from .consensus import Consensus
from .lease_service import LeaseService
from .state_machine import MembershipState
from .view import View


class Host(Protocol):
    """One node. While it is in no cluster, `consensus` and `lease_service` are None."""

    @property
    def me(self) -> Identity:
        """This process."""
        ...

    @property
    def ports(self) -> Ports:
        """Clocks, disks, network and log."""
        ...

    @property
    def settings(self) -> Settings:
        """Times and limits."""
        ...

    @property
    def links(self) -> Links:
        """The streams to and from the other nodes."""
        ...

    @property
    def membership(self) -> MembershipState:
        """Members and view, as applied here."""
        ...

    @property
    def view(self) -> View:
        """The applied view; the empty one while standalone."""
        ...

    @property
    def incarnation(self) -> Incarnation | None:
        """This process in the applied view."""
        ...

    @property
    def consensus(self) -> Consensus | None:
        """Raft and the replicated membership."""
        ...

    @property
    def lease_service(self) -> LeaseService | None:
        """The lease of this process, and the duties of a leader."""
        ...
