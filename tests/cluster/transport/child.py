"""A process at the other end: `child.py serve` prints its address; `child.py dial ADDRESS` dials it. Both then wait."""

from __future__ import annotations

import asyncio
import sys

from strogoff.cluster.transport.grpc_wire import GrpcTransport
from strogoff.cluster.transport.wire import Accepted, Wire


class Nothing:
    """Events without effect."""

    def opened(self, wire: Wire, welcome: bytes) -> None:
        pass

    def received(self, frame: bytes) -> None:
        pass

    def drained(self) -> None:
        pass

    def data_drained(self) -> None:
        pass

    def closed(self, reason: str) -> None:
        pass


async def main(role: str, *rest: str) -> None:
    transport = GrpcTransport()
    if role == "serve":
        print(await transport.serve("127.0.0.1:0", lambda hello, wire: Accepted(b"", Nothing())), flush=True)
    else:
        transport.dial(rest[0], b"child", Nothing())
        print("dialling", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
