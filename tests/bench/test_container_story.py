"""The story with containers: its checks find wrong messages, it finds the container tools, and, by hand, it is true."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.compose_stack import FILES, ROOT, ComposeStack, engines
from bench.container_story import Reader, WrongStory
from strogoff.testing.client_session import Message


def reader(expected: str, got: str) -> Reader:
    """A subscriber that is to have got some letters, and has got others."""
    found = Reader("c", 1)
    found.expected = [*expected]
    found.client.received = [Message("story/c", letter.encode(), 1, False, False, 1, {}) for letter in got]
    return found


def test_a_reader_with_every_message_once_is_right() -> None:
    asyncio.run(reader("ABCDE", "ABCDE").caught_up())


@pytest.mark.parametrize("got", ["ABCDDE", "ABDCE", "ABCDEE"])
def test_a_reader_with_doubled_or_exchanged_messages_is_wrong(got: str) -> None:
    with pytest.raises(WrongStory, match=r"c got .* and not"):
        asyncio.run(reader("ABCDE", got).caught_up())


def test_a_reader_that_misses_a_message_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.container_story.MESSAGE_S", 0.01)
    with pytest.raises(WrongStory, match=r"c got \['A', 'B'\] and not"):
        asyncio.run(reader("ABC", "AB").caught_up())


def _programs(folder: Path, **statuses: int) -> str:
    """Programs that end with a status each, in a folder for PATH."""
    for name, status in statuses.items():
        program = folder / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\nexit {status}\n")
        program.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("statuses", "found"),
    [
        ({}, None),
        ({"docker": 0}, ("docker compose", "docker")),
        ({"docker": 1}, None),
        ({"docker": 1, "podman": 0, "podman_compose": 0}, ("podman-compose", "podman")),
        ({"podman": 0}, None),
    ],
    ids=str,
)
def test_which_tools_are_used(
    statuses: dict[str, int], found: tuple[str, str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A docker without daemon or compose does not count."""
    monkeypatch.setenv("PATH", _programs(tmp_path, **statuses))
    assert engines() == found


def test_a_command_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\necho $COMPOSE_FILE; echo no such service >&2; exit 3\n")
    (tmp_path / "tool").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    told: list[str] = []
    stack = ComposeStack("p", "s3", ("tool", "tool"), told.append)
    with pytest.raises(RuntimeError, match=r"tool up -d ended with status 3: no such service\n.*compose\.s3\.yaml"):
        asyncio.run(stack.compose("up", "-d"))
    assert told == ["$ tool up -d"]


@pytest.mark.slow
@pytest.mark.by_hand
@pytest.mark.parametrize("discovery", sorted(FILES))
def test_the_story(discovery: str) -> None:
    if engines() is None:
        pytest.skip("docker with compose, or podman with podman-compose, is not installed")
    command = [sys.executable, "-m", "bench.container_story", "--discovery", discovery]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
