"""`strogoff analytics follow`: the life of one message or of one client, from the files, without Spark and Java."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ..message_ids import mid_of
from ..output import time_text
from ..schema import LOGICAL_BITS
from ..trouble import Trouble, check_log
from .event_words import printable, words
from .lives import ClientLife, Life, MessageLife, Row
from .log_tail import LogTail

LIMIT: Final = 1000
"""How many rows are printed by default."""
MOST_FILES: Final = 10
"""So many files are named for each reason."""
POLL_S: Final = 0.5
"""With --watch, the pause between two looks at the files, in seconds."""

Say = Callable[[str], None]


def add(jobs: Any) -> None:
    """Add the arguments of `follow`."""
    follow = jobs.add_parser(
        "follow", help="one message's or one client's life in readable lines, without Spark and Java"
    )
    follow.set_defaults(check=_check, alone=_run)
    follow.add_argument("logdir", metavar="LOGDIR", help="directory of one or more nodes' event logs")
    whom = follow.add_mutually_exclusive_group(required=True)
    whom.add_argument("--mid", metavar="NODE/BOOT/COUNTER", help="the message with this identity, in quotes")
    whom.add_argument("--client", metavar="ID", help="the client with this id, and its messages and wills")
    follow.add_argument("--mountpoint", metavar="NAME", help="with --client: of this mountpoint; default: of any")
    follow.add_argument("--since", metavar="TIME", help="not earlier, such as 2026-03-01T12:00; UTC without a zone")
    follow.add_argument("--until", metavar="TIME", help="not later")
    follow.add_argument("--limit", metavar="N", type=int, default=LIMIT, help=f"most rows to print; default: {LIMIT}")
    follow.add_argument("--watch", action="store_true", help="go on with new rows until Ctrl-C")
    follow.add_argument("--format", choices=["text", "json"], default="text", help="default: text")


def _check(arguments: argparse.Namespace) -> None:
    if "://" in arguments.logdir:
        raise Trouble(f"{arguments.logdir}: give a directory, not a URL")
    check_log(arguments.logdir)
    if arguments.mountpoint is not None and arguments.client is None:
        raise Trouble("--mountpoint needs --client")
    if arguments.limit < 1:
        raise Trouble(f"--limit {arguments.limit}: give a number of 1 or more")
    since, until = time_of("--since", arguments.since), time_of("--until", arguments.until)
    if since is not None and until is not None and since > until:
        raise Trouble("--since is later than --until")
    if arguments.mid is not None:
        message_of(arguments.mid)


def message_of(text: str) -> tuple[str, int, int]:
    """The identity of a message. Raises Trouble."""
    try:
        node, boot, counter = mid_of(text)
    except ValueError:
        node, boot, counter = "", 0, 0
    if not node or boot < 1 or counter < 0:
        raise Trouble(f"--mid {text}: give NODE/BOOT/COUNTER, such as n1@10.0.0.1/3/17")
    return node, boot, counter


def time_of(option: str, text: str | None) -> int | None:
    """A time in ms since 1970. Raises Trouble."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Trouble(f"{option} {text}: give a time such as 2026-03-01T12:00:00.250 or 2026-03-01") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _run(arguments: argparse.Namespace) -> int:
    try:
        return _follow(arguments)
    except BrokenPipeError:  # the reader has seen enough, as `head` does; Python would complain once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _follow(arguments: argparse.Namespace) -> int:
    life: Life
    if arguments.mid is not None:
        life = MessageLife(message_of(arguments.mid))
    else:
        life = ClientLife(arguments.client, arguments.mountpoint)
    since, until = time_of("--since", arguments.since), time_of("--until", arguments.until)
    tail = LogTail(Path(arguments.logdir), since, until)
    printer = Printer(arguments.format, arguments.limit, lambda line: print(line, flush=True))
    for row in tail.rows(life.wants):
        if life.takes(row):
            printer.row(row, life)
    if arguments.watch:
        _watch(tail, life, printer)
    elif not printer.rows:
        skipped = f"; {tail.skipped} files of other hours were not read" if tail.skipped else ""
        skipped += "".join(f"; {each}" for each in not_read(tail))
        if arguments.mid is not None:
            raise Trouble(f"{arguments.logdir} has no row of message {arguments.mid}{skipped}. Is it of level message?")
        raise Trouble(
            f"{arguments.logdir} has no row of client {arguments.client}{skipped}. The node that served the client has "
            "its rows: give a folder with the event logs of all nodes"
        )
    printer.end(life.became(), tail)
    return 0


def not_read(tail: LogTail) -> list[str]:
    """The files that were not read, or not as a whole."""
    rejects = [f"{file} (lines: {lines})" for file, lines in sorted(tail.rejects.items())]
    others = [f"{len(tail.strangers)}, such as {tail.strangers[0]}"] if tail.strangers else []
    return [
        *_named("the compressed file breaks off, its rest is missing here", tail.damaged),
        *_named("written by a newer version of Strogoff, and not read here", tail.newer),
        *_named("lines are no events, and not read here", rejects),
        *_named("files with other names than those of an event log, not read here", others),
    ]


def _named(trouble: str, files: Sequence[str]) -> Iterator[str]:
    yield from (f"{trouble}: {printable(file)}" for file in files[:MOST_FILES])
    if len(files) > MOST_FILES:
        yield f"{trouble}: {len(files) - MOST_FILES} more"


def _watch(tail: LogTail, life: Life, printer: Printer) -> None:
    """Go on with new rows until Ctrl-C."""
    printer.limit = None
    try:
        while True:
            time.sleep(POLL_S)
            for row in tail.rows(life.wants):
                if life.takes(row):
                    printer.row(row, life)
    except KeyboardInterrupt:
        return


class Printer:
    """Says a life. Rows beyond `limit` (None: no limit) are counted only."""

    def __init__(self, form: str, limit: int | None, say: Say) -> None:
        self.limit = limit
        self.rows = 0
        self.printed = 0
        self._json = form == "json"
        self._say = say

    def row(self, row: Row, life: Life) -> None:
        """The next row."""
        self.rows += 1
        if self.limit is not None and self.rows > self.limit:
            return
        self.printed += 1
        at = time_text(row["hlc"] >> LOGICAL_BITS)
        if self._json:
            self._say(_json({"time": at, "text": words(row), "depth": life.depth(row), "row": row}))
            return
        tag = life.tag(row)
        about = f"  [{printable(tag)}]" if tag else ""
        self._say(f"{at}  {printable(row['node'])}  {'    ' * life.depth(row)}{words(row)}{about}")

    def end(self, became: list[str], tail: LogTail) -> None:
        """What became of it, and what is not said."""
        more = self.rows - self.printed
        if self._json:
            files = {
                "damaged": tail.damaged,
                "newer": tail.newer,
                "rejects": tail.rejects,
                "strangers": tail.strangers,
            }
            self._say(_json({"rows": self.rows, "omitted": more, "became": became, **files}))
            return
        if more:
            self._say(f"{more} more rows; --limit prints more of them, --since and --until others")
        for line in became:
            self._say(f"=> {line}")
        for line in not_read(tail):
            self._say(line)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
