"""Random histories of publishes, slots that move, late copies and late answers (H-44).

Each slot gets each message once, in the order of its origin, and no answer leaves before all slots have the message.
The slots have no sessions here: a slot is the list of messages that it took. Its rows move as one step, while the
former primary takes nothing for it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import pytest

from strogoff.broker.clustering.forward_codec import split_head
from strogoff.broker.clustering.forward_receiver import ForwardReceiver
from strogoff.broker.clustering.forward_sender import ForwardSender
from strogoff.broker.clustering.routes import Routes
from strogoff.broker.clustering.slot_follower import SlotFollower, Traffic
from strogoff.broker.clustering.slot_gate import SlotGate
from strogoff.broker.clustering.unproven_answers import UnprovenAnswers
from strogoff.broker.queues.message import Message, Origin
from strogoff.broker.routing.ack_context import AckContext
from strogoff.broker.routing.remote import RemoteTarget
from strogoff.broker.routing.remote_table import NOWHERE
from strogoff.broker.routing.router import AFTER_COMMIT
from strogoff.cluster.identity import SLOTS
from strogoff.cluster.links.ports import Refuse
from strogoff.cluster.slots.table import SlotHome
from strogoff.storage import keys
from tests.harness.broker import BrokerHarness

NAMES = ("n1", "n2", "n3")
USED = range(4)


class Lanes:
    """The lanes from one node to the others. `items` of None are void; item `next` is the next to arrive."""

    def __init__(self) -> None:
        self.items: dict[str, dict[int, bytes | None]] = {}
        self.next: dict[str, int] = {}
        self.slow: Any = ()
        self.slow_map: Any = ()
        self.full: Collection[str] = set()
        self.window_bytes, self.ahead_bytes, self.behind_bytes = 1 << 20, 1 << 16, 1 << 20

    def send(self, node: str, payload: bytes) -> int:
        lane = self.items.setdefault(node, {})
        lane[len(lane) + 1] = payload
        self.next.setdefault(node, 1)
        return len(lane)

    def void(self, node: str, seqs: list[int] | None = None) -> None:
        for seq in self.items[node] if seqs is None else seqs:
            self.items[node][seq] = None

    def beside(self, node: str, items: int, size_bytes: int) -> None:
        pass


class MovingNode:
    """The parts of a node that send and take copies, and the slot table that it follows."""

    def __init__(self, name: str, world: MovingSlots) -> None:
        self.name = name
        self.world = world
        self.harness = BrokerHarness()
        node: Any = self.harness.node
        node.name, node.env.origin = name, Origin(name, 1)
        self.node = node
        self.lanes = Lanes()
        self.table = 0
        self.member: Any = SimpleNamespace(
            slots=SimpleNamespace(index=0, slots_by_primary={}), own_holder=name, leased=lambda: True,
            links=SimpleNamespace(try_again=lambda: None), view=SimpleNamespace(incarnations=()),
        )  # fmt: skip
        node.gateways.locator = SimpleNamespace(
            home_of=self._home, homes=lambda: [self._home(slot) for slot in range(SLOTS)]
        )
        routes = Routes(name, lambda function: None)
        self.gate = SlotGate(node.env.store, routes.here_since)
        self.answers: deque[tuple[str, int, int]] = deque()
        self.receiver = ForwardReceiver(node, self._acknowledge, lambda: True, self.gate)
        self.sender = ForwardSender(node, self.lanes, receiving=self.receiver)
        node.env.cluster = SimpleNamespace(is_present=lambda other: True, remote_matches=lambda *_: NOWHERE)
        node.router.deliver = self._deliver
        relays: Any = SimpleNamespace(parked=False, follow_table=lambda index: None)
        silent: Any = SimpleNamespace(arrived=lambda slots: None)
        member: Any = self.member
        self.follower = SlotFollower(
            node, member, routes, Traffic(self.gate, self.receiver, self.sender, relays, silent)
        )
        self.follower.follow()
        for other in NAMES:
            self.receiver.watermark(other, 1)

    def _home(self, slot: int) -> SlotHome:
        return SlotHome(self.world.tables[self.table][slot], True, 1, self.world.moved(slot, self.table))

    def _acknowledge(self, origin: str, seq: int, boot: int) -> None:
        self.answers.append((origin, seq, self.gate.applied))

    def _deliver(self, message: Message, plans: Any, live: bool, slots: tuple[int, ...], *rest: Any) -> int:
        for slot in slots:
            assert self.world.tables[self.table][slot] == self.name
            self.world.taken[slot].append((message.origin.node, message.counter))
        self.node.env.store.put(b"n" + b"entry", b"%d" % message.counter)
        return AFTER_COMMIT

    def follow(self) -> None:
        """Follow one of the next tables; a snapshot of the log has skipped those in between."""
        self.table = min(self.table + self.world.rng.choice((1, 1, 2, 3)), len(self.world.tables) - 1)
        for slot in list(self.gate.sealed):
            if self.world.tables[self.table][slot] != self.name:
                self.gate.sealed.discard(slot)
                self.gate.drop(slot)
        self.member.slots.index = self.table
        self.follower.follow()

    def deliver_from(self, other: MovingNode) -> None:
        """Take the next item of another node, unless it is too early."""
        lane, seq = other.lanes.items.get(self.name, {}), other.lanes.next.get(self.name, 1)
        while seq in lane and lane[seq] is None:
            seq += 1
        payload = lane.get(seq)
        if payload is not None:
            try:
                self.receiver.deliver(other.name, seq, *split_head(payload))
            except Refuse:
                return
            seq += 1
        other.lanes.next[self.name] = seq

    def publish(self, slots: list[int], qos: int, number: int) -> None:
        """Accept a message for these slots; note when its answer may leave."""
        table = self.world.tables[self.table]
        message = Message("", "t", b"%d" % number, qos, False, None, 0, "p", self.node.env.origin, number)
        here = tuple([slot for slot in slots if table[slot] == self.name])
        if here:
            self._deliver(message, None, False, here)
        there: dict[str, list[int]] = {}
        for slot in slots:
            if slot not in here:
                there.setdefault(table[slot], []).append(slot)
        context = AckContext()
        targets = tuple([RemoteTarget(node, False, tuple(some)) for node, some in sorted(there.items())])
        if targets:
            self.sender.forward(message, targets, [], context)
        self.world.published.append((self.name, number, slots))
        pending = context.take()
        done = self._done(number, slots)
        if pending is None or not pending.open:
            done()
        else:
            pending.waiter = done

    def _done(self, number: int, slots: list[int]) -> Callable[[], None]:
        def done() -> None:
            missing = [slot for slot in slots if (self.name, number) not in self.world.taken[slot]]
            assert not missing, f"the answer to {number} of {self.name} leaves before slots {missing} have it"
            self.world.answered.add((self.name, number))

        return done


class MovingSlots:
    """Three nodes, and the tables that they follow one after the other, each at its own time."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.tables: list[list[str]] = [[NAMES[slot % 3] for slot in range(SLOTS)]]
        self.taken: dict[int, list[tuple[str, int]]] = {slot: [] for slot in USED}
        self.published: list[tuple[str, int, list[int]]] = []
        self.answered: set[tuple[str, int]] = set()
        self.moving: dict[int, str] = {}
        self.number = 0
        self.nodes = {name: MovingNode(name, self) for name in NAMES}

    def moved(self, slot: int, table: int) -> int:
        """Returns the table since which the slot is where it is in this table."""
        while table and self.tables[table - 1][slot] == self.tables[table][slot]:
            table -= 1
        return table

    def step(self) -> None:
        node = self.nodes[self.rng.choice(NAMES)]
        kind = self.rng.choices(
            (self._publish, self._deliver, self._answer, self._follow, self._seal, self._switch, self._fill),
            (6, 8, 5, 2, 1, 1, 1),
        )[0]  # fmt: skip
        kind(node)

    def _publish(self, node: MovingNode) -> None:
        slots = sorted(self.rng.sample(list(USED), self.rng.randint(1, 3)))
        if not node.gate.sealed.intersection(slots):  # a node keeps its own messages for a slot that it gives away
            self.number += 1
            node.publish(slots, self.rng.choice((1, 2)), self.number)

    def _deliver(self, node: MovingNode) -> None:
        for _ in range(self.rng.randint(1, 4)):
            other = self.nodes[self.rng.choice([name for name in NAMES if name != node.name])]
            node.deliver_from(other)
        node.harness.settle()

    def _answer(self, node: MovingNode) -> None:
        if node.answers:
            origin, seq, applied = node.answers.popleft()
            self.nodes[origin].sender.acked(node.name, seq, True, applied)

    def _follow(self, node: MovingNode) -> None:
        if node.table < len(self.tables) - 1:
            node.follow()

    def _seal(self, node: MovingNode) -> None:
        """A primary stops to take copies for one of its slots."""
        own = [slot for slot in USED if self.tables[-1][slot] == node.name and slot not in self.moving]
        if own and node.table == len(self.tables) - 1:
            slot = self.rng.choice(own)
            node.gate.sealed.add(slot)
            self.moving[slot] = self.rng.choice([name for name in NAMES if name != node.name])

    def _switch(self, node: MovingNode) -> None:
        """The rows of a slot are at its next primary: the log has the change."""
        for slot, target in self.moving.items():
            former, there = self.nodes[self.tables[-1][slot]], self.nodes[target]
            if former is node and slot not in there.gate.sealed:  # there it has not left for good yet
                former.harness.settle()
                for kind in (b"y", b"a"):
                    prefix = keys.of_slot(kind, slot)
                    for key in there.node.env.store.keys(prefix, keys.after(prefix)):
                        there.node.env.store.delete(key)
                    for key, value in former.node.env.store.scan(prefix, keys.after(prefix)):
                        there.node.env.store.put(key, value)
                there.receiver.load_slots([slot])
                table = list(self.tables[-1])
                table[slot] = target
                self.tables.append(table)
                del self.moving[slot]
                return

    def _fill(self, node: MovingNode) -> None:
        """A lane gets full, or has room again."""
        other = self.rng.choice([name for name in NAMES if name != node.name])
        if other in node.lanes.full:
            node.lanes.full = set(node.lanes.full) - {other}
            node.sender.room(other)
        else:
            node.lanes.full = {*node.lanes.full, other}

    def rest(self) -> None:
        """Let everything arrive."""
        for _ in range(100):
            for slot in list(self.moving):
                self._switch(self.nodes[self.tables[-1][slot]])
            for node in self.nodes.values():
                for other in list(node.lanes.full):
                    node.lanes.full = set(node.lanes.full) - {other}
                    node.sender.room(other)
                self._follow(node)
                for other_name in NAMES:
                    if other_name != node.name:
                        for _ in range(20):
                            node.deliver_from(self.nodes[other_name])
                node.harness.settle()
                while node.answers:
                    self._answer(node)

    def judge(self) -> None:
        for slot in USED:
            for name in NAMES:
                expected = [number for origin, number, slots in self.published if origin == name and slot in slots]
                assert [number for origin, number in self.taken[slot] if origin == name] == expected, (slot, name)
        assert self.answered == {(name, number) for name, number, _ in self.published}
        assert sum(node.sender.copies for node in self.nodes.values()) == 0


def history(seed: int, steps: int = 300) -> MovingSlots:
    world = MovingSlots(seed)
    for _ in range(steps):
        world.step()
    world.rest()
    world.judge()
    return world


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_each_slot_gets_each_message_once_and_in_order(first: int) -> None:
    moves = [len(history(seed).tables) - 1 for seed in range(first, first + 10)]
    assert sum(moves) > 20, "the histories move slots"


def failures(seeds: range) -> int:
    found = 0
    for seed in seeds:
        try:
            history(seed)
        except AssertionError:
            found += 1
    return found


@pytest.mark.parametrize("bug", ["answers", "numbers", "table", "sending"])
def test_the_histories_find_what_the_rule_forbids(monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    if bug == "answers":
        monkeypatch.setattr(UnprovenAnswers, "counts", lambda *arguments: True)
    elif bug == "numbers":
        monkeypatch.setattr(SlotGate, "last", lambda *arguments: (0, 0))
    elif bug == "table":
        monkeypatch.setattr(SlotGate, "check", lambda *arguments: None)
    else:
        monkeypatch.setattr(ForwardSender, "_divide", lambda *arguments: False)
    assert failures(range(40)) > 0
