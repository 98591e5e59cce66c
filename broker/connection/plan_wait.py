"""Lets a PUBLISH wait whose receivers are many absent clients, until their sessions are in memory (`Waking`).

Nothing of the connection overtakes that PUBLISH: its next packets wait, and its socket is not read. Then the PUBLISH is
accepted, deferred or refused, by what is true by then. If the connection has ended, it has no answer, and its client
sends it again.
"""

from __future__ import annotations

from functools import partial

from ..routing.plans import PlanCache
from . import publish
from .connection import ClientConnection
from .publish_state import PublishRequest


def accept(connection: ClientConnection, request: PublishRequest) -> None:
    """As `publish.accept`, once the plan of the topic can be made."""
    plans, topic = connection.publishing.plans, request.topic
    assert plans is not None
    if topic not in plans.plans:
        again = partial(_accept_again, connection, request, connection.mountpoint, plans)
        if connection.flow.waits_for_plan(plans, topic, again):
            return
    publish.accept(connection, request)


def _accept_again(connection: ClientConnection, request: PublishRequest, mountpoint: str, plans: PlanCache) -> None:
    state = connection.publishing
    own = connection.mountpoint, state.plans
    connection.mountpoint, state.plans = mountpoint, plans
    request.dup = request.dup or not request.first  # the node may have become restricted
    publish.accept(connection, request)
    connection.mountpoint, state.plans = own
