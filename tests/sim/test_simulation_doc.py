"""docs/simulation.md names every plant, with its bound; run as a script it writes the table."""

from __future__ import annotations

import re
from pathlib import Path

from strogoff.sim.planted_bugs.cluster_bugs import CLUSTER_BUGS
from strogoff.sim.planted_bugs.node_bugs import NODE_BUGS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "simulation.md"
BEGIN = "<!-- from the planted bugs of clusters: begin -->\n"
END = "<!-- from the planted bugs of clusters: end -->\n"


def table() -> str:
    rows = [
        "",
        "| bug | hazard | what it is | found as | first seed | found within |",
        "|---|---:|---|---|---:|---:|",
    ]
    for each in CLUSTER_BUGS.values():
        found = ", ".join(each.finds)
        rows.append(f"| `{each.name}` | H-{each.hazard:02} | {each.about} | {found} | {each.first} | {each.seeds} |")
    return "\n".join([*rows, "", ""])


def written(page: str) -> str:
    """The page with the table as it has to be."""
    head, _, rest = page.partition(BEGIN)
    return head + BEGIN + table() + END + rest.partition(END)[2]


def test_plants_of_a_cluster() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page)


def test_plants_of_one_node() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \| (\d+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(each.name, each.about, str(each.seeds)) for each in NODE_BUGS.values()]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
