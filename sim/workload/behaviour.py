"""The actions of a model client: publish, disconnect, reconnect, read slowly, change its subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ..engine.loop import VirtualLoop
from .client import ModelClient
from .swarm import TOPICS, WATCHER, Swarm

LARGE = 300
"""A payload size in bytes at which queues share payloads."""


class Behaviour:
    """Drives one client until `calm`. After that the client only reads, answers and stays connected."""

    def __init__(self, client: ModelClient, swarm: Swarm, rng: Random) -> None:
        self.client = client
        self._features = swarm.features
        self._rated = swarm.options.max_message_rate > 0
        self._rng = rng
        self._loop: VirtualLoop = client.loop
        self._calm = False
        self._levels = [0] * ("qos0" in swarm.features) + [q for q in (1, 2) if f"qos{q}" in swarm.features] * 2
        self._returns = rng.choice((0.5, 0.5, 0.05))
        self._moves = self._weighted()

    def begin(self) -> None:
        """Connect soon, then act at random times. The watcher connects before all other clients."""
        if self.client.name == WATCHER:
            self.client.connect(False)
            self._loop.call_later(1.5, self._next)
        else:
            self._loop.call_later(0.3 + self._rng.random() * 0.5, self._first)

    def calm(self) -> None:
        """Stop acting: stay connected, read, and answer at once."""
        client = self.client
        self._calm = True
        client.receiver.delay_s = min(client.receiver.delay_s, 0.01)
        client.read_on()
        if not client.gone:
            client.connect(client.spec.expiry_s == 0)

    def _first(self) -> None:
        self.client.connect(self.client.spec.expiry_s == 0)
        self._next()

    def _next(self) -> None:
        self._loop.call_later(self._rng.expovariate(1 / self.client.spec.pace_s), self._act)

    def _act(self) -> None:
        client = self.client
        if self._calm or client.gone:
            return
        if client.peer is None and not client.wanted:
            if self._rng.random() < self._returns:
                clean = "clean_start" in self._features and not client.spec.steady and self._rng.random() < 0.3
                client.connect(clean or client.spec.expiry_s == 0)
        elif client.connected:
            self._move()
        self._next()

    def _move(self) -> None:
        if self.client.spec.writes and self._rng.random() < 0.8:
            self._publish()
            return
        names, weights = self._moves
        move: Callable[[], None] = self._rng.choices(names, weights)[0]
        move()

    def _weighted(self) -> tuple[list[Callable[[], None]], list[float]]:
        client, features = self.client, self._features
        moves: list[tuple[Callable[[], None], float]] = [(self._nothing, 4.0)]
        if "breaks" in features:
            moves.append((self._lose, 1.0))
            moves.append((self._cut, 1.0))
        if "polite" in features:
            moves.append((self._disconnect, 1.0))
        if "takeover" in features:
            moves.append((client.take_over, 1.0))
        if "subscribing" in features and client.spec.filters and not client.spec.steady:
            moves.append((self._change_mind, 2.0))
        if "slow" in features:
            moves.append((self._stop_reading, 1.0))
        if client.spec.abandons:
            moves.append((client.abandon, 0.5))
        return [move for move, _ in moves], [weight for _, weight in moves]

    # -- moves

    def _nothing(self) -> None:
        """Do nothing this time."""

    def _publish(self) -> None:
        rng, features = self._rng, self._features
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            topic = rng.choice(self.client.spec.topics)
            retained = topic.startswith("r/")
            expires = "expiry" in features and self.client.spec.version == 5 and not retained and rng.random() < 0.5
            self.client.sender.publish(
                topic,
                max(1, rng.choice(self._levels)) if retained else rng.choice(self._levels),
                retained,
                rng.choice((1, 2, 5)) if expires else 0,
                LARGE if "large" in features and rng.random() < 0.5 else 0,
            )

    def _lose(self) -> None:
        """Close without DISCONNECT, and reconnect at once or in a later action."""
        self.client.lose()
        self.client.wanted = self._rng.random() < 0.5
        if self.client.wanted:
            self.client.again()

    def _cut(self) -> None:
        peer = self.client.peer
        if peer is not None:
            peer.break_off()

    def _disconnect(self) -> None:
        expiry_s = self._rng.choice((None, None, 2)) if "session_expiry" in self._features else None
        if self.client.spec.steady:
            expiry_s = None
        if self._rated and self.client.connected:
            self._publish_many()
        self.client.disconnect(self._rng.random() < 0.2, expiry_s)

    def _publish_many(self) -> None:
        """Publish so much that a DISCONNECT behind it waits for the client's rate."""
        client, rng = self.client, self._rng
        for _ in range(rng.choice((0, 4, 12, 25))):
            client.sender.publish(rng.choice(client.spec.topics or TOPICS), rng.choice(self._levels))

    def _change_mind(self) -> None:
        client = self.client
        if client.dropped:
            client.subscribe(sorted(client.dropped))
        elif client.granted:
            client.unsubscribe(self._rng.choice(sorted(client.granted)))

    def _stop_reading(self) -> None:
        self.client.pause()
        self._loop.call_later(self._rng.expovariate(1.0), self.client.read_on)
