"""`strogoff analytics generate`: a log of any size from a seed, with planted anomalies, and what must be found in it.

`judge/planted` makes the rows, as for the tests of the judges. Memory does not depend on the length of the log.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ...judge.definitions import DEFINITIONS
from ...judge.findings import Finding, verdict
from ...judge.planted.background import LEAST_NODES, Size
from ...judge.planted.expected import Expected
from ...judge.planted.generate import CASES, PlantedLog
from ..message_ids import mid_key
from ..trouble import Trouble
from .log_writing import LogWriter

LOG: Final = "eventlog"
EXPECTED: Final = "expected.json"
_MOST_NODES: Final = 200
_MOST_HOURS: Final = 24 * 365
_MOST_SESSIONS: Final = 10_000_000


def add(jobs: Any) -> None:
    """Add the arguments of `generate`."""
    generate = jobs.add_parser("generate", help="an event log of any size, with planted anomalies; needs no Spark")
    generate.set_defaults(check=_check, alone=_run)
    generate.add_argument(
        "--out",
        metavar="DIR",
        required=True,
        help=f"new directory; the log is DIR/{LOG}, with DIR/{EXPECTED} beside it",
    )
    generate.add_argument("--messages", metavar="N", type=int, required=True, help="how many; each makes about 9 rows")
    generate.add_argument(
        "--seed", metavar="S", type=int, default=1, help="the same seed makes the same log; default: 1"
    )
    generate.add_argument("--nodes", metavar="K", type=int, default=LEAST_NODES, help=f"default: {LEAST_NODES}")
    generate.add_argument(
        "--plant",
        metavar="WHAT",
        default="",
        help="anomalies (A1,A4), names of cases, `all` anomalies, or `near-misses`; with commas between them",
    )
    generate.add_argument(
        "--one-topic", metavar="SHARE", type=float, default=0, help="this part of the messages is on one topic; 0 to 1"
    )
    generate.add_argument(
        "--sessions",
        metavar="N",
        type=int,
        default=0,
        help="more durable sessions, whose clients have gone; default: 0",
    )
    generate.add_argument(
        "--hours", metavar="H", type=float, help="how long the log is; default: as short as it can be"
    )


def _check(arguments: argparse.Namespace) -> None:
    out = Path(arguments.out)
    if "://" in arguments.out:
        raise Trouble(f"--out {out}: give a directory, not a URL")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise Trouble(f"--out {out}: exists already and is not overwritten")
    if arguments.messages < 1:
        raise Trouble(f"--messages {arguments.messages}: give a number of 1 or more")
    if not LEAST_NODES <= arguments.nodes <= _MOST_NODES:
        raise Trouble(f"--nodes {arguments.nodes}: give a number from {LEAST_NODES} to {_MOST_NODES}")
    if not 0 <= arguments.one_topic <= 1:
        raise Trouble(f"--one-topic {arguments.one_topic:g}: give a number from 0 to 1")
    if not 0 <= arguments.sessions <= _MOST_SESSIONS:
        raise Trouble(f"--sessions {arguments.sessions}: give a number from 0 to {_MOST_SESSIONS}")
    size_of(arguments.messages, arguments.nodes, arguments.hours)
    cases_of(arguments.plant)


def size_of(messages: int, nodes: int, hours: float | None) -> Size:
    """How large the log is to be. Raises Trouble if it cannot be that short or long."""
    shortest = Size(messages, nodes)
    if hours is None:
        return shortest
    if not shortest.hours <= hours <= _MOST_HOURS:
        raise Trouble(
            f"--hours {hours:g}: {messages} messages at {nodes} nodes take {shortest.hours:.3g} to {_MOST_HOURS} hours"
        )
    return Size(messages, nodes, hours / shortest.hours)


def cases_of(text: str) -> list[str]:
    """The names of the cases that are to be planted, each once. Raises Trouble for a word that names none."""
    found: dict[str, None] = {}
    for word in filter(None, (each.strip() for each in text.split(","))):
        named = [name for name, case in CASES.items() if _means(word, name, case.anomalies, case.wrong)]
        if not named:
            raise Trouble(f"--plant {word}: {_nearest(word)}")
        found.update(dict.fromkeys(named))
    return list(found)


def _nearest(word: str) -> str:
    """What the word may have been meant for: anomalies with a case if it looks like one, the names of all cases
    otherwise."""
    if not re.fullmatch("[aA][0-9]+", word):
        return f"there is no such case. Cases: {' '.join(sorted(CASES))}"
    planted = {each for case in CASES.values() for each in case.anomalies}
    trouble = "this anomaly has no case" if word.upper() in DEFINITIONS else "there is no such anomaly"
    return f"{trouble}. Anomalies with cases: {' '.join(sorted(planted, key=lambda each: int(each[1:])))}"


def _means(word: str, name: str, anomalies: Sequence[str], wrong: bool) -> bool:
    return word == name or word.upper() in anomalies or word == ("all" if wrong else "near-misses")


def _run(arguments: argparse.Namespace) -> int:
    size = replace(
        size_of(arguments.messages, arguments.nodes, arguments.hours),
        one_topic=arguments.one_topic,
        absent=arguments.sessions,
    )
    cases = cases_of(arguments.plant)
    out = Path(arguments.out)
    made = PlantedLog(arguments.seed, size, cases)
    writer = LogWriter(out / LOG)
    try:
        for row in made.rows():
            writer.add(dict(row))
        writer.close()
        result = as_json(made.expected)
        origin = {"seed": arguments.seed, "messages": size.messages, "nodes": size.nodes, "planted": cases}
        text = json.dumps({**origin, "rows": writer.rows, **result}, indent=2, ensure_ascii=False)
        (out / EXPECTED).write_text(f"{text}\n")
    except OSError as error:
        raise Trouble(f"{out}: {error.strerror or error}; the log is not complete, delete it") from None
    print(f"{writer.rows} rows of {size.messages} messages in {writer.files} files: {out / LOG}")
    print(f"an audit must find {len(result['findings'])} findings, verdict {result['verdict']}: {out / EXPECTED}")
    return 0


def as_json(expected: Iterable[Expected]) -> dict[str, Any]:
    """The verdict and the findings that an audit must have, by their ids."""
    some = sorted(expected, key=lambda each: (int(each.anomaly[1:]), each.id))
    findings = [
        Finding(each.anomaly, each.kind, each.severity, each.subject, at=0, text="", sure=each.sure) for each in some
    ]
    return {"verdict": verdict(findings), "findings": [_as_dict(each) for each in some]}


def _as_dict(expected: Expected) -> dict[str, Any]:
    subject = expected.subject
    message = "" if subject.message is None else mid_key(subject.message)
    return {
        "id": expected.id,
        "anomaly": expected.anomaly,
        "kind": expected.kind,
        "severity": expected.severity,
        "sure": expected.sure,
        "case": expected.case,
        "node": subject.node,
        "client": subject.client,
        "message": message,
        "detail": subject.detail,
    }
