"""Addresses as operators write them, and whom a node that is alone joins."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.admission import MalformedCall
from strogoff.cluster.discovery import (
    PORT,
    AddressError,
    WhoAnswer,
    choose,
    decode_who,
    encode_who,
    parse_address,
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
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(AddressError, match="is expected"):
        parse_address(text)


@given(st.text(max_size=30))
def test_no_text_breaks_it(text: str) -> None:
    try:
        host, port = parse_address(text)
    except AddressError as error:
        assert repr(text) in str(error)
    else:
        assert host
        assert 0 < port < 65536


def test_who_arrives_as_it_was_and_noise_does_not() -> None:
    answer = WhoAnswer("n1", "c", True)
    assert decode_who(encode_who(answer)) == answer
    for noise in (b"", b"\x93\x01", b"\xff" * 10):
        with pytest.raises(MalformedCall, match="WhoAnswer of"):
            decode_who(noise)


def alone(name: str, holds: bool = False) -> tuple[str, WhoAnswer]:
    return f"{name}:1", WhoAnswer(name, "", False, holds)


def test_all_alone_the_lowest_name_waits_and_the_others_go_there() -> None:
    found = [alone("c"), alone("a"), alone("b")]
    for order in permutations(found):
        assert choose("a", order) is None
        assert choose("b", order) == "a:1"
        assert choose("c", order) == "a:1"


def test_whoever_is_in_a_cluster_counts_more_than_names() -> None:
    found = [alone("a"), ("z:1", WhoAnswer("z", "cluster", True)), alone("c")]
    assert choose("b", found) == "z:1"
    assert choose("a", found) == "z:1"


def test_who_has_clients_already_is_the_first_of_a_new_cluster() -> None:
    """Who has sessions cannot join anybody."""
    found = [alone("a"), alone("b"), alone("c", True)]
    assert [choose(name, found, name == "c") for name in "abc"] == ["c:1", "c:1", None]
    found = [alone("a"), alone("b", True), alone("c", True)]
    assert [choose(name, found, name != "a") for name in "abc"] == ["b:1", None, "b:1"]


def test_an_answer_of_an_earlier_version_is_understood() -> None:
    assert decode_who(msgspec.msgpack.encode(["n1", "c", True])) == WhoAnswer("n1", "c", True)


def test_a_cluster_without_a_lease_is_waited_for() -> None:
    found = [alone("a"), ("z:1", WhoAnswer("z", "cluster", False))]
    assert choose("b", found) is None


def test_nobody_and_myself_are_nobody_to_join() -> None:
    assert choose("a", []) is None
    assert choose("b", [alone("b")]) is None
    assert choose("b", [("elsewhere:1", WhoAnswer("b", "cluster", True))]) is None


@given(st.dictionaries(st.sampled_from("abcdef"), st.booleans(), min_size=2))
def test_nodes_that_start_together_found_one_cluster(nodes: dict[str, bool]) -> None:
    """Whoever sees whom: all go to the same one, which waits."""
    found = [alone(name, holds) for name, holds in nodes.items()]
    wanted = {name: choose(name, found, holds) for name, holds in nodes.items()}
    (first,) = (name for name, address in wanted.items() if address is None)
    assert {address for name, address in wanted.items() if name != first} == {f"{first}:1"}
