"""`strogoff analytics stream`: alerts while an event log grows."""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from ...judge.alerts import Limits
from .. import output
from ..trouble import Trouble, check_log, check_outside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .batches import Batches, Records
    from .mqtt_sender import Sender

_DURATION: Final = re.compile(r"([0-9]+)(ms|s|m)")
_MS: Final = {"ms": 1, "s": 1000, "m": 60_000}
_CLIENT_ID: Final = "strogoff-alerts"
_DEFAULTS: Final = Limits()
_LOOK_S: Final = 2
"""So often the command asks Spark what came too late, and looks for signals."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def add(jobs: Any, add_spark: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add the arguments of `stream`."""
    stream = jobs.add_parser(
        "stream", help="alerts while the log grows: losses, storms, slow consumers, drops, splits; also to MQTT"
    )
    stream.set_defaults(check=_check, job=_run)
    stream.add_argument("logdir", metavar="LOGDIR", help="directory of one or more nodes' event logs")
    stream.add_argument("--out", metavar="DIR", required=True, help="directory of the alerts, new or of earlier runs")
    stream.add_argument("--mqtt", metavar="URL", help="also publish alerts to this broker: mqtt://HOST:PORT")
    stream.add_argument("--topic", metavar="T", default="strogoff/alerts", help="topic of alerts; default: %(default)s")
    stream.add_argument("--once", action="store_true", help="read what is there, and end")
    stream.add_argument("--format", choices=["text", "json"], default="text", help="default: text")
    for name, time, what in _DURATIONS:
        stream.add_argument(name, metavar="TIME", type=duration_ms, default=time, help=f"{what}; default: {time}")
    for name, number, what in _NUMBERS:
        stream.add_argument(name, metavar="N", type=_number, default=number, help=f"{what}; default: {number}")
    add_spark(stream)


_SLOW: Final = "10s"
_DURATIONS: Final = (
    ("--late", "30s", "an acknowledged message must be sent to connected subscribers in this time"),
    ("--slow", _SLOW, "a connected subscriber must answer in this time; 0s: no such alerts"),
    ("--delay", "10s", "rows that come so much later than those of other nodes are dropped"),
    ("--every", "5s", "a batch begins so often"),
)
_NUMBERS: Final = (
    ("--storm-client", _DEFAULTS.storm_client, "alert for so many connections of a client in a minute; 0: never"),
    ("--storm-node", _DEFAULTS.storm_node, "alert for so many connections at a node in a minute; 0: never"),
    ("--drops", _DEFAULTS.drops, "alert for so many drops of a node in a minute for one reason; 0: never"),
)


def duration_ms(text: str) -> int:
    """Milliseconds of a duration such as `500ms`, `30s` or `2m`. Raises ArgumentTypeError."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r:.60} is no duration; write it as 500ms, 30s or 2m")
    return int(found[1]) * _MS[found[2]]


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r:.60} is no number of 0 or more")
    return int(text)


def limits_of(arguments: argparse.Namespace) -> Limits:
    """The limits of the alerts. Raises `Trouble` for those that make no sense."""
    if not arguments.late or not arguments.every:
        raise Trouble("--late and --every must be longer than 0")
    if arguments.slow > arguments.late:
        raise Trouble(f"--slow ({_SLOW} by default) must not be longer than --late: messages are judged after --late")
    return Limits(
        late_ms=arguments.late,
        slow_ms=arguments.slow,
        storm_client=arguments.storm_client,
        storm_node=arguments.storm_node,
        drops=arguments.drops,
    )


def _check(arguments: argparse.Namespace) -> None:
    for place in (arguments.logdir, arguments.out):
        if "://" in place:
            raise Trouble(f"{place}: stream needs directories that this machine has, not URLs")
    if Path(arguments.out).is_file():
        raise Trouble(f"--out {arguments.out} is a file; give a directory")
    check_outside(arguments.out, arguments.logdir)
    check_log(arguments.logdir)
    limits_of(arguments)
    if arguments.mqtt is not None:
        from .mqtt_sender import broker_of

        broker_of(arguments.mqtt, arguments.topic)


def _run(spark: SparkSession, arguments: argparse.Namespace) -> int:
    from ..manifest import Unusable, locked
    from .batches import Batches

    out = Path(arguments.out)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(out))
        except Unusable as trouble:
            raise Trouble(str(trouble)) from None
        sender = _sender(arguments)

        def tell(records: Records) -> None:
            for each in records:
                print(_line(each, arguments.format), flush=True)
            if sender is not None and records:
                sender.wake()

        batches = Batches(out, limits_of(arguments), tell)
        if sender is not None:
            sender.start()
        try:
            _follow(spark, batches, arguments)
        finally:
            left = 0 if sender is None else sender.stop()
    if left:
        print(f"the alerts of {left} batches wait for the broker; the next run publishes them", file=sys.stderr)
    return 0


def _follow(spark: SparkSession, batches: Batches, arguments: argparse.Namespace) -> None:
    """Run the query until it ends, or until Ctrl-C or SIGTERM."""
    from pyspark.errors import StreamingQueryException

    from .streaming import Dropped, Pace, start

    asked: list[int] = []
    before = {each: signal.signal(each, lambda number, _: asked.append(number)) for each in _SIGNALS}
    try:
        pace = Pace(arguments.delay, arguments.every, arguments.once)
        query = start(spark, Path(arguments.logdir), batches, pace)
        dropped, ended = Dropped(), False
        while not (ended or asked):
            ended = bool(query.awaitTermination(_LOOK_S))
            late = dropped.look(query)
            if late:
                print(f"{late} items came more than --delay too late and were dropped", file=sys.stderr, flush=True)
        query.stop()
    except StreamingQueryException:
        if batches.trouble is None:
            raise
        raise batches.trouble from None
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _line(record: dict[str, Any], form: str) -> str:
    from .alerts_table import as_json, iso

    if form == "json":
        return as_json(record).decode()
    what = " ".join(filter(None, (record["severity"], record["alert"], record["kind"])))
    return output.printable(f"{iso(record['time'])} {what}: {record['text']}")


def _sender(arguments: argparse.Namespace) -> Sender | None:
    if arguments.mqtt is None:
        return None
    from .mqtt_sender import Sender, broker_of

    out = Path(arguments.out).resolve()
    client_id = f"{_CLIENT_ID}-{crc32(str(out).encode()):08x}"  # another stream is another client
    return Sender(out, broker_of(arguments.mqtt, arguments.topic), client_id)
