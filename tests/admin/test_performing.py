"""Carrying out commands: what is logged, and what becomes of failures."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from strogoff.admin import performing
from strogoff.admin.performing import FAILED, REFUSED, loggable, perform
from strogoff.admin.reply import Alert, Text
from strogoff.storage.engine import StorageError

from .house import House, in_house
from .office import Office


def test_commands_are_logged_without_secrets(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.good("cluster", "show")
        assert "info vmq-admin cluster show" in house.lines
        await house.good("api-key", "add", "key=topsecret")
        assert "info vmq-admin api-key add key=(hidden)" in house.lines
        assert not any("topsecret" in line for line in house.lines)

    in_house(tmp_path, test)
    assert loggable(["listener", "start", "--keypasswd=x", "--ssl", "--keypasswd", "y"]) == (
        "listener start --keypasswd=(hidden) --ssl --keypasswd (hidden)"
    )
    assert loggable(["config", "show", "--key=listener"]) == "config show --key=listener"
    assert (
        loggable(["set", "listener.ssl.mine.keypasswd=x", "--all"]) == "set listener.ssl.mine.keypasswd=(hidden) --all"
    )
    assert loggable(["session", "disconnect", "client-id=a\n[ERROR] b"]) == "session disconnect client-id=a\\n[ERROR] b"
    assert loggable([]) == ""


def test_a_defect_is_said_and_logged_with_its_cause(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        listeners = house.server.listeners
        del house.server.listeners
        answer = await house.admin("listener", "show")
        assert answer.status == 1
        assert answer.err.startswith("The node failed to do that, which is a defect; its log has the details: Attri")
        (line,) = [line for line in house.lines if line.startswith("error vmq-admin listener show: Traceback")]
        assert "commands/listener.py" in line
        house.server.listeners = listeners

    in_house(tmp_path, test)


def test_a_store_that_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise StorageError("the disk is bad")

    async def test(house: House) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(type(house.server.store), "scan", broken)
            answer = await house.admin("api-key", "show")
            parts, status = await perform(house.context, ["api-key", "show"])
        assert (answer.status, answer.err) == (1, "The message store cannot be read: the disk is bad\n")
        assert (parts, status) == ([Alert("The message store cannot be read: the disk is bad")], FAILED)

    in_house(tmp_path, test)


def test_a_change_that_does_not_reach_the_disk_in_time_is_said(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        async def late() -> None:
            raise TimeoutError

        house.context.committed = late
        answer = await house.admin("api-key", "create")
        assert answer.status == 1
        assert answer.err.startswith("Done, but it is not on the disk yet (the disk is slow)")

    in_house(tmp_path, test)


def test_progress_is_the_beginning_of_an_answer_or_goes_its_own_way(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        office = house.server.cluster = Office()  # type: ignore[assignment]
        words = ["cluster", "leave", "node=b@127.0.0.1"]
        assert await perform(house.context, words) == ([Text("10 sessions to go"), Text("Done")], 0)
        heard: list[str] = []

        async def say(line: str) -> None:
            heard.append(line)

        assert await perform(house.context, words, say) == ([Text("Done")], 0)
        assert heard == ["10 sessions to go"]
        office.wrong = "no"
        assert await perform(house.context, words, say) == ([Alert("no")], REFUSED)

    in_house(tmp_path, test)


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(performing, "REQUEST_S", 0.05)

    async def test(house: House) -> None:
        reader, writer = await asyncio.open_unix_connection(tmp_path / "d" / "admin.sock")
        writer.write(b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{")
        assert b"408 Request Timeout" in await reader.readuntil(b"No command line came")
        writer.close()

    in_house(tmp_path, test)
