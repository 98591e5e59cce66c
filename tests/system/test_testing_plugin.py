"""The pytest plugin as users get it: the built wheel in a fresh environment, with xdist, pytest-asyncio and anyio."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .test_packaging import installed, run, source, wheel

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.xdist_group("wheel"), pytest.mark.timeout(600)]

__all__ = ["installed", "source", "wheel"]

PLAIN = """
import pytest

@pytest.mark.parametrize("number", range(8))
def test_alone(mqtt_broker, mqtt_client, mqtt_capture, number):
    assert mqtt_capture.messages == []
    mqtt_client().publish("t", str(number), qos=1, retain=True)
    assert mqtt_capture.records == [("t", str(number).encode())]

def test_process(mqtt_broker_proc, mqtt_url):
    assert mqtt_broker_proc.port and mqtt_broker_proc.url != mqtt_url

def test_cluster(mqtt_cluster):
    with mqtt_cluster(engine="leveldb") as c:
        c.kill()
        c.start()
        assert c.audit().verdict == "valid"

@pytest.mark.mqtt(nodes=3, policy="majority", pace=5)
@pytest.mark.parametrize("links", ["memory", "grpc"])
def test_cluster_of_three(mqtt_cluster, links):
    with mqtt_cluster(links=links) as c:
        rx = c.client("rx", node=1, clean_start=False)
        rx.subscribe("t/#", qos=2)
        c.partition({0}, {1, 2})
        c.sees(0, "minority")
        c.sees({1, 2}, "majority")
        c.client("tx2", node=2).publish("t/1", "cut", qos=1)
        c.heal()
        c.whole()
        c.kill(1)
        c.sees({0, 2}, "majority")
        c.start(1)
        rx.reconnect(node=1)
        c.client("tx0", node=0).publish("t/2", "killed", qos=2)
        c.settled()
        assert [message.text for message in rx.take()] == ["cut", "killed"]
        assert c.audit().problems() == []
"""

BODY = """
async def test_async(mqtt_client, mqtt_cluster):
    rx = await mqtt_client.aio("rx")
    await rx.subscribe("t", qos=2)
    await rx.publish("t", "x", qos=2)
    assert (await rx.message()).text == "x"
    async with mqtt_cluster() as c:
        tx = await c.client("tx", clean_start=False)
        await c.kill(0)
        await c.start(0)
        assert (await tx.reconnect()).session_present
        await c.settled()
    async with mqtt_cluster(nodes=3, pace=5) as c:
        rx = await c.client("rx", node=2)
        await rx.subscribe("t", qos=1)
        tx = await c.client("tx", node=0)
        await tx.publish("t", "x", qos=1)
        assert (await rx.message()).text == "x"
        await c.settled()

async def test_broker(mqtt_broker, mqtt_capture):
    assert mqtt_broker.port and mqtt_capture.messages == []
"""

STRICT = "import pytest\npytestmark = pytest.mark.asyncio\n" + BODY
ANYIO = (
    "import pytest\npytestmark = pytest.mark.anyio\n\n@pytest.fixture\ndef anyio_backend(): return 'asyncio'\n" + BODY
)
SCOPE = ("-o", "asyncio_default_fixture_loop_scope=function")
FAILS = "def test_fails(mqtt_broker):\n    mqtt_broker.kill()\n    assert False\n"


@pytest.fixture(scope="session")
def python(installed: Path) -> Path:
    """The interpreter of an environment with the wheel, and what users test with."""
    interpreter = installed / "python"
    tools = ("pytest", "pytest-xdist", "pytest-asyncio", "anyio")
    run(interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *tools)
    return interpreter


def sample(python: Path, folder: Path, source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run tests of a project that has nothing to do with ours."""
    (folder / "test_sample.py").write_text(source)
    command = [str(python), "-m", "pytest", "-W", "error", "--strict-markers", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    ("source_text", "arguments", "passed"),
    [
        (PLAIN, ("-p", "no:asyncio", "-n", "2"), 12),
        (PLAIN, ("-p", "no:asyncio"), 12),
        (STRICT, ("-o", "asyncio_mode=strict", *SCOPE), 2),
        (BODY, ("-o", "asyncio_mode=auto", *SCOPE), 2),
        (ANYIO, ("-p", "no:asyncio"), 2),
    ],
    ids=["xdist", "plain", "strict", "auto", "anyio"],
)
def test_a_sample_project(
    python: Path, tmp_path: Path, source_text: str, arguments: tuple[str, ...], passed: int
) -> None:
    """All pass, with warnings as errors: nothing unclosed, nothing never awaited."""
    ran = sample(python, tmp_path, source_text, *arguments)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{passed} passed" in ran.stdout


def test_help_and_failure(python: Path, tmp_path: Path) -> None:
    """The options have a group of their own; a failure under xdist tells its seed."""
    ran = sample(python, tmp_path, FAILS, *SCOPE, "--help")
    assert "MQTT brokers for tests (strogoff):" in ran.stdout and "--mqtt-trace-dir" in ran.stdout
    ran = sample(python, tmp_path, FAILS, *SCOPE, "-n", "2", "--mqtt-seed", "12", "--mqtt-trace-dir", "traces")
    assert ran.returncode == 1
    assert "seed 12 (replay with --mqtt-seed=12)" in ran.stdout and "fault: kill node 0" in ran.stdout
    assert list((tmp_path / "traces").rglob("*.jsonl"))
