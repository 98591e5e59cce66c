"""The membership: the effect of each command, and the commands that are refused when applied."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.identity import Incarnation
from strogoff.cluster.membership.commands import (
    Away,
    Boot,
    Command,
    Join,
    Leave,
    MalformedCommand,
    RecoverSlots,
    Row,
    SetSlots,
    Settle,
    SetView,
    Stale,
    encode_command,
)
from strogoff.cluster.membership.events import (
    BarriersAllowed,
    Booted,
    Joined,
    Left,
    MembershipEvent,
    Refused,
    Settled,
    SlotsChanged,
    SlotsDoubtful,
    SlotsLost,
    ViewChanged,
    WentStale,
)
from strogoff.cluster.membership.state_machine import (
    UNLOGGED_MAX,
    MembershipState,
    peer_of,
    wanted_voters,
    zone_of,
)
from strogoff.cluster.membership.view import View
from strogoff.cluster.slots.table import Holder, SlotRow, SlotTable

ABOVE = 2 + UNLOGGED_MAX
"""The first start of another disk that can join under the name of a member with one start in the log."""


def apply(membership: MembershipState, *commands: Command) -> tuple[MembershipEvent, ...]:
    """Apply commands; returns the result of the last one."""
    happened: tuple[MembershipEvent, ...] = ()
    for command in commands:
        happened = membership.apply(membership.index + 1, encode_command(command))
    return happened


def join(node: str, disk: str = "", boot: int = 1, process: str = "") -> Join:
    return Join(node, disk or f"disk-{node}", boot, process or f"{node}-{boot}", f"{node}:1")


def boot(node: str, number: int, disk: str = "", process: str = "") -> Boot:
    return Boot(node, disk or f"disk-{node}", number, process or f"{node}-{number}", f"{node}:1")


def cluster(*nodes: str) -> MembershipState:
    """Settled by the first, all serving: in views 1 (the first), 2 (joining) and 3."""
    membership = MembershipState()
    first, *others = nodes
    apply(membership, Settle("id", first, f"disk-{first}", 1, f"{first}-1", ""), *[join(node) for node in others])
    if others:
        for serving in (False, True):
            rows = [Row(node, 1, 2, serving) for node in others]
            apply(membership, SetView(membership.view.id, (Row(first, 1, 1, True), *rows)))
    return membership


def refusal(happened: tuple[MembershipEvent, ...]) -> str:
    (refused,) = happened
    assert isinstance(refused, Refused)
    return refused.reason


def test_the_first_member_serves_at_once() -> None:
    membership = MembershipState()
    happened = apply(membership, Settle("id", "a", "d", 1, "p", "a:1"))
    view = View(1, (Row("a", 1, 1, True),))
    assert happened == (Settled("id"), Joined("a", False), ViewChanged(View(), view))
    assert membership.whole and membership.cluster_id == "id"
    assert "settled as id" in refusal(apply(membership, Settle("other", "b", "d", 1, "p", "")))


def test_no_join_before_the_cluster_is_settled() -> None:
    assert "not settled" in refusal(apply(MembershipState(), join("a")))


def test_a_new_member_is_not_in_the_view_until_it_is_set() -> None:
    membership = cluster("a")
    assert apply(membership, join("b")) == (Joined("b", False),)
    assert membership.view.nodes == ("a",) and membership.whole  # a joining newcomer does not count as missing
    apply(membership, SetView(1, (Row("b", 1, 2), Row("a", 1, 1, True))))
    assert membership.view == View(2, (Row("a", 1, 1, True), Row("b", 1, 2)))
    apply(membership, SetView(2, (Row("a", 1, 1, True), Row("b", 1, 2, True))))
    assert membership.whole and membership.view.incarnation("b") == Incarnation("b", 1, 2)
    apply(membership, SetView(3, (Row("a", 1, 1, True),)))
    assert not membership.whole


A = Row("a", 1, 1, True)
B = Row("b", 1, 2, True)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (SetView(2, (A, B)), "made for view 2, the present one is 3"),
        (SetView(3, (A, A)), "two rows for a"),
        (SetView(3, (A, B, Row("x", 1, 4))), "x: not a member"),
        (SetView(3, (A, Row("b", 2, 2, True))), "b: boot 2, the logged one is 1"),
        (SetView(3, (A, Row("b", 1, 4))), "b: since 4, but it entered in view 2"),
        (SetView(3, (A, Row("b", 1, 2))), "b: joining after having served"),
        (SetView(3, (A, B, Row("c", 1, 3))), "c: since 3, but it enters in view 4"),
        (SetView(3, (A, B, Row("c", 1, 4, True))), "c: serving without having joined"),
    ],
)
def test_impossible_views_are_refused(command: SetView, reason: str) -> None:
    membership = cluster("a", "b")
    apply(membership, join("c"))
    before = membership.view
    assert reason in refusal(apply(membership, command))
    assert membership.view is before


def test_the_same_rows_are_no_new_view() -> None:
    membership = cluster("a", "b")
    assert apply(membership, SetView(3, (A, B))) == ()
    assert membership.view.id == 3


def test_a_restart_leaves_with_the_same_entry() -> None:
    membership = cluster("a", "b")
    before = membership.view
    after = ViewChanged(before, View(4, (A,)))
    assert apply(membership, boot("b", 2)) == (BarriersAllowed(False), Booted("b", 2), after)
    assert "logged one is 2" in refusal(apply(membership, SetView(4, (A, Row("b", 1, 5)))))
    apply(membership, SetView(4, (A, Row("b", 2, 5))))
    assert membership.view.incarnation("b") == Incarnation("b", 2, 5)


def test_a_loss_of_power_counts_once() -> None:
    """Later starts tell of it again; only what the log does not know yet counts."""
    membership = cluster("a", "b")
    booted = [
        each.incomplete
        for number, found in ((2, 0), (3, 3), (4, 3), (6, 5), (7, 5))
        for each in apply(membership, msgspec.structs.replace(boot("b", number), incomplete=found))
        if isinstance(each, Booted)
    ]
    assert booted == [False, True, False, True, False]


def test_an_operator_recovers_a_slot_through_the_log() -> None:
    membership = MembershipState()
    apply(membership, Settle("id", "a", "disk-a", 1, "a-1", "", slots=True), join("b"))
    apply(membership, SetView(1, (A, Row("b", 1, 2))))
    apply(membership, SetView(2, (A, Row("b", 1, 2, True))))
    apply(membership, SetView(3, (Row("b", 1, 2, True),)))
    row, b = membership.slots.row(7), membership.holders()["b"]
    assert row.primary is None and [holder.node for holder in row.in_sync] == ["a"]
    wrong = msgspec.structs.replace(row, version=1, primary=b)
    good = msgspec.structs.replace(membership.slots.row(8), primary=b)
    refused, doubtful, changed = apply(membership, RecoverSlots((wrong, good), "b"))
    assert isinstance(refused, Refused) and refused.reason.startswith("slot 7: made for epoch")
    assert doubtful == SlotsDoubtful("b", (8,), ("a",), "b")
    assert isinstance(changed, SlotsChanged) and membership.slots.row(8).primary == b
    assert membership.slots.row(7) == row


def test_a_boot_is_repeated_without_effect_but_for_its_address() -> None:
    membership = cluster("a", "b")
    apply(membership, boot("b", 2))
    assert apply(membership, boot("b", 2)) == ()
    assert apply(membership, Boot("b", "disk-b", 2, "b-2", "elsewhere:1")) == ()
    assert membership.members["b"].address == "elsewhere:1"


def test_a_restored_backup_differs_from_the_process_of_its_boot() -> None:
    membership = cluster("a", "b")
    apply(membership, boot("b", 2))
    (refused,) = apply(membership, boot("b", 2, process="restored"))
    assert isinstance(refused, Refused) and refused.boot == 2
    assert "not above the logged 2" in refusal(apply(membership, boot("b", 1)))


def test_a_new_disk_must_join_as_an_empty_one() -> None:
    membership = cluster("a", "b")
    old = peer_of(membership.members["b"])
    assert "disk is disk-b, not new" in refusal(apply(membership, boot("b", 2, disk="new")))
    for used in (1, 2, ABOVE - 1):  # the log has the first boot; other nodes may know later ones that it never had
        (refused,) = apply(membership, join("b", disk="new", boot=used))
        assert isinstance(refused, Refused) and refused.boot == ABOVE - 1
    happened = apply(membership, join("b", disk="new", boot=ABOVE))
    assert happened[0] == Joined("b", True) and membership.view.nodes == ("a",)
    assert peer_of(membership.members["b"]) == "b/new" != old
    assert membership.members["b"].joined == membership.index


def test_a_join_with_the_known_disk_is_a_boot_until_it_has_served() -> None:
    """The answer to its first request may be lost. Later it can only be a copy of the disk from before the join."""
    membership = cluster("a")
    apply(membership, join("b"))
    assert apply(membership, join("b")) == ()
    assert apply(membership, join("b", boot=2))[0] == Booted("b", 2)
    membership = cluster("a", "b")
    assert apply(membership, join("b")) == ()
    assert "from before it joined" in refusal(apply(membership, join("b", boot=2)))
    assert membership.members["b"].boot == 1


def test_events_of_a_former_disk_do_not_answer_a_join() -> None:
    """Killed before the answer came, the node asks again: the log is not on this disk, but it has made no promise."""
    membership = cluster("a", "b")
    apply(membership, join("b", disk="new", boot=ABOVE))
    assert apply(membership, join("b", disk="new", boot=ABOVE + 1))[0] == Booted("b", ABOVE + 1)
    assert not membership.whole  # a node that has served counts as missing, whatever happened to its disk
    for serving in (False, True):
        apply(membership, SetView(membership.view.id, (A, Row("b", ABOVE + 1, 5, serving))))
    assert "from before it joined" in refusal(apply(membership, join("b", disk="new", boot=ABOVE + 2)))


def test_a_node_that_left_needs_a_higher_boot() -> None:
    membership = cluster("a", "b")
    assert apply(membership, Leave("b"))[0] == Left("b")
    assert membership.view.nodes == ("a",) and "b" not in membership.members
    assert apply(membership, Leave("b")) == ()
    assert "not above 1001, which this name may have had" in refusal(apply(membership, join("b", disk="new")))
    assert apply(membership, join("b", disk="new", boot=ABOVE)) == (Joined("b", False),)
    assert "not a member" in refusal(apply(membership, boot("x", 1)))


def test_the_last_member_stays() -> None:
    assert "last member" in refusal(apply(cluster("a"), Leave("a")))


def test_a_stale_member_returns_with_an_empty_disk() -> None:
    membership = cluster("a", "b", "c")
    assert "in the view" in refusal(apply(membership, Stale("b")))
    apply(membership, SetView(3, (A, Row("c", 1, 2, True))))
    assert apply(membership, Stale("b")) == (BarriersAllowed(True), WentStale("b"))
    assert apply(membership, Stale("b")) == () and apply(membership, Stale("x")) == ()
    assert "empty disk" in refusal(apply(membership, boot("b", 2)))
    assert "too long" in refusal(apply(membership, SetView(4, (A, Row("b", 1, 5)))))
    assert not any("b" in peer for peer in wanted_voters(membership))
    assert apply(membership, join("b", disk="new", boot=ABOVE)) == (Joined("b", True),)
    assert not membership.members["b"].stale


def test_the_youngest_of_an_even_number_does_not_vote() -> None:
    assert wanted_voters(MembershipState()) == ()
    assert wanted_voters(cluster("b")) == ("b/disk-b",)
    assert wanted_voters(cluster("b", "a")) == ("b/disk-b",)
    assert wanted_voters(cluster("b", "a", "c")) == ("a/disk-a", "b/disk-b", "c/disk-c")
    four = cluster("d", "c", "b", "a")
    assert wanted_voters(four) == ("b/disk-b", "c/disk-c", "d/disk-d")
    apply(four, join("d", disk="new", boot=ABOVE))
    assert wanted_voters(four) == ("a/disk-a", "b/disk-b", "c/disk-c")


NODES = st.sampled_from("abc")
BOOTS = st.sampled_from([1, 2, 3, ABOVE, ABOVE + 1])
STARTS = st.builds(
    lambda kind, node, disk, number, process: kind(node, disk, number, process, ""),
    st.sampled_from([Join, Boot]),
    NODES,
    st.sampled_from(["d", "e"]),
    BOOTS,
    st.sampled_from(["p", "q"]),
)
ROWS = st.builds(Row, NODES, BOOTS, st.integers(1, 6), st.booleans())
VIEWS = st.builds(SetView, st.integers(0, 8), st.lists(ROWS, max_size=3).map(tuple), st.booleans(), st.booleans())
COMMANDS = st.one_of(STARTS, VIEWS, st.builds(Leave, NODES), st.builds(Stale, NODES))


@given(st.lists(COMMANDS, max_size=40))
def test_whatever_is_proposed_the_view_names_last_starts_of_members(commands: list[Command]) -> None:
    membership = cluster("a", "b")
    boots: dict[str, int] = {}
    seen: dict[Incarnation, str] = {}
    for command in commands:
        before = membership.view
        apply(membership, command)
        view = membership.view
        assert view.id == before.id + (view is not before)
        for row in view.rows:
            member = membership.members[row.node]
            assert row.boot == member.boot and not member.stale
            assert (
                seen.setdefault(Incarnation(row.node, row.boot, row.entered_in_view), member.process) == member.process
            )
            former = before.row(row.node)
            assert former is not None or (row.entered_in_view == view.id and not row.serving)
        for node, number in membership.boots.items():
            assert number >= boots.get(node, 0)
        boots = dict(membership.boots)
        other = MembershipState()
        other.restore(membership.snapshot())
        assert vars(other) == vars(membership) and other.snapshot() == membership.snapshot()


def test_bytes_that_are_no_snapshot_change_nothing() -> None:
    membership = cluster("a")
    before = membership.snapshot()
    with pytest.raises(MalformedCommand, match="snapshot of a membership, 1 bytes"):
        membership.restore(b"\xc1")
    with pytest.raises(MalformedCommand, match="command of 3 bytes beginning 61 62 63"):
        membership.apply(membership.index + 1, b"abc")
    assert membership.snapshot() == before


def test_an_absence_is_recorded_once_and_cleared_on_return() -> None:
    membership = cluster("a", "b")
    view = membership.view
    apply(membership, Away("b", 500))
    assert membership.members["b"].away_ms == 0  # it has a row
    apply(membership, SetView(view.id, (A,)), Away("b", 600), Away("b", 700), Away("x", 1))
    assert membership.members["b"].away_ms == 600
    assert apply(membership, Away("b", 600, 900), Away("b", 600)) == ()
    assert (membership.members["b"].away_ms, membership.members["b"].notice_ms) == (600, 900)
    apply(membership, SetView(view.id + 1, (A, Row("b", 1, view.id + 2))))
    assert (membership.members["b"].away_ms, membership.members["b"].notice_ms) == (0, 0)


def test_informed_members() -> None:
    """They are the serving members and others, until a command restricts them or their disks are gone."""
    membership = cluster("a", "b", "c")
    assert (membership.informed_members, membership.barriers_allowed) == (("a", "b", "c"), True)
    rows = (A, Row("b", 1, 2, True))
    apply(membership, SetView(3, rows))
    assert (membership.informed_members, membership.barriers_allowed) == (("a", "b", "c"), False)
    view = membership.view
    assert apply(membership, SetView(4, rows, True)) == (BarriersAllowed(True),)  # although the view stays
    assert (membership.informed_members, membership.barriers_allowed, membership.view) == (("a", "b"), True, view)
    apply(membership, boot("a", 2))
    assert not membership.barriers_allowed
    apply(membership, boot("b", 2))
    assert (membership.informed_members, membership.barriers_allowed) == (("a", "b"), True)  # nobody serves
    apply(membership, SetView(membership.view.id, (Row("c", 1, membership.view.id + 1),), True))
    assert membership.informed_members == ("a", "b")
    apply(membership, join("b", disk="new", boot=ABOVE + 1))
    assert list(membership.informed_members) == ["a"]
    apply(membership, Stale("a"))
    assert not membership.informed_members
    left = cluster("a", "b")
    apply(left, boot("b", 2), Leave("a"))
    assert left.informed_members == ("b",)


FOUNDER = Settle("id", "a", "disk-a", 1, "a-1", "", "rack1", slots=True)
HOLDER_A = Holder("a", "disk-a", 1)
HOLDER_B = Holder("b", "disk-b", 2)


def slotted() -> MembershipState:
    """Two nodes serve; a has all slots."""
    membership = MembershipState()
    apply(membership, FOUNDER, join("b"), SetView(1, (A, Row("b", 1, 2))), SetView(2, (A, B)))
    return membership


def test_the_founder_gets_all_slots() -> None:
    membership = MembershipState()
    happened = apply(membership, FOUNDER)
    assert happened[-1] == SlotsChanged(SlotTable(), membership.slots)
    assert {row.primary for row in membership.slots.rows} == {HOLDER_A}
    assert membership.slots.index == membership.slots.row(0).epoch == 1


def test_a_view_without_the_primary_leaves_slots_without_one_until_it_enters() -> None:
    membership = slotted()
    happened = apply(membership, boot("a", 2))
    assert [type(each) for each in happened[-2:]] == [ViewChanged, SlotsChanged]
    assert membership.slots.row(7) == SlotRow(7, 5, 5, None, (Holder("a", "disk-a", 0),), HOLDER_B, 1)
    apply(membership, SetView(4, (Row("a", 2, 5), B)))
    entered = Holder("a", "disk-a", 5)
    assert membership.slots.row(7) == SlotRow(7, 6, 6, entered, (entered,), None, 1)


def test_a_node_that_leaves_loses_the_slots_of_which_it_has_the_only_copy() -> None:
    membership = slotted()
    happened = apply(membership, Leave("a"))
    assert SlotsLost("a", tuple(range(256))) in happened
    assert membership.slots.row(7) == SlotRow(7, 5, 5, HOLDER_B, (HOLDER_B,), None, 5)


def test_a_node_that_leaves_without_sessions_loses_nothing() -> None:
    membership = slotted()
    happened = apply(membership, Leave("a", empty=True))
    assert not [each for each in happened if isinstance(each, SlotsLost)]
    assert membership.slots.row(7) == SlotRow(7, 5, 5, HOLDER_B, (HOLDER_B,), None, 5)


def test_another_disk_and_a_stale_member_lose_them_too() -> None:
    membership = slotted()
    happened = apply(membership, join("a", disk="new", boot=ABOVE))
    assert SlotsLost("a", tuple(range(256))) in happened and membership.slots.row(7).primary == HOLDER_B
    membership = slotted()
    assert SlotsLost("a", tuple(range(256))) not in apply(membership, SetView(3, (B,)))
    assert SlotsLost("a", tuple(range(256))) in apply(membership, Stale("a"))
    assert membership.slots.row(7).primary == HOLDER_B


def test_a_second_copy_saves_the_slots() -> None:
    membership = slotted()
    copies = tuple([SlotRow(slot, 1, 1, HOLDER_A, (HOLDER_A, HOLDER_B)) for slot in range(256)])
    assert [type(each) for each in apply(membership, SetSlots(copies))] == [SlotsChanged]
    happened = apply(membership, Leave("a"))
    assert not [each for each in happened if isinstance(each, SlotsLost)]
    assert membership.slots.row(7) == SlotRow(7, 6, 6, HOLDER_B, (HOLDER_B,), None, 6)


def test_a_follower_takes_itself_out_and_the_primary_does_not() -> None:
    membership = slotted()
    apply(membership, SetSlots((SlotRow(7, 1, 1, HOLDER_A, (HOLDER_A, HOLDER_B)),)))
    version = membership.slots.row(7).version
    alone = SlotRow(7, 1, version, HOLDER_A, (HOLDER_A,))
    assert refusal(apply(membership, SetSlots((alone,)))) == "slot 7: it takes b out of the in-sync set and adds 0"
    (refused,) = apply(membership, SetSlots((alone,), "a"))
    assert refused == Refused(SetSlots((alone,), "a"), "slot 7: a is not a follower")
    assert membership.slots.row(7).in_sync == (HOLDER_A, HOLDER_B)
    assert [type(each) for each in apply(membership, SetSlots((alone,), "b"))] == [SlotsChanged]
    assert membership.slots.row(7).in_sync == (HOLDER_A,) and membership.slots.row(7).epoch == 1


def test_a_late_request_for_a_holder_that_restarted_is_refused() -> None:
    """The request waited in the log while b restarted: b entered again, and may lack what it had in memory (H-22)."""
    membership = slotted()
    late = SlotRow(7, 1, 1, HOLDER_A, (HOLDER_A, HOLDER_B))
    apply(membership, boot("b", 2), SetView(4, (A, Row("b", 2, 5))))
    said = refusal(apply(membership, SetSlots((late,))))
    assert said.startswith("slot 7: it names b with disk disk-b that entered in view 2; the view has disk disk-b")
    assert membership.slots.row(7).in_sync == (HOLDER_A,)


def test_a_log_from_before_the_table_gives_the_same_table_with_and_without_a_snapshot() -> None:
    """One node replays old entries, the other restores an old snapshot. The table begins at the first new entry."""
    former = cluster("c", "b", "a")
    other = MembershipState()
    other.restore(former.snapshot())
    for membership in (former, other):
        assert membership.slots == SlotTable()
        view = membership.view
        assert apply(membership, Leave("b"))[-1] == ViewChanged(view, membership.view)
        apply(membership, SetView(membership.view.id, membership.view.rows, True, slots=True))
        assert {row.primary for row in membership.slots.rows} == {Holder("c", "disk-c", 1)}  # the eldest
    assert former.snapshot() == other.snapshot()


def test_the_table_of_an_old_cluster_waits_for_a_node_that_serves() -> None:
    membership = cluster("a", "b")
    apply(membership, boot("a", 2), boot("b", 2))
    view = membership.view.id
    apply(membership, SetView(view, (Row("a", 2, view + 1),), slots=True))
    assert membership.slots == SlotTable()
    apply(membership, SetView(view + 1, (Row("a", 2, view + 1, True),), slots=True))
    assert membership.slots.row(255).primary == Holder("a", "disk-a", view + 1)


def test_a_snapshot_with_a_wrong_table_changes_nothing() -> None:
    membership = slotted()
    before = membership.snapshot()
    damaged = msgspec.msgpack.decode(before)
    damaged[-1][1] = []  # the table names no holders
    with pytest.raises(MalformedCommand, match="slot 0: a holder that is not among the 0"):
        membership.restore(msgspec.msgpack.encode(damaged))
    assert membership.snapshot() == before and len(before) < 4096


def test_members_have_zones() -> None:
    membership = slotted()
    zones = [zone_of(row) for row in membership.members.values()]
    assert zones == ["rack1", "b"]  # without a zone it is the node itself
    apply(membership, Boot("a", "disk-a", 1, "a-1", "", zone="rack2"), Boot("b", "disk-b", 2, "b-2", "", (), "rack3"))
    assert [zone_of(row) for row in membership.members.values()] == ["rack2", "rack3"]
    apply(membership, Join("c", "d", 1, "p", "", "rack4"))
    assert membership.members["c"].zone == "rack4"
