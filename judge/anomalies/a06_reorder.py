"""A6 reorder: a session was first sent messages of one lane in another order than a node accepted them.

A lane is one publisher's connection, one topic and one QoS: MQTT promises an order within it, and not across. Not
judged are queues that give the newest message first, messages that came through a shared subscription or through a
subscription that is younger than they are, those that the session got as retained ones, and those that a node had
dropped or let expire before: a kill may undo that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..findings import Finding, Subject, of_message
from ..lanes import Entry

ID = "A6"
KIND = "behind a later one"


def judge_lane(entries: Iterable[Entry]) -> Iterator[Finding]:
    """Judge the first sendings of one lane to one session. A finding names the newest message that went before."""
    newest: Entry | None = None
    for each in sorted((each for each in entries if each.first_sent >= 0 and each.ordered), key=_sent):
        if newest is not None and each.accepted < newest.accepted:
            *_, topic, qos = each.lane
            subject = Subject.of(*each.session, each.message)
            rows = (*newest.rows, *each.rows)
            yield of_message(ID, KIND, "fatal", subject, (each.accepted, topic, qos), rows)
        else:
            newest = each


def _sent(entry: Entry) -> tuple[int, int]:
    return entry.first_sent, entry.accepted
