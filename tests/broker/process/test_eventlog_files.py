"""The event log's files: names, rotation, deletion, and writes that fail half way."""

from __future__ import annotations

import gzip
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import pytest

from strogoff.analytics.event_lines import header_line, row_line
from strogoff.broker.process.eventlog_files import HOUR_MS, Limits, LogFiles, node_folder

NOON = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1000)


HEAD = b"#\n"


def files(directory: Path, node: str = "n1", boot: int = 1, head: bytes = b"", **limits: int) -> LogFiles:
    log = LogFiles(directory, node, boot, Limits(**{"size": 10_000, "keep_days": 0, **limits}))
    log.begin(head)
    return log


def line(text: str, when_ms: int = NOON) -> tuple[int, bytes]:
    return when_ms, text.encode() + b"\n"


def tree(directory: Path) -> dict[str, str]:
    return {str(p.relative_to(directory)): p.read_text() for p in sorted(directory.rglob("*")) if p.is_file()}


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """The kernel refuses to make files longer, as a full disk does: first a short write, then an error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_is_open_until_it_is_complete(tmp_path: Path) -> None:
    log = files(tmp_path)
    assert log.write([line("a"), line("b")]) == (2, None)
    name = "date=2026-03-01/hour=12/node=n1/boot=1-000001.jsonl"
    assert tree(tmp_path) == {name + ".open": "a\nb\n"}
    log.write([line("c")])
    log.close()
    log.close()
    assert tree(tmp_path) == {name: "a\nb\nc\n"}


def test_an_hour_of_the_event_has_its_own_folder(tmp_path: Path) -> None:
    log = files(tmp_path)
    log.write([line("a", NOON + HOUR_MS - 1), line("b", NOON + HOUR_MS), line("c", NOON + 12 * HOUR_MS)])
    log.close()
    assert tree(tmp_path) == {
        "date=2026-03-01/hour=12/node=n1/boot=1-000001.jsonl": "a\n",
        "date=2026-03-01/hour=13/node=n1/boot=1-000002.jsonl": "b\n",
        "date=2026-03-02/hour=00/node=n1/boot=1-000003.jsonl": "c\n",
    }


def test_rotation_by_size_keeps_lines_whole(tmp_path: Path) -> None:
    log = files(tmp_path, size=6)
    assert log.write([line("aa"), line("bb"), line("cc"), line("longer than six"), line("d")]) == (5, None)
    log.write([line("ee"), line("ff")])
    log.close()
    assert list(tree(tmp_path).values()) == ["aa\nbb\n", "cc\n", "longer than six\n", "d\nee\n", "ff\n"]


def test_rotation_by_age_of_the_events(tmp_path: Path) -> None:
    log = files(tmp_path, age_ms=1000)
    log.write([line("a"), line("b", NOON + 999), line("c", NOON + 1000)])
    log.close()
    assert list(tree(tmp_path).values()) == ["a\nb\n", "c\n"]


@pytest.mark.parametrize(
    ("node", "folder"),
    [
        ("VerneMQ@127.0.0.1", "node=VerneMQ@127.0.0.1"),
        ("../../etc", "node=..%2F..%2Fetc"),
        ("a b*?[x]{y}%", "node=a%20b%2A%3F%5Bx%5D%7By%7D%25"),
        ("узел", "node=%D1%83%D0%B7%D0%B5%D0%BB"),
        ("", "node="),
    ],
)
def test_a_node_name_is_no_path(node: str, folder: str, tmp_path: Path) -> None:
    assert node_folder(node) == folder
    log = files(tmp_path, node)
    log.write([line("a")])
    log.close()
    assert list(tree(tmp_path)) == [f"date=2026-03-01/hour=12/{folder}/boot=1-000001.jsonl"]


def test_nothing_is_overwritten_when_boots_begin_again(tmp_path: Path) -> None:
    for text in ("first life", "second life"):
        log = files(tmp_path)
        log.write([line(text)])
        log.close()
    assert list(tree(tmp_path).values()) == ["first life\n", "second life\n"]


def test_a_file_left_open_by_a_crash_gets_its_final_name(tmp_path: Path) -> None:
    files(tmp_path).write([line("crashed")])
    other = files(tmp_path, "n2")
    other.write([line("alive")])
    again = files(tmp_path, boot=2)
    assert again.adopt_leftovers() == 1
    assert tree(tmp_path) == {
        "date=2026-03-01/hour=12/node=n1/boot=1-000001.jsonl": "crashed\n",
        "date=2026-03-01/hour=12/node=n2/boot=1-000001.jsonl.open": "alive\n",
    }
    assert files(tmp_path / "missing").adopt_leftovers() == 0


def test_a_directory_that_is_deleted_at_the_start_ends_no_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LogFiles(tmp_path, "n1", 2, Limits())

    def gone(*_: object) -> NoReturn:
        raise FileNotFoundError(tmp_path)

    monkeypatch.setattr(Path, "glob", gone)
    assert files.adopt_leftovers() == 0


def test_old_days_of_this_node_are_deleted_and_nothing_else(tmp_path: Path) -> None:
    day = 24 * HOUR_MS
    for node in ("n1", "n2"):
        log = files(tmp_path, node)
        log.write([line(f"{age} {node}", NOON - age * day) for age in (3, 2, 1)])
        log.close()
    (tmp_path / "date=2026-02-26/hour=12/node=n1/notes.txt").write_text("mine")
    (tmp_path / "date=yesterday").mkdir()
    log = files(tmp_path, boot=2, keep_days=1)
    log.write([line("today")])
    log.close()
    assert set(tree(tmp_path).values()) == {"3 n2\n", "2 n2\n", "1 n2\n", "1 n1\n", "today\n", "mine"}
    files(tmp_path, "n2", boot=2, keep_days=1).write([line("today")])
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "date=2026-02-26",  # somebody's notes are in it
        "date=2026-02-28",
        "date=2026-03-01",
        "date=yesterday",
    ]


@pytest.mark.parametrize("days", [400_000, 999_999, 10**20])
def test_days_that_go_back_a_thousand_years_and_more_delete_nothing(tmp_path: Path, days: int) -> None:
    log = files(tmp_path, keep_days=days)
    for day, text in ((-3, "old"), (0, "today"), (1, "tomorrow")):
        assert log.write([line(text, NOON + day * 24 * HOUR_MS)]) == (1, None)
    log.close()
    assert list(tree(tmp_path).values()) == ["old\n", "today\n", "tomorrow\n"]


def test_a_write_that_fails_half_way_ends_after_a_whole_line(tmp_path: Path) -> None:
    log = files(tmp_path)
    log.write([line("12345")])
    with file_size_limit(15):
        done, error = log.write([line("abcdef"), line("ghi"), line("jkl")])
    assert done == 1
    assert isinstance(error, OSError)
    assert tree(tmp_path) == {"date=2026-03-01/hour=12/node=n1/boot=1-000001.jsonl": "12345\nabcdef\n"}
    assert log.write([line("ghi"), line("jkl")]) == (2, None)
    log.close()
    assert list(tree(tmp_path).values()) == ["12345\nabcdef\n", "ghi\njkl\n"]


def test_after_a_failure_in_a_later_file_the_rows_of_earlier_files_count(tmp_path: Path) -> None:
    log = files(tmp_path)
    with file_size_limit(8):
        done, error = log.write(
            [line("abc"), line("def"), line("gh", NOON + HOUR_MS), line("too long", NOON + HOUR_MS)]
        )
    assert (done, error is None) == (3, False)
    log.close()
    assert list(tree(tmp_path).values()) == ["abc\ndef\n", "gh\n"]


def test_a_first_line_that_does_not_fit_leaves_no_file(tmp_path: Path) -> None:
    log = files(tmp_path)
    with file_size_limit(2):
        assert log.write([line("abc")])[0] == 0
    assert tree(tmp_path) == {}


def test_a_directory_that_cannot_be_made_is_reported_until_it_can(tmp_path: Path) -> None:
    blocked = tmp_path / "log"
    blocked.write_text("a file in the way")
    log = files(blocked)
    done, error = log.write([line("a")])
    assert (done, isinstance(error, OSError)) == (0, True)
    blocked.unlink()
    assert log.write([line("b")]) == (1, None)


def test_a_deleted_file_is_created_again(tmp_path: Path) -> None:
    log = files(tmp_path)
    log.write([line("a")])
    next(tmp_path.rglob("*.open")).unlink()
    assert log.write([line("b")]) == (1, None)
    log.close()
    assert list(tree(tmp_path).values()) == ["b\n"]


def test_each_file_begins_with_the_header_line(tmp_path: Path) -> None:
    """It counts for the size; a new header line begins a new file."""
    log = files(tmp_path, head=HEAD, size=8)
    log.write([line("aa"), line("bb"), line("cc")])
    log.begin(b"!\n")
    log.write([line("dd")])
    log.close()
    assert list(tree(tmp_path).values()) == ["#\naa\nbb\n", "#\ncc\n", "!\ndd\n"]
    assert log.bytes == len("#aabb#cc!dd") + 7


def test_a_header_line_alone_is_no_file(tmp_path: Path) -> None:
    log = files(tmp_path, head=HEAD)
    with file_size_limit(4):
        assert log.write([line("abcdef")])[0] == 0
    log.close()
    assert tree(tmp_path) == {}


def test_complete_files_are_handed_on(tmp_path: Path) -> None:
    """Those of this boot when they are complete, those of earlier ones at the start."""
    handed: list[str] = []
    first = LogFiles(tmp_path, "n1", 1, Limits(size=4), lambda path: handed.append(path.name))
    first.write([line("a"), line("b"), line("c")])
    assert handed == ["boot=1-000001.jsonl"]
    again = LogFiles(tmp_path, "n1", 2, Limits(), lambda path: handed.append(path.name))
    again.adopt_leftovers()
    assert handed[1:] == ["boot=1-000001.jsonl", "boot=1-000002.jsonl"]


def test_a_name_that_a_compressed_file_has_is_not_used_again(tmp_path: Path) -> None:
    log = files(tmp_path)
    log.write([line("a")])
    log.close()
    (path,) = tmp_path.rglob("*.jsonl")
    path.rename(path.with_name(path.name + ".gz"))
    again = files(tmp_path)
    again.write([line("b")])
    again.close()
    assert sorted(each.name for each in tmp_path.rglob("boot=*")) == ["boot=1-000001.jsonl.gz", "boot=1-000002.jsonl"]


def test_the_oldest_complete_files_go_when_all_are_too_large(tmp_path: Path) -> None:
    """Only those of this node; the file that begins may become as large as a file may be. Said once an hour."""
    said: list[str] = []
    other = files(tmp_path, "n2")
    other.write([line("other", NOON - 9 * HOUR_MS)])
    other.close()
    opened = tmp_path / "date=2026-03-01/hour=00/node=n1/boot=9-000001.jsonl.open"
    opened.parent.mkdir(parents=True)
    opened.touch()
    log = LogFiles(tmp_path, "n1", 10, Limits(size=4, keep_size=12), log=lambda level, text: said.append(text))
    for number, when_ms in enumerate((NOON - 2 * HOUR_MS, NOON, NOON, NOON + 1, NOON + 2, NOON + HOUR_MS + 1)):
        log.write([line(f"{number}..", when_ms)])
    log.close()
    assert list(tree(tmp_path).values()) == ["", "other\n", "3..\n", "4..\n", "5..\n"]
    assert [text.split(": ")[2].split(" were")[0] for text in said] == ["1 files with 4 bytes", "2 files with 8 bytes"]
    assert "boot=10-000003.jsonl" in said[1]


def test_the_boot_before_is_the_last_one_by_time(tmp_path: Path) -> None:
    """A wiped data directory begins with boot 1 again, and its old log may still be here."""
    for hours, boot in enumerate((1, 2, 3, 1)):
        log = files(tmp_path, boot=boot)
        log.write([line("a", NOON + hours * HOUR_MS)])
        log.close()
    assert files(tmp_path, boot=1).former() == []
    for boot in (2, 3, 1004):
        former = files(tmp_path, boot=boot).former()
        assert [path.parts[-3:] for path in former] == [
            (f"hour={hour}", "node=n1", "boot=1-000001.jsonl") for hour in (15, 12)
        ]


def test_the_last_number_of_a_killed_boot(tmp_path: Path) -> None:
    """Its last line may be torn: it is cut off. The newest file may be compressed, or of an earlier version."""
    head = header_line("run", "n1", 1)
    assert files(tmp_path, head=head).last_seq() == 0
    killed = files(tmp_path, head=head)
    rows = [row_line("node.stop", seq, 65536, 5, {}) for seq in (1, 2, 3)]
    killed.write([(NOON, each) for each in rows])
    (path,) = tmp_path.rglob("*.open")
    with path.open("ab") as file:
        file.write(rows[0][:10])
    assert files(tmp_path, head=head).last_seq() == 3
    assert path.read_bytes() == head + b"".join(rows)
    packed = path.with_name("boot=1-000012.jsonl.gz")
    packed.write_bytes(gzip.compress(head + row_line("log.gap", 9, 65536, 5, {"first": 4, "last": 9})))
    assert files(tmp_path, head=head).last_seq() == 9
    old = b'{"v":4,"run_id":"r","node":"n1","boot":1,"seq":10,"hlc":65536,"mono_ns":5,"type":"node.stop"}\n'
    path.with_name("boot=1-000013.jsonl.open").write_bytes(old)
    assert files(tmp_path, head=head).last_seq() == 10
