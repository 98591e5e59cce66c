"""A19: accepted or refused against the policy. Planted cases are in tests/judge/planted."""

from __future__ import annotations

import pytest

from strogoff.judge.message import POLICY

from ...testing.log_audit.log_builder import Log
from .found import kinds


@pytest.mark.parametrize(("flag", "wrong"), [("on", False), ("majority", True), ("off", True), (None, False)])
def test_the_setting_at_the_time_of_the_answer(flag: str | None, wrong: bool) -> None:
    """From the start of the boot, or changed since. Without it nothing is known."""
    for changed in (False, True):
        log = Log()
        if flag is not None and not changed:
            log.say("node.start", retained=0, settings=[f"{POLICY}={flag}"])
        elif flag is not None:
            log.say("node.start", retained=0, settings=[f"{POLICY}={'on' if wrong else 'off'}"])
            log.say("config.change", key=POLICY, new=flag)
        mid = log.accept()
        log.say("pub.ack", mid=mid, client="tx", right="policy")
        assert [each for each in kinds(log) if each[0] == "A19"] == [("A19", "accepted")] * wrong


@pytest.mark.parametrize(("before", "after"), [("on", "off"), ("off", "on")])
@pytest.mark.parametrize("again", [False, True])
def test_the_setting_is_that_of_the_acceptance(before: str, after: str, again: bool) -> None:
    """An operator changes it before the answer leaves, perhaps when the client has published the message again."""
    log = Log()
    log.say("node.start", retained=0, settings=[f"{POLICY}=majority"])
    log.say("config.change", key=POLICY, new=before)
    mid = log.accept(qos=2)
    if again:
        log.say("config.change", key=POLICY, new="on")
        log.say("pub.recv", mid=mid, client="tx", topic="t/1", qos=2)
    log.say("config.change", key=POLICY, new=after)
    log.say("pub.ack", mid=mid, client="tx", qos=2, right="policy")
    wrong = before == "off" and not again
    assert [each for each in kinds(log) if each[0] == "A19"] == [("A19", "accepted")] * wrong


@pytest.mark.parametrize(
    ("state", "policy", "wrong"),
    [
        ("whole", "allow_publish_during_netsplit=off", True),
        ("majority", "allow_publish_during_netsplit=off", False),
        ("whole", "fenced", False),
        ("whole", "settling", False),
    ],
)
def test_the_row_says_what_the_node_saw(state: str, policy: str, wrong: bool) -> None:
    log = Log()
    denied = {"client": "tx", "operation": "publish", "topic": "t", "reason": "netsplit"}
    log.say("policy.deny", **denied, state=state, policy=policy)
    assert kinds(log) == [("A19", "refused")] * wrong


def test_in_older_logs_a_node_without_a_lease_may_refuse() -> None:
    log = Log()
    for wrong, kind in ((False, "node.stats"), (True, "lease.get"), (False, "lease.lose")):
        more = {"view": 1} if kind != "node.stats" else {"connects": 0, "publishes": 0, "deliveries": 0, "drops": {}}
        log.say(kind, **more)
        before = len(kinds(log))
        log.say("policy.deny", client="tx", operation="publish", topic="t", reason="netsplit")
        log.say("policy.deny", client="tx", operation="publish", topic="t", reason="copies")
        assert len(kinds(log)) == before + wrong
