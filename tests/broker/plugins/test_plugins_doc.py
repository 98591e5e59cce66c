"""docs/plugins.md: its example runs, and its tables agree with the code."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from strogoff.broker.plugins.builtin import BuiltinPlugins
from strogoff.broker.plugins.hook_table import HOOKS, TILL_OK, HookSpec
from strogoff.broker.plugins.hooks import Allow, Hooks, Refuse, Subscriber, load_plugin
from strogoff.configs import load

DOC = (Path(__file__).parents[3] / "docs" / "plugins.md").read_text()
GUEST = Subscriber("", "c1")
PEER = ("127.0.0.1", 4711)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (example,) = re.findall(r"```python\n(.*?)```", DOC, re.DOTALL)
    (tmp_path / "office_plugin.py").write_text(example)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "office_plugin", raising=False)
    return "office_plugin"


def test_the_example(module: str) -> None:
    hour = 9
    plugin: Any = load_plugin(f"{module}:OfficeHours", {"closes": 17, "hour": lambda: hour})

    async def run() -> None:
        nonlocal hour
        tasks: list[asyncio.Task[None]] = []
        hooks = Hooks(spawn=lambda work: tasks.append(asyncio.get_running_loop().create_task(work)))
        hooks.add("office", plugin)
        register = (PEER, GUEST, "guest", None, True)
        assert hooks.ask("auth_on_register", *register) == Allow({"max_inflight_messages": 5, "max_message_size": 1000})
        assert hooks.ask("auth_on_register", PEER, GUEST, "ann", b"x", True) == Refuse("plugin_chain_exhausted")
        hour = 17
        assert hooks.ask("auth_on_register_m5", *register, {}) == Refuse(
            "closed", 0x88, {"reason_string": "come back tomorrow"}
        )
        message = (b"hello", False)
        assert hooks.ask("auth_on_publish", "guest", GUEST, 0, "guests/c1/x", *message) == Allow(cacheable=True)
        assert hooks.ask("auth_on_publish", "guest", GUEST, 0, "guests/c2/x", *message) == Refuse("not_authorized")
        assert hooks.ask("auth_on_subscribe", "guest", GUEST, [("news/#", 2), ("#", 0)]) == Allow(
            {"topics": [("news/#", 0), ("#", 0x80)]}
        )
        hooks.notify("on_register", PEER, GUEST, "guest")
        hooks.notify("on_register_m5", PEER, GUEST, "guest", {})
        await asyncio.gather(*tasks)

    asyncio.run(run())
    assert plugin.guests == 2


def test_the_example_restricts_guests_where_no_file_has_rules(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the lines of vernemq.conf from the page. Without an ACL file `vmq_acl` grants everything."""
    monkeypatch.chdir(tmp_path)
    (lines,) = re.findall(r"```\n(plugins\.python\..*?)```", DOC, re.DOTALL)
    conf = tmp_path / "vernemq.conf"
    conf.write_text(lines.replace("my_package.office", module))
    hooks = Hooks()
    BuiltinPlugins(load(conf), hooks, lambda _level, _text: None)
    message = (b"hello", False)
    assert hooks.ask("auth_on_publish", "guest", GUEST, 0, "guests/c2/x", *message) == Refuse("not_authorized")
    assert isinstance(hooks.ask("auth_on_publish", "guest", GUEST, 0, "guests/c1/x", *message), Allow)
    assert isinstance(hooks.ask("auth_on_publish", "ann", GUEST, 0, "guests/c2/x", *message), Allow)


def row(spec: HookSpec) -> str:
    """Returns the row of the tables for one hook."""
    always = len(spec.arguments) - spec.optional
    arguments = ", ".join(spec.arguments[:always]) + "".join(f" [, {name}]" for name in spec.arguments[always:])
    if spec.style != TILL_OK:
        return f"| `{spec.name}` | {arguments} |"
    return f"| `{spec.name}` | {arguments} | {', '.join(f'`{name}`' for name in spec.modifiers)} |"


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_is_described_as_it_is(name: str) -> None:
    assert row(HOOKS[name]) in DOC.splitlines()


def test_every_argument_is_explained() -> None:
    explained = re.findall(r"^\| ([a-z_, ]+) \|", DOC, re.MULTILINE)
    names = {name for line in explained for name in line.split(", ")}
    assert {name for spec in HOOKS.values() for name in spec.arguments} - names == {"clean_session", "clean_start"}
