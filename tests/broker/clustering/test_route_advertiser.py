"""Advertising the subscriptions of a node, with as few writes as possible."""

from __future__ import annotations

import msgspec
import pytest

from strogoff.broker.clustering.route_advertiser import COUNT_ABOVE, ENDED_STEP, STEP
from strogoff.broker.clustering.routes import parse_route_key

from ...harness.routes import RouteNode


def started(since: int = 1) -> RouteNode:
    node = RouteNode("n1")
    node.enter(since)
    node.run()
    return node


def said(node: RouteNode) -> dict[str, tuple[object, ...]]:
    """Returns space and filter -> value, as in the map."""
    return {
        f"{key[:1].decode()} {parse_route_key(key)[2]}": tuple(msgspec.msgpack.decode(value))
        for key, value in node.map.values.items()
    }


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
    assert said(node) == {"f a/+": (7, True, False), "l a/+": (7, False, True)}
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
    one = node.client("one")
    assert node.subscribe(one, "a") is None
    assert node.advertiser.changed("", "a") is None
    node.connect(one, False)
    node.subscribe(node.client("two", True), "$share/g/b")
    node.connect(node.clients["", "two"], False)
    assert node.advertiser.counter is None
    assert written(node) == 0
    node.enter(4)
    assert written(node) == 0
    assert node.run() == 1
    assert said(node) == {"l $share/g/b": (4, 0, 1, 0)}
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
    assert turns == 4
    assert len(said(node)) == 3000
    assert set(said(node).values()) == {(2, True, False), (2, False, True)}


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
    wanted = [f"f {client.client_id}" for client in clients[1:-1]]
    assert sorted(said(node)) == sorted([*wanted, "f new"])
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
    assert said(node) == {f"l {text}": (5, False, True) for text in ("kept", "new", "half")}
    assert written(node) == 5


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
    live, durable = "f $share/g/a/+", "l $share/g/a/+"
    assert said(node) == {live: (3, 2, 0, 0), durable: (3, 1, 0, 1)}
    node.connect(lasting, False)
    assert said(node) == {live: (3, 2, 0, 0), durable: (3, 0, 1, 0)}
    node.connect(zero, False)
    assert said(node) == {live: (3, 1, 0, 0), durable: (3, 0, 1, 0)}
    node.connect(clean, False)
    assert said(node) == {durable: (3, 0, 1, 0)}
    node.end(lasting)
    assert said(node) == {}
    node.connect(zero, True)
    assert said(node) == {live: (3, 1, 0, 0)}


def test_a_client_id_that_changes_its_kind_changes_the_space() -> None:
    """A clean start ends the durable session; the route of the new one replaces the old route."""
    node = started(2)
    for durable in (True, False, True):
        one = node.client("one", durable)
        node.subscribe(one, "a")
        node.subscribe(one, "$share/g/a")
        space = "l" if durable else "f"
        members = (2, 1, 0, 1) if durable else (2, 1, 0, 0)
        assert said(node) == {f"{space} a": (2, not durable, durable), f"{space} $share/g/a": members}
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
    assert said(node) == {"l kept": (9, False, True)}


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


@pytest.mark.parametrize("told", [True, False])
def test_a_crowd_is_announced_like_single_subscribers(told: bool) -> None:
    """Compares the counts of a filter with many subscribers with the flags computed from scratch."""
    node = started(1)
    clients = [node.client(str(number), number % 3 == 0) for number in range(3 * COUNT_ABOVE)]
    for client in clients:
        for text in ("all", "$share/g/all", "$share/h/all"):
            node.subscribe(client, text)
        if not told:
            node.advertiser.changed("", "all")
    crowd = len(clients)
    durable = crowd // 3
    assert said(node) == {
        "f all": (1, True, False),
        "l all": (1, False, True),
        **{f"f $share/{group}/all": (1, crowd - durable, 0, 0) for group in "gh"},
        **{f"l $share/{group}/all": (1, durable, 0, durable) for group in "gh"},
    }
    assert len(node.advertiser._counted) == 1
    for client in clients:
        node.connect(client, False)
    assert said(node) == {
        "l all": (1, False, True),
        **{f"l $share/{group}/all": (1, 0, durable, 0) for group in "gh"},
    }
    for client in [client for client in clients if client.durable][1:]:
        node.unsubscribe(client, "$share/g/all")
        node.unsubscribe(client, "all")
    assert said(node)["l $share/g/all"] == (1, 0, 1, 0)
    for client in list(node.clients.values()):
        node.end(client)
    assert said(node) == {}
    assert node.advertiser._counted == {}


def test_a_new_subscriber_of_a_crowd_scans_no_other_subscriber() -> None:
    node = started()
    for number in range(2 * COUNT_ABOVE):
        node.subscribe(node.client(str(number)), "all")
    table = node.table("")
    asked: list[str] = []
    holders = table.holders
    table.holders = lambda text: asked.append(text) or holders(text)  # type: ignore[method-assign, func-returns-value]
    for number in range(COUNT_ABOVE):
        node.subscribe(node.client(f"x{number}", True), "all")
    for number in range(COUNT_ABOVE):
        node.unsubscribe(node.client(f"x{number}"), "all")
    assert asked == []
    assert written(node) == 3, "one write for the crowd, two for the durable subscribers"


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
    assert list(said(node)) == [f"f {texts[0]}"]
    node.end(other, settled=False)
    node.advertiser.stop()
    node.run()
    assert said(node) != {}
    node.enter(2)
    node.run()
    assert said(node) == {}
