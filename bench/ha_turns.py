"""Kill each of three nodes in turn with kill -9, while one publisher and two subscribers go on.

    python -m bench.ha_turns [--seconds 180] [--rate 100] [--bytes 150] [--seed N] [--keep DIR]

The publisher sends 100 messages of QoS 1 with 150 bytes each second, for three minutes, to two durable subscribers:
36,000 deliveries are due. Each session has two copies. One node at a time is killed and started again; the next one is
killed when the cluster is whole and each slot has two copies. Clients of the killed node connect to another one. A test
of this kind is in H. Koziolek, S. Gruener, J. Rueckert: "A Comparison of MQTT Brokers for Distributed IoT Edge
Computing", ECSA 2020. One of the three brokers there lost no message.

The audit is that of `ha_test`. Besides, the publisher's messages count as sent when they are due, and each must be
delivered within five seconds. Exit status 1 if a delivery is missing, late, out of order, or repeated without DUP.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

from .ha_audit import Audit
from .ha_test import LONGEST_S, Load, Plan, Run, figures, judged

LATEST_S = 5.0
UPRIGHT_S = 2.0
"""The time between two kills in which all nodes run, in seconds."""
SUBSCRIBERS = 2


class Turns(Run):
    """One run. Its audit has one round, with all kills.

    The publisher speaks MQTT 3.1.1: a node without a lease defers its messages. It would refuse those of a client of
    version 5 with a reason code, and the client would have to publish them anew.
    """

    writer_versions: tuple[int, ...] = (4,)

    def __init__(self, load: Load, seed: int, folder: Path) -> None:
        super().__init__(Plan((), (), (1,), seed), 1, load, folder)
        self.audit = Audit(LONGEST_S, LATEST_S)

    async def _rounds(self, tell: Callable[[str], None]) -> None:
        part = self.audit.begin("each node in turn", "kill")
        writers = await self._writers(part, self.nodes[0])
        load = [asyncio.create_task(self._publish(writer, qos)) for writer, qos in writers.items()]
        kills = 0
        try:
            for victim in cycle(self.nodes):
                await asyncio.wait(load, timeout=UPRIGHT_S)
                if all(task.done() for task in load):
                    break
                await self._kill(victim)
                kills += 1
                part.whole_s = max(part.whole_s, await self._whole())
                tell(f"{victim.name}: {figures(self.audit.verdict(part))}")
            await self._arrived(part, writers, load)
        finally:
            for task in load:
                task.cancel()
        for writer in writers:
            await self._leave(writer)
            part.wrong += writer.faults
        due = SUBSCRIBERS * self.load.messages
        found = self.audit.verdict(part)
        tell(f"{kills} kills; {found.delivered} of {due} deliveries, the latest after {found.late_s:.1f} s")
        if found.delivered < due:
            part.wrong.append(f"{due - found.delivered} of {due} deliveries are missing")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--rate", type=float, default=100.0, help="messages per second")
    parser.add_argument("--bytes", type=int, default=150, help="of a payload")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="keep data directories and logs in this folder, which must be new")
    arguments = parser.parse_args()
    load = Load(round(arguments.seconds * arguments.rate), arguments.rate, arguments.bytes)
    return judged(lambda folder: Turns(load, arguments.seed, folder), arguments.keep)


if __name__ == "__main__":
    sys.exit(main())
