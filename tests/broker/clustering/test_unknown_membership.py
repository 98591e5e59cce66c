"""A node without a log that may be a member: what it notes on disk, and which refusals end the doubt."""

from __future__ import annotations

import pytest

from strogoff.broker.clustering.unknown_membership import Request, UnknownMembership
from strogoff.cluster.membership.admission import CallAnswer
from strogoff.storage.memory import VolatileMemoryEngine
from strogoff.storage.store import Store


def store() -> Store:
    return Store(VolatileMemoryEngine(lambda call: None), lambda call: None, lambda delay_s, call: None)


def test_a_request_is_known_until_it_is_answered() -> None:
    meta = store()
    unknown = UnknownMembership("n2", meta)
    assert (unknown.asked, unknown.why) == (False, "")
    assert unknown.ask("h:1", "c") is None
    again = UnknownMembership("n2", meta)
    assert again.asked and again.why == unknown.why and "cluster join discovery-node=h:1 " in again.why
    assert again.ask("h:2", "c") == Request("h:1", "c") and "discovery-node=h:2 " in again.why
    again.note(None)
    assert (again.asked, again.why, UnknownMembership("n2", meta).asked) == (False, "", False)


def test_what_a_member_says_counts_although_a_request_is_answered() -> None:
    unknown = UnknownMembership("n2", store())
    unknown.claimed("n1@h", "h:1")
    unknown.ask("h:1", "c")
    unknown.note(None)
    assert not unknown.asked and unknown.why.startswith("n1@h says that n2 is a member of its cluster")


def test_a_node_that_is_refused_at_its_first_request_is_no_member() -> None:
    unknown = UnknownMembership("n2", store())
    unknown.refused(CallAnswer("no"), unknown.ask("h:1", "c"))
    assert not unknown.asked


@pytest.mark.parametrize(("answered_by", "asked"), [("", True), ("other", True), ("c", False)])
def test_only_the_leader_of_the_cluster_that_was_asked_refuses_an_earlier_request(
    answered_by: str, asked: bool
) -> None:
    unknown = UnknownMembership("n2", store())
    unknown.ask("h:1", "c")
    unknown.refused(CallAnswer("no", cluster_id=answered_by), unknown.ask("h:2", "other"))
    assert unknown.asked is asked and ("discovery-node=h:1 " in unknown.why) is asked


def test_a_node_without_an_answer_of_two_clusters_believes_no_refusal() -> None:
    unknown = UnknownMembership("n2", store())
    for cluster_id in ("c", "d"):
        unknown.ask("h:1", cluster_id)
    for cluster_id in ("c", "d"):
        unknown.refused(CallAnswer("no", cluster_id=cluster_id), unknown.ask("h:1", cluster_id))
        assert unknown.asked


def test_a_node_that_was_in_no_cluster_when_it_was_asked_is_not_known_by_an_id() -> None:
    meta = store()
    UnknownMembership("n2", meta).ask("h:1", "")
    unknown = UnknownMembership("n2", meta)
    unknown.refused(CallAnswer("no"), unknown.ask("h:1", ""))
    assert unknown.asked
