"""The lease of a node: when it is requested, when a reply counts, and when it ends."""

from __future__ import annotations

from strogoff.cluster.identity import Incarnation
from strogoff.cluster.membership.commands import Row
from strogoff.cluster.membership.lease import LeaseHolder
from strogoff.cluster.membership.messages import LeaseReply, LeaseRequest
from strogoff.cluster.membership.settings import Settings
from strogoff.cluster.membership.view import View

WALL = 1e12
VIEW = View(5, (Row("a", 1, 1, True), Row("b", 3, 5)))
SERVING = View(6, (Row("a", 1, 1, True), Row("b", 3, 5, True)))


def holder(view: View = SERVING) -> LeaseHolder:
    made = LeaseHolder("b", 3, "p", Settings(lease_ms=2000, detection_ms=2500))
    made.applied(view)
    return made


def ask(lease: LeaseHolder, now: float, wall: float | None = None) -> LeaseRequest | None:
    lease.committed()
    return lease.request(now, WALL + now if wall is None else wall)


def answer(request: LeaseRequest | None, cluster_ms: int = 0) -> LeaseReply:
    assert request is not None
    return LeaseReply("b", 3, request.process, request.number, request.entered_in_view, cluster_ms)


def valid(lease: LeaseHolder, now: float) -> bool:
    return lease.valid(now, WALL + now)


def test_a_lease_runs_from_the_sending_of_its_request() -> None:
    lease = holder()
    request = ask(lease, 100)
    assert not valid(lease, 100)
    assert lease.reply(answer(request), 1500)
    assert valid(lease, 1500) and lease.left_ms(1500, WALL + 1500) == 600
    assert valid(lease, 2099) and not valid(lease, 2100)


def test_a_request_has_all_facts_for_the_leader() -> None:
    lease = holder(VIEW)
    lease.heard("c", 10)
    lease.heard("a", 900)
    lease.exchanged(Incarnation("a", 1, 1), 5)
    lease.committed()
    asked = lease.request(1100, WALL, full=True)
    assert asked == LeaseRequest("b", 3, "p", 1, ("a",), 5, 5, (("a", 1),), full=True, urgent=True)


def test_one_request_per_heartbeat_and_only_after_a_commit() -> None:
    lease = holder()
    assert lease.wants_commit(0) and lease.request(0, WALL) is None
    assert ask(lease, 0)
    assert ask(lease, 249) is None
    assert lease.due_ms(249) == 250
    assert not lease.wants_commit(250)  # the commit at 249 came after the last request
    assert lease.request(250, WALL + 250)
    assert lease.request(500, WALL + 500) is None and lease.wants_commit(500)


def test_a_request_leaves_earlier_with_another_frame() -> None:
    """The store begins the commit that it needs when the previous request has left."""
    lease = holder()
    assert ask(lease, 0)
    assert lease.wants_commit(0)
    lease.committed()
    assert not lease.wants_commit(60)
    assert lease.request(99, WALL + 99, piggyback=True) is None
    assert lease.request(100, WALL + 100, piggyback=True)


def test_requests_without_a_lease_or_with_changes_are_urgent() -> None:
    lease = holder()
    first = ask(lease, 0)
    assert first and first.urgent and lease.reply(answer(first), 5)
    second = ask(lease, 250)
    assert second and not second.urgent
    late = ask(lease, 1001)
    assert late and late.urgent
    assert lease.reply(answer(late), 1010)
    lease.heard("c", 1100)
    news = ask(lease, 1100)
    assert news and news.urgent


def test_cluster_time_ignores_the_time_that_the_leader_held_the_request() -> None:
    lease = holder()
    request = ask(lease, 1000)
    assert request is not None
    reply = LeaseReply("b", 3, "p", request.number, request.entered_in_view, 500_000, held_ms=300)
    assert lease.reply(reply, 1320)  # 10 ms there, 300 ms at the leader, 10 ms back
    assert lease.offset_ms == 500_000 - 1310


def test_a_hung_disk_lets_the_lease_end() -> None:
    lease = holder()
    lease.reply(answer(ask(lease, 0)), 5)
    for now in range(250, 2000, 250):
        assert lease.request(now, WALL + now) is None
    assert not valid(lease, 2000)


def test_older_replies_and_replies_to_others_do_not_count() -> None:
    lease = holder()
    first, second = ask(lease, 0), ask(lease, 300)
    good = answer(second)
    for wrong in (
        LeaseReply("b", 3, "q", good.number, good.entered_in_view, 0),
        LeaseReply("b", 2, "p", good.number, good.entered_in_view, 0),
        LeaseReply("b", 3, "p", good.number, 4, 0),
        LeaseReply("a", 3, "p", good.number, good.entered_in_view, 0),
        LeaseReply("b", 3, "p", 99, good.entered_in_view, 0),
    ):
        assert not lease.reply(wrong, 310)
    assert lease.reply(good, 310)
    assert not lease.reply(good, 320) and not lease.reply(answer(first), 320)
    assert valid(lease, 2299) and not valid(lease, 2300)


def test_no_lease_for_a_view_that_has_not_been_applied() -> None:
    lease = holder(View(4, (Row("a", 1, 1, True),)))
    request = ask(lease, 0)
    assert request and request.entered_in_view == 0 and lease.incarnation is None
    assert not lease.reply(LeaseReply("b", 3, "p", request.number, 5, 0), 5)
    lease.applied(VIEW)
    assert lease.reply(LeaseReply("b", 3, "p", request.number, 5, 0), 6)


def test_a_row_of_an_earlier_boot_is_another_incarnation() -> None:
    lease = holder(View(4, (Row("b", 2, 1, True),)))
    assert lease.incarnation is None and not lease.serving and lease.wants_exchange == ()


def test_another_incarnation_ends_the_lease_and_other_views_do_not() -> None:
    lease = holder(VIEW)
    lease.reply(answer(ask(lease, 0)), 5)
    lease.applied(SERVING)
    assert valid(lease, 10)
    lease.applied(View(8, (Row("a", 1, 1, True), Row("b", 3, 8))))
    assert not valid(lease, 10)


def test_a_node_requests_a_lease_when_it_enters() -> None:
    lease = holder(View(4, ()))
    assert ask(lease, 0)
    lease.applied(VIEW)
    assert ask(lease, 20)


def test_a_node_requests_a_lease_when_it_hears_a_peer_again() -> None:
    lease = holder()
    lease.heard("a", 0)
    assert ask(lease, 0)
    lease.heard("a", 100)
    assert ask(lease, 100) is None
    lease.heard("c", 110)
    assert ask(lease, 110)
    lease.heard("c", 120)
    lease.heard("a", 1101)  # silent for more than four heartbeats
    request = ask(lease, 1101)
    assert request and request.hears == ("a", "c") and ask(lease, 1102) is None


def test_a_node_requests_a_lease_when_a_view_excludes_it() -> None:
    lease = holder(View(4, (Row("a", 1, 1, True),)))
    assert ask(lease, 0) and ask(lease, 10) is None
    lease.applied(View(5, (Row("a", 1, 1, True), Row("c", 1, 5))))
    request = ask(lease, 10)
    assert request and request.view == 5
    lease = holder()
    assert ask(lease, 0)
    lease.applied(View(7, (*SERVING.rows, Row("c", 1, 7))))
    assert ask(lease, 10) is None


def test_a_joining_node_exchanges_with_all_that_serve_and_then_asks_at_once() -> None:
    lease = holder(View(5, (Row("a", 1, 1, True), Row("b", 3, 5), Row("c", 1, 2, True), Row("d", 1, 5))))
    assert ask(lease, 0)
    a, c = Incarnation("a", 1, 1), Incarnation("c", 1, 2)
    assert lease.wants_exchange == (a, c)
    lease.exchanged(a, 4)
    assert lease.wants_exchange == (a, c)  # answered for an earlier incarnation
    lease.exchanged(a, 5)
    assert list(lease.wants_exchange) == [c] and ask(lease, 10) is None
    lease.exchanged(c, 5)
    request = ask(lease, 20)
    assert request and request.exchanged == (("a", 1), ("c", 2)) and not lease.wants_exchange
    lease.applied(View(7, (Row("a", 4, 7, True), Row("b", 3, 5), Row("c", 1, 2, True))))
    assert list(lease.wants_exchange) == [Incarnation("a", 4, 7)]  # it returned as another incarnation


def test_the_first_serving_node_is_asked_again() -> None:
    rows = Row("a", 2, 4), Row("b", 3, 5), Row("c", 2, 5)
    lease = holder(View(5, rows))
    lease.exchanged(Incarnation("a", 2, 4), 5)
    lease.applied(View(6, rows))
    assert lease.wants_exchange == (Incarnation("c", 2, 5),)
    lease.applied(View(7, (Row("a", 2, 4, True), *rows[1:])))
    assert lease.wants_exchange == (Incarnation("a", 2, 4),)
    lease.exchanged(Incarnation("a", 2, 4), 5)
    lease.applied(View(8, (Row("a", 2, 4, True), rows[1], Row("c", 2, 5, True))))
    assert lease.wants_exchange == (Incarnation("c", 2, 5),)


def test_a_frozen_machine_has_no_lease_when_it_wakes() -> None:
    lease = holder()
    lease.reply(answer(ask(lease, 0)), 5)
    lease.turn(100, WALL + 100)
    under_way = answer(ask(lease, 300))
    assert not lease.valid(310, WALL + 310 + 501)
    assert not lease.reply(under_way, 320)  # requested before the freeze
    fresh = lease.request(330, WALL + 831) or ask(lease, 330, WALL + 831)
    assert lease.reply(answer(fresh), 340) and lease.valid(340, WALL + 841)


def test_left_ms_of_a_frozen_machine_matches_valid() -> None:
    """3 nodes, seed 50004: frozen for seconds, with a wall clock that was set back meanwhile."""
    lease = holder()
    lease.reply(answer(ask(lease, 0)), 5)
    lease.turn(100, WALL + 100)
    assert lease.left_ms(110, WALL + 110) > 0
    assert lease.left_ms(110, WALL - 1e9) == 0
    assert not lease.valid(110, WALL - 1e9)


def test_a_short_freeze_counts_as_time() -> None:
    lease = holder()
    lease.reply(answer(ask(lease, 0)), 5)
    for now in range(100, 1200, 100):
        assert lease.valid(now, WALL + now)
    assert lease.valid(1200, WALL + 1200 + 450)
    assert lease.valid(1500, WALL + 1500 + 450)
    assert not lease.valid(1550, WALL + 1550 + 450)


def test_a_wall_clock_set_back_lengthens_nothing() -> None:
    lease = holder()
    lease.reply(answer(ask(lease, 0)), 5)
    assert lease.valid(1999, WALL + 1999 - 400) and not lease.valid(2000, WALL + 2000 - 400)
    assert lease.reply(answer(ask(lease, 2010, WALL + 1610)), 2015)
    assert not lease.valid(2020, WALL - 1e9)


def test_a_peer_silent_for_four_heartbeats_is_not_heard() -> None:
    lease = holder()
    lease.heard("a", 0)
    lease.heard("c", 500)
    assert lease.hears(1000) == ("a", "c") and lease.hears(1001) == ("c",)


def test_the_leaders_clock_is_taken_at_the_middle_of_the_round_trip() -> None:
    lease = holder()
    lease.reply(answer(ask(lease, 1000), cluster_ms=50_000), 1020)
    assert lease.offset_ms == 50_000 - 1010
