"""docs/operations.md has every command, field, page and metric, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from yarl import URL

from strogoff.admin.grammar import find, parse
from strogoff.admin.http_api import command_line
from strogoff.admin.http_pages import MODULES
from strogoff.admin.metric_names import COUNTERS, GAUGES, HISTOGRAMS
from strogoff.admin.registry import COMMANDS
from strogoff.admin.session_rows import FIELDS
from tests.system.brokers import Certificates

from .fake_operator_port import FakeOperatorPort
from .server_harness import ServerHarness, run_with_server

DOC = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()


def section(title: str) -> str:
    """Returns the text under a heading, up to the next of the same rank or a higher one."""
    rank = len(title) - len(title.lstrip("#"))
    rest = DOC.split(f"\n{title}\n", 1)[1]
    return re.split(rf"^#{{2,{rank}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def first_cells(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def test_exactly_the_existing_commands_are_documented() -> None:
    assert sorted(first_cells(section("## vmq-admin"))) == sorted(command.name for command in COMMANDS)


def test_every_key_and_flag_of_a_command_is_known() -> None:
    lines = re.findall(r"^\| `([^`]+)` \| (.*) \|$", section("## vmq-admin"), re.MULTILINE)
    wrong = []
    for name, text in lines:
        command, _ = find(COMMANDS, name.split())
        flags = {flag.name for flag in command.flags}
        wrong += [
            f"{name} --{flag}"
            for flag in re.findall(r"--([a-z_-]+)", text.replace("`--with-", ""))
            if flag not in flags
        ]
        for key in command.arguments:
            if f"{key.name}=" not in text:
                wrong.append(f"{name} {key.name}=")
    assert [each for each in wrong if each != "session disconnect --cleanup"] == []


def test_every_field_is_documented() -> None:
    table = section("### Sessions").split("| fields | rows |")[1]
    assert sorted(re.findall(r"`([a-z_]+)`", table.split("\n\n")[0])) == sorted(FIELDS)


def test_the_examples_are_commands() -> None:
    examples = re.findall(r"^    vmq-admin ([a-z].*)$", DOC, re.MULTILINE)
    assert examples
    for example in examples:
        command, rest = find(COMMANDS, example.replace("'", "").split())
        parse(command, rest)


def test_the_examples_of_the_management_api_are_commands() -> None:
    examples = re.findall(r"^    curl -u KEY: '(\S+)'$", DOC, re.MULTILINE)
    assert examples
    for example in examples:
        url = URL(example)
        command, rest = find(COMMANDS, command_line(url.path.removeprefix("/api/v1/"), url.query))
        parse(command, rest)


def test_exactly_the_existing_pages_are_documented(tmp_path: Path) -> None:
    rows = re.findall(r"^\| `(/[^`]*)` \| `(\w+)` \|", section("## HTTP"), re.MULTILINE)
    assert {module for _, module in rows} == set(MODULES)

    async def test(harness: ServerHarness) -> None:
        key = harness.context.api_keys.create("mgmt", None)
        for path, _ in rows:
            assert (await harness.get(path.replace("COMMAND", "cluster/show"), key))[0] == 200

    run_with_server(tmp_path, test, listener__http__default="127.0.0.1:0")


def test_exactly_the_existing_metrics_are_documented() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (counter|gauge|histogram) \| (.*) \|$", section("## Metrics"), re.MULTILINE)
    known = [(name, "counter", text) for name, text in COUNTERS.items()]
    known += [(name, "gauge", text) for name, text in GAUGES.items()]
    known += [(name, "histogram", text) for name, text in HISTOGRAMS.items()]
    assert sorted(rows) == sorted(known)


def test_every_metric_that_is_described_exists(tmp_path: Path) -> None:
    pem = Certificates(tmp_path)
    tls: dict[str, str] = {
        "listener__ssl__default": "127.0.0.1:0",
        "listener__ssl__certfile": str(pem.cert),
        "listener__ssl__keyfile": str(pem.key),
    }

    async def test(harness: ServerHarness) -> None:
        harness.server.node.env.counters.drop("queue_full")
        harness.server.cluster = FakeOperatorPort()  # type: ignore[assignment]
        assert {row.name for row in harness.context.metrics.rows()} == {*COUNTERS, *GAUGES}
        assert harness.context.metrics.histograms().keys() == HISTOGRAMS.keys()
        harness.server.cluster = None

    run_with_server(tmp_path, test, **tls)
