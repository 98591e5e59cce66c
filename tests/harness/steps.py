"""Steps of long work that a test runs itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strogoff.broker.environment import Environment


class Steps(list[Callable[[], None]]):
    """In place of the `Background` of a node: it only keeps the steps."""

    def __init__(self, env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.after_turn = env.after_turn
        monkeypatch.setattr(env, "background", self)

    def __call__(self, step: Callable[[], None]) -> None:
        self.append(step)
