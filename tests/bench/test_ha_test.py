"""Which node suffers in which round, and the names of the clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cluster_nodes import Node
from bench.ha_test import FAULTS, ROLES, Plan, name_in
from strogoff.cluster.identity import slot_of


@pytest.mark.parametrize("role", ROLES)
def test_the_node_that_suffers_has_that_role_alone(role: str, tmp_path: Path) -> None:
    primary, follower, third = (Node(tmp_path, name) for name in ("n1", "n2", "n3"))
    plan = Plan(ROLES, FAULTS, (1, 2), seed=5)
    for _ in range(20):
        gateway, sender, victim = plan.places(role, primary, follower, third)
        roles = {"primary": primary, "follower": follower, "gateway": gateway, "sender": sender}
        assert [name for name, node in roles.items() if node is victim] == [role]


def test_each_case_comes_once_before_any_comes_again() -> None:
    plan = Plan(("primary", "sender"), ("kill", "stop"), (1,), seed=3)
    cases = [plan.next_case() for _ in range(8)]
    every = {("primary", "kill"), ("primary", "stop"), ("sender", "kill"), ("sender", "stop")}
    assert set(cases[:4]) == set(cases[4:]) == every


def test_a_seed_gives_the_same_cases() -> None:
    first, second = (Plan(ROLES, FAULTS, (1, 2), seed=9) for _ in range(2))
    assert [first.next_case() for _ in range(32)] == [second.next_case() for _ in range(32)]


def test_a_client_id_is_in_one_of_the_slots() -> None:
    name = name_in({7, 200}, "sub-")
    assert name.startswith("sub-")
    assert slot_of("", name) in {7, 200}
    with pytest.raises(ValueError, match="no slot for sub-"):
        name_in((), "sub-")
