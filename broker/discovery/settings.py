"""The part of the configuration about discovery, `discovery.*`, and the sources that it asks for."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from ...cluster.membership.discovery import expected
from ...cluster.transport.wire import TransportError
from ...configs import Settings
from .configured_nodes import ConfiguredNodes
from .kubernetes import ACCOUNT, KubernetesPlace, KubernetesPods
from .s3 import S3Bucket, S3Place
from .source import Source
from .srv import SrvRecords


class DiscoverySettings(Struct, frozen=True):
    """Where this node looks for others. `nodes` are addresses as operators write them, `expected` is how many nodes
    found a cluster together (0: all in `nodes`). "" and None stand for sources that are not asked."""

    nodes: tuple[str, ...] = ()
    expected: int = 0
    srv: str = ""
    kubernetes: KubernetesPlace | None = None
    s3: S3Place | None = None

    @property
    def wanted(self) -> bool:
        """Whether this node looks for others at all."""
        return bool(self.nodes or self.srv or self.kubernetes or self.s3)

    def founders(self, met_itself: bool) -> int:
        """How many nodes found a cluster together. `met_itself`: this node is at one of the addresses."""
        return self.expected or expected(self.nodes, met_itself)

    def sources(self) -> list[Source]:
        """Make the sources. Needs a running event loop."""
        found: list[Source] = []
        if self.nodes:
            found.append(ConfiguredNodes(self.nodes))
        if self.srv:
            found.append(SrvRecords(self.srv))
        if self.kubernetes is not None:
            found.append(KubernetesPods(self.kubernetes))
        if self.s3 is not None:
            found.append(S3Bucket(self.s3))
        return found


def discovery_settings(settings: Settings) -> DiscoverySettings:
    """Return the settings about discovery. Raises `TransportError` if a source lacks something that it needs."""
    return DiscoverySettings(
        words(settings["discovery.nodes"]),
        int(settings["discovery.expected_nodes"]),
        str(settings["discovery.srv"]).strip(),
        _kubernetes(settings),
        _s3(settings),
    )


def words(value: object) -> tuple[str, ...]:
    """The words of a value that lists some, with spaces or commas between them."""
    return tuple(str(value).replace(",", " ").split())


def _kubernetes(settings: Settings) -> KubernetesPlace | None:
    selector = str(settings["discovery.kubernetes.selector"]).strip()
    if not selector:
        return None
    account = Path(str(settings["discovery.kubernetes.account_dir"]) or ACCOUNT)
    namespace = str(settings["discovery.kubernetes.namespace"]).strip()
    try:
        namespace = namespace or (account / "namespace").read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TransportError(
            f"discovery.kubernetes.selector = {selector} needs discovery.kubernetes.namespace, because this process "
            f"has no service account of a pod ({error})"
        ) from None
    return KubernetesPlace(
        str(settings["discovery.kubernetes.api"]),
        namespace,
        selector,
        account / "token",
        account / "ca.crt",
        bool(settings["discovery.kubernetes.insecure"]),
    )


def _s3(settings: Settings) -> S3Place | None:
    bucket = str(settings["discovery.s3.bucket"]).strip()
    if not bucket:
        return None
    if find_spec("aiobotocore") is None:
        raise TransportError(
            f"discovery.s3.bucket = {bucket} needs the library aiobotocore: pip install 'strogoff[s3]'"
        )
    access, secret = (str(settings[f"discovery.s3.{key}"]).strip() for key in ("access_key", "secret_key"))
    if bool(access) != bool(secret):
        given, missing = ("access_key", "secret_key") if access else ("secret_key", "access_key")
        raise TransportError(f"discovery.s3.{given} is set, but discovery.s3.{missing} is not: set both, or neither")
    return S3Place(
        bucket,
        str(settings["discovery.s3.prefix"]).lstrip("/"),
        str(settings["discovery.s3.endpoint"]).strip(),
        str(settings["discovery.s3.region"]).strip(),
        str(settings["discovery.s3.addressing"]),
        access,
        secret,
    )
