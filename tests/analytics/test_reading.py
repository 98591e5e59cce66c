"""Lines to rows and rejects: each reason, each field type, and directories with odd names."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strogoff.analytics import schema
from strogoff.analytics.event_lines import REASONS, line_of

from . import test_event_lines as arrays

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

HEADER = {"v": 1, "run_id": "r", "node": "n1", "boot": 1, "seq": 1, "hlc": 65536, "mono_ns": 3, "type": "node.stop"}


def line(**fields: Any) -> str:
    return json.dumps(HEADER | fields)


CASES = [
    (line(), None),
    (line(reason="ordered"), None),
    ("  " + line() + " ", None),
    (line(surplus={"a": [1]}), None),
    (line()[:-1], "torn"),
    ('{"v"', "torn"),
    ("\0\0\0\0", "torn"),
    ("hello", "not_json"),
    ("{hello}", "not_json"),
    ("17", "wrong_type"),
    (line(seq="x"), "wrong_type"),
    (line(drops=[1]), "wrong_type"),
    (line(v=99, type="from.tomorrow"), "newer_version"),
    (line(seq=None), "missing_header"),
    (line(type=None), "missing_header"),
    ("{}", "missing_header"),
    (line(type="pub.rcv"), "unknown_type"),
]


def test_every_line_is_a_row_or_has_its_reason(spark: SparkSession) -> None:
    from strogoff.analytics.reading import parse

    numbered = [(text, str(number)) for number, (text, _) in enumerate(CASES)]
    parsed = parse(spark.createDataFrame(numbered, "line string, path string"))
    found = {int(row["path"]): row["reject"] for row in parsed.select("path", "reject").collect()}
    assert [found[number] for number in range(len(CASES))] == [reason for _, reason in CASES]
    assert {*REASONS} == {reason for _, reason in CASES if reason} | {"no_header"}


def test_arrays_are_read_with_the_header_line_of_their_file(spark: SparkSession) -> None:
    """As `event_lines` does it. The header line may be in another partition."""
    from strogoff.analytics.reading import parse

    numbered = [(arrays.HEADERS[header], str(number)) for number, (header, _, _) in enumerate(arrays.CASES)]
    numbered += [(text, str(number)) for number, (_, text, _) in enumerate(arrays.CASES)]
    table = spark.createDataFrame(numbered, "line string, path string").repartition(5)
    parsed = parse(table.where("length(line) > 0"))
    found = {
        (int(row["path"]), row["line"]): row["reject"] for row in parsed.select("path", "line", "reject").collect()
    }
    assert [found[number, text] for number, (_, text, _) in enumerate(arrays.CASES)] == [
        reason for _, _, reason in arrays.CASES
    ]
    headers = {reason for (number, text), reason in found.items() if text == arrays.HEADERS[arrays.CASES[number][0]]}
    assert headers == {"torn", "newer_version", "wrong_type"}


def test_every_field_arrives_from_arrays(spark: SparkSession) -> None:
    from strogoff.analytics.reading import parse

    lines = [arrays.HEADERS["whole"]]
    wanted = []
    for number, kind in enumerate(schema.TYPES.values(), 1):
        fields = {name: arrays.SAMPLES[schema.FIELDS[name].kind] for name in (*kind.required, *kind.optional)}
        row = arrays.CONSTANTS | {"seq": number, "hlc": 65536, "mono_ns": 3, "type": kind.name, **fields}
        lines.append(line_of(row).decode().rstrip("\n"))
        wanted.append(row)
    parsed = parse(spark.createDataFrame([(each, "p") for each in lines], "line string, path string"))
    assert parsed.where("reject is not null").count() == 0
    for found in parsed.collect():
        row = wanted[found["seq"] - 1]
        if "mid" in row:
            row["mid"] = ["n1", "2", "3"]
        assert {name: found[name] for name in schema.COLUMNS} == {name: row.get(name) for name in schema.COLUMNS}


def test_two_header_lines_in_a_file_are_a_doubt(spark: SparkSession) -> None:
    """A file has one run; which of two a row belongs to is not known where files are read in parts."""
    from strogoff.analytics.reading import parse

    lines = [arrays.HEADERS["whole"], arrays.HEADERS["later"], arrays.STOP + "]"]
    parsed = parse(spark.createDataFrame([(each, "p") for each in lines], "line string, path string"))
    assert [row["reject"] for row in parsed.collect()] == ["no_header"]


def test_every_field_arrives(spark: SparkSession) -> None:
    from strogoff.analytics.reading import parse

    values = {
        "string": "ü",
        "int": (1 << 63) - 1,
        "bool": True,
        "mid": ["n1", 2, 3],
        "strings": ["a"],
        "counts": {"x": 4},
    }
    fields = {name: values[each.kind] for name, each in schema.FIELDS.items()}
    row = parse(spark.createDataFrame([(line(**fields), "p")], "line string, path string")).first()
    assert row is not None
    values["mid"] = ["n1", "2", "3"]
    assert {name: row[name] for name in schema.FIELDS} == {
        name: values[each.kind] for name, each in schema.FIELDS.items()
    }
    assert row["reject"] is None


def test_files_are_found_by_their_names(spark: SparkSession, tmp_path: Path) -> None:
    """Open, complete and compressed ones, below a directory whose name has the characters of patterns."""
    from strogoff.analytics.reading import read_lines

    folder = tmp_path / "odd [a-b]{c,d} *?" / "date=2026-03-01" / "hour=12" / "node=a%20b"
    folder.mkdir(parents=True)
    (folder / "boot=1-000001.jsonl").write_text("complete\n\n   \n")
    (folder / "boot=1-000002.jsonl.open").write_text("open\nto")
    (folder / "boot=1-000003.jsonl.gz").write_bytes(gzip.compress(b"compressed\n"))
    (folder / "notes.txt").write_text("mine\n")
    (folder / "boot=1-000001.jsonl.bak").write_text("mine\n")
    found = read_lines(spark, str(tmp_path / "odd [a-b]{c,d} *?")).select("line").collect()
    assert sorted(row["line"] for row in found) == ["complete", "compressed", "open", "to"]


def test_rows_come_once_and_rejects_know_their_node(spark: SparkSession, tmp_path: Path) -> None:
    from strogoff.analytics.reading import parse, read_lines, rejects, rows

    folder = tmp_path / "date=2026-03-01" / "hour=12" / "node=a%20b%2Fc"
    folder.mkdir(parents=True)
    for part in (1, 2):
        (folder / f"boot=7-00000{part}.jsonl").write_text(line() + "\n" + line(seq=1 + part) + "\n{cut")
    parsed = parse(read_lines(spark, str(tmp_path)))
    assert sorted(row["seq"] for row in rows(parsed).collect()) == [1, 2, 3]
    bad = rejects(parsed).collect()
    assert {(row["node"], row["boot"], row["reason"], row["line"]) for row in bad} == {("a b/c", 7, "torn", "{cut")}
    assert len(bad) == 2
    assert bad[0]["path"].startswith(str(folder))


def test_the_schema_is_checked_by_name_and_type(spark: SparkSession) -> None:
    from strogoff.analytics.reading import SchemaError, columns, require

    table = spark.createDataFrame([("n1", "x")], "node string, seq string")
    require(table, "t", columns("node"))
    with pytest.raises(SchemaError, match="t: no column hlc; column seq is string, must be bigint"):
        require(table, "t", columns("node", "seq", "hlc"))
