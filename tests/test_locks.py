"""`locks/`: the container's libraries have exact versions with hashes, within what pyproject.toml allows."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHON = {"python_version": "3.13", "python_full_version": "3.13.0"}
"""The Python of the Dockerfile, as environment markers name it."""


def locked(name: str) -> dict[str, str]:
    """Library -> version of one lock file."""
    found = re.findall(r"(?m)^([A-Za-z0-9._-]+)==([^ ;\\]+)", (ROOT / "locks" / name).read_text())
    return {canonicalize_name(library): version for library, version in found}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_container_has_what_the_package_needs(machine: str) -> None:
    versions = locked("container.txt")
    for text in PROJECT["project"]["dependencies"]:
        wanted = Requirement(text)
        environment = {**PYTHON, "sys_platform": "linux", "platform_machine": machine}
        if wanted.marker is None or wanted.marker.evaluate(environment):
            assert versions[canonicalize_name(wanted.name)] in wanted.specifier, text


def test_the_container_has_what_builds_the_package() -> None:
    for text in PROJECT["build-system"]["requires"]:
        wanted = Requirement(text)
        assert locked("build.txt")[canonicalize_name(wanted.name)] in wanted.specifier, text


@pytest.mark.parametrize("name", ["container.txt", "build.txt"])
def test_every_library_has_hashes(name: str) -> None:
    entries = re.split(r"(?m)^(?=[A-Za-z0-9])", (ROOT / "locks" / name).read_text())
    entries = [entry for entry in entries if "==" in entry]
    assert len(entries) > 3
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


@pytest.mark.slow
def test_each_library_of_the_container_has_a_wheel_for_arm64(tmp_path: Path) -> None:
    """With a hash of the lock file. So the image builds there without a compiler."""
    platforms = [f"--platform={libc}_aarch64" for libc in ("manylinux2014", "manylinux_2_17", "manylinux_2_28")]
    python = ["--python-version=3.13", "--implementation=cp", "--abi=cp313", "--abi=abi3", "--abi=none"]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
    ]
    lock = ["--require-hashes", "--dest", str(tmp_path), "--requirement", str(ROOT / "locks" / "container.txt")]
    subprocess.run([*command, *platforms, *python, *lock], check=True, timeout=100)
    assert len(list(tmp_path.iterdir())) == len(locked("container.txt"))


def test_every_dependency_has_an_upper_bound() -> None:
    extras = PROJECT["project"]["optional-dependencies"].values()
    for text in [*PROJECT["project"]["dependencies"], *(text for extra in extras for text in extra)]:
        operators = {specifier.operator for specifier in Requirement(text).specifier}
        assert operators & {"<", "<=", "=="}, text


def test_the_dockerfile_installs_only_what_is_locked() -> None:
    text = (ROOT / "Dockerfile").read_text()
    installs = re.findall(r"pip (?:install|wheel) ([^&\n]*(?:\\\n[^&\n]*)*)", text)
    assert len(installs) == 4
    for options in installs:
        assert "--require-hashes" in options or "--no-deps" in options, options
    assert set(re.findall(r"FROM (\S+)", text)) == {"docker.io/library/python:3.13-slim-bookworm"}
