"""Pods from the API of Kubernetes: a list, then a watch; and what happens when the API refuses, is slow or forgets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from strogoff.broker.discovery import kubernetes
from strogoff.broker.discovery.kubernetes import KubernetesPods
from strogoff.broker.discovery.source import Announcement, Seen
from tests.harness.kubernetes import Api, api, pod
from tests.harness.waiting import until, until_answer

ME = Announcement("VerneMQ@n-0", "10.0.0.1:5000", "disk", 1)


class Watcher:
    """The source of a node at an API; `said` are its warnings."""

    def __init__(self, server: Api) -> None:
        self.api = server
        self.source = KubernetesPods(server.place, pace_s=0.005)
        self.said: list[str] = []
        self.seen = Seen()
        self.source.begin(ME, self.said.append)

    async def sees(self, right: Callable[[Seen], object]) -> None:
        """Look until this is right."""
        self.seen = await until_answer(self.source.look, right)


def run(tmp_path: Path, scenario: Callable[[Watcher], Awaitable[None]]) -> None:
    async def main() -> None:
        async with api(tmp_path) as server:
            server.change("ADDED", pod("n-0", "10.0.0.1"))
            watcher = Watcher(server)
            await scenario(watcher)
            await watcher.source.close()

    asyncio.run(main())


def test_it_lists_the_pods_once_and_then_watches_them(tmp_path: Path) -> None:
    async def scenario(watcher: Watcher) -> None:
        await watcher.sees(lambda seen: seen.addresses == ("10.0.0.1:5000",))
        assert await watcher.source.claim() == "" and not watcher.seen.unsure
        watcher.api.change("ADDED", pod("n-1", "10.0.0.2"))
        await watcher.sees(lambda seen: seen.addresses == ("10.0.0.1:5000", "10.0.0.2:5000"))
        watcher.api.change("DELETED", pod("n-0", "10.0.0.1"))
        await watcher.sees(lambda seen: seen.addresses == ("10.0.0.2:5000",))
        assert [watch for _, watch in watcher.api.requests] == [False, True] and watcher.said == []

    run(tmp_path, scenario)


def test_it_lists_again_when_the_api_has_forgotten_the_version(tmp_path: Path) -> None:
    async def scenario(watcher: Watcher) -> None:
        await watcher.sees(lambda seen: seen.addresses)
        await until(lambda: len(watcher.api.requests) == 2)
        watcher.api.pods["n-1"] = pod("n-1", "10.0.0.2")
        watcher.api.forget()
        await watcher.sees(lambda seen: len(seen.addresses) == 2)
        assert watcher.said == []

    run(tmp_path, scenario)


def test_a_refusal_is_a_problem_until_it_ends_and_nobody_founds_meanwhile(tmp_path: Path) -> None:
    async def scenario(watcher: Watcher) -> None:
        watcher.api.refuses = 403
        await watcher.sees(lambda seen: "status 403" in seen.problems[0])
        assert watcher.seen.unsure and "pods is forbidden" in await watcher.source.claim()
        assert "pods with app=strogoff in namespace mqtt" in watcher.said[0]
        watcher.api.refuses = 0
        await watcher.sees(lambda seen: seen.addresses and not seen.problems)
        assert await watcher.source.claim() == ""

    run(tmp_path, scenario)


def test_a_new_token_is_used(tmp_path: Path) -> None:
    async def scenario(watcher: Watcher) -> None:
        await watcher.sees(lambda seen: seen.addresses)
        watcher.api.token = "second"
        watcher.api.forget()
        await watcher.sees(lambda seen: "status 401" in "".join(seen.problems))
        watcher.api.set_token("second")
        await watcher.sees(lambda seen: not seen.problems)

    run(tmp_path, scenario)


def test_a_role_without_watch_is_enough(tmp_path: Path) -> None:
    async def scenario(watcher: Watcher) -> None:
        watcher.api.may_watch = False
        await watcher.sees(lambda seen: seen.addresses)
        watcher.api.change("ADDED", pod("n-1", "10.0.0.2"))
        await watcher.sees(lambda seen: len(seen.addresses) == 2)
        assert ["may not watch the pods" in text for text in watcher.said] == [True]
        await until(lambda: watcher.api.requests[-1][1] is False)
        assert sum(watch for _, watch in watcher.api.requests) == 1

    run(tmp_path, scenario)


def test_a_slow_api_leaves_it_open_whether_there_are_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "ANSWER_S", 0.05)

    async def scenario(watcher: Watcher) -> None:
        watcher.api.delay_s = 5
        assert "has not answered yet" in (await watcher.source.look()).problems[0]
        await watcher.sees(lambda seen: "TimeoutError" in seen.problems[0])
        assert watcher.seen.unsure and watcher.seen.addresses == ()

    run(tmp_path, scenario)


def test_what_was_known_stays_known_while_the_api_is_away(tmp_path: Path) -> None:
    async def scenario(watcher: Watcher) -> None:
        await watcher.sees(lambda seen: seen.addresses)
        watcher.api.refuses = 500
        watcher.api.forget()
        await watcher.sees(lambda seen: seen.problems)
        assert watcher.seen.addresses == ("10.0.0.1:5000",)

    run(tmp_path, scenario)


def test_a_list_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "MOST_BYTES", 1000)

    async def scenario(watcher: Watcher) -> None:
        watcher.api.pods["n-1"] = pod("n-1", "10.0.0.2", annotations={"x": "y" * 2000})
        await watcher.sees(lambda seen: "longer than 1000 bytes" in "".join(seen.problems))

    run(tmp_path, scenario)
