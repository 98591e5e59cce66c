"""The wheel: its only package is `strogoff`, with all its data; installed elsewhere, its commands run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from bench.broker_process import BrokerProcess, free_port
from tests.structure.rules import PACKAGES

from .brokers import Background
from .paho_client import MQTT_5, Paho

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.xdist_group("wheel"), pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
COMMANDS = ("strogoff", "vmq-admin", "vmq-passwd")


def run(*words: str | Path, cwd: Path | None = None, data: str | None = None) -> str:
    """Run a command that must succeed; returns its output."""
    ran = subprocess.run(
        [str(word) for word in words], cwd=cwd, input=data, capture_output=True, text=True, timeout=500
    )
    assert ran.returncode == 0, f"{words}: {ran.stdout}{ran.stderr}"
    return ran.stdout


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a copy of the files in git's index, in a folder with another name."""
    folder = tmp_path_factory.mktemp("9-another.name")
    listed = run("git", "-c", "safe.directory=*", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_symlink() or (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


@pytest.fixture(scope="session")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by pip, as a user would."""
    target = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", target, source)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder with the commands of a fresh environment that has the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    return folder / "bin"


def test_the_wheel_has_one_package(wheel: Path) -> None:
    """A wheel must not install packages such as `broker` or `tests` into site-packages."""
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"strogoff"}
    assert len(top) == 2
    rooms = {name.split("/")[1] for name in names if name.startswith("strogoff/")}
    assert not rooms & {"tests", "bench", "docs", "dev", ".ci"}


def test_the_wheel_has_its_data(wheel: Path, source: Path) -> None:
    """Shipped configurations, key tables, the ACL file, the mark of a typed package, the licence, the commands."""
    archive = zipfile.ZipFile(wheel)
    names = set(archive.namelist())
    wanted = {f"strogoff/configs/{name}" for name in ("vernemq.conf", "dev.conf", "ha.conf", "vmq.acl")}
    wanted |= {f"strogoff/configs/keys/{path.name}" for path in (source / "configs" / "keys").glob("*.tsv")}
    assert len(wanted) > 5
    assert wanted | {"strogoff/py.typed", "strogoff/__init__.py", "strogoff/__main__.py"} <= names
    (entry_points,) = [name for name in names if name.endswith("entry_points.txt")]
    said = archive.read(entry_points).decode()
    assert all(f"{command} = strogoff." in said for command in COMMANDS)
    assert [name for name in names if name.endswith("/licenses/LICENSE")]
    # every module of a package is in the wheel, and so is everything that is not code
    for room in PACKAGES:
        for path in (source / room).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert f"strogoff/{path.relative_to(source)}" in names


def test_the_commands_run_where_they_are_installed(
    installed: Path, background: Background, tmp_path: Path, wheel: Path
) -> None:
    """version, --help, vmq-passwd, a broker that serves, and vmq-admin that talks to it."""
    version = wheel.name.split("-")[1]
    assert run(installed / "strogoff", "version", cwd=tmp_path) == f"strogoff {version}\n"
    assert "session show" in run(installed / "vmq-admin", "--help", cwd=tmp_path)
    assert "usage: vmq-passwd" in run(installed / "vmq-passwd", "--help", cwd=tmp_path)
    run(installed / "vmq-passwd", "-c", tmp_path / "vmq.passwd", "alice", data="wonder\nwonder\n")

    class Installed(BrokerProcess):
        def command(self) -> list[str]:
            return [str(installed / "strogoff"), *super().command()[3:]]

    broker = Installed(
        tmp_path / "data",
        free_port(),
        allow_anonymous="off",
        vmq_passwd__password_file=str(tmp_path / "vmq.passwd"),
        listener__http__default=f"127.0.0.1:{free_port()}",
        listener__ws__default=f"127.0.0.1:{(ws := free_port())}",
    )
    broker.folder = tmp_path
    background.run(broker.start())
    try:
        who = {"user": "alice", "password": "wonder"}
        with (
            Paho(None, "reader", MQTT_5, "ws", port=ws, **who) as reader,
            Paho(None, "writer", 4, port=broker.port, **who) as writer,
        ):
            reader.subscribe("x", 2)
            writer.publish("x", b"hello", 2)
            assert reader.next().payload == b"hello"
            shown = run(installed / "vmq-admin", "--data-dir", broker.data, "session", "show", cwd=tmp_path)
            assert "reader" in shown and "writer" in shown
    finally:
        assert background.run(broker.stop()) == 0
    assert broker.tracebacks() == []


def dockerfile_python() -> str | None:
    """Returns the Python of the Dockerfile, if this machine has it: on the path, or in pyenv's folder."""
    pyenv = map(str, Path.home().glob(".pyenv/versions/3.13*/bin/python3"))
    for python in filter(None, [shutil.which("python3.13"), *pyenv]):
        if subprocess.run([python, "-c", "import ensurepip"], capture_output=True, timeout=60).returncode == 0:
            return python
    return None


NEWEST = dockerfile_python()


@pytest.mark.skipif(NEWEST is None, reason="needs Python 3.13, the one of the Dockerfile")
def test_the_steps_of_the_dockerfile_install_from_the_locks(source: Path, tmp_path: Path) -> None:
    """The RUN lines of its first stage, with other folders, on the Python that it names; then the broker's command."""
    stage = (source / "Dockerfile").read_text().split("\nFROM ")[1]
    steps = re.findall(r"(?m)^RUN ((?:.*\\\n)*.*)$", stage)
    assert len(steps) == 2
    for step in steps:
        here = step.replace("\\\n", " ").replace("python3 ", f"{NEWEST} ")
        here = here.replace("/src", str(source)).replace("/opt/", f"{tmp_path}/").replace("/wheel", f"{tmp_path}/wheel")
        run("sh", "-ec", here)
    said = run(tmp_path / "strogoff" / "bin" / "strogoff", "config", "reference", cwd=tmp_path)
    assert "message_store.durability" in said
    listed = run(tmp_path / "strogoff" / "bin" / "pip", "freeze", cwd=tmp_path)
    assert "plyvel-next==" in listed and "hatchling" not in listed


def test_the_wheel_installs_no_package_beside_strogoff(installed: Path, tmp_path: Path) -> None:
    """`import broker` must fail; `import strogoff.broker.process.server` must not, and types are declared."""
    code = (
        "import importlib.util as u, importlib.resources as r, strogoff.broker.process.server;"
        "assert not any(map(u.find_spec, ('broker', 'mqtt', 'configs', 'storage', 'tests', 'bench')));"
        "assert (r.files('strogoff') / 'py.typed').is_file()"
    )
    run(installed / "python", "-c", code, cwd=tmp_path)


def test_the_source_distribution_builds_the_same(source: Path, wheel: Path, tmp_path: Path) -> None:
    """A wheel from the source archive has the same files."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from hatchling.build import build_sdist; import os; print(build_sdist(sys.argv[2]))"
    )
    builder = tmp_path / "builder"
    run(sys.executable, "-m", "venv", builder)
    run(builder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "hatchling>=1.27")
    name = run(builder / "bin" / "python", "-c", code, source, tmp_path, cwd=source).strip()
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, tmp_path / name)
    (again,) = tmp_path.glob("*.whl")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())
