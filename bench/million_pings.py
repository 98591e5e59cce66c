"""A client that connects again and again, to measure the turns of a node's event loop from outside.

    python -m bench.million_pings PORT

It begins as soon as the node listens, and waits `EVERY_S` after each CONNACK. A node that starts answers CONNECT while
it loads its subscriptions, and makes all other packets wait. For each line of its standard input the client prints the
number of answers since the last line, and the median, the 99th percentile and the longest time, in ms.
"""

from __future__ import annotations

import sys
import threading
import time

from .probe import PlainClient, percentile

EVERY_S = 0.002
GIVE_UP_S = 300.0


def connect(port: int, client_id: str, clean: bool = True, version: int = 4) -> PlainClient:
    """Returns a connected client; tries again while the node does not listen. Raises OSError after `GIVE_UP_S`."""
    until = time.monotonic() + GIVE_UP_S
    while True:
        try:
            return PlainClient(port, client_id, GIVE_UP_S, clean, version)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(EVERY_S)


def main() -> int:
    """Run the command line."""
    port = int(sys.argv[1])
    connect(port, "pings").close()
    took_ms: list[float] = []
    over = threading.Event()

    def report() -> None:
        nonlocal took_ms
        for _ in sys.stdin:
            done, took_ms = sorted(took_ms), []
            figures = [len(done), *(percentile(done, share) for share in (0.5, 0.99, 1.0))]
            print(" ".join(f"{each:.2f}" for each in figures), flush=True)
        over.set()

    threading.Thread(target=report, daemon=True).start()
    while not over.wait(EVERY_S):
        began = time.monotonic()
        connect(port, "pings").close()
        took_ms.append((time.monotonic() - began) * 1000)
    return 0


if __name__ == "__main__":
    sys.exit(main())
