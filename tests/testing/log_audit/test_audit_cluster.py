"""The audit of a cluster's log: messages that one node must deliver for another, and exceptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strogoff.broker.reporting.events import Row
from strogoff.cluster.identity import SLOTS, slot_of
from strogoff.judge.building import ANSWERED_SINCE
from strogoff.judge.rows import NEVER
from strogoff.judge.run import Grouped
from strogoff.testing.cluster import Cluster
from strogoff.testing.log_audit.audit import Audit, audit

from ..run_loop import run
from .log_builder import Log

A, B = "a@127.0.0.1", "b@127.0.0.1"


class Two:
    """Two nodes with one log; rows get their timestamps in the order of the calls."""

    def __init__(self) -> None:
        self.a, self.b = Log(A), Log(B)
        self.b._now = self.a._now
        for log in (self.a, self.b):
            log._events._now_ms = lambda: next(self.a._now)

    @property
    def rows(self) -> list[Row]:
        return self.a.rows + self.b.rows

    def audit(self, **more: Any) -> Audit:
        return audit(self.rows, **more)

    def to_b(self, client: str = "rx") -> None:
        """Add a message accepted at a and delivered at b."""
        mid = self.a.accept()
        self.a.route(mid)
        self.b.route(mid, client)
        self.a.ack(mid)
        self.b.send(mid, client, mid[2])
        self.b.got(mid, client, mid[2])

    def lost(self) -> None:
        """Add a message acknowledged at a and unknown to b."""
        mid = self.a.accept()
        self.a.route(mid)
        self.a.ack(mid)


def test_a_message_crosses() -> None:
    """The same client id on two nodes is two sessions."""
    two = Two()
    two.a.subscriber()
    two.b.subscriber()
    mid = two.a.accept()
    for log in (two.a, two.b):
        log.route(mid, "rx")
        log.send(mid)
        log.got(mid)
    two.a.ack(mid)
    found = two.audit()
    assert (found.verdict, found.delivered) == ("valid", 2)


def test_a_message_that_never_arrived_is_lost() -> None:
    """The publisher's node did not know the subscription."""
    two = Two()
    two.b.subscriber()
    two.lost()
    found = two.audit()
    assert [case.kind for case in found.lost_acked] == ["stale-route"] and found.verdict == "invalid"


def test_a_subscription_counts_from_its_suback() -> None:
    """Messages accepted before other nodes knew the subscription are not required."""
    two = Two()
    two.b.connect("rx")
    two.b.say("sub.add", client="rx", filter="t/#", qos=1)
    two.lost()
    two.b.say("sub.ack", client="rx", filters=["other"], codes=["0"])
    two.lost()
    assert two.audit().verdict == "valid"
    two.b.say("sub.ack", client="rx", filters=["other", "t/#"], codes=["0", "1"])
    two.lost()
    assert len(two.audit().lost_acked) == 1
    for row in two.rows:
        row["v"] = ANSWERED_SINCE - 1
    assert len(two.audit().lost_acked) == 3, "older logs have no SUBACK"


def test_a_suback_answers_no_other_group() -> None:
    """`$share/g/t/#` and `t/#` are two subscriptions of a client."""
    two = Two()
    two.b.connect("rx")
    two.b.say("sub.add", client="rx", filter="$share/g/t/#", qos=1)
    two.b.say("sub.add", client="rx", filter="u", qos=1)
    two.b.say("sub.ack", client="rx", filters=["t/#", "$share/g/u"], codes=["1", "1"])
    table = Grouped(two.rows).world().subscriptions
    found = [each for topic in ("t/1", "u") for each in table.matching("", topic)]
    held = {(each.group, each.filter): each.held[(B, "", "rx"), 1][0].answered for each in found}
    assert held == {("g", "t/#"): NEVER, (None, "u"): NEVER}


def dead(two: Two) -> None:
    two.b.say("fault.kill", nodes=[B])


def out_of_the_view(two: Two) -> None:
    two.a.say("mem.down", target=B, view=2)


@pytest.mark.parametrize("away", [dead, out_of_the_view])
def test_a_clean_session_has_ended_for_nodes_without_its_node_in_the_view(away: Callable[[Two], None]) -> None:
    """A durable session has not ended; both must get the messages acknowledged before."""
    for lasts in (False, True):
        two = Two()
        two.b.subscriber()
        if lasts:
            two.b.connect("rx", present=True)
        away(two)
        two.lost()
        assert len(two.audit().lost_acked) == lasts
        early = Two()
        early.b.subscriber()
        early.lost()
        away(early)
        assert len(early.audit().lost_acked) == 1


def test_messages_accepted_without_a_lease_arrive_after_the_heal() -> None:
    """For durable sessions that had subscribed before."""
    two = Two()
    for client in ("rx", "clean"):
        two.b.subscriber(client)
    two.b.connect("rx", present=True)
    two.a.say("split.detect", nodes=[B], state="minority")
    two.b.subscriber("later")
    two.b.connect("later", present=True)
    two.lost()
    found = two.audit()
    assert (found.verdict, found.waiting) == ("valid", 3)
    two.a.say("split.heal", nodes=[B], state="minority")
    found = two.audit()
    assert [case.client for case in found.lost_acked] == ["rx"]


def test_a_group_in_a_minority_is_not_judged() -> None:
    """Its members may all be on the other side."""
    two = Two()
    two.b.subscriber("rx", "$share/g/t/#")
    two.a.say("split.detect", nodes=[B], state="minority")
    two.lost()
    assert two.audit().verdict == "valid"


def test_a_forgotten_session_is_found() -> None:
    """This includes a session that has not returned and got nothing: its CONNACK was sent. Its messages are lost as
    well.
    """

    async def test(lasts: bool) -> None:
        async with Cluster() as c:
            rx = await c.client("rx", clean_start=not lasts)
            await rx.subscribe("t", qos=1)
            await c.kill(0)
            assert c[0].disks is not None
            c[0].disks.clear()
            await c.start(0)
            await rx.reconnect()
            assert not rx.session_present
            found = c.audit()
            assert (found.amnesia, found.verdict) == ((["rx"], "invalid") if lasts else ([], "valid"))

    for lasts in (True, False):
        run(test(lasts))


def test_a_message_that_its_queue_lost_is_found() -> None:
    """Acknowledged, entered in a queue, safe, and missing after a restart, without any newer
    message that overtook it.
    """

    async def test() -> None:
        async with Cluster() as c:
            rx = await c.client("rx", clean_start=False)
            await rx.subscribe("t", qos=1)
            await rx.disconnect()
            tx = await c.client("tx")
            for number in range(3):
                await tx.publish("t", f"payload {number}", qos=1)
            await c.kill(0)
            assert c.audit().verdict == "valid" and c[0].disks is not None
            disk = c[0].disks["messages"].table
            (lost,) = [key for key, value in disk.values.items() if b"payload 2" in value]
            disk.put_all([(lost, None)])
            await c.start(0)
            found = c.audit()
            assert ([case.kind for case in found.lost_acked], found.waiting) == (["gone"], 2)
            await rx.reconnect()
            await c.settled()
            assert len(rx.take()) == 2 and [case.message_id[2] for case in c.audit().lost_acked] == [3]

    run(test())


def test_a_session_that_was_ended_is_not_forgotten() -> None:
    """Its client reconnected without an expiry, or ended it: a kill removes it."""

    async def test() -> None:
        async with Cluster() as c:
            for name, disconnects in (("expires", False), ("ends", True)):
                rx = await c.client(name, clean_start=False)
                await rx.subscribe("t", qos=1)
                if disconnects:
                    await rx.disconnect(properties={"session_expiry_interval": 0})
                else:
                    rx._connect.properties = None
                    await rx.reconnect()
            await c.settled()
            await c.kill(0)
            await c.start(0)
            for client in c._clients:
                await client.reconnect()
                assert not client.session_present
            assert c.audit().problems() == []

    run(test())


def slot(client: str = "rx") -> int:
    return slot_of("", client)


def after_a_failover(two: Two, resumes: bool = True) -> None:
    """A durable session begins at b, which is killed; its slot arrives at a, where its client comes back."""
    two.b.subscriber()
    two.b.say("conn.close", client="rx", reason="peer_closed")
    two.b.connect("rx", present=True)
    two.b.say("fault.kill", nodes=[B])
    two.a.say("slot.arrive", slot=slot())
    if resumes:
        two.a.connect("rx", present=True)


def test_a_session_continues_at_another_node_when_its_slot_goes_there() -> None:
    two = Two()
    after_a_failover(two)
    two.a.whole()
    result = two.audit()
    assert result.verdict == "valid" and (result.acked, result.delivered) == (1, 1)


def test_a_session_that_its_new_node_has_forgotten() -> None:
    two = Two()
    after_a_failover(two, resumes=False)
    two.a.connect("rx")
    assert two.audit().amnesia == ["rx"]


def test_a_message_for_a_session_that_was_taken_over_is_lost() -> None:
    two = Two()
    after_a_failover(two)
    mid = two.a.accept()
    two.a.route(mid)
    two.a.ack(mid)
    assert [case.kind for case in two.audit().lost_acked] == ["stale-route"]


def test_a_message_that_was_delivered_before_and_after_a_failover() -> None:
    two = Two()
    two.b.subscriber()
    mid = two.b.whole()
    two.b.say("fault.kill", nodes=[B])
    two.a.say("slot.arrive", slot=slot())
    two.a.connect("rx", present=True)
    two.a.send(mid, packet_id=mid[2], dup=True)
    assert [case.kind for case in two.audit().duplicates] == ["sent again after its acknowledgement"]


@pytest.mark.parametrize("own", [True, False])
def test_only_sessions_of_the_slot_go_to_its_new_node(own: bool) -> None:
    two = Two()
    two.b.subscriber()
    two.b.say("fault.kill", nodes=[B])
    two.a.say("slot.arrive", slot=slot() if own else (slot() + 1) % SLOTS)
    two.a.connect("rx", present=True)
    assert len(Grouped(two.rows).world().sessions) == (1 if own else 2)


def test_a_client_without_durable_session_stays_at_its_gateway() -> None:
    two = Two()
    two.b.subscriber()
    two.a.say("slot.arrive", slot=slot())
    two.to_b()
    two.lost()
    result = two.audit()
    assert [case.kind for case in result.lost_acked] == ["stale-route"]


def test_a_clean_session_with_a_will_ends_when_its_slot_arrives_elsewhere() -> None:
    two = Two()
    two.b.connect("rx", will=True)
    two.b.say("sub.add", client="rx", filter="t/#", qos=1)
    two.b.say("fault.kill", nodes=[B])
    two.a.say("slot.arrive", slot=slot())
    two.lost()
    two.a.say("will.fire", mid=(A, 1, 900), client="rx", topic="will")
    two.a.say("sess.end", client="rx", reason="disconnected")
    assert two.audit().problems() == []
