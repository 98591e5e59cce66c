"""Which gateway serves each client id that has no state beyond its connection (P3).

Such a client stays at its gateway. The *registrar* of its slot knows the gateway and the number of the connection, so
that one client id is served once in the cluster. The registrar is the primary of the slot, or the deputy while the slot
has no primary. It has this knowledge in memory: whenever a slot gets another registrar, and whenever a node enters the
view or begins its tunnel again, the registrar asks that node for its clients. It answers no CONNECT of a slot before it
knows the clients of every node in the view (H-37).

This is a core without I/O. `Gateways` sends its messages and reports those of the other nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Protocol

import msgspec

Then = Callable[[], None]


class Owner(msgspec.Struct, frozen=True):
    """The connection that a client id has: the number is unique at its gateway. `began` is that of its CONNECT
    (`LatestConnect`)."""

    node: str
    number: int
    began: int = 0


class RegistrarPort(Protocol):
    """The messages of a registrar to gateways. All return at once."""

    def ask(self, node: str, number: int, slots: dict[int, int]) -> bool:
        """Ask a node for its clients in these slots (slot -> epoch), once it has applied these epochs.

        It answers with `Registrar.reported` and then `Registrar.answered`. Returns False if the node cannot be asked
        now: `Registrar.opened` follows.
        """
        ...

    def evict(self, client: bytes, owner: Owner, /) -> None:
        """Ask the gateway to end this connection; `Registrar.ended` follows, or `Registrar.lost`."""
        ...


class Registrar:
    """The owners of the client ids in the slots that this node, `name`, registers."""

    def __init__(self, name: str, port: RegistrarPort) -> None:
        self.name = name
        self._port = port
        self._epochs: dict[int, int] = {}
        self._others: set[str] = set()
        self._missing: dict[int, set[str]] = {}
        """For each slot the nodes whose clients are not known yet; slots without such nodes are left out."""
        self._asked: dict[str, dict[int, dict[int, int]]] = {}
        """For each node the open questions, by number: slot -> epoch."""
        self._owners: dict[bytes, Owner] = {}
        self._numbers: dict[str, dict[int, bytes]] = {}
        """For each node its connections, by number: the reverse of `_owners`."""
        self._waiting: dict[int, list[Then]] = {}
        self._evicting: dict[bytes, list[Then]] = {}
        self._number = count(1)

    def __len__(self) -> int:
        """Client ids with an owner."""
        return len(self._owners)

    @property
    def incomplete(self) -> int:
        """Slots whose CONNECTs wait because the clients of some node are not known yet."""
        return len(self._missing)

    def is_complete(self, slot: int) -> bool:
        """True if this node registers the slot, and knows the clients of every node in the view."""
        return slot in self._epochs and slot not in self._missing

    # -- the table, the view, the tunnels

    def applied(self, slots: dict[int, int], others: Iterable[str], ended: Iterable[tuple[bytes, int]] = ()) -> None:
        """This node registers these slots (slot -> epoch), and these other nodes are in the view.

        `ended`: the client ids that stay with this node for a while although their connections here have ended, with
        the numbers of these connections (H-38). Nobody asks this node for them.
        """
        others = set(others)
        left, entered = self._others - others, others - self._others
        begun: dict[int, int] = {}
        freed: list[Then] = []
        self._others = others
        if slots != self._epochs:
            gone = {slot for slot, epoch in self._epochs.items() if slots.get(slot) != epoch}
            if gone:
                freed = self._drop(gone)
            begun = {slot: epoch for slot, epoch in slots.items() if slot in gone or slot not in self._epochs}
            self._epochs = dict(slots)
        for client, connection in ended:
            if client[0] in begun:
                self.claim(client, self.name, connection)
        # before anybody is served: a node that enters may serve a client id that waits here
        for node in sorted(others):
            self._begin(node, self._epochs if node in entered else begun)
        for then in freed:
            then()
        for node in sorted(left):
            self._forget(node)
        for slot in [slot for slot in self._waiting if slot not in self._missing]:
            self._resume(slot)

    def opened(self, node: str) -> None:
        """The tunnel to a node has opened: ask what is still unknown."""
        missing = {slot: self._epochs[slot] for slot, nodes in self._missing.items() if node in nodes}
        self._asked.pop(node, None)
        if missing:
            self._ask(node, missing)

    def ask_again(self, node: str) -> None:
        """The node has clients that this registrar does not know."""
        if node in self._others:
            self._begin(node, self._epochs)

    def broken(self, node: str) -> None:
        """The tunnel to a node is broken: what that node has said since may be lost, so nothing of it is known."""
        if node in self._others:
            self._asked.pop(node, None)
            self._begin(node, self._epochs, False)  # first: nobody may be served between
            self._ownerless(node)

    def _begin(self, node: str, slots: dict[int, int], ask: bool = True) -> None:
        if not slots:
            return
        for slot in slots:
            self._missing.setdefault(slot, set()).add(node)
        if ask:
            self._ask(node, dict(slots))

    def _ask(self, node: str, slots: dict[int, int]) -> None:
        number = next(self._number)
        if self._port.ask(node, number, slots):
            self._asked.setdefault(node, {})[number] = slots

    def _forget(self, node: str) -> None:
        """The node has left the view: its connections count no more, and nobody waits for its answers."""
        self._asked.pop(node, None)
        self._ownerless(node)
        for slot in [slot for slot, nodes in self._missing.items() if node in nodes]:
            self._known(slot, node)

    def _ownerless(self, node: str) -> None:
        for client in list(self._numbers.pop(node, {}).values()):
            del self._owners[client]
            self._free(client)

    def _drop(self, slots: set[int]) -> list[Then]:
        """These slots have another registrar, or another epoch: forget their owners. Returns who waited for the end of
        an owner."""
        for client in [client for client in self._owners if client[0] in slots]:
            owner = self._owners.pop(client)
            del self._numbers[owner.node][owner.number]
        for slot in slots:
            self._missing.pop(slot, None)
        clients = [client for client in self._evicting if client[0] in slots]
        return [then for client in clients for then in self._evicting.pop(client)]

    def _known(self, slot: int, node: str) -> None:
        nodes = self._missing.get(slot)
        if nodes is None:
            return
        nodes.discard(node)
        if not nodes:
            del self._missing[slot]
            self._resume(slot)

    def _resume(self, slot: int) -> None:
        for then in self._waiting.pop(slot, ()):
            then()

    # -- answers of gateways

    def reported(self, node: str, number: int, client: bytes, connection: int, began: int = 0) -> bool:
        """A gateway has this client, by its answer to a question. False if the question is not open any more.

        If another node has the client id already, that one stays, and this connection is evicted. Of two connections at
        one gateway the later one counts, as in `claim`.
        """
        slots = self._asked.get(node, {}).get(number)
        if slots is None or slots.get(client[0]) != self._epochs.get(client[0]):
            return False
        owner = self._owners.get(client)
        if owner is not None and owner.node != node:
            self._port.evict(client, Owner(node, connection))
        elif owner is None or owner.number < connection:
            self.claim(client, node, connection, began)
        return True

    def answered(self, node: str, number: int) -> None:
        """A gateway has reported all its clients for a question."""
        for slot, epoch in self._asked.get(node, {}).pop(number, {}).items():
            if self._epochs.get(slot) == epoch:
                self._known(slot, node)

    def ended(self, node: str, connection: int) -> None:
        """A connection has ended, and nothing that its client published is on its way any more."""
        client = self._numbers.get(node, {}).pop(connection, None)
        if client is not None:
            del self._owners[client]
            self._free(client)

    def _free(self, client: bytes) -> None:
        for then in self._evicting.pop(client, ()):
            then()

    # -- clients

    def is_free_now(self, client: bytes, gateway: str) -> bool:
        """True if a connection at this gateway may own the client id now; see `is_free`."""
        slot = client[0]
        if slot not in self._epochs or slot in self._missing or client in self._evicting:
            return False
        owner = self._owners.get(client)
        return owner is None or owner.node == gateway

    def is_free(self, client: bytes, gateway: str, then: Then) -> bool:
        """True if a connection at this gateway may own the client id now.

        If False, `then` is called once this should be asked again; an owner at another gateway is evicted.
        """
        if self.is_free_now(client, gateway):
            return True
        owner, waiting = self._owners.get(client), self._evicting.get(client)
        if waiting is not None:
            waiting.append(then)  # connections are served in the order in which they came
        elif owner is None or client[0] in self._missing or client[0] not in self._epochs:
            self._waiting.setdefault(client[0], []).append(then)
        else:
            self._evicting[client] = [then]
            self._port.evict(client, owner)
        return False

    def claim(self, client: bytes, node: str, connection: int, began: int = 0) -> None:
        """The connection owns the client id from now on, in place of an earlier one. `began`: `LatestConnect.began`."""
        former = self._owners.get(client)
        if former is not None:
            self._numbers[former.node].pop(former.number, None)
        self._owners[client] = Owner(node, connection, began)
        self._numbers.setdefault(node, {})[connection] = client

    def owner(self, client: bytes) -> Owner | None:
        """The owner of a client id; None if it has none."""
        return self._owners.get(client)
