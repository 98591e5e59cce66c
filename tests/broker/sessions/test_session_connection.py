"""The connections that a session may have."""

from __future__ import annotations

import pytest

from strogoff.broker.connection.connection import ClientConnection
from strogoff.broker.sessions.session_connection import SessionConnection
from tests.harness.broker import BrokerHarness


@pytest.mark.parametrize("clean", [True, False])
def test_the_connection_of_a_session_has_all_that_the_session_needs(clean: bool) -> None:
    broker = BrokerHarness()
    broker.client("c", 5, clean, 60)
    session = broker.node.sessions.get("", "c")
    assert session is not None
    connection: SessionConnection | None = session.connection
    assert isinstance(connection, ClientConnection)
    needed = [name for name in vars(SessionConnection) if not name.startswith("_")]
    assert len(needed) > 3 and all(hasattr(connection, name) for name in needed)
    assert (connection.gateway, connection.connected) == ("", True)
