"""A node speaks for its own messages, the primary of a slot for those of the slot."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.message_origins import MessageOrigins
from strogoff.cluster.identity import slot_of_origin, slot_origin


@pytest.mark.parametrize(("origin", "home"), [("n2", "n2"), ("n1", "n1"), (slot_origin(7), "n1"), (slot_origin(8), "")])
def test_the_home_of_an_origin(origin: str, home: str) -> None:
    origins = MessageOrigins("n1")
    origins.home_of = {7: "n1", 8: ""}.__getitem__
    assert origins.home(origin) == home and origins.is_own(origin) is (home == "n1")


def test_a_node_without_a_cluster_speaks_for_no_slot() -> None:
    origins = MessageOrigins("n1")
    assert origins.is_own("n1") and not origins.is_own(slot_origin(7)) and not origins.is_own("n2")


def test_the_name_of_a_slot_is_no_node() -> None:
    assert slot_of_origin(slot_origin(0)) == 0 and slot_of_origin(slot_origin(255)) == 255
    assert slot_of_origin("VerneMQ@127.0.0.1") == -1
