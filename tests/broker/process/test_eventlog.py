"""The writer of the event log: rows in the files, dropped rows, and the record of each drop."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from strogoff.analytics.event_lines import header_line
from strogoff.analytics.schema import LOGICAL_BITS, MESSAGE, VERSION, validate
from strogoff.broker.process import eventlog
from strogoff.broker.process.eventlog import EventLog
from strogoff.broker.process.eventlog_ring import open_ring
from strogoff.broker.reporting.choice import Choice
from strogoff.broker.reporting.events import Events
from strogoff.broker.reporting.metrics import Counters
from strogoff.cluster.identity import Numbers
from strogoff.testing.log_audit.log_files import read_log

Row = dict[str, Any]
NOW_MS = 1_772_366_400_000


def read(directory: Path) -> list[Row]:
    """All rows, in the order of seq."""
    rows, rejects = read_log(directory)
    assert rejects == []
    return sorted(rows, key=lambda row: (row["boot"], row["seq"]))


def files_of(directory: Path) -> list[str]:
    """Returns the names of all files, those that are being compressed without the unfinished part."""
    return sorted(path.name for path in directory.rglob("boot=*") if not path.name.endswith(".part"))


def covered(rows: list[Row]) -> list[int]:
    """Returns the numbers that the log accounts for, as events or as named gaps."""
    numbers: list[int] = []
    for row in rows:
        numbers += range(row["first"], row["last"] + 1) if row["type"] == "log.gap" else [row["seq"]]
    return numbers


class Held:
    """The disk of a log hangs until it is released: the first write of the writer's thread waits."""

    def __init__(self, log: EventLog) -> None:
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self._write = log._files.write
        log._files.write = self._held  # type: ignore[method-assign]

    def _held(self, lines: Sequence[tuple[int, bytes]]) -> tuple[int, OSError | None]:
        self.reached.set()
        assert self.go_on.wait(10)
        return self._write(lines)


Make = Callable[..., tuple[Events, EventLog]]


@pytest.fixture
def said() -> list[tuple[str, str]]:
    """Returns the lines of the operator's log."""
    return []


@pytest.fixture
def make(tmp_path: Path, said: list[tuple[str, str]]) -> Iterator[Make]:
    """Events with a log below tmp_path/log; `make(**arguments of EventLog)`."""
    logs: list[EventLog] = []

    def make_one(**options: Any) -> tuple[Events, EventLog]:
        log = EventLog(tmp_path / "log", "run", "n1", 1, lambda level, text: said.append((level, text)), **options)
        logs.append(log)
        events = Events("n1", 1, "run", lambda: NOW_MS, lambda: 5, MESSAGE)
        events.write_to(log)
        return events, log

    yield make_one
    for log in logs:
        log.close()


def publish(events: Events, count: int = 1) -> None:
    for _ in range(count):
        events.emit("pub.recv", mid=("n1", 1, events.seq), client="c", topic="t", qos=0, conn=1)


def test_rows_are_in_the_file_after_flush(make: Make, tmp_path: Path) -> None:
    events, log = make(flush_ms=60_000)
    events.emit("conn.close", client="ключ", conn=1, reason="closed", username=None)
    publish(events)
    assert log.flush()
    rows = read(tmp_path / "log")
    assert [row["type"] for row in rows] == ["conn.close", "pub.recv"]
    assert {(row["v"], row["run_id"], row["node"], row["boot"]) for row in rows} == {(VERSION, "run", "n1", 1)}
    assert [validate(row) for row in rows] == [[], []]
    assert rows[0]["client"] == "ключ"
    assert (rows[1]["mid"], rows[1]["hlc"]) == (["n1", 1, 1], (NOW_MS << LOGICAL_BITS) + 1)
    assert (log.written, log.lost) == (2, 0)


def test_close_writes_the_rest_and_names_the_file(make: Make, tmp_path: Path) -> None:
    events, log = make(flush_ms=60_000)
    publish(events, 2500)
    log.close()
    assert covered(read(tmp_path / "log")) == list(range(1, 2501))
    assert [path.name for path in tmp_path.rglob("boot=*")] == ["boot=1-000001.jsonl"]
    log.close()


def test_rows_reach_the_file_without_flush(make: Make, tmp_path: Path) -> None:
    events, log = make(flush_ms=1)
    held = Held(log)
    events.emit("node.stop")
    assert held.reached.wait(10)
    held.go_on.set()
    log.close()
    assert [row["type"] for row in read(tmp_path / "log")] == ["node.stop"]


def test_overflow_drops_message_events_first_and_records_it(make: Make, tmp_path: Path) -> None:
    """A quarter of the ring is for session events alone. Message events come back when a quarter is free."""
    events, log = make(ring_size=8_000, flush_ms=0)
    held = Held(log)
    events.emit("node.stop")
    assert held.reached.wait(10)
    publish(events, 120)
    first = log.lost
    kept = 120 - first
    assert 80 < kept < 110
    events.emit("sess.end", client="c", epoch=1, reason="expired")
    publish(events, 3)
    assert log.lost == first + 3
    held.go_on.set()
    assert log.flush()
    publish(events)
    assert log.flush()
    rows = read(tmp_path / "log")
    assert covered(rows) == list(range(1, 127))
    gaps = [row for row in rows if row["type"] == "log.gap"]
    assert [(row["first"], row["last"], row["rows"]) for row in gaps] == [(kept + 2, 121, first), (123, 125, 3)]
    assert {row["reason"] for row in gaps} == {"overflow"} and all(validate(row) == [] for row in rows)
    assert [row["type"] for row in rows].count("sess.end") == 1
    assert (log.lost, log.written) == (first + 3, len(rows))


def test_no_row_is_missing_if_messages_are_left_out_while_the_log_is_pressed(make: Make, tmp_path: Path) -> None:
    """Pressed from half of the ring on, until an eighth. Rows of messages that are under way have place meanwhile."""
    events, log = make(ring_size=32_000, flush_ms=0)
    held = Held(log)
    events.emit("node.stop")
    assert held.reached.wait(10)
    count = 0
    while not events.pressed():
        publish(events)
        count += 1
    assert 200 < count < 330
    publish(events, 80)
    assert log.lost == 0 and log.pressed
    held.go_on.set()
    assert log.flush()
    assert not log.pressed
    assert covered(read(tmp_path / "log")) == list(range(1, count + 82))


def test_a_slow_disk_costs_whole_messages_and_no_rows(make: Make, tmp_path: Path) -> None:
    """Each message has all its rows or none, although its rows come between those of later messages."""
    events, log = make(ring_size=64_000, flush_ms=1)
    append, numbers, waiting = log._files._append_bytes, Numbers(1), list[Callable[[], None]]()
    slow = threading.Event()

    def slowly(content: bytes) -> None:
        slow.wait(0.01)
        append(content)

    log._files._append_bytes = slowly  # type: ignore[method-assign]
    choice = Choice(events, Counters(), lambda ms, call: waiting.append(call))
    under_way = deque[tuple[str, int, int]]()
    for _ in range(6_000):
        mid = ("n1", 1, numbers.next(choice.takes("c", "t")))
        events.emit("pub.recv", mid=mid, client="c", topic="t", qos=0, conn=1)
        under_way.append(mid)
        if len(under_way) > 40:
            for node in ("n2", "n3"):
                events.emit("fwd.send", mid=under_way[0], target=node)
            under_way.popleft()
    assert choice.sampling and log.flush()
    while waiting:
        waiting.pop()()
    assert log.flush()
    rows = read(tmp_path / "log")
    assert covered(rows) == list(range(1, len(rows) + 1)) and log.lost == 0
    assert [row["type"] for row in rows].count("log.gap") == 0
    found = Counter(row["mid"][2] for row in rows if "mid" in row)
    left = {mid[2] for mid in under_way}
    assert {count for counter, count in found.items() if counter not in left} == {3}
    marks = [row for row in rows if row["type"] == "log.sample"]
    assert [row["state"] for row in marks] == ["begin", "end"]
    assert marks[-1]["count"] == 6_000 - len(found) > 0


def test_session_events_are_bounded_too(make: Make, tmp_path: Path) -> None:
    events, log = make(ring_size=4_000, flush_ms=0)
    held = Held(log)
    events.emit("node.stop")
    assert held.reached.wait(10)
    for _ in range(100):
        events.emit("sess.end", client="c", epoch=1, reason="expired")
    assert 30 < log.lost < 60
    held.go_on.set()
    log.close()
    rows = read(tmp_path / "log")
    assert covered(rows) == list(range(1, 102))
    assert (rows[-1]["type"], rows[-1]["rows"]) == ("log.gap", log.lost)


def test_the_log_continues_after_a_full_disk(make: Make, tmp_path: Path, said: list[tuple[str, str]]) -> None:
    (tmp_path / "log").write_text("a file where the folder should be")
    events, log = make(flush_ms=0)
    publish(events, 3)
    assert log.flush()
    publish(events, 2)
    assert log.flush()
    assert (log.failing, log.lost, log.written) == (True, 5, 0)
    assert [level for level, _ in said] == ["error"]
    (tmp_path / "log").unlink()
    publish(events, 2)
    assert log.flush()
    assert (log.failing, log.lost, log.written) == (False, 5, 3)
    assert said[1:] == [("warning", "event log: it can be written again; events 1 to 5 are missing")]
    rows = read(tmp_path / "log")
    assert [(row["type"], row["seq"]) for row in rows] == [("log.gap", 5), ("pub.recv", 6), ("pub.recv", 7)]
    assert (rows[0]["first"], rows[0]["reason"]) == (1, "disk")


def test_a_failed_round_names_only_the_missing_rows(make: Make, tmp_path: Path) -> None:
    events, log = make(flush_ms=60_000)
    publish(events, 3000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        assert log.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert log.failing
    publish(events)
    assert log.flush()
    rows = read(tmp_path / "log")
    assert covered(rows) == list(range(1, 3002))
    assert log.lost == 3001 - sum(row["type"] == "pub.recv" for row in rows)
    assert sum(row["type"] == "log.gap" for row in rows) == 1


def test_a_row_that_json_cannot_encode_is_a_gap_of_one(make: Make, tmp_path: Path, said: list[tuple[str, str]]) -> None:
    events, log = make()
    events.emit("sess.end", client="\ud800", reason="odd")
    events.emit("node.stop", reason="ok")
    assert log.flush()
    rows = read(tmp_path / "log")
    assert [(row["type"], row.get("reason")) for row in rows] == [("log.gap", "unencodable"), ("node.stop", "ok")]
    assert covered(rows) == [1, 2]
    assert log.lost == 1
    assert said[0][0] == "error"


def test_settings_of_vernemq_conf(tmp_path: Path) -> None:
    settings = {
        "eventlog.dir": str(tmp_path),
        "eventlog.rotation.size": len(header_line("run", "n1", 3)) + 300,
        "eventlog.rotation.age": 3600,
        "eventlog.keep_days": 1,
        "eventlog.keep_size": 0,
        "eventlog.level": "message",
    }
    log = EventLog.from_settings(settings, "run", "n1", 3, lambda level, text: None)
    events = Events("n1", 3, "run", lambda: NOW_MS, lambda: 5)
    events.write_to(log)
    for _ in range(4):
        events.emit("sess.end", client="c" * 50, reason="expired")
    log.close()
    assert [file.partition(".")[0] for file in files_of(tmp_path)] == ["boot=3-000001", "boot=3-000002"]


def test_flush_answers_when_the_disk_hangs(make: Make) -> None:
    events, log = make(flush_ms=0)
    held = Held(log)
    events.emit("node.stop")
    assert held.reached.wait(10)
    assert not log.flush(timeout_s=0.01)
    log.close(timeout_s=0.01)
    held.go_on.set()


def test_a_row_after_the_end_disturbs_nobody(make: Make, tmp_path: Path) -> None:
    """The loop still runs while the writer's thread ends."""
    events, log = make()
    events.emit("node.stop")
    log.close()
    events.emit("node.stop")
    assert covered(read(tmp_path / "log")) == [1]


def test_another_run_has_its_own_header_line(make: Make, tmp_path: Path) -> None:
    """The rows before and after the change are in two files; `seq` goes on."""
    events, log = make(flush_ms=60_000)
    publish(events, 3)
    events.belong_to("joined")
    publish(events, 2)
    log.close()
    rows = read(tmp_path / "log")
    assert [(row["run_id"], row["seq"]) for row in rows] == [
        *(("run", n) for n in (1, 2, 3)),
        *(("joined", n) for n in (4, 5)),
    ]


def test_another_run_waits_for_a_place_before_its_rows(make: Make, tmp_path: Path) -> None:
    """While the header line has no place in the ring, the rows behind it are dropped, though they have one."""
    events, log = make(ring_size=6_000, flush_ms=0)
    held = Held(log)
    events.emit("node.stop")
    assert held.reached.wait(10)
    for _ in range(40):
        events.emit("sess.end", client="c", reason="expired")
    assert log.lost == 0
    events.belong_to("joined")
    events.emit("sess.end", client="d", reason="expired")
    assert log.lost == 1
    held.go_on.set()
    assert log.flush()
    events.emit("node.stop")
    log.close()
    rows = read(tmp_path / "log")
    assert covered(rows) == list(range(1, 44))
    assert [(row["type"], row["run_id"]) for row in rows[-2:]] == [("log.gap", "joined"), ("node.stop", "joined")]
    assert {row["run_id"] for row in rows[:-2]} == {"run"}


@pytest.mark.parametrize(("kind", "fields"), [("node.unknown", {}), ("node.stop", {"reasons": "x"})])
def test_a_row_that_the_schema_lacks_is_a_gap_of_one(
    make: Make, tmp_path: Path, said: list[tuple[str, str]], kind: str, fields: dict[str, str]
) -> None:
    events, log = make()
    events.emit(kind, **fields)
    assert log.flush()
    (row,) = read(tmp_path / "log")
    assert (row["type"], row["reason"], log.lost) == ("log.gap", "unencodable", 1)
    assert said[0][0] == "error"


def test_without_any_place_for_the_ring_a_line_says_what_a_kill_loses(
    tmp_path: Path, said: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eventlog, "open_ring", partial(open_ring, shared=tmp_path / "missing"))
    (tmp_path / "log").write_text("a file where the folder should be")
    log = EventLog(tmp_path / "log", "run", "n1", 1, lambda level, text: said.append((level, text)))
    ((level, text),) = said
    assert level == "warning" and text.endswith("a kill of the node loses the last 0.2 s of it")
    events = Events("n1", 1, "run", lambda: NOW_MS, lambda: 5, MESSAGE)
    events.write_to(log)
    (tmp_path / "log").unlink()
    publish(events)
    log.close()
    assert covered(read(tmp_path / "log")) == [1]


def test_rows_of_two_hours_go_to_their_folders(make: Make, tmp_path: Path) -> None:
    _, log = make(flush_ms=60_000)
    now_ms = [NOW_MS - 1]
    events = Events("n1", 1, "run", lambda: now_ms[0], lambda: 5)
    events.write_to(log)
    events.emit("node.stop")
    now_ms[0] += 1
    events.emit("node.stop")
    log.close()
    assert sorted({path.parent.parent.name for path in tmp_path.rglob("boot=*")}) == ["hour=11", "hour=12"]


CRASHING = """
import os, signal, sys
from pathlib import Path
from strogoff.broker.process.eventlog import EventLog
from strogoff.broker.process.eventlog_ring import open_ring
from strogoff.broker.reporting.events import Events
log = EventLog(Path(sys.argv[1]), "run", "n1", 1, print, flush_ms=60_000)
events = Events("n1", 1, "run", lambda: 1_772_366_400_000, lambda: 5)
events.write_to(log)
for _ in range(100):
    events.emit("node.stop")
log.flush()
for number in range(int(sys.argv[2])):
    if number == 1:
        events.belong_to("joined")
    events.emit("node.stop")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.system
@pytest.mark.parametrize("late", [0, 1, 2500])
def test_all_rows_survive_kill_9(tmp_path: Path, said: list[tuple[str, str]], late: int) -> None:
    """The files have the rows of the last flush, shared memory those after it. The next start brings them together."""
    ended = subprocess.run([sys.executable, "-c", CRASHING, str(tmp_path), str(late)], timeout=60, env=dict(os.environ))
    assert ended.returncode == -signal.SIGKILL
    (torn,) = tmp_path.rglob("boot=*")
    assert torn.name == "boot=1-000001.jsonl.open" and covered(read(tmp_path)) == list(range(1, 101))
    with torn.open("a") as file:
        file.write('["node.stop",17,1161')
    log = EventLog(tmp_path, "run", "n1", 2, lambda level, text: said.append((level, text)))
    log.close()
    assert not any(name.endswith(".open") for name in files_of(tmp_path))
    rows = read(tmp_path) if late else []
    assert covered(rows) == list(range(1, 101 + late if late else 1))
    assert all(row["run_id"] == ("joined" if row["seq"] > 101 else "run") for row in rows)
    text = f"event log: {late} events of start 1, which was killed, are in the files now"
    assert said == ([("info", text)] if late else [])
