"""Makes the sessions that a message is for, some in each turn of the loop, before the message is routed.

A durable session whose client is absent is on disk only, and a plan refers to sessions in memory. If thousands of such
clients subscribe a topic, as after a failover, one message would stop the loop for a second and longer: that is the
time of a lease. So who routes a message asks first (`waits`), and goes on when the sessions are there.

The topics take turns one after the other. Each step makes some sessions, or lets some go on that wait for a topic whose
sessions are there. Until its own topic is done, a topic with few absent clients waits as well.

Some do not wait, and make all in one turn: `$SYS`; a QoS 2 message whose sessions leave memory again before its commit
or the lease; a message that was on its way to a slot that is here now; a message of a group whose member is gone; and
what a member of a group leaves to the others.

If the disk fails to return sessions, or they have left memory again, the message is routed all the same. The plan then
asks for them once more, in one turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from ..environment import Environment
from .plans import Plan, PlanCache

PER_TURN = 50
"""Sessions that are made for messages in one turn of the loop: about 3 ms."""

FOR_A_LANE = 500
"""As `PER_TURN`, for the messages of another node. If one of them has to wait, its node sends those behind it again."""

TARGETS = 50
"""A step counts these targets of a plan as one session: it takes about as long to give them a message."""


class Waking:
    """The topics whose sessions are being made. `wake` makes the session of a client key, None if there is none."""

    __slots__ = ("_asleep", "_env", "_prepared", "_waiting", "_wake", "_woken")

    def __init__(self, env: Environment, wake: Callable[[bytes], object | None]) -> None:
        self._env = env
        self._wake = wake
        self._woken = 0
        """Sessions that were made in this turn."""
        self._waiting: dict[tuple[PlanCache, str], deque[Callable[[], None]]] = {}
        self._asleep: Iterator[bytes] | None = None
        """Those of the first topic that are still to be made."""
        self._prepared: tuple[PlanCache, str] | None = None
        """The topic of the message that goes on now: it does not wait again."""

    def __len__(self) -> int:
        """Number of topics that wait."""
        return len(self._waiting)

    def wake(self, client: bytes) -> object | None:
        """Make a session for a plan."""
        if not self._woken:
            self._env.after_turn(self._turn_over)
        self._woken += 1
        return self._wake(client)

    def _turn_over(self) -> None:
        self._woken = 0

    def plan(self, plans: PlanCache, topic: str, most: int = PER_TURN) -> Plan | None:
        """The plan of a topic, None if more sessions have to be made for it than this turn may make. `most` is how many
        that are, together with those that it has made."""
        if (plans, topic) == self._prepared:
            return plans.of(topic)
        return plans.plans.get(topic) or plans.build_within(topic, max(0, most - self._woken))

    def waits(self, plans: PlanCache, topic: str, then: Callable[[], None], most: int = PER_TURN) -> bool:
        """True if sessions must be made first: `then` is called in a later turn. False if the message may be routed
        now. `most` as in `plan`."""
        if self.plan(plans, topic, most) is not None:
            return False
        if not self._waiting:
            self._env.background(self._step)
        self._waiting.setdefault((plans, topic), deque()).append(then)
        return True

    def _step(self) -> None:
        """Make some sessions, and let some go on that waited for them."""
        env, waiting, done = self._env, self._waiting, 0
        if env.store.state == "closed":
            waiting.clear()
            self._asleep = None
            return
        env.tick()
        try:
            while waiting and done < PER_TURN:
                done += self._advance(PER_TURN - done)
        finally:
            if waiting:
                env.background(self._step)

    def _advance(self, most: int) -> int:
        """Make up to `most` sessions of the first topic, or let one go on that waits for it. Returns the work, in
        sessions."""
        place = next(iter(self._waiting))
        plans, topic = place
        if self._asleep is None:
            self._asleep = plans.asleep(topic)
        woken = 0
        for client in self._asleep:
            self.wake(client)
            woken += 1
            if woken == most:
                return woken
        then = self._waiting[place].popleft()
        self._prepared = place
        try:
            then()
        finally:
            self._prepared = None
            if not self._waiting[place]:
                del self._waiting[place]
                self._asleep = None
        plan = plans.plans.get(topic)
        return woken + 1 + (len(plan.targets) // TARGETS if plan else 0)
