"""Messages of joining and leaving nodes, and which boots of a member are accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strogoff.cluster.links.hello import PeerInfo
from strogoff.cluster.links.refusal import RefusalReason, why
from strogoff.cluster.membership.admission import (
    CallAnswer,
    JoinRequest,
    LeaveRequest,
    MalformedCall,
    decode_answer,
    decode_join,
    decode_leave,
    encode_call,
    member_mismatch,
)
from strogoff.cluster.membership.state_machine import MemberRow

DECODERS: list[Callable[[bytes], Any]] = [decode_join, decode_leave, decode_answer]
NAMES = st.text(min_size=1, max_size=20)


@given(node=NAMES, disk=NAMES, boot=st.integers(0, 1 << 30), versions=st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_a_join_arrives_as_it_was(node: str, disk: str, boot: int, versions: tuple[int, int]) -> None:
    request = JoinRequest(node, disk, boot, "process", "host:1", versions)
    assert decode_join(encode_call(request)) == request


@given(node=NAMES, accept_loss=st.booleans())
def test_a_leave_arrives_as_it_was(node: str, accept_loss: bool) -> None:
    assert decode_leave(encode_call(LeaveRequest(node, accept_loss))) == LeaveRequest(node, accept_loss)


def test_an_answer_arrives_as_it_was() -> None:
    answer = CallAnswer("no", "n1:1", "c", (("n1", "n1:1"), ("n2", "[::1]:2")), 7)
    assert decode_answer(encode_call(answer)) == answer


@pytest.mark.parametrize("decode", DECODERS)
@given(data=st.binary(max_size=40))
def test_malformed_bytes_raise_one_error_with_the_reason(decode: Callable[[bytes], Any], data: bytes) -> None:
    try:
        decode(data)
    except MalformedCall as error:
        assert f"of {len(data)} bytes" in str(error)


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        (["", "d", 1, "p", "a", [1, 1]], "$[0]"),
        (["n", "d", "one", "p", "a", [1, 1]], "$[2]"),
        (["n", "d", 1, "p", "a", [1]], "$[5]"),
        (["n", "d"], "length"),
    ],
)
def test_a_wrong_field_is_named(fields: list[Any], where: str) -> None:
    with pytest.raises(MalformedCall, match=r"JoinRequest of \d+ bytes") as caught:
        decode_join(msgspec.msgpack.encode(fields))
    assert where in str(caught.value)


def test_a_later_version_may_add_fields_at_the_end() -> None:
    assert decode_leave(msgspec.msgpack.encode(["n", True, False, "more"])) == LeaveRequest("n", True)


ROW = MemberRow("n2", "disk", 5, "process", "n2:1", 3)


@pytest.mark.parametrize(
    ("disk", "boot", "process", "welcome"),
    [
        ("disk", 5, "process", True),
        ("disk", 6, "another", True),  # a boot that the log does not have yet
        ("disk", 4, "process", False),
        ("disk", 4, "another", False),
        ("disk", 5, "another", False),  # a copy of the disk with the same boot number
        ("new", 5, "process", False),
        ("new", 6, "another", False),
    ],
)
def test_accepted_boots_of_a_member(disk: str, boot: int, process: str, welcome: bool) -> None:
    said = member_mismatch(ROW, PeerInfo("n2", boot, disk, process, "c", "n2:1"))
    assert (said is None) is welcome
    if said is not None:
        assert "n2" in said


def test_the_old_disk_of_a_stale_member_is_refused() -> None:
    stale = msgspec.structs.replace(ROW, stale=True)
    for boot, process in ((5, "process"), (6, "another")):
        said = member_mismatch(stale, PeerInfo("n2", boot, "disk", process, "c", "n2:1"))
        assert said is not None and why(said) is RefusalReason.STALE
    said = member_mismatch(stale, PeerInfo("n2", 6, "new", "another", "c", "n2:1"))
    assert said is not None and why(said) is RefusalReason.NOT_YET


@pytest.mark.parametrize(("boot", "cause"), [(4, RefusalReason.TAKEN_OUT), (6, RefusalReason.NOT_YET)])
def test_a_disk_that_was_given_up_is_refused_for_good(boot: int, cause: RefusalReason) -> None:
    """The number of starts of the new disk is above all starts of the old one. A newer one may have joined since."""
    said = member_mismatch(ROW, PeerInfo("n2", boot, "other", "process", "c", "n2:1"))
    assert said is not None and why(said) is cause
