"""A store over each engine equals a plain dict in any order of operations; no callback runs before its batch is
durable.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strogoff.storage.store import Store

from .contract import KINDS, Harness, make_harness

Model = dict[bytes, bytes]

keys = st.binary(max_size=3).map(lambda raw: bytes(b"\x00ab\xff"[byte % 4] for byte in raw))
values = st.binary(max_size=4)
operations = st.one_of(
    st.tuples(st.just("put"), keys, values),
    st.tuples(st.just("put"), keys, values),
    st.tuples(st.just("delete"), keys),
    st.tuples(st.just("get"), keys),
    st.tuples(st.just("scan"), keys, keys, st.integers(0, 4), st.booleans()),
    st.tuples(st.just("keys"), keys, keys, st.integers(0, 4)),
    st.tuples(st.just("flush")),
    st.tuples(st.just("step")),
    st.tuples(st.just("step")),
    st.tuples(st.just("settle")),
)


class Run:
    """A store and its model side by side, and the model's state at the end of each batch."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.store = Store(harness.engine, harness.loop.call_soon, harness.loop.call_later)
        self.model: Model = {}
        self.ends: dict[int, Model] = {0: {}}  # commit -> all that was written up to its end
        self.order: list[int] = []  # of callbacks, by commit
        self.registered = 0

    def watch(self) -> None:
        """Note the state after a write, and check at the callback that the engine has at least this state."""
        commit = self.store.open_commit
        self.ends[commit] = dict(self.model)
        self.registered += 1
        self.store.when_committed(commit, partial(self.durable, commit))

    def durable(self, commit: int) -> None:
        assert self.store.committed >= commit
        assert not self.order or self.order[-1] <= commit
        self.order.append(commit)
        content = self.harness.all()
        possible = [state for number, state in self.ends.items() if number >= commit]
        assert content in possible, "called back before the engine had it"

    def put(self, key: bytes, value: bytes) -> None:
        self.store.put(key, value)
        self.model[key] = value
        self.watch()

    def delete(self, key: bytes) -> None:
        self.store.delete(key)
        self.model.pop(key, None)
        self.watch()

    def get(self, key: bytes) -> None:
        assert self.store.get(key) == self.model.get(key)

    def scan(self, start: bytes, stop: bytes, limit: int, reverse: bool) -> None:
        want = sorted(((k, v) for k, v in self.model.items() if start <= k < stop), reverse=reverse)
        assert self.store.scan(start, stop, limit, reverse) == (want[:limit] if limit else want)

    def keys(self, start: bytes, stop: bytes, limit: int) -> None:
        want = sorted(k for k in self.model if start <= k < stop)
        assert self.store.keys(start, stop, limit) == (want[:limit] if limit else want)

    def flush(self) -> None:
        self.store.flush(lambda: None)

    def step(self) -> None:
        self.harness.loop.turn()

    def settle(self) -> None:
        ended: list[bool] = []
        self.store.flush(lambda: ended.append(True))
        self.harness.loop.run_until(lambda: bool(ended))
        assert self.harness.all() == self.model
        assert self.store.bytes_waiting == 0


def examples(kind: str) -> int:
    return 25 if kind.startswith("leveldb") else 150


@pytest.mark.parametrize("kind", KINDS)
def test_the_content_equals_a_dict(kind: str) -> None:
    @settings(max_examples=examples(kind), deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(script=st.lists(operations, max_size=60), seed=st.integers(0, 99))
    def check(script: list[tuple[Any, ...]], seed: int) -> None:
        with tempfile.TemporaryDirectory() as place:
            harness = make_harness(kind, Path(place) / "db", seed)
            try:
                run = Run(harness)
                for name, *arguments in script:
                    operation: Callable[..., None] = getattr(run, name)
                    operation(*arguments)
                run.settle()
                assert len(run.order) == run.registered, "each called back once"
                if not harness.volatile:
                    run.store.close()
                    harness.open()
                    assert harness.all() == run.model
            finally:
                harness.engine.close()

    check()
