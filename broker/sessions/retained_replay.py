"""Sends retained messages to new subscriptions, in steps (MQTT 5.0 section 3.3.1.3).

A `Replay` belongs to a session whose new subscriptions have not got all their retained messages yet. It puts them into
the session's queue as the client takes them, outside the queue's limit. The node's `ReplayTurns` gives all replays
together a bounded amount of work in each turn of the loop.

Before a live message enters the queue, the replay adds the retained message of its topic if it has not done so yet. So
a client never gets a retained message after a newer live message of the same topic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from ..environment import Environment
from ..queues.message import Message
from ..queues.queue import Queue
from ..routing.level_tree import LevelTree
from ..routing.retained_store import RetainedStore
from ..routing.subscriptions import Subscription
from ..routing.topic_search import TopicSearch

TURN = 2000
"""Work in one turn, for all sessions together: looks at topics (0.3 to 1 us each); a message counts as `MESSAGE`.

Measured: no turn takes more than 2 ms of CPU (20,000 messages, clean and durable queues, all QoS).
"""
SLICE = 500
"""Work for one session before the next session has its turn."""
HOLD = 32
"""The most messages of a replay that wait in a queue; during a replay `Queue.full` allows this many more."""
MESSAGE = 8
"""Work for one message (2 to 4 us), counted in looks at topics; each KiB of its payload counts as one more."""


class _Pending:
    """A subscription whose replay is not complete. `early`: topics whose message went before a live message."""

    __slots__ = ("early", "search", "text")

    def __init__(self, text: str, subscription: Subscription, at: str) -> None:
        self.text = text
        self.search = TopicSearch(subscription.filter, at)
        self.early: set[str] = set()


class ReplaySession(Protocol):
    """The session that retained messages are replayed to."""

    mountpoint: str
    client_id: str
    queue: Queue
    subscriptions: dict[str, Subscription]

    @property
    def epoch(self) -> int:
        """As `observer.Session.epoch`."""
        ...

    @property
    def durable(self) -> bool:
        """True if the session outlives its connections."""
        ...

    def replayed(self, text: str) -> None:
        """The replay has put more messages of this filter into the queue: save its progress in the same batch."""
        ...

    def served(self, text: str) -> None:
        """The replay has put all messages of this filter into the queue: save that in the same batch."""
        ...


class Replay:
    """Replays the filters of one session, one after the other. After the last it removes itself from the queue."""

    hold = HOLD

    __slots__ = ("_env", "_line", "_pending", "_retained", "_session", "_tree", "_turns", "_wait", "listed")

    def __init__(self, env: Environment, retained: RetainedStore, turns: ReplayTurns, session: ReplaySession) -> None:
        self._env = env
        self._retained = retained
        self._turns = turns
        self._session = session
        self._pending: dict[str, _Pending] = {}
        self._tree = LevelTree()
        self._line: deque[_Pending] = deque()
        self._wait: int | None = None
        self.listed = False
        """True while `ReplayTurns` has this replay in its list."""

    # -- the filters to replay

    def expect(self, text: str, subscription: Subscription, at: str = "") -> None:
        """Note that retained messages are due for this filter, from topic `at` on. `begin` starts their replay. A
        replay that is under way stops."""
        self._pending[text] = _Pending(text, subscription, at)
        self._tree.add(text)

    def begin(self, text: str) -> None:
        """Start the replay of this filter, which is expected."""
        self._line.append(self._pending[text])

    def cancel(self, text: str) -> None:
        """Stop the replay of this filter."""
        if self._pending.pop(text, None) is not None:
            self._tree.remove(text)
        if not self._pending:
            self._end()

    def at(self, text: str) -> str:
        """Return the topic where the replay of this filter continues, for the record on disk; "" if none is due."""
        pending = self._pending.get(text)
        return pending.search.at if pending is not None else ""

    def _end(self) -> None:
        self._line.clear()
        self._session.queue.set_replay(None)

    # -- order

    def live(self, message: Message) -> None:
        """A live message is about to enter the queue: put the retained message of its topic there first."""
        topic = message.topic
        kept = self._retained.table(message.mountpoint).get(topic, self._env.now)
        if kept is not None and not _is_newer(kept, message):
            for text in self._tree.filters_for(topic):
                pending = self._pending[text]
                if pending.search.passed(topic) or topic in pending.early:
                    continue
                pending.early.add(topic)
                if kept.mid != message.mid and not self._feed(pending, kept):
                    self._env.observer.unhandled(self._session, kept)
        self._turns.soon(self)

    # -- steps

    def wake(self) -> None:
        """The client has taken a message: continue at the end of the turn."""
        if self._wait:
            self._wait -= 1
        self._turns.soon(self)

    def go_on(self) -> None:
        """Put more retained messages into the queue at once, with the work that is left in this turn."""
        self._turns.now(self)

    def step(self, work: int) -> int:
        """Put messages into the queue while the client takes them, for about `work`; returns the work done."""
        queue = self._session.queue
        spent = 0
        queue.send_waiting()
        while self._line:
            pending = self._line[0]
            if self._pending.get(pending.text) is not pending:  # cancelled, or expected again
                self._line.popleft()
                spent += 1
                continue
            if spent >= work:
                self._turns.add(self)
                break
            room = self._room()
            if room <= 0:
                break
            worked, placed = self._advance(pending, room, work - spent)
            spent += worked
            queue.send_waiting()
            if not placed:
                break
        return spent

    def _advance(self, pending: _Pending, room: int, work: int) -> tuple[int, bool]:
        """Replay the next messages of a filter. Returns the work done, and False if the queue refused a message."""
        placed = True
        session, search = self._session, pending.search
        begun_at = search.at
        found, spent = self._retained.table(session.mountpoint).step(
            search, self._env.now, min(room, work // MESSAGE + 1), max(1, work)
        )
        for message in found:
            if message.topic in pending.early:
                pending.early.discard(message.topic)
            elif spent >= work or not (placed := self._feed(pending, message)):
                search.at, search.done = message.topic, False
                break
            spent += MESSAGE + (len(message.payload) >> 10)
        if search.done:
            self._line.popleft()
            del self._pending[pending.text]
            self._tree.remove(pending.text)
            session.served(pending.text)
            if not self._pending:
                self._end()
        elif found and search.at != begun_at:
            session.replayed(pending.text)
        return spent, placed

    def _room(self) -> int:
        """Return how many messages of the replay may enter the queue now.

        The replay fills the queue up to the client's window, at most `HOLD`. If live messages always fill it further,
        the replay adds one such batch each time the client has taken as many messages as were waiting. So live messages
        cannot delay the replay for ever.
        """
        queue = self._session.queue
        consumer = queue.consumer
        if consumer is None or not consumer.is_writable:
            return 0
        most = max(1, min(HOLD, queue.window))
        room = 0 if queue.backlog else most - len(queue.waiting)
        if room > 0:
            self._wait = None
        elif self._wait is None:
            self._wait = queue.size
        elif not self._wait:
            self._wait = None
            room = most
        return room

    def _feed(self, pending: _Pending, message: Message) -> bool:
        """Put a retained message into the queue if it may go there; False if the queue cannot take it now."""
        session = self._session
        subscription = session.subscriptions[pending.text]
        if subscription.no_local and message.publisher == session.client_id:
            return True  # not to be sent to its own publisher [MQTT5-3.8.3-3]
        raised = session.queue.upgrade and subscription.qos > message.qos
        qos = subscription.qos if raised else min(subscription.qos, message.qos)
        identifiers = (subscription.identifier,) if subscription.identifier else ()
        if not session.queue.feed(message, qos, identifiers):
            return False
        if self._env.events.messages:
            self._env.observer.session_event("ret.deliver", session, topic=message.topic, mid=message.mid)
        return True


def _is_newer(kept: Message, message: Message) -> bool:
    """True if the node that accepted the live message accepted the retained one later: the live one is a late copy."""
    return kept.origin == message.origin and kept.counter > message.counter


class ReplayTurns:
    """The replays of a node that can continue, each in its turn. `after_turn` runs a function at the end of the loop's
    turn."""

    def __init__(self, after_turn: Callable[[Callable[[], None]], object], tick: Callable[[], object]) -> None:
        self._after_turn = after_turn
        self._tick = tick
        self._ready: deque[Replay] = deque()
        self._left = TURN
        self._scheduled = False

    def add(self, replay: Replay) -> None:
        """Add a replay that can continue to the list."""
        if not replay.listed:
            replay.listed = True
            self._ready.append(replay)

    def soon(self, replay: Replay) -> None:
        """Continue this replay at the end of the loop's turn."""
        self.add(replay)
        self._schedule()

    def now(self, replay: Replay) -> None:
        """Continue the replays at once, with the work that is left in this turn."""
        self.add(replay)
        self._run()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._after_turn(self._turn)

    def _turn(self) -> None:
        self._tick()
        self._scheduled = False
        self._left = TURN
        self._run()

    def _run(self) -> None:
        ready = self._ready
        while ready and self._left > 0:
            replay = ready.popleft()
            replay.listed = False
            self._left -= replay.step(min(SLICE, self._left))
        if ready or self._left < TURN:
            self._schedule()
