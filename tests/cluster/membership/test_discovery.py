"""Addresses as operators write them, and when a node without a cluster joins or founds one."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.membership.admission import MalformedCall
from strogoff.cluster.membership.discovery import (
    PORT,
    AddressError,
    Found,
    Join,
    Wait,
    WhoAnswer,
    decode_who,
    encode_who,
    expected,
    parse_address,
    plan,
    written,
)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("VerneMQ@10.0.0.1", "10.0.0.1", PORT),
        ("n1@broker.example", "broker.example", PORT),
        ("broker.example", "broker.example", PORT),
        (" 10.0.0.1:7000 ", "10.0.0.1", 7000),
        ("n1@10.0.0.1:7000", "10.0.0.1", 7000),
        ("[::1]:7000", "::1", 7000),
        ("n1@[fe80::1]:7000", "fe80::1", 7000),
        ("[::1]", "::1", PORT),
        ("::1", "::1", PORT),
        ("n1@fe80::2", "fe80::2", PORT),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)
    assert parse_address(written(host, port)) == (host, port)


@pytest.mark.parametrize(
    "text", ["", "n1@", ":7000", "host:0", "host:65536", "host:-1", "host:x", "[::1", "[::1]7000", "[]:1", "host:٣"]
)
def test_an_invalid_address_is_reported(text: str) -> None:
    with pytest.raises(AddressError, match="is expected"):
        parse_address(text)


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_an_error(text: str) -> None:
    try:
        host, port = parse_address(text)
    except AddressError as error:
        assert repr(text) in str(error)
    else:
        assert host
        assert 0 < port < 65536


def test_a_who_answer_is_decoded_and_random_bytes_are_refused() -> None:
    answer = WhoAnswer("n1", "c", True)
    assert decode_who(encode_who(answer)) == answer
    for noise in (b"", b"\x93\x01", b"\xff" * 10):
        with pytest.raises(MalformedCall, match="WhoAnswer of"):
            decode_who(noise)


def seeks(name: str, sees: str = "", holds: bool = False) -> tuple[str, WhoAnswer]:
    return f"{name}:1", WhoAnswer(name, "", False, holds, True, tuple(sees))


def member(name: str, serving: bool = True, knows: bool = False) -> tuple[str, WhoAnswer]:
    return f"{name}:1", WhoAnswer(name, "cluster", serving, knows=knows)


THREE = [seeks("a", "bc"), seeks("b", "ac"), seeks("c", "ab")]


def test_three_that_see_each_other_found_one_cluster() -> None:
    for order in permutations(THREE):
        assert plan("a", order, 3) == Found()
        assert plan("b", order, 3) == plan("c", order, 3) == Wait("a is about to found the cluster")


def test_a_node_that_sees_too_few_founds_nothing() -> None:
    """It may have lost its disk, and the other nodes may be its cluster."""
    for there in ([], [seeks("a")], [seeks("b", "a")]):
        decision = plan("a", there, 3)
        assert isinstance(decision, Wait)
        assert "of the 3 nodes that a new cluster needs answer: a" in decision.reason
        assert decision.advice.endswith("vmq-admin cluster found")


def test_no_cluster_is_founded_before_all_see_each_other() -> None:
    there = [seeks("a", "bc"), seeks("b", "ac"), seeks("c", "a")]
    assert plan("a", there, 3) == Wait("not all of a, b, c see each other yet: c")


def test_a_node_that_is_to_found_alone_does() -> None:
    assert plan("b", [], 1) == plan("b", [seeks("a")], 1) == Found()
    assert plan("b", [seeks("a"), member("c")], 1) == Join("c:1")


def test_a_cluster_is_joined_before_names_are_compared() -> None:
    found = [seeks("a"), member("z"), seeks("c")]
    assert plan("b", found, 3) == plan("a", found, 3) == Join("z:1")


def test_a_node_alone_that_takes_clients_is_joined_whatever_its_name() -> None:
    """The first node has no discovery.nodes: it founds a cluster when a node asks it."""
    assert plan("a", [("z:1", WhoAnswer("z", "", False)), seeks("b")], 2) == Join("z:1")


def test_the_node_with_clients_founds_the_new_cluster() -> None:
    """A node with sessions cannot join another one."""
    found = [seeks("a", "bc"), seeks("b", "ac"), seeks("c", "ab", True)]
    wait = Wait("c is about to found the cluster")
    assert [plan(name, found, 3, name == "c") for name in "abc"] == [wait, wait, Found()]


def test_an_answer_of_an_earlier_version_is_understood() -> None:
    assert decode_who(msgspec.msgpack.encode(["n1", "c", True])) == WhoAnswer("n1", "c", True)


def test_a_cluster_without_a_lease_is_waited_for() -> None:
    found = [seeks("a"), member("z", False)]
    assert plan("b", found, 2) == Wait("z is in a cluster that has no majority now")
    found.append(member("y", False, True))
    assert plan("b", found, 2) == Wait("y is in a cluster that has no majority now, and knows b as a member of it")
    assert plan("b", found, 1) == plan("b", found, 2)


def test_a_node_that_may_be_a_member_joins_a_cluster_but_founds_none() -> None:
    for found in ([], [seeks("b", "a")]):
        assert plan("a", found, 1, doubt="it may be a member") == Wait("it may be a member")
    assert plan("a", [member("y")], 1, doubt="it may be a member") == plan("a", [member("y")], 1)


def test_a_node_does_not_join_itself() -> None:
    assert isinstance(plan("b", [seeks("b")], 2), Wait)
    assert isinstance(plan("b", [("elsewhere:1", WhoAnswer("b", "cluster", True))], 2), Wait)


@pytest.mark.parametrize(
    ("places", "met_itself", "size"),
    [
        (("n1", "n2", "n3"), True, 3),
        (("n2", "n3"), False, 3),
        (("n1", "a@n1:44053"), True, 2),
        (("nodes.svc",), True, 2),
        (("nodes.svc", "[::1"), False, 2),
    ],
)
def test_a_new_cluster_has_all_nodes_that_are_named(places: tuple[str, ...], met_itself: bool, size: int) -> None:
    assert expected(places, met_itself) == size


@given(st.dictionaries(st.sampled_from("abcdef"), st.booleans(), min_size=2))
def test_nodes_that_start_together_found_one_cluster(nodes: dict[str, bool]) -> None:
    found = [seeks(name, "abcdef", holds) for name, holds in nodes.items()]
    plans = [plan(name, found, len(nodes), holds) for name, holds in nodes.items()]
    assert plans.count(Found()) == 1
    assert sum(isinstance(each, Wait) for each in plans) == len(nodes) - 1
