"""docs/testing.md as a test: its code runs unchanged, and its numbers and names are right."""

from __future__ import annotations

import inspect
import re
import time
from pathlib import Path

import pytest

from strogoff.testing import __all__ as public
from strogoff.testing import plugin
from strogoff.testing.cluster import Cluster

from .run_loop import run
from .run_sample import run_sample

pytest_plugins = "pytester"

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.slow
def test_the_code_runs(pytester: pytest.Pytester) -> None:
    """Each block is a file of its own, with all imports that it needs."""
    count = sum(block.count("def test_") for block in BLOCKS)
    result = run_sample(pytester, {f"test_block_{number}": block for number, block in enumerate(BLOCKS)})
    result.assert_outcomes(passed=count)
    assert count == 20


def test_every_fixture_and_option_is_there() -> None:
    """And no other name."""
    fixtures = {name for name in vars(plugin) if name.startswith("mqtt_")}
    assert set(re.findall(r"^\| `(mqtt_\w+)`", PAGE, re.MULTILINE)) == fixtures
    options = {name.replace("_", "-") for name, _ in plugin._OPTIONS}
    assert set(re.findall(r"--(mqtt-[a-z-]+)", PAGE)) == options
    assert {"Cluster", "NotSettled", "LeakError"} <= set(public)


def test_every_type_of_a_fixture_is_there() -> None:
    """A test can import what it annotates: fixtures, and what their factories return."""
    rows = re.findall(r"^\| `(mqtt_\w+)` \| `(\w+)` \|", PAGE, re.MULTILINE)
    returned = {name: inspect.signature(inspect.unwrap(getattr(plugin, name))).return_annotation for name, _ in rows}
    assert {name: annotation.removeprefix("Iterator[").rstrip("]") for name, annotation in returned.items()} == dict(
        rows
    )
    assert {of for _, of in rows} - {"str"} | {"SyncClient", "BridgedClient", "Cluster"} <= set(public)


def test_a_broker_in_memory_is_up_at_once() -> None:
    """About 10 ms in the measurement; the limit is for a busy machine. Best of five, as the first one has imports to
    do.
    """
    took = []

    async def test() -> None:
        for _ in range(5):
            began = time.perf_counter()
            cluster = Cluster()
            await cluster.open()
            took.append(time.perf_counter() - began)
            await cluster.close()

    run(test())
    assert min(took) < 0.05


def test_a_cluster_of_three_is_up_soon() -> None:
    """To open a cluster takes about 240 ms of processor time, most of them for the copies of its slots. The test counts
    this time alone, so other work of the machine does no harm."""
    took = []

    async def test() -> None:
        for _ in range(3):
            began = time.process_time()
            cluster = Cluster(3)
            await cluster.open()
            took.append(time.process_time() - began)
            await cluster.close()

    run(test())
    assert min(took) < 0.6
