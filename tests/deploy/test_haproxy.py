"""The configurations for HAProxy, and the map of slots for one of them (docs/haproxy.md)."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme

from deploy.haproxy.slot_map import SlotMapError, main, slot_map
from tests.system.brokers import require_program

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "haproxy"
FILES = sorted(FOLDER.glob("*.cfg"))
PAGE = (ROOT / "docs" / "haproxy.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files that the configurations name, as variables."""
    folder = tmp_path_factory.mktemp("haproxy")
    authority = trustme.CA()
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(folder / "service.pem")
    authority.cert_pem.write_to_path(folder / "clients.pem")
    (folder / "slots.map").write_text("0 node1\n")
    return {
        "STROGOFF_CERTIFICATE": str(folder / "service.pem"),
        "STROGOFF_CLIENT_CA": str(folder / "clients.pem"),
        "STROGOFF_SLOT_MAP": str(folder / "slots.map"),
    }


NO_NETWORK = "can't connect socket for nameserver"
"""Part of a warning about the machine, and not about the file."""


def checked(file: Path, variables: dict[str, str]) -> tuple[int, str]:
    """The status and the output of `haproxy -c`, without anything of this process's environment that it might use."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STROGOFF_")}
    command = [require_program("haproxy", "haproxy"), "-c", "-f", str(file)]
    environment = {**kept, **variables}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def test_there_is_a_file_for_each_section_of_the_page() -> None:
    assert {file.name for file in FILES} == set(re.findall(r"^## .*\(`(.*\.cfg)`\)$", PAGE, re.MULTILINE))
    assert len(FILES) == 5


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_haproxy_takes_the_file_without_a_warning(file: Path, named: dict[str, str]) -> None:
    for more in ({}, {"STROGOFF_NODE4": "10.0.0.4", "STROGOFF_NODE5": "a.name.that.does.not.exist.invalid"}):
        status, said = checked(file, {**named, **more})
        assert status == 0, said
        warnings = [line for line in said.splitlines() if "WARNING" in line and NO_NETWORK not in line]
        assert warnings == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_haproxy_would_report_a_mistake(file: Path, named: dict[str, str], tmp_path: Path) -> None:
    wrong = tmp_path / file.name
    wrong.write_text(file.read_text().replace("balance leastconn", "balance leastcon"))
    status, said = checked(wrong, named)
    assert status != 0
    assert "leastcon" in said


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_variable_has_a_value_or_a_condition(file: Path) -> None:
    text = file.read_text()
    used = set(re.findall(r"\$\{(\w+)\}", text))
    assert used == set(re.findall(r"presetenv (\w+)", text)) | set(re.findall(r"defined\((\w+)\)", text))
    assert max(map(len, text.splitlines())) <= 120


SERVERS = {"n1@10.0.0.1": "node1", "n2@10.0.0.2": "node2"}
ROWS: list[dict[str, Any]] = [
    {"Node": "n1@10.0.0.1", "Zone": "", "Count": 3, "Slots": "0-1 7", "State": "primary"},
    {"Node": "n2@10.0.0.2", "Zone": "", "Count": 1, "Slots": "255", "State": "primary"},
    {"Node": "n3@10.0.0.3", "Zone": "", "Count": 1, "Slots": "9", "State": "away"},
    {"Node": None, "Zone": "", "Count": 1, "Slots": "8", "State": "empty"},
    {"Node": "n2@10.0.0.2", "Zone": "", "Count": 0, "Slots": None, "State": "none"},
]


def shown(rows: object) -> str:
    return json.dumps([{"type": "table", "table": rows}])


def test_the_map_has_a_line_for_each_slot_with_a_primary() -> None:
    assert slot_map(shown(ROWS), SERVERS) == ["0 node1", "1 node1", "7 node1", "255 node2"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("+---+", "not the output of vmq-admin slot show"),
        (shown([{"Node": "n1@10.0.0.1"}]), "not the output"),
        (shown([{**ROWS[0], "Slots": "0-256"}]), "not the output"),
        (shown([{**ROWS[0], "Slots": "x"}]), "not the output"),
        (shown(ROWS[2:]), "no slot has a primary"),
        ("[]", "no slot has a primary"),
        (shown([{**ROWS[0], "Node": "n4@h"}]), "n4@h has slots, and no argument names its server: add n4@h=SERVER"),
    ],
)
def test_what_makes_no_map_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(SlotMapError, match=re.escape(why)):
        slot_map(text, SERVERS)


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(shown(ROWS[:1])))
    assert main(["n1@10.0.0.1=node1"]) == 0
    assert capsys.readouterr().out == "0 node1\n1 node1\n7 node1\n"
    assert main(["n1"]) == 1
    assert "an argument is NODE=SERVER" in capsys.readouterr().err
    assert main([]) == 2
