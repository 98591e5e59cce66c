"""Files of rules on a real disk: changed, replaced, broken, deleted and restored."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from strogoff.broker.plugins.acl import AclPlugin, Rules
from strogoff.broker.plugins.hooks import Hooks, Refuse, Subscriber, Verdict
from strogoff.broker.plugins.reloader import Reloader
from strogoff.broker.plugins.watched_file import WatchedFile

ME = Subscriber("", "c")


def watched(path: Path) -> tuple[WatchedFile, Reloader[Rules]]:
    reloader = AclPlugin().reloader
    return WatchedFile(path, reloader), reloader


def granted(reloader: Reloader[Rules]) -> list[str]:
    return [t for t in ("a", "b", "c") if reloader.content.may_publish(None, ME, t)]


def test_every_kind_of_change_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "vmq.acl"
    path.write_text("topic a\n")
    file, reloader = watched(path)
    assert file.check()
    assert not file.check()
    path.write_text("topic a\ntopic b\n")
    assert file.check()
    assert granted(reloader) == ["a", "b"]
    other = tmp_path / "new"
    other.write_text("topic a\ntopic c\n")
    found = path.stat()
    os.utime(other, ns=(found.st_atime_ns, found.st_mtime_ns))  # same time and size, another inode
    other.replace(path)
    assert file.check()
    assert granted(reloader) == ["a", "c"]


def test_a_missing_or_broken_file_keeps_the_old_rules_and_logs_why(tmp_path: Path) -> None:
    path = tmp_path / "vmq.acl"
    file, reloader = watched(path)
    assert not file.check()
    assert file.problem == f"{path}: No such file or directory"
    assert granted(reloader) == []
    path.write_text("topic a\n")
    assert file.check()
    assert file.problem == ""
    for content, problem in [
        (b"topic b\nnonsense\n", f"{path}:2: unknown word 'nonsense'"),
        (b"topic b\xff\n", f"{path}: not UTF-8 at byte 7"),
        (None, f"{path}: No such file or directory"),
    ]:
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        assert not file.check()
        assert file.problem.startswith(problem)
        assert granted(reloader) == ["a"]
    path.write_text("topic b\n")
    assert file.check()
    assert granted(reloader) == ["b"]


def test_a_broker_that_watches_follows_the_file_and_forgets_kept_answers(tmp_path: Path) -> None:
    path = tmp_path / "vmq.acl"
    path.write_text("topic a\n")
    acl, hooks = AclPlugin(), Hooks()
    hooks.add("vmq_acl", acl)
    file = WatchedFile(path, acl.reloader)
    file.check()

    def may_publish_b() -> Verdict:
        verdict = hooks.ask("auth_on_publish", None, ME, 0, "b", b"", False)
        assert not asyncio.iscoroutine(verdict)
        return verdict  # type: ignore[return-value]

    def replace(text: str) -> None:
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").replace(path)

    async def run() -> None:
        changed, broken = asyncio.Event(), asyncio.Event()
        problems: list[str] = []

        def on_change() -> None:
            hooks.invalidate()
            changed.set()

        def on_problem(problem: str) -> None:
            problems.append(problem)
            broken.set()

        task = asyncio.create_task(file.watch(0.005, on_change, on_problem))
        epoch = hooks.epoch
        assert may_publish_b() == Refuse("plugin_chain_exhausted")
        replace("topic b\n")
        async with asyncio.timeout(10):
            await changed.wait()
        assert hooks.epoch > epoch
        assert may_publish_b() != Refuse("plugin_chain_exhausted")
        replace("topic\n")
        async with asyncio.timeout(10):
            await broken.wait()
        changed.clear()
        replace("topic b\n\n")
        async with asyncio.timeout(10):
            await changed.wait()
        assert len(problems) == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


def test_an_interval_of_zero_never_reads_the_file_again(tmp_path: Path) -> None:
    file, _ = watched(tmp_path / "vmq.acl")
    asyncio.run(file.watch(0, lambda: pytest.fail("changed"), lambda problem: pytest.fail(problem)))
