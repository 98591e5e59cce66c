"""`Cluster` runs brokers in the running event loop; `Cluster.sync` runs them in a thread, for tests without asyncio."""

from __future__ import annotations

from typing import Unpack

from .chosen_keys import Conf
from .runtime.running_cluster import ClusterOptions, RunningCluster
from .sync import SyncCluster


class Cluster(RunningCluster):
    """Brokers in the running loop. `RunningCluster` describes the arguments and the methods."""

    @staticmethod
    def sync(nodes: int = 1, conf: Conf | None = None, **options: Unpack[ClusterOptions]) -> SyncCluster:
        """Returns a cluster with its own thread and loop, for tests without asyncio: an ordinary context manager."""
        return SyncCluster(nodes, conf, **options)
