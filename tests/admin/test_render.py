"""Answers for people, for JSON readers and for spreadsheets."""

from __future__ import annotations

import json

from strogoff.admin.render import alerts, render
from strogoff.admin.result import Alert, Part, Table, Text

TABLE = Table(("Node", "Running"), [("VerneMQ@127.0.0.1", True), ("b@c", None)])


def test_a_table_for_people() -> None:
    assert render([TABLE], "human") == (
        "+-----------------+---------+\n"
        "|      Node       | Running |\n"
        "+-----------------+---------+\n"
        "|VerneMQ@127.0.0.1|  true   |\n"
        "|       b@c       |undefined|\n"
        "+-----------------+---------+\n"
    )


def test_wide_letters_do_not_shift_a_table() -> None:
    """A terminal shows them in two columns, and a mark on the letter before in none."""
    assert render([Table(("id", "n"), [("温度计", 1), ("cafe\u0301s", 2)])], "human") == (
        "+------+-+\n|  id  |n|\n+------+-+\n|温度计|1|\n|cafe\u0301s |2|\n+------+-+\n"
    )


def test_an_empty_table_prints_nothing() -> None:
    assert render([Table(("a",), [])], "human") == ""
    assert render([Table(("a", "b"), [])], "csv") == "a,b\n"


def test_a_table_of_lines() -> None:
    table = Table(("type", "metric", "value"), [("counter", "x", 1), ("gauge", "{y}", 2)], "{type}.{metric} = {value}")
    assert render([table], "human") == "counter.x = 1\ngauge.{y} = 2\n"


def test_json_has_the_format_of_vernemq() -> None:
    parts: list[Part] = [TABLE, Text("Done"), Alert("No.")]
    assert json.loads(render(parts, "json")) == [
        {"type": "table", "table": [{"Node": "VerneMQ@127.0.0.1", "Running": True}, {"Node": "b@c", "Running": None}]},
        {"type": "text", "text": "Done"},
        {"type": "alert", "alert": [{"type": "text", "text": "No."}]},
    ]


def test_csv_quotes() -> None:
    table = Table(("client_id", "n"), [('a,"b"', 1), (None, False)])
    assert render([table, Text("x")], "csv") == 'client_id,n\n"a,""b""",1\n,false\nx\n'


def test_control_characters_are_escaped() -> None:
    table = Table(("client_id",), [("\x1b[2J\n|",)])
    assert render([table], "human").split("\n")[3] == "|\\x1b[2J\\n||"
    assert alerts([Alert("no \x1b[2J\nsecond")]) == ["no \\x1b[2J\nsecond"]
    assert render([Alert("x")], "human") == ""
