"""Discovery: a node in no cluster looks for other nodes. They answer or not, and accept it or refuse it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from strogoff.broker.clustering import discovery as cluster_discovery
from strogoff.broker.clustering.discovery import Discovery
from strogoff.broker.clustering.neighbours import Neighbourhood, Neighbours
from strogoff.broker.clustering.operator_port import ClusterError, MustStartAgain, NameTaken
from strogoff.broker.discovery import host_names
from strogoff.broker.discovery.configured_nodes import ConfiguredNodes
from strogoff.broker.discovery.settings import DiscoverySettings
from strogoff.broker.discovery.source import Announcement, Lookup, Say, Seen, Source
from strogoff.cluster.membership.discovery import WHO, WhoAnswer, encode_who
from strogoff.cluster.transport.memory_asyncio import AsyncioMemoryTransport, memory_network
from strogoff.cluster.transport.wire import Accepted, CallFailed, Refused, Wire
from tests.harness.waiting import until

ME = Announcement("b", "127.0.0.1:9", "disk of b", 1)


class Place:
    """One address: the answer of its node, and the number of questions."""

    def __init__(self, answer: WhoAnswer | None) -> None:
        self.answer = answer
        self.asked = 0

    async def calls(self, method: str, request: bytes) -> bytes:
        assert (method, request) == (WHO, b"b")
        self.asked += 1
        if self.answer is None:
            raise CallFailed("just starting")
        return encode_who(self.answer)


def seeks(name: str, *sees: str) -> WhoAnswer:
    return WhoAnswer(name, "", False, False, True, sees)


def _nobody(hello: bytes, wire: Wire) -> Accepted | Refused:
    return Refused("no streams here")


class Search:
    """Discovery of node `b` in a network of its own; `joined` has the addresses that it tried to join."""

    def __init__(self) -> None:
        self.network = memory_network()
        self.joined: list[str] = []
        self.log: list[str] = []
        self.hints: list[tuple[str, str]] = []
        self.found = asyncio.Event()
        self.missing = False
        self.refusals: list[str] = []
        self.refusal = ClusterError
        self.taken = self.waits = False
        self.holds = False
        self.size = 0
        self.doubt = ""
        self.sources: list[Source] = []

    async def place(self, port: int, answer: WhoAnswer | None) -> Place:
        made = Place(answer)
        transport = AsyncioMemoryTransport(self.network, f"h{port}")
        await transport.serve(f"127.0.0.1:{port}", _nobody, made.calls)
        return made

    def discovery(self, *places: str) -> Discovery:
        return Discovery(
            "b",
            Neighbours("b", [ConfiguredNodes(places), *self.sources], AsyncioMemoryTransport(self.network, "b")),
            DiscoverySettings(places, self.size).founders,
            self.found.is_set,
            self._join,
            lambda: self.missing,
            lambda answer, address: self.hints.append((answer.node, address)),
            lambda level, text: self.log.append(f"{level}: {text}"),
            lambda: self.holds,
            lambda: self.found.set(),
            lambda: self.doubt,
        )

    async def _join(self, address: str) -> None:
        self.joined.append(address)
        if self.refusals:
            raise self.refusal(self.refusals.pop(0))
        if self.taken:
            raise NameTaken("b runs elsewhere")
        self.found.set()
        if self.waits:
            await asyncio.Event().wait()

    async def run(self, discovery: Discovery, end: Callable[[], bool]) -> None:
        task = asyncio.create_task(discovery.run(ME))
        await until(end)
        task.cancel()


def run(scenario: Callable[[Search], Awaitable[None]]) -> Search:
    async def main() -> Search:
        search = Search()
        await scenario(search)
        return search

    return asyncio.run(main())


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_discovery, "LOOK_S", 0.005)
    monkeypatch.setattr(cluster_discovery, "AGAIN_S", 0.005)


def test_it_joins_a_node_that_is_in_a_cluster() -> None:
    async def scenario(search: Search) -> None:
        await search.place(1, seeks("a"))
        await search.place(2, WhoAnswer("z", "cluster", True))
        await search.run(search.discovery("127.0.0.1:1", "z@127.0.0.1:2"), search.found.is_set)

    assert run(scenario).joined == ["127.0.0.1:2"]


def test_it_waits_for_starting_nodes_and_for_the_founder() -> None:
    async def scenario(search: Search) -> None:
        first = await search.place(1, None)
        await search.place(2, seeks("c"))
        discovery = search.discovery("127.0.0.1:1", "127.0.0.1:2")
        await search.run(discovery, lambda: first.asked >= 3)
        assert search.joined == [] and discovery.sees == ("c",)
        assert "2 of the 3 nodes that a new cluster needs answer: b, c" in discovery.waits_for
        first.answer = WhoAnswer("a", "", False)
        await search.run(discovery, search.found.is_set)

    assert run(scenario).joined == ["127.0.0.1:1"]


def test_a_refusal_is_logged_once_and_tried_again() -> None:
    async def scenario(search: Search) -> None:
        search.refusals = ["not now", "not now", "not now"]
        await search.place(1, WhoAnswer("a", "cluster", True))
        await search.run(search.discovery("127.0.0.1:1"), search.found.is_set)

    search = run(scenario)
    assert search.joined == ["127.0.0.1:1"] * 4
    assert search.log == ["warning: discovery: not now"]


def test_an_invalid_address_is_logged_and_the_others_are_asked() -> None:
    async def scenario(search: Search) -> None:
        await search.place(1, WhoAnswer("a", "cluster", True))
        await search.run(search.discovery("[::1", "127.0.0.1:1"), search.found.is_set)

    search = run(scenario)
    assert search.joined == ["127.0.0.1:1"]
    assert len(search.log) == 1
    assert "[::1" in search.log[0]


def _names(monkeypatch: pytest.MonkeyPatch, **others: Callable[[], Any]) -> None:
    """Replace DNS for the given names by functions."""
    known = socket.getaddrinfo

    def look(host: str, *more: Any, **options: Any) -> Any:
        return others[host]() if host in others else known(host, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look)


def test_an_invalid_name_is_logged_and_the_others_are_asked() -> None:
    """For example a template whose variable is empty. Before, this ended the search for good without a log line."""

    async def scenario(search: Search) -> None:
        await search.place(1, WhoAnswer("a", "cluster", True))
        await search.run(search.discovery("nodes..svc:1", "127.0.0.1:1"), search.found.is_set)

    search = run(scenario)
    assert search.joined == ["127.0.0.1:1"]
    assert search.log == [
        "warning: discovery: nodes..svc:1: this is no host name: each of its parts must have 1 to 63 characters"
    ]


def test_a_name_without_a_dns_answer_does_not_delay_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS servers do not answer for half a minute. Before, this node accepted clients meanwhile and could not join any
    more.
    """
    monkeypatch.setattr(host_names, "ANSWER_S", 0.02)
    over, asked = threading.Event(), []

    def hang() -> list[object]:
        asked.append(1)
        over.wait(10)
        return []

    _names(monkeypatch, slow=hang)

    async def scenario(search: Search) -> None:
        place = await search.place(1, seeks("c"))
        discovery = search.discovery("slow:1", "127.0.0.1:1")
        task = asyncio.create_task(discovery.run(ME))
        await until(lambda: place.asked >= 3)
        place.answer = WhoAnswer("a", "cluster", True)
        await until(search.found.is_set)
        task.cancel()

    assert "warning: discovery: slow:1: DNS has not answered within 0.02 s" in run(scenario).log
    assert asked == [1]
    over.set()


def _fails_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS fails three times for `nodes`, and then returns 127.0.0.1, port 1."""
    fails = [socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")] * 3

    def later() -> Any:
        if fails:
            raise fails.pop()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))]

    _names(monkeypatch, nodes=later)


def test_clients_wait_while_dns_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens when a machine has just started: it is unknown yet whether a cluster exists."""
    _fails_at_first(monkeypatch)

    async def scenario(search: Search) -> None:
        await search.place(1, WhoAnswer("a", "cluster", True))
        discovery = search.discovery("nodes:1")
        task = asyncio.create_task(discovery.run(ME))
        async with asyncio.timeout(5):
            await discovery.first()
        task.cancel()
        assert search.found.is_set()

    assert "warning: discovery: nodes:1: [Errno -3] Temporary failure in name resolution" in run(scenario).log


def test_it_founds_no_cluster_while_dns_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cluster may be where the name points to, and this may be a new disk of a member."""
    _fails_at_first(monkeypatch)

    async def scenario(search: Search) -> None:
        search.size = 1
        await search.place(1, WhoAnswer("a", "cluster", True))
        await search.run(search.discovery("nodes:1"), search.found.is_set)

    assert run(scenario).joined == ["127.0.0.1:1"]


def test_a_start_does_not_wait_for_an_unknown_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A headless service has the name once its first node is ready, and this is the first node."""

    def none() -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    _names(monkeypatch, nodes=none)

    async def scenario(search: Search) -> None:
        discovery = search.discovery("nodes:1")
        task = asyncio.create_task(discovery.run(ME))
        async with asyncio.timeout(5):
            await discovery.first()
        task.cancel()

    assert "warning: discovery: nodes:1: [Errno -2] Name or service not known" in run(scenario).log


def test_one_address_under_two_names_is_asked_once() -> None:
    async def scenario(search: Search) -> None:
        place = await search.place(1, WhoAnswer("a", "", False))
        await search.run(search.discovery("127.0.0.1:1", "a@127.0.0.1:1"), search.found.is_set)
        assert place.asked == 1

    run(scenario)


def test_clients_wait_until_it_is_in_the_cluster() -> None:
    """Sessions made here before would prevent the join, or would have two owners."""

    async def scenario(search: Search) -> None:
        search.refusals = ["not now", "not now"]
        await search.place(1, WhoAnswer("a", "", False))
        discovery = search.discovery("127.0.0.1:1")
        task = asyncio.create_task(discovery.run(ME))
        async with asyncio.timeout(5):
            await discovery.first()
        task.cancel()
        assert search.found.is_set()

    search = run(scenario)
    assert len(search.joined) == 3
    assert search.log == ["warning: discovery: not now"]


@pytest.mark.parametrize("answer", [None, seeks("b"), seeks("c"), seeks("a")])
def test_a_start_continues_if_no_node_can_be_joined_yet(answer: WhoAnswer | None) -> None:
    """No node answers, the node finds itself, or it finds nodes without a cluster. It is in no
    cluster, and logs why.
    """

    async def scenario(search: Search) -> None:
        await search.place(1, answer)
        discovery = search.discovery("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")
        task = asyncio.create_task(discovery.run(ME))
        async with asyncio.timeout(5):
            await discovery.first()
        task.cancel()
        assert not search.found.is_set()
        assert "of the " in discovery.waits_for

    search = run(scenario)
    assert search.joined == []
    (line,) = search.log
    assert line.startswith("notice: discovery: no node that answers is in a cluster, and ")


def test_a_start_waits_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_discovery, "FIRST_S", 0.02)

    async def scenario(search: Search) -> None:
        await search.place(1, WhoAnswer("a", "cluster", False, knows=True))
        discovery = search.discovery("127.0.0.1:1")
        task = asyncio.create_task(discovery.run(ME))
        await discovery.first()
        task.cancel()

    assert run(scenario).log == [
        "notice: discovery: a is in a cluster that has no majority now, and knows b as a member of it",
        "warning: discovery: this node is in no cluster after 0 s. It takes no clients until it is in one",
    ]


def test_it_founds_a_cluster_when_all_expected_nodes_see_each_other() -> None:
    async def scenario(search: Search) -> None:
        search.size = 2
        place = await search.place(1, seeks("c"))
        discovery = search.discovery("127.0.0.1:1")
        await search.run(discovery, lambda: place.asked >= 3)
        assert discovery.waits_for == "not all of b, c see each other yet: c"
        place.answer = seeks("c", "b")
        await search.run(discovery, search.found.is_set)
        await search.run(discovery, lambda: not discovery.waits_for)

    search = run(scenario)
    assert search.joined == []
    assert search.log[-1] == "notice: discovery: b founds a cluster; c can join"


def test_a_refusal_comes_first_and_without_the_advice_to_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node that refuses may be in the cluster that this node looks for: another cluster would be a second one."""
    refuses = "h:1 does not take this node for one of its cluster: it has another distributed_cookie"
    seen = [Neighbourhood((), (refuses,), ("a source is slow",), True)]

    async def look(neighbours: Neighbours) -> Neighbourhood:
        return seen[0]

    monkeypatch.setattr(Neighbours, "look", look)

    async def scenario(search: Search) -> None:
        discovery = search.discovery("127.0.0.1:1", "127.0.0.1:2")
        await search.run(discovery, lambda: refuses in discovery.waits_for)
        async with asyncio.timeout(5):
            await discovery.first()  # the start goes on, so that operators can ask this node
        assert discovery.waits_for.startswith(f"{refuses}. no node that answers is in a cluster")
        assert discovery.waits_for.endswith(". a source is slow")
        assert "cluster found" not in "".join([discovery.waits_for, *search.log])
        seen[0] = Neighbourhood((), (), (), False)
        await search.run(discovery, lambda: discovery.waits_for.endswith("without them: vmq-admin cluster found"))

    assert f"warning: discovery: {refuses}" in run(scenario).log


def test_it_gives_the_reason_when_it_cannot_join() -> None:
    async def scenario(search: Search) -> None:
        search.refusals = ["not now"] * 10**4
        await search.place(1, WhoAnswer("a", "cluster", True))
        discovery = search.discovery("127.0.0.1:1")
        await search.run(discovery, lambda: len(search.joined) > 1)
        assert discovery.waits_for == "the node cannot join the cluster: not now"

    run(scenario)


def test_a_node_that_starts_again_by_itself_does_not_warn() -> None:
    async def scenario(search: Search) -> None:
        search.refusal, search.refusals = MustStartAgain, ["it starts again"]
        await search.place(1, WhoAnswer("a", "cluster", True))
        await search.run(search.discovery("127.0.0.1:1"), search.found.is_set)

    assert run(scenario).log == ["notice: discovery: it starts again"]


def test_a_member_learns_the_new_addresses_of_missing_members() -> None:
    async def scenario(search: Search) -> None:
        search.found.set()
        place = await search.place(1, WhoAnswer("a", "cluster", True))
        discovery = search.discovery("127.0.0.1:1")
        search.missing = True
        await search.run(discovery, lambda: bool(search.hints))
        assert place.asked >= 1

    search = run(scenario)
    assert search.hints[0] == ("a", "127.0.0.1:1")
    assert search.joined == []


class Guarded(Lookup):
    """A source that does not let this node found yet."""

    key = "guarded"

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.reason = "c is about to found the cluster"
        self.began: list[Announcement] = []
        self.claims = 0
        self.when_claimed: Callable[[], None] = lambda: None
        self.overruled = self.closed = False

    def begin(self, me: Announcement, say: Say) -> None:
        self.began.append(me)
        say("the source is slow")
        say("the source is slow")

    async def look(self) -> Seen:
        return self.seen

    async def claim(self) -> str:
        self.claims += 1
        self.when_claimed()
        return self.reason

    def overrule(self) -> None:
        self.overruled = True

    async def close(self) -> None:
        self.closed = True


def test_it_founds_only_when_every_source_allows_it() -> None:
    async def scenario(search: Search) -> None:
        search.size = 1
        source = Guarded(Seen(("127.0.0.1:1",), ("the source has hiccups",)))
        search.sources = [source]
        place = await search.place(1, None)
        discovery = search.discovery("127.0.0.1:2")
        await search.run(discovery, lambda: place.asked >= 3)
        assert discovery.waits_for == "c is about to found the cluster. the source has hiccups"
        assert not search.found.is_set() and source.began == [ME]
        source.reason = ""
        await search.run(discovery, search.found.is_set)
        discovery.overrule()
        assert source.overruled
        await until(lambda: source.closed)

    assert run(scenario).log == [
        "warning: discovery: the source is slow",
        "warning: discovery: the source has hiccups",
        "notice: discovery: c is about to found the cluster",
        "notice: discovery: b founds a cluster; no other node can join",
    ]


def test_a_node_that_may_be_a_member_founds_no_cluster_and_claims_none() -> None:
    """If it claimed to be the founder, no other node would found the cluster."""

    async def scenario(search: Search) -> None:
        search.size, search.doubt = 1, "b may be a member of a cluster"
        source = Guarded(Seen())
        source.reason = ""
        search.sources = [source]
        place = await search.place(1, seeks("c"))
        discovery = search.discovery("127.0.0.1:1")
        await search.run(discovery, lambda: place.asked >= 3)
        assert discovery.waits_for == search.doubt
        assert not search.found.is_set() and source.claims == 0 and not discovery.sees
        search.doubt = ""
        await search.run(discovery, search.found.is_set)
        assert discovery.sees == ("c",)

    run(scenario)


def test_it_founds_no_cluster_if_a_join_begins_while_a_source_is_asked() -> None:
    async def scenario(search: Search) -> None:
        search.size = 1
        source = Guarded(Seen())
        source.reason = ""
        source.when_claimed = lambda: setattr(search, "doubt", "b is about to join a cluster")
        search.sources = [source]
        place = await search.place(1, None)
        discovery = search.discovery("127.0.0.1:1")
        await search.run(discovery, lambda: place.asked >= 3)
        assert source.claims == 1 and not search.found.is_set()
        assert discovery.waits_for == "b is about to join a cluster"

    run(scenario)


def test_a_start_waits_for_a_source_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_discovery, "FIRST_S", 0.05)

    async def scenario(search: Search) -> None:
        search.sources = [Guarded(Seen(unsure=True))]
        discovery = search.discovery("127.0.0.1:2")
        task = asyncio.create_task(discovery.run(ME))
        await discovery.first()
        task.cancel()

    assert "warning: discovery: this node is in no cluster after 0 s" in run(scenario).log[-1]


def test_a_problem_that_was_away_is_logged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_discovery, "SAY_AGAIN_S", 0.1)

    async def scenario(search: Search) -> None:
        source = Guarded(Seen((), ("it is slow",)))
        search.sources = [source]
        place = await search.place(1, None)
        discovery = search.discovery("127.0.0.1:1")
        await search.run(discovery, lambda: place.asked >= 3)
        source.seen = Seen()
        asked, began_s = place.asked, asyncio.get_running_loop().time()
        await search.run(discovery, lambda: place.asked > asked and asyncio.get_running_loop().time() > began_s + 0.2)
        source.seen = Seen((), ("it is slow",))
        await search.run(discovery, lambda: search.log.count("warning: discovery: it is slow") == 2)

    run(scenario)


def test_a_node_whose_name_a_running_member_has_soon_asks_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would take the place of that member, with an empty disk, when that one restarts."""
    monkeypatch.setattr(cluster_discovery, "TAKEN_S", 0.05)

    async def scenario(search: Search) -> None:
        search.taken = True
        await search.place(2, WhoAnswer("z", "cluster", True))
        discovery = search.discovery("127.0.0.1:2")
        looked: list[int] = []

        def has_given_up() -> bool:
            if "does not join any more" in discovery.waits_for:
                search.taken = False  # the member restarts
                looked.append(len(search.joined))
            return len(looked) > 20 or search.found.is_set()

        await search.run(discovery, has_given_up)
        assert len(looked) > 20 and looked[0] == looked[-1] > 1

    search = run(scenario)
    (told,) = [line for line in search.log if line.startswith("error")]
    assert "a running member has had the name of this node for 0 s. This process does not join any more" in told


def test_it_looks_for_addresses_while_its_join_waits() -> None:
    """The log may have former addresses of the members."""

    async def scenario(search: Search) -> None:
        search.missing = search.waits = True
        await search.place(2, WhoAnswer("z", "cluster", True))
        await search.run(search.discovery("127.0.0.1:2"), lambda: bool(search.hints))

    assert run(scenario).hints[0] == ("z", "127.0.0.1:2")
