r"""Make the durable sessions of a VerneMQ cluster, with their subscriptions, at Strogoff, before their clients move.

    vmq-admin session show --client_id --topic --qos --rap --no_local --clean_session=false --limit=1000000 \
        --format=json > sessions.json
    python deploy/migration/copy_sessions.py sessions.json --host strogoff.example --port 1899

The first command runs at the old cluster. docs/migrating-from-vernemq.md has all steps. A client that has moved already
would be disconnected: run this once, before the first one moves.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from strogoff.mqtt.packets import SubscribeOptions
from strogoff.testing.client import Client
from strogoff.testing.client_errors import MqttError, MqttRefused

AT_ONCE = 50
"""Connections at the same time."""
PER_PACKET = 500
"""Filters in one SUBSCRIBE."""
WITHIN_S = 30.0
"""How long the new cluster may take for an answer, in seconds."""
EXPIRY_S = 7 * 86400
"""How long a session waits for its client, in seconds. When it connects, its own interval counts."""

Sessions = dict[str, dict[str, SubscribeOptions]]
"""Client id -> filter -> subscription."""


def read(text: str) -> Sessions:
    """Parse the output of `session show`. Raises ValueError, whose text says what is wrong."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not the output of session show --format=json: {error}") from None
    parts = found if isinstance(found, list) else [found]
    sessions: Sessions = {}
    for row in (row for part in parts if isinstance(part, Mapping) for row in part.get("table", ())):
        try:
            client, topic, qos = str(row["client_id"]), row.get("topic"), int(row.get("qos") or 0)
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"this row has no client_id, or a wrong qos: {row}") from None
        filters = sessions.setdefault(client, {})
        if topic not in (None, "", "undefined"):
            filters[str(topic)] = SubscribeOptions(
                str(topic),
                qos,
                no_local=_is_true(row.get("no_local")),
                retain_as_published=_is_true(row.get("rap")),
                # the client has got the retained messages from the old cluster
                retain_handling=2,
            )
    if not sessions:
        flags = "--client_id --topic --qos --rap --no_local"
        raise ValueError(f"there are no sessions in it: give session show the flags {flags}")
    return sessions


def _is_true(cell: object) -> bool:
    return str(cell).lower() == "true"


async def copy(sessions: Sessions, host: str, port: int, expiry_s: int, **login: str | None) -> list[str]:
    """Make the sessions. Returns a sentence for each one that could not be made as a whole."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def make(client_id: str, wanted: list[SubscribeOptions]) -> list[str]:
        async with turns:
            try:
                return await _make(client_id, wanted, host, port, expiry_s, login)
            except (MqttError, OSError, TimeoutError, ValueError) as error:
                return [f"{client_id}: {error or type(error).__name__}"]

    problems = await asyncio.gather(*[make(name, list(filters.values())) for name, filters in sessions.items()])
    return [problem for each in problems for problem in each]


async def _make(
    client_id: str, wanted: list[SubscribeOptions], host: str, port: int, expiry_s: int, login: Mapping[str, Any]
) -> list[str]:
    # what comes meanwhile belongs to the client: nothing is acknowledged, and no retained message is asked for
    client = Client(
        client_id, host=host, port=port, clean_start=False, session_expiry=expiry_s, auto_ack=False, **login
    )
    await client.connect(timeout=WITHIN_S)
    problems = []
    for first in range(0, len(wanted), PER_PACKET):
        try:
            await client.subscribe(wanted[first : first + PER_PACKET], timeout=WITHIN_S)
        except MqttRefused as error:  # of one filter: the others are granted
            problems.append(f"{client_id}: {error}")
    await client.disconnect()
    return problems


def main(arguments: Iterable[str] | None = None) -> int:
    """Run the command. Returns the exit status: 1 if a session could not be made."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="the output of session show")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=1883)
    parser.add_argument("--username")
    parser.add_argument("--password")
    parser.add_argument(
        "--expiry", type=int, default=EXPIRY_S, metavar="SECONDS", help="how long they wait for their clients (a week)"
    )
    given = parser.parse_args(None if arguments is None else list(arguments))
    try:
        sessions = read(given.file.read_text())
    except (OSError, ValueError) as error:
        print(f"{given.file}: {error}", file=sys.stderr)
        return 1
    login = {"username": given.username, "password": given.password}
    problems = asyncio.run(copy(sessions, given.host, given.port, given.expiry, **login))
    for problem in problems:
        print(problem, file=sys.stderr)
    filters = sum(len(each) for each in sessions.values())
    print(f"{len(sessions)} sessions with {filters} subscriptions, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
