"""The unit, the user and the configuration of a node that runs as a service of systemd (docs/deploying.md)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from strogoff.broker.process.stop_bound import stop_bound_s
from strogoff.cli import main
from strogoff.configs import load
from tests.system.brokers import require_program

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "systemd"
UNIT = FOLDER / "strogoff.service"
PAGE = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, check=False)


def lines() -> dict[str, list[str]]:
    """Name of a setting of the unit -> its values."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def verified(folder: Path, text: str) -> tuple[int, str]:
    """What systemd says about a unit with this text, on a machine where the command of the unit exists."""
    unit = folder / UNIT.name
    command = str(Path(sys.executable).with_name("strogoff"))
    unit.write_text(text.replace("/usr/local/bin/strogoff", f'"{command}"'))
    ran = run(require_program("systemd-analyze", "systemd"), "verify", "--man=no", unit)
    return ran.returncode, ran.stdout + ran.stderr


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    assert verified(tmp_path, UNIT.read_text()) == (0, "")


def test_systemd_would_report_a_mistake(tmp_path: Path) -> None:
    for right, wrong in (("WatchdogSec=30s", "WatchdogSec=soon"), ("ProtectHome=", "ProtectHouse=")):
        assert right in UNIT.read_text()
        assert verified(tmp_path, UNIT.read_text().replace(right, wrong))[1] != ""


def test_the_page_names_the_exposure_of_the_unit() -> None:
    """The number differs among versions of systemd; it is never above the one on the page."""
    named = re.search(r"exposure level is ([\d.]+)", PAGE)
    assert named
    threshold = f"--threshold={int(10 * float(named[1]))}"
    analyze = require_program("systemd-analyze", "systemd")
    assert run(analyze, "security", "--offline=true", "--no-pager", threshold, UNIT).returncode == 0
    assert run(analyze, "security", "--offline=true", "--no-pager", "--threshold=5", UNIT).returncode == 1


def test_the_unit_gives_a_stop_its_time() -> None:
    wanted = {name: value for name, (value, *_) in lines().items()}
    assert wanted["Type"] == "notify"
    assert wanted["TimeoutStopSec"] == "60s" and stop_bound_s(load(None, {}, {})) < 60
    assert wanted["WatchdogSec"] == "30s"


def test_a_wrong_command_line_is_not_tried_again() -> None:
    """A node that stops in order ends with status 0, and systemd does not start it again."""
    wanted = lines()
    assert wanted["Restart"] == ["on-failure"]
    (status,) = wanted["RestartPreventExitStatus"]
    assert main(["start", "--no-such-option"]) == int(status)


def test_the_unit_keeps_what_the_node_needs() -> None:
    """RemoveIPC deletes the ring of the event log, ProcSubset hides the id of the kernel's boot."""
    assert not {"RemoveIPC", "ProcSubset", "PrivateNetwork", "DynamicUser"} & set(lines())


def test_the_configuration_has_no_mistake_and_no_warning() -> None:
    settings = load(FOLDER / "vernemq.conf", {})
    assert settings.notices == []
    unit = lines()
    (state,), (logs,) = unit["StateDirectory"], unit["LogsDirectory"]
    assert settings["platform_data_dir"] == f"/var/lib/{state}"
    assert str(settings["log.console.file"]).startswith(f"/var/log/{logs}/")
    assert unit["ExecStart"][0].endswith(f"-c /etc/{unit['ConfigurationDirectory'][0]}/vernemq.conf")


def test_systemd_makes_the_user_of_the_unit(tmp_path: Path) -> None:
    sysusers = require_program("systemd-sysusers", "systemd")
    (tmp_path / "etc").mkdir()
    made = run(sysusers, f"--root={tmp_path}", FOLDER / "sysusers.conf")
    if "Permission denied" in made.stderr or "not permitted" in made.stderr:
        pytest.skip(f"a user cannot be made here: {made.stderr.strip()}")
    assert made.returncode == 0, made.stderr
    (user,) = lines()["User"]
    rows = [line.split(":") for line in (tmp_path / "etc" / "passwd").read_text().splitlines()]
    ((home, shell),) = [(row[5], row[6]) for row in rows if row[0] == user]
    assert (home, shell) == ("/var/lib/strogoff", "/usr/sbin/nologin")


def test_the_page_names_every_file() -> None:
    assert [each.name for each in FOLDER.iterdir() if f"deploy/systemd/{each.name}" not in PAGE] == []
