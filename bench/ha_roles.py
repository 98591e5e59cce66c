"""One fault of one node at a time, which strikes sessions in all roles at once, and clients with wills; then audit.

    python -m bench.ha_roles --rounds 200 --faults kill [--messages 1000] [--rate 50] [--seed N] [--ledger] [--keep DIR]

As `ha_test`, but each round has subscribers for which the node that suffers is the primary, the follower, and the
gateway, publishers at this node and at another one, and clients with wills (`ha_wills`). So one round stands for one
round of each role. In a test of VerneMQ 1,000 numbered messages of QoS 1 go through a cluster at 50 per second while
nodes are killed (https://github.com/vernemq/vernemq/issues/1700); each round here has that for each of its publishers.

With `--ledger` the judges read the event logs of all nodes at the end, and must find what the clients have seen, and
nothing else (`ha_ledger`). The rows are in memory: about 1 GB for 10 rounds of 300 messages.

The faults are those of `ha_test`, and `cut`: the node is cut off from all others for five seconds, while clients still
reach it. It needs root, and network namespaces.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from math import inf
from pathlib import Path

from strogoff.cluster.identity import SLOTS, slot_of
from strogoff.mqtt import packets

from .cluster_nodes import Node, until
from .ha_audit import Round
from .ha_ledger import differences, rows_below
from .ha_test import FAULTS, SETTINGS, WHOLE_S, Load, Plan, Run, Walker, judged, name_in, some_of
from .ha_wills import DUE_S, GRACE_S, TOPIC, Wills, connect_fields
from .space import Space, SpaceError

CUT_S = 5.0
SESSIONS = 6
"""Slots with sessions of subscribers."""
ROLES = ("primary", "follower", "gateway")


class WillingWalker(Walker):
    """A client with a will: it asks for a new session unless its session should last."""

    async def connect(self, clean: bool = False) -> packets.Connack:
        """As `Walker.connect`."""
        lasts = self.version == 5 and self.connect_fields["properties"]["session_expiry_interval"] > 0
        return await super().connect(clean or not lasts)


class AllRoles(Run):
    """One run. With a `space` each node has a network namespace of its own. With `ledger` the event log is judged, and
    must say what the clients have seen."""

    def __init__(
        self, plan: Plan, rounds: int, load: Load, folder: Path, space: Space | None = None, ledger: bool = False
    ) -> None:
        self.space = space
        self.ledger = ledger
        super().__init__(plan, rounds, load, folder)
        self.wills = Wills()
        self.watch: Walker | None = None
        self._fault_s = inf
        """When the fault of this round began, by the monotonic clock."""

    def _nodes(self) -> list[Node]:
        return super()._nodes() if self.space is None else self.space.nodes(self.folder, **SETTINGS)

    async def run(self, tell: Callable[[str], None] = lambda line: None) -> list[str]:
        """As `Run.run`."""
        wrong = await super().run(tell)
        tell(
            f"wills: {self.wills.gone} clients gone, {self.wills.back} back or never away, "
            f"the latest will after {self.wills.latest_s:.1f} s"
        )
        wrong += self.wills.violations()
        if self.ledger:
            rows = await asyncio.to_thread(rows_below, self.folder)
            lines = await asyncio.to_thread(lambda: list(differences(self.audit, self.wills.records(), rows)))
            tell(f"event log: {len(rows)} rows, {len(lines)} differences from what the clients have seen")
            wrong += lines
        return wrong

    async def _prepare(self) -> None:
        """Connect the subscribers. Their sessions last for the whole run."""
        for number, slot in enumerate(self.plan.rng.sample(range(SLOTS), SESSIONS)):
            for qos in self.plan.qos:
                reader = self._client(name_in((slot,), f"sub-{number}-{qos}-"), 4 + (number + qos) % 2)
                self.readers.append(reader)
                self.audit.reader(reader.client_id, qos)
                reader.delivered = self._delivery(reader)
                await self._subscribe(reader, f"ha/q{qos}/#", qos)
        self.watch = self._client("watches-wills", 5)
        self.watch.delivered = self.wills.delivered
        await self._subscribe(self.watch, f"{TOPIC}#", 2)

    # -- rounds

    async def _round(self, part: Round) -> None:
        assert self.watch is not None
        victim, roles = await self._victim()
        others = [node for node in self.nodes if node is not victim]
        choose = self.plan.rng.choice
        part.roles = {reader.client_id: roles[slot_of("", reader.client_id)] for reader in self.readers}
        self.note("round", f"{part.number} {part.fault} {victim.name}")
        self._fault_s = inf
        self.note("roles", " ".join(f"{reader}={role}" for reader, role in part.roles.items()))
        writers = await self._writers(part, victim, "pub") | await self._writers(part, choose(others), "pub-calm")
        for reader in self.readers:
            await self._place(reader, victim if part.roles[reader.client_id] == "gateway" else choose(others))
        for writer in writers:
            await self._place(writer, choose(others) if writer.client_id.startswith("pub-calm") else victim)
        await self._place(self.watch, choose(others))
        willing = await self._willing(part, victim, others)
        load = [asyncio.create_task(self._publish(client, qos)) for client, qos in writers.items()]
        try:
            await asyncio.sleep(self.plan.rng.uniform(0.1, 0.8) * self.load.messages / self.load.rate)
            leaving = [asyncio.create_task(self._goes(client)) for client, returns in willing.items() if not returns]
            self._fault_s = time.monotonic()
            await getattr(self, f"_{part.fault}")(victim)
            self.note("round", "fault over")
            part.whole_s, *_ = await asyncio.gather(self._whole(), self._arrived(part, writers, load))
            await self._whole()  # the cluster may have noticed only now that the node was away
            await until("each will that is due has come, or is late", self._no_will_waits, DUE_S + 1)
        finally:
            for task in load:
                task.cancel()
        for task in leaving:
            task.cancel()
        for client in (*writers, *[client for client, returns in willing.items() if returns or client.online]):
            await (self._leave(client) if client in self._staying else client.disconnect())
            part.wrong += client.faults
        self.note("round", f"whole after {part.whole_s:.1f} s")

    def _connected(self, client: Walker) -> None:
        if time.monotonic() - self._fault_s > GRACE_S:
            self.wills.came_late(client.client_id)

    def _gave_up(self, client: Walker) -> None:
        self.wills.gave_up(client.client_id)

    async def _no_will_waits(self) -> bool:
        return not self.wills.waits

    async def _victim(self) -> tuple[Node, dict[int, str]]:
        """Wait until a node can suffer in all roles. Returns it, and what it is for each slot with subscribers."""
        slots = {slot_of("", reader.client_id) for reader in self.readers}
        found: list[tuple[Node, dict[int, str]]] = []

        async def some() -> bool:
            found.clear()
            holders = {slot: await self.slots.holders(slot) for slot in slots}
            if any(len(each) < 2 for each in holders.values()):
                return False
            for node in self.nodes:
                roles = {
                    slot: "primary" if node is held[0] else "follower" if node in held else "gateway"
                    for slot, held in holders.items()
                }
                if set(roles.values()) == set(ROLES):
                    found.append((node, roles))
            if not found:
                await self.nodes[0].ask("slot", "balance")
            return bool(found)

        await until(
            "a node is the primary of a slot, the follower of another one, and neither of a third", some, WHOLE_S
        )
        return self.plan.rng.choice(found)

    # -- wills

    async def _willing(self, part: Round, victim: Node, others: list[Node]) -> dict[Walker, bool]:
        """Connect the clients with wills. Returns client -> whether it comes back."""
        found: dict[Walker, bool] = {}
        own = set(await self.slots.of(victim))
        for role in ("gateway", "primary"):
            for returns in (False, True):
                name = name_in(
                    own if role == "primary" else set(range(SLOTS)) - own,
                    f"will-{part.number}-{role}-{'back' if returns else 'gone'}-",
                )
                version, fields = connect_fields(name, self.plan.rng)
                client = WillingWalker(name, 0, version, **fields)
                self.wills.add(name, f"{part.fault} {role}")
                self._stay(client)
                await self._place(client, victim if role == "gateway" else self.plan.rng.choice(others))
                if not returns:
                    self._staying.pop(client).cancel()
                found[client] = returns
        return found

    async def _goes(self, client: Walker) -> None:
        """Note when the connection of this client ends. At the node that suffers it ends now."""
        if "-gateway-" in client.client_id:
            client.cut()
        await client.gone.wait()
        self.note(client.client_id, "is gone")
        self.wills.is_gone(client.client_id)

    # -- the fault that `ha_test` has not

    async def _cut(self, victim: Node) -> None:
        """Cut the node off from the others. A load balancer still sends clients to it."""
        assert self.space is not None
        self.note("fault", f"{victim.name} is cut off")
        await self.space.soon(self.space.isolate, self.nodes.index(victim) + 1)
        await asyncio.sleep(CUT_S)
        await self.space.soon(self.space.heal)
        self.note("fault", f"{victim.name} is no longer cut off")


def main() -> int:
    """Run the command line. Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--faults", type=some_of((*FAULTS, "cut")), default=["kill"], help="default: kill")
    parser.add_argument("--messages", type=int, default=1000, help="of each publisher in a round")
    parser.add_argument("--rate", type=float, default=50.0, help="messages per second of each publisher")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ledger", action="store_true", help="compare the event log with what clients have seen")
    parser.add_argument("--keep", type=Path, help="keep data directories and logs in this folder, which must be new")
    arguments = parser.parse_args()
    space = None
    if "cut" in arguments.faults:
        try:
            space = Space(3)
            space.enter()
        except SpaceError as error:
            print(f"network namespaces are needed (be root; Debian packages iproute2 and nftables): {error}")
            return 2
    plan = Plan(("each",), arguments.faults, (1, 2), arguments.seed)
    load = Load(arguments.messages, arguments.rate)
    try:
        return judged(
            lambda folder: AllRoles(plan, arguments.rounds, load, folder, space, arguments.ledger), arguments.keep
        )
    finally:
        if space is not None:
            space.close()


if __name__ == "__main__":
    sys.exit(main())
