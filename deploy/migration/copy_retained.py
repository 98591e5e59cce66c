"""Copy the retained messages of a VerneMQ cluster to Strogoff, before sessions and clients move.

    python deploy/migration/copy_retained.py OLD --old-port 1883 --host strogoff.example --port 1899

It publishes each message with its payload, QoS and properties, and the rest of its expiry. Then it reads the messages
back: nothing else shows whether a broker has taken a message with QoS 0. docs/migrating-from-vernemq.md has all steps.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from strogoff.testing.client import Client
from strogoff.testing.client_errors import ConnectionLost, MqttError
from strogoff.testing.client_session import Message

AT_ONCE = 20
"""Connections to the new cluster at the same time."""
WITHIN_S = 30.0
"""How long a cluster may take for an answer, in seconds."""
QUIET_S = 10.0
"""The old cluster has sent all retained messages when none came for this time, in seconds."""
COPIED = (
    "payload_format_indicator",
    "message_expiry_interval",
    "content_type",
    "response_topic",
    "correlation_data",
    "user_property",
)
"""Properties that belong to a message, and not to the connection on which it comes."""

Retained = dict[str, Message]
"""Topic -> retained message."""
Options = dict[str, Any]
"""The arguments of a client: where its cluster is, and its user."""


class ClusterError(Exception):
    """A cluster does not answer, or does not let the script in. The text names the cluster."""


async def _connected(name: str, cluster: Options, filters: Iterable[str] = ()) -> Client:
    """Returns a client that is connected and has subscribed. Raises `ClusterError`."""
    client = Client(name, **cluster)
    try:
        await client.connect(timeout=WITHIN_S)
        for each in filters:
            await client.subscribe(each, 2, timeout=WITHIN_S)
    except (MqttError, OSError, TimeoutError) as error:
        client.abort()
        raise ClusterError(f"{cluster['host']}:{cluster['port']}: {error}") from None
    return client


async def read(cluster: Options, quiet_s: float, wanted: Iterable[str] | None = None) -> Retained:
    """Read the retained messages of a cluster, until those of the wanted topics are there or none comes any more.

    Raises `ClusterError`, and `ConnectionLost` if the connection ends meanwhile.
    """
    found: Retained = {}
    missing = None if wanted is None else set(wanted)
    client = await _connected("copy-retained", cluster, ["#"])
    loop = asyncio.get_running_loop()
    until = loop.time() + quiet_s
    while missing != set() and (left := until - loop.time()) > 0:
        with contextlib.suppress(TimeoutError):
            message = await client.message(left)
            if message.retain:  # the others are published just now
                found[message.topic] = message
                until = loop.time() + quiet_s
                if missing is not None:
                    missing.discard(message.topic)
    await client.disconnect()
    return found


async def copy(old: Options, new: Options, quiet_s: float) -> tuple[int, list[str]]:
    """Copy the messages. Returns their number, and a sentence for each one that the new cluster may not have.

    Raises `ClusterError`, and `ConnectionLost` if the connection to the old cluster ends.
    """
    messages = await read(old, quiet_s)
    waiting = iter(messages.values())
    problems: dict[str, str] = {}
    await asyncio.gather(*[_publish(f"copy-retained-{number}", new, waiting, problems) for number in range(AT_ONCE)])
    there: Retained = {}
    lost = "the new cluster does not have this message"
    try:
        there = await read(new, quiet_s, messages.keys() - problems.keys())
    except (ClusterError, ConnectionLost) as error:
        lost = f"whether the new cluster has this message is unknown: {error}"
    for topic, message in messages.items():
        if topic not in there or _content(there[topic]) != _content(message):
            problems.setdefault(topic, lost)
    return len(messages), [f"{topic}: {problem}" for topic, problem in problems.items()]


async def _publish(name: str, new: Options, waiting: Iterator[Message], problems: dict[str, str]) -> None:
    client = await _connected(name, new)
    for message in waiting:
        try:
            await _publish_one(client, message)
        except (MqttError, OSError, TimeoutError, ValueError) as error:
            problems[message.topic] = str(error)
    if client.connected:
        await client.disconnect()


async def _publish_one(client: Client, message: Message) -> None:
    """Publish a message, again if the connection ends: a message with QoS 0 before this one may be the reason."""
    properties = {name: value for name, value in message.properties.items() if name in COPIED}
    for last in (False, True):
        try:
            if not client.connected:
                await client.reconnect(clean_start=True, timeout=WITHIN_S)
            await client.publish(message.topic, message.payload, message.qos, True, WITHIN_S, **properties)
            return
        except ConnectionLost:
            if last:
                raise


def _content(message: Message) -> tuple[object, ...]:
    """What must be equal. The expiry gets less while the message is at a cluster."""
    properties = {name: message.properties.get(name) for name in COPIED if name != "message_expiry_interval"}
    return message.payload, message.qos, properties, "message_expiry_interval" in message.properties


def main(arguments: Iterable[str] | None = None) -> int:
    """Run the command. Returns the exit status: 1 if a message could not be copied."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", help="a node of the old cluster")
    parser.add_argument("--old-port", type=int, default=1883)
    parser.add_argument("--old-username")
    parser.add_argument("--old-password")
    parser.add_argument("--old-version", type=int, choices=(4, 5), default=5, help="4: MQTT 3.1.1, without properties")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=1883)
    parser.add_argument("--username")
    parser.add_argument("--password")
    parser.add_argument(
        "--quiet", type=float, default=QUIET_S, metavar="SECONDS", help="no message for so long: there is none (10)"
    )
    given = parser.parse_args(None if arguments is None else list(arguments))
    old = {"host": given.old, "port": given.old_port, "version": given.old_version}
    old |= {"username": given.old_username, "password": given.old_password}
    new = {"host": given.host, "port": given.port, "username": given.username, "password": given.password}
    try:
        count, problems = asyncio.run(copy(old, new, given.quiet))
    except (ClusterError, ConnectionLost) as error:
        print(error, file=sys.stderr)
        return 1
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{count} retained messages, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
