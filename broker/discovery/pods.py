"""The pods of a label selector, as the API of Kubernetes lists and changes them
(https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes)."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct, field

from ...cluster.membership.discovery import written

T = TypeVar("T")


class Metadata(Struct, rename="camel"):
    """What is used of `ObjectMeta` and `ListMeta`."""

    name: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None


class Status(Struct, rename="camel"):
    """What is used of `PodStatus`. `pod_ip` is "" until the pod has an address."""

    phase: str = ""
    pod_ip: str = field(default="", name="podIP")


class Pod(Struct):
    """A pod. Of an object of another kind `code` and `message` are the fields of an error (`Status`)."""

    metadata: Metadata = field(default_factory=Metadata)
    status: Status | str = field(default_factory=Status)
    code: int = 0
    message: str = ""


class PodList(Struct):
    """An answer to a list."""

    metadata: Metadata
    items: list[Pod]


class Change(Struct):
    """A line of a watch."""

    type: str
    object: Pod


class ListAgain(Exception):
    """The watch cannot go on from its version: the pods must be listed anew. The text is the reason."""


class Malformed(ValueError):
    """The API answers with something else. The text is a sentence."""


class Pods:
    """The pods as far as the API has told them. `version` is where a watch goes on."""

    def __init__(self) -> None:
        self._addresses: dict[str, str] = {}
        self.version = ""

    def at(self, port: int) -> tuple[str, ...]:
        """Returns HOST:PORT of each pod that runs or starts, in the order of their names."""
        return tuple([written(host, port) for _, host in sorted(self._addresses.items())])

    def listed(self, body: bytes) -> None:
        """Replace the pods by those of an answer of the API to a list. Raises `Malformed`."""
        found = _decode(body, PodList)
        self._addresses = {}
        for pod in found.items:
            self._take(pod)
        self.version = found.metadata.resource_version

    def changed(self, line: bytes) -> None:
        """Apply one change: a line of the answer of the API to a watch. Raises `ListAgain` and `Malformed`."""
        change = _decode(line, Change)
        if change.type == "ERROR":
            raise ListAgain(change.object.message or f"code {change.object.code}")
        if change.type == "DELETED":
            self._addresses.pop(change.object.metadata.name, None)
        elif change.type in ("ADDED", "MODIFIED"):
            self._take(change.object)
        self.version = change.object.metadata.resource_version or self.version

    def _take(self, pod: Pod) -> None:
        status, name = pod.status, pod.metadata.name
        ends = pod.metadata.deletion_timestamp is not None
        if isinstance(status, Status) and status.pod_ip and not ends and status.phase not in ("Succeeded", "Failed"):
            self._addresses[name] = status.pod_ip
        else:
            self._addresses.pop(name, None)


def _decode(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"no answer of the API of Kubernetes: {error}") from None
