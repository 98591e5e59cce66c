"""Running commands: log lines, and the treatment of failures."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from strogoff.admin import dispatch
from strogoff.admin.dispatch import FAILED, REFUSED, run_command
from strogoff.admin.result import Alert, Text
from strogoff.storage.engine import StorageError

from .fake_operator_port import FakeOperatorPort
from .server_harness import ServerHarness, run_with_server


def test_commands_are_logged_without_secrets(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        await harness.good("cluster", "show")
        assert "info vmq-admin cluster show" in harness.lines
        await harness.good("api-key", "add", "key=topsecret")
        assert "info vmq-admin api-key add key=(hidden)" in harness.lines
        for words in (["delete", "topsecret"], ["add", "--key=topsecret"], ["topsecret=", "delete"]):
            answer = await harness.admin("api-key", *words)
            assert (answer.status, "topsecret" in answer.out + answer.err) == (1, False)
        assert "info vmq-admin api-key add --key=(hidden)" in harness.lines
        assert not any("topsecret" in line for line in harness.lines)

    run_with_server(tmp_path, test)


def test_a_defect_is_reported_and_logged_with_its_cause(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        listeners = harness.server.listeners
        del harness.server.listeners
        answer = await harness.admin("listener", "show")
        assert answer.status == 1
        assert answer.err.startswith("The command failed because of a defect of the node; ")
        assert "details: Attri" in answer.err
        (line,) = [line for line in harness.lines if line.startswith("error vmq-admin listener show: Traceback")]
        assert "commands/listener.py" in line
        harness.server.listeners = listeners

    run_with_server(tmp_path, test)


def test_an_unreadable_store_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise StorageError("the disk is bad")

    async def test(harness: ServerHarness) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(type(harness.server.store), "scan", broken)
            answer = await harness.admin("api-key", "show")
            parts, status = await run_command(harness.context, ["api-key", "show"])
        assert (answer.status, answer.err) == (1, "The message store cannot be read: the disk is bad\n")
        assert (parts, status) == ([Alert("The message store cannot be read: the disk is bad")], FAILED)

    run_with_server(tmp_path, test)


def test_a_change_not_on_disk_in_time_is_an_error(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        async def late() -> None:
            raise TimeoutError

        harness.context.committed = late
        answer = await harness.admin("api-key", "create")
        assert answer.status == 1
        assert answer.err.startswith("Done, but it is not durable yet (a disk or a copy is slow)")
        fake = harness.server.cluster = FakeOperatorPort()  # type: ignore[assignment]
        fake.sees(sees="minority", no_lease="it has not heard 2 of 2 other members")
        parts, status = await run_command(harness.context, ["api-key", "create"])
        assert status == FAILED and isinstance(parts[-1], Alert)
        assert "(this node has no lease: it has not heard 2 of 2 other members)" in parts[-1].text

    run_with_server(tmp_path, test)


def test_progress_is_reported_or_begins_the_result(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        fake = harness.server.cluster = FakeOperatorPort()  # type: ignore[assignment]
        words = ["cluster", "leave", "node=b@127.0.0.1"]
        assert await run_command(harness.context, words) == ([Text("10 sessions to go"), Text("Done")], 0)
        heard: list[str] = []

        async def report(line: str) -> None:
            heard.append(line)

        assert await run_command(harness.context, words, report) == ([Text("Done")], 0)
        assert heard == ["10 sessions to go"]
        fake.wrong = "no"
        assert await run_command(harness.context, words, report) == ([Alert("no")], REFUSED)

    run_with_server(tmp_path, test)


def test_a_missing_body_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "REQUEST_S", 0.05)

    async def test(harness: ServerHarness) -> None:
        reader, writer = await asyncio.open_unix_connection(tmp_path / "d" / "admin.sock")
        writer.write(b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{")
        assert b"408 Request Timeout" in await reader.readuntil(b"No command line was received")
        writer.close()

    run_with_server(tmp_path, test)
