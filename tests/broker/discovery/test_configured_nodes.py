"""Addresses that an operator has written down."""

from __future__ import annotations

import asyncio
import socket

import pytest

from strogoff.broker.discovery.configured_nodes import ConfiguredNodes
from strogoff.broker.discovery.source import Seen


def look(*places: str) -> Seen:
    return asyncio.run(ConfiguredNodes(places).look())


def test_each_place_has_its_addresses_or_its_problem() -> None:
    seen = look("127.0.0.1:7", "n@[::1]:8", "[::1", "a..b")
    assert seen.addresses == ("127.0.0.1:7", "[::1]:8") and not seen.unsure
    assert [problem.partition(":")[0] for problem in seen.problems] == ["[", "a..b"]


def test_a_failure_of_dns_leaves_it_open_whether_there_are_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    seen = look("nodes")
    assert seen.unsure and "nodes: [Errno -3] Temporary failure" in seen.problems[0]
