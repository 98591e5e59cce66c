"""Replaces what is private in rows of the event log: topics, clients, users and addresses become keyed hashes.

Equal values stay equal, at all nodes with the same key, so a reader can follow a client and a topic without their
names. Nobody can tell a value from its hash, nor try values out, without the key. Each kind of value has hashes of its
own: a level of a topic does not show that it is a client's id.

The levels of a topic are replaced one by one, and wildcards, `$share`, `$SYS` and empty levels stay. So a hashed filter
matches a hashed topic exactly if the filter matches the topic. Of an address the port stays. Names of nodes and
mountpoints stay, and so does a user name that a client does not have.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from ...cluster.identity import slot_of
from ...mqtt.topics import SHARE
from ..remembered import remembered
from .events import Writer

CLIENTS: Final = "eventlog.clients"
TOPICS: Final = "eventlog.topics"
REDACTED: Final = "eventlog.redact"
"""The setting that has the fingerprint of the key in place of `on` in rows."""

_REMEMBERED: Final = 50_000
"""Values of each kind whose hash is remembered."""
_KEPT: Final = frozenset(("", "+", "#", "$SYS", "$share"))
"""Levels that stay."""
_OF_SESSIONS: Final = frozenset(("sess.create", "sess.resume", "sub.add", "will.arm"))
"""Rows of these types get the slot of their client: its hash does not tell it."""
_DETAILS_OF_NODES: Final = frozenset(("lease.lose", "mem.slow", "fault.loss", "fault.end"))
"""Types whose `detail` says nothing of clients. It is left out of all others."""

Fields = Mapping[str, Any]


class Redactor:
    """Replaces the private fields of rows, with one key."""

    def __init__(self, key: bytes) -> None:
        self._key = blake2b(key, digest_size=32).digest()
        self.fingerprint = self._hash("key", "")
        """Tells keys apart."""
        self._client = remembered(_REMEMBERED, self._new_client)
        self._level = remembered(_REMEMBERED, self._new_level)
        self._topic = remembered(_REMEMBERED, self._new_topic)
        self._user = remembered(_REMEMBERED, lambda text: self._hash("user", text))
        self._peer = remembered(_REMEMBERED, self._new_peer)
        self._by_field: dict[str, Callable[[Any], Any]] = {
            "client": self._client,
            "targets": self._each(self._client),
            "topic": self._topic,
            "filter": self._topic,
            "filters": self._each(self._topic),
            "group": self._topic,
            "username": self._user,
            "peer": self._peer,
            "settings": self._each(self._setting),
        }

    def fields(self, kind: str, fields: Fields) -> dict[str, Any]:
        """Returns the fields of a row of this type without what is private."""
        by_field = self._by_field
        done = {
            name: by_field[name](value) if name in by_field and value is not None else value
            for name, value in fields.items()
        }
        if kind in _OF_SESSIONS:
            done["slot"] = slot_of(fields.get("mountpoint") or "", fields["client"])
        elif kind == "sess.takeover.start" and done.get("old"):
            done["old"] = self._peer(done["old"])
        elif kind == "config.change":
            for name in ("old", "new"):
                done[name] = self._value(fields["key"], done.get(name))
        if "detail" in done and kind not in _DETAILS_OF_NODES:
            del done["detail"]
        return done

    def client(self, name: str) -> str:
        """Returns what stands for a client id; for a shared subscription without a member, what stands for its
        filter."""
        return self._client(name)

    def topic(self, text: str) -> str:
        """Returns what stands for a topic or a filter."""
        return self._topic(text)

    def _hash(self, kind: str, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        digest = blake2b(data, digest_size=9, key=self._key, person=kind.encode()).digest()
        return urlsafe_b64encode(digest).decode()

    def _new_client(self, text: str) -> str:
        if text.startswith(SHARE):
            return self._topic(text)
        return self._hash("client", text) if text else ""

    def _new_level(self, text: str) -> str:
        if text in _KEPT:
            return text
        mark = "$" if text.startswith("$") else ""  # wildcards do not match such a first level
        return mark + self._hash("level", text)

    def _new_topic(self, text: str) -> str:
        return "/".join(map(self._level, text.split("/")))

    def _new_peer(self, text: str) -> str:
        host, _, port = text.rpartition(":")
        return f"{self._hash('address', host)}:{port}"

    def _setting(self, text: str) -> str:
        key, _, value = text.partition("=")
        return f"{key}={self._value(key, value)}"

    def _value(self, key: str, value: str | None) -> str | None:
        if (key, value) == (REDACTED, "on"):
            return self.fingerprint
        of = {CLIENTS: self._client, TOPICS: self._topic}.get(key)
        if of is None or not value:
            return value
        return ",".join(of(each.strip()) for each in value.split(","))

    @staticmethod
    def _each(of: Callable[[Any], Any]) -> Callable[[Sequence[Any]], list[Any]]:
        return lambda values: [of(each) for each in values]


class Redacting:
    """Writes rows with a writer of `Events`, and replaces what is private in them before."""

    def __init__(self, writer: Writer, redactor: Redactor) -> None:
        self._writer = writer
        self._fields = redactor.fields

    def write(self, kind: str, seq: int, hlc: int, mono_ns: int, fields: dict[str, Any], /) -> None:
        """As `Writer.write`."""
        self._writer.write(kind, seq, hlc, mono_ns, self._fields(kind, fields))

    def belong_to(self, run_id: str) -> None:
        """As `Writer.belong_to`."""
        self._writer.belong_to(run_id)

    @property
    def pressed(self) -> bool:
        """As `Writer.pressed`."""
        return self._writer.pressed
