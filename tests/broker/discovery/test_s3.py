"""A bucket as the meeting point of nodes, with a storage that has the interface of S3."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from itertools import pairwise

import pytest

from strogoff.broker.discovery import bucket
from strogoff.broker.discovery.s3 import S3Bucket, S3Place
from strogoff.broker.discovery.source import Announcement, Seen
from tests.harness.s3 import BUCKET, REGION, Storage, storage
from tests.harness.waiting import until, until_answer


@pytest.fixture
def stored() -> Iterator[Storage]:
    with storage() as made:
        yield made


def place(made: Storage, key: str = "n1", **other: str) -> S3Place:
    return S3Place(
        **{
            "bucket": BUCKET,
            "prefix": "p/",
            "endpoint": made.endpoint,
            "region": REGION,
            "addressing": "path",
            "access_key": key,
            "secret_key": "secret",
            **other,
        }
    )


class Node:
    """The source of node n1, n2, ...; `said` are its warnings."""

    def __init__(self, made: Storage, number: int, disk: str = "", pace_s: float = 0.005) -> None:
        self.name = f"VerneMQ@n{number}"
        self.source = S3Bucket(place(made, f"n{number}"), pace_s)
        self.said: list[str] = []
        self.source.begin(Announcement(self.name, f"10.0.0.{number}:44053", disk or f"disk {number}", 1), self._say)

    def _say(self, text: str) -> None:
        if text not in self.said:
            self.said.append(text)

    async def sees(self, right: Callable[[Seen], object]) -> None:
        """Look until this is right."""
        await until_answer(self.source.look, right)

    async def claims(self, right: Callable[[str], object]) -> str:
        """Claim until this is right, and return the reason."""
        return await until_answer(self.source.claim, right)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    asyncio.run(main())


@pytest.mark.slow
def test_nodes_see_each_other_and_one_of_them_may_found(stored: Storage) -> None:
    async def scenario() -> None:
        nodes = [Node(stored, number) for number in (1, 2, 3)]
        for node in nodes:
            await node.sees(lambda seen: len(seen.addresses) == 2 and not seen.unsure)
        assert set((await nodes[0].source.look()).addresses) == {"10.0.0.2:44053", "10.0.0.3:44053"}
        reasons = await asyncio.gather(*[node.source.claim() for node in nodes])
        founder = nodes[reasons.index("")].name
        assert sorted(reasons)[1:] == [f"{founder} is about to found the cluster"] * 2
        assert stored.keys() == ["p/founder", *(f"p/nodes/VerneMQ@n{number}" for number in (1, 2, 3))]
        assert json.loads(stored.content("p/nodes/VerneMQ@n2")) == {
            "node": "VerneMQ@n2", "address": "10.0.0.2:44053", "disk": "disk 2", "boot": 1,
        }  # fmt: skip
        assert [node.said for node in nodes] == [[], [], []]
        await nodes[0].source.close()

    run(scenario)


def test_a_founder_that_is_away_needs_an_operator(stored: Storage) -> None:
    stored.put("p/founder", b'{"node": "VerneMQ@n9", "disk": "d", "at": "2026-01-01 10:00 UTC"}')

    async def scenario() -> None:
        node = Node(stored, 1)
        await node.sees(lambda seen: not seen.problems)
        reason = await node.claims(lambda reason: "VerneMQ@n9" in reason)
        assert reason.startswith("s3://mqtt/p/founder says that VerneMQ@n9 founded a cluster (2026-01-01 10:00 UTC)")
        node.source.overrule()
        await until(lambda: b"VerneMQ@n1" in stored.content("p/founder"))
        assert await node.claims(lambda reason: not reason) == ""
        again = Node(stored, 1, disk="new disk")
        await again.sees(lambda seen: not seen.problems)
        assert "VerneMQ@n1 founded a cluster" in await again.claims(lambda reason: "founded" in reason)

    run(scenario)


def test_stale_and_wrong_objects_are_not_used(stored: Storage) -> None:
    stored.put("p/nodes/old", b'{"node": "old", "address": "10.0.0.9:1", "disk": "d", "boot": 1}', bucket.STALE_S + 5)
    stored.put("p/nodes/wrong", b"hello")
    stored.put("other/nodes/n", b'{"node": "n", "address": "10.0.0.8:1", "disk": "d", "boot": 1}')

    async def scenario() -> None:
        node = Node(stored, 1)
        Node(stored, 2)
        await node.sees(lambda seen: seen.addresses == ("10.0.0.2:44053",) and node.said)
        assert node.said[0].startswith("s3://mqtt/p/: p/nodes/wrong is not the object of a node")

    run(scenario)


def test_a_bucket_that_appears_late_and_one_that_refuses(stored: Storage) -> None:
    stored.drop_bucket()

    async def scenario() -> None:
        node = Node(stored, 1)
        assert await node.source.look() == Seen((), ("s3://mqtt/p/ has not answered yet",), True)
        await node.sees(lambda seen: "NoSuchBucket" in seen.problems[0])
        assert "NoSuchBucket" in await node.source.claim()
        stored.make_bucket()
        await node.sees(lambda seen: seen == Seen())
        stored.refuses = True
        assert "AccessDenied" in await node.claims(lambda reason: reason)
        await node.sees(lambda seen: seen.unsure and "AccessDenied" in seen.problems[0])
        stored.refuses = False
        await node.claims(lambda reason: not reason)
        assert ["NoSuchBucket" in text or "AccessDenied" in text for text in node.said] == [True] * len(node.said)

    run(scenario)


def test_a_slow_answer_is_waited_for_and_nobody_founds_meanwhile(stored: Storage) -> None:
    async def scenario() -> None:
        stored.answers.clear()
        node = Node(stored, 1)
        await until(lambda: stored.requests)
        assert (await node.source.look()).unsure and "has not answered yet" in await node.source.claim()
        stored.answers.set()
        await node.sees(lambda seen: not seen.problems)
        assert node.said == []

    run(scenario)


def test_an_endpoint_that_is_none_is_a_problem(stored: Storage) -> None:
    async def scenario() -> None:
        said: list[str] = []
        source = S3Bucket(place(stored, endpoint="no url"), 0.005)
        source.begin(Announcement("n", "h:1", "d", 1), said.append)
        await until(lambda: said)
        assert "no url" in said[0] and (await source.look()).unsure
        await source.close()

    run(scenario)


def test_two_processes_with_one_name_are_noticed(stored: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "HEARTBEAT_S", 0.05)

    async def scenario() -> None:
        node, twin = Node(stored, 1), Node(stored, 1, disk="another disk")
        await node.sees(lambda seen: node.said or twin.said)
        assert "another process announces itself as VerneMQ@n1" in (node.said + twin.said)[0]

    run(scenario)


def test_there_is_one_request_at_a_time_with_a_pause(stored: Storage) -> None:
    async def scenario() -> None:
        nodes = [Node(stored, number, pace_s=0.1) for number in (1, 2)]
        await nodes[0].sees(lambda seen: seen.addresses)
        await asyncio.gather(nodes[0].source.claim(), nodes[1].source.claim())
        times = stored.of("n1")
        assert len(times) >= 3 and min(b - a for a, b in pairwise(times)) > 0.08

    run(scenario)


def test_a_member_that_looks_for_nobody_asks_rarely_and_deletes_what_is_gone(
    stored: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strogoff.broker.discovery.s3.LOOKING_S", 0.0)
    stored.put("p/nodes/gone", b"{}", bucket.FORGET_S + 5)

    async def scenario() -> None:
        Node(stored, 1)
        await until(lambda: stored.keys() == ["p/nodes/VerneMQ@n1"])
        assert [method for _, _, method, _ in stored.requests] == ["PUT", "GET", "DELETE"]

    run(scenario)
