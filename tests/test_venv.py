"""`dev/venv.py`: it refuses an unsuitable Python, repairs a broken environment, and installs only when necessary."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.harness.scripts import load_script
from tests.harness.thinning import thinned

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "dev" / "venv.py"
HERE = sys.version_info


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script as a module."""
    return load_script("dev/venv.py")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with pip, as the venv module makes it."""
    folder = tmp_path_factory.mktemp("fresh") / ".venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=100)
    return folder


@pytest.fixture
def environment(fresh: Path, tmp_path: Path) -> Path:
    """A copy of the fresh environment in a folder of its own, changed to look as if it had been made there."""
    folder = tmp_path / ".venv"
    shutil.copytree(fresh, folder, symlinks=True)
    pip = folder / "bin" / "pip"
    pip.write_text(pip.read_text().replace(str(fresh), str(folder)))
    return folder


class Commands:
    """Records commands. Commands that make an environment are run; commands that install are not,
    as they take minutes.
    """

    def __init__(self) -> None:
        self.ran: list[list[str]] = []

    def __call__(self, command: list[str]) -> None:
        self.ran.append(command)
        if command[1:3] == ["-m", "venv"]:
            subprocess.run([*command, "--without-pip"], check=True, timeout=100)

    @property
    def installed(self) -> list[str]:
        """Returns the packages that pip was asked to install."""
        return [command[-1] for command in self.ran if "install" in command]


@pytest.mark.parametrize("version", [(2, 7), (3, 6), (3, 10), (3, 15)])
def test_a_python_too_old_or_too_new_is_refused_with_a_remedy(script: ModuleType, version: tuple[int, int]) -> None:
    said = script.unfit_python(version, True)
    assert f"python3 is Python {version[0]}.{version[1]}" in said
    assert "make PYTHON=" in said


@pytest.mark.parametrize("version", [(3, 11), (3, 14)])
def test_a_python_that_fits_is_taken(script: ModuleType, version: tuple[int, int]) -> None:
    assert script.unfit_python(version, True) == ""


def test_a_python_without_ensurepip_names_the_package_to_install(script: ModuleType) -> None:
    assert "apt install python3.12-venv" in script.unfit_python((3, 12), False)


def test_the_range_of_pythons_is_that_of_the_package(script: ModuleType) -> None:
    declared = (ROOT / "pyproject.toml").read_text()
    assert f'requires-python = ">={script.OLDEST[0]}.{script.OLDEST[1]}"' in declared
    assert f'"Programming Language :: Python :: {script.NEWEST[0]}.{script.NEWEST[1]}"' in declared


def test_the_script_can_be_read_by_old_pythons() -> None:
    """A syntax error would hide the error about the version."""
    compile(SCRIPT.read_text(), str(SCRIPT), "exec", dont_inherit=True)
    import ast

    ast.parse(SCRIPT.read_text(), feature_version=(3, 5))


@pytest.mark.slow
def test_a_usable_environment_is_kept(script: ModuleType, environment: Path) -> None:
    assert script.unfit_venv(str(environment), HERE) == ""


def _python_is_gone(folder: Path) -> None:
    for name in ("python", "python3"):
        (folder / "bin" / name).unlink(missing_ok=True)
        (folder / "bin" / name).symlink_to(folder / "gone")


def _python_does_not_run(folder: Path) -> None:
    (folder / "bin" / "python").unlink()
    (folder / "bin" / "python").write_text("garbage")


def _pip_is_gone(folder: Path) -> None:
    for package in folder.glob("lib/python*/site-packages/pip"):
        shutil.rmtree(package)


def _was_moved(folder: Path) -> None:
    pip = folder / "bin" / "pip"
    pip.write_text(pip.read_text().replace(str(folder), "/somewhere/else/.venv"))


def _everything_is_gone(folder: Path) -> None:
    shutil.rmtree(folder / "bin")


@pytest.mark.slow
@pytest.mark.parametrize(
    "harm", thinned([_python_is_gone, _python_does_not_run, _pip_is_gone, _was_moved, _everything_is_gone], 5)
)
def test_a_broken_environment_is_made_again(
    script: ModuleType, environment: Path, harm: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    harm(environment)
    commands = Commands()
    script.make_ready(str(environment), "run", HERE, commands)
    assert f"Making {environment} again: " in capsys.readouterr().out
    assert commands.ran[0][1:3] == ["-m", "venv"]
    assert commands.installed == ["."]
    assert os.access(environment / "bin" / "python", os.X_OK)


@pytest.mark.slow
def test_another_python_version_makes_a_new_environment(script: ModuleType, environment: Path) -> None:
    assert "made with Python" in script.unfit_venv(str(environment), (3, HERE.minor + 1))


def test_nothing_is_installed_twice(script: ModuleType, environment: Path) -> None:
    commands = Commands()
    for what in ("run", "run", "test", "test", "run"):
        script.make_ready(str(environment), what, HERE, commands)
    assert commands.installed == [".", ".[test,analytics,dev]"]


@pytest.mark.slow
def test_an_installation_that_was_interrupted_is_done_again(script: ModuleType, environment: Path) -> None:
    def fails(command: list[str]) -> None:
        raise subprocess.CalledProcessError(1, command)

    with pytest.raises(subprocess.CalledProcessError):
        script.make_ready(str(environment), "run", HERE, fails)
    commands = Commands()
    script.make_ready(str(environment), "run", HERE, commands)
    assert commands.installed == ["."]


def test_a_change_of_pyproject_installs_again(
    script: ModuleType, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "ROOT", str(tmp_path))
    (tmp_path / "pyproject.toml").write_text("one")
    commands = Commands()
    script.make_ready(str(environment), "run", HERE, commands)
    (tmp_path / "pyproject.toml").write_text("two")
    script.make_ready(str(environment), "run", HERE, commands)
    assert commands.installed == [".", "."]
