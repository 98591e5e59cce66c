"""Write the map of slots for HAProxy (slots.cfg) from the output of `vmq-admin slot show`.

    vmq-admin slot show --format=json | python3 slot_map.py n1@10.0.0.1=node1 n2@10.0.0.2=node2 > slots.map

Each argument is the name of a node and the name of its server in slots.cfg. The map has a line for each slot that has a
primary: its number and the server. It needs Python alone, no library.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

SLOTS = 256


class SlotMapError(Exception):
    """There is no map. The text says why."""


def slot_map(text: str, servers: dict[str, str]) -> list[str]:
    """Return the lines of the map, in the order of the slots. `servers`: name of a node -> its server. Raises
    `SlotMapError`."""
    found: dict[int, str] = {}
    for node, slots in _owners(text):
        if node not in servers:
            raise SlotMapError(f"{node} has slots, and no argument names its server: add {node}=SERVER")
        found.update(dict.fromkeys(slots, servers[node]))
    if not found:
        raise SlotMapError("no slot has a primary: ask a node that serves clients")
    return [f"{slot} {found[slot]}" for slot in sorted(found)]


def _owners(text: str) -> list[tuple[str, list[int]]]:
    """Primary -> its slots."""
    try:
        parts = json.loads(text)
        parts = parts if isinstance(parts, list) else [parts]
        rows = [row for part in parts if part.get("type") == "table" for row in part["table"]]
        return [(row["Node"], _numbers(row["Slots"] or "")) for row in rows if row["State"] == "primary"]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SlotMapError("the input is not the output of vmq-admin slot show --format=json") from None


def _numbers(ranges: str) -> list[int]:
    """The numbers of a text such as "0-3 7"; ValueError if one is no slot."""
    found: list[int] = []
    for each in ranges.replace(",", " ").split():
        first, _, last = each.partition("-")
        found += range(int(first), int(last or first) + 1)
    if any(not 0 <= slot < SLOTS for slot in found):
        raise ValueError(ranges)
    return found


def _servers(arguments: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for argument in arguments:
        node, _, server = argument.rpartition("=")
        if not node or not server:
            raise SlotMapError(f"{argument}: an argument is NODE=SERVER, such as n1@10.0.0.1=node1")
        found[node] = server
    return found


def main(arguments: Sequence[str]) -> int:
    """Run the command line. Returns the exit status."""
    if not arguments or {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0 if arguments else 2
    try:
        servers = _servers(arguments)
        print("\n".join(slot_map(sys.stdin.read(), servers)))
    except SlotMapError as error:
        print(f"slot_map.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
