"""What the configuration says of the way to other nodes: `listener.vmq`, `listener.vmqs`, `discovery.*` (INV 1.5)."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ..cluster.discovery import written
from ..cluster.links.settings import LinkSettings
from ..cluster.surroundings import Settings as ClusterSettings
from ..cluster.transport.grpc_settings import Tls
from ..configs import Settings

ANY = ("0.0.0.0", "::", "")


class ClusterLinks(msgspec.Struct, frozen=True):
    """`listen` is HOST:PORT, `host` the one that other nodes are told, `discover` where to look for them."""

    listen: str
    host: str
    discover: tuple[str, ...]
    tls: Tls | None
    settings: ClusterSettings


def cluster_links(settings: Settings) -> ClusterLinks | None:
    """How this node reaches others, None if it is to stay alone. `vmqs` counts more than `vmq`, as in VerneMQ."""
    listeners = sorted([each for each in settings.listeners() if each.type in ("vmq", "vmqs")], key=_secure_first)
    if not listeners:
        return None
    listener = listeners[0]
    tls = None
    if listener.type == "vmqs":
        tls = Tls(Path(listener.cafile), Path(listener.certfile), Path(listener.keyfile))
    # a node that listens everywhere is reached under the host of its name
    host = str(settings["nodename"]).rpartition("@")[2] if listener.host in ANY else listener.host
    links = LinkSettings(
        buffer_bytes=int(settings["outgoing_clustering_buffer_size"]),
        max_frame_bytes=int(settings["incoming_clustering_buffer_size"]),
    )
    return ClusterLinks(
        written(listener.host, listener.port),
        host,
        tuple(str(settings["discovery.nodes"]).replace(",", " ").split()),
        tls,
        ClusterSettings(links=links),
    )


def _secure_first(listener: object) -> bool:
    return getattr(listener, "type", "") != "vmqs"
