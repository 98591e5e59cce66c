"""Why a node without a log may be a member of a cluster nevertheless: its disk is new, or it has asked to join, and
does not know the answer. Such a node serves no client: the cluster would not have what its clients get acknowledged."""

from __future__ import annotations

from typing import NamedTuple

from ...cluster.membership.admission import CallAnswer
from ...storage.store import Store

ASKED = b"J"
"""Key in the store of Raft: this node has asked to join, and does not know the answer. The value is the `Request`: its
two parts, with a space between them."""

NOTE_S = 10.0
"""How long the disk may take for the note that this node asks to join."""


class Request(NamedTuple):
    """A request to join: the address that was asked, and the id of the cluster there, "" if it is not known."""

    address: str
    cluster_id: str


class UnknownMembership:
    """What node `name` knows of its membership, as long as it has no log. `meta` is the store of Raft."""

    def __init__(self, name: str, meta: Store) -> None:
        self._name = name
        self._meta = meta
        self._claim = ""
        noted = meta.get(ASKED)
        self._request = None if noted is None else Request(*noted.decode().split(" "))

    @property
    def asked(self) -> bool:
        """Whether this node has asked to join, in this start or an earlier one, and does not know the answer."""
        return self._request is not None

    @property
    def why(self) -> str:
        """Why this node may be a member, and what to do; "" if it knows that it is none."""
        if self._claim or self._request is None:
            return self._claim
        address = self._request.address
        return (
            f"{self._name} has asked {address} to let it join, and does not know the answer: it may be a member "
            f"of that cluster. So this node takes no clients. Repeat vmq-admin cluster join "
            f"discovery-node={address} , with the same flags. To serve alone instead: vmq-admin cluster found"
        )

    def claimed(self, node: str, address: str) -> None:
        """A member says that this node is one, too."""
        self._claim = (
            f"{node} says that {self._name} is a member of its cluster, but the data directory of this node is new, or "
            f"its request to join got no answer. So this node takes no clients. To join again: vmq-admin cluster join "
            f"discovery-node={node.rpartition('@')[0]}@{address} --replace . If that cluster does not exist any more: "
            "vmq-admin cluster found"
        )

    def ask(self, address: str, cluster_id: str) -> Request | None:
        """Note that this node asks the node at an address to let it join: flush the store before the request leaves.
        `cluster_id` is the cluster there, "" if that node is in none. Returns the earlier request without an answer."""
        earlier = self._request
        if earlier is not None and cluster_id != earlier.cluster_id:
            cluster_id = ""  # two clusters may have made it a member: a refusal of one says nothing of the other
        self.note(Request(address, cluster_id))
        return earlier

    def refused(self, answer: CallAnswer, earlier: Request | None) -> None:
        """The last request is refused. The `earlier` one may be in the log: its leader would know."""
        known = earlier is None or (answer.cluster_id and answer.cluster_id == earlier.cluster_id)
        self.note(None if known else earlier)

    def note(self, request: Request | None) -> None:
        """This is the request without an answer now. None: this node knows the log, or knows that it is no member."""
        if request is not None:
            self._meta.put(ASKED, " ".join(request).encode())
        elif self._request is not None:
            self._meta.delete(ASKED)
        self._request = request
