"""Which domain events are lines of the log: their level and their sentence. An event's fields are the line's fields.

Sentences say what happened and, where an operator has to act, what to do. Names and values stand in the fields only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...analytics.schema import HEADER
from .log_line import Line

Row = Mapping[str, Any]

_HEADER = frozenset(each.name for each in HEADER)
_RENAMED = {
    "client": "client_id",
    "username": "user",
    "target": "peer_node",
    "source": "peer_node",
}
"""Fields of events that have another name in the log."""

_ORDINARY = frozenset(
    {
        "disconnect",
        "closed",
        "connection_reset",
        "peer_closed",
        "timeout",
        "session_taken_over",
        "server_shutting_down",
        "gateway_stopped",
        "keep_alive_timeout",
    }
)
"""Ends of connections that clients wanted, that the network made, or that have a line of their own."""

_LEFT_OUT = frozenset({"begin_ms", "detected_ms", "healed_ms", "known_seq", "mid", "level", "slots"})
"""Fields of events that people cannot read, or that mean something else in a line; the event log has them."""


class _Kind(NamedTuple):
    """How a type of event is logged."""

    level: Callable[[Row], str]
    text: Callable[[Row], str]


def _at(level: str, text: str | Callable[[Row], str]) -> _Kind:
    return _Kind(lambda row: level, text if callable(text) else lambda row: text)


def _not_forwarded(row: Row) -> str:
    if row["reason"] == "unreadable":
        return "this node cannot read an item of another node, and sets it aside"
    return "a QoS 0 message for another node is dropped"


def _dropped(row: Row) -> str:
    if row["reason"] == "unhandled":
        return "a QoS 0 message for a session that cannot have it now is dropped"
    return "a message for a session is dropped"


def _not_connected(row: Row) -> str:
    if row["reason"] != "plugin_chain_exhausted":
        return "CONNECT refused"
    if row.get("username") is None:
        return "CONNECT refused: no user name, no plugin that lets it in without one, and allow_anonymous = off"
    return "CONNECT refused: no plugin knows this user"


def _closed(row: Row) -> str:
    if row["reason"] == "administrative_action":
        return "connection of a client ended: an operator has closed it"
    return "connection of a client ended"


def _denied(row: Row) -> str:
    if row.get("reason") == "netsplit":
        return f"{row['operation']} refused: the cluster is not whole, and the split policy does not allow it"
    if row.get("reason") == "copies":
        return f"{row['operation']} refused: a slot that it is for has fewer copies than queue_min_in_sync"
    if row.get("reason"):
        return f"{row['operation']} refused"
    return f"{row['operation']} refused: not authorised"


def _store_state(row: Row) -> str:
    if row["state"] == "serving":
        return "message store: serving again"
    return f"message store: {row['state']}: {row.get('detail', '')}"


def _leave(nodes: list[str]) -> str:
    return " ".join(f"vmq-admin cluster leave node={node} -k" for node in nodes[:1])


def _detected(row: Row) -> str:
    if row.get("state") == "minority":
        return (
            "incident begins: this node has no lease, and follows the netsplit policy of a minority. The event "
            "lease.lose has the reason. Check the network to the nodes named here, and this machine's disk and load"
        )
    return (
        "incident begins: members are missing, and this node continues with the majority. Start them again; remove a "
        f"member that will not return: {_leave(row['nodes'])}"
    )


def _changed(row: Row) -> str:
    if row["state"] == "whole":
        return "incident: no member is missing any more"
    if row["state"] == "minority":
        return "incident continues: this node has no lease now"
    return "incident continues: these members are missing, this node is with the majority"


def _view(row: Row) -> str:
    if row["node"] in row.get("missing", ()):
        return "another view is in force: this node is not in it. It returns on its own when the others hear it"
    if row.get("missing"):
        return "another view is in force: members are missing"
    return f"another view is in force: {'members are joining' if row.get('joining') else 'all members serve'}"


def _primaries(row: Row) -> str:
    if row.get("without"):
        return "slots have no primary: their holders are not in the view. Start these nodes again"
    return "slots have another primary"


def _loss_possible(row: Row) -> str:
    why = "an operator has recovered them" if row["reason"] == "recovered" else "all nodes with copies have lost power"
    return f"slots have a primary that may lack acknowledged sessions and messages: {why}. These nodes had them"


def _few_copies(row: Row) -> str:
    if not row["count"]:
        return "no slot has fewer copies than queue_min_in_sync any more: nothing is refused for that"
    return (
        "slots have fewer copies than queue_min_in_sync: until they have them again, new operations for their sessions "
        "are refused"
    )


def _sampling(row: Row) -> str:
    if row["state"] == "begin":
        return (
            "the event log leaves out whole messages: its writer does not keep up. Give it a quicker disk, or restrict "
            "it with eventlog.topics, eventlog.clients or eventlog.level"
        )
    return "the event log has all messages again"


LINES: dict[str, _Kind] = {
    "node.start": _at("notice", "the node starts"),
    "node.loaded": _at("notice", "the node knows all subscriptions and sessions of its disk"),
    "conn.open": _at("debug", "client connected"),
    "conn.close": _Kind(lambda row: "debug" if row["reason"] in _ORDINARY else "info", _closed),
    "conn.pause": _at(
        "warning", "a client is not read: its packets wait for answers, as other nodes or the disk do not take them"
    ),
    "conn.refuse": _at("warning", _not_connected),
    "sess.create": _at("debug", "session begun"),
    "sess.end": _at("debug", "session ended"),
    "sess.takeover.start": _at(
        "info", "another connection with the same client id takes the session over: the older one is closed"
    ),
    "policy.deny": _at("warning", _denied),
    "q.drop": _Kind(lambda row: "debug" if row["reason"] == "unhandled" else "warning", _dropped),
    "fwd.drop": _at("warning", _not_forwarded),
    "ret.refuse": _at("warning", "a retained message is not kept"),
    "will.fire": _at("debug", "a will is published"),
    "log.sample": _Kind(lambda row: "warning" if row["state"] == "begin" else "notice", _sampling),
    "store.state": _Kind(lambda row: "warning" if row["state"] == "serving" else "error", _store_state),
    "lease.get": _at("notice", "this node has a lease: it accepts and acknowledges for the cluster"),
    "lease.lose": _at(
        "warning",
        "this node has lost its lease: until it has one again it does what the split policy says for a minority",
    ),
    "mem.view": _Kind(lambda row: "warning" if row.get("missing") else "notice", _view),
    "slot.primary": _Kind(lambda row: "warning" if row.get("without") else "notice", _primaries),
    "slot.few": _Kind(lambda row: "warning" if row["count"] else "notice", _few_copies),
    "slot.repair": _at(
        "error",
        "rows of a copy at this node differed from those of their primary, and were replaced. Its disk may lose data",
    ),
    "slot.lost": _at(
        "warning", "slots are lost: a member that was removed or replaced had the only copy. They are empty"
    ),
    "slot.loss_possible": _at("warning", _loss_possible),
    "split.suspect": _at("info", "a member is silent"),
    "split.pass": _at("info", "a member that was silent is heard again"),
    "split.detect": _at("warning", _detected),
    "split.change": _Kind(lambda row: "notice" if row["state"] == "whole" else "warning", _changed),
    "split.heal": _at("notice", "incident is over: no member is missing any more, and all is merged"),
}
"""Type of event -> its line. Types that are not here are not logged; the event log has them all."""


def line_of(row: Row) -> Line:
    """The line of an event whose type is in `LINES`."""
    fields = {_RENAMED.get(name, name): value for name, value in row.items() if name not in _HEADER | _LEFT_OUT}
    return Line(row["type"], LINES[row["type"]].text(row), **fields)
