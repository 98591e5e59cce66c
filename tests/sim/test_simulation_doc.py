"""docs/simulation.md names every planted bug, with its bound; run as a script it writes the tables."""

from __future__ import annotations

from pathlib import Path

from strogoff.sim.planted_bugs.cluster_bugs import CLUSTER_BUGS
from strogoff.sim.planted_bugs.in_the_log import HIDDEN, SHOWN
from strogoff.sim.planted_bugs.node_bugs import NODE_BUGS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "simulation.md"


def of_one_node() -> list[str]:
    rows = [f"| `{each.name}` | {each.about} | {each.seeds} |" for each in NODE_BUGS.values()]
    return ["| bug | what it is | found within |", "|---|---|---:|", *rows]


def of_clusters() -> list[str]:
    rows = ["| bug | hazard | what it is | found as | first seed | found within |", "|---|---:|---|---|---:|---:|"]
    for each in CLUSTER_BUGS.values():
        found = ", ".join(each.finds)
        rows.append(f"| `{each.name}` | H-{each.hazard:02} | {each.about} | {found} | {each.first} | {each.seeds} |")
    return rows


def in_the_log() -> list[str]:
    rows = ["| bug | found in the event log | or why not |", "|---|---|---|"]
    rows += [f"| `{name}` | {anomalies} | |" for name, anomalies in SHOWN.items()]
    return [*rows, *[f"| `{name}` | | {why} |" for name, why in HIDDEN.items()]]


def written(page: str) -> str:
    """The page with the tables as they must be."""
    for name, rows in (
        ("one node", of_one_node()),
        ("clusters", of_clusters()),
        ("the event log", in_the_log()),
    ):
        begin, end = (f"<!-- from the planted bugs of {name}: {mark} -->\n" for mark in ("begin", "end"))
        head, _, rest = page.partition(begin)
        page = head + begin + "\n".join(["", *rows, "", ""]) + end + rest.partition(end)[2]
    return page


def test_the_tables_of_planted_bugs_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
