"""What the configuration says of the way to other nodes: `listener.vmq`, `listener.vmqs`, `discovery.*` (INV 1.5)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from ...cluster.discovery import written
from ...cluster.links.settings import LinkSettings
from ...cluster.surroundings import Settings as ClusterSettings
from ...cluster.transport.grpc_settings import Tls
from ...cluster.transport.wire import TransportError
from ...cluster.views.settings import Settings as ViewSettings
from ...configs import Settings
from ...configs.listeners import ListenerSettings

ANY = ("0.0.0.0", "::", "")


class ClusterLinks(msgspec.Struct, frozen=True):
    """`listen` is HOST:PORT, `host` the one that other nodes are told, `discover` where to look for them."""

    listen: str
    host: str
    discover: tuple[str, ...]
    tls: Tls | None
    settings: ClusterSettings


def cluster_links(settings: Settings, log: Callable[[str, str], None]) -> ClusterLinks | None:
    """How this node reaches others, None if it is to stay alone. `vmqs` counts more than `vmq`, as in VerneMQ.

    Raises `TransportError` if there is only a `vmqs`, without certificates; beside a `vmq` it is left out.
    """
    candidates = sorted([each for each in settings.listeners() if each.type in ("vmq", "vmqs")], key=_secure_first)
    if not candidates:
        return None
    problems = [problem for each in candidates if (problem := _problem(each))]
    usable = [each for each in candidates if not _problem(each)]
    if not usable:
        raise TransportError(problems[0])
    for problem in problems:
        log("warning", f"{problem}; listener.{usable[0].type}.{usable[0].name} is used")
    listener = usable[0]
    tls = None
    if listener.type == "vmqs":
        tls = Tls(Path(listener.cafile), Path(listener.certfile), Path(listener.keyfile))
    host = str(settings["cluster.address"])
    if not host:
        # a node that listens everywhere is reached under the host of its name
        host = str(settings["nodename"]).rpartition("@")[2] if listener.host in ANY else listener.host
    links = LinkSettings(
        buffer_bytes=int(settings["outgoing_clustering_buffer_size"]),
        max_frame_bytes=int(settings["incoming_clustering_buffer_size"]),
    )
    views = ViewSettings(forget_after_ms=int(settings["cluster.forget_after"]) * 1000.0)
    return ClusterLinks(
        written(listener.host, listener.port),
        host,
        tuple(str(settings["discovery.nodes"]).replace(",", " ").split()),
        tls,
        ClusterSettings(links=links, views=views),
    )


def _problem(listener: ListenerSettings) -> str:
    missing = [option for option in ("cafile", "certfile", "keyfile") if not getattr(listener, option)]
    if listener.type != "vmqs" or not missing:
        return ""
    return f"listener.vmqs.{listener.name} has no {' and no '.join(missing)}: nodes show each other certificates"


def _secure_first(listener: ListenerSettings) -> bool:
    return listener.type != "vmqs"
