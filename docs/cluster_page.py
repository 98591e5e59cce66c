"""Makes the tables of docs/cluster.md from the sources: `python docs/cluster_page.py` rewrites, `--check` compares.

The tables have the kinds and numbers of messages, the commands of the log, the keys on disk, and the times.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

from strogoff.broker.clustering import adapter as clustering
from strogoff.broker.clustering import config_calls, forward_receiver, leaving, write_waits
from strogoff.broker.clustering import runtime as cluster_shell
from strogoff.broker.sessions import wills
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
        "the asking process, its view, the peers that it hears, the peers with which it completed an exchange",
    ),
    Datagram.LEASE_REPLY: ("the asking node", "the lease for the request of this number; the leader's cluster time"),
    Datagram.BOOT: ("the leader", "a start of a member; repeated every 300 ms until the log has it"),
    Datagram.BOOT_REFUSED: ("the started node", "the process that the log refused, and the reason"),
    Datagram.GOODBYE: ("the leader", "a process that stops, and gives up its lease"),
    Datagram.SET_SLOTS: (
        "the leader",
        "rows of the slot table that their primary asks to change, or a follower to leave; repeated every second",
    ),
    Datagram.SLOT_MOVE: (
        "any peer",
        "a slot that moves: the offer, at most 64 KiB of its rows, and the answers; repeated every second",
    ),
    Datagram.SLOT_COPY: (
        "the primary",
        "a follower's answer about the copy of a slot; other messages about copies are on the lane `REPLICA`",
    ),
    Datagram.METADATA: ("any peer", "`ClockReport`: the sender's clocks, for collecting tombstones"),
}
LANES = {
    Lane.METADATA: ("writes of the replicated map, their acknowledgements, exchanges", "nothing"),
    Lane.REPLICA: ("rows and changes of slots, for the nodes with copies of them", "the receiver's own disk"),
    Lane.APPEND: ("messages that a node passes on for their origin", "disks, and replicas"),
    Lane.PUBLISH: ("messages for sessions of the target", "appends"),
}
CALLS = {
    discovery.WHO: (
        "any node, with its name",
        "the node at this address, its cluster, and whether the asking node is a member of it",
    ),
    admission.JOIN: (
        "a node that is alone",
        "a member's answer: all members and the cluster id; or the node to ask; or the reason of a refusal",
    ),
    admission.LEAVE: ("a member", "the same, after the log has the command"),
    leaving.DEPART: (
        "a member, of the node that leaves; repeated until it has left",
        "whether it gives its sessions away and leaves, whether some may be lost, how long it may take; how far it is",
    ),
    config_calls.VALUES: ("a member", "the configuration values of the asked node"),
    cluster_shell.OPERATE: (
        "a member",
        "the result of an operator's command for the sessions of the asked node: rows, at most 1 MiB",
    ),
}
NAMESPACES = {
    b"f": "routes to nodes: the filters of the clean sessions there; only that node writes them",
    b"h": "routes to slots: the filters of the durable sessions there; they outlive a restart of all nodes",
    b"l": "routes that a former version wrote; every node removes them",
    b"t": "retained messages: mountpoint, topic",
    b"c": "settings of operators: overrides of the configuration, API keys",
    b"p": "`p node`: the last view with a member missing in which that node accepted a publish",
}


def datagrams() -> str:
    """Returns the table of the kinds of datagrams."""
    rows = [[str(kind.value), f"`{kind.name}`", *DATAGRAMS[kind]] for kind in Datagram]
    return _table(["kind", "name", "to", "content"], rows)


def lanes() -> str:
    """Returns the table of the lanes, highest rank first."""
    window = ports.Settings().links
    sizes: dict[Lane, int | str] = {
        Lane.METADATA: "none",
        Lane.REPLICA: window.replica_window_bytes,
        Lane.APPEND: window.append_window_bytes,
        Lane.PUBLISH: window.publish_window_bytes,
    }
    rows = [[str(lane.value), f"`{lane.name}`", *LANES[lane], _size(sizes[lane])] for lane in Lane]
    return _table(["lane", "name", "carries", "waits for", "window"], rows)


def calls() -> str:
    """Returns the table of the single calls."""
    return _table(["call", "asked by", "content or answer"], ([f"`{name}`", *CALLS[name]] for name in CALLS))


def log_commands() -> str:
    """Returns the table of the commands of the Raft log."""
    rows = []
    for kind in get_args(commands.Command):
        fields = ", ".join(kind.__struct_fields__)
        rows.append([str(kind.__struct_config__.tag), f"`{kind.__name__}`", fields, _first(kind)])
    return _table(["tag", "command", "fields", "meaning"], sorted(rows))


def metadata_messages() -> str:
    """Returns the table of the messages about the replicated map."""
    kinds = (Writes, Ack, ClockReport, SyncRequest, Batch, BatchAck)
    rows = [[str(kind.__struct_config__.tag), f"`{kind.__name__}`", _first(kind)] for kind in kinds]
    return _table(["tag", "message", "meaning"], rows)


def metadata_keys() -> str:
    """Returns the table of the namespaces of the replicated map."""
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
    """Returns the layout of the message database and of the Raft database."""
    layout = (keys.__doc__ or "").split("\n\n")[1]
    return f"```\n{inspect.cleandoc(layout)}\n```"


def times() -> str:
    """Returns the table of the times and sizes that all nodes rely on."""
    settings = ports.Settings()
    raft, views, links = settings.raft, settings.views, settings.links
    low, high = raft.election_ms
    rows = [
        ["lease", f"{views.lease_ms:g} ms", "from the moment of the request, on the clock of the asking node"],
        ["a lease has certainly ended", f"{views.expiry_ms:g} ms", f"clock rates differ by less than {views.drift:g}"],
        [
            "detection",
            f"{views.detection_ms:g} ms",
            "a node that the leader did not hear for this time leaves the view",
        ],
        [
            "heartbeat",
            f"{views.heartbeat_ms:g} ms",
            f"a heartbeat of a dialer without other frames; {2 * raft.heartbeat_ms:g} ms in a stable cluster",
        ],
        [
            "lease request",
            f"{raft.heartbeat_ms:g} ms",
            f"with each answer to the leader's heartbeat; without an answer every {views.heartbeat_ms:g} ms",
        ],
        ["election", f"{low:g} to {high:g} ms", "silence of the leader before a voter starts an election"],
        [
            "Raft heartbeat",
            f"{raft.heartbeat_ms:g} ms",
            "one round confirms the leader for all lease requests before it",
        ],
        [
            "an extra round, for a node without a lease",
            f"{lease_service.ROUND_MS:g} ms",
            "at the earliest after the round before",
        ],
        [
            "echo",
            f"{links.echo_s * 1000:g} ms",
            "a heartbeat of the acceptor, unless its own stream reports that it hears the dialer",
        ],
        ["a stream is silent", f"{links.silence_s * 1000:g} ms", "the dialer closes it; the acceptor after twice that"],
        ["redial", f"{links.redial_first_s * 1000:g} to {links.redial_last_s * 1000:g} ms", ""],
        ["transport notices a dead peer", f"{wire.NOTICE_S * 1000:g} ms", "by its own pings"],
        [
            "tick of a member",
            f"{settings.tick_s * 1000:g} ms",
            f"in a stable cluster with the leader's heartbeat, at most {settings.calm_tick_s * 1000:g} ms",
        ],
        [
            "a join or leave waits for the log",
            f"{admission.CALL_TIMEOUT_S:g} s",
            "then the caller gets an error with the reason",
        ],
        [
            "a SUBACK waits for a barrier",
            f"{write_waits.BARRIER_LIMIT_MS / 1000:g} s",
            "then the connection is closed",
        ],
        [
            "a will is in doubt",
            f"{wills.DOUBT_MS / 1000:g} s",
            "its connection was taken over through another gateway; then it is certain whether the former one lives",
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
            "the receiver asks for a held lane",
            f"{links.hold_first_s * 1000:g} to {links.hold_last_s * 1000:g} ms",
            "after it refused the item; at once with another view",
        ],
        [
            "a lane is full",
            _size(links.ahead_bytes),
            "of publishes that are in no frame yet: then publishers take turns",
        ],
        [
            "a publisher is held back",
            _size(links.behind_bytes),
            f"wait for a full lane, more than {_size(links.ahead_bytes)} of them from this publisher",
        ],
        [
            "a lane is slow",
            _size(links.buffer_bytes),
            "of memory, `outgoing_clustering_buffer_size`; only QoS 0 is dropped, its publishers are not read",
        ],
        [
            "the lane `METADATA` is slow",
            _size(links.map_bytes),
            "of memory; clients that write retained messages are not read, because publishes wait for this lane",
        ],
        [
            "data frames wait",
            f"{links.flight_units} units",
            "that the peer's loop has not handled: 16 for an item, 1 for 64 bytes; more for a distant peer",
        ],
        [
            "a disk is slow",
            _size(links.publish_window_bytes // 2),
            "in flight to it, half a window; clients that publish for durable sessions there are not read",
        ],
        [
            "a disk commits nothing",
            f"{forward_receiver.EARLY_MS} ms",
            "then copies that need no commit are acknowledged separately",
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
"""The derived parts of the page, by the names in its marks."""


def renewed(page: str) -> str:
    """Returns the page with its derived parts made again. Raises ValueError if a mark is missing."""
    return policy_page.renewed(page, PARTS)


def main(argv: list[str]) -> int:
    """Rewrite the page. With `--check` only return 1 if the page is out of date."""
    page = PAGE.read_text(encoding="utf-8")
    if argv == ["--check"]:
        return int(renewed(page) != page)
    PAGE.write_text(renewed(page), encoding="utf-8")
    return 0


def _first(kind: Any) -> str:
    """Returns the first paragraph of a docstring, in one line."""
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
