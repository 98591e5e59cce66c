"""The script behind docs/conformance.md, and the lists of statements that it reads."""

import re
from pathlib import Path

import pytest

from tests.harness.scripts import load_script

ROOT = Path(__file__).resolve().parents[2]


conformance = load_script("docs/conformance.py")


def cite(*ids: str) -> str:
    """A citation that this file itself does not contain."""
    return "[" + ", ".join(ids) + "]"


HEAD = "id\twho\tkind\tsummary\treason\n"
V311 = (
    HEAD
    + "MQTT-3.1.0-1\tserver\tMUST\tCONNECT first.\t\n"
    + "MQTT-3.1.0-2\tserver\tMUST\tOne CONNECT.\t\n"
    + "MQTT-3.14.4-1\tclient\tMUST\tThe client closes.\tbinds the client\n"
)
V5 = HEAD + "MQTT5-4.8.2-2\tboth\tMUST NOT\tNo slash.\t\n"
TITLES = "standard\tsection\ttitle\nmqtt311\t3.1\tCONNECT\nmqtt311\t3.14\tDISCONNECT\nmqtt5\t4.8\tSubscriptions\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    data = tmp_path / "docs" / "conformance"
    data.mkdir(parents=True)
    (data / "mqtt311.tsv").write_text(V311)
    (data / "mqtt5.tsv").write_text(V5)
    (data / "sections.tsv").write_text(TITLES)
    (tmp_path / "tests").mkdir()
    (tmp_path / "mqtt").mkdir()
    return tmp_path


# --- the real lists ---


@pytest.mark.parametrize(
    ("standard", "chapters", "skipped"),
    [
        ("mqtt311", {1: 3, 2: 9, 3: 95, 4: 26, 6: 4, 7: 4}, []),
        ("mqtt5", {1: 5, 2: 7, 3: 175, 4: 60, 6: 4}, ["MQTT5-2.2.1-1"]),
    ],
)
def test_lists_are_complete(standard: str, chapters: dict[int, int], skipped: list[str]) -> None:
    """141 statements in 3.1.1, 251 in 5.0, counted by chapter; the only gaps are those of the standard."""
    statements = conformance.load_statements(ROOT / "docs" / "conformance" / f"{standard}.tsv")
    counted: dict[int, int] = {}
    for statement in statements:
        counted[statement.numbers[0]] = counted.get(statement.numbers[0], 0) + 1
    assert counted == chapters
    assert conformance.skipped_numbers(statements) == skipped


def test_every_section_has_a_title_and_every_title_a_section() -> None:
    data = ROOT / "docs" / "conformance"
    sections = {
        (standard, statement.section)
        for standard in conformance.STANDARDS
        for statement in conformance.load_statements(data / f"{standard}.tsv")
    }
    assert set(conformance.load_titles(data / "sections.tsv")) == sections


def test_reasons_name_only_statements_that_exist() -> None:
    data = ROOT / "docs" / "conformance"
    statements = [s for name in conformance.STANDARDS for s in conformance.load_statements(data / f"{name}.tsv")]
    known = {statement.id for statement in statements}
    for statement in statements:
        for match in re.finditer(r"MQTT5?-[\d.]+-\d+", statement.reason):
            assert match[0] in known, statement


def test_this_project_cites_only_statements_that_exist() -> None:
    data = ROOT / "docs" / "conformance"
    known = {s.id for name in conformance.STANDARDS for s in conformance.load_statements(data / f"{name}.tsv")}
    assert conformance.scan(ROOT, known).errors == []


# --- reading the lists ---


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("MQTT-3.1.0-1\tserver\tMUST\tSummary.", "mqtt311.tsv:2: 4 columns"),
        ("MQTT5-3.1.0-1\tserver\tMUST\tSummary.\t", "not an id of this standard"),
        ("MQTT-3.1-1\tserver\tMUST\tSummary.\t", "not an id of this standard"),
        ("MQTT-3.1.0-1\tbroker\tMUST\tSummary.\t", "who is server"),
        ("MQTT-3.1.0-1\tserver\tSHOULD\tSummary.\t", "kind is MUST"),
        ("MQTT-3.1.0-1\tserver\tMUST\t\t", "needs a summary"),
        ("MQTT-3.1.0-1\tclient\tMUST\tSummary.\t", "a reason if it binds the client"),
        ("MQTT-3.1.0-1\tserver\tMUST\tA.\t\nMQTT-3.1.0-1\tserver\tMUST\tB.\t", "mqtt311.tsv:3: .* stands here twice"),
    ],
)
def test_a_row_that_is_no_statement_is_named(tmp_path: Path, row: str, complaint: str) -> None:
    path = tmp_path / "mqtt311.tsv"
    path.write_text(HEAD + row + "\n")
    with pytest.raises(ValueError, match=complaint):
        conformance.load_statements(path)


def test_statements_come_in_numeric_order(tmp_path: Path) -> None:
    path = tmp_path / "mqtt5.tsv"
    rows = [f"MQTT5-{id}\tboth\tMUST\tSummary.\t" for id in ("3.14.0-1", "3.2.2-10", "3.2.2-9")]
    path.write_text(HEAD + "\n".join(rows) + "\n")
    statements = conformance.load_statements(path)
    assert [s.id for s in statements] == ["MQTT5-3.2.2-9", "MQTT5-3.2.2-10", "MQTT5-3.14.0-1"]
    assert conformance.skipped_numbers(statements) == [f"MQTT5-3.2.2-{number}" for number in range(1, 9)]


# --- citing tests and sources ---

TEST_FILE = '''\
"""module docstring"""

TABLE = [
    ("bytes", "in the table"),
]


# above the function
@decorated("in the decorator")
def test_one():
    """in the docstring"""
    assert True  # in the body
    # after the last statement


def helper():
    pass  # in the helper


class TestGroup:
    """of the class"""

    async def test_two(self):
        pass  # in the method

    def helper(self):
        pass  # in the class's helper
'''


@pytest.mark.parametrize(
    ("marker", "place"),
    [
        ("module docstring", "tests/test_x.py"),
        ("in the table", "tests/test_x.py"),
        ("above the function", "tests/test_x.py::test_one"),
        ("in the decorator", "tests/test_x.py::test_one"),
        ("in the docstring", "tests/test_x.py::test_one"),
        ("in the body", "tests/test_x.py::test_one"),
        ("after the last statement", "tests/test_x.py::test_one"),
        ("in the helper", "tests/test_x.py"),
        ("of the class", "tests/test_x.py::TestGroup"),
        ("in the method", "tests/test_x.py::TestGroup::test_two"),
        ("in the class's helper", "tests/test_x.py::TestGroup"),
    ],
)
def test_a_citation_belongs_to_the_test_around_it(project: Path, marker: str, place: str) -> None:
    (project / "tests" / "test_x.py").write_text(TEST_FILE.replace(marker, cite("MQTT-3.1.0-1")))
    citations = conformance.scan(project, {"MQTT-3.1.0-1"})
    assert (dict(citations.tests), citations.errors) == ({"MQTT-3.1.0-1": {place}}, [])


def test_transcripts_hold_statements_and_source_obeys_them(project: Path) -> None:
    (project / "tests" / "connect.txt").write_text(f"# first {cite('MQTT-3.1.0-1', 'MQTT5-4.8.2-2')}\n")
    (project / "tests" / "recorded.bin").write_bytes(b"\xff\xfe" + cite("MQTT-9.9.9-9").encode())
    (project / "mqtt" / "connect.py").write_text(f"x = 1  # {cite('MQTT-3.1.0-2')}\n")
    (project / ".venv").mkdir()
    (project / ".venv" / "other.py").write_text(f"# {cite('MQTT-9.9.9-9')}\n")
    citations = conformance.scan(project, {"MQTT-3.1.0-1", "MQTT-3.1.0-2", "MQTT5-4.8.2-2"})
    assert citations.tests == {"MQTT-3.1.0-1": {"tests/connect.txt"}, "MQTT5-4.8.2-2": {"tests/connect.txt"}}
    assert citations.code == {"MQTT-3.1.0-2": {"mqtt/connect.py"}}
    assert citations.errors == []


# --- the command ---


def test_an_unknown_id_is_an_error_with_its_line_and_nothing_is_written(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "mqtt" / "shared.py").write_text(f"\n# {cite('MQTT-4.8.2-2')}\n")
    (project / "tests" / "test_x.py").write_text(f"# {cite('MQTT5-9.9.9-9')}\n")
    (project / "tests" / "test_y.py").write_text(f"def broken(  # {cite('MQTT-3.1.0-1')}\n")
    assert conformance.main([], project) == 1
    assert capsys.readouterr().err.splitlines() == [
        "mqtt/shared.py:2: [" + "MQTT-4.8.2-2] does not exist; MQTT5-4.8.2-2 does",
        "tests/test_x.py:1: [" + "MQTT5-9.9.9-9] does not exist",
        "tests/test_y.py:1: '(' was never closed",
    ]
    assert not (project / "docs" / "conformance.md").exists()


def test_check_demands_a_page_of_today_and_nothing_open(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test = project / "tests" / "test_x.py"
    test.write_text(f"def test_first():\n    '''{cite('MQTT-3.1.0-1')}'''\n")
    assert conformance.main([], project) == 0
    assert conformance.main(["--check"], project) == 1
    assert capsys.readouterr().err.splitlines() == [
        "MQTT-3.1.0-2 has neither a test nor a reason",
        "MQTT5-4.8.2-2 has neither a test nor a reason",
    ]
    test.write_text(test.read_text() + f"\n\ndef test_rest():\n    pass  # {cite('MQTT-3.1.0-2', 'MQTT5-4.8.2-2')}\n")
    assert conformance.main(["--check"], project) == 1
    assert "out of date" in capsys.readouterr().err
    assert conformance.main([], project) == 0
    assert conformance.main(["--check"], project) == 0


def test_the_page(project: Path) -> None:
    (project / "tests" / "test_x.py").write_text(f"def test_first():\n    pass  # {cite('MQTT-3.1.0-1')}\n")
    (project / "mqtt" / "connect.py").write_text(f"# {cite('MQTT-3.1.0-1')}\n")
    assert conformance.main([], project) == 0
    page = (project / "docs" / "conformance.md").read_text().splitlines()
    assert "| MQTT 3.1.1 | 3 | 2 | 1 | 1 | 1 |" in page
    assert "Numbers that MQTT 5.0 itself leaves out: MQTT5-4.8.2-1." in page
    assert page.index("## MQTT 3.1.1") < page.index("### 3.14 DISCONNECT") < page.index("### 4.8 Subscriptions")
    row = "| MQTT-3.1.0-1 | server | CONNECT first. | `tests/test_x.py::test_first` | `mqtt/connect.py` |"
    assert row in page
    assert "| MQTT-3.1.0-2 | server | One CONNECT. | **open** |  |" in page
    assert "| MQTT-3.14.4-1 | client | The client closes. | binds the client |  |" in page
