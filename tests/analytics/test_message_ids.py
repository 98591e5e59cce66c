"""The identity of a message as a string."""

from __future__ import annotations

import pytest

from strogoff.analytics.message_ids import mid_key, mid_of
from strogoff.cluster.identity import MARKED


def test_there_and_back() -> None:
    assert mid_key(("n1@10.0.0.1", 3, 17)) == "n1@10.0.0.1/000003/000000000017"
    assert mid_of("n1@10.0.0.1/000003/000000000017") == mid_of("n1@10.0.0.1/3/17") == ("n1@10.0.0.1", 3, 17)
    assert mid_of("a/b/1/2") == ("a/b", 1, 2)


def test_ids_of_messages_that_logs_leave_out_sort_behind_the_others() -> None:
    """Their counters have a digit more."""
    assert mid_key(("n1", 3, 999_999)) < mid_key(("n1", 3, MARKED)) < mid_key(("n1", 3, MARKED + 1))


@pytest.mark.parametrize("text", ["", "n1", "n1/1", "n1/x/1", "n1/1/"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"unpack|invalid literal"):
        mid_of(text)
