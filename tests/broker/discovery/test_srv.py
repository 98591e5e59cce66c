"""SRV records, from a DNS server of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from strogoff.broker.discovery import srv
from strogoff.broker.discovery.source import Seen
from strogoff.broker.discovery.srv import SrvRecords

NAME = "_strogoff._tcp.example.org"


class Server(asyncio.DatagramProtocol):
    """Answers queries with `records`; None: with the error NXDOMAIN; `silent`: not at all."""

    def __init__(self) -> None:
        self.records: list[str] | None = []
        self.silent = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        query = dns.message.from_wire(data)
        if self.silent:
            return
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        if self.records is None:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif self.records:
            answer.answer.append(dns.rrset.from_text(query.question[0].name, 1, "IN", "SRV", *self.records))
        self.transport.sendto(answer.to_wire(), addr)


def run(scenario: Callable[[Server, SrvRecords], Awaitable[Seen]]) -> Seen:
    async def main() -> Seen:
        loop = asyncio.get_running_loop()
        transport, server = await loop.create_datagram_endpoint(Server, local_addr=("127.0.0.1", 0))
        try:
            return await scenario(server, SrvRecords(NAME, (transport.get_extra_info("sockname"),)))
        finally:
            transport.close()

    return asyncio.run(main())


def test_hosts_and_ports_of_all_records_are_used() -> None:
    async def scenario(server: Server, source: SrvRecords) -> Seen:
        server.records = ["0 5 7001 127.0.0.1.", "0 5 7002 localhost.", "0 5 7003 no-host.invalid."]
        return await source.look()

    seen = run(scenario)
    assert {"127.0.0.1:7001", "127.0.0.1:7002"} <= set(seen.addresses) and not seen.unsure
    assert seen.problems[0].startswith(f"discovery.srv = {NAME}: no-host.invalid: ")


@pytest.mark.parametrize("records", [None, []])
def test_a_name_without_records_is_no_reason_to_wait(records: list[str] | None) -> None:
    async def scenario(server: Server, source: SrvRecords) -> Seen:
        server.records = records
        return await source.look()

    assert run(scenario) == Seen((), (f"discovery.srv = {NAME}: there is no SRV record with this name",), False)


def test_a_server_that_does_not_answer_leaves_it_open_whether_there_are_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(srv, "ANSWER_S", 0.1)

    async def scenario(server: Server, source: SrvRecords) -> Seen:
        server.silent = True
        return await source.look()

    seen = run(scenario)
    assert seen.unsure and "DNS gives no answer: " in seen.problems[0]
