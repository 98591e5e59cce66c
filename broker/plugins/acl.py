"""The ACL file and its plugin `vmq_acl`.

    topic [read|write] FILTER       for every client, or for one user below `user NAME`
    user NAME                       the following `topic` lines are for this user
    pattern [read|write] FILTER     for every client; a level %u, %c, %m is the user, client id, mountpoint

Without `read` (subscribe) or `write` (publish) a line grants both. A line cannot deny: if no line grants a topic, the
next plugin decides. A subscription is granted only if one line covers *every* topic that its filter matches.

Rules are compiled into one trie for all clients and one for each user. The wildcards of a line cover names that begin
with `$` too, so that `topic #` grants everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from .reloader import LineError, Reloader
from .verdicts import NEXT, Allow, Answer, Subscriber

ANY, USER, CLIENT, MOUNTPOINT = range(4)
"""Levels of a rule that are no fixed word. They are numbers, so that no name sent by a client can be taken for one."""

VARIABLES: Final = {"%u": USER, "%c": CLIENT, "%m": MOUNTPOINT}
SHARE: Final = "$share"
READ, WRITE = "read", "write"

Level: TypeAlias = str | int
Who: TypeAlias = tuple[str | None, str, str]
"""User, client id, mountpoint: the values of %u, %c and %m."""

GRANTED = Allow(cacheable=True)


class _Node:
    """A level of a trie. `here`: a rule ends here; `below`: a rule ends here with `#`."""

    __slots__ = ("below", "children", "here")

    def __init__(self) -> None:
        self.children: dict[Level, _Node] = {}
        self.here = False
        self.below = False

    def add(self, levels: list[Level], tail: bool) -> None:
        node = self
        for level in levels:
            node = node.children.setdefault(level, _Node())
        if tail:
            node.below = True
        else:
            node.here = True

    def covers(self, levels: list[Level], tail: bool, who: Who, at: int = 0) -> bool:
        """True if one rule matches all that the filter (`levels`, and anything below if `tail`) matches."""
        if self.below:
            return True
        if at == len(levels):
            return self.here and not tail
        level = levels[at]
        for key in self._keys(level, who):
            child = self.children.get(key)
            if child is not None and child.covers(levels, tail, who, at + 1):
                return True
        return False

    def _keys(self, level: Level, who: Who) -> Iterator[Level]:
        yield level
        if level != ANY:
            yield ANY
            user, client_id, mountpoint = who
            if level == user:
                yield USER
            if level == client_id:
                yield CLIENT
            if level == mountpoint:
                yield MOUNTPOINT


class Grants:
    """The topics that one group of clients may read and write."""

    __slots__ = ("read", "write")

    def __init__(self) -> None:
        self.read = _Node()
        self.write = _Node()

    def add(self, access: str, levels: list[Level], tail: bool) -> None:
        """`access` is `read`, `write` or empty for both."""
        if access != WRITE:
            self.read.add(levels, tail)
        if access != READ:
            self.write.add(levels, tail)


NOTHING: Final = Grants()


class Rules(NamedTuple):
    """A compiled ACL file."""

    everyone: Grants
    users: Mapping[str, Grants]

    def may_publish(self, user: str | None, subscriber: Subscriber, topic: str) -> bool:
        """True if a line grants writing this topic."""
        return self._grants(WRITE, topic.split("/"), user, subscriber)

    def may_subscribe(self, user: str | None, subscriber: Subscriber, topic_filter: str) -> bool:
        """True if a line grants reading all that the filter matches.

        A shared subscription must be granted as it is written, and unless the line says `$share` itself the filter in
        it must be granted too: `topic +/+/x` gives nobody `x` by way of `$share/any/x`.
        """
        words = topic_filter.split("/")
        if words[0] == SHARE and len(words) > 2:
            return self._grants(READ, words, user, subscriber, SHARE) or (
                self._grants(READ, words, user, subscriber) and self._grants(READ, words[2:], user, subscriber)
            )
        return self._grants(READ, words, user, subscriber)

    def _grants(
        self, access: str, words: list[str], user: str | None, subscriber: Subscriber, first: str | None = None
    ) -> bool:
        levels, tail = _compiled(words, {})
        who = (user, subscriber.client_id, subscriber.mountpoint)
        for grants in (self.everyone, NOTHING if user is None else self.users.get(user, NOTHING)):
            node: _Node | None = grants.write if access == WRITE else grants.read
            if node is not None and first is not None:
                node = node.children.get(first)
            if node is not None and node.covers(levels, tail, who, 0 if first is None else 1):
                return True
        return False


class AclPlugin:
    """`vmq_acl`: allows the topics that the file grants, and answers NEXT for all others."""

    cacheable_hooks = frozenset({"auth_on_publish", "auth_on_subscribe"})

    def __init__(self) -> None:
        self.reloader: Reloader[Rules] = Reloader(parse_acl, Rules(NOTHING, {}))

    def auth_on_publish(
        self, user: str | None, subscriber: Subscriber, qos: int, topic: str, payload: bytes, retain: bool
    ) -> Answer:
        """Allow or NEXT."""
        return GRANTED if self.reloader.content.may_publish(user, subscriber, topic) else NEXT

    def auth_on_subscribe(
        self, user: str | None, subscriber: Subscriber, subscriptions: list[tuple[str, Any]]
    ) -> Answer:
        """Allow if every filter is granted, NEXT otherwise."""
        rules = self.reloader.content
        return GRANTED if all(rules.may_subscribe(user, subscriber, f) for f, _ in subscriptions) else NEXT


def parse_acl(text: str) -> Rules:
    """Compile an ACL file. LineError for a line that cannot be understood."""
    everyone = grants = Grants()
    users: dict[str, Grants] = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip(" \t\r")
        if not line or line.startswith("#"):
            continue
        word, *rest = line.split(None, 1)
        what = rest[0] if rest else ""
        if word == "user":
            if not what:
                raise LineError(number, "no name after `user`")
            grants = users.setdefault(what, Grants())
        elif word == "topic":
            grants.add(*_rule(number, what, {}))
        elif word == "pattern":
            everyone.add(*_rule(number, what, VARIABLES))
        else:
            raise LineError(number, f"unknown word {word!r}; lines begin with topic, user, pattern or #")
    return Rules(everyone, users)


def _rule(number: int, what: str, variables: Mapping[str, int]) -> tuple[str, list[Level], bool]:
    first, *rest = what.split(None, 1)[:2] if what else [""]
    access = ""
    if rest and first in (READ, WRITE):
        access, what = first, rest[0]
    elif rest and first in ("readwrite", "deny"):
        hint = "leave it out to grant both" if first == "readwrite" else "a topic that no line grants is refused"
        raise LineError(number, f"the word {first!r} is not known here; {hint}")
    words = what.split("/")
    if not what or "\0" in what or any(c in w for w in words for c in "+#" if w != c) or "#" in words[:-1]:
        raise LineError(number, f"{what!r} is no topic filter")
    return access, *_compiled(words, variables)


def _compiled(words: list[str], variables: Mapping[str, int]) -> tuple[list[Level], bool]:
    """Return the levels, and whether the filter covers all levels below. `#` alone is `+` and all below, because every
    topic has a level."""
    tail = words[-1] == "#"
    if tail:
        words = words[:-1] or ["+"]
    return [ANY if word == "+" else variables.get(word, word) for word in words], tail
