"""Network namespaces: each node has its own, on one bridge, and the links between them can be cut.

The bridge has its own namespace, too, so the network of this machine is not affected. A thread that `enter`s this
namespace reaches the client ports of all nodes, also while links between them are cut.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
import subprocess
from pathlib import Path

from .cluster_nodes import Node

CLONE_NEWNET = 0x40000000
_count = itertools.count()


class SpaceError(Exception):
    """This system does not let us make network namespaces. The text has the failed command."""


def _run(*words: str) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20)
    except OSError as error:
        raise SpaceError(f"{words[0]}: {error.strerror}") from error
    if done.returncode != 0:
        raise SpaceError(f"{' '.join(words)}: {done.stderr.strip()}")


class Space:
    """A bridge with `count` namespaces. Host `n` is 10.77.0.n, in the namespace `names[n - 1]`.

    Raises `SpaceError` without root or without the programs ip and nft.
    """

    def __init__(self, count: int) -> None:
        self.prefix = f"st{os.getpid() % 10000}x{next(_count)}"
        self.hub = f"{self.prefix}h"
        self.names = [f"{self.prefix}n{n}" for n in range(1, count + 1)]
        try:
            self._build()
        except SpaceError:
            self.close()
            raise

    def _build(self) -> None:
        hub = ("ip", "-n", self.hub)
        _run("ip", "netns", "add", self.hub)
        _run(*hub, "link", "set", "lo", "up")
        _run(*hub, "link", "add", "br0", "type", "bridge")
        _run(*hub, "address", "add", "10.77.0.254/24", "dev", "br0")
        _run(*hub, "link", "set", "br0", "up")
        for n, name in enumerate(self.names, 1):
            _run("ip", "netns", "add", name)
            _run(*hub, "link", "add", f"v{n}", "type", "veth", "peer", "name", "eth0", "netns", name)
            _run(*hub, "link", "set", f"v{n}", "master", "br0", "up")
            _run("ip", "-n", name, "link", "set", "lo", "up")
            _run("ip", "-n", name, "address", "add", f"10.77.0.{n}/24", "dev", "eth0")
            _run("ip", "-n", name, "link", "set", "eth0", "up")
        self._nft("add", "table", "bridge", "cuts")
        self._nft("add", "chain", "bridge", "cuts", "between", "{ type filter hook forward priority 0; }")

    def _nft(self, *words: str) -> None:
        _run("ip", "netns", "exec", self.hub, "nft", *words)

    def enter(self) -> None:
        """Move this thread, and the sockets and processes that it makes from now on, to the bridge's namespace."""
        with open(f"/run/netns/{self.hub}") as place:
            if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), CLONE_NEWNET) != 0:
                raise SpaceError(f"setns: {os.strerror(ctypes.get_errno())}")

    def nodes(self, folder: Path, **settings: str) -> list[Node]:
        """Returns a node for each namespace, not started."""
        return [Node(folder, f"n{n}", f"10.77.0.{n}", name, **settings) for n, name in enumerate(self.names, 1)]

    # -- cuts; nodes are counted from 1

    def cut_one_way(self, source: int, target: int) -> None:
        """Drop every packet from `source` to `target`."""
        self._nft("add", "rule", "bridge", "cuts", "between", "iifname", f"v{source}", "oifname", f"v{target}", "drop")

    def cut(self, one: int, other: int) -> None:
        """Drop every packet between two nodes, in both directions."""
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def isolate(self, node: int) -> None:
        """Drop every packet between a node and all other nodes. Clients still reach all nodes."""
        self._nft("add", "rule", "bridge", "cuts", "between", "iifname", f"v{node}", "drop")
        self._nft("add", "rule", "bridge", "cuts", "between", "oifname", f"v{node}", "drop")

    def heal(self) -> None:
        """End all cuts."""
        self._nft("flush", "chain", "bridge", "cuts", "between")

    async def soon(self, work: object, *arguments: int) -> None:
        """Call one of the above in a thread, so that the loop continues."""
        await asyncio.to_thread(work, *arguments)  # type: ignore[arg-type]

    def close(self) -> None:
        """Delete the bridge and all namespaces."""
        for name in (*self.names, self.hub):
            subprocess.run(("ip", "netns", "del", name), capture_output=True, timeout=20)
