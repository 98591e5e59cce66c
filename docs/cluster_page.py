"""The tables of docs/cluster.md, made from the sources: `python docs/cluster_page.py` rewrites, `--check` compares.

A table says what code says: kinds and numbers that are on the wire, commands of the log, keys on disk, times.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

from strogoff.broker.clustering import adapter as clustering
from strogoff.broker.clustering import config_calls, forward_receiver
from strogoff.broker.clustering import runtime as cluster_shell
from strogoff.cluster import ports
from strogoff.cluster.links.ports import Lane
from strogoff.cluster.membership import admission, commands, discovery, lease_service
from strogoff.cluster.ports import Datagram
from strogoff.cluster.replicated_map.messages import Ack, Batch, BatchAck, ClockReport, SyncRequest, Writes
from strogoff.cluster.transport import wire
from strogoff.netsplit import policy_page
from strogoff.storage import keys

PAGE = Path(__file__).parent / "cluster.md"

DATAGRAMS = {
    Datagram.RAFT: ("any peer", "a message of Raft: votes, entries, heartbeats, snapshots"),
    Datagram.LEASE_REQUEST: (
        "the leader",
        "which process asks, from which view, whom it hears, with whom it exchanged",
    ),
    Datagram.LEASE_REPLY: ("who asked", "the lease that was asked for with this number; the leader's cluster time"),
    Datagram.BOOT: ("the leader", "a start of a member; again every 300 ms until the log has it"),
    Datagram.BOOT_REFUSED: ("who started", "the process that the log refused, and why"),
    Datagram.GOODBYE: ("the leader", "a process that stops: it holds no lease any more"),
    Datagram.METADATA: ("any peer", "`ClockReport`: the sender's clocks, for collecting tombstones"),
}
LANES = {
    Lane.METADATA: ("writes of the replicated map, their acknowledgements, exchanges", "nothing: always taken"),
    Lane.APPEND: ("messages that a node passes on for their origin", "disks"),
    Lane.PUBLISH: ("messages for sessions of the target", "appends"),
}
CALLS = {
    discovery.WHO: (
        "any node, with its name",
        "who lives here, in which cluster, and whether the asker is a member of it",
    ),
    admission.JOIN: (
        "a node that is alone",
        "a member's answer: all members, the cluster id; or whom to ask; or why not",
    ),
    admission.LEAVE: ("a member", "the same, once the log has it"),
    cluster_shell.DEPART: ("a member, of the one that is to go", "two bytes: close sessions, accept their loss"),
    config_calls.VALUES: ("a member", "the values in force at the one that is asked"),
    cluster_shell.OPERATE: (
        "a member",
        "what an operator wants of the sessions of the one that is asked: rows, at most 1 MiB",
    ),
}
NAMESPACES = {
    b"f": "routes: which filters clean sessions of the node subscribe to; written by that node alone",
    b"l": "the same for sessions that last; such a route outlives a restart of everybody else",
    b"t": "retained messages: mountpoint, topic",
    b"c": "what operators set: overrides of the configuration, API keys",
    b"p": "`p node`: the last view with a member missing in which that node accepted a publish",
}


def datagrams() -> str:
    """Kinds of datagrams."""
    rows = [[str(kind.value), f"`{kind.name}`", *DATAGRAMS[kind]] for kind in Datagram]
    return _table(["kind", "name", "to", "content"], rows)


def lanes() -> str:
    """The lanes, highest rank first."""
    window = ports.Settings().links
    sizes: dict[Lane, int | str] = {
        Lane.METADATA: "none",
        Lane.APPEND: window.append_window_bytes,
        Lane.PUBLISH: window.publish_window_bytes,
    }
    rows = [[str(lane.value), f"`{lane.name}`", *LANES[lane], _size(sizes[lane])] for lane in Lane]
    return _table(["lane", "name", "carries", "waits for", "window"], rows)


def calls() -> str:
    """Single calls."""
    return _table(["call", "who asks", "what is answered or said"], ([f"`{name}`", *CALLS[name]] for name in CALLS))


def log_commands() -> str:
    """Commands of the Raft log."""
    rows = []
    for kind in get_args(commands.Command):
        fields = ", ".join(kind.__struct_fields__)
        rows.append([str(kind.__struct_config__.tag), f"`{kind.__name__}`", fields, _first(kind)])
    return _table(["tag", "command", "fields", "what it says"], sorted(rows))


def metadata_messages() -> str:
    """Messages about the map."""
    kinds = (Writes, Ack, ClockReport, SyncRequest, Batch, BatchAck)
    rows = [[str(kind.__struct_config__.tag), f"`{kind.__name__}`", _first(kind)] for kind in kinds]
    return _table(["tag", "message", "what it says"], rows)


def metadata_keys() -> str:
    """Spaces of the replicated map."""
    rows = []
    for letter, space in clustering.CLUSTER_SPACES.items():
        where = "memory and disk" if space.durable else "memory"
        rows.append(
            [
                f"`{letter.decode()}`",
                NAMESPACES[letter],
                where,
                "hybrid logical clock" if space.stamped else "one writer",
            ]
        )
    return _table(["letter", "key and value", "kept in", "concurrent writes"], rows)


def durable_keys() -> str:
    """The layout of the message database, and what is in the one of Raft."""
    layout = (keys.__doc__ or "").split("\n\n")[1]
    return f"```\n{inspect.cleandoc(layout)}\n```"


def times() -> str:
    """Numbers with a meaning for all nodes."""
    settings = ports.Settings()
    raft, views, links = settings.raft, settings.views, settings.links
    low, high = raft.election_ms
    rows = [
        ["lease", f"{views.lease_ms:g} ms", "from the moment it was asked for, on the asker's clock"],
        ["a lease has certainly ended", f"{views.expiry_ms:g} ms", f"clock rates differ by less than {views.drift:g}"],
        ["detection", f"{views.detection_ms:g} ms", "who was not heard for so long by the leader leaves the view"],
        [
            "heartbeat",
            f"{views.heartbeat_ms:g} ms",
            f"an empty frame of a dialer that had nothing else to say; while all is calm {2 * raft.heartbeat_ms:g} ms",
        ],
        [
            "lease request",
            f"{raft.heartbeat_ms:g} ms",
            "with each answer to the leader's heartbeat; without one each heartbeat",
        ],
        ["election", f"{low:g} to {high:g} ms", "silence of the leader before somebody stands for election"],
        [
            "Raft heartbeat",
            f"{raft.heartbeat_ms:g} ms",
            "one round confirms the leader for all leases asked for before it",
        ],
        [
            "the next round, for who has no lease",
            f"{lease_service.ROUND_MS:g} ms",
            "after the one before, at the earliest",
        ],
        [
            "echo",
            f"{links.echo_s * 1000:g} ms",
            "an empty frame of the acceptor, if its own stream does not say that it hears",
        ],
        ["a stream is silent", f"{links.silence_s * 1000:g} ms", "the dialer closes it; the acceptor after twice that"],
        ["redial", f"{links.redial_first_s * 1000:g} to {links.redial_last_s * 1000:g} ms", ""],
        ["transport notices a dead peer", f"{wire.NOTICE_S * 1000:g} ms", "by its own pings"],
        [
            "a member looks at the time",
            f"{settings.tick_s * 1000:g} ms",
            f"with the leader's heartbeat, at most {settings.calm_tick_s * 1000:g} ms, while all is calm",
        ],
        [
            "a join or leave waits for the log",
            f"{admission.CALL_TIMEOUT_S:g} s",
            "then the caller is told what is missing",
        ],
        [
            "a SUBACK waits for a barrier",
            f"{clustering.BARRIER_LIMIT_MS / 1000:g} s",
            "then the connection is closed",
        ],
        [
            "forgotten",
            f"{views.forget_after_ms / 86_400_000:g} days",
            "`cluster.forget_after`: then a member returns empty",
        ],
        ["snapshot of the membership", f"{raft.snapshot_every} entries", ""],
        ["largest frame", _size(wire.MAX_FRAME), "`incoming_clustering_buffer_size`"],
        ["a piece of a large item", _size(links.piece_bytes), "one for each lane in a frame"],
        ["largest item of a lane", _size(links.max_item_bytes), "four times the largest MQTT packet"],
        [
            "a held lane is asked for",
            f"{links.hold_first_s * 1000:g} to {links.hold_last_s * 1000:g} ms",
            "after the item was refused; at once with another view",
        ],
        [
            "a lane is full",
            _size(links.ahead_bytes),
            "of publishes that no frame has taken: who publishes takes turns",
        ],
        [
            "a publisher is held back",
            _size(links.behind_bytes),
            f"that wait for a full lane, more than {_size(links.ahead_bytes)} of them its own",
        ],
        [
            "a lane is slow",
            _size(links.buffer_bytes),
            "memory, `outgoing_clustering_buffer_size`; nothing is dropped but QoS 0, its publishers are not read",
        ],
        [
            "the lane `METADATA` is slow",
            _size(links.map_bytes),
            "memory; writers of retained messages are not read, for publishes wait behind what is there",
        ],
        [
            "data frames wait",
            f"{links.flight_units} units",
            "not handled by the peer's loop: 16 for an item, 1 for 64 bytes; more where the peer is far",
        ],
        [
            "a disk is slow",
            _size(links.publish_window_bytes // 2),
            "under way to it, half a window; who publishes for sessions that last there is not read",
        ],
        [
            "a disk takes nothing",
            f"{forward_receiver.EARLY_MS} ms",
            "then copies that do not wait for it are acknowledged alone",
        ],
    ]
    return _table(["what", "how long, how much", ""], rows)


PARTS = {
    "the datagrams": datagrams,
    "the lanes": lanes,
    "the calls": calls,
    "the commands": log_commands,
    "the metadata messages": metadata_messages,
    "the metadata keys": metadata_keys,
    "the durable keys": durable_keys,
    "the times": times,
}
"""What the page takes from the sources, by the names in its marks."""


def renewed(page: str) -> str:
    """The page with its derived parts made anew. Raises ValueError where the marks are missing."""
    return policy_page.renewed(page, PARTS)


def main(argv: list[str]) -> int:
    """Rewrite the page; with `--check` only say whether that would change it."""
    page = PAGE.read_text(encoding="utf-8")
    if argv == ["--check"]:
        return int(renewed(page) != page)
    PAGE.write_text(renewed(page), encoding="utf-8")
    return 0


def _first(kind: Any) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def _size(size: int | str) -> str:
    if isinstance(size, str):
        return size
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def _table(head: list[str], lines: Iterable[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
