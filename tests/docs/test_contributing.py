"""CONTRIBUTING.md names existing modules, functions, files, targets of make, and parts of CI."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) \| (.+) \| (.+) \| .+ \|$", PAGE, re.MULTILINE)
"""Number, modules and functions of what is to be read."""


def sources(cell: str) -> list[str]:
    """Returns the text of the modules in a cell; a name without a folder is in the folder of the previous one."""
    found: list[Path] = []
    for name in re.findall(r"`([\w/]+\.py)`", cell):
        found.append(ROOT / name if "/" in name else found[-1].with_name(name))
    return [path.read_text(encoding="utf-8") for path in found]


def test_the_way_of_a_publish_is_numbered() -> None:
    assert [int(number) for number, _, _ in ROWS] == list(range(1, len(ROWS) + 1))
    assert len(ROWS) > 10


@pytest.mark.parametrize(("number", "modules", "functions"), ROWS, ids=[number for number, _, _ in ROWS])
def test_the_modules_and_functions_to_read_exist(number: str, modules: str, functions: str) -> None:
    text = "\n".join(sources(modules))
    for name in re.findall(r"`([\w.]+)`", functions):
        for part in name.split("."):
            assert re.search(rf"^ *(?:def|class) {part}\b", text, re.MULTILINE), f"{number}: {name}"


def test_files_with_a_folder_exist() -> None:
    names = set(re.findall(r"`((?:\.?[\w-]+/)+[\w.-]*)(?:: \w+)?`", PAGE))
    missing = [name for name in names if "NAME" not in name and not (ROOT / name).exists()]
    assert sorted(missing) == []


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^ {4})make ([\w-]+)", PAGE, re.MULTILINE))
    assert {"run", "test", "check"} <= named <= targets


def test_the_parts_of_ci_are_listed_in_order() -> None:
    listed = re.search(r"^parts=\((.*)\)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    table = PAGE.split("| part | what |")[1].split("\n\n")[0]
    assert listed and re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == listed[1].split()
