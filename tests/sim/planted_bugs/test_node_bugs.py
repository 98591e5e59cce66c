"""Each planted bug is found within its number of seeds."""

from __future__ import annotations

import pytest

from strogoff.sim.planted_bugs.node_bugs import NODE_BUGS
from strogoff.sim.runner import RunOptions, run_seed

KINDS = {
    "ack-before-commit": ("early ack", "lost"),
    "answers-before-commit": ("early ack", "lost", "amnesia"),
    "sync-without-fsync": ("lost", "amnesia", "duplicate"),
    "ids-from-one": ("packet id", "duplicate", "not at rest", "lost"),
    "newest-first": ("reordered",),
    "old-connection-kept": ("two owners",),
    "window-ignored": ("wrong",),
    "wall-clock": ("expired early", "expired late", "amnesia", "will early", "will late"),
    "session-expiry-restarts": ("overdue", "zombie"),
    "message-expiry-restarts": ("expired late",),
    "unsent-counts-as-sent": ("expired late",),
    "will-twice": ("will twice",),
}
"""Bug -> a kind that must be among its violations, for bugs with one plain symptom."""

LONG = ("unsent-counts-as-sent", "will-after-disconnect")
"""Some of the 100 seeds at most are needed, and they take seconds."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if bug.seeds >= 200 or name in LONG else [])
        for name, bug in NODE_BUGS.items()
    ],
)
def test_found(name: str) -> None:
    bug = NODE_BUGS[name]
    for seed in range(bug.seeds):
        violations = run_seed(seed, RunOptions(bug=name)).violations
        if violations:
            kinds = {text.split(":")[0] for text in violations}
            assert "crash" not in kinds, violations
            assert not KINDS.get(name) or kinds & set(KINDS[name]), violations
            return
    pytest.fail(f"{name} was not found within {bug.seeds} seeds")
