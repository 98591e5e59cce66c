"""The part of the configuration about other nodes: `listener.vmq`, `listener.vmqs`, `discovery.*`, `node.zone`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from ...cluster.links.settings import LinkSettings
from ...cluster.membership.discovery import written
from ...cluster.membership.settings import Settings as ViewSettings
from ...cluster.ports import Settings as ClusterSettings
from ...cluster.transport.certificates import CertificateError, fingerprint
from ...cluster.transport.grpc_settings import Tls
from ...cluster.transport.wire import DEFAULT_COOKIE, TransportError
from ...configs import Settings
from ...configs.listeners import ListenerSettings, open_to_strangers
from ..discovery.settings import DiscoverySettings, discovery_settings, words

ANY = ("0.0.0.0", "::", "")


class ClusterLinks(msgspec.Struct, frozen=True):
    """How this node and other nodes reach each other. `listen` is HOST:PORT, `host` is the host that other nodes get,
    `discovery` says where this node looks for them. `cookie` is the secret that the nodes of the cluster have in
    common."""

    listen: str
    host: str
    discovery: DiscoverySettings
    tls: Tls | None
    settings: ClusterSettings
    cookie: str
    data_port: int


def cluster_links(settings: Settings, log: Callable[[str, str], None]) -> ClusterLinks | None:
    """Return how this node reaches other nodes, None without a listener for them. `vmqs` has priority over `vmq`, as in
    VerneMQ.

    A `vmqs` without certificates is left out if there is another listener. Raises `TransportError` if no listener is
    left, if other machines can reach a `vmq` while the cookie is the default, or if a source of discovery lacks
    something.
    """
    candidates = for_nodes(settings)
    if not candidates:
        return None
    problems = [problem for each in candidates if (problem := _problem(each))]
    listener = candidates[0]
    if _problem(listener):
        raise TransportError(_problem(listener))
    for problem in problems:
        log("warning", f"{problem}; listener.{listener.type}.{listener.name} is used")
    _keep_strangers_out(listener, settings, log)
    tls = None
    if listener.type == "vmqs":
        tls = Tls(
            Path(listener.cafile),
            Path(listener.certfile),
            Path(listener.keyfile),
            name=str(settings["cluster.certificate_name"]).strip(),
            names=words(settings["cluster.peer_names"]),
            fingerprints=_fingerprints(settings),
            crlfile=Path(listener.crlfile) if listener.crlfile else None,
        )
        tls.rules()  # an unreadable revocation list is reported now
    host = str(settings["cluster.address"])
    if not host:
        # if a node listens on all addresses, other nodes use the host in its name
        host = str(settings["nodename"]).rpartition("@")[2] if listener.host in ANY else listener.host
    links = LinkSettings(
        buffer_bytes=int(settings["outgoing_clustering_buffer_size"]),
        max_frame_bytes=int(settings["incoming_clustering_buffer_size"]),
    )
    views = ViewSettings(forget_after_ms=int(settings["cluster.forget_after"]) * 1000.0)
    return ClusterLinks(
        written(listener.host, listener.port),
        host,
        discovery_settings(settings),
        tls,
        ClusterSettings(links=links, views=views, zone=str(settings["node.zone"]).strip()),
        str(settings["distributed_cookie"]),
        int(settings["cluster.data_port"]),
    )


def for_nodes(settings: Settings) -> list[ListenerSettings]:
    """The configured listeners for other nodes. The first one is used."""
    found = sorted([each for each in settings.listeners() if each.type in ("vmq", "vmqs")], key=_secure_first)
    return sorted(found, key=lambda each: bool(_problem(each)))


def _keep_strangers_out(listener: ListenerSettings, settings: Settings, log: Callable[[str, str], None]) -> None:
    if settings["distributed_cookie"] not in ("", DEFAULT_COOKIE):
        return
    place = f"listener.{listener.type}.{listener.name} = {written(listener.host, listener.port)}"
    if listener.type == "vmqs":
        if not settings["cluster.peer_names"] and not settings["cluster.peer_fingerprints"]:
            log(
                "warning",
                f"{place}: distributed_cookie is the default, so everybody with a certificate of its cafile can act as "
                "a node: set your own distributed_cookie, the same on all nodes, or cluster.peer_names",
            )
    elif settings["cluster.allow_default_cookie"]:
        log(
            "warning",
            f"{place}: distributed_cookie is the default and cluster.allow_default_cookie is on, so everybody who "
            "reaches this port can act as a node: read all messages and API keys, and change the configuration",
        )
    elif open_to_strangers(settings, listener):
        raise TransportError(
            f"{place} can be reached from other machines, and distributed_cookie is the default that everybody knows: "
            "set your own distributed_cookie, the same on all nodes (for example from `openssl rand -hex 16`), or set "
            "cluster.allow_default_cookie = on if only your nodes reach that port"
        )


def _fingerprints(settings: Settings) -> tuple[str, ...]:
    try:
        return tuple([fingerprint(word) for word in words(settings["cluster.peer_fingerprints"])])
    except CertificateError as error:
        raise TransportError(f"cluster.peer_fingerprints: {error}") from None


def _problem(listener: ListenerSettings) -> str:
    missing = [option for option in ("cafile", "certfile", "keyfile") if not getattr(listener, option)]
    if listener.type != "vmqs" or not missing:
        return ""
    return f"listener.vmqs.{listener.name} has no {' and no '.join(missing)}: nodes must show each other certificates"


def _secure_first(listener: ListenerSettings) -> bool:
    return listener.type != "vmqs"
