"""Reasons of refusals: a text for people, with a code for programs in front."""

from __future__ import annotations

import pytest

from strogoff.cluster.links.refusal import RefusalReason, why


@pytest.mark.parametrize("cause", list(RefusalReason))
def test_the_code_of_a_reason_is_read(cause: RefusalReason) -> None:
    said = cause.says("n2 was [there] before")
    assert said == f"[{cause.value}] n2 was [there] before"
    assert why(said) is cause


@pytest.mark.parametrize(
    "reason", ["", "[", "[]", "not taken", "the peer said: [old copy] no", "[something newer] no", "[old copy no"]
)
def test_a_reason_without_a_code_is_text(reason: str) -> None:
    """From a transport, or from a peer of a later version."""
    assert why(reason) is None


def test_each_reason_has_its_own_code() -> None:
    assert len({why(each.says("the same")) for each in RefusalReason}) == len(RefusalReason)
