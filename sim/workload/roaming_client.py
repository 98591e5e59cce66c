"""A model client of a cluster. It stays at its gateway, or chooses one for each connection, and tolerates refusals that
are allowed.

A node that does not see the whole cluster may refuse operations that its policies forbid (docs/netsplit.md).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import takewhile
from random import Random
from typing import Any

from ...mqtt import packets
from ...netsplit.policy import ViewState
from ..engine.host import Host
from ..engine.machine import Machine
from ..engine.pipe import Mark
from ..history import NEVER, History, Subscribed
from .client import REFUSED_FOR_DISK, ModelClient
from .swarm import ClientSpec

HEALING_S = 30.0
"""A gateway that found no primary before the end of all faults may say so until this many seconds later."""
AGAIN_S = 0.6
"""Seconds after which the client repeats a refused SUBSCRIBE."""
REFUSALS = {"register": (3, 0x88), "subscribe": (0x80, 0x83, 0x87), "unsubscribe": (0x83,)}


class RoamingClient(ModelClient):
    """A client of `home`. If `machines` has several, the client chooses one of them for each connection.

    `find` returns the machine that has the durable session of the client, for the name of a gateway; None if that one
    is in no cluster yet.
    """

    def __init__(
        self,
        spec: ClientSpec,
        home: Machine,
        machines: tuple[Machine, ...],
        history: History,
        rng: Random,
        delay_s: tuple[float, float],
        kept_s: int | None,
        find: Callable[[str], Machine | None],
    ) -> None:
        super().__init__(spec, home, history, rng, delay_s, kept_s)
        self._machines = machines
        self._find = find
        self._stays = False
        self.on_granted: Callable[[Subscribed], None] | None = None
        """Called with each filter that a SUBACK has granted."""

    def connect(self, clean: bool) -> None:
        """Open a connection (`ModelClient.connect`). A client with several `machines` chooses one of them first."""
        if len(self._machines) > 1 and self.peer is None and not self._may_come_late():
            self.host = self.rng.choice(self._machines)
        if self.peer is None and self._find(self.host.name) is None:
            self.wanted = True
            self.again()  # the node has not joined yet: another one will have the slots of its sessions
            return
        if self.peer is None:
            self._stays = (clean or self.must_begin) and (self.spec.version != 5 or self.spec.expiry_s == 0)
        super().connect(clean)

    @property
    def server(self) -> Host:
        """The machine with the session of the client. Without durable state that is its gateway, but for a client whose
        will is in its slot."""
        found = None if self._stays and not self._will_in_slot() else self._find(self.host.name)
        return self.host if found is None else found

    @property
    def former_server(self) -> Host | None:
        """The machine with the session that a Clean Start ends before its CONNACK; None if the client has none."""
        opened = [each for each in self.lists if each.opened != NEVER]
        return self._find(self.host.name) if opened and opened[-1].expiry_s != 0 else None

    def _will_in_slot(self) -> bool:
        """Whether slots have copies and the client has a will: then its gateway serves it only while its slot has no
        primary."""
        if not self.history.copied or self.spec.will is None or self.host.node is None:
            return False
        session = self.host.node.sessions.known("", self.name)
        return session is None or session.connection is None or session.in_slot

    @property
    def is_read(self) -> bool:
        """Whether the gateway reads from the client, and the primary reads what the gateway relays: a primary pauses
        that while much waits for a follower (3 nodes, copies, seed 9)."""
        node = self.server.node
        session = None if node is None else node.sessions.known("", self.name)
        connection: Any = None if session is None else session.connection
        return super().is_read and (connection is None or not connection.flow.paused_for)

    def _may_come_late(self) -> bool:
        """Whether an unanswered CONNECT, which ends the session, may arrive after one at another node."""
        return bool(self.lists) and self.lists[-1].opened == NEVER and self.lists[-1].clean

    def _had_session(self) -> bool:
        """Whether the node should have a session; the CONNACK of MQTT 3.1 does not say. A lost disk has no sessions."""
        last = next((each for each in reversed(self.lists[:-1]) if each.opened != NEVER), None)
        if last is None or not super()._had_session():
            return False
        return not any(at_s >= last.opened_at for at_s in self.history.losses(last.node, last.client))

    def may_be_refused(self, operation: str, reason: int, mark: Mark) -> bool:
        """Whether this refusal is allowed: a policy may forbid the operation, the disk may be full, or slots may have
        too few copies."""
        if super().may_be_refused(operation, reason, mark):
            return True
        assert self.connection is not None
        connects = operation == "register"
        since = self.connection.asked_at if connects else self.history.now() - 30
        if connects and self._gave_up_a_connect() and self.history.refused_as_older.get(self.name, -1.0) >= since:
            return True  # that one came late to the primary, whose clock took it for the newer one
        if connects and reason in REFUSALS[operation] and self.had_full_disk((self.host.name, self.server.name), since):
            return True  # its slot has no primary while it leaves the full disk (3 nodes, copies, rare, seed 18600107)
        relayed = self.connection.relayed and connects
        if (
            relayed
            and reason in (*REFUSALS[operation], *REFUSED_FOR_DISK)
            and self.history.now() < self.history.healed_until(HEALING_S)
        ):
            return True  # the nodes may not have reached each other, or the disk of the gateway is full
        if reason not in REFUSALS[operation]:
            return False
        if connects and self._refuser_lacked_whole_view(since):
            return True
        return self._lacked_whole_view(since) or self._lacked_copies(since)

    def _gave_up_a_connect(self) -> bool:
        """Whether a CONNECT shortly before the present one got no answer: a node may have accepted it nevertheless."""
        return any(each.opened == NEVER for each in self.lists[-3:-1])

    def _lacked_copies(self, since_s: float) -> bool:
        """Whether a node of the client refused operations at some time since then because slots had too few copies."""
        return any(self.history.few_copies.were_few(host.name, since_s) for host in (self.host, self.server))

    def _lacked_whole_view(self, since_s: float) -> bool:
        """Whether a node of the client did not see the whole cluster at some time since then, or does not now. The
        registrar of its client id is one of them, also if it has no session there."""
        for host in (self.host, self.server, self._find(self.host.name) or self.host):
            if host.node is not None and host.node.policy.view_state is not ViewState.WHOLE:
                return True
            if self.history.views.lacked_whole_view(host.name, since_s):
                return True
        return False

    def _refuser_lacked_whole_view(self, since_s: float) -> bool:
        """Whether the node that has refused a CONNECT since then did not see the whole cluster. The slot of the session
        may have left it while the answer was on its way (5 nodes, copies, seed 34100088)."""
        refuser = self._answered_by("policy.deny", since_s)
        return refuser != "" and self.history.views.lacked_whole_view(refuser, since_s)

    def not_granted(self, subscribed: Subscribed) -> None:
        """Subscribe again after `AGAIN_S` seconds."""
        if self.connection is not None:
            self.loop.call_later(AGAIN_S, partial(self._ask_again, subscribed.filter, self.connection.number))

    def _ask_again(self, name: str, number: int) -> None:
        connection = self.connection
        if connection is None or connection.number != number or connection.opened == NEVER:
            return
        if name not in self.granted and name not in self.dropped:
            self.subscribe([name])

    def _connack(self, packet: packets.Connack, mark: Mark) -> None:
        if self.connection is not None and not packet.reason:
            self.connection.node = self._answered_by("conn.open", self.connection.asked_at) or self.server.name
            self.sender.go_to(self.connection.node)
        super()._connack(packet, mark)

    def _answered_by(self, answer: str, since_s: float) -> str:
        """Returns the node that answered the last CONNECT of the client. That node has written a row of the type
        `answer`, `conn.open` or `policy.deny`. Returns "" if no node has written one since then. The slot may have left
        the node while the answer was on its way."""
        wanted = (answer, self.name, "register")
        events = takewhile(lambda event: event[0] >= since_s, reversed(self.history.events))
        return next((row["node"] for _, row in events if _told(row) == wanted), "")

    def _suback(self, packet: packets.Suback, mark: Mark) -> None:
        asked = self.asked.get(packet.packet_id, [])
        super()._suback(packet, mark)
        for each in asked:
            if self.on_granted is not None and each.granted != NEVER:
                self.on_granted(each)

    def _unsuback(self, packet: packets.Unsuback, mark: Mark) -> None:
        if self.spec.version < 5:
            # this UNSUBACK has no reason code, so the client cannot know whether the node has removed the filter
            self.asked.pop(packet.packet_id, None)
            return
        asked = self.asked.pop(packet.packet_id, [])
        for each, reason in zip(asked, packet.reasons or [0] * len(asked), strict=True):
            if reason < 0x80:
                each.gone = self.history.next()
            elif not self.may_be_refused("unsubscribe", reason, mark):
                self.history.problem(f"{self.name}: UNSUBSCRIBE of {each.filter} refused with {reason}")


def _told(row: dict[str, Any]) -> tuple[str, str, str]:
    return (row["type"], row.get("client", ""), row.get("operation", "register"))
