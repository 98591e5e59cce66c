"""Restart the nodes of a cluster one after the other, each only when all nodes serve and all slots have their copies.

    python3 roll.py --restart 'ssh root@{host} systemctl restart strogoff' 10.0.0.1:8888 10.0.0.2:8888 10.0.0.3:8888

The addresses are those of the HTTP listeners of all nodes. `{host}` in the command becomes the host of the node. The
script stops at the first thing that is wrong, says what it is, and restarts no further node: status 1; a wrong command
line has status 2. It needs Python 3.11 and nothing else. docs/upgrading.md describes an upgrade.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

ANSWER_S = 5.0
"""How long a node may take for an answer, in seconds."""
STEADY = 3
"""So often in succession all nodes must be well: a slot that a node has just got has no copy yet."""
LOOK_S = 1.0
"""The time between two looks, in seconds."""
WANTED = "cluster_members|cluster_serving|slots_without_primary|slots_without_copy|process_start_time_seconds"
SAMPLE = re.compile(rf"^(?:\w+_)?({WANTED})(?:\{{[^}}]*\}})? (\S+)$", re.MULTILINE)
"""A line of `/metrics`: a prefix (`prometheus_namespace`), the name of a metric, its labels and its value."""


class Wrong(Exception):
    """What is wrong, for the operator."""


class Place(NamedTuple):
    """The HTTP listener of a node."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def get(self, path: str) -> tuple[int, str]:
        """Returns status and body of a page. Raises OSError or HTTPException if there is no answer."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=ANSWER_S)
        try:
            key = os.environ.get("STROGOFF_API_KEY")
            connection.request("GET", path, headers={"x-api-key": key} if key else {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def figures(self) -> dict[str, float]:
        """Returns the `WANTED` metrics. Raises as `get`, and `Wrong` if the node refuses them."""
        status, body = self.get("/metrics")
        if status != 200:
            key = "; set STROGOFF_API_KEY to an API key with the scope metrics" if status == 401 else ""
            raise Wrong(f"{self}: /metrics has status {status}{key}")
        return {name: float(value) for name, value in SAMPLE.findall(body)}

    def started(self) -> float:
        """Returns when the process of the node began, in seconds since 1970; 0 if there is no answer."""
        try:
            return self.figures().get("process_start_time_seconds", 0.0)
        except (OSError, http.client.HTTPException):
            return 0.0


def place(text: str) -> Place:
    """Parse HOST:PORT."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r}: HOST:PORT of an HTTP listener is expected, such as 10.0.0.1:8888")
    return Place(host.strip("[]"), int(port))


def trouble(node: Place, count: int) -> str:
    """Returns why no node of the cluster of `count` nodes may stop now, as this node sees it; "" if one may."""
    try:
        status, body = node.get("/health/ready")
        if status != 200:
            return f"{node}: /health/ready has status {status}: {_reasons(body)}"
        found = node.figures()
    except (OSError, http.client.HTTPException) as error:
        return f"{node} does not answer: {error}"
    if found.get("cluster_members") != count:
        return (
            f"{node} is in a cluster of {found.get('cluster_members', 0):.0f} nodes, but {count} addresses were given"
        )
    if found.get("cluster_serving") != count:
        return f"{node} sees {found.get('cluster_serving', 0):.0f} of {count} nodes serve"
    for name, words in (("slots_without_primary", "without primary"), ("slots_without_copy", "without second copy")):
        if name not in found:
            raise Wrong(f"{node}: /metrics lacks {name}, so this script cannot tell whether a node may stop")
        if found[name]:
            return f"{node} has {found[name]:.0f} slots {words}"
    return ""


def _reasons(body: str) -> str:
    try:
        return "; ".join(json.loads(body)["reasons"])
    except (ValueError, KeyError, TypeError):
        return body[:200]


def await_well(nodes: Sequence[Place], within_s: float, tell: Callable[[str], None]) -> None:
    """Wait until any node may stop. Raises `Wrong` with the last reason."""
    end, said, well = time.monotonic() + within_s, "", 0
    while well < STEADY:
        why = next(filter(None, (trouble(node, len(nodes)) for node in nodes)), "")
        well = 0 if why else well + 1
        if why and time.monotonic() > end:
            raise Wrong(f"not well within {within_s:g} s: {why}")
        if why and why != said:
            tell(f"  waiting: {why}")
            said = why
        if well < STEADY:
            time.sleep(LOOK_S)


def restart(node: Place, command: str, within_s: float) -> None:
    """Run the command for a node, and wait until another process answers there. Raises `Wrong`."""
    before = node.started()
    words = [word.replace("{host}", node.host) for word in shlex.split(command)]
    try:
        status = subprocess.run(words, check=False).returncode
    except OSError as error:
        raise Wrong(f"{node}: the command could not be run: {error}") from error
    if status:
        raise Wrong(f"{node}: {shlex.join(words)} has ended with status {status}")
    end = time.monotonic() + within_s
    while (now := node.started()) in (0.0, before):
        if time.monotonic() > end:
            what = "its process is the same as before" if now else "the node does not answer"
            raise Wrong(f"{node}: {shlex.join(words)} was run, but {what} after {within_s:g} s")
        time.sleep(LOOK_S)


def roll(nodes: Sequence[Place], command: str, within_s: float, tell: Callable[[str], None]) -> None:
    """Restart all nodes in turn. Raises `Wrong`."""
    for number, node in enumerate(nodes, 1):
        await_well(nodes, within_s, tell)
        tell(f"{number} of {len(nodes)}: {node} restarts")
        restart(node, command, within_s)
    await_well(nodes, within_s, tell)
    tell("all nodes have restarted, all serve, and all slots have their copies")


def main() -> int:
    """Run the command line. Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("nodes", nargs="+", type=place, metavar="HOST:PORT", help="the HTTP listener of each node")
    parser.add_argument("--restart", required=True, metavar="COMMAND", help="restarts the node at {host}, and returns")
    parser.add_argument("--within", type=float, default=600.0, metavar="S", help="limit of each wait, in seconds (600)")
    arguments = parser.parse_args()
    if len(set(arguments.nodes)) < len(arguments.nodes):
        parser.error("an address is given twice")
    try:
        roll(arguments.nodes, arguments.restart, arguments.within, lambda line: print(line, flush=True))
    except Wrong as wrong:
        print(f"{wrong}. No further node is restarted.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: no further node is restarted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
