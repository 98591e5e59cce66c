"""Publishes messages: stores a retained message before it routes it, and routes messages without a client."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from ..environment import Environment
from ..queues.message import Message
from ..queues.records import InboundRecord
from .ack_context import AckContext, unanswered
from .plans import Plan, PlanCache
from .retained_store import RetainedStore
from .router import Router


class Publisher:
    """Publishes the messages of one node."""

    def __init__(self, env: Environment, router: Router, retained: RetainedStore) -> None:
        self._env = env
        self._router = router
        self._retained = retained

    def route_retained(self, message: Message, plans: PlanCache, context: AckContext, plan: Plan | None = None) -> int:
        """As `Router.route` for a message that is to be retained. It is stored before it is routed: otherwise a client
        that subscribes on another node right after the delivery would not find it (H-04)."""
        kept = self._retained.retain(message, context)
        routed = self._router.route(message, plans, context, plan)
        # drop the last encoding: it would use memory as long as the message is retained
        message.frame_key, message.head, message.tail = -1, b"", b""
        return max(routed, kept)

    def forward_again(
        self, message: Message, plans: PlanCache, record: InboundRecord, context: AckContext, retain: bool
    ) -> int:
        """As `Router.forward_again`; with `retain` the retained message is stored again. Others may have changed the
        topic since this node lost its lease, and this message is acknowledged after that (H-16)."""
        kept = self._retained.retain(message, context) if retain else 0
        return max(self._router.forward_again(message, plans, record.elsewhere, record.slots, context), kept)

    def retain(self, message: Message, context: AckContext) -> int:
        """As `RetainedStore.retain`."""
        return self._retained.retain(message, context)

    def route_inherited(
        self, message: Message, plans: PlanCache, context: AckContext, plan: Plan | None, retain: bool
    ) -> int:
        """As `Router.route_inherited`; with `retain` the retained message is stored first.

        An earlier process may have routed the message. The primaries of its receivers may have died with it, so a
        session that seems to lack the message may have got it (H-51).
        """
        kept = self._retained.retain(message, context) if retain else 0
        # the retained message stays as it is: who subscribes later gets it for the first time
        return max(self._router.route_inherited(replace(message, again=True), plans, plan, context), kept)

    def publish_inherited(self, message: Message, context: AckContext, again: bool) -> int:
        """Route a will whose slot has copies. Some receivers may have it from a former primary of the slot, under the
        same mid (H-50). `again`: an earlier process may have routed it, as in `route_inherited`. `retain` stores it
        before."""
        if message.qos:
            self._env.cluster.publishing()
        message = replace(message, again=True) if again else message
        return self._router.route_inherited(message, self._router.plans(message.mountpoint), None, context)

    def publish_left(self, message: Message, group: str, context: AckContext, again: bool) -> int:
        """Route a message that a member of a group, a `$share` filter, has left behind in a slot with copies (H-56).
        Another member may have it from a former primary of the slot. `again` as in `publish_inherited`."""
        self._env.cluster.publishing()
        return self._router.route_left(replace(message, again=True) if again else message, group, context)

    def is_ready(self, mountpoint: str, topic: str) -> bool:
        """True if a message to this topic may be routed in this turn (`Waking`)."""
        return self._router.waking.plan(self._router.plans(mountpoint), topic) is not None

    def waits(self, mountpoint: str, topic: str, then: Callable[[], None]) -> bool:
        """As `Waking.waits`."""
        return self._router.waking.waits(self._router.plans(mountpoint), topic, then)

    def publish(self, message: Message) -> int:
        """Route a message that no client connection sent: a will, or `$SYS`. The sessions that get it are made in this
        turn; a will has waited for them before."""
        if message.qos:
            self._env.cluster.publishing()
        plans = self._router.plans(message.mountpoint)
        return (self.route_retained if message.retain else self._router.route)(message, plans, unanswered())
