"""The pytest plugin, in a pytest of its own: fixtures, options, marker, and the report of a failed test."""

from __future__ import annotations

import shlex
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from strogoff.cli import main
from strogoff.testing import plugin

from .run_sample import run_sample

pytest_plugins = "pytester"

FIXTURES = """
    import asyncio, socket

    def test_sync(mqtt_broker, mqtt_client, mqtt_capture, mqtt_url):
        assert mqtt_url == mqtt_broker.url == f"mqtt://{mqtt_broker.host}:{mqtt_broker.port}"
        rx = mqtt_client("rx")
        rx.subscribe("a/#", qos=1)
        mqtt_client().publish("a/b", "hi", qos=1)
        assert rx.message().text == "hi"
        assert mqtt_capture.records == [("a/b", b"hi")]
        mqtt_broker.settled()
        assert mqtt_broker.audit().verdict == "valid"

    def test_nothing_is_left_of_the_test_before(mqtt_capture, mqtt_client):
        assert mqtt_capture.messages == []
        assert mqtt_client().name == "client-1"

    def test_async(mqtt_client):
        async def work():
            rx = await mqtt_client.aio("rx")
            await rx.subscribe("a", qos=2)
            await rx.publish("a", "z", qos=2)
            assert (await rx.message()).text == "z"
        asyncio.run(work())

    def test_cluster(mqtt_cluster):
        with mqtt_cluster(conf={"max_inflight_messages": 3}) as c:
            c.client("rx")
        async def work():
            async with mqtt_cluster() as c:
                await c.client("rx")
        asyncio.run(work())

    def test_left_open(mqtt_cluster):
        mqtt_cluster().__enter__()

    def test_external(mqtt_broker_noproc):
        assert mqtt_broker_noproc.url == "mqtt://broker.example:18830"
"""

CLUSTER = """
    import asyncio
    import pytest

    @pytest.mark.mqtt(nodes=3, policy="majority", pace=10)
    def test_sync(mqtt_cluster):
        with mqtt_cluster() as c:
            assert len(c) == 3 and c.cluster.pace == PACE
            rx = c.client("rx", node=1, clean_start=False)
            rx.subscribe("t", qos=1)
            c.partition({0}, {1, 2})
            c.sees(0, "minority")
            c.sees({1, 2}, "majority")
            c.heal()
            c.whole()
            c.kill(1)
            c.sees({0, 2}, "majority")
            c.start(1)
            rx.reconnect(1)
            c.client("tx", node=2).publish("t", "x", qos=1)
            assert rx.message().text == "x"
            c.settled()
            assert c.audit().problems() == []

    @pytest.mark.mqtt(nodes=2, links="grpc")
    def test_async(mqtt_cluster):
        async def work():
            async with mqtt_cluster() as c:
                assert c.links == "grpc" and c[1].sees == "whole"
        asyncio.run(work())

    def test_option(mqtt_cluster):
        with mqtt_cluster(pace=3) as c:
            assert len(c) == 2 and c.cluster.pace == 3
"""

FAILS = """
    def test_it(mqtt_cluster):
        with mqtt_cluster() as c:
            c.client("rx")
            c.kill()
            assert c.audit().verdict == "lost"
"""


def test_fixtures_work_in_every_kind_of_test(pytester: pytest.Pytester) -> None:
    """All except the process, which has a test of its own."""
    result = run_sample(pytester, FIXTURES, "--mqtt-host=broker.example", "--mqtt-port=18830", "--strict-markers")
    result.assert_outcomes(passed=6)


def test_a_failed_test_reports_how_to_repeat_it(pytester: pytest.Pytester) -> None:
    """Seed, faults, audit and the directory of the event log, in a section of its own."""
    result = run_sample(pytester, FAILS, "--mqtt-seed=77", f"--mqtt-trace-dir={pytester.path / 'traces'}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- mqtt -*",
            "seed 77 (replay with --mqtt-seed=77), memory engine",
            "fault: kill node 0",
            "audit: valid: *",
            "event log: */traces/*test_it-????????/cluster-0",
            "what a client did: strogoff analytics follow */traces/*test_it-????????/cluster-0 --client rx",
        ]
    )
    command = next(line for line in result.outlines if line.startswith("what a client did: "))
    assert main(shlex.split(command.removeprefix("what a client did: "))[1:]) == 0


@pytest.mark.slow
def test_the_report_has_the_last_warnings_of_each_node(pytester: pytest.Pytester) -> None:
    """They say what a reason code cannot: which setting has refused a publish. Other lines are left out."""
    source = """
        import pytest

        @pytest.mark.mqtt(nodes=3, pace=10)
        def test_it(mqtt_cluster):
            with mqtt_cluster() as c:
                writers = [c.client(name) for name in ("one", "two")]
                c.kill(2)
                c.sees({0, 1}, "majority")
                for number in range(12):
                    with pytest.raises(Exception, match="0x83"):
                        writers[0].publish("t", "x", qos=1)
                assert False
    """
    result = run_sample(pytester, source)
    shown = [line for line in result.outlines if line.startswith("log of node ")]
    assert {line.split(":")[1] for line in shown} <= {" warning", " error"}
    of_0 = [line for line in shown if line.startswith("log of node 0: ")]
    assert len(of_0) == 10 and any('policy="allow_publish_during_netsplit=off"' in line for line in of_0)
    assert [line for line in shown if line.startswith("log of node 1: ")]
    result.stdout.fnmatch_lines(["what a client did: *--client two (or one)"])


@pytest.mark.slow
def test_the_cluster_fixture_works_in_every_kind_of_test(pytester: pytest.Pytester) -> None:
    """Arguments override options, options override the marker."""
    run_sample(pytester, CLUSTER.replace("PACE", "10"), "--mqtt-nodes=2").assert_outcomes(passed=3)
    run_sample(pytester, CLUSTER.replace("PACE", "7"), "--mqtt-nodes=2", "--mqtt-pace=7").assert_outcomes(passed=3)


def test_zero_is_refused_as_a_number_of_nodes_and_as_a_pace(pytester: pytest.Pytester) -> None:
    source = """
        def test_it(mqtt_cluster):
            with mqtt_cluster():
                pass
    """
    for option, problem in (("--mqtt-nodes=0", "nodes = 0"), ("--mqtt-pace=0", "pace = 0")):
        result = run_sample(pytester, source, option)
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines([f"*ValueError: {problem}*"])


def test_the_report_of_a_failed_test_describes_its_cluster(pytester: pytest.Pytester) -> None:
    """The number of nodes, their connection, and the faults of their links."""
    source = """
        def test_it(mqtt_cluster):
            with mqtt_cluster(3, pace=10) as c:
                c.partition({1})
                c.sees(1, "minority")
                assert False
    """
    result = run_sample(pytester, source)
    result.stdout.fnmatch_lines(["3 nodes, memory links, pace 10", "fault: partition 1 | 0 | 2", "audit: valid: *"])


def test_a_failed_test_is_reported_although_its_brokers_are_blocked(pytester: pytest.Pytester) -> None:
    """For example by a plugin: the report is made nevertheless."""
    source = """
        import threading
        from strogoff.testing.runtime import loop_thread

        def test_it(mqtt_broker, monkeypatch, request):
            free = threading.Event()
            mqtt_broker.thread._loop.call_soon_threadsafe(free.wait)
            monkeypatch.setattr(loop_thread, "CALL_S", 0.05)
            request.addfinalizer(free.set)
            assert False
    """
    result = run_sample(pytester, source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["audit: not made: *", "event log: */cluster-0"])


def test_the_report_says_that_a_cluster_did_not_start(pytester: pytest.Pytester) -> None:
    """It judges nothing then, and has no event log. The configuration of the test is named as such."""
    source = """
        def test_it(mqtt_cluster):
            with mqtt_cluster(conf={"max_inflight_mesages": 3}):
                pass
    """
    result = run_sample(pytester, source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*conf: max_inflight_mesages: *", "audit: not made: the cluster did not start"])
    result.stdout.no_fnmatch_line("event log:*")


def test_a_passing_test_reports_nothing(pytester: pytest.Pytester) -> None:
    """It leaves no files either."""
    result = run_sample(
        pytester, "def test_it(mqtt_broker): pass", f"--mqtt-trace-dir={pytester.path / 'traces'}", "-rA"
    )
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*seed*")
    assert not (pytester.path / "traces").exists()


def test_no_broker_is_kept_after_its_test(pytester: pytest.Pytester) -> None:
    """Pytest keeps its items to the end of the run; the logs and disks of their brokers are freed."""
    source = """
        import gc, weakref
        import pytest

        seen = []

        @pytest.mark.parametrize("number", range(3))
        def test_it(mqtt_broker, number):
            seen.append(weakref.ref(mqtt_broker.cluster))

        def test_fails(mqtt_broker):
            seen.append(weakref.ref(mqtt_broker.cluster))
            assert False

        def test_gone():
            gc.collect()
            assert [each() for each in seen[:3]] == [None] * 3
    """
    run_sample(pytester, source, "--mqtt-seed=3").assert_outcomes(passed=4, failed=1)


def test_all_clusters_are_closed_although_one_has_a_leak(pytester: pytest.Pytester) -> None:
    """Their threads and ports would stay for all later tests."""
    source = """
        import threading
        from strogoff.testing.runtime.node_handle import LeakError

        def test_it(mqtt_cluster):
            mqtt_cluster().__enter__()
            leaking = mqtt_cluster().__enter__()
            close = leaking.close

            def close_and_complain():
                close()
                raise LeakError("a task is left")

            leaking.close = close_and_complain
            mqtt_cluster().__enter__()

        def test_gone():
            assert not [each for each in threading.enumerate() if each.name.startswith("strogoff cluster")]
    """
    outcome = run_sample(pytester, source)
    outcome.assert_outcomes(passed=2, errors=1)
    assert "LeakError: a task is left" in outcome.stdout.str()


def test_an_asynchronous_cluster_that_is_left_open_is_an_error_of_its_test(pytester: pytest.Pytester) -> None:
    """One of the factory as soon as its test ends, others as soon as their loop ends. No other test has the error."""
    source = """
        import asyncio
        import pytest
        from strogoff.testing import Cluster

        @pytest.fixture(scope="module")
        def loop():
            with asyncio.Runner() as runner:
                yield runner.get_loop()

        @pytest.fixture(scope="module")
        def of_module(loop):
            cluster = Cluster()
            loop.run_until_complete(cluster.open())
            yield cluster
            loop.run_until_complete(cluster.close())

        def test_factory(mqtt_cluster, loop):
            loop.run_until_complete(mqtt_cluster(nodes=2).__aenter__())

        def test_own():
            async def work():
                await Cluster(engine="leveldb").open()
            asyncio.run(work())

        def test_both(mqtt_cluster):
            async def work():
                await mqtt_cluster().__aenter__()
                await Cluster().open()
            asyncio.run(work())

        def test_closed(of_module, mqtt_cluster):
            async def work():
                async with mqtt_cluster() as c, Cluster():
                    pass
                with pytest.raises(ValueError):
                    async with Cluster(conf={"nodename": "x"}):
                        pass
            asyncio.run(work())

        def test_of_module(of_module):
            assert of_module[0].up

        def test_with_an_error_of_its_own(request):
            request.addfinalizer(lambda: 1 / 0)
            asyncio.run(Cluster().open())
    """
    result = run_sample(pytester, source, "-rE")
    result.assert_outcomes(passed=6, errors=4)
    result.stdout.fnmatch_lines(
        [
            "*LeakError: a cluster was left open (2 nodes): use `async with`, or call `close`",
            "*LeakError: a cluster was left open (1 node): use `async with`, or call `close`",
            "*LeakError: a cluster was left open (1 node, 1 node): *",
            "*ZeroDivisionError*",
            "*LeakError: a cluster was left open (1 node): *",
        ]
    )
    for name in ("factory", "own", "both", "with_an_error_of_its_own"):
        result.stdout.fnmatch_lines([f"ERROR *::test_{name}*"])


def test_the_marker_sets_the_options_of_a_cluster(pytester: pytest.Pytester) -> None:
    """Seed, policy, configuration and engine; the command line's seed wins."""
    source = """
        import pytest

        @pytest.mark.mqtt(seed=5, policy="majority", conf={"max_client_id_size": 7}, engine="leveldb")
        def test_it(mqtt_broker):
            assert mqtt_broker.seed == EXPECTED
            assert mqtt_broker.cluster.engine == "leveldb"
            options = mqtt_broker[0].node.options
            assert options.allow_publish_during_netsplit == options.allow_register_during_netsplit == "majority"
    """
    run_sample(pytester, source.replace("EXPECTED", "5")).assert_outcomes(passed=1)
    run_sample(pytester, source.replace("EXPECTED", "9"), "--mqtt-seed=9").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        ("nods=3", "it has nodes, seed, policy, conf, engine, links, pace, not ['nods']"),
        ("policy='maybe'", "policy register = maybe"),
        ("policy={'fly': 'on'}", "policy fly = on"),
        ("nodes=8", "a cluster under test has 1 to 7"),
    ],
)
def test_a_wrong_marker_is_an_error(pytester: pytest.Pytester, mark: str, text: str) -> None:
    """The error lists the possible arguments."""
    result = run_sample(
        pytester, f"import pytest\n@pytest.mark.mqtt({mark})\ndef test_it(mqtt_cluster):\n    with mqtt_cluster(): pass"
    )
    assert result.ret == 1
    assert text in result.stdout.str()


def test_the_factory_takes_a_policy(pytester: pytest.Pytester) -> None:
    """The policy of the factory wins over the marker's policy and configuration. The factory's `conf` wins over all."""
    source = """
        import pytest

        @pytest.mark.mqtt(policy="off", conf={"allow_subscribe_during_netsplit": "off"})
        def test_it(mqtt_cluster):
            conf = {"allow_unsubscribe_during_netsplit": "on"}
            with mqtt_cluster(policy="majority", conf=conf) as c, mqtt_cluster(policy={"publish": "on"}) as other:
                for cluster, values in ((c, "majority majority majority on"), (other, "off on off off")):
                    options = cluster[0].node.options
                    operations = "register publish subscribe unsubscribe".split()
                    assert [getattr(options, f"allow_{name}_during_netsplit") for name in operations] == values.split()

        def test_wrong(mqtt_cluster):
            with pytest.raises(pytest.UsageError, match="^policy publish = never: "):
                mqtt_cluster(policy={"publish": "never"})
    """
    run_sample(pytester, source).assert_outcomes(passed=2)


def test_a_cluster_that_no_with_has_opened(pytester: pytest.Pytester) -> None:
    """The error says what to write."""
    source = """
        import pytest

        def test_it(mqtt_cluster):
            with pytest.raises(AttributeError, match="^no client: .* Write `with mqtt_cluster"):
                mqtt_cluster(nodes=3).client("reader")
    """
    run_sample(pytester, source).assert_outcomes(passed=1)


def test_options_in_the_ini_file(pytester: pytest.Pytester) -> None:
    """They have the same names; a wrong number is an error."""
    pytester.makeini("[pytest]\nmqtt_seed = 33\n")
    source = "def test_it(mqtt_broker): assert mqtt_broker.seed == 33"
    run_sample(pytester, source).assert_outcomes(passed=1)
    result = run_sample(pytester, source, "--mqtt-seed=many")
    assert "--mqtt-seed: 'many' is not a whole number" in result.stdout.str()


def test_another_plugin_may_define_the_same_options(pytester: pytest.Pytester) -> None:
    """The options of the other plugin are read; nothing fails."""
    pytester.makepyfile(
        theirs="def pytest_addoption(parser): parser.addoption('--mqtt-host', dest='mqtt_host', default='theirs')"
    )
    pytester.syspathinsert()
    source = "def test_it(mqtt_broker_noproc): assert mqtt_broker_noproc.host == 'theirs'"
    run_sample(pytester, source, "-p", "theirs").assert_outcomes(passed=1)


def test_the_plugin_imports_nothing_until_it_is_used() -> None:
    """It imports no broker, no asyncio, no codec."""
    code = (
        "import sys, pytest; before = set(sys.modules); import strogoff.testing.plugin; "
        "print(sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "['strogoff', 'strogoff.testing', 'strogoff.testing.plugin']"


def test_a_failed_test_of_a_project_without_brokers_imports_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "strogoff.testing.fixtures")
    report: Any = SimpleNamespace(failed=True, sections=[])
    item: Any = None
    making = plugin.pytest_runtest_makereport(item, pytest.CallInfo.from_call(lambda: None, "teardown"))
    next(making)
    with pytest.raises(StopIteration):
        making.send(SimpleNamespace(get_result=lambda: report))
    assert report.sections == [] and "strogoff.testing.fixtures" not in sys.modules
