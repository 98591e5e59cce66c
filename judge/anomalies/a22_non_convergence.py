"""A22 non-convergence: nodes do not come to have the same replicated map.

Nodes compare their copies of the map every few seconds, and after each time when they did not hear each other. Both
write `map.sync`: which writes each has seen (`context`), and which of them are in force (`digest`). What is in force
follows from what was seen. Kinds:

- `different`: both had seen the same writes, and their copies differed;
- `behind`: after the comparison the node that had asked lacked writes that the other one had; the number is how many;
- `no-round`: within a minute after the heal of an incident the node has not completed a comparison, although it was up
  and had another node in its view all this time. Heals before its first comparison in the log are not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ..findings import Finding, Subject
from ..rows import LOGICAL_BITS, NEVER, Row, row_id
from ..world import World

ID = "A22"
TYPES: Final = frozenset(("map.sync",))
"""The types of rows that are judged."""
LIMIT: Final = 60_000 << LOGICAL_BITS
"""Within which time after a heal a node completes a comparison, 60 s: it begins one about every 6 s."""


def asker(row: Row) -> str:
    """Returns the node that asked for the comparison."""
    return str(row["node"] if row.get("source") is None else row["source"])


def order(row: Row) -> tuple[int, int]:
    """Returns by what the comparisons that one node has asked for are sorted."""
    return row["exchange"], row["hlc"]


def judge(rows: Iterable[Row], world: World) -> Iterator[Finding]:
    """Judge all comparisons that one node has asked for, in `order`. It holds one row."""
    answer: Row | None = None
    heals: list[int] | None = None
    node = ""
    for row in rows:
        if row.get("source") is not None:
            answer = row
            continue
        node = row["node"]
        if heals is None:
            known = (each.healed for each in world.incidents.of(node))
            heals = sorted((each for each in known if row["hlc"] < each < NEVER), reverse=True)
        while heals and heals[-1] < row["hlc"]:
            yield from _late(node, heals.pop(), row["hlc"], world)
        yield from _compare(row, answer)
    for healed in reversed(heals or ()):
        yield from _late(node, healed, NEVER, world)


def _compare(row: Row, answer: Row | None) -> Iterator[Finding]:
    subject = Subject(row["node"], detail=f"comparison {row['exchange']}")
    if row.get("behind"):
        text = f"{row['node']} lacks {row['behind']} writes that {row['target']} had when they compared their maps"
        yield Finding(ID, "behind", "fatal", subject, row["hlc"], text, (row_id(row),), value=row["behind"])
    if answer is None or answer["exchange"] != row["exchange"] or not row["context"]:
        return
    if answer["context"] == row["context"] and answer["digest"] != row["digest"]:
        text = f"the maps of {row['node']} and {row['target']} differ, although both have seen the same writes"
        yield Finding(ID, "different", "fatal", subject, row["hlc"], text, (row_id(answer), row_id(row)))


def _late(node: str, healed: int, done: int, world: World) -> Iterator[Finding]:
    """Judge the first comparison after a heal, which was completed at `done`."""
    end = healed + LIMIT
    if done <= end or not world.lives.was_up(node, healed, end):
        return
    if any(world.views.had(node, other, healed, end) for other in world.lives.first_boot if other != node):
        subject = Subject(node, detail=f"healed {healed}")
        text = f"{node} has not compared its map with another node's within a minute after the heal"
        yield Finding(ID, "no-round", "error", subject, healed, text)
