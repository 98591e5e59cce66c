"""DNS: one query per name at a time, bounded, with a distinct error for each failure."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from strogoff.broker.discovery import host_names
from strogoff.broker.discovery.host_names import NoAnswerError, Resolver


def test_addresses_of_a_name_and_of_an_address() -> None:
    async def main() -> None:
        asked = Resolver()
        found = await asyncio.gather(*[asked.addresses(host, 7) for host in ("127.0.0.1", "::1", "127.0.0.1")])
        assert found == [["127.0.0.1:7"], ["[::1]:7"], ["127.0.0.1:7"]]
        assert "127.0.0.1:7" in await asked.addresses("localhost", 7)

    asyncio.run(main())


def test_a_repeated_query_gets_the_answer_of_the_pending_one(monkeypatch: pytest.MonkeyPatch) -> None:
    over, questions = threading.Event(), []

    def slow(host: str, port: int, **options: Any) -> list[Any]:
        questions.append(host)
        over.wait(10)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", port))]

    async def main() -> None:
        asked = Resolver()
        for _ in range(2):
            with pytest.raises(NoAnswerError, match="not answered within"):
                await asked.addresses("slow", 7)
        over.set()
        monkeypatch.setattr(host_names, "ANSWER_S", 10)
        assert await asked.addresses("slow", 7) == ["10.0.0.1:7"]

    monkeypatch.setattr(host_names, "ANSWER_S", 0.01)
    monkeypatch.setattr(socket, "getaddrinfo", slow)
    asyncio.run(main())
    assert questions == ["slow"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (socket.gaierror(socket.EAI_AGAIN, "later"), NoAnswerError),
        (socket.gaierror(socket.EAI_NONAME, "no"), socket.gaierror),
        (OSError(24, "too many files"), OSError),
        (UnicodeError("label empty or too long"), OSError),
    ],
)
def test_each_failure_has_its_error_type(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[Exception]
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    with pytest.raises(kind) as told:
        asyncio.run(Resolver().addresses("name", 7))
    assert type(told.value) is kind
