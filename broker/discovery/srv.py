"""`discovery.srv`: a DNS name whose SRV records name the hosts and ports of the nodes (RFC 2782)."""

from __future__ import annotations

import asyncio

import dns.asyncresolver
import dns.exception
import dns.resolver

from .host_names import ANSWER_S, NoAnswerError, Resolver
from .source import Lookup, Seen


class SrvRecords(Lookup):
    """The nodes that the SRV records of `name` name, such as `_strogoff._tcp.example.org`. Their hosts are resolved
    anew at each look. `servers` are the addresses of DNS servers; None means those of the machine."""

    key = "discovery.srv"

    def __init__(self, name: str, servers: tuple[tuple[str, int], ...] | None = None) -> None:
        self._name = name
        self._servers = servers
        self._hosts = Resolver()

    async def look(self) -> Seen:
        """As `Source.look`."""
        try:
            records = await self._resolver().resolve(self._name, "SRV", lifetime=ANSWER_S)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return Seen(problems=(f"{self.key} = {self._name}: there is no SRV record with this name",))
        except (dns.exception.DNSException, OSError) as error:
            said = str(error) or type(error).__name__
            return Seen(problems=(f"{self.key} = {self._name}: DNS gives no answer: {said}",), unsure=True)
        targets = sorted({(str(each.target).rstrip("."), int(each.port)) for each in records})
        found = await asyncio.gather(*[self._resolve(host, port) for host, port in targets])
        return Seen(
            tuple([address for each in found for address in each.addresses]),
            tuple([problem for each in found for problem in each.problems]),
            any(each.unsure for each in found),
        )

    def _resolver(self) -> dns.asyncresolver.Resolver:
        if self._servers is None:
            return dns.asyncresolver.Resolver()
        found = dns.asyncresolver.Resolver(configure=False)
        found.nameservers = [host for host, _ in self._servers]
        found.nameserver_ports = dict(self._servers)
        return found

    async def _resolve(self, host: str, port: int) -> Seen:
        try:
            return Seen(tuple(await self._hosts.addresses(host, port)))
        except OSError as error:
            said = f"{self.key} = {self._name}: {host}: {error}"
            return Seen(problems=(said,), unsure=isinstance(error, NoAnswerError))
