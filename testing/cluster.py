"""`Cluster`, the door to all of it: as an asynchronous context manager, and by `sync` without asyncio."""

from __future__ import annotations

from pathlib import Path

from .runtime.directories import Engine
from .runtime.node_links import Links
from .runtime.running_cluster import Conf, RunningCluster
from .sync import SyncCluster


class Cluster(RunningCluster):
    """Brokers in the running loop; what can be done with them is in `RunningCluster`."""

    @staticmethod
    def sync(
        nodes: int = 1,
        conf: Conf | None = None,
        engine: Engine = "memory",
        links: Links = "memory",
        seed: int | None = None,
        directory: Path | str | None = None,
        pace: float = 1.0,
    ) -> SyncCluster:
        """The same with a thread and a loop of its own, for tests without asyncio: an ordinary context manager."""
        return SyncCluster(nodes, conf, engine, links, seed, directory, pace)
