"""The schema of the event log as plain data: every event type with its fields, types, units and level.

Broker, simulator, tests and Spark jobs share these definitions. A row is one flat JSON object: the fields of `HEADER`,
then the fields of its type. A field has the same type and meaning in every row.

Order: `hlc` is a hybrid logical clock in one integer, `physical ms since 1970 << 16 | logical`. It rises strictly with
`seq`, and from each boot of a node to the next, whatever its clock says: a boot begins behind the last row that is left
of the boot before. After a frame from another node, all later values are larger than the value in the frame.

Completeness: `seq` counts from 1 without gaps for each (node, boot). A node that joins a cluster goes on under another
`run_id`, with the next number. A `log.gap` row replaces rows that the writer has dropped (`first` to `last`; its own
`seq` is `last`). A number that is missing without such a row was lost outside of the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

VERSION: Final = 10
"""Version of the schema. Readers accept rows up to their own version. A new type or a new required field raises it."""

OFF: Final = 0
SESSION: Final = 1
MESSAGE: Final = 2
LEVELS: Final = {"off": OFF, "session": SESSION, "message": MESSAGE}
"""The values of `eventlog.level`."""

UNWRITTEN: Final = "unwritten"
"""The state in `store.state` that ends a boot in place of `node.stop`: the stop has not written everything."""

LOGICAL_BITS: Final = 16
"""Bits of the logical part of an `hlc`."""

# Types of fields. In JSON: string, integer (64 bits, signed), true/false, [node, boot, counter], array of strings,
# object of integers.
STRING, INT, BOOL, MID, STRINGS, COUNTS = "string", "int", "bool", "mid", "strings", "counts"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a row: its type, unit ("" where it has none) and meaning."""

    name: str
    kind: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class EventType:
    """A type of event: the level from which it is logged, and which fields it must and may have (null = absent)."""

    name: str
    level: int
    required: tuple[str, ...]
    optional: tuple[str, ...]
    meaning: str


HEADER: Final = (
    Field("v", INT, "", "version of this schema"),
    Field("run_id", STRING, "", "the cluster, or the test run, that the row belongs to"),
    Field("node", STRING, "", "name of the node that wrote the row"),
    Field("boot", INT, "", "number of starts of that node, this one included"),
    Field("seq", INT, "", "number of the row in (node, boot), from 1, without gaps"),
    Field("hlc", INT, "ms << 16", "hybrid logical clock: milliseconds since 1970, then 16 bits of logical counter"),
    Field("mono_ns", INT, "ns", "monotonic clock of the process; comparable within one boot only"),
    Field("type", STRING, "", "event type"),
)
"""The fields of every row."""

_FIELDS: Final = """
    begin_ms        int      ms         cluster time of the last common contact, where an incident begins
    behind          int      writes     writes into the replicated map that the other node had, and this one lacks
    bytes           int      bytes      size of the payload; of a slot that moved: of its rows
    client          string   -          client id; for a shared subscription without a member its group
    clean           bool     -          Clean Start, before MQTT 5.0 Clean Session
    code            int      -          reason code that the peer got, as in the standard
    codes           strings  -          reason codes that the peer got, in decimals, one for each filter
    conn            int      -          the client's connection, a number unique in (node, boot)
    connects        int      total      connections that got a session, since the start
    context         string   -          digest of the writes that a node has seen; empty: it is not all that counts
    copied          bool     -          another node has it, too
    count           int      -          how many
    counts          counts   -          operations since the begin by outcome, such as publish_refused
    deliveries      int      total      PUBLISH packets sent to subscribers, since the start
    detail          string   -          further facts, for people
    detected_ms     int      ms         cluster time when the node knew of the incident
    digest          string   -          16 hexadecimal digits: BLAKE2b of the payload, or digest of a replicated map
    drops           counts   total      messages dropped from queues by reason, since the start
    durability      string   -          what a commit waits for on this disk: sync, os, or none (memory alone)
    dup             bool     -          sent again after it may have been received
    epoch           int      -          which durable session of the client; 0: one that ends with its connection
    exchange        int      -          number of a comparison of two replicated maps, of the node that asked for it
    expiry_s        int      s          the session outlives its connection by this; 4294967295 stands for ever
    filter          string   -          topic filter as subscribed
    filters         strings  -          topic filters in the order of the packet
    first           int      seq        first missing row
    group           string   -          the $share filter of the group that chose the session
    healed_ms       int      ms         cluster time when the node was whole again and merged
    incident        int      -          which incident, the same at all nodes: number of the last view that was whole
    joining         strings  -          members in the view that do not serve yet
    keepalive_s     int      s          keep alive in force; 0 stands for none
    key             string   -          configuration key
    known_seq       int      seq        the last number that the boot before is known to have used
    last            int      seq        last missing row
    left_out        int      total      messages whose rows the log leaves out as a whole, since the start
    level           string   -          eventlog.level: session or message
    lsn             int      -          number of the commit that holds it
    mid             mid      -          identity of the message: node and boot that accepted it, or a slot; counter
    missing         strings  -          members that are not in the view
    mountpoint      string   -          mountpoint of the client
    new             string   -          value after the change
    nodes           strings  -          nodes concerned
    old             string   -          value before the change
    operation       string   -          register, publish, subscribe or unsubscribe
    packet_id       int      -          packet id on the connection
    peer            string   -          address of the peer
    policy          string   -          the setting that decided, or the state of the node: fenced or settling
    present         bool     -          the node had the session before
    primaries       counts   slots      slots by their new primary
    publishes       int      total      PUBLISH packets accepted, since the start
    qos             int      -          0, 1 or 2
    reason          string   -          why, one word of a closed list
    receive_max     int      messages   the most messages of QoS 1 and 2 that are under way to the client
    retain          bool     -          the RETAIN flag
    retained        int      messages   retained messages in the store
    right           string   -          why the node may acknowledge: own (no cluster), lease, or policy
    rows            int      rows       rows that are missing, or were wrong
    sessions        int      sessions   durable sessions in the store, or in the slot
    settings        strings  -          settings in force, such as queue_replicas=2
    slot            int      -          slot of the client id, 0 to 255; in rows of sessions only beside hashes of names
    slots           strings  -          ranges of slots, such as 0-84
    source          string   -          the other node, from which it comes
    source_boot     int      -          number of starts of that node
    split_ms        int      ms         from detection to heal
    state           string   -          state entered
    tail_lost       bool     -          rows of the boot before may be missing behind known_seq, after a loss of power
    target          string   -          the other node, to which it goes, or the member concerned
    targets         strings  -          client ids of this node that the message goes to
    topic           string   -          topic name
    username        string   -          user name of the client
    version         int      -          MQTT version: 3, 4 (3.1.1) or 5
    view            int      -          number of the cluster view
    without         int      slots      slots that have no primary now
    will            string   -          which will: a name that no other will of the cluster has
    will_delay_s    int      s          the will waits for this after the connection
    window_ms       int      ms         from begin to now; of an incident to its detection: the Window of Uncertainty
    write           int      -          number of a node's write into the replicated map, from 1 in each boot
"""

# Type, level (s = session, m = message), required and ?optional fields : meaning.
_TYPES: Final = """
    conn.open s client peer version conn epoch clean present expiry_s receive_max keepalive_s
        ?mountpoint ?username ?will_delay_s ?will
        : a connection got its session; will_delay_s: it has a will
    conn.close s client reason conn ?mountpoint ?peer ?username ?detail : a connection with a session ended
    conn.pause s client reason count ?mountpoint
        : the node stopped reading a connection, because `count` of its packets wait
    conn.refuse s client peer version code reason ?mountpoint ?username
        : a CONNECT was refused; username: its first 256 characters
    sess.create s client epoch ?mountpoint ?slot : a session began
    sess.resume s client epoch ?mountpoint ?slot : a client resumed its session
    sess.expire s client epoch ?mountpoint : a session's expiry interval was over
    sess.takeover.start s client ?mountpoint ?epoch ?username ?peer ?old
        : another connection of the client id is being closed; peer is the new one's address, old the other's
    sess.takeover.end s client epoch ?mountpoint : the other connection is fenced
    sess.end s client epoch reason ?mountpoint : a session is over, its queue with it
    sub.add s client epoch filter qos ?mountpoint ?write ?slot
        : a subscription was added or replaced; write: the last write that its SUBACK waits for at other nodes
    sub.del s client epoch filter ?mountpoint : a subscription was removed
    sub.ack s client filters codes ?mountpoint ?conn ?right ?write
        : SUBACK was sent, with a reason code for each filter; write: as in sub.add
    unsub.ack s client filters codes ?mountpoint ?conn ?right
        : UNSUBACK was sent; in MQTT 3.1.1 it has no codes, and these are what MQTT 5.0 would get
    pub.recv m mid client topic qos conn ?packet_id ?retain ?bytes
        : a PUBLISH was accepted
    pub.route m mid targets ?nodes ?group
        : it is known who gets a message: sessions of this node and other nodes; or, with `group`, whom that group chose
    pub.ack m mid client conn packet_id qos code right : PUBACK or PUBREC was sent to the publisher
    pub.rel m mid client conn packet_id : the publisher has PUBREC: PUBREL came
    pub.comp m mid client conn packet_id : PUBCOMP was sent to the publisher
    q.enq m mid client epoch topic qos ?mountpoint ?group
        : a session's queue took a message, to be delivered with this QoS; QoS 0 that is sent at once enters no queue
    q.durable m mid client epoch lsn durability copied ?mountpoint : a queue's entry is safe as configured
    q.depth m client epoch count ?mountpoint
        : so many messages are in a session's queue, those in flight included: its client came back, or somebody asks
    q.drop s client topic reason mid ?mountpoint ?epoch ?qos : a message was dropped
    q.expire s client epoch topic mid ?mountpoint : a message's expiry interval was over
    dlv.send m mid client conn qos ?dup ?packet_id : a PUBLISH was sent to a subscriber
    dlv.ack m mid client conn packet_id code : a subscriber has a message, or refuses it (PUBACK or PUBREC)
    dlv.rel m client conn packet_id : PUBREL was sent to the subscriber
    dlv.comp m client conn packet_id : PUBCOMP came from the subscriber
    dlv.pause s client conn ?mountpoint
        : for 1 s the client has not read what was sent, so the node sends it nothing
    dlv.resume s client conn ?mountpoint : the client reads again, after dlv.pause
    will.arm s client epoch topic ?mountpoint ?slot ?will
        : the node has the will of a client that connects; conn.open follows, unless the connection ends before CONNACK
    will.fire s client topic mid ?mountpoint ?will : a will was published
    will.cancel s client reason ?topic ?mountpoint ?epoch ?will : a will will not be published
    ret.set m topic bytes digest ?mid ?mountpoint
        : this node has another retained message for a topic; 0 bytes: none. Each node of a cluster writes such a row
    ret.deliver m client epoch topic mid ?mountpoint : a retained message went to a new subscription
    ret.refuse s topic client reason : a retained message was refused
    policy.deny s client operation topic ?reason ?policy ?state ?mountpoint ?username ?peer
        : an operation was refused, or a PUBLISH deferred; state: how much of the cluster the node saw, see mem.view;
        topic and username: their first 256 characters
    store.sync m lsn bytes : everything up to lsn is on the disk, after fsync; bytes: since the last such row
    store.state s state ?detail
        : the message store changed its state; unwritten: last row of a boot whose stop did not write everything in time
    node.start s retained ?level ?settings ?known_seq ?tail_lost
        : first row of a boot; settings are those that promises depend on
    node.join s ?old ?level ?settings
        : the node has joined a cluster: its rows belong to that run from here on, before they did to the old one
    node.loaded s sessions : the node knows all sessions of its disk
    node.stop s ?reason
        : last row of a boot that was ended in order, with all on its disk, or that goes on in another run (joined)
    node.stats s connects publishes deliveries drops ?left_out : counters, each minute and before node.stop
    config.change s key ?old ?new : another value of a setting is in force at this node, while it runs
    log.sample s state ?count
        : begin or end of a time in which the writer does not keep up, and the node leaves out whole messages
    log.gap s first last rows reason : rows that the writer dropped: overflow, disk or unencodable
    fwd.send m mid target ?topic : a message went onto the link to a node
    fwd.recv m mid source ?topic : a message arrived from a node
    fwd.ack m mid target : the other node acknowledged the message
    fwd.drop s target reason ?mid ?topic ?qos ?source ?bytes ?detail
        : a message was not forwarded; with reason unreadable: what came from the source cannot be read
    map.learn m source source_boot write
        : the node has all that the source has written into the replicated map up to this write, and tells it so
    map.sync s exchange context digest ?target ?source ?behind
        : the node compares its replicated map with that of the target, which it has asked; or answers to the source
    mem.down s target ?view : a member left the view
    mem.up s target ?view : a member entered the view
    mem.view s view nodes ?joining ?missing : another view is in force: who serves, who is joining, who is missing
    mem.slow s target state ?detail ?view : the disk of a member is slow, or quick again; detail: a commit's time
    slot.primary s count slots view ?primaries ?without
        : slots got another primary, or another incarnation of it, or have none now
    slot.lost s target count slots ?view
        : the cluster gave up a member's disk, which had the last copy of these slots: they are empty
    slot.loss_possible s target count slots nodes reason ?source ?view
        : the target is primary of the slots now, and may lack acknowledged changes that the nodes had
    lease.get s view : this node has a lease: it may accept and acknowledge
    lease.lose s view ?detail ?nodes : this node has lost its lease; detail is the cause, nodes are not heard
    split.suspect s nodes incident begin_ms window_ms : a member is silent: perhaps an incident
    split.pass s nodes incident begin_ms window_ms
        : a silent member was heard again before an incident was detected
    split.detect s nodes incident ?state ?view ?begin_ms ?detected_ms ?window_ms ?counts
        : an incident: members are missing, or the lease is lost; nodes: the missing ones, state: what this node sees
    split.change s nodes incident state ?view
        : an incident continues with other missing nodes, or another state of this node
    split.heal s nodes incident ?state ?view ?begin_ms ?detected_ms ?healed_ms ?window_ms ?split_ms ?counts
        : the incident is over: no member is missing any more, and all is merged; state is the worst one
    slot.move s slot target : this node begins to give a slot with its sessions to another node
    slot.moved s slot target sessions bytes : the target is the primary of the slot now, and has its sessions
    slot.stay s slot target reason : the move has ended, and the slot stays at this node
    slot.balance s count slots : this node begins to give slots with sessions to the nodes that should have them
    slot.balanced s count ?reason : no such slot moves any more; count: how many have moved, reason: why others stay
    slot.few s count slots
        : slots have fewer copies than queue_min_in_sync: nothing new is accepted for them; count 0: no slot any more
    slot.copied s slot target bytes
        : the target has a copy of the slot, and is in its in-sync set; bytes: of all that was sent for it but changes
    slot.repair s slot source rows
        : rows of the copy at this node differed from those of the source, the slot's primary, and were replaced
    slot.taken s slot target : another node is the primary of a slot that this one had; its sessions here are given up
    slot.arrive s slot : this node is the primary of the slot now, and has its sessions, which came from another node
    gateway.open s client target slot ?mountpoint ?username ?peer
        : the node relays a connection to the target, which serves the client
    gateway.close s client target reason ?mountpoint ?peer : it relays the connection no more
    fault.pair_cut s nodes : injected: two nodes do not hear each other
    fault.one_way_cut s nodes : injected: the second does not hear the first
    fault.loss s nodes ?detail : injected: links lose packets
    fault.kill s nodes : injected: kill -9
    fault.pause s nodes : injected: SIGSTOP
    fault.end s nodes ?detail : the injected fault is over
"""


def _parse_fields(text: str) -> dict[str, Field]:
    fields = {}
    for line in text.strip().splitlines():
        name, kind, unit, meaning = line.split(maxsplit=3)
        fields[name] = Field(name, kind, "" if unit == "-" else unit, meaning)
    return fields


def _parse_types(text: str, fields: Mapping[str, Field]) -> dict[str, EventType]:
    types = {}
    for line in text.strip().replace("\n        ", " ").splitlines():
        head, _, meaning = line.partition(" : ")
        name, level, *names = head.split()
        required = tuple(each for each in names if not each.startswith("?"))
        optional = tuple(each[1:] for each in names if each.startswith("?"))
        unknown = [each for each in required + optional if each not in fields]
        assert not unknown, (name, unknown)
        types[name] = EventType(name, MESSAGE if level == "m" else SESSION, required, optional, meaning)
    return types


FIELDS: Final = _parse_fields(_FIELDS)
"""All fields beside the header, by name."""

TYPES: Final = _parse_types(_TYPES, FIELDS)
"""All event types, by name."""

MESSAGE_TYPES: Final = frozenset(each.name for each in TYPES.values() if each.level == MESSAGE)
"""The types that are logged only at level `message`. Under load the writer drops these first."""

COLUMNS: Final = {each.name: each for each in (*HEADER, *FIELDS.values())}
"""Every field of a row, header first: the columns of the log as a table."""


OF_MESSAGES: Final = frozenset(each.name for each in HEADER).union(
    *((*TYPES[name].required, *TYPES[name].optional) for name in MESSAGE_TYPES)
)
"""The fields of rows that are logged only at level `message`: nearly all rows of such a log."""

OF_OTHERS: Final = tuple(each for each in FIELDS.values() if each.name not in OF_MESSAGES)
"""All other fields."""


def validate(row: Mapping[str, Any]) -> list[str]:
    """The violations of this schema in a row, as texts. Empty for a right row. Never raises."""
    problems = [f"{each.name}: missing" for each in HEADER if each.name not in row]
    if _is_int(row.get("v")) and not 1 <= row["v"] <= VERSION:
        problems.append(f"v: {row['v']} is not a version that this schema knows (1 to {VERSION})")
    problems += [
        f"{name}: must be at least {least}, is {row[name]}" for name, least in _LEAST.items() if _below(row, name)
    ]
    name = row.get("type")
    definition = TYPES.get(name) if isinstance(name, str) else None
    if definition is None:
        if name is not None:
            problems.append(f"type: {name!r} is unknown")
        return problems + [text for key in row if (text := wrong_kind(key, row[key]))]
    problems += [f"{each}: missing in {name}" for each in definition.required if each not in row]
    allowed = {*(each.name for each in HEADER), *definition.required, *definition.optional}
    for key, value in row.items():
        if key not in allowed:
            problems.append(f"{key}: not a field of {name}")
        elif (value is not None or key not in definition.optional) and (text := wrong_kind(key, value)):
            problems.append(text)
    return problems


_LEAST: Final = {"boot": 1, "seq": 1, "hlc": 0}


def _below(row: Mapping[str, Any], name: str) -> bool:
    return _is_int(row.get(name)) and row[name] < _LEAST[name]


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63


def _is_mid(value: Any) -> bool:
    if not isinstance(value, (list, tuple)) or len(value) != 3:
        return False
    node, boot, counter = value
    return isinstance(node, str) and _is_int(boot) and _is_int(counter)


_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    STRING: lambda value: isinstance(value, str),
    INT: _is_int,
    BOOL: lambda value: isinstance(value, bool),
    MID: _is_mid,
    STRINGS: lambda value: isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value),
    COUNTS: lambda value: isinstance(value, dict) and all(isinstance(k, str) and _is_int(n) for k, n in value.items()),
}

_WORDS: Final = {
    STRING: "a string",
    INT: "a whole number of 64 bits",
    BOOL: "true or false",
    MID: "[node, boot, counter]",
    STRINGS: "an array of strings",
    COUNTS: "an object of whole numbers",
}


def wrong_kind(key: str, value: Any) -> str:
    """What is wrong with the value of a field, as text; "" if nothing is, or if the schema lacks the field."""
    column = COLUMNS.get(key)
    if column is None or _CHECKS[column.kind](value):
        return ""
    return f"{key}: must be {_WORDS[column.kind]}, is {value!r:.60}"
