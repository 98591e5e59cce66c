"""Empty slots go to the nodes that should have them; slots with sessions stay."""

from __future__ import annotations

from collections.abc import Callable, Collection

from strogoff.broker.clustering.slot_handover import AT_ONCE, LOOK_MS, REPEAT_MS, SlotHandover
from strogoff.cluster.identity import SLOTS, slot_of
from strogoff.cluster.membership.commands import Join, Row, SetSlots, Settle, SetView, encode_command
from strogoff.cluster.membership.state_machine import MembershipState
from strogoff.cluster.slots.placement import wanted
from strogoff.cluster.slots.table import Holder, SlotRow
from strogoff.mqtt import packets as p

from .slot_cluster import SlotCluster


class FakeMember:
    """Node a, in a cluster with node b. Its requests have no effect until the test calls `grant`."""

    def __init__(self) -> None:
        self.membership = MembershipState()
        self.lease = True
        self.slow: list[str] = []
        self.full: list[str] = []
        self.asked: list[tuple[SlotRow, ...]] = []
        self.log: list[str] = []
        self.used: set[int] = set()
        self.apply(Settle("id", "a", "disk-a", 1, "a-1", "", slots=True))
        self.apply(Join("b", "disk-b", 1, "b-1", ""))
        self.unsafe: list[Callable[[], None]] | None = None
        """What waits for the disks; None if they are quick."""
        self.handover = SlotHandover(self, self.empty, self.when_safe, lambda level, text: self.log.append(text))

    def when_safe(self, then: Callable[[], None]) -> None:
        if self.unsafe is None:
            then()
        else:
            self.unsafe.append(then)

    def apply(self, command: Settle | Join | SetView | SetSlots) -> None:
        self.membership.apply(self.membership.index + 1, encode_command(command))

    def view(self, *nodes: str, entered: int = 2) -> None:
        """Nodes that serve; a entered in view 1."""
        for serving in (False, True):
            rows = [Row("a", 1, 1, True)] * ("a" in nodes) + [Row("b", 1, entered, serving)] * ("b" in nodes)
            self.apply(SetView(self.membership.view.id, tuple(rows)))
        self.handover.table_changed()

    @property
    def own_holder(self) -> Holder | None:
        return None if self.membership.view.row("a") is None else Holder("a", "disk-a", 1)

    def leased(self) -> bool:
        return self.lease

    def request_slots(self, changes: tuple[SlotRow, ...]) -> None:
        self.asked.append(changes)

    def empty(self, slots: Collection[int]) -> list[int]:
        return [slot for slot in slots if slot not in self.used]

    def grant(self) -> None:
        """Apply all requests."""
        asked, self.asked = self.asked, []
        for changes in asked:
            self.apply(SetSlots(changes))
        self.handover.table_changed()

    def of_b(self) -> list[int]:
        """The slots that b should have."""
        return [slot for slot in range(SLOTS) if wanted(slot, {"a": "a", "b": "b"}, 1) == ("b",)]


def test_each_node_gets_its_empty_slots() -> None:
    member = FakeMember()
    member.view("a", "b")
    member.used = set(member.of_b()[:3])
    now = 10_000.0
    while len(member.membership.slots.slots_by_primary.get("b", ())) < len(member.of_b()) - 3:
        member.handover.tick(now)
        assert all(len(changes) <= AT_ONCE for changes in member.asked)
        member.grant()
        now += 1
    assert list(member.membership.slots.slots_by_primary["b"]) == member.of_b()[3:]
    assert not member.handover.closed and now < 10_010 and any("gives b the empty slots" in text for text in member.log)


def test_the_leader_is_asked_when_the_disks_have_what_was_written() -> None:
    """A session of the slot may have ended a moment ago, and the target may have its rows."""
    member = FakeMember()
    member.unsafe = []
    member.view("a", "b")
    member.handover.tick(10_000)
    closed = set(member.handover.closed)
    assert closed and not member.asked
    member.handover.tick(10_000 + 2 * REPEAT_MS)
    assert not member.asked
    member.unsafe[0]()
    member.handover.tick(10_000 + 2 * REPEAT_MS)
    assert {row.slot for changes in member.asked for row in changes} >= closed


def test_requests_are_repeated_until_they_are_applied() -> None:
    member = FakeMember()
    member.view("a", "b")
    member.handover.tick(10_000)
    first = list(member.asked)
    assert first and len(member.handover.closed) == AT_ONCE
    member.handover.tick(10_001)
    more = len(member.handover.closed)
    member.asked.clear()
    member.handover.tick(10_001 + REPEAT_MS - 1)
    again = [change for changes in member.asked for change in changes]
    member.handover.tick(10_001 + 3 * REPEAT_MS)
    assert more > AT_ONCE and {change.slot for change in first[0]} <= {
        change.slot for changes in member.asked for change in changes
    }
    assert len(again) <= len(member.of_b())


def test_slots_that_become_empty_are_found_later() -> None:
    member = FakeMember()
    member.used = set(range(SLOTS))
    member.view("a", "b")
    for now in range(10_000, 10_010):
        member.handover.tick(now)
    assert not member.handover.closed
    member.used = set(range(SLOTS)) - set(member.of_b()[:1])
    member.handover.tick(10_000 + LOOK_MS - 1)
    assert not member.handover.closed
    for now in range(4):
        member.handover.tick(10_010 + LOOK_MS + now)
    assert list(member.handover.closed) == member.of_b()[:1]


def test_nothing_is_given_without_a_lease_or_to_a_node_that_does_not_serve() -> None:
    member = FakeMember()
    member.handover.tick(10_000)
    assert not member.handover.closed
    member.view("a", "b")
    member.lease = False
    member.handover.tick(10_001)
    assert not member.handover.closed
    member.lease = True
    member.handover.tick(10_002)
    assert member.handover.closed


def test_slots_stay_if_their_target_leaves() -> None:
    member = FakeMember()
    member.view("a", "b")
    member.handover.tick(10_000)
    asked = list(member.asked)
    member.view("a")
    assert not member.handover.closed and "stay at this node" in member.log[-1]
    member.view("a", "b", entered=member.membership.view.id + 1)
    for changes in asked:
        member.apply(SetSlots(changes))
    assert set(member.membership.slots.slots_by_primary) == {"a"}


# -- in a cluster

ZONES = {name: name for name in ("n1", "n2", "n3")}


def counts(cluster: SlotCluster) -> dict[str | None, int]:
    table = next(each for each in cluster.nodes if each.host.up).member.slots
    return {node: len(slots) for node, slots in table.slots_by_primary.items()}


def spread(cluster: SlotCluster) -> bool:
    rows = cluster[2].member.slots.rows
    return all(row.primary is not None and (row.primary.node,) == wanted(row.slot, ZONES, 1) for row in rows)


def test_slots_spread_over_the_nodes_of_a_new_cluster() -> None:
    cluster = SlotCluster()
    cluster.spread()
    cluster.until(lambda: spread(cluster))
    assert counts(cluster) == {"n1": 82, "n2": 87, "n3": 87}


def test_a_slot_with_a_session_stays_until_the_session_ends() -> None:
    cluster = SlotCluster()
    ids = [f"c{number}" for number in range(99)]
    client_id = next(each for each in ids if wanted(slot_of("", each), ZONES, 1) == ("n2",))
    client = cluster[3].client(client_id, clean=False, expiry_s=600)
    cluster.spread()
    cluster.until(lambda: len(counts(cluster)) == 3)
    cluster.pass_s(1)
    assert cluster.places(client_id)[0][0] == "n1" and not client.closed
    client.send(p.Disconnect(0, {"session_expiry_interval": 0}))
    cluster.until(lambda: cluster.places(client_id)[0][0] != "n1", patience_s=20)


def test_clients_that_connect_while_slots_spread_are_all_served() -> None:
    cluster = SlotCluster()
    cluster.spread()
    cluster.until(lambda: cluster.closed(1))
    clients = []
    for number in range(200):
        clients.append(cluster[1 + number % 3].connect_soon(f"c{number}", clean=False, expiry_s=600))
        cluster.pass_s(0.01)
    answers: list[p.Connack] = []

    def all_answered() -> bool:
        answers.extend(each for client in clients for each in client.take() if isinstance(each, p.Connack))
        return len(answers) == len(clients)

    cluster.until(all_answered)
    assert {(each.reason, each.session_present) for each in answers} == {(0, False)}
    assert [len(harness.node.sessions) > 0 for harness in cluster.nodes] == [True] * 3
    assert sum(len(harness.node.sessions) for harness in cluster.nodes) == 200


def test_the_death_of_the_leader_in_the_middle_ends_no_handover() -> None:
    cluster = SlotCluster()
    cluster.spread()
    cluster.until(lambda: any(cluster.closed(n) for n in (1, 2, 3)))
    leader = next(n for n in (1, 2, 3) if cluster[n].leads)
    if leader == 1:
        cluster.network.cut("n1", "n2")
        cluster.network.cut("n1", "n3")
        cluster.pass_s(3)
        cluster.network.heal()
    else:
        cluster.restart(leader)
    cluster.until(lambda: spread(cluster), patience_s=60)
    cluster.until(lambda: not any(cluster.closed(n) for n in (1, 2, 3)))


def test_a_node_with_a_slow_disk_gets_no_slot() -> None:
    member = FakeMember()
    member.slow = ["b"]
    member.view("a", "b")
    member.handover.tick(0)
    assert member.handover.misplaced() == {} and not member.handover.closed
    assert member.handover.waiting_for_slow() == {"b"}
    member.slow = []
    assert member.handover.misplaced() and member.handover.waiting_for_slow() == set()


def test_a_node_with_a_full_disk_gets_no_slot() -> None:
    """A client that asks for a durable session would be refused there, until the disk has space."""
    cluster = SlotCluster()
    cluster[2].disks[0].full = True
    cluster[2].node.env.store.put(b"test", b"")
    cluster.until(lambda: "n2" in cluster[1].member.full)
    cluster.spread()
    cluster.until(lambda: "n3" in counts(cluster))
    cluster.pass_s(10)
    assert not cluster.closed(1) and "n2" not in counts(cluster)
    ids = [f"c{number}" for number in range(99)]
    client_id = next(each for each in ids if wanted(slot_of("", each), ZONES, 1) == ("n2",))
    cluster.pinned.add(client_id)
    cluster[3].client(client_id, clean=False, expiry_s=600).leave()
    cluster[2].disks[0].full = False
    cluster.until(lambda: len(counts(cluster)) == 3, 20)
    assert cluster.places(client_id)[0][0] == "n1", "it has a session"
