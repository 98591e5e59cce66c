"""All checkers on one finished world."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..broker.node import Node
from .checkers import (
    ack_order,
    complaints,
    early_ack,
    exactly_once,
    expiry,
    limits,
    lost,
    order,
    owners,
    packet_ids,
    rest,
    retained,
    sessions,
    unexpected,
    wills,
)
from .checkers.case import Case, Checker
from .history import History
from .workload.client import ModelClient
from .workload.swarm import Swarm

CHECKERS: tuple[Checker, ...] = (
    complaints.check,
    rest.check,
    lost.check,
    exactly_once.check,
    order.check,
    ack_order.check,
    early_ack.check,
    unexpected.check,
    packet_ids.check,
    sessions.check,
    owners.check,
    wills.check,
    expiry.check,
    limits.check,
    retained.check,
)


def make_case(
    history: History, swarm: Swarm, clients: list[ModelClient], node: Node, content: Mapping[bytes, bytes]
) -> Case:
    """What the checkers need of a world at its end."""
    sessions = {client.name: client.epoch for client in clients if client.connected}
    found = rest.pending(node, clients, not history.power_lost)
    if not found:
        found += rest.leftovers(content)
    return Case(history, swarm, sessions, not history.power_lost, history.now(), found)


def judge(case: Case) -> Iterator[str]:
    """Every violation, in the order of the checkers."""
    for check in CHECKERS:
        yield from check(case)
