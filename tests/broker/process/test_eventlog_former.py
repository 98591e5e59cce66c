"""What a start says about the log of the boot before: a kill leaves nothing unknown, a loss of power does."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from strogoff.analytics.event_lines import header_line, row_line
from strogoff.analytics.schema import MESSAGE
from strogoff.broker.process import eventlog
from strogoff.broker.process.eventlog import EventLog
from strogoff.broker.process.eventlog_former import END, FormerLog, former_log, last_row
from strogoff.broker.process.eventlog_ring import Rescued, open_ring
from strogoff.broker.reporting.events import Events
from strogoff.judge.rows import Row
from strogoff.judge.run import judge

from .test_eventlog import NOW_MS, read

NODE = "rx@192.0.2.2"
FIRST = NOW_MS << 16
"""The stamp of the first row of a boot; each later row has the next one."""
Start = Callable[..., tuple[Events, EventLog]]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """`start(boot, kernel)` starts the log below tmp_path/log, with shared memory in tmp_path/shm."""
    (tmp_path / "shm").mkdir()
    monkeypatch.setattr(eventlog, "open_ring", partial(open_ring, shared=tmp_path / "shm"))

    def start_one(boot: int, kernel: str = "k1") -> tuple[Events, EventLog]:
        log = EventLog(tmp_path / "log", "run", NODE, boot, lambda level, text: None, flush_ms=60_000, kernel=kernel)
        events = Events(NODE, boot, "run", lambda: NOW_MS, lambda: 5, MESSAGE)
        events.write_to(log)
        return events, log

    return start_one


def crash(tmp_path: Path, log: EventLog, files_keep: int | None = None, ring: bool = True) -> None:
    """End the process of a log without an orderly end. A loss of power leaves `files_keep` bytes of the newest file,
    and the `ring` perhaps."""
    for name in ("log", "shm"):
        shutil.copytree(tmp_path / name, tmp_path / "kept" / name)
    log.close()
    for name in ("log", "shm"):
        shutil.rmtree(tmp_path / name)
        shutil.move(tmp_path / "kept" / name, tmp_path / name)
    if not ring:
        shutil.rmtree(tmp_path / "shm")
        (tmp_path / "shm").mkdir()
    if files_keep is not None:
        path = max((tmp_path / "log").rglob("boot=*"))
        path.write_bytes(path.read_bytes()[:files_keep])


@pytest.mark.parametrize("flushed", [0, 3, 5])
def test_a_kill_leaves_nothing_unknown(tmp_path: Path, start: Start, flushed: int) -> None:
    """Wherever its rows are: in the ring, in files, or in both."""
    events, log = start(1)
    assert log.former is None, "nothing was before"
    for number in range(5):
        if flushed and number == flushed:
            log.flush()
        events.emit("lease.get", view=number)
    if flushed == 5:
        log.flush()
    crash(tmp_path, log)
    _, log = start(2)
    log.close()
    assert log.former == FormerLog(5, False, FIRST + 4)
    _, log = start(3)
    known = FormerLog(5, True, FIRST + 4)
    assert log.former == known, "the second boot ended before its first row: nobody knows of the first"
    log.close()


def test_a_loss_of_power_may_have_taken_rows(tmp_path: Path, start: Start) -> None:
    events, log = start(1)
    for number in range(9):
        events.emit("lease.get", view=number)
    log.flush()
    whole = len(max((tmp_path / "log").rglob("boot=*")).read_bytes())
    crash(tmp_path, log, files_keep=whole - 5, ring=False)
    _, log = start(2, "k2")
    log.close()
    assert log.former == FormerLog(8, True, FIRST + 7)


@pytest.mark.parametrize(("kernel", "lost"), [("k1", False), ("k2", True), ("", True)])
def test_a_ring_of_another_boot_of_the_kernel_may_lack_rows(
    tmp_path: Path, start: Start, kernel: str, lost: bool
) -> None:
    """It was in a file on a disk, which has lost its newest part, perhaps."""
    events, log = start(1)
    events.emit("lease.get", view=1)
    crash(tmp_path, log)
    _, log = start(2, kernel)
    log.close()
    assert log.former == FormerLog(1, lost, FIRST)


def test_an_orderly_stop_hides_nothing(tmp_path: Path, start: Start) -> None:
    events, log = start(1)
    events.emit("node.stop", reason="joined")
    events.emit("node.join")
    events.emit("node.stop")
    log.close()
    _, log = start(4, "k2")
    log.close()
    assert log.former == FormerLog(3, False, FIRST + 2)


def test_a_stop_that_has_not_written_everything_hides_nothing(tmp_path: Path, start: Start) -> None:
    """Its log is whole. What is missing is missing in the message store."""
    events, log = start(1)
    events.emit("store.state", state="full")
    events.emit("store.state", state="unwritten")
    log.close()
    _, log = start(2, "k2")
    log.close()
    assert log.former == FormerLog(2, False, FIRST + 1)


def test_a_boot_that_only_has_joined_has_not_stopped(tmp_path: Path, start: Start) -> None:
    events, log = start(1)
    events.emit("node.stop", reason="joined")
    log.close()
    _, log = start(2)
    log.close()
    assert log.former == FormerLog(1, True, FIRST)


def test_a_ring_that_was_full_has_lost_rows(tmp_path: Path) -> None:
    assert former_log([], Rescued(3, b"", [], 9, 70, "k", crowded=True), "k") == FormerLog(9, True, 70)
    assert former_log([], Rescued(3, b"", [], 9, 70, "k"), "k") == FormerLog(9, False, 70)
    assert former_log([], Rescued(3, b"", [], 0, 0, "k"), "k") is None


def test_the_last_row_that_can_be_read(tmp_path: Path) -> None:
    """Behind it a loss of power may leave zeros, or a part of a row."""
    path = tmp_path / "boot=1-000001.jsonl"
    header = header_line("run", "n", 1)
    row = row_line("lease.get", 7, 65536, 5, {"view": 1})
    for rest in (b"", b"\0" * 100, b'["lease.get",8,6'):
        path.write_bytes(header + row + rest)
        found = last_row(path)
        assert found is not None and found["seq"] == 7
    path.write_bytes(header + row + b"\0" * END)
    assert last_row(path) is None
    path.write_bytes(b"")
    assert last_row(path) is None
    assert former_log([tmp_path / "boot=1-000001.jsonl"], None, "k") == FormerLog(0, True)


class Far:
    """Rows of another node, which accepts a message and forwards it here. Its log is whole."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.events = Events("tx@192.0.2.1", 1, "run", lambda: NOW_MS, lambda: 5, MESSAGE)
        self.events.add(self.rows.append)


@pytest.mark.parametrize("power", [False, True])
def test_a_message_behind_the_lost_end_is_unknown_and_not_lost(tmp_path: Path, start: Start, power: bool) -> None:
    """The subscriber's node has the message, and loses its last rows with the power; or it never had it, and is killed:
    then the log tells that the message is lost."""
    near, log = start(1)
    far = Far()
    near.emit("node.start", retained=0)
    far.events.emit("node.start", retained=0)
    open_ = {"peer": "p", "version": 5, "clean": False, "present": False, "receive_max": 9, "keepalive_s": 0}
    near.emit("conn.open", client="rx", conn=1, epoch=1, expiry_s=60, **open_)
    near.emit("sess.create", client="rx", epoch=1)
    near.emit("sub.add", client="rx", epoch=1, filter="t", qos=1)
    near.emit("sub.ack", client="rx", conn=1, filters=["t"], codes=["1"])
    log.flush()
    whole = len(max((tmp_path / "log").rglob("boot=*")).read_bytes())
    far.events.observe(near.stamp())
    mid = ("tx@192.0.2.1", 1, 1)
    far.events.emit("pub.recv", mid=mid, client="tx", conn=1, topic="t", qos=1, packet_id=1)
    far.events.emit("pub.route", mid=mid, targets=[], nodes=[NODE])
    far.events.emit("fwd.send", mid=mid, target=NODE)
    near.observe(far.events.stamp())
    if power:
        near.emit("fwd.recv", mid=mid, source="tx@192.0.2.1")
        log.flush()
    far.events.emit("fwd.ack", mid=mid, target=NODE)
    far.events.emit("pub.ack", mid=mid, client="tx", conn=1, packet_id=1, qos=1, code=0, right="lease")
    far.events.emit("node.stop")
    crash(tmp_path, log, files_keep=whole if power else None, ring=not power)
    again, log = start(2)
    again.observe(far.events.stamp())
    assert log.former is not None
    again.emit("node.start", retained=0, **log.former.fields())
    again.emit("node.stop")
    log.close()
    report = judge([*far.rows, *read(tmp_path / "log")], complete=False)
    assert [(each.anomaly, each.kind) for each in report.findings if each.severity == "fatal"] == [("A1", "forward")]
    assert report.verdict == ("unknown" if power else "invalid")
