"""Targets of a message on other nodes."""

from __future__ import annotations

import pytest

from strogoff.broker.routing.remote import RemoteMembers, RemoteTarget
from strogoff.mqtt.topics import parse_shared


@pytest.mark.parametrize(("group", "text"), [("g", "a/+"), ("g", "#"), ("x", "/a/b")])
def test_the_text_of_a_group_is_the_filter_of_its_clients(group: str, text: str) -> None:
    members = RemoteMembers(group, text, "n2", 1, 0)
    assert parse_shared(members.text) == (group, text)


def test_a_target_is_present_by_default() -> None:
    assert not RemoteTarget("n2", live=True).absent
