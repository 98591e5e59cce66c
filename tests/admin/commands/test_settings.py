"""`show`, `describe`, `set` and `config`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from strogoff.analytics.schema import validate
from strogoff.broker.options import PROMISES_DEPEND_ON
from strogoff.testing.log_audit.log_files import read_log

from ..fake_operator_port import THIS_NODE, FakeOperatorPort
from ..server_harness import ServerHarness, run_with_server, running_server


def test_show_and_set(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        assert (await harness.good("set", "max_inflight_messages=3", "retry_interval=7")).out == (
            "max_inflight_messages = 3\nretry_interval = 7\n"
        )
        assert (await harness.good("show", "max_inflight_messages", "allow_anonymous", "listener.tcp.default")).out == (
            "+-----------------+---------------------+---------------+--------------------+\n"
            "|      node       |max_inflight_messages|allow_anonymous|listener.tcp.default|\n"
            "+-----------------+---------------------+---------------+--------------------+\n"
            "|VerneMQ@127.0.0.1|          3          |      on       |    127.0.0.1:0     |\n"
            "+-----------------+---------------------+---------------+--------------------+\n"
        )
        assert harness.server.node.options.max_inflight_messages == 3
        assert "notice vmq-admin: retry_interval = 7, until `config reset`" in harness.lines

    run_with_server(tmp_path, test)


def test_an_age_in_months_has_a_warning(tmp_path: Path) -> None:
    """As `config check` warns of it."""

    async def test(harness: ServerHarness) -> None:
        said = (await harness.good("set", "persistent_client_expiration=30m", "retry_interval=7")).out
        assert "persistent_client_expiration = 30m\nretry_interval = 7\n" in said
        assert "m is a month of 4 weeks, so this is 840 days; minutes have to be written as seconds" in said

    run_with_server(tmp_path, test)


def test_the_event_log_begins_with_the_settings_that_promises_depend_on(tmp_path: Path) -> None:
    """Also with those that were set while the node ran before."""

    async def set_one(harness: ServerHarness) -> None:
        await harness.good("set", "max_offline_messages=7")

    async def nothing(harness: ServerHarness) -> None:
        pass

    run_with_server(tmp_path, set_one, eventlog__level="session")
    run_with_server(tmp_path, nothing, eventlog__level="session")
    rows, _ = read_log(tmp_path)
    row = next(row for row in rows if row["boot"] == 2)
    assert row["type"] == "node.start" and validate(row) == []
    assert [text.partition("=")[0] for text in row["settings"]] == list(PROMISES_DEPEND_ON)
    assert {"max_offline_messages=7", "queue_replicas=2", "allow_publish_during_netsplit=off"} <= {*row["settings"]}


def test_a_change_is_in_the_event_log(tmp_path: Path) -> None:
    """With the values before and after it; a command that sets the same value again is no change."""

    async def test(harness: ServerHarness) -> None:
        rows: list[dict[str, Any]] = []
        harness.server.node.env.events.add(rows.append)
        await harness.good("set", "max_inflight_messages=3")
        await harness.good("set", "max_inflight_messages=3")
        await harness.good("config", "reset", "--key=max_inflight_messages")
        found = [row for row in rows if row["type"] == "config.change"]
        assert [(row["key"], row["old"], row["new"]) for row in found] == [
            ("max_inflight_messages", "20", "3"),
            ("max_inflight_messages", "3", "20"),
        ]
        assert all(validate(row) == [] for row in found)

    run_with_server(tmp_path, test)


class ChangesHeard:
    """A plugin that hears of changed settings."""

    def __init__(self) -> None:
        self.heard: list[dict[str, str | None]] = []

    def change_config(self, changed: dict[str, str | None]) -> None:
        self.heard.append(changed)


def test_a_plugin_hears_of_a_change(tmp_path: Path) -> None:
    plugin = ChangesHeard()

    async def test(harness: ServerHarness) -> None:
        harness.server.hooks.add("changes", plugin)
        await harness.good("set", "max_inflight_messages=3")
        await harness.good("config", "reset", "--key=max_inflight_messages")
        assert plugin.heard == [{"max_inflight_messages": "3"}, {"max_inflight_messages": "20"}]

    run_with_server(tmp_path, test)


def test_level_and_filters_of_the_event_log_change_while_the_node_runs(tmp_path: Path) -> None:
    """They decide about messages that come from then on, and are in force at the next start, too."""

    async def change(harness: ServerHarness) -> None:
        client = await harness.client("c")
        await client.publish("a/0", b"x")
        await harness.good("set", "eventlog.level=message", "eventlog.topics=a/+, b")
        for topic in ("a/1", "no"):
            await client.publish(topic, b"x")
        await harness.good("set", "eventlog.topics=", "eventlog.clients=other")
        await client.publish("a/2", b"x")
        await harness.good("set", "eventlog.clients=other,c")
        await client.publish("t/1", b"x")
        await harness.good("set", "eventlog.level=session")
        await client.publish("t/2", b"x")
        await harness.good("set", "eventlog.level=message")
        assert (await harness.good("show", "eventlog.level", "eventlog.clients", "eventlog.topics")).out.count("c") > 0

    async def after_a_start(harness: ServerHarness) -> None:
        for name in ("c", "d"):
            await (await harness.client(name)).publish(f"{name}/3", b"x")
        await harness.good("config", "reset", "--key=eventlog.clients")
        await (await harness.client("d")).publish("d/4", b"x")

    run_with_server(tmp_path, change, eventlog__level="session")
    run_with_server(tmp_path, after_a_start, eventlog__level="session")
    rows, _ = read_log(tmp_path)
    rows.sort(key=lambda row: (row["boot"], row["seq"]))
    assert [row["topic"] for row in rows if row["type"] == "pub.recv"] == ["a/1", "t/1", "c/3", "d/4"]
    first, second = (row for row in rows if row["type"] == "node.start")
    assert (first["level"], second["level"]) == ("session", "message")
    assert "eventlog.clients=other,c" in second["settings"]
    assert [row["left_out"] for row in rows if row["type"] == "node.stats"] == [3, 1]


@pytest.mark.parametrize(("level", "text"), [("off", "message"), ("off", "session"), ("session", "off")])
def test_the_event_log_cannot_begin_or_end_while_the_node_runs(tmp_path: Path, level: str, text: str) -> None:
    async def test(harness: ServerHarness) -> None:
        answer = await harness.admin("set", f"eventlog.level={text}")
        assert answer.status == 1 and "a log begins and ends with its process" in answer.err

    run_with_server(tmp_path, test, eventlog__level=level)


def test_a_change_counts_for_the_next_client(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        await harness.good("set", "max_client_id_size=3")
        with pytest.raises(AssertionError, match="reason=2"):
            await harness.client("four")
        await harness.client("two")

    run_with_server(tmp_path, test)


def test_wrong_changes_change_nothing(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        answer = await harness.admin("set", "max_inflight_messages=3", "retry_interval=soon")
        assert (answer.status, answer.out) == (1, "")
        assert answer.err == (
            "retry_interval: expected an integer, 1 or more (seconds), found 'soon'. Nothing was changed.\n"
        )
        assert harness.server.node.options.max_inflight_messages == 20
        assert (await harness.admin("set", "x")).err == "x: KEY=VALUE is expected.\n"
        assert "cannot be changed at run time" in (await harness.admin("set", "nodename=a@b")).err
        answer = await harness.admin("show", "max_inflight_mesages")
        assert answer.err == "max_inflight_mesages: unknown key. Did you mean max_inflight_messages?\n"

    run_with_server(tmp_path, test)


async def _over_a_restart(tmp_path: Path) -> None:
    async with running_server(tmp_path) as harness:
        await harness.good("set", "max_inflight_messages=3")
    async with running_server(tmp_path) as harness:
        assert harness.server.node.options.max_inflight_messages == 3
        assert (await harness.good("config", "show", "-k", "max_inflight_messages")).out == (
            "+---------------------+---+----+---------+\n"
            "|       Config        |Env|Node| Global  |\n"
            "+---------------------+---+----+---------+\n"
            "|max_inflight_messages|20 | 3  |undefined|\n"
            "+---------------------+---+----+---------+\n"
        )
        rows = {row["Config"]: row for row in (await harness.good("config", "show", "--format=json")).table}
        assert rows["allow_anonymous"] == {"Config": "allow_anonymous", "Env": "on", "Node": None, "Global": None}
        assert rows["max_inflight_messages"]["Node"] == "3"
        reset = ("config", "reset", "--key=max_inflight_messages")
        assert (await harness.good(*reset)).out == "max_inflight_messages = 20\n"
        assert (await harness.admin(*reset)).err == "max_inflight_messages was not set at run time.\n"
        assert (await harness.admin("config", "reset")).err == "--key=KEY must be given.\n"
    async with running_server(tmp_path) as harness:
        assert harness.server.node.options.max_inflight_messages == 20


def test_changes_outlive_a_restart_until_they_are_reset(tmp_path: Path) -> None:
    asyncio.run(_over_a_restart(tmp_path))


def test_describe(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        out = (await harness.good("describe", "max_inflight_messages", "nodename")).out
        assert out.splitlines()[0] == "max_inflight_messages"
        assert "  values: an integer from 0 to 65535" in out
        assert "  can be set at run time: yes" in out and "  can be set at run time: no" in out

    run_with_server(tmp_path, test)


def test_systree_can_be_switched_on(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        client = await harness.client("c")
        await client.subscribe(("$SYS/#", 0))
        await harness.good("set", "systree_interval=10", "systree_enabled=on")
        assert (await client.packet()).topic.startswith("$SYS/VerneMQ@127.0.0.1/")

    run_with_server(tmp_path, test)


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        assert (await harness.good("show", "distributed_cookie", "--format=csv")).out.endswith(",(hidden)\n")

    run_with_server(tmp_path, test, distributed_cookie="monster")


def test_global_overrides_of_a_node_alone(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        options = harness.server.node.options
        assert (await harness.good("set", "max_inflight_messages=7", "--all")).out == "max_inflight_messages = 7\n"
        assert options.max_inflight_messages == 7
        assert "notice vmq-admin: max_inflight_messages = 7 for all nodes, until `config reset`" in harness.lines
        await harness.good("set", "max_inflight_messages=3")
        assert options.max_inflight_messages == 3
        assert (await harness.good("set", "max_inflight_messages=8", "--all")).out == (
            "max_inflight_messages = 8\n"
            "VerneMQ@127.0.0.1 has max_inflight_messages = 3 of its own, which overrides this.\n"
        )
        assert (await harness.good("config", "show", "-k", "max_inflight_messages", "--format=json")).table == [
            {"Config": "max_inflight_messages", "Env": "20", "Node": "3", "Global": "8"}
        ]
        reset = ("config", "reset", "--key=max_inflight_messages")
        assert (await harness.good(*reset)).out == "max_inflight_messages = 8\n"
        answer = await harness.admin(*reset)
        said = "max_inflight_messages was set for all nodes, not for this one alone: --global resets that.\n"
        assert (answer.status, answer.err) == (1, said)
        assert (await harness.good(*reset, "--global")).out == "max_inflight_messages = 20\n"
        await harness.good("set", "max_inflight_messages=3")
        answer = await harness.admin(*reset, "--global")
        assert answer.err == "max_inflight_messages was set for this node, not for all: --local resets that.\n"
        await harness.good("set", "max_inflight_messages=8", "--all")
        assert (await harness.good(*reset, "--global", "--local")).out == "max_inflight_messages = 20\n"
        assert (
            await harness.admin(*reset, "--global", "--local")
        ).err == "max_inflight_messages was not set at run time.\n"

    run_with_server(tmp_path, test)


def test_all_nodes_are_asked_at_the_same_time(tmp_path: Path) -> None:
    """Otherwise each node that does not answer would delay the result by some seconds."""

    async def test(harness: ServerHarness) -> None:
        harness.server.cluster = fake = cast(Any, FakeOperatorPort())
        both = asyncio.Barrier(2)

        async def values(node: str, keys: list[str]) -> list[str]:
            async with asyncio.timeout(10):
                await both.wait()
            return [f"at {node}"]

        fake.values = values
        answer = await harness.good("show", "retry_interval", "--all", "--format=csv")
        assert (
            answer.out
            == f"node,retry_interval\n{THIS_NODE},20\nb@127.0.0.1,at b@127.0.0.1\nc@127.0.0.1,at c@127.0.0.1\n"
        )

    run_with_server(tmp_path, test)


def test_nodes_that_are_meant(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        strange = "x@127.0.0.1 is not a member of this cluster. Members are VerneMQ@127.0.0.1.\n"
        assert (await harness.admin("set", "retry_interval=3", "--node=x@127.0.0.1")).err == strange
        assert (await harness.admin("show", "retry_interval", "--node=x@127.0.0.1")).err == strange
        both = ("retry_interval=3", "--all", "--node=VerneMQ@127.0.0.1")
        assert (await harness.admin("set", *both)).err == "--all and --node exclude each other.\n"
        fake = harness.server.cluster = FakeOperatorPort()  # type: ignore[assignment]
        assert (await harness.good("show", "retry_interval", "--node=b@127.0.0.1", "--format=csv")).out == (
            "node,retry_interval\nb@127.0.0.1,retry_interval of b@127.0.0.1\n"
        )
        assert (
            await harness.admin("show", "retry_interval", "--node=c@127.0.0.1")
        ).err == "c@127.0.0.1: nobody answers\n"
        answer = await harness.admin("show", "retry_interval", "--all", "--format=csv")
        assert answer.out == f"node,retry_interval\n{THIS_NODE},20\nb@127.0.0.1,retry_interval of b@127.0.0.1\n"
        assert (answer.status, answer.err) == (1, "c@127.0.0.1: nobody answers\n")
        await harness.good("set", f"--node={THIS_NODE}", "retry_interval=7")
        assert fake.asked == [("spread",)]
        harness.server.runtime.share(fake.config)
        assert (await harness.good("set", "--all", "retry_interval=5")).out == (
            "retry_interval = 5\n"
            f"{THIS_NODE} has retry_interval = 7 of its own, which overrides this.\n"
            "c@127.0.0.1 is absent: it gets the change when it returns.\n"
        )
        assert (await harness.good("set", "--node=b@127.0.0.1", "retry_interval=6")).out == "retry_interval = 6\n"
        assert fake.config.get(b"nset.b@127.0.0.1\0retry_interval") == b"6"
        assert harness.server.node.options.retry_interval_s == 7
        harness.server.runtime.set("retry_interval", "9", "removed@127.0.0.1")
        assert (await harness.good("set", "--all", "retry_interval=5")).out == (
            "retry_interval = 5\n"
            f"{THIS_NODE} has retry_interval = 7 of its own, which overrides this.\n"
            "b@127.0.0.1 has retry_interval = 6 of its own, which overrides this.\n"
            "c@127.0.0.1 is absent: it gets the change when it returns.\n"
        )
        reset = ("config", "reset", "--key=retry_interval")
        assert (await harness.admin(*reset, "--node=x@127.0.0.1")).err.startswith("x@127.0.0.1 is not a member")
        for unknown in (["--key=nope"], ["--key=nope", "--node=b@127.0.0.1"]):
            assert (await harness.admin("config", "reset", *unknown)).err.startswith("nope: unknown key.")
        assert (await harness.admin(*reset, "--node=b@127.0.0.1", "--global")).err == (
            "--node excludes --local and --global.\n"
        )
        done = "retry_interval is not set for b@127.0.0.1 any more.\n"
        assert (await harness.good(*reset, "--node=b@127.0.0.1")).out == done
        assert fake.config.get(b"nset.b@127.0.0.1\0retry_interval") is None
        assert (
            await harness.admin(*reset, "--node=b@127.0.0.1")
        ).err == "retry_interval was not set for b@127.0.0.1.\n"
        assert (await harness.good(*reset, f"--node={THIS_NODE}")).out == "retry_interval = 5\n"
        await harness.good("set", "retry_interval=7")
        fake.slow = "not everyone has it"
        answer = await harness.admin("set", "--all", "retry_interval=4")
        assert (answer.status, answer.err) == (1, "not everyone has it\n")
        assert harness.server.runtime.everywhere("retry_interval") == "4"

    run_with_server(tmp_path, test)
