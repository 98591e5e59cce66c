"""A second implementation of the summary, simple and slow: one pass over each boot in the order of `seq`."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from strogoff.analytics import schema
from strogoff.analytics.event_lines import Header, Reject, decode, read_header

Row = dict[str, Any]
KINDS = {"conn.open": "connects", "pub.recv": "publishes", "dlv.send": "deliveries"}


class Reference:
    """Reads a directory; `hours`, `boots` and `rejects` are the three tables."""

    def __init__(self, directory: Path) -> None:
        self.rows: dict[tuple[str, str, int], dict[int, Row]] = defaultdict(dict)
        self.rejects: Counter[tuple[str, str]] = Counter()
        self.torn: Counter[tuple[str, int]] = Counter()
        for path in sorted(directory.rglob("boot=*-*.jsonl*")):
            self._file(path)
        self.values: Counter[tuple[str, str, int, str, str]] = Counter()
        self.logged: Counter[tuple[str, str, int]] = Counter()
        self.boots = {key: self._boot(key, [rows[seq] for seq in sorted(rows)]) for key, rows in self.rows.items()}

    def _file(self, path: Path) -> None:
        header: Header | None = None
        for line in path.read_bytes().split(b"\n"):
            found = read_header(line)
            if isinstance(found, Header):
                header = found
            elif line.strip(b" "):
                self._line(path, decode(line, header) if found is None else found)

    def _line(self, path: Path, row: Row | Reject) -> None:
        if not isinstance(row, Reject):
            self.rows[row["run_id"], row["node"], row["boot"]][row["seq"]] = row
            return
        self.rejects[row.reason, str(path)] += 1
        if row.reason == "torn":
            self.torn[unquote(path.parent.name)[5:], int(path.name[5:].split("-")[0])] += 1

    def _boot(self, key: tuple[str, str, int], rows: list[Row]) -> dict[str, Any]:
        first: int = min(row["first"] if "first" in row else row["seq"] for row in rows)
        self._hours(key, rows, first)
        numbers: set[int] = set()
        given_up: set[int] = set()
        for row in rows:
            if row["type"] == "log.gap":
                given_up |= set(range(row["first"], row["last"] + 1))
            numbers.add(row["seq"])
        last = max(numbers)
        ending = "stopped" if any(row["type"] == "node.stop" for row in rows) else "open"
        if ending == "open" and any(other[:2] == key[:2] and other[2] > key[2] for other in self.rows):
            ending = "crashed"
        return {
            "events": len(rows),
            "first_seq": first,
            "last_seq": last,
            "missing_before": 0 if any(row["type"] == "node.join" for row in rows) else first - 1,
            "given_up": len(given_up),
            "holes": len(set(range(first, last + 1)) - numbers - given_up),
            "torn": self.torn[key[1], key[2]],
            "ending": ending,
        }

    def _hours(self, key: tuple[str, str, int], rows: list[Row], first: int) -> None:
        run, node, _ = key
        begin_hour = _hour(rows[0])
        previous: Counter[tuple[str, str]] | None = Counter() if first == 1 else None
        since: Counter[tuple[str, str]] = Counter()
        snapshot, present = 0, 0
        for row in rows:
            present += row["type"] != "log.gap"
            hour = _hour(row)
            self.logged[run, node, hour] += 1
            kind, reason = KINDS.get(row["type"], ""), ""
            if row["type"] in ("q.drop", "q.expire", "fwd.drop", "ret.refuse"):
                kind, reason = "drops", row.get("reason") or "expired"
            if kind:
                self.values[run, node, hour, kind, reason] += 1
                since[kind, reason] += 1
            if row["type"] == "node.stats":
                now = Counter({(each, ""): row[each] for each in KINDS.values()})
                now.update({("drops", reason): n for reason, n in row["drops"].items()})
                if previous is not None:
                    whole = present >= row["seq"] - snapshot
                    for what in now:
                        if whole and what[0] in ("connects", "drops"):
                            continue
                        beyond = now[what] - previous[what] - since[what]
                        self.values[run, node, begin_hour, *what] += max(0, beyond)
                previous, since, begin_hour = now, Counter(), hour
                snapshot, present = row["seq"], 0

    def hours(self) -> dict[tuple[str, str, int], dict[str, Any]]:
        """By (run, node, hour): what the Spark table has in that row."""
        table: dict[tuple[str, str, int], dict[str, Any]] = {}
        for (run, node, hour), events in self.logged.items():
            table[run, node, hour] = {"events": events, "drops_by_reason": {}}
            table[run, node, hour] |= dict.fromkeys(("connects", "publishes", "deliveries", "drops"), 0)
        for (run, node, hour, kind, reason), value in self.values.items():
            if value:
                table[run, node, hour][kind] += value
                if kind == "drops":
                    table[run, node, hour]["drops_by_reason"][reason] = value
        return table


def _hour(row: Row) -> int:
    return int(row["hlc"] >> schema.LOGICAL_BITS) // 3_600_000
