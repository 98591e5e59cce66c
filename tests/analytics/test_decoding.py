"""Arrow batches of the files of a log, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from strogoff.analytics import schema
from strogoff.analytics.event_lines import Reject, header_line, line_of, rows_in

from .test_event_lines import CASES, HEADERS, SAMPLES
from .test_log_content import HEADER, ROWS

pa = pytest.importorskip("pyarrow")

PIECE = pa.schema({"file": pa.string(), "complete": pa.bool_(), "begin": pa.int64(), "end": pa.int64()})


def pieces(*values: tuple[str, bool, int, int]) -> Any:
    return [pa.RecordBatch.from_pylist([dict(zip(PIECE.names, each, strict=True)) for each in values], schema=PIECE)]


def decoded(directory: Path, content: bytes, begin: int = 0, rejects_only: bool = False) -> list[dict[str, Any]]:
    from strogoff.analytics.decoding import OTHERS, SCHEMA, decoded

    (directory / "boot=1-000001.jsonl").write_bytes(content)
    asked = pieces(("boot=1-000001.jsonl", True, begin, len(content)))
    batches = [*decoded(str(directory), rejects_only)(asked)]
    assert all(batch.schema == SCHEMA for batch in batches)
    none = dict.fromkeys(each.name for each in SCHEMA.field(OTHERS).type)
    rows = (row for batch in batches for row in batch.to_pylist())
    found = [{**none, **row, **(row.pop(OTHERS) or {})} for row in rows]
    return sorted(found, key=lambda row: int(row["line"]))


def test_a_key_of_a_message_sorts_by_node_boot_and_counter() -> None:
    from strogoff.analytics.decoding import mid_key, mid_of

    mids = [("a/b", 2, 3), ("a/b", 2, 10), ("a/b", 11, 1), ("b", 1, 1), ("b", 1, 10**11)]
    keys = [mid_key(mid) for mid in mids]
    assert keys[0] == "a/b/000002/000000000003"
    assert keys == sorted(keys)
    assert [mid_of(key) for key in keys] == mids
    assert mid_of(mid_key(("n", 10**9, 10**18))) == ("n", 10**9, 10**18)


def test_every_field_of_every_type_arrives(tmp_path: Path) -> None:
    lines = [header_line("r", "n1", 3)]
    wanted = []
    for number, kind in enumerate(schema.TYPES.values(), 1):
        fields = {name: SAMPLES[schema.FIELDS[name].kind] for name in (*kind.required, *kind.optional)}
        row: dict[str, Any] = {
            "v": schema.VERSION,
            "run_id": "r",
            "node": "n1",
            "boot": 3,
            "seq": number,
            "hlc": 65536,
            "mono_ns": 3,
        }
        lines.append(line_of({**row, "type": kind.name, **fields}))
        wanted.append({**row, "type": kind.name, **fields})
    found = decoded(tmp_path, b"".join(lines))
    assert len(found) == len(wanted)
    for row, expected in zip(found, wanted, strict=True):
        if "mid" in expected:
            expected["mid"] = "n1/000002/000000000003"
        for name in ("drops", "counts", "primaries"):
            row[name] = dict(row[name]) if row[name] else None
        assert {name: row[name] for name in schema.COLUMNS} == {name: expected.get(name) for name in schema.COLUMNS}
        assert row["reject"] is None


@pytest.mark.parametrize(("header", "line", "reason"), CASES)
def test_every_line_is_what_the_lines_of_the_log_say(
    tmp_path: Path, header: str, line: str, reason: str | None
) -> None:
    lines = [HEADERS[header].encode() + b"\n", line.encode()]
    expected = [each.reason if isinstance(each, Reject) else None for each in rows_in(lines)]
    assert [row["reject"] for row in decoded(tmp_path, b"".join(lines))] == expected
    assert expected[-1] == reason


def test_a_row_of_an_earlier_version_may_have_more_fields(tmp_path: Path) -> None:
    row = {"v": 1, "run_id": "r", "node": "n1", "boot": 1, "seq": 1, "hlc": 5, "mono_ns": 9, "type": "node.stop"}
    (found,) = decoded(tmp_path, json.dumps({**row, "surplus": {"a": 1}, "topic": "t"}).encode())
    assert (found["v"], found["topic"], found["reject"]) == (1, "t", None)


def test_rejects_have_the_begin_of_the_line_and_its_length(tmp_path: Path) -> None:
    found = decoded(tmp_path, b"".join([HEADER, ROWS[0], b"\xff" + b"x" * 999, b"\n", ROWS[1]]), rejects_only=True)
    (bad,) = found
    assert (bad["reject"], bad["line"], bad["offset"], bad["bytes_of_line"]) == (
        "not_json",
        3,
        len(HEADER + ROWS[0]),
        1000,
    )
    assert bad["text"] == "\N{REPLACEMENT CHARACTER}" + "x" * 199
    assert bad["type"] is None


def test_a_piece_begins_where_the_last_one_ended(tmp_path: Path) -> None:
    content = b"".join([HEADER, *ROWS])
    assert [row["seq"] for row in decoded(tmp_path, content, begin=len(HEADER + ROWS[0]))] == [2, 3, 4, 5]


def test_many_lines_come_in_bounded_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from strogoff.analytics import decoding

    monkeypatch.setattr(decoding, "_LINES", 2)
    (tmp_path / "boot=1-000001.jsonl").write_bytes(b"".join([HEADER, *ROWS]))
    asked = pieces(("boot=1-000001.jsonl", True, 0, len(b"".join([HEADER, *ROWS]))))
    assert [batch.num_rows for batch in decoding.decoded(str(tmp_path))(asked)] == [2, 2, 1]


def test_extents_of_files(tmp_path: Path) -> None:
    from strogoff.analytics.decoding import extents

    (tmp_path / "boot=1-000001.jsonl.open").write_bytes(b"one\ntw")
    (batch,) = extents(str(tmp_path))(pieces(("boot=1-000001.jsonl", False, 0, 0)))
    (row,) = batch.to_pylist()
    assert (row["file"], row["size"], row["lines"], row["damaged"]) == ("boot=1-000001.jsonl", 4, 1, False)
    assert len(row["digest"]) == 32
