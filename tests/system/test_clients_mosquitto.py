"""mosquitto_pub, mosquitto_sub and a bridge of mosquitto against a broker process."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.broker_process import free_port

from .brokers import EveryListener, run_test
from .mosquitto import Sub, bridge, pub

pytestmark = [pytest.mark.system, pytest.mark.timeout(60)]

versions = pytest.mark.parametrize("version", ["mqttv31", "mqttv311", "mqttv5"])


def where(shared: EveryListener, transport: str) -> list[str]:
    """Returns the options for a listener."""
    if transport == "unix":
        return ["--unix", str(shared.unix)]
    if transport == "ssl":
        return ["-h", "127.0.0.1", "-p", str(shared.ssl), "--cafile", str(shared.pem.ca)]
    return ["-h", "127.0.0.1", "-p", str(shared.tcp)]


@versions
@pytest.mark.parametrize("transport", ["tcp", "ssl", "unix"])
def test_lines_go_through_in_order(shared: EveryListener, name: str, version: str, transport: str) -> None:
    """A hundred lines of standard input, at every QoS."""

    async def run() -> None:
        at = [*where(shared, transport), "-V", version]
        for qos in "012":
            topic = f"{name}/{qos}"
            sub = await Sub.start(*at, "-t", topic, "-q", "2", "-F", "%q %p")
            text = "".join(f"line {number}\n" for number in range(100))
            assert await pub(*at, "-t", topic, "-q", qos, "-l", data=text.encode()) == 0
            assert await sub.finish(100) == [f"{qos} line {number}" for number in range(100)]

    run_test(run())


@versions
def test_retained_and_deleted(shared: EveryListener, name: str, version: str) -> None:
    """-r keeps the last message, -r -n deletes it. [MQTT-3.3.1-5] [MQTT5-3.3.1-5]"""

    async def run() -> None:
        at = [*where(shared, "tcp"), "-V", version]
        for text in ("old", "new"):
            assert await pub(*at, "-t", f"{name}/a", "-q", "1", "-r", "-m", text) == 0
        sub = await Sub.start(*at, "-t", f"{name}/+", "-q", "1", "-F", "%r %p")
        assert await sub.finish(1) == ["1 new"]
        assert await pub(*at, "-t", f"{name}/a", "-q", "1", "-r", "-n") == 0
        sub = await Sub.start(*at, "-t", f"{name}/+", "-q", "1", "-F", "%r %p")
        assert await pub(*at, "-t", f"{name}/b", "-q", "1", "-m", "live") == 0
        assert await sub.finish(1) == ["0 live"]

    run_test(run())


@versions
def test_the_will_of_a_killed_client(shared: EveryListener, name: str, version: str) -> None:
    """[MQTT-3.1.2-8] [MQTT5-3.1.2-8] with a process that is killed."""

    async def run() -> None:
        at = [*where(shared, "tcp"), "-V", version]
        will = ["--will-topic", f"{name}/will", "--will-payload", "killed", "--will-qos", "2"]
        watch = await Sub.start(*at, "-t", f"{name}/#", "-q", "2", "-F", "%t %q %p")
        dying = await Sub.start(*at, "-t", f"{name}-other", "-i", name[-20:], *will)
        dying.process.kill()
        await dying.process.wait()
        assert await watch.finish(1) == [f"{name}/will 2 killed"]

    run_test(run())


def test_properties_of_version_5(shared: EveryListener, name: str) -> None:
    """As mosquitto_sub prints them."""

    async def run() -> None:
        at = [*where(shared, "tcp"), "-V", "mqttv5"]
        sub = await Sub.start(*at, "-t", name, "-q", "1", "-F", "%C|%R|%D|%P|%p")
        assert (
            await pub(
                *(*at, "-t", name, "-q", "1", "-m", "body"),
                *("-D", "publish", "content-type", "text/plain"),
                *("-D", "publish", "response-topic", "back"),
                *("-D", "publish", "correlation-data", "17"),
                *("-D", "publish", "user-property", "k", "v"),
                *("-D", "publish", "message-expiry-interval", "60"),
            )
            == 0
        )
        assert await sub.finish(1) == ["text/plain|back|17|k:v|body"]

    run_test(run())


def test_a_wrong_certificate_authority_is_refused_by_the_client(shared: EveryListener, name: str) -> None:
    """The broker continues."""

    async def run() -> None:
        at = ["-h", "127.0.0.1", "-p", str(shared.ssl), "--cafile", str(shared.pem.cert)]
        assert await pub(*at, "-t", name, "-m", "x") != 0
        assert await pub(*where(shared, "ssl"), "-t", name, "-m", "x", "-q", "1") == 0

    run_test(run())


@pytest.mark.slow
def test_a_bridge_with_default_notifications(shared: EveryListener, name: str, tmp_path: Path) -> None:
    """Messages go in both directions. Its will has the topic `$SYS/broker/connection/NAME/state`."""

    async def run() -> None:
        port = free_port()
        there, here = ["-h", "127.0.0.1", "-p", str(port)], where(shared, "tcp")
        topics = f"{name}/out out 1", f"{name}/in in 1"
        async with bridge(tmp_path, port, name, shared.tcp, *topics):
            for topic, start, end in ((f"{name}/out", there, here), (f"{name}/in", here, there)):
                sub = await Sub.start(*end, "-t", topic, "-q", "1", "-F", "%t %q %p")
                assert await pub(*start, "-t", topic, "-q", "1", "-m", "crossed") == 0
                assert await sub.finish(1) == [f"{topic} 1 crossed"]

    run_test(run())
