"""Tests of the structure rules: each rule reports a planted offence, and reports nothing in correct source text."""

from __future__ import annotations

import pytest

from .rules import Import, attributes, circles, forgets_errors, imports, sleeps, swallowed

MODULES = frozenset({"strogoff.broker.node", "strogoff.broker.connection", "strogoff.broker.connection.connect"})

SOURCE = """
from __future__ import annotations
from typing import TYPE_CHECKING
import os, socket as network
from . import connect
from .connect import begin
from ..node import Node
if TYPE_CHECKING:
    from strogoff.broker.node import Other
else:
    from ..connection import connect
def later():
    import random
"""


def test_all_imports_are_found_by_the_module_that_they_mean() -> None:
    found = imports(SOURCE, "strogoff.broker.connection", MODULES)
    assert found[2:] == (
        Import("os", 4, False),
        Import("socket", 4, False),
        Import("strogoff.broker.connection.connect", 5, False),
        Import("strogoff.broker.connection.connect", 6, False),
        Import("strogoff.broker.node", 7, False),
        Import("strogoff.broker.node", 9, True),
        Import("strogoff.broker.connection.connect", 11, False),
        Import("random", 13, False),
    )


def test_circles() -> None:
    assert circles({"a": ["b"], "b": ["c", "x"], "c": []}) == []
    assert circles({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"], "e": ["e"]}) == [("a", "b", "c"), ("e",)]
    assert circles({"a": ["b", "c"], "b": ["a"], "c": ["d"], "d": ["c"]}) == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize(
    "line",
    [
        "time.sleep(1)",
        "sleep(1)",
        "sleep(delay=1)",
        "await asyncio.sleep(pause)",
        "sleep(0.0 + x)",
        "Event().wait(1)",
        "threading.Event().wait(timeout=1)",
    ],
)
def test_a_sleep_is_found(line: str) -> None:
    assert sleeps(f"async def test():\n    {line}\n") == [2]


@pytest.mark.parametrize("line", ["await asyncio.sleep(0)", "done.wait(5)", "client.wait()", "asleep(1)"])
def test_a_wait_for_something_is_no_sleep(line: str) -> None:
    assert sleeps(f"async def test():\n    {line}\n") == []


@pytest.mark.parametrize("caught", ["Exception", "BaseException", "(ValueError, Exception)", "builtins.Exception", ""])
@pytest.mark.parametrize("body", ["pass", "...", "return", "return None", "continue", "'for now'"])
def test_a_swallowed_error_is_found(caught: str, body: str) -> None:
    lines = ["for _ in range(1):", "    try:", "        g()", f"    except {caught}:", f"        {body}"]
    source = "\n".join(["def f():", *[f"    {line}" for line in lines]])
    assert swallowed(source) == [5]


def test_a_suppressed_error_is_found() -> None:
    assert swallowed("with contextlib.suppress(OSError, Exception):\n    pass\n") == [1]


@pytest.mark.parametrize(
    "handler", ["except OSError:\n    pass", "except Exception:\n    log()", "except Exception:\n    raise"]
)
def test_an_expected_or_reported_error_is_not_swallowed(handler: str) -> None:
    assert swallowed(f"try:\n    g()\n{handler}\n") == []


def test_attributes_are_counted() -> None:
    source = """
class Some:
    __slots__ = ("a", "b")
    def __init__(self):
        self.a = 1
        self.c, self.d = 2, 3
        other.e = 4
    def later(self):
        self.f: int = 5
        self.a += 1
"""
    assert attributes(source) == {"Some": 5}


def test_a_handler_that_forgets_broken_text_or_deep_arrays_is_found() -> None:
    source = """
try:
    decode()
except msgspec.MsgspecError:
    pass
try:
    decode()
except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
    pass
try:
    decode()
except (OSError, MsgspecError) as error:
    pass
try:
    decode()
except (msgspec.DecodeError, UnicodeDecodeError):
    pass
"""
    assert forgets_errors(source) == [4, 12, 16]
