"""Renews the tables of docs/protocol.md: `python docs/protocol_page.py` rewrites, `--check` compares.

The first columns of each table come from the sources: messages, fields, positions, types, sizes. The other columns are
written by hand in the page, and stay with their row. A new row has empty ones, which a test refuses.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from strogoff.admin.fan_out import NodeResult, RemoteCommand
from strogoff.broker.clustering import (
    config_calls,
    copy_codec,
    forward_codec,
    leaving,
    runtime,
    slot_comparison,
    slot_transfer,
)
from strogoff.broker.connection.handshake import Admission
from strogoff.broker.gateway import messages as relay
from strogoff.cluster.links import frames, hello
from strogoff.cluster.links.pieces import Piece
from strogoff.cluster.links.ports import Lane
from strogoff.cluster.links.refusal import RefusalReason
from strogoff.cluster.links.settings import LinkSettings
from strogoff.cluster.membership import admission, boot, commands, discovery, messages, state_machine, view
from strogoff.cluster.ports import Datagram
from strogoff.cluster.raft import messages as raft
from strogoff.cluster.raft.interface import Settings as RaftSettings
from strogoff.cluster.replicated_map import messages as replicated_map
from strogoff.cluster.slots import table as slot_table
from strogoff.cluster.transport.data_listener import Offer

PAGE = Path(__file__).parent / "protocol.md"

BEGIN, END = "<!-- {}: begin -->", "<!-- {}: end -->"

STRUCTS: dict[str, dict[str, type[msgspec.Struct]]] = {
    "hello": {"PeerInfo": hello.PeerInfo, "Welcome": hello.Welcome, "Offer": Offer},
    "frame": {"Frame": frames.Frame, "Run": frames.Run, "Piece": Piece},
    "lease": {
        "LeaseRequest": messages.LeaseRequest,
        "LeaseReply": messages.LeaseReply,
        "Goodbye": messages.Goodbye,
        "BootRefused": boot.BootRefused,
    },
    "Raft": {
        "Message": raft.Message,
        "Entry": raft.Entry,
        "Change": raft.Change,
        "Snapshot": raft.Snapshot,
        "Configuration": raft.Configuration,
    },
    "log": {
        "Settle": commands.Settle,
        "Join": commands.Join,
        "Boot": commands.Boot,
        "Leave": commands.Leave,
        "Stale": commands.Stale,
        "SetView": commands.SetView,
        "Row": commands.Row,
        "Away": commands.Away,
        "SetSlots": commands.SetSlots,
        "RecoverSlots": commands.RecoverSlots,
        "SlotRow": slot_table.SlotRow,
        "Holder": slot_table.Holder,
    },
    "snapshot": {
        "State": state_machine._State,
        "MemberRow": state_machine.MemberRow,
        "View": view.View,
        "PackedTable": slot_table.PackedTable,
    },
    "map": {
        "Writes": replicated_map.Writes,
        "Ack": replicated_map.Ack,
        "ClockReport": replicated_map.ClockReport,
        "SyncRequest": replicated_map.SyncRequest,
        "Batch": replicated_map.Batch,
        "BatchAck": replicated_map.BatchAck,
        "Part": replicated_map.Part,
        "Item": replicated_map.Item,
        "KeyContext": replicated_map.KeyContext,
    },
    "forward": {"body": forward_codec._Record, "OpenMids": forward_codec.OpenMids},
    "move": {
        "Attempt": slot_transfer.Attempt,
        "Offer": slot_transfer.Offer,
        "Ready": slot_transfer.Ready,
        "Declined": slot_transfer.Declined,
        "Piece": slot_transfer.Piece,
        "Took": slot_transfer.Took,
        "Drop": slot_transfer.Drop,
    },
    "copy": {
        "CopyAttempt": copy_codec.CopyAttempt,
        "Begin": copy_codec.Begin,
        "Rows": copy_codec.Rows,
        "Changes": copy_codec.Changes,
        "Part": copy_codec.Part,
        "End": copy_codec.End,
        "Digests": copy_codec.Digests,
        "Over": copy_codec.Over,
        "Digest": slot_comparison.Digest,
        "Ready": copy_codec.Ready,
        "Complete": copy_codec.Complete,
        "Declined": copy_codec.Declined,
        "Different": copy_codec.Different,
    },
    "relay": {"Opening": relay.Opening, "Admission": Admission},
    "call": {
        "JoinRequest": admission.JoinRequest,
        "LeaveRequest": admission.LeaveRequest,
        "CallAnswer": admission.CallAnswer,
        "WhoAnswer": discovery.WhoAnswer,
        "RemoteCommand": RemoteCommand,
        "NodeResult": NodeResult,
    },
}
"""The types on the wire, by the table that has their fields, with their names there."""

RELAY_KINDS = (
    "OPEN_PART", "OPEN", "OPENED", "NOT_MINE", "DATA", "ROOM", "WANT", "RECALL", "RETURNED", "GONE", "SILENT", "LOCAL",
    "EVICT", "ASK", "REPORT", "REPORTED",
)  # fmt: skip

CALLS = (discovery.WHO, admission.JOIN, admission.LEAVE, leaving.DEPART, config_calls.VALUES, runtime.OPERATE)

VERSIONS = ("cluster.links.hello: NEWEST OLDEST", "cluster.transport.handshake: FORMAT", "storage.directory: FORMAT")

LIMITS = (
    "cluster.transport.wire: MAX_FRAME DIAL_S",
    "cluster.transport.grpc_settings: HANDSHAKE_S MAX_CONNECTIONS UNREAD_BYTES",
    "cluster.transport.handshake: WINDOW",
    "cluster.transport.data_listener: MAX_UNPROVEN",
    "cluster.transport.data_stream: PROOF_BYTES",
    "cluster.links.tunnel: MAX_ITEM",
    "cluster.membership.boot: AGAIN_MS",
    "cluster.membership.admission: CALL_TIMEOUT_S",
    "cluster.membership.peer_addresses: STRANGERS_MOST",
    "cluster.membership.coordinator: SLOTS_MS SUBMITTED_MOST",
    "cluster.slots.table: HOLDERS_MOST",
    "cluster.replicated_map.delta_sender: STEP_KEYS STEP_BYTES",
    "cluster.replicated_map.anti_entropy: WINDOW RETRY_MS GIVE_UP_MS",
    "cluster.replicated_map.map: SYNC_INTERVAL_MS",
    "broker.clustering.forward_codec: OPEN_PER_ITEM",
    "broker.clustering.slot_transfer: PIECE_BYTES ROW_BYTES",
    "broker.clustering.slot_departure: REPEAT_MS SILENCE_MS",
    "broker.clustering.slot_replicator: REPEAT_MS BEHIND_BYTES FILLS",
    "broker.clustering.slot_filling: SMALL LARGE GROWTH_MS",
    "broker.clustering.copy_codec: SHARED_BYTES",
    "broker.clustering.slot_comparison: MOST",
    "broker.gateway.messages: PIECE_BYTES OPENING_BYTES",
    "broker.gateway.peer: JOINED_BYTES",
    "broker.gateway.credit: BASE_BYTES MOST_BYTES BUDGET_BYTES",
    "broker.gateway.gateway_connection: OPEN_BOUND_MS",
    "broker.gateway.early_opens: EARLY_MOST EARLY_BYTES",
    "broker.gateway.gateways: RECALL_MS",
    "broker.gateway.registration: QUESTIONS_MOST REPORTED_AT_ONCE",
    "admin.fan_out: MAX_RESULT_BYTES",
)
"""Modules and their constants."""

SETTINGS = (
    (LinkSettings(), "max_frame_bytes piece_bytes max_item_bytes gather_bytes tunnel_bytes"),
    (RaftSettings(), "max_append_bytes max_inflight snapshot_retry_ms"),
)


class Table(NamedTuple):
    """A table of the page. `head` has all columns, `rows` returns the derived cells at the beginning of each row, and
    `key` of these cells identify a row."""

    head: list[str]
    rows: Callable[[], list[list[str]]]
    key: int


def type_of(found: msgspec.inspect.Type) -> str:
    """Returns the short name of a type on the wire, with its limits."""
    inspect = msgspec.inspect
    if isinstance(found, inspect.IntType):
        low = f" ≥ {found.ge}" if found.ge is not None else ""
        high = found.le if found.le is not None else found.lt - 1 if found.lt is not None else None
        return f"int{low}" if high is None else f"int {found.ge} to {high}"
    if isinstance(found, inspect.StrType):
        limit = "" if found.max_length is None else f", at most {found.max_length} characters"
        return ("text, not empty" if found.min_length else "text") + limit
    if isinstance(found, inspect.TupleType):
        return f"({', '.join(map(type_of, found.item_types))})"
    if isinstance(found, inspect.VarTupleType | inspect.ListType):
        return f"[{type_of(found.item_type)}]"
    if isinstance(found, inspect.DictType):
        return f"{{{type_of(found.key_type)}: {type_of(found.value_type)}}}"
    if isinstance(found, inspect.UnionType):
        return " or ".join(map(type_of, found.types))
    if isinstance(found, inspect.StructType):
        return NAMES[found.cls]
    if isinstance(found, inspect.EnumType):
        return found.cls.__name__
    if isinstance(found, inspect.LiteralType):
        return " or ".join(f'"{value}"' for value in found.values)
    return {"BytesType": "bytes", "BoolType": "bool", "NoneType": "nil", "FloatType": "float", "AnyType": "any"}[
        type(found).__name__
    ]


NAMES = {kind: name for group in STRUCTS.values() for name, kind in group.items()}


def fields_of(group: str) -> list[list[str]]:
    """Returns message, field, position in the array and type of each field; a tag is at position 0."""
    rows = []
    for name, kind in STRUCTS[group].items():
        info = msgspec.inspect.type_info(kind)
        assert isinstance(info, msgspec.inspect.StructType) and info.array_like
        first = 0 if info.tag is None else 1
        for at, field in enumerate(info.fields, first):
            optional = "" if field.required else ", optional"
            rows.append([name, f"`{field.name}`", str(at), type_of(field.type) + optional])
    return rows


def fields(group: str) -> Callable[[], list[list[str]]]:
    """Returns a function for the rows of `fields_of`."""
    return lambda: fields_of(group)


def kinds(enum: type[IntEnum]) -> Callable[[], list[list[str]]]:
    """Returns a function for the rows of an enumeration: name and number."""
    return lambda: [[f"`{each.name}`", str(each.value)] for each in enum]


def tagged(group: str) -> Callable[[], list[list[str]]]:
    """Returns a function for the rows of the tagged messages of a group: name and tag."""
    found = [(name, kind.__struct_config__.tag) for name, kind in STRUCTS[group].items()]
    return lambda: [[f"`{name}`", str(tag)] for name, tag in found if tag is not None]


def relay_kinds() -> list[list[str]]:
    """Returns name, kind byte and content of each message of the relay."""
    rows = []
    for name in RELAY_KINDS:
        kind = getattr(relay, name)
        rows.append([f"`{name}`", str(kind), "body" if kind in relay._BODIES else "value"])
    return rows


def constants(modules: tuple[str, ...]) -> Iterator[list[str]]:
    """Yields module, constant and value."""
    for line in modules:
        module, _, names = line.partition(": ")
        found = importlib.import_module(f"strogoff.{module}")
        for name in names.split():
            yield [f"`{module}.{name}`", _value(name, getattr(found, name))]


def limits() -> list[list[str]]:
    """Returns the constants and settings that bound messages."""
    rows = list(constants(LIMITS))
    for settings, names in SETTINGS:
        module = type(settings).__module__.removeprefix("strogoff.")
        rows += [[f"`{module}.{name}`", _value(name, getattr(settings, name))] for name in names.split()]
    return rows


def _value(name: str, value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(_value(name, each) for each in value)
    if isinstance(value, bytes):
        return str(value[0])
    if "bytes" in name.lower() or name in ("MAX_FRAME", "MAX_ITEM", "SMALL", "LARGE"):
        unit = next(
            (shift, text) for shift, text in ((20, "MiB"), (10, "KiB"), (0, "bytes")) if not value % (1 << shift)
        )
        return f"{value >> unit[0]} {unit[1]}"
    unit_of = {"_s": " s", "_ms": " ms"}
    return f"{value:g}{unit_of.get(name[name.rfind('_') :].lower(), '')}"


MESSAGE = ["from, to, when", "answer", "lost or repeated", "most bytes", "since"]

TABLES = {
    "versions": Table(
        ["constant", "value", "where it is sent or stored", "another one"], lambda: list(constants(VERSIONS)), 1
    ),
    "lanes": Table(
        ["lane", "number", "carries", "watermark of a new process", "acknowledged when", "since"], kinds(Lane), 1
    ),
    "datagrams": Table(["datagram", "kind", "content", *MESSAGE], kinds(Datagram), 1),
    "calls": Table(
        ["call", "request", "answer", "from, to, when", "lost or repeated", "since"],
        lambda: [[f"`{name}`"] for name in CALLS],
        1,
    ),
    "refusals": Table(
        ["code", "meaning for the refused process"], lambda: [[f"`[{each.value}]`"] for each in RefusalReason], 1
    ),
    "Raft kinds": Table(
        ["message", "kind", "from, to, when", "fields", "answer", "lost or repeated"], kinds(raft.MessageKind), 1
    ),
    "entry kinds": Table(["entry", "kind", "data"], kinds(raft.Kind), 1),
    "commands": Table(["command", "tag", "proposed when", "since"], tagged("log"), 1),
    "map messages": Table(["message", "tag", *MESSAGE], tagged("map"), 1),
    "move messages": Table(["message", "tag", *MESSAGE], tagged("move"), 1),
    "copy messages": Table(["message", "tag", *MESSAGE], tagged("copy"), 1),
    "relay messages": Table(["message", "kind", "has", "from, to, when", "content", "answer"], relay_kinds, 1),
    "limits": Table(["constant", "value", "bounds"], limits, 1),
    **{
        f"fields: {group}": Table(["message", "field", "at", "type", "content", "since"], fields(group), 2)
        for group in STRUCTS
    },
}
"""The tables by the names in their marks."""


def part_of(page: str, name: str) -> tuple[str, str, str]:
    """Returns the page before, inside and after the marks of a table. Raises ValueError if a mark is missing."""
    begin, end = BEGIN.format(name), END.format(name)
    before, found, rest = page.partition(begin)
    inside, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no part between {begin} and {end}")
    return before + begin, inside, end + after


def rows_in(text: str) -> list[list[str]]:
    """Returns the cells of the rows of a table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line[1:-1].split(" | ")] for line in lines[2:]]


def renewed_table(table: Table, text: str) -> str:
    """Returns the table with its derived cells made again. Cells that were written by hand stay with their row."""
    derived = table.rows()
    width = len(derived[0])
    written: dict[tuple[str, ...], list[list[str]]] = {}
    for row in rows_in(text):
        written.setdefault(tuple(row[: table.key]), []).append(row[width:])
    lines = [table.head, ["---"] * len(table.head)]
    for row in derived:
        rest = written.get(tuple(row[: table.key]), [])
        lines.append(row + (rest.pop(0) if rest else [""] * (len(table.head) - width)))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def renewed(page: str) -> str:
    """Returns the page with the derived cells of all tables made again. Raises ValueError if a mark is missing."""
    for name, table in TABLES.items():
        before, inside, after = part_of(page, name)
        page = f"{before}\n\n{renewed_table(table, inside)}\n\n{after}"
    return page


def marks(page: str) -> list[str]:
    """Returns the names of the marked parts of a page."""
    return re.findall(r"<!-- ([^>]*): begin -->", page)


def main(argv: list[str]) -> int:
    """Rewrite the page. With `--check` only return 1 if the page is out of date."""
    page = PAGE.read_text(encoding="utf-8")
    if argv == ["--check"]:
        return int(renewed(page) != page)
    PAGE.write_text(renewed(page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
