"""Finds what would stop the start of a node: wrong settings, and wrong files that the settings name.

`strogoff config check` asks without starting the node; the start itself uses the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...cluster.transport.wire import TransportError
from ...configs import Settings
from ..clustering.settings import ClusterLinks, cluster_links
from ..listeners.tls import TlsError, check_files, make_context
from ..plugins.builtin import check_plugin_files

Log = Callable[[str, str], None]


def what_stops(settings: Settings, log: Log) -> Iterator[str]:
    """Yield a sentence for each problem that stops the start. `log` gets warnings, as at a start.

    It reads certificates, keys, password and ACL files; it opens no port, and writes nothing.
    """
    yield from check_plugin_files(settings, log)
    try:
        checked_links(settings, log)
    except TransportError as error:
        yield str(error)
    for listener in settings.listeners():
        if listener.uses_tls and listener.type != "vmqs":
            try:
                make_context(listener)
            except TlsError as error:
                yield f"{listener.key}: {error}"


def checked_links(settings: Settings, log: Log) -> ClusterLinks | None:
    """As `cluster_links`. It also checks the files of TLS, because gRPC only reports that it cannot listen.

    Raises `TransportError`.
    """
    links = cluster_links(settings, log)
    if links is not None and links.tls is not None:
        try:
            check_files(str(links.tls.cafile), str(links.tls.certfile), str(links.tls.keyfile))
        except TlsError as error:
            raise TransportError(f"listener.vmqs: {error}") from None
    return links
