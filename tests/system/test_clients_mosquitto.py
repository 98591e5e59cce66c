"""mosquitto_pub and mosquitto_sub against a broker process."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, Process

import pytest

from .brokers import WITHIN_S, House, need, play

pytestmark = [pytest.mark.system, pytest.mark.timeout(60)]

versions = pytest.mark.parametrize("version", ["mqttv31", "mqttv311", "mqttv5"])


def where(house: House, transport: str) -> list[str]:
    """The options that lead to a listener."""
    if transport == "unix":
        return ["--unix", str(house.unix)]
    if transport == "ssl":
        return ["-h", "127.0.0.1", "-p", str(house.ssl), "--cafile", str(house.pem.ca)]
    return ["-h", "127.0.0.1", "-p", str(house.tcp)]


class Sub:
    """mosquitto_sub, subscribed when `start` returns."""

    def __init__(self, process: Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, *words: str) -> Sub:
        """Start it, and wait for its SUBACK. It writes to a pipe, which must not keep the lines back."""
        process = await asyncio.create_subprocess_exec(
            "stdbuf", "-oL", need("mosquitto_sub"), "-d", *words, stdout=PIPE
        )
        assert process.stdout is not None
        while line := await asyncio.wait_for(process.stdout.readline(), WITHIN_S):
            if line.startswith(b"Subscribed"):
                return cls(process)
        raise AssertionError("mosquitto_sub did not subscribe")

    async def lines(self) -> list[str]:
        """What it wrote until it ended by itself (-C), without its own debug lines; its status must be 0."""
        output, _ = await asyncio.wait_for(self.process.communicate(), WITHIN_S)
        assert self.process.returncode == 0
        return [line for line in output.decode().splitlines() if not line.startswith(("Client ", "Subscribed"))]


async def pub(*words: str, data: bytes | None = None) -> int:
    """Run mosquitto_pub; its exit status."""
    process = await asyncio.create_subprocess_exec(
        need("mosquitto_pub"), *words, stdin=PIPE if data is not None else None, stderr=PIPE
    )
    await asyncio.wait_for(process.communicate(data), WITHIN_S)
    assert process.returncode is not None
    return process.returncode


@versions
@pytest.mark.parametrize("transport", ["tcp", "ssl", "unix"])
def test_lines_go_through_in_order(house: House, name: str, version: str, transport: str) -> None:
    """A hundred lines of standard input, at every QoS."""

    async def run() -> None:
        at = [*where(house, transport), "-V", version]
        for qos in "012":
            topic = f"{name}/{qos}"
            sub = await Sub.start(*at, "-t", topic, "-q", "2", "-C", "100", "-F", "%q %p")
            text = "".join(f"line {number}\n" for number in range(100))
            assert await pub(*at, "-t", topic, "-q", qos, "-l", data=text.encode()) == 0
            assert await sub.lines() == [f"{qos} line {number}" for number in range(100)]

    play(run())


@versions
def test_retained_and_deleted(house: House, name: str, version: str) -> None:
    """-r keeps the last one, -r -n deletes it. [MQTT-3.3.1-5] [MQTT5-3.3.1-5]"""

    async def run() -> None:
        at = [*where(house, "tcp"), "-V", version]
        for text in ("old", "new"):
            assert await pub(*at, "-t", f"{name}/a", "-q", "1", "-r", "-m", text) == 0
        sub = await Sub.start(*at, "-t", f"{name}/+", "-q", "1", "-C", "1", "-F", "%r %p")
        assert await sub.lines() == ["1 new"]
        assert await pub(*at, "-t", f"{name}/a", "-q", "1", "-r", "-n") == 0
        sub = await Sub.start(*at, "-t", f"{name}/+", "-q", "1", "-C", "1", "-F", "%r %p")
        assert await pub(*at, "-t", f"{name}/b", "-q", "1", "-m", "live") == 0
        assert await sub.lines() == ["0 live"]

    play(run())


@versions
def test_the_will_of_a_killed_client(house: House, name: str, version: str) -> None:
    """[MQTT-3.1.2-8] [MQTT5-3.1.2-8] with a process that is killed."""

    async def run() -> None:
        at = [*where(house, "tcp"), "-V", version]
        will = ["--will-topic", f"{name}/will", "--will-payload", "killed", "--will-qos", "2"]
        watch = await Sub.start(*at, "-t", f"{name}/#", "-q", "2", "-C", "1", "-F", "%t %q %p")
        dying = await Sub.start(*at, "-t", f"{name}-other", "-i", name[-20:], *will)
        dying.process.kill()
        await dying.process.wait()
        assert await watch.lines() == [f"{name}/will 2 killed"]

    play(run())


def test_properties_of_version_5(house: House, name: str) -> None:
    """As mosquitto_sub prints them."""

    async def run() -> None:
        at = [*where(house, "tcp"), "-V", "mqttv5"]
        sub = await Sub.start(*at, "-t", name, "-q", "1", "-C", "1", "-F", "%C|%R|%D|%P|%p")
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
        assert await sub.lines() == ["text/plain|back|17|k:v|body"]

    play(run())


def test_a_wrong_certificate_authority_is_refused_by_the_client(house: House, name: str) -> None:
    """And the broker goes on."""

    async def run() -> None:
        at = ["-h", "127.0.0.1", "-p", str(house.ssl), "--cafile", str(house.pem.cert)]
        assert await pub(*at, "-t", name, "-m", "x") != 0
        assert await pub(*where(house, "ssl"), "-t", name, "-m", "x", "-q", "1") == 0

    play(run())
