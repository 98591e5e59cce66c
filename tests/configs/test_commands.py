"""`config check` and `config reference`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from strogoff.cli import main
from strogoff.configs import Settings
from strogoff.configs.commands import check
from strogoff.configs.reference import reference
from strogoff.configs.shipped import shipped_conf


def nothing(settings: Settings, log: Callable[[str, str], None]) -> list[str]:
    """What stops the start of a node: nothing."""
    return []


def test_check_prints_the_settings_of_a_file_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    path.write_text(
        "listener.tcp.a = 127.0.0.1:1\nqueue_type = lifo\ngraphite_enabled = on\ndistributed_cookie = hush\n"
    )
    code, text = check(path, nothing)
    assert code == 0
    assert text.splitlines() == [
        f"{path}: no errors",
        "listener tcp a at 127.0.0.1:1",
        f"warning: {path}:3: graphite_enabled is not implemented in this version and does nothing",
        f"queue_type = lifo from {path}:2",
        f"graphite_enabled = on from {path}:3",
        f"distributed_cookie = (hidden) from {path}:4",
    ]


def test_check_gives_all_problems_and_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.conf"
    path.write_text("queue_typ = lifo\n")
    assert main(["config", "check", str(path)]) == 1
    assert capsys.readouterr().out == (
        f"1 problem in the configuration:\n  {path}:1: queue_typ: unknown key\n      did you mean queue_type?\n"
    )


def test_check_looks_for_plugins_and_at_variables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node would not start with a module that is missing, nor with a variable that names no key."""
    path = tmp_path / "a.conf"
    path.write_text("plugins.python.a = json:JSONDecoder\nplugins.python.b = no_such_package.module:X\n")
    code, text = check(path, nothing)
    assert (code, text.splitlines()[1:]) == (
        1,
        [
            f"  {path}:2: plugins.python.b: this Python finds no such module: "
            "if the service has a PYTHONPATH, set the same one for this check",
            '      found "no_such_package.module"',
        ],
    )
    path.write_text("plugins.python.a = json:JSONDecoder\n")
    assert check(path, nothing)[0] == 0
    monkeypatch.setenv("DOCKER_VERNEMQ_QUEUE_TYP", "lifo")
    assert main(["config", "check", str(path)]) == 1
    assert "DOCKER_VERNEMQ_QUEUE_TYP: queue_typ: unknown key" in capsys.readouterr().out


def test_check_reports_what_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    path.write_text("listener.tcp.a = 127.0.0.1:1\nplugins.python.b = no_such_package.module:X\n")

    def stops(settings: Settings, log: Callable[[str, str], None]) -> list[str]:
        return [f"{settings.listeners()[0].key}: no such key"]

    code, text = check(path, stops)
    assert (code, text.splitlines()[0]) == (1, "2 problems in the configuration:")
    assert text.endswith(f"  {path}: listener.tcp.a: no such key")
    path.write_text("listener.tcp.a = 127.0.0.1:1\n")

    def warns(settings: Settings, log: Callable[[str, str], None]) -> list[str]:
        log("warning", "one file was not checked")
        return []

    code, text = check(path, warns)
    assert code == 0 and "warning: one file was not checked" in text.splitlines()


def test_check_finds_a_module_through_pythonpath_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.conf"
    path.write_text("plugins.python.a = module_of_a_service:X\n")
    (tmp_path / "module_of_a_service.py").write_text("class X: ...\n")
    assert "if the service has a PYTHONPATH" in check(path, nothing)[1]
    monkeypatch.syspath_prepend(str(tmp_path))  # Python reads the variable at its start
    assert check(path, nothing)[0] == 0


def test_reference_prints_the_page_the_text_or_the_conf(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, text in (
        ([], reference(markdown=True)),
        (["--text", "eventlog"], reference(markdown=False, word="eventlog")),
        (["--conf"], shipped_conf()),
    ):
        assert main(["config", "reference", *arguments]) == 0
        assert capsys.readouterr().out == text
    assert main(["config", "reference", "no_such_key"]) == 1
