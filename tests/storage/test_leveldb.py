"""LevelDB keeps the contract of engines; its data survives kill -9; damage is always reported with its file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from strogoff.storage import keys
from strogoff.storage.engine import Corrupted, DirectoryInUse, DiskFull, Durability, StorageError, WrongDirectory
from strogoff.storage.leveldb import LevelDBEngine, LevelDBOptions
from strogoff.storage.leveldb_binding import plyvel
from strogoff.storage.store import Store
from tests.harness.thinning import thinned

from .contract import END, EngineContract, LevelDBHarness, Loop

KEYS = 20_000


@pytest.mark.parametrize("kind", ["leveldb-sync", "leveldb-os", "leveldb-fenced"])
class TestLevelDBEngine(EngineContract):
    pass


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LevelDBHarness]:
    harness = LevelDBHarness(tmp_path / "db", "sync")
    harness.open()
    yield harness
    harness.engine.close()


# One owner


def run_child(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


OPEN = "import sys; from strogoff.storage.leveldb import LevelDBEngine; LevelDBEngine(sys.argv[1], print).close()"


def test_a_second_open_is_refused_and_does_not_let_a_third_in(harness: LevelDBHarness) -> None:
    """LevelDB loses its own lock when the same process opens twice; the lock of the project stays."""
    for _ in range(2):
        with pytest.raises(DirectoryInUse) as refused:
            LevelDBEngine(harness.path, harness.loop.call_threadsafe)
        assert refused.value.pid == os.getpid()
        assert str(harness.path) in str(refused.value)
        other = run_child(OPEN, str(harness.path))
        assert other.returncode == 1
        assert f"in use by process {os.getpid()}" in other.stderr
    assert harness.write({b"a": b"1"}) is None
    harness.engine.close()
    assert run_child(OPEN, str(harness.path)).returncode == 0


def test_a_folder_with_foreign_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "CURRENT").write_text("MANIFEST-000001\n")
    with pytest.raises(WrongDirectory, match="CURRENT"):
        LevelDBEngine(tmp_path / "db", Loop().call_threadsafe)
    assert not (tmp_path / "db" / "LOG").exists()


def test_a_crash_before_the_first_open_ended_is_no_damage(tmp_path: Path) -> None:
    """The marker still says `new`: no write was made before the open finished."""
    harness = LevelDBHarness(tmp_path / "db", "sync")
    harness.open()
    harness.engine.close()
    for place in harness.path.iterdir():
        if place.name.startswith(("CURRENT", "MANIFEST", "0")):
            place.unlink()
    (harness.path / "strogoff.db.json").write_text('{"format": 1, "state": "new"}')
    harness.open()
    assert harness.all() == {}
    harness.engine.close()


# Fences


def test_the_first_batch_writes_the_fences_and_no_read_returns_them(tmp_path: Path) -> None:
    harness = LevelDBHarness(tmp_path / "db", "os", (b"e1", b"e2", b"e3"))
    harness.open()
    assert harness.write({b"e2x": b"1"}) is None
    engine = harness.engine
    assert engine.keys(b"e", b"f") == engine.keys(b"e2", b"e3") == [b"e2x"]
    assert engine.keys(b"e", b"f", 1) == engine.keys(b"e1", b"f", 1) == [b"e2x"]
    assert engine.scan(b"e", b"f", 1, reverse=True) == engine.scan(b"e2", b"f", 1) == [(b"e2x", b"1")]
    assert engine.keys(b"e3", b"e4") == engine.keys(b"e1", b"e2") == []
    engine.close()
    database = plyvel.DB(str(harness.path))
    assert [key for key, _ in database] == [b"e1", b"e2", b"e2x", b"e3"]
    database.close()


def test_each_slot_has_fences_and_its_range_begins_with_one() -> None:
    fences = keys.fences()
    assert fences == sorted(set(fences)) and len(fences) == len(keys.FENCED_KINDS) * 256
    assert keys.slot_range(b"e", 7)[0] in fences and keys.slot_range(b"e", 7)[1] in fences
    assert keys.reserved_key(7) not in fences and keys.move_key(7) not in fences


# kill -9

CHILD = """
import sys, threading
from pathlib import Path
from queue import SimpleQueue
from strogoff.storage.leveldb import LevelDBEngine, LevelDBOptions
from strogoff.storage.store import Store
calls = SimpleQueue()
engine = LevelDBEngine(Path(sys.argv[1]), calls.put, sys.argv[2], LevelDBOptions(write_buffer_size=1 << 18))
store = Store(engine, calls.put, lambda delay, function: None)
number = 0
def more():
    global number
    for part in range(10):
        store.put(b"%08d.%d" % (number, part), b"x" * 90)
    commit, mine = store.open_commit, number
    store.when_committed(commit, lambda: print(mine, flush=True))
    store.when_committed(commit, more)
    number += 1
for _ in range(20):
    more()
while True:
    calls.get()()
"""


@pytest.mark.parametrize("durability", ["sync", "os"])
@pytest.mark.parametrize("round_", range(3))
def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path, durability: Durability, round_: int) -> None:
    harness = LevelDBHarness(tmp_path / "db", durability)
    arguments = [sys.executable, "-c", CHILD, str(harness.path), durability]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        acked = -1
        for _ in range(200 + 700 * round_):
            acked = int(child.stdout.readline())
        child.kill()
        acked = max([acked, *(int(line) for line in child.stdout.read().splitlines(keepends=True) if line[-1] == "\n")])
    harness.open()
    keys = harness.engine.keys(b"", END)
    assert len(keys) >= (acked + 1) * 10
    assert keys == [b"%08d.%d" % divmod(n, 10) for n in range(len(keys))], "no gap"
    assert len(keys) % 10 == 0, "no half batch"
    harness.engine.close()


# Damage


def value_of(number: int) -> bytes:
    return Random(number).randbytes(100)


@pytest.fixture
def filled(harness: LevelDBHarness) -> LevelDBHarness:
    """A closed database with some tables and a log."""
    for start in range(0, KEYS, 1000):
        assert harness.write({b"k%06d" % n: value_of(n) for n in range(start, start + 1000)}) is None
    harness.engine.close()
    return harness


def first(harness: LevelDBHarness, pattern: str) -> Path:
    return sorted(harness.path.glob(pattern))[0]


def flip(file: Path, at: int | None = None, count: int = 1) -> None:
    content = bytearray(file.read_bytes())
    at = len(content) // 2 if at is None else at
    for place in range(at, at + count):
        content[place] ^= 0x10
    file.write_bytes(content)


def cut(file: Path, size: int) -> None:
    os.truncate(file, size)


AT_OPEN: list[tuple[str, Callable[[LevelDBHarness], object], str, str]] = [
    ("log", lambda h: flip(first(h, "*.log"), count=100), r"\.log", "most recent writes"),
    ("table gone", lambda h: first(h, "*.ldb").unlink(), r"\.ldb", "missing, with all of their keys"),
    ("CURRENT gone", lambda h: (h.path / "CURRENT").unlink(), "CURRENT", "may be complete"),
    ("CURRENT smashed", lambda h: (h.path / "CURRENT").write_text("x"), "CURRENT", "may be complete"),
    ("manifest smashed", lambda h: flip(first(h, "MANIFEST*"), 10, 50), "MANIFEST-", "may be complete"),
    ("manifest gone", lambda h: first(h, "MANIFEST*").unlink(), "CURRENT", "may be complete"),
]


@pytest.mark.parametrize(("what", "damage", "file", "loss"), AT_OPEN, ids=[row[0] for row in AT_OPEN])
def test_damage_found_at_opening_is_named(
    filled: LevelDBHarness, what: str, damage: Callable[[LevelDBHarness], object], file: str, loss: str
) -> None:
    damage(filled)
    for _ in range(2):  # trying again changes nothing and creates nothing
        with pytest.raises(Corrupted) as found:
            filled.open()
        assert str(filled.path) in found.value.file
        assert found.value.file.split("/")[-1].startswith(("CURRENT", "MANIFEST-", "0"))
        assert file.replace("\\", "") in found.value.file
        assert loss in found.value.loss
        assert "backup" in found.value.remedy


def read_all(harness: LevelDBHarness) -> tuple[int, list[Corrupted]]:
    """Read every key; returns the number of right values and the errors. A wrong value fails the test."""
    right, errors = 0, []
    for number in range(KEYS):
        try:
            value = harness.engine.get(b"k%06d" % number)
        except Corrupted as error:
            errors.append(error)
        else:
            assert value == value_of(number)
            right += 1
    return right, errors


@pytest.mark.parametrize("count", [1, 200])
def test_a_damaged_table_gives_errors_and_no_wrong_values(filled: LevelDBHarness, count: int) -> None:
    table = first(filled, "*.ldb")
    flip(table, count=count)
    filled.open()
    right, errors = read_all(filled)
    assert errors
    assert right + len(errors) == KEYS
    assert {error.file for error in errors} == {str(table)}
    with pytest.raises(Corrupted) as found:
        filled.engine.scan(b"", END)
    assert found.value.file == str(table)


def test_a_truncated_table_is_named(filled: LevelDBHarness) -> None:
    table = first(filled, "*.ldb")
    cut(table, 1000)
    filled.open()
    _, errors = read_all(filled)
    assert errors
    assert {error.file for error in errors} == {str(table)}
    assert "cut short" in errors[0].loss


def test_a_log_whose_tail_was_torn_off_by_a_crash_is_no_damage(harness: LevelDBHarness) -> None:
    for number in range(500):
        assert harness.write({b"%03d" % number: b"x" * 100, b"%03d'" % number: b"y"}) is None
    harness.engine.close()
    log = first(harness, "*.log")
    cut(log, log.stat().st_size - 50)
    harness.open()
    keys = harness.engine.keys(b"", END)
    assert len(keys) == 499 * 2, "the last batch is gone as a whole"


# The folder is deleted


@pytest.mark.parametrize("what", ["removed", "moved", "replaced"])
def test_a_deleted_folder_ends_the_writing(harness: LevelDBHarness, what: str) -> None:
    """Otherwise LevelDB would continue to write into deleted files."""
    assert harness.write({b"a": b"1"}) is None
    harness.engine.check()
    if what == "removed":
        shutil.rmtree(harness.path)
    else:
        harness.path.rename(harness.path.with_name("elsewhere"))
    if what == "replaced":
        shutil.copytree(harness.path.with_name("elsewhere"), harness.path)
    error = harness.write({b"b": b"2"})
    assert isinstance(error, StorageError) and "was removed or replaced while the node runs" in str(error)
    with pytest.raises(StorageError, match="put the directory back"):
        harness.engine.check()


# Descriptors run out

EXHAUST = """
import os, resource, sys
from queue import SimpleQueue
from pathlib import Path
from strogoff.storage.engine import OutOfDescriptors, StorageError
from strogoff.storage.leveldb import LevelDBEngine, LevelDBOptions
from strogoff.storage.store import Store

resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
calls = SimpleQueue()
engine = LevelDBEngine(Path(sys.argv[1]), calls.put, "os", LevelDBOptions(write_buffer_size=1 << 16, max_open_files=74))
store = Store(engine, calls.put, lambda delay_s, function: calls.put(function))
states = []
store.on_state = lambda state, detail: states.append((state, detail))
sockets = []
while True:
    try:
        sockets.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        break
written = 0
while not states and written < 2000:
    store.put(b"%06d" % written, os.urandom(1000))
    written += 1
    while store.bytes_waiting and not states:
        calls.get(timeout=20)()
assert states and states[0][0] == "full", states
assert "no file descriptor is left" in states[0][1], states
for _ in range(20):
    calls.get(timeout=20)()
assert store.state == "full"
for each in sockets:
    os.close(each)
for number in range(written, written + 500):
    store.put(b"%06d" % number, os.urandom(1000))
done = []
store.flush(lambda: done.append(True))
while not done:
    calls.get(timeout=20)()
assert store.state == "serving"
assert len(store.keys(b"", b"~")) == written + 500
store.close()
"""


def test_a_store_continues_when_descriptors_are_free_again(tmp_path: Path) -> None:
    """No write is acknowledged without descriptors, none is lost, and no restart is needed."""
    child = run_child(EXHAUST, str(tmp_path / "db"))
    assert child.returncode == 0, child.stderr


# Disk full


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"mounting a small file system is not permitted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("durability", thinned(["sync", "os"], 2))
def test_a_full_disk_is_survived(small_disk: Path, durability: Durability) -> None:
    """Writes fail, reads work, no acknowledged write is lost, and writes work again when there is space."""
    harness = LevelDBHarness(small_disk / "db", durability)
    harness.open()
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(8 << 20))
    done = 0
    while (error := harness.write({b"%06d.%d" % (done, n): Random(done).randbytes(1000) for n in range(20)})) is None:
        done += 1
    assert isinstance(error, DiskFull)
    assert done > 100
    failed: dict[bytes, bytes | None] = {b"%06d.%d" % (done, n): Random(done).randbytes(1000) for n in range(20)}
    again = harness.write(failed)
    assert isinstance(again, DiskFull)
    assert "3 MiB are free" in str(again)
    assert len(harness.engine.keys(b"", b"%06d" % done)) == done * 20, "reads go on"
    ballast.unlink()
    assert harness.write(failed) is None
    assert harness.write({b"more": b"1"}) is None
    harness.engine.close()
    harness.open()
    keys = harness.engine.keys(b"", END)
    assert keys == sorted([b"%06d.%d" % (m, n) for m in range(done + 1) for n in range(20)] + [b"more"])
    assert not (harness.path / "strogoff.probe").exists()
    harness.engine.close()


def test_a_store_continues_when_there_is_space_again(small_disk: Path) -> None:
    harness = LevelDBHarness(small_disk / "db", "sync")
    harness.open()
    loop = harness.loop
    store = Store(harness.engine, loop.call_soon, loop.call_later)
    states: list[str] = []
    store.on_state = lambda state, detail: states.append(state)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(8 << 20))
    written, acked = 0, [0]
    while store.accepting:
        store.put(b"%06d" % written, Random(written).randbytes(20_000))
        written += 1
        loop.run_until(
            lambda: (store.committed == store.open_commit - 1 and not store.bytes_waiting) or not store.accepting
        )
    store.flush(lambda: acked.append(written))
    loop.advance(20.0)
    assert acked == [0]
    assert store.get(b"%06d" % (written - 1)) is not None, "kept, and seen by reads"
    ballast.unlink()
    loop.run_until(lambda: len(acked) > 1)
    assert (states[0], states[-1]) == ("full", "serving")
    assert len(harness.engine.keys(b"", END)) == written
    store.close()


# The thread


def test_a_wrong_type_reaches_the_caller_and_writes_nothing(harness: LevelDBHarness) -> None:
    error = harness.write({b"a": b"1", b"b": "text"})  # type: ignore[dict-item]
    assert isinstance(error, TypeError)
    assert harness.all() == {}
    assert harness.write({b"c": b"3"}) is None, "and the thread lives"


def test_reads_and_writes_at_once(harness: LevelDBHarness) -> None:
    """The loop's thread reads while the other thread writes: each batch is visible as a whole."""
    ends: list[Exception | None] = []
    number = 0
    while number < 300:
        harness.engine.write({b"a": b"%d" % number, b"b": b"%d" % number}, ends.append)
        while len(ends) == number:
            rows = harness.engine.scan(b"", END)
            assert len({value for _, value in rows}) <= 1
            harness.loop.turn()
        number += 1
    assert ends == [None] * 300


def test_close_ends_the_thread_even_if_the_loop_is_gone(tmp_path: Path) -> None:
    def closed_loop(function: Callable[[], None]) -> None:
        raise RuntimeError("Event loop is closed")

    before = threading.active_count()
    engine = LevelDBEngine(tmp_path / "db", closed_loop)
    engine.write({b"a": b"1"}, lambda error: None)
    engine.close()
    assert threading.active_count() == before
    with pytest.raises(StorageError, match="closed"):
        engine.get(b"a")
    harness = LevelDBHarness(tmp_path / "db", "sync")
    harness.open()
    assert harness.all() == {b"a": b"1"}
    harness.engine.close()


def test_options_reach_leveldb() -> None:
    arguments = LevelDBOptions(write_buffer_size=1, compression=False, bloom_filter_bits=3).arguments()
    assert arguments["paranoid_checks"] is True
    assert arguments["write_buffer_size"] == 1
    assert arguments["compression"] is None
    assert arguments["bloom_filter_bits"] == 3
