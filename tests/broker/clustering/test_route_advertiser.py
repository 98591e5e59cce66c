"""Advertising the subscriptions of a node, with as few writes as possible."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from strogoff.broker.clustering.route_advertiser import COUNT_ABOVE, ENDED_STEP, STEP
from strogoff.broker.clustering.routes import RouteKey, encode_value, parse_route_key, prefix_to_slot
from strogoff.broker.routing.subscriptions import Subscription
from strogoff.mqtt.topics import parse_shared

from ...harness.routes import SLOTS_EACH, Client, RouteNode, slots_of


def started(since: int = 1) -> RouteNode:
    node = RouteNode("n1")
    node.enter(since)
    node.run()
    return node


def said(node: RouteNode) -> dict[str, tuple[object, ...]]:
    """Returns place and filter -> value, as in the map."""
    return {_text(parse_route_key(key)): tuple(msgspec.msgpack.decode(value)) for key, value in node.map.values.items()}


def _text(key: RouteKey) -> str:
    return f"{key.place} {key.filter}" if key.group is None else f"{key.place} $share/{key.group}/{key.filter}"


def at(client: Client, text: str) -> str:
    """Returns the name that `said` gives to the route to the slot of this client, for this filter."""
    return f"{client.key[0]} {text}"


def written(node: RouteNode) -> int:
    """Returns the number of writes since the last call."""
    count = len(node.map.writes)
    node.map.writes.clear()
    return count


def test_only_the_first_and_last_subscriber_of_a_kind_are_written() -> None:
    node = started(7)
    clean, other, durable = node.client("clean"), node.client("other"), node.client("durable", True)
    counts = []
    for client in (clean, other, durable):
        node.subscribe(client, "a/+")
        counts.append(written(node))
    assert said(node) == {"n1 a/+": (7,), at(durable, "a/+"): (7, "n1")}
    for client in (clean, other, durable):
        node.unsubscribe(client, "a/+")
        counts.append(written(node))
    assert counts == [1, 0, 1, 0, 1, 1]
    assert said(node) == {}


def test_subscribing_again_writes_nothing() -> None:
    node = started()
    client = node.client("one")
    node.subscribe(client, "a", 0)
    node.subscribe(client, "a", 2)
    assert written(node) == 1


def test_suback_waits_for_the_write_of_its_route() -> None:
    """Also if another client's subscription to the filter was announced a moment ago."""
    node = started()
    assert node.advertiser.counter is None
    first = node.subscribe(node.client("one"), "a")
    again = node.subscribe(node.client("two"), "a")
    other = node.subscribe(node.client("two"), "b")
    assert (first, again, other) == (1, 1, 2)
    assert node.subscribe(node.client("three"), "a") == 2
    assert node.advertiser.counter == 2


def test_a_node_alone_writes_nothing() -> None:
    node = RouteNode("n1")
    one, two = node.client("one"), node.client("two", True)
    assert node.subscribe(one, "a") is None
    node.connect(one, False)
    node.subscribe(two, "$share/g/b")
    node.connect(two, False)
    assert node.advertiser.counter is None
    assert written(node) == 0
    node.enter(4)
    assert written(node) == 0
    assert node.run() == 2
    assert said(node) == {at(two, "$share/g/b"): (4, "n1", 0, 1, 0)}
    assert node.announced == [1]


def test_routes_are_announced_in_steps() -> None:
    node = RouteNode("n1")
    for number in range(30):
        client = node.client(str(number), number % 2 > 0)
        for text in range(100):
            node.subscribe(client, f"{number}/{text}")
    node.enter(2)
    turns = 0
    while node.later:
        node.later.pop(0)()
        turns += 1
        assert written(node) <= STEP
    assert turns == 4 + 2, "one more walk over the durable routes"
    assert len(said(node)) == 3000
    assert set(said(node).values()) == {(2,), (2, "n1")}


def test_changes_during_the_announcement() -> None:
    """New routes are written at once; routes that are gone by then are not announced."""
    node = RouteNode("n1")
    clients = [node.client(str(number)) for number in range(2 * STEP)]
    for client in clients:
        node.subscribe(client, client.client_id)
    node.enter(2)
    node.later.pop(0)()
    counter = node.subscribe(node.client("new"), "new")
    assert counter == STEP + 1
    for client in (clients[0], clients[-1]):
        node.connect(client, False)
    node.run()
    wanted = [f"n1 {client.client_id}" for client in clients[1:-1]]
    assert sorted(said(node)) == sorted([*wanted, "n1 new"])
    assert node.announced == [len(node.map.writes)]


def test_routes_removed_out_of_the_view_are_deleted_on_entry() -> None:
    node = started(1)
    one, two = node.client("one", True), node.client("two", True)
    for text in ("kept", "gone", "$share/g/gone", "half"):
        node.subscribe(one, text)
    node.subscribe(two, "half")
    node.advertiser.stop()
    assert written(node) == 5 - 1
    for text in ("gone", "$share/g/gone", "half"):
        node.unsubscribe(one, text)
    node.subscribe(one, "new")
    node.subscribe(one, "short")
    node.unsubscribe(one, "short")
    assert written(node) == 0
    node.enter(5)
    node.run()
    wanted = {at(one, "kept"), at(one, "new"), at(two, "half")}
    assert said(node) == dict.fromkeys(wanted, (5, "n1"))
    assert written(node) == 3 + 2


def test_an_announcement_can_be_stopped_and_started_again() -> None:
    node = RouteNode("n1")
    for number in range(2 * STEP):
        node.subscribe(node.client(str(number)), str(number))
    node.enter(2)
    node.later.pop(0)()
    node.advertiser.stop()
    node.run()
    assert written(node) == STEP
    assert node.announced == []
    node.enter(5)
    node.enter(6)
    node.run()
    assert {value[0] for value in said(node).values()} == {6}
    assert len(node.announced) == 1


def test_members_of_a_group_are_counted() -> None:
    """Counts: online members, offline members that hold messages, and online members that would hold them. One route
    has the members that never hold, the other the rest.
    """
    node = started(3)
    clean, lasting, zero = node.client("clean"), node.client("lasting", True), node.client("zero", True)
    for client, qos in ((clean, 1), (lasting, 1), (zero, 0)):
        node.subscribe(client, "$share/g/a/+", qos)
    live, durable = "n1 $share/g/a/+", at(lasting, "$share/g/a/+")
    assert said(node) == {live: (3, 2), durable: (3, "n1", 1, 0, 1)}
    node.connect(lasting, False)
    assert said(node) == {live: (3, 2), durable: (3, "n1", 0, 1, 0)}
    node.connect(zero, False)
    assert said(node) == {live: (3, 1), durable: (3, "n1", 0, 1, 0)}
    node.connect(clean, False)
    assert said(node) == {durable: (3, "n1", 0, 1, 0)}
    node.end(lasting)
    assert said(node) == {}
    node.connect(zero, True)
    assert said(node) == {live: (3, 1)}


def test_a_client_id_that_changes_its_kind_changes_the_space() -> None:
    """A clean start ends the durable session; the route of the new one replaces the old route."""
    node = started(2)
    for durable in (True, False, True):
        one = node.client("one", durable)
        node.subscribe(one, "a")
        node.subscribe(one, "$share/g/a")
        if durable:
            assert said(node) == {at(one, "a"): (2, "n1"), at(one, "$share/g/a"): (2, "n1", 1, 0, 1)}
        else:
            assert said(node) == {"n1 a": (2,), "n1 $share/g/a": (2, 1)}
        node.end(one)
    assert said(node) == {}


def test_routes_of_an_earlier_process_are_announced_again_or_deleted() -> None:
    """The map has the routes from the disk, with the view of the earlier process."""
    former = started(2)
    one = former.client("one", True)
    for text in ("kept", "gone", "$share/g/gone"):
        former.subscribe(one, text)
    node = RouteNode("n1")
    node.map.values.update(former.map.values)
    two = node.client("one", True)
    for text in ("kept", "gone", "$share/g/gone"):
        node.subscribe(two, text)
    for text in ("gone", "$share/g/gone"):
        node.unsubscribe(two, text)
    node.enter(9)
    node.run()
    assert said(node) == {at(two, "kept"): (9, "n1")}


def test_a_node_that_may_not_be_primary_any_more_removes_no_route_to_its_slots() -> None:
    """The route may be of its successor."""
    node = started(3)
    mine = node.client("mine", True)
    node.subscribe(mine, "mine")
    key = prefix_to_slot("", mine.key[0]) + b"late"
    node.map.values[key] = encode_value((1, "n2"))
    node.sure = False
    node.advertiser.check(key)
    node.unsubscribe(mine, "mine")
    node.run()
    assert set(said(node)) == {at(mine, "late"), at(mine, "mine")}
    node.advertiser.try_again()
    node.run()
    assert set(said(node)) == {at(mine, "late"), at(mine, "mine")}
    node.sure = True
    node.advertiser.try_again()
    node.run()
    assert said(node) == {}


def test_routes_of_an_earlier_primary_are_removed() -> None:
    """At the start, when a slot arrives, and when such a route arrives late. Routes to other slots stay."""
    other = RouteNode("n2")
    node = RouteNode("n1")
    mine = node.client("mine", True)
    slot = mine.key[0]
    node.subscribe(mine, "kept")
    foreign = encode_value((1, "n2"))
    theirs = prefix_to_slot("", slots_of(other.name)[0]) + b"gone"
    for text in ("kept", "gone", "$share/g/gone", "$share/g/kept"):
        node.map.values[prefix_to_slot("", slot) + text.encode()] = foreign
    node.map.values[theirs] = foreign
    node.enter(3)
    node.run()
    left = {at(mine, "kept"): (3, "n1"), f"{slots_of('n2')[0]} gone": (1, "n2")}
    assert said(node) == left
    node.map.values[prefix_to_slot("", slot) + b"late"] = foreign
    node.advertiser.arrived([slot + 1])
    node.run()
    assert len(said(node)) == 3
    node.advertiser.arrived([slot])
    node.run()
    assert said(node) == left
    for key in (prefix_to_slot("", slot) + b"late", theirs):
        node.map.values[key] = foreign
        node.advertiser.check(key)
    node.run()
    assert said(node) == left


def test_the_primary_writes_a_route_again_that_a_former_one_has_written() -> None:
    """3 nodes, copies, seed 2300009: the former primary was cut off, and its write has replaced that of this node."""
    node = started(3)
    mine = node.client("mine", True)
    for text in ("a", "$share/g/a"):
        node.subscribe(mine, text)
    node.run()
    before = said(node)
    foreign = {"a": encode_value((1, "n2")), "$share/g/a": encode_value((1, "n2", 0, 1, 0))}
    node.sure = False
    for text, value in foreign.items():
        key = prefix_to_slot("", mine.key[0]) + text.encode()
        node.map.values[key] = value
        node.advertiser.check(key)
    node.run()
    assert {said(node)[at(mine, text)][1] for text in foreign} == {"n2"}, "another node may be the primary"
    node.sure = True
    node.advertiser.try_again()
    node.run()
    assert said(node) == before


def test_a_durable_route_stays_until_the_disk_has_the_end_of_the_subscription() -> None:
    """After a crash the session would have the subscription again."""
    node = started()
    node.unsafe = []
    clean, one, two = node.client("clean"), node.client("one", True), node.client("two", True)
    for client in (clean, one, two):
        node.subscribe(client, "a")
    node.unsubscribe(clean, "a")
    node.unsubscribe(one, "a")
    node.run()
    assert set(said(node)) == {at(one, "a"), at(two, "a")}
    node.unsubscribe(two, "a")  # in a later batch
    first = node.unsafe.pop()
    first()
    assert set(said(node)) == {at(two, "a")}
    node.run()
    assert len(node.unsafe) == 1
    node.subscribe(two, "a")
    node.unsubscribe(two, "a")
    node.unsafe.pop()()
    assert set(said(node)) == {at(two, "a")}, "removed again since"
    node.run()
    node.unsafe.pop()()
    assert said(node) == {}


def test_the_end_of_a_clean_session_waits_for_no_disk() -> None:
    node = started()
    node.unsafe = []
    clean = node.client("clean")
    node.subscribe(clean, "a")
    node.end(clean)
    node.run()
    assert said(node) == {} and node.unsafe == []


def test_a_disconnect_changes_only_routes_of_shared_subscriptions() -> None:
    node = started()
    one = node.client("one", True)
    node.subscribe(one, "a")
    node.subscribe(one, "$share/g/b")
    written(node)
    node.connect(one, False)
    assert written(node) == 1
    node.connect(one, False)
    assert written(node) == 0


def test_a_crowd_is_announced_like_single_subscribers() -> None:
    """Compares the counts of a filter with many subscribers with the flags computed from scratch."""
    node = started(1)
    clients = [node.client(str(number), number % 4 == 0) for number in range(4 * COUNT_ABOVE)]
    for client in clients:
        for text in ("all", "$share/g/all", "$share/h/all"):
            node.subscribe(client, text)
    crowd = len(clients)
    durable = crowd // 4
    slots = Counter(client.key[0] for client in clients if client.durable)
    assert len(slots) == SLOTS_EACH
    assert said(node) == {
        "n1 all": (1,),
        **{f"{slot} all": (1, "n1") for slot in slots},
        **{f"n1 $share/{group}/all": (1, crowd - durable) for group in "gh"},
        **{f"{slot} $share/{group}/all": (1, "n1", n, 0, n) for group in "gh" for slot, n in slots.items()},
    }
    assert len(node.advertiser._counted) == 1
    for client in clients:
        node.connect(client, False)
    assert said(node) == {
        **{f"{slot} all": (1, "n1") for slot in slots},
        **{f"{slot} $share/{group}/all": (1, "n1", 0, n, 0) for group in "gh" for slot, n in slots.items()},
    }
    last, *others = [client for client in clients if client.durable]
    for client in others:
        node.unsubscribe(client, "$share/g/all")
        node.unsubscribe(client, "all")
    assert said(node)[at(last, "$share/g/all")] == (1, "n1", 0, 1, 0)
    assert [place for place in said(node) if place.endswith(" all")] == [at(last, "all")]
    for client in list(node.clients.values()):
        node.end(client)
    assert said(node) == {}
    assert node.advertiser._counted == {}


@pytest.mark.parametrize("text", ["all", "$share/g/all"])
def test_a_clean_client_counts_beside_a_row_of_its_former_session(text: str) -> None:
    """The row is of a slot of another node, of which this node has a copy (3 nodes, `--variant copies,small,moves`,
    seed 880182)."""
    node = started()
    group, pattern = parse_shared(text)
    row = Client("", "back", True, slots_of("n2")[0])
    node.table("").add(Subscription(row, pattern, group, 1, False, False, 0, 0))
    for number in range(2 * COUNT_ABOVE):
        node.subscribe(node.client(str(number)), text)
    counted = node.advertiser._counted["", pattern]
    size = counted.size
    client = node.clients["", "back"] = Client("", "back", False, row.key[0])
    node.subscribe(client, text)
    assert counted.size == size + 1 and counted.has(group, row.key[0])
    node.end(client)
    assert counted.size == size and counted.has(group, row.key[0])
    written(node)
    for number in range(2 * COUNT_ABOVE):
        node.end(node.client(str(number)))
    assert said(node) == {}


def test_a_new_subscriber_of_a_crowd_scans_no_other_subscriber() -> None:
    node = started()
    for number in range(2 * COUNT_ABOVE):
        node.subscribe(node.client(str(number)), "all")
    table = node.table("")
    asked: list[str] = []
    items = table.items
    table.items = lambda text: asked.append(text) or items(text)  # type: ignore[method-assign, func-returns-value]
    for number in range(COUNT_ABOVE):
        node.subscribe(node.client(f"x{number}", True), "all")
    for number in range(COUNT_ABOVE):
        node.unsubscribe(node.client(f"x{number}"), "all")
    assert asked == []
    assert written(node) == 1 + 2 * SLOTS_EACH, "one write for the crowd, two for each slot"


def test_routes_of_an_ended_session_are_deleted_in_steps() -> None:
    """No client waits for it. A client that subscribes to a filter meanwhile keeps the route. After a stop the next
    start finishes it.
    """
    node = started()
    client, other = node.client("many"), node.client("other")
    texts = [f"t/{number}" for number in range(3 * ENDED_STEP)]
    for text in texts:
        node.subscribe(client, text)
    written(node)
    node.end(client, settled=False)
    assert written(node) == 0
    node.subscribe(other, texts[0])
    steps = []
    while node.later:
        for _ in range(len(node.later)):
            node.later.pop(0)()
        steps.append(written(node))
    assert max(steps) <= ENDED_STEP and sum(steps) == len(texts) - 1
    assert list(said(node)) == [f"n1 {texts[0]}"]
    node.end(other, settled=False)
    node.advertiser.stop()
    node.run()
    assert said(node) != {}
    node.enter(2)
    node.run()
    assert said(node) == {}
