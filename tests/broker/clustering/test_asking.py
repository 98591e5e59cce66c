"""Finding the leader: a node that does not lead names the leader."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from strogoff.broker.clustering.asking import ask_leader, not_asked
from strogoff.broker.clustering.operator_port import ClusterError
from strogoff.cluster.membership.admission import CallAnswer, JoinRequest, decode_join, encode_call
from strogoff.cluster.transport.memory_asyncio import AsyncioMemoryTransport, memory_network
from strogoff.cluster.transport.wire import Accepted, CallFailed, Refused, Unproven, Wire

LEADS = CallAnswer(cluster_id="c")
JOIN_REQUEST = JoinRequest("n4", "disk", 1, "process", "h:4", (1, 9))


def _nobody(hello: bytes, wire: Wire) -> Accepted | Refused:
    return Refused("no streams here")


def ask(answers: dict[str, CallAnswer | bytes], first: str, asked: list[JoinRequest] | None = None) -> CallAnswer:
    """Let `ask_leader` begin at the address `first`. `asked` gets each request that a node receives."""
    requests: list[JoinRequest] = [] if asked is None else asked

    async def main() -> CallAnswer:
        network = memory_network()

        def place(answer: CallAnswer | bytes) -> object:
            async def answering(method: str, request: bytes) -> bytes:
                assert method == "join"
                requests.append(decode_join(request))
                return answer if isinstance(answer, bytes) else encode_call(answer)

            return answering

        for address, answer in answers.items():
            await AsyncioMemoryTransport(network, address).serve(address, _nobody, place(answer))  # type: ignore[arg-type]
        return await ask_leader(AsyncioMemoryTransport(network, "me"), first, "join", encode_call(JOIN_REQUEST))

    return asyncio.run(main())


def test_the_leader_is_found() -> None:
    answers: dict[str, CallAnswer | bytes] = {"h:1": CallAnswer(ask="h:2"), "h:2": CallAnswer(ask="h:3"), "h:3": LEADS}
    assert ask(answers, "h:1") == LEADS
    assert ask(answers, "h:3") == LEADS


def test_a_node_that_is_sent_on_names_the_cluster_of_the_node_that_sent_it() -> None:
    """Otherwise a leader that has lost its data would found another cluster (H-49)."""
    asked: list[JoinRequest] = []
    ask({"h:1": CallAnswer(ask="h:2", cluster_id="c"), "h:2": LEADS}, "h:1", asked)
    assert [request.cluster_id for request in asked] == ["", "c"]
    assert asked[1] == msgspec.structs.replace(JOIN_REQUEST, cluster_id="c")


def test_a_problem_is_returned_as_an_answer() -> None:
    assert ask({"h:1": CallAnswer("no")}, "h:1").problem == "no"
    assert ask({"h:1": CallAnswer("no leader", ask="h:1")}, "h:1").problem == "no leader"


@pytest.mark.parametrize(("proposed", "answered_by"), [(True, ""), (True, "c"), (False, "")])
def test_a_join_that_a_former_leader_has_proposed_is_undecided_if_no_leader_refuses_it(
    proposed: bool, answered_by: str
) -> None:
    """The log may have it, and the node that answers does not know the log."""
    last = CallAnswer("about to join", cluster_id=answered_by)
    answer = ask({"h:1": CallAnswer(ask="h:2", cluster_id="c", undecided=proposed), "h:2": last}, "h:1")
    assert answer.problem == "about to join" and answer.undecided is (proposed and not answered_by)


def test_an_unreachable_or_unreadable_node_is_named_in_the_error() -> None:
    with pytest.raises(ClusterError, match=r"^h:2: "):
        ask({"h:1": CallAnswer(ask="h:2")}, "h:1")
    with pytest.raises(ClusterError, match=r"^h:1: CallAnswer of 1 bytes"):
        ask({"h:1": b"\xc1"}, "h:1")


def test_the_search_ends_when_nodes_name_each_other_as_leader() -> None:
    circle: dict[str, CallAnswer | bytes] = {"h:1": CallAnswer(ask="h:2"), "h:2": CallAnswer(ask="h:1")}
    with pytest.raises(ClusterError, match="the leader changes too often to be asked, last at h:2"):
        ask(circle, "h:1")


def test_an_address_is_called_wrong_only_if_no_node_is_there() -> None:
    assert not_asked("h:1", Unproven("h:1 has another cookie")) == "h:1 has another cookie. Nothing was changed"
    assert "h:1 must be HOST:PORT of listener.vmq" in not_asked("h:1", CallFailed("nobody answers at h:1"))
