"""What happened, in words: one sentence for each event type.

A sentence has the fields of its row in braces. A part in brackets is there if its field is, and is not empty, false or
0; with an exclamation mark, if it is not. Fields that a sentence does not name follow behind it. So each type of the
schema has a sentence, and no field of a row is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from .. import output
from ..schema import COUNTS, FIELDS, HEADER, STRINGS

_SENTENCES: Final = """
    conn.open       {client} connected from {peer}: MQTT {version}, connection {conn}, [present: resumed its session]\
[!present: new session][epoch:  {epoch}]
    conn.close      connection {conn} of {client} ended: {reason}
    conn.pause      the node reads {client} no more for a while: {reason}, {count} packets wait
    conn.refuse     CONNECT of {client} from {peer} was refused: {reason}, code {code}
    sess.create     session {epoch} of {client} began
    sess.resume     {client} resumed session {epoch}
    sess.expire     session {epoch} of {client} expired
    sess.takeover.start  {client} connects again[peer:  from {peer}]: its other connection[old:  from {old}] is closed
    sess.takeover.end    the other connection of {client} is closed
    sess.end        session {epoch} of {client} ended with its queue: {reason}
    sub.add         {client} subscribed to {filter} with QoS {qos}
    sub.del         {client} unsubscribed from {filter}
    sub.ack         SUBACK to {client} for {filters}, codes {codes}
    unsub.ack       UNSUBACK to {client} for {filters}, codes {codes}
    pub.recv        {client} published to {topic} with QoS {qos}[packet_id: , packet id {packet_id}]\
[retain: , to be retained]
    pub.route       [group: {group} chose][!group: goes to sessions here:] [targets: {targets}][!targets: none]\
[nodes: ; to nodes: {nodes}]
    pub.ack         acknowledged to {client} with code {code}, packet id {packet_id}, right: {right}
    pub.rel         PUBREL from {client}, packet id {packet_id}
    pub.comp        PUBCOMP to {client}, packet id {packet_id}
    q.enq           enters the queue of {client}, session {epoch}, with QoS {qos}[group: , for {group}]
    q.durable       safe in the queue of {client}, durability {durability}[copied:  and at a second node]
    q.depth         {count} messages are in the queue of {client}
    q.drop          dropped for {client}: {reason}
    q.expire        expired in the queue of {client}
    dlv.send        sent to {client} with QoS {qos}[packet_id: , packet id {packet_id}][dup: , once more (DUP)]
    dlv.ack         acknowledged by {client} with code {code}, packet id {packet_id}
    dlv.rel         PUBREL to {client}, packet id {packet_id}
    dlv.comp        PUBCOMP from {client}, packet id {packet_id}
    dlv.pause       {client} does not read what was sent: nothing more is sent
    dlv.resume      {client} reads again
    will.arm        {client} left a will for {topic}
    will.fire       the will of {client} was published to {topic}
    will.cancel     the will of {client} will not be published: {reason}
    ret.set         [bytes: is the retained message of {topic}][!bytes: {topic} has no retained message any more]
    ret.deliver     the retained message of {topic} goes to {client}
    ret.refuse      the retained message of {client} for {topic} was refused: {reason}
    policy.deny     {operation} of {client}[topic:  for {topic}] was refused or deferred\
[reason: : {reason}][policy: , by {policy}][state: , the node saw {state}]
    store.sync      everything up to commit {lsn} is on the disk
    store.state     the message store is {state} now
    node.start      the node started
    node.join       the node joined the cluster
    node.loaded     the node knows its {sessions} sessions
    node.stop       the node stopped[reason: : {reason}]
    node.stats      counters: {connects} connects, {publishes} publishes, {deliveries} deliveries
    config.change   {key} has another value[new: : {new}][old: , before {old}]
    log.gap         {rows} rows are missing here, {first} to {last}: {reason}
    log.sample      the log leaves out whole messages, as its writer does not keep up: {state}\
[count: , {count} messages]
    fwd.send        sent to node {target}
    fwd.recv        arrived from node {source}
    fwd.ack         node {target} has it
    fwd.drop        not forwarded to node {target}: {reason}
    map.learn       the node knows what {source} has written up to write {write} of its boot {source_boot}
    map.sync        comparison {exchange} of replicated maps[target:  with {target}, behind by {behind}]\
[source: , asked by {source}]
    mem.down        {target} left the view
    mem.up          {target} entered the view
    mem.view        view {view}: {nodes} serve[missing: , {missing} missing][joining: , {joining} joining]
    mem.slow        the disk of {target} is {state}
    slot.primary    {count} slots have another primary, or none: {slots}
    slot.lost       the disk of {target} was given up: {count} slots are empty, {slots}
    slot.loss_possible  {target} is primary of {count} slots, and may lack acknowledged changes of {nodes}: {reason}
    lease.get       the node has a lease, view {view}
    lease.lose      the node lost its lease, view {view}[nodes: ; not heard: {nodes}]
    split.suspect   {nodes} silent for {window_ms} ms: perhaps incident {incident}
    split.pass      {nodes} heard again: no incident
    split.detect    incident {incident}: {nodes} missing[state: , this node is in a {state}]\
[window_ms: , after a window of {window_ms} ms]
    split.change    incident {incident} goes on: {nodes} missing, this node is in a {state}
    split.heal      incident {incident} is over: {nodes} are back[split_ms: , after {split_ms} ms]
    slot.move       slot {slot} begins to move to {target}
    slot.moved      slot {slot} is at {target} now, with {sessions} sessions
    slot.stay       slot {slot} stays here, and not at {target}: {reason}
    slot.balance    {count} slots begin to move to their places: {slots}
    slot.balanced   {count} slots have moved to their places[reason: , others stay: {reason}]
    slot.few        {count} slots have too few copies[slots: : {slots}]
    slot.copied     {target} has a copy of slot {slot}
    slot.repair     {rows} rows of the copy of slot {slot} were wrong, and come from {source} now
    slot.taken      {target} is the primary of slot {slot}: its sessions here are given up
    slot.arrive     slot {slot} is here now with its sessions
    gateway.open    {client} is relayed to {target}, slot {slot}
    gateway.close   {client} is relayed to {target} no more: {reason}
    fault.pair_cut  a test cut the link between {nodes}
    fault.one_way_cut  a test cut one direction between {nodes}
    fault.loss      a test lets links lose packets: {nodes}
    fault.kill      a test killed {nodes}
    fault.pause     a test stopped {nodes}
    fault.end       the fault that a test made is over: {nodes}
"""

SENTENCES: Final = dict(line.strip().split(maxsplit=1) for line in _SENTENCES.strip().replace("\\\n", "").splitlines())
"""Event type -> sentence."""
OPTION: Final = re.compile(r"\[(!?)(\w+): ?([^\]]*)\]")
"""A part that depends on a field."""
NAMED: Final = re.compile(r"\{(\w+)\}")
"""A field in a sentence."""
_ENVELOPE = frozenset(each.name for each in HEADER) | {"mid"}


def words(row: Mapping[str, Any]) -> str:
    """What a row says happened. It is one line, whatever is in the row."""
    sentence = SENTENCES[row["type"]]
    text = OPTION.sub(lambda part: part[3] if bool(row.get(part[2])) != bool(part[1]) else "", sentence)
    text = NAMED.sub(lambda field: value_of(field[1], row.get(field[1])), text)
    named = _ENVELOPE | set(NAMED.findall(sentence)) | {option[2] for option in OPTION.finditer(sentence)}
    rest = [f"{name} {value_of(name, row[name])}" for name in FIELDS if row.get(name) is not None and name not in named]
    return f"{text} ({', '.join(rest)})" if rest else text


def value_of(name: str, value: Any) -> str:
    """A value in words."""
    if value is None:
        return "?"
    kind = FIELDS[name].kind
    if kind == STRINGS:
        return ", ".join(map(printable, value)) or "none"
    if kind == COUNTS:
        return printable(" ".join(f"{key}={count}" for key, count in value.items())) or "none"
    if name == "code":
        return "0" if value == 0 else f"0x{value:02x}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(value) or '""'


def printable(value: object) -> str:
    """A value as text of one line: what would act on a terminal is a question mark."""
    return output.printable(str(value))
