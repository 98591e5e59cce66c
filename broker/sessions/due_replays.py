"""The replays of retained messages that a session owes its client: when each begins, and what ends it.

A SUBSCRIBE may ask for the retained messages of a filter [MQTT5-3.3.1-9] [MQTT5-3.3.1-10]. From then on their replay is
due, until all of them are in the queue, or UNSUBSCRIBE ends it. Two facts tell what happens to it (`DueReplay`):

| a SUBACK has left | a SUBACK is coming | the replay |
|---|---|---|
| no | yes | waits: it begins when the last such SUBACK has left |
| yes | no | is under way |
| yes | yes | was under way, and waits: it begins again when the last such SUBACK has left |
| no | no | is lost with the connection: the filter counts as new when the client subscribes again |

If the connection ends, no SUBACK is coming any more. A replay that no SUBACK has promised is lost then; any other one
goes on with the next connection (P4).
"""

from __future__ import annotations

from ..environment import Environment
from ..routing.retained_store import RetainedStore
from ..routing.subscriptions import Subscription
from .retained_replay import Replay, ReplaySession, ReplayTurns


class DueReplay:
    """The replay of one filter. `coming`: how many SUBACKs that promise it have not left yet. `promised`: one has
    left. A SUBSCRIBE after UNSUBSCRIBE makes another object, so a SUBACK from before does not begin its replay."""

    __slots__ = ("coming", "promised", "text")

    def __init__(self, text: str, promised: bool) -> None:
        self.text = text
        self.promised = promised
        self.coming = 0


class DueReplays:
    """The replays that one session owes its client, by filter."""

    __slots__ = ("_due", "_env", "_retained", "_session", "_turns")

    def __init__(self, env: Environment, retained: RetainedStore, turns: ReplayTurns, session: ReplaySession) -> None:
        self._env = env
        self._retained = retained
        self._turns = turns
        self._session = session
        self._due: dict[str, DueReplay] = {}

    def __contains__(self, text: str) -> bool:
        """True if the retained messages of this filter are not all in the queue."""
        return text in self._due

    def lost(self, text: str) -> bool:
        """True if the connection has ended before the SUBACK left."""
        due = self._due.get(text)
        return due is not None and not (due.promised or due.coming)

    def ask(self, text: str, subscription: Subscription) -> DueReplay:
        """A SUBSCRIBE asks for the retained messages: all of them, also if a replay is under way. Tell `answered` when
        its SUBACK has left."""
        due = self._due.setdefault(text, DueReplay(text, False))
        due.coming += 1
        self._expect(text, subscription)
        return due

    def restore(self, text: str, subscription: Subscription, at: str) -> None:
        """The node has restarted before or after the SUBACK left: go on from topic `at`, as if it had left (P7)."""
        self._due[text] = DueReplay(text, True)
        self._expect(text, subscription, at)
        self._begin(text)

    def answered(self, due: DueReplay) -> None:
        """A SUBACK that promises this replay has left."""
        if self._due.get(due.text) is due and due.coming:
            due.promised = True
            due.coming -= 1
            if not due.coming:
                self._begin(due.text)

    def disconnected(self) -> None:
        """The connection has ended: no SUBACK is coming any more."""
        for text, due in self._due.items():
            if due.coming:
                due.coming = 0
                if due.promised:
                    self._begin(text)
                else:
                    self._cancel(text)

    def served(self, text: str) -> None:
        """All messages of this filter are in the queue."""
        self._due.pop(text, None)

    def end(self, text: str) -> None:
        """End the replay of this filter."""
        if self._due.pop(text, None) is not None:
            self._cancel(text)

    def end_all(self) -> None:
        """End the replays of all filters."""
        for text in list(self._due):
            self.end(text)

    def _expect(self, text: str, subscription: Subscription, at: str = "") -> None:
        queue = self._session.queue
        if queue.replay is None:
            queue.set_replay(Replay(self._env, self._retained, self._turns, self._session))
        assert queue.replay is not None
        queue.replay.expect(text, subscription, at)

    def _begin(self, text: str) -> None:
        replay = self._session.queue.replay
        assert replay is not None
        replay.begin(text)

    def _cancel(self, text: str) -> None:
        replay = self._session.queue.replay
        if replay is not None:
            replay.cancel(text)
