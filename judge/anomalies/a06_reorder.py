"""A6 reorder: a session was first sent messages of one lane in another order than a node accepted them.

A lane is one publisher's connection, one topic and one QoS: MQTT promises an order within it, and not across. Not
judged are queues that give the newest message first, messages that came through a shared subscription or through a
subscription that is younger than they are, those that the session got as retained ones, and those that a node had
dropped or let expire before: a kill may undo that.
"""

from __future__ import annotations

from ..findings import Finding, Subject, of_message
from ..lanes import Entry

ID = "A6"
KIND = "behind a later one"


class Lane:
    """The first sendings of one lane to one session. It remembers the later message that was sent first."""

    __slots__ = ("_ahead",)

    def __init__(self) -> None:
        self._ahead: Entry | None = None

    def judge(self, entry: Entry) -> Finding | None:
        """Judge the next entry; the last accepted one comes first. A finding names the message that went before."""
        if entry.first_sent < 0 or not entry.ordered:
            return None
        ahead = self._ahead
        if ahead is None or entry.first_sent < ahead.first_sent:
            self._ahead = entry
            return None
        *_, topic, qos = entry.lane
        subject = Subject.of(*entry.session, entry.message)
        return of_message(ID, KIND, "fatal", subject, (entry.accepted, topic, qos), (*ahead.rows, *entry.rows))
