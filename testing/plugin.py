"""The pytest plugin: fixtures, options and the marker. pytest loads it wherever this package is installed.

So it imports only pytest until a test uses a fixture. All fixtures are synchronous and work in every kind of test:
plain tests, pytest-asyncio's (strict and auto), anyio's on asyncio.
"""

from __future__ import annotations

import contextlib
import sys
from argparse import ArgumentError
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .broker_process import BrokerProcess
    from .capture import Capture
    from .fixtures import ClientFactory, ClusterFactory, External
    from .sync import SyncCluster

_PROCESS = pytest.StashKey["BrokerProcess"]()
_OPTIONS = (
    ("mqtt_seed", "seed of the brokers' random choices; the report of a failed test has it"),
    ("mqtt_trace_dir", "directory for the event logs of failed tests (default: below pytest's temporary directory)"),
    ("mqtt_nodes", "number of nodes of mqtt_cluster, if the test does not give one (default: 1)"),
    ("mqtt_pace", "divide the times of clusters by this number, unless the test passes `pace` (default: 1)"),
    ("mqtt_host", "host of the external broker behind mqtt_broker_noproc (default: 127.0.0.1)"),
    ("mqtt_port", "port of the external broker behind mqtt_broker_noproc (default: 1883)"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """pytest: add each option to the command line and to the ini file."""
    group = parser.getgroup("mqtt", "MQTT brokers for tests (strogoff)")
    for name, text in _OPTIONS:
        # another MQTT plugin may define --mqtt-host and --mqtt-port already: then we read the values of its options
        with contextlib.suppress(ValueError, ArgumentError):
            group.addoption(f"--{name.replace('_', '-')}", dest=name, default=None, help=text)
        with contextlib.suppress(ValueError):
            parser.addini(name, text, default=None)


def pytest_configure(config: pytest.Config) -> None:
    """pytest: register the marker `mqtt`."""
    config.addinivalue_line(
        "markers",
        "mqtt(nodes, seed, policy, conf, engine, links, pace): the brokers of a test; policy is one of off, majority "
        "and on for all operations or a dict by operation, conf has keys of vernemq.conf, links is memory or grpc, "
        "pace divides the times of the cluster",
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """pytest: add seed, faults, audit and event log of the test's clusters to the report of a failed test."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if f"{__package__}.fixtures" not in sys.modules:
        return  # no test has used a fixture so far
    from .fixtures import describe, forget

    if report.failed:
        report.sections += describe(item)
    if call.when == "teardown":
        forget(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """pytest: start the process of `mqtt_broker_proc` again, with its port and data, if a former test has ended it."""
    process = item.config.stash.get(_PROCESS, None)
    if process is not None and process.ended and "mqtt_broker_proc" in getattr(item, "fixturenames", ()):
        process.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, None, None]:
    """pytest: a cluster that is open after the end of its event loop is an error of the test."""
    __tracebackhide__ = True
    try:
        yield
    finally:
        if running := sys.modules.get(f"{__package__}.runtime.running_cluster"):
            running.check_closed()


@pytest.fixture
def mqtt_broker(request: pytest.FixtureRequest) -> Iterator[SyncCluster]:
    """One broker in its own thread, new for each test: `.host`, `.port`, `.url`, faults and audit (`SyncCluster`)."""
    from .fixtures import ClusterFactory

    factory = ClusterFactory(request, nodes=1)
    with contextlib.closing(factory):
        yield factory().__enter__()


@pytest.fixture
def mqtt_cluster(request: pytest.FixtureRequest) -> Iterator[ClusterFactory]:
    """A factory of clusters for `async with`, and for `with` in tests without asyncio.

    Example: `async with mqtt_cluster(nodes=3, conf={...}) as c`.
    """
    from .fixtures import ClusterFactory

    with contextlib.closing(ClusterFactory(request)) as factory:
        yield factory


@pytest.fixture
def mqtt_client(mqtt_broker: SyncCluster) -> ClientFactory:
    """A factory of clients of `mqtt_broker`: `mqtt_client("name")` blocks, `await mqtt_client.aio("name")` does not."""
    from .fixtures import ClientFactory

    return ClientFactory(mqtt_broker)


@pytest.fixture
def mqtt_capture(mqtt_broker: SyncCluster) -> Capture:
    """A record of all messages that `mqtt_broker` gets: `.messages`, `.records`."""
    from .capture import Capture

    return Capture(mqtt_broker)


@pytest.fixture
def mqtt_url(mqtt_broker: SyncCluster) -> str:
    """The address of `mqtt_broker`, mqtt://HOST:PORT."""
    return mqtt_broker.url


@pytest.fixture(scope="session")
def mqtt_broker_proc(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[BrokerProcess]:
    """One broker process for the whole run, with xdist one for each worker: `.host`, `.port`, `.url`, `.kill()`,
    `.start()`. If a test has ended it, it is started again before the next test that uses it.
    """
    from .broker_process import BrokerProcess

    with BrokerProcess(directory=tmp_path_factory.mktemp("mqtt_broker_proc")) as process:
        pytestconfig.stash[_PROCESS] = process
        yield process
    del pytestconfig.stash[_PROCESS]


@pytest.fixture(scope="session")
def mqtt_broker_noproc(pytestconfig: pytest.Config) -> External:
    """The address of a broker that the tests do not start, from --mqtt-host and --mqtt-port."""
    from .fixtures import External

    return External.of(pytestconfig)
