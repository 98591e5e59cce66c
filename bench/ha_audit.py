"""The audit of numbered messages that are published in rounds, each with one fault of a node.

A message is named QOS:WRITER-NUMBER. The audit is told what was sent, acknowledged and delivered, and when. It counts
for each round the violations of its messages: lost, doubled (QoS 2), repeated without need, and reordered. Times are in
seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec


class Round(msgspec.Struct):
    """One round: who suffered what, and its messages. `wrong` has a line for each violation that is no message."""

    number: int
    role: str
    fault: str
    sent: dict[bytes, float] = {}
    acked: dict[bytes, float] = {}
    resent: Counter[bytes] = Counter()
    """How often a publisher has sent a message again."""
    refused: int = 0
    """Messages that the broker refused with a reason code: it promised nothing."""
    whole_s: float = 0.0
    """How long the cluster took to be whole again, with two copies of each slot."""
    wrong: list[str] = []
    roles: dict[str, str] = {}
    """Subscriber -> the role of the node that suffered, for this subscriber; empty if all have the role `role`."""
    delivered: dict[str, list[tuple[float, bytes]]] = {}
    """Subscriber -> time and message of each delivery."""
    came: dict[str, Counter[bytes]] = {}
    """Subscriber -> how often each message was delivered to it."""
    unmarked: dict[str, Counter[bytes]] = {}
    """The same for the deliveries without DUP."""


class Verdict(msgspec.Struct):
    """What became of the messages of one round, or of several."""

    rounds: int = 0
    acked: int = 0
    delivered: int = 0
    """First deliveries, of all subscribers together."""
    refused: int = 0
    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    repeated: int = 0
    """QoS 1 messages that came more than once, which the standard permits."""
    unmarked: int = 0
    """QoS 1 messages that came more than once without DUP, although their publisher has sent them once."""
    stall_s: float = 0.0
    """The longest time without an acknowledgement, while a publisher waited for one."""
    gap_s: float = 0.0
    """The longest time without a first delivery to a subscriber, while one was due."""
    late_s: float = 0.0
    """The longest time from the sending of a message to its first delivery to a subscriber."""
    whole_s: float = 0.0

    def add(self, other: Verdict) -> None:
        """Add the counts of other rounds, and take their times if those are longer."""
        for name in self.__struct_fields__:
            mine, its = getattr(self, name), getattr(other, name)
            setattr(self, name, max(mine, its) if name.endswith("_s") else mine + its)


class Audit:
    """The rounds so far; what is noted belongs to the last one, except a delivery, which belongs to the round that sent
    the message. Readers get all messages of the QoS with which `reader` announces them."""

    def __init__(self, longest_s: float, latest_s: float | None = None) -> None:
        self.longest_s = longest_s
        """A longer stall or gap is a violation."""
        self.latest_s = latest_s
        """A later delivery is a violation, if this is set."""
        self.rounds: list[Round] = []
        self.progress = 0
        """Grows with each acknowledgement and each delivery."""
        self._readers: dict[str, int] = {}
        self._round_of: dict[bytes, Round] = {}

    def reader(self, name: str, qos: int) -> None:
        """A subscriber gets all messages of this QoS from now on."""
        self._readers[name] = qos

    def begin(self, role: str, fault: str) -> Round:
        """Begin the next round."""
        self.rounds.append(Round(len(self.rounds) + 1, role, fault))
        return self.rounds[-1]

    def sent(self, message: bytes, at: float) -> None:
        """A publisher is about to send this message for the first time."""
        self.rounds[-1].sent[message] = at
        self._round_of[message] = self.rounds[-1]

    def resent(self, message: bytes) -> None:
        """A publisher sends this message again: the broker need not know that it is the same one."""
        self._round_of[message].resent[message] += 1

    def acked(self, message: bytes, at: float) -> None:
        """The broker has taken over this message: PUBACK, or PUBREC."""
        self._round_of[message].acked.setdefault(message, at)
        self.progress += 1

    def refused(self, message: bytes) -> None:
        """The broker refuses this message with a reason code."""
        self._round_of[message].refused += 1

    def delivered(self, reader: str, message: bytes, at: float, dup: bool = False) -> None:
        """A subscriber has got this message, with DUP or without. What repeats at QoS 2 under one packet id does not
        count."""
        part = self._round_of[message]
        part.delivered.setdefault(reader, []).append((at, message))
        part.came.setdefault(reader, Counter())[message] += 1
        part.unmarked.setdefault(reader, Counter())[message] += not dup
        self.progress += 1

    def missing(self, part: Round, role: str = "") -> dict[str, list[bytes]]:
        """Returns reader -> the acknowledged messages of this round that it has not got, if there are any."""
        found = {}
        for name in self._of(part, role):
            came = part.came.get(name, ())
            lacks = [each for each in part.acked if self._due(name, each) and each not in came]
            if lacks:
                found[name] = lacks
        return found

    def _due(self, reader: str, message: bytes) -> bool:
        return message.startswith(b"%d:" % self._readers[reader])

    def _of(self, part: Round, role: str) -> dict[str, int]:
        """Returns reader -> QoS of the readers with this role in a round; all readers for ""."""
        return {name: qos for name, qos in self._readers.items() if not role or part.roles.get(name) == role}

    def verdict(self, part: Round, role: str = "") -> Verdict:
        """Returns the counts of one round, or those of the readers for which the node that suffered had this role."""
        found = Verdict(1, len(part.acked), refused=part.refused, whole_s=part.whole_s)
        readers = self._of(part, role)
        found.lost = sum(map(len, self.missing(part, role).values()))
        found.reordered = len(self._disorder(part, role))
        found.unmarked = sum(len(again) for name, again in self._unmarked_again(part).items() if name in readers)
        for name, qos in readers.items():
            again = sum(count > 1 for count in part.came.get(name, Counter()).values())
            if qos == 2:
                found.doubled += again
            else:
                found.repeated += again
        for qos in sorted(set(readers.values())):
            found.stall_s = max(found.stall_s, longest(part.sent, part.acked, qos))
        for name, qos in readers.items():
            came: dict[bytes, float] = {}
            for at, message in part.delivered.get(name, ()):
                came.setdefault(message, at)
            found.delivered += len(came)
            found.gap_s = max(found.gap_s, longest(part.sent, came, qos))
            found.late_s = max(found.late_s, *[at - part.sent[message] for message, at in came.items()], 0.0)
        return found

    def violations(self, part: Round) -> list[str]:
        """Returns a line for each violation of a round."""
        wrong = list(part.wrong)
        for name, lacks in self.missing(part).items():
            wrong.append(f"{name}: {len(lacks)} acknowledged messages lost: {_some(lacks)}")
        for name, twice in self._doubled(part).items():
            wrong.append(f"{name}: {len(twice)} QoS 2 messages delivered more than once: {_some(twice)}")
        for name, again in self._unmarked_again(part).items():
            wrong.append(f"{name}: {len(again)} QoS 1 messages delivered again without DUP: {_some(again)}")
        wrong += self._disorder(part)
        verdict = self.verdict(part)
        for what, took_s in (("acknowledgement", verdict.stall_s), ("delivery", verdict.gap_s)):
            if took_s > self.longest_s:
                wrong.append(f"no {what} for {took_s:.1f} s")
        if self.latest_s is not None and verdict.late_s > self.latest_s:
            wrong.append(f"a message was delivered after {verdict.late_s:.1f} s")
        return [f"round {part.number} ({part.fault} {part.role}): {each}" for each in wrong]

    def _doubled(self, part: Round) -> dict[str, list[bytes]]:
        """Returns reader -> the QoS 2 messages of a round that came more than once."""
        found = {}
        for name, qos in self._readers.items():
            twice = [each for each, count in part.came.get(name, Counter()).items() if count > 1 and qos == 2]
            if twice:
                found[name] = twice
        return found

    def _unmarked_again(self, part: Round) -> dict[str, list[bytes]]:
        """Returns reader -> the QoS 1 messages of a round that came without DUP more than once, and were sent once."""
        found = {}
        for name, qos in self._readers.items():
            again = [each for each, count in part.unmarked.get(name, Counter()).items() if count > 1 and qos == 1]
            mine = [each for each in again if each not in part.resent]
            if mine:
                found[name] = mine
        return found

    def _disorder(self, part: Round, role: str = "") -> list[str]:
        """Returns a line for each message of a round that came for the first time after a later one of its writer."""
        wrong = []
        for name in self._of(part, role):
            last: dict[bytes, int] = {}
            seen: set[bytes] = set()
            for _, message in part.delivered.get(name, ()):
                if message in seen:
                    continue
                seen.add(message)
                writer, _, number = message.rpartition(b"-")
                if int(number) < last.get(writer, -1):
                    wrong.append(f"{name}: {message.decode()} after {last[writer]}")
                last[writer] = max(int(number), last.get(writer, -1))
        return wrong

    def records(self) -> Counter[tuple[str, str]]:
        """Returns (kind, reader) -> how many messages of all rounds were lost, doubled, or reordered. A QoS 1 message
        counts as doubled if it came again without DUP, and its publisher had sent it once."""
        found: Counter[tuple[str, str]] = Counter()
        for part in self.rounds:
            for name, lacks in self.missing(part).items():
                found["lost", name] += len(lacks)
            for name, again in self._unmarked_again(part).items():
                found["doubled", name] += len(again)
            for name, twice in self._doubled(part).items():
                found["doubled", name] += len(twice)
            for name in self._readers:
                found["reordered", name] += sum(line.startswith(f"{name}: ") for line in self._disorder(part))
        return +found

    def published(self) -> dict[str, tuple[int, int]]:
        """Returns publisher -> how many of its messages it knows to be acknowledged, and how many it has sent, each
        time that it sent one again included."""
        least, most = Counter[str](), Counter[str]()
        for part in self.rounds:
            least.update(map(_writer, part.acked))
            most.update(map(_writer, part.sent))
            most.update(map(_writer, part.resent.elements()))
        return {name: (least[name], most[name]) for name in most}

    def received(self) -> dict[str, tuple[int, int]]:
        """Returns reader -> how many different messages it has got, and how many deliveries."""
        came = {name: [part.came.get(name, Counter[bytes]()) for part in self.rounds] for name in self._readers}
        return {name: (sum(map(len, each)), sum(map(Counter.total, each))) for name, each in came.items()}

    def by_case(self) -> dict[tuple[str, str], Verdict]:
        """Returns (role, fault) -> the counts of all its rounds."""
        found: dict[tuple[str, str], Verdict] = {}
        for part in self.rounds:
            for role in sorted(set(part.roles.values())) or [""]:
                found.setdefault((role or part.role, part.fault), Verdict()).add(self.verdict(part, role))
        return dict(sorted(found.items()))


def longest(sent: dict[bytes, float], came: dict[bytes, float], qos: int) -> float:
    """Returns the longest time in which a message of this QoS was due and none came. What never came does not count."""
    prefix = b"%d:" % qos
    sendings = [at for message, at in sent.items() if message in came and message.startswith(prefix)]
    arrivals = sorted(at for message, at in came.items() if message.startswith(prefix))
    found, former = 0.0, 0.0
    sendings.sort()
    for position, at in enumerate(arrivals):
        # all before have come, so this many of the messages that were sent are there: the next one is due
        due = max(former, sendings[position])
        found = max(found, at - due)
        former = at
    return found


def _writer(message: bytes) -> str:
    """Returns the publisher in a message of the form QOS:WRITER-NUMBER."""
    return message.partition(b":")[2].rpartition(b"-")[0].decode()


def _some(messages: Iterable[bytes]) -> str:
    return " ".join(each.decode() for each in list(messages)[:10])
