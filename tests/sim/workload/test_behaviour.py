"""The actions of a model client."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from strogoff.sim.history import History
from strogoff.sim.workload.behaviour import LARGE, Behaviour
from strogoff.sim.workload.client import ModelClient
from strogoff.sim.workload.swarm import TOPICS, WATCHER, draw

from ..histories import make_host
from .test_client import SPEC


def make(features: frozenset[str], seed: int = 0, **changes: object) -> tuple[Behaviour, History]:
    loop, host, _ = make_host()
    history = History(lambda: loop.now_s, [])
    host.start()
    client = ModelClient(replace(SPEC, **changes), host, history, Random(seed), (0.0, 0.0), None)  # type: ignore[arg-type]
    swarm = replace(draw(0), features=features)
    return Behaviour(client, swarm, Random(seed)), history


def test_it_publishes_with_the_qos_and_topics_of_its_features() -> None:
    behaviour, history = make(frozenset({"qos2", "large", "expiry"}), pace_s=0.2)
    behaviour.begin()
    behaviour.client.loop.run_for(30)
    attempts = list(history.attempts.values())
    assert len(attempts) > 20 and {each.qos for each in attempts} == {2}
    assert {each.expiry_s for each in attempts} > {0} and LARGE >= 256
    assert len(history.connections["c"]) == 1


def test_it_does_everything_in_time() -> None:
    features = frozenset({"qos1", "breaks", "polite", "takeover", "subscribing", "slow", "clean_start"})
    behaviour, history = make(features, pace_s=0.2)
    behaviour.begin()
    behaviour.client.loop.run_for(200)
    assert history.lines is not None
    told = "\n".join(history.lines)
    for what in ("closes without", "lost", "DISCONNECT", "takes over", "UNSUBSCRIBE", "stops reading", "clean=True"):
        assert what in told, what
    assert history.problems == []


def test_calm_means_connected_and_quiet() -> None:
    behaviour, history = make(frozenset({"qos1", "slow", "breaks"}), pace_s=0.2, ack_delay_s=1.0)
    behaviour.begin()
    behaviour.client.loop.run_for(20)
    behaviour.calm()
    behaviour.client.loop.run_for(20)
    count = history.count
    behaviour.client.loop.run_for(100)
    assert behaviour.client.connected and history.count == count and behaviour.client.sender.open == {}


def test_the_watcher_is_first_and_an_abandoned_client_does_not_come_back() -> None:
    behaviour, _ = make(frozenset({"qos1"}), name=WATCHER)
    behaviour.begin()
    assert behaviour.client.peer is not None
    behaviour, history = make(frozenset({"qos1"}), abandons=True, writes=False, pace_s=0.2)
    behaviour.begin()
    behaviour.client.loop.run_for(100)
    behaviour.calm()
    behaviour.client.loop.run_for(10)
    assert behaviour.client.gone and not behaviour.client.connected and len(history.connections["c"]) == 1


def test_with_a_rate_many_publishes_are_in_front_of_disconnect() -> None:
    behaviour, history = make(frozenset({"qos0", "polite"}), pace_s=0.2, writes=False, topics=())
    assert not behaviour._rated
    behaviour._rated = True
    behaviour.begin()
    behaviour.client.loop.run_for(100)
    assert len(history.attempts) > 20 and {each.topic for each in history.attempts.values()} == set(TOPICS)
