"""A19 policy-breach: a node accepted a PUBLISH that the split policy forbids, or refused one without a split.

- `accepted`: it acknowledged without a lease (`right` is policy), and its `allow_publish_during_netsplit` was not `on`
  when it accepted the message, nor when the client published it again;
- `refused`: it refused an operation because of a split (`policy.deny`, reason netsplit), and saw the whole cluster, as
  the row says. In older logs it had a lease, and was in no incident.

A plugin may give one client another policy, which the log does not show. Nodes whose settings the log does not have are
not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..findings import Finding, Subject, of_message
from ..message import POLICY, Message
from ..rows import Row, row_id
from ..world import World

ID = "A19"


def judge(message: Message, world: World) -> Iterator[Finding]:
    """Judge the acknowledgement of a message. The answer may leave when the setting is another one."""
    publish, answer = message.publish, message.answer
    if publish is None or answer is None or answer.right != "policy":
        return
    accepted = [(publish.node, publish.stamp)]
    if publish.repeated >= 0:
        accepted.append((answer.node, publish.repeated))
    if all(world.setting(node, POLICY, stamp) not in ("", "on") for node, stamp in accepted):
        subject = Subject(answer.node, message.mountpoint, publish.client, message=message.id)
        what = publish.stamp, publish.topic, publish.qos
        yield of_message(ID, "accepted", "fatal", subject, what, (publish.row, answer.row))


def judge_refusals(rows: Iterable[Row], world: World) -> Iterator[Finding]:
    """Judge rows of policy.deny."""
    for row in rows:
        node, stamp = row["node"], row["hlc"]
        if row.get("reason") == "netsplit" and _saw_all(row, world):
            detail = f"boot {row['boot']}, row {row['seq']}"
            subject = Subject(node, row.get("mountpoint") or "", row["client"], detail=detail)
            text = f"{row['operation']} of {row['client']} was refused without a split"
            yield Finding(ID, "refused", "error", subject, stamp, text, (row_id(row),))


def _saw_all(row: Row, world: World) -> bool:
    state = row.get("state")
    if state is not None:
        return bool(state == "whole") and row.get("policy") not in ("fenced", "settling")
    node, stamp = row["node"], row["hlc"]
    return world.partitions.had_lease(node, stamp) and not world.incidents.contains(node, stamp)
