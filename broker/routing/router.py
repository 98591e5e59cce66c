"""From a message to the queues: the plan of its topic, one copy per session, one member per shared group.

In a cluster a plan also names other nodes (`plan.remote`). The result of `Router.route` says whether the publisher's
acknowledgement waits for the disk, and the `AckContext` says for which other nodes it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

from ...cluster.identity import left_out
from ...mqtt.topics import parse_shared
from ..environment import Environment, Random
from ..queues import shared_payloads
from ..queues.message import Message
from ..queues.queue import Entry, Queue
from .ack_context import AckContext, unanswered
from .dormant import DormantSession
from .plans import NOBODY, Plan, PlanCache, Target, slot_of
from .remote import Elsewhere, RemoteMembers
from .shared import Chosen, Progress, SharedGroup, can_hold, choose, redistribute, takes
from .subscriptions import Subscription, SubscriptionTable
from .waking import Waking

NO_MATCH = 0
"""No subscription matches, or only shared ones with no member that can take the message."""
DELIVERED = 1
"""A receiver has the message; the answer waits for no write."""
AFTER_COMMIT = 2
"""The open batch holds a copy: acknowledge after its commit."""


NO_SLOT = -1
"""In place of the slot of a durable session: the session is clean."""

Selected = tuple[str, str, str]
"""Group, filter and node, as in `InboundRecord.elsewhere`: a member of the group on that node gets the message."""


class LeavingMember(Protocol):
    """A session that leaves its messages of shared subscriptions to other members.

    `ending` is True if the session ends, and False if only its client disconnected.
    """

    mountpoint: str
    client_id: str
    key: bytes
    durable: bool
    ending: bool
    queue: Queue
    subscriptions: dict[str, Subscription]


LeaveBehind = Callable[[LeavingMember, Message, str, bool], bool]
"""As `Wills.leave_behind`."""


class Router:
    """Subscriptions and plans of all mountpoints of a node."""

    def __init__(
        self,
        env: Environment,
        rng: Random,
        overrides: Callable[[str, str], dict[str, Any]],
        wake: Callable[[bytes], object | None],
    ) -> None:
        """`overrides` returns the settings that a plugin set for a client, by mountpoint and client id. `wake` makes
        the session of a client key, None if the disk fails to return it."""
        self._env = env
        self._rng = rng
        self._overrides = overrides
        self.waking = Waking(env, wake)
        self._plans: dict[str, PlanCache] = {}
        self._tables: dict[str, SubscriptionTable] = {}
        self.elsewhere: dict[int, Elsewhere] = {}
        """The slots whose sessions are at another node, or moving there, although this node has their subscriptions.
        Change it with `place`."""
        self.remote_members: list[RemoteMembers] = []
        """The members on other nodes that were chosen for the last message."""
        self._behind: dict[tuple[str, str], Subscription] = {}
        """The members that give their messages to others now, by mountpoint and `$share` filter: newer messages follow
        those in their queues."""
        self.leave_behind: LeaveBehind = lambda member, message, group, sent: False
        self.slots_of_members: dict[str, int] = {}
        """For each group of the last message for groups whose member is here: the slot of the durable session that got
        it. `NO_SLOT`: a clean one got it, and may get it again from another node."""

    def table(self, mountpoint: str) -> SubscriptionTable:
        """The subscriptions of a mountpoint."""
        table = self._tables.get(mountpoint)
        if table is None:
            table = self._tables[mountpoint] = SubscriptionTable()
            self._plans[mountpoint] = PlanCache(
                table,
                remote=lambda topic: self._env.cluster.remote_matches(mountpoint, topic),
                wake=self.waking.wake,
                elsewhere=self.elsewhere,
            )
        return table

    def plans(self, mountpoint: str) -> PlanCache:
        """The plans of a mountpoint."""
        found = self._plans.get(mountpoint)
        if found is None:
            self.table(mountpoint)
            found = self._plans[mountpoint]
        return found

    def place(self, slot: int, elsewhere: Elsewhere | None) -> None:
        """The sessions of a slot are at another node; None: here."""
        if self.elsewhere.get(slot) == elsewhere:
            return
        if elsewhere is None:
            del self.elsewhere[slot]
        else:
            self.elsewhere[slot] = elsewhere
        for plans in self._plans.values():
            plans.invalidate("#")

    @property
    def mountpoints(self) -> list[str]:
        """The mountpoints that have had subscriptions."""
        return list(self._tables)

    @property
    def subscriptions(self) -> int:
        """Number of subscriptions of the sessions at this node, in all mountpoints. Those of copies do not count."""
        return sum(table.without(self.elsewhere) for table in self._tables.values())

    def route(self, message: Message, plans: PlanCache, context: AckContext, plan: Plan | None = None) -> int:
        """Give the message to the queues of all its receivers, here and on other nodes.

        Returns `NO_MATCH`, `DELIVERED` or `AFTER_COMMIT`. The conditions on other nodes that the answer waits for are
        added to `context`.
        """
        if plan is None:
            plan = plans.plans.get(message.topic) or plans.build(message.topic)
        env = self._env
        if message.expires_at and message.expires_at < env.now:
            return self._route_late(message, plan, context)
        targets = plan.targets
        qos = message.qos
        if qos and len(targets) > 1 and len(message.payload) >= shared_payloads.WORTH_SHARING:
            message.shared_slots = _slots_of_several(targets)
        if env.events.messages:
            clients = [target.session.client_id for target in targets]
            env.observer.message_routed(message, clients, [target.node for target in plan.remote])
        wait = False
        for target in targets:
            if target.local_alternatives is not None:
                wait = self._push_alternatives(message, target) or wait
                continue
            queue = target.queue
            granted = target.qos if target.qos < qos or queue.upgrade else qos
            if queue.push(message, granted, message.retain and target.retain_as_published, target.identifiers):
                wait = True
        env.counters.router_matches_local += len(targets)
        chosen: list[RemoteMembers] = []
        self.remote_members = chosen
        if plan.groups or plan.remote:
            matches = env.counters.router_matches_local
            if plan.groups:
                wait = self._push_groups(message, plan.groups, chosen) or wait
            if plan.remote or chosen:
                env.cluster.forward(message, plan.remote, chosen, context)
            elif not targets and env.counters.router_matches_local == matches:
                return NO_MATCH
        elif not targets:
            return NO_MATCH
        return AFTER_COMMIT if wait else DELIVERED

    def select(
        self, message: Message, plans: PlanCache, previous: list[Selected] | None = None
    ) -> tuple[Plan, list[Selected]]:
        """Select for each group the node whose member gets a QoS 2 message.

        Returns the plan, in which each group has members on one node only, and the list of the other nodes selected.
        The caller makes the list safe before the first copy leaves (H-12). With `previous`, such a list, a group keeps
        its node unless that has no member left.
        """
        plan = plans.of(message.topic)
        if not plan.groups:
            return plan, []
        groups: list[SharedGroup] = []
        selected: list[Selected] = []
        for group in plan.groups:
            narrow = group if previous is None else self._same(group, _node_of(group, previous))
            member = self._choose(narrow, message) or self._choose(group, message)
            if isinstance(member, RemoteMembers):
                selected.append((member.group, member.filter, member.node))
            groups.append(self._same(group, _node_of(group, selected)))
        return Plan(plan.targets, tuple(groups), plan.remote), selected

    def select_those_again(
        self, message: Message, plans: PlanCache, previous: list[Selected]
    ) -> tuple[list[Selected], bool]:
        """Select the other nodes that get a QoS 2 message again after it may have left.

        A group keeps its node, which may have the message, unless that node has no member left. A group whose message
        came back to a member here gets none. Returns the list as `select` does, and True if the open batch has a copy.
        """
        plan = plans.of(message.topic)
        selected: list[Selected] = []
        members: dict[str, int] = {}
        wait = False
        for name, text, node in previous:
            if self._env.cluster.came_back(message, f"$share/{name}/{text}"):
                continue
            group = plan.group(name, text)
            if group.size:
                chosen = list(self._same(group, node).elsewhere)
                if not chosen:
                    wait = self._push_groups(message, (group,), chosen) or wait
                    members |= self.slots_of_members
                selected += [(name, text, each.node) for each in chosen]
        self.slots_of_members = members
        self.members_have(message)
        return selected, wait

    def forward_again(
        self, message: Message, plans: PlanCache, selected: list[Selected], slots: list[int], context: AckContext
    ) -> int:
        """Send a QoS 2 message to the other nodes again, under the same mid. The copies on this node are safe, but for
        `slots` that were at other nodes: those that are here now get the message if they lack it (H-45)."""
        plan = plans.of(message.topic)
        part = plan.part(False, tuple(slots)) if slots else NOBODY
        lacking = {target.queue.slot for target in part.targets}
        wait = False
        if lacking:
            lacking = set(self._env.cluster.take_own(message, sorted(lacking)))
            part = Plan(tuple([target for target in part.targets if target.queue.slot in lacking]))
            wait = bool(lacking) and self.route(message, plans, context, part) == AFTER_COMMIT
        chosen: list[RemoteMembers] = []
        self.remote_members = chosen
        for name, text, node in selected:
            chosen += self._same(plan.group(name, text), node).elsewhere
        if plan.remote or chosen:
            self._env.cluster.forward(message, plan.remote, chosen, context)
        return AFTER_COMMIT if wait else DELIVERED

    def route_inherited(self, message: Message, plans: PlanCache, plan: Plan | None, context: AckContext) -> int:
        """Route a QoS 2 message of a handshake that an earlier process began, here or at a former primary of the
        publisher's slot, under the same mid.

        That process may have routed it. Other nodes recognise what they have; so do the sessions here (H-47).
        """
        found = plan or plans.of(message.topic)
        cluster = self._env.cluster
        lacking = set(cluster.take_own(message, found.slots_here))
        if cluster.take_own_live(message):
            lacking.add(-1)
        targets = tuple([each for each in found.targets if slot_of(each) in lacking])
        groups = tuple([each for each in found.groups if not cluster.came_back(message, each.text)])
        wait = bool(lacking - {-1})
        self.slots_of_members = {}
        routed = self.route(message, plans, context, Plan(targets, groups, found.remote))
        self.members_have(message)
        return AFTER_COMMIT if wait else routed

    def members_have(self, message: Message) -> None:
        """Note that members here got this message, the last one for groups. Another node may get the publisher's slot,
        and choose this node once more (H-47)."""
        for text in self.slots_of_members:
            self._env.cluster.given(message, text, False)

    def select_again(self, message: Message, gone: RemoteMembers, previous: str | None = None) -> SharedGroup:
        """Select a node for a group's message again, because the members `gone` cannot take it.

        Returns the group with members only on the selected node. With `previous`, the other node that was selected
        before, that node stays selected unless it has no member left.
        """
        plan = self.plans(message.mountpoint).of(message.topic)
        group = plan.group(gone.group, gone.filter)
        narrow = group if previous is None else group.at(previous)
        member = self._choose(narrow, message) or self._choose(group, message)
        return group.at(member.node if isinstance(member, RemoteMembers) else None)

    def route_group(self, message: Message, group: SharedGroup, context: AckContext) -> int:
        """Give the message to a member of this group, in place of the node that was selected before."""
        if group.members and 0 < message.expires_at <= self._env.now:
            # it expired while it waited for that node: no member gets it for the first time [MQTT5-3.3.2-5]
            self._env.observer.expired(group.members[0].session, message)
            return DELIVERED
        chosen: list[RemoteMembers] = []
        self.remote_members = chosen
        wait = self._push_groups(message, (group,), chosen)
        if chosen:
            self._env.cluster.forward(message, (), chosen, context)
        return AFTER_COMMIT if wait else DELIVERED

    def route_left(self, message: Message, text: str, context: AckContext) -> int:
        """Give a message that a member of a group has left behind to another member, one whose queue has room if there
        is one. `text` is the `$share` filter. A former primary of the slot may have done so under the same mid."""
        cluster = self._env.cluster
        if cluster.came_back(message, text):
            return DELIVERED
        name, pattern = parse_shared(text)
        assert name is not None
        group = self.plans(message.mountpoint).of(message.topic).group(name, pattern)
        roomy = group.with_room
        routed = self.route_group(message, group if self._choose(roomy, message) is None else roomy, context)
        if not self.remote_members:
            cluster.given(message, text, routed == AFTER_COMMIT)
        return routed

    def lasts(self, message: Message, member: RemoteMembers) -> bool:
        """True if some of these members, on a node that has left the view, have durable sessions."""
        plan = self.plans(message.mountpoint).of(message.topic)
        return any(each.node == member.node for each in plan.group(member.group, member.filter).away)

    def has_members(self, message: Message, plans: PlanCache, groups: tuple[str, ...]) -> bool:
        """True if each of these groups, named by `$share` filters, has a member here that can take the message."""
        plan = plans.of(message.topic)
        return {each.text for each in plan.groups if takes(each, message)}.issuperset(groups)

    def deliver(
        self,
        message: Message,
        plans: PlanCache,
        live: bool,
        slots: tuple[int, ...],
        groups: tuple[str, ...],
        context: AckContext,
    ) -> int:
        """Give a message that another node accepted to the queues of this node.

        With `live`, matching clean sessions get it, and the durable ones in `slots` do. `groups` are the `$share`
        filters of the groups for which the other node chose a member on this node.
        """
        plan = plans.of(message.topic)
        part = plan.part(live, slots)
        asked = [each for each in plan.groups if each.text in groups] if groups else []
        if 0 < message.expires_at <= self._env.now:
            # it expired while it waited for this node: no session gets it for the first time [MQTT5-3.3.2-5]
            self._expire(message, [target.session for target in part.targets], asked)
            part, asked = NOBODY, [each for each in asked if not each.members]  # the nodes with members report it
        wait = False
        if part.targets:
            wait = self.route(message, plans, context, part) == AFTER_COMMIT
        if groups:
            chosen: list[RemoteMembers] = []
            missing = [each for each in asked if not takes(each, message)]
            here = [each.at(None) for each in asked if each not in missing]
            wait = self._push_groups(message, [*here, *missing], chosen) or wait
            for text in [text for text in groups if all(each.text != text for each in plan.groups)]:
                self._env.observer.dropped_for_group(text, message)
            if missing:  # the last member here that could take it has left meanwhile
                self._env.cluster.forward(message, (), chosen, context)
        return AFTER_COMMIT if wait else DELIVERED

    def _route_late(self, message: Message, plan: Plan, context: AckContext) -> int:
        """A message that expired while it waited for the disk or a lease is not delivered [MQTT5-3.3.2-5].

        Each node reports this for its own sessions, so this node still sends the message to the other nodes.
        """
        self._expire(message, [target.session for target in plan.targets], plan.groups)
        chosen: list[RemoteMembers] = []
        self.remote_members = chosen
        self._push_groups(message, [each for each in plan.groups if not each.members], chosen)
        if plan.remote or chosen:
            self._env.cluster.forward(message, plan.remote, chosen, context)
        return DELIVERED

    def _expire(self, message: Message, sessions: list[Any], groups: Iterable[SharedGroup]) -> None:
        """Report that these sessions, and a member of each group, do not get the message."""
        for session in sessions + [each.members[0].session for each in groups if each.members]:
            self._env.observer.expired(session, message)

    def _push_alternatives(self, message: Message, target: Target) -> bool:
        wait = False
        for chosen in target.for_publisher(message.publisher):
            queue = chosen.queue
            granted = chosen.qos if chosen.qos < message.qos or queue.upgrade else message.qos
            retain = message.retain and chosen.retain_as_published
            wait = queue.push(message, granted, retain, chosen.identifiers) or wait
        return wait

    def _same(self, group: SharedGroup, node: str | None) -> SharedGroup:
        """Return the group with only its members on the node that was selected before (None: this node).

        A node in the view may have the message although it has no member left, so it stays selected. If it does not
        have the message, it reports that.
        """
        if node == self._env.origin.node:
            node = None  # the former primary of the publisher's slot has selected it
        same = group.at(node)
        if node is None or same.size or not self._env.cluster.is_present(node):
            return same
        return SharedGroup(group.group, group.filter, (), (RemoteMembers(group.group, group.filter, node, 1, 0),))

    def _choose(self, group: SharedGroup, message: Message) -> Chosen:
        return choose(group, message, self._policy(message), self._rng)

    def _push_groups(self, message: Message, groups: Iterable[SharedGroup], chosen: list[RemoteMembers]) -> bool:
        """Give the message to one member of each group; add members on other nodes to `chosen`. As `Queue.push`."""
        wait = False
        slots = self.slots_of_members = {}
        for group in groups:
            member = self._choose(group, message)
            if self._behind and isinstance(member, Subscription):
                member = self._last_in(group, message, member)
            if member is None:
                self._env.observer.dropped_for_group(group.text, message)
                continue
            if isinstance(member, RemoteMembers):
                chosen.append(member)
                if self._env.events.messages:
                    self._env.observer.message_routed(message, [], [member.node], group.text)
            else:
                if self._env.events.messages:
                    self._env.observer.message_routed(message, [member.session.client_id], [], group.text)
                self._env.counters.router_matches_local += 1
                if self._push_member(message, group, member, message.qos):
                    slots[group.text] = member.session.key[0]
                    wait = True
                elif message.remembered:
                    slots[group.text] = NO_SLOT
        return wait

    def _last_in(self, group: SharedGroup, message: Message, member: Subscription) -> Subscription:
        """Return the member whose messages others are getting now, if it can take this one, else `member`."""
        leaving = self._behind.get((message.mountpoint, group.text))
        if leaving is None or leaving.session.online or leaving.session.ending or leaving.session.queue.full:
            return member
        return leaving if can_hold(leaving, message) else member

    def _push_member(self, message: Message, group: SharedGroup, member: Subscription, qos: int) -> bool:
        queue = member.session.queue
        granted = member.qos if member.qos < qos or queue.upgrade else qos
        identifiers = (member.identifier,) if member.identifier else ()
        retain = message.retain and member.retain_as_published
        pushed: bool = queue.push(message, granted, retain, identifiers, group.text)
        return pushed

    def _policy(self, message: Message) -> str:
        """Return the publisher's own policy if a hook set one, else the node's (docs/plugins.md)."""
        policy: str = self._env.options.shared_subscription_policy
        overrides = self._overrides(message.mountpoint, message.publisher)
        return overrides.get("shared_subscription_policy", policy) if overrides else policy

    def redistribute(self, session: LeavingMember) -> None:
        """Give a leaving member's messages of shared subscriptions to other members, each under a new mid.

        A session that stays takes a step with each commit. One that ends gives all at once, for its queue is deleted.
        """
        table = self._tables.get(session.mountpoint)
        if table is None:
            return
        groups: dict[str, SharedGroup] = {}

        def give(entry: Entry) -> bool:
            group = groups.get(entry.group)
            if group is None:
                name, pattern = parse_shared(entry.group)
                assert name is not None
                group = groups[entry.group] = SharedGroup(name, pattern, self._awake_members(table, name, pattern))
            return self._give(session, group, entry)

        def step() -> None:
            if self._env.store.state == "closed":
                return
            self._env.tick()
            groups.clear()
            taken = next(steps, None)
            if session.queue.handing_over is None:
                self._behind = {place: each for place, each in self._behind.items() if each.session is not session}
            if taken is None:
                return
            own = session.subscriptions.items()
            self._behind.update({(session.mountpoint, text): each for text, each in own if each.group is not None})
            if taken:
                self._env.store.when_committed(self._env.store.open_commit, step)
            else:
                self._env.after_turn(step)

        steps = session.queue.hand_over(give)
        if session.ending or not session.durable:
            for _ in steps:
                pass
        else:
            step()

    def _awake_members(self, table: SubscriptionTable, name: str, text: str) -> tuple[Subscription, ...]:
        """The members of a group. Make their sessions; leave out those that the disk fails to return."""
        for held in table.holders(text):
            if held.group == name and type(held.session) is DormantSession:
                self.waking.wake(held.session)
        found = [held for held in table.holders(text) if held.group == name]
        return tuple([held for held in found if type(held.session) is not DormantSession])

    def _give(self, session: LeavingMember, group: SharedGroup, entry: Entry) -> bool:
        """Give one entry of a leaving member to another; False if it stays."""
        message = entry.message
        assert message is not None
        env = self._env
        ended = session.ending or not session.durable  # only the will of a clean session may be left
        sent = Progress.SENT if entry.dup or entry.sent_at else Progress.QUEUED
        policy = env.options.shared_subscription_policy
        if ended:  # a message that is safe on this disk is not moved to the disk of another node
            found = self.plans(session.mountpoint).on_other_nodes(message.topic)
            group.remote, group.away = group.those_of(found.groups), group.those_of(found.away)
        member = redistribute(group, message, sent, entry.qos, session, ended, policy, self._rng)
        if isinstance(member, Subscription) and member.session.queue.full:
            # a message that one queue keeps does not move into another queue that would drop it (P1)
            other = redistribute(group.with_room, message, sent, entry.qos, session, ended, policy, self._rng)
            member = other or (member if ended else None)
        if member is None:
            return False
        if message.qos == 2:
            env.cluster.handed_over(message, group.text)
        if session.durable and self.leave_behind(session, message, group.text, bool(sent)):
            return True
        copy = Message(
            message.mountpoint,
            message.topic,
            message.payload,
            message.qos,
            message.retain,
            message.properties,
            message.expires_at,
            message.publisher,
            env.origin,
            env.numbers.next(not left_out(message.counter)),
        )
        if not isinstance(member, RemoteMembers):
            self._push_member(copy, group, member, entry.qos)
        elif copy.qos < 2:
            env.cluster.forward(copy, (), [member], unanswered())
        else:
            # if it left before the commit, a restart could restore it here: two members would get it [MQTT5-4.8.2-5]
            env.store.when_committed(env.store.open_commit, partial(self._give_elsewhere, copy, member))
        return True

    def _give_elsewhere(self, message: Message, member: RemoteMembers) -> None:
        """Give the message to a member on that node, or to another one if that node has no member left."""
        self._env.tick()
        self.route_group(message, self.select_again(message, member, member.node), unanswered())


def _slots_of_several(targets: tuple[Target, ...]) -> frozenset[int]:
    """The slots in which several durable queues get the message."""
    slots: set[int] = set()
    several: list[int] = []
    for target in targets:
        queue = target.queue
        if queue.durable:
            if queue.slot in slots:
                several.append(queue.slot)
            else:
                slots.add(queue.slot)
    return frozenset(several)


def _node_of(group: SharedGroup, selected: list[Selected]) -> str | None:
    return next((node for name, text, node in selected if (name, text) == (group.group, group.filter)), None)
