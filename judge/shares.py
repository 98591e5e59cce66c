"""How often a session may get one message, and which messages of groups may be lost with the policy `on`.

A session gets a message once for all of its subscriptions outside of groups, and once for each group that chooses it
(MQTT 5.0 section 4.8.2).

With copies of slots a group may choose a member again. The next primary of the publisher's slot, or of the member's
one, does not know which member had the message. So the message may enter the queue of one member from several
processes, for the same group; but from one process only once (docs/promises.md#what-comes-later). With one copy each
node keeps what its sessions got, and a group gives a message once. If no row says how many copies there are, a finding
would not be certain.

A node whose policy is `on` answers without a lease, and does not wait for the node that it passes a message on to. So a
message of a group may be lost, or safe too late, although the publisher's node has a lease when it answers
(docs/netsplit.md#what-on-loses).
"""

from __future__ import annotations

from .message import POLICY, Answer, Message, Publish, Sent
from .rows import Owner
from .world import World


def times_owed(message: Message, owner: Owner, first: Sent, world: World) -> int:
    """Returns how often a session may get a message that was first sent to it with this sending. A group's entry from
    before this sending may be missing in the log, as of a process that was killed: it counts too."""
    queued = message.queued.get(owner)
    if queued is None:
        return 1
    groups = {each for each in queued.entries if each[0]}
    outside = len(groups) < len(queued.entries)
    if world.keeps_one_copy(queued.node, queued.stamp):
        return outside + len({group for group, _, _ in groups})
    missing = bool(groups) and first.stamp < queued.first
    return outside + len(groups) + missing


def passed_on_without_lease(message: Message, publish: Publish, answer: Answer, world: World) -> bool:
    """Whether a node that had this message of a group had no lease at some time between the PUBLISH and its answer.

    Only nodes with the policy `on` count.
    """
    nodes = {publish.node, *(node for node, kind in message.steps if kind == "fwd.recv")}
    on = [node for node in nodes if world.setting(node, POLICY, publish.stamp) == "on"]
    return world.partitions.anybody_without_lease(on, publish.stamp, answer.stamp)
