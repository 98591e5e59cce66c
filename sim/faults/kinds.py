"""The kinds of faults of a cluster, each with a text form that can be parsed.

    cut a b | c            the groups do not hear each other; nodes in no group hear all others
    pair_cut a b           two nodes do not hear each other
    one_way_cut a b        b does not hear a
    delay a b 200ms        messages between them take 200 ms longer
    loss a b 0.05          5 % of the packets between them are lost
    kill a                 kill -9; finished writes survive
    power_loss a           writes that were not synced are lost
    fast_restart a         killed and started within the lease
    pause a 5s             SIGSTOP: clocks run
    vm_freeze a 5s         the machine is frozen, and its monotonic clock stops
    disk_stall a           writes hang
    disk_full a            no space left
    disk_lost a            killed, and started with an empty disk
    backup_restored a      killed, and started with an old copy of its disk
    clock_jump a +60000ms  the wall clock is set

A fault schedule has the duration of a fault (`schedule.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

_NODE = re.compile(r"[^\s|;#]+")
_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_SECONDS = re.compile(rf"({_NUMBER})s")
_MILLISECONDS = re.compile(r"([+-]?\d+)ms")
FOR = "for"
"""The word before the duration in a schedule: no node has this name."""


class FaultError(ValueError):
    """A fault or a schedule is impossible, or a text cannot be parsed. The message has the reason and, for a schedule,
    the line."""


def require(condition: bool, problem: str) -> None:
    """Raise FaultError unless the condition holds."""
    if not condition:
        raise FaultError(problem)


def _check_node(name: str) -> None:
    require(isinstance(name, str) and _NODE.fullmatch(name) is not None and name != FOR, f"{name!r} is not a node name")


def _check_nodes(*names: str) -> None:
    for name in names:
        _check_node(name)
    require(len(set(names)) == len(names), f"a node is named twice: {' '.join(names)}")


def check_seconds(seconds: float, zero: bool = False) -> None:
    """Raise FaultError unless this is a time in seconds; `zero` allows 0."""
    least = "0 or more" if zero else "above 0"
    require(
        math.isfinite(seconds) and (seconds > 0 or (zero and seconds == 0)), f"seconds must be {least}, are {seconds}"
    )


def number_text(value: float) -> str:
    """Returns a number as text that parses to exactly this number."""
    return repr(float(value)).removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Fault:
    """Base of all faults. `str` returns the text form, `nodes` the affected nodes, `event` the type of its event."""

    word: ClassVar[str] = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The affected nodes, in the order of the text."""
        raise AssertionError("each fault names its nodes")

    def __str__(self) -> str:
        return " ".join((self.word, *self.nodes))


@dataclass(frozen=True, slots=True)
class Cut(Fault):
    """Two or more groups of nodes that do not hear each other."""

    word = "cut"
    groups: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        require(len(self.groups) > 1 and all(self.groups), "a cut needs two groups or more, none of them empty")
        _check_nodes(*self.nodes)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes of all groups."""
        return tuple(node for group in self.groups for node in group)

    def __str__(self) -> str:
        return f"{self.word} " + " | ".join(" ".join(group) for group in self.groups)


@dataclass(frozen=True, slots=True)
class _Two(Fault):
    a: str
    b: str

    def __post_init__(self) -> None:
        _check_nodes(self.a, self.b)

    @property
    def nodes(self) -> tuple[str, ...]:
        return (self.a, self.b)


@dataclass(frozen=True, slots=True)
class PairCut(_Two):
    """`a` and `b` do not hear each other; all other nodes hear both (H-06)."""

    word = "pair_cut"


@dataclass(frozen=True, slots=True)
class OneWay(_Two):
    """`b` does not hear `a`; `a` hears `b`."""

    word = "one_way_cut"


@dataclass(frozen=True, slots=True)
class Delay(_Two):
    """Messages between `a` and `b` take `ms` milliseconds longer."""

    word = "delay"
    ms: int

    def __post_init__(self) -> None:
        _check_nodes(self.a, self.b)
        require(self.ms > 0, f"a delay must be above 0 ms, is {self.ms}")

    def __str__(self) -> str:
        return f"{self.word} {self.a} {self.b} {self.ms}ms"


@dataclass(frozen=True, slots=True)
class Loss(_Two):
    """`share` (above 0, up to 1) of the packets between `a` and `b` is lost. Streams send them again and get slow."""

    word = "loss"
    share: float

    def __post_init__(self) -> None:
        _check_nodes(self.a, self.b)
        require(0 < self.share <= 1, f"a share must be above 0 and at most 1, is {self.share}")

    def __str__(self) -> str:
        return f"{self.word} {self.a} {self.b} {number_text(self.share)}"


@dataclass(frozen=True, slots=True)
class _One(Fault):
    node: str

    def __post_init__(self) -> None:
        _check_node(self.node)

    @property
    def nodes(self) -> tuple[str, ...]:
        return (self.node,)


@dataclass(frozen=True, slots=True)
class Kill(_One):
    """`kill -9`: writes that the operating system has taken survive."""

    word = "kill"


@dataclass(frozen=True, slots=True)
class PowerLoss(_One):
    """Writes that were not synced are lost; the last write of a file may be incomplete."""

    word = "power_loss"


@dataclass(frozen=True, slots=True)
class FastRestart(_One):
    """A kill, and a start before another node notices (H-01)."""

    word = "fast_restart"


@dataclass(frozen=True, slots=True)
class _Still(_One):
    s: float

    def __post_init__(self) -> None:
        _check_node(self.node)
        check_seconds(self.s)

    def __str__(self) -> str:
        return f"{self.word} {self.node} {number_text(self.s)}s"


@dataclass(frozen=True, slots=True)
class Pause(_Still):
    """SIGSTOP for `s` seconds, then SIGCONT: the process is suspended while the clocks run."""

    word = "pause"


@dataclass(frozen=True, slots=True)
class Freeze(_Still):
    """The virtual machine is frozen for `s` seconds, and its monotonic clock stops (H-05)."""

    word = "vm_freeze"


@dataclass(frozen=True, slots=True)
class DiskStall(_One):
    """Writes hang while the loop runs (H-06)."""

    word = "disk_stall"


@dataclass(frozen=True, slots=True)
class DiskFull(_One):
    """The disk has no space left: writes fail."""

    word = "disk_full"


@dataclass(frozen=True, slots=True)
class DiskLost(_One):
    """A kill, and a start with an empty data directory."""

    word = "disk_lost"


@dataclass(frozen=True, slots=True)
class BackupRestored(_One):
    """A kill, and a start with an old copy of the data directory."""

    word = "backup_restored"


@dataclass(frozen=True, slots=True)
class ClockJump(_One):
    """The wall clock is set by `ms` milliseconds, forward or back (H-17)."""

    word = "clock_jump"
    ms: int

    def __post_init__(self) -> None:
        _check_node(self.node)
        require(self.ms != 0, "a clock jump must not be 0 ms")

    def __str__(self) -> str:
        return f"{self.word} {self.node} {self.ms:+d}ms"


def seconds_of(text: str) -> float:
    """Returns the number of seconds of a text such as `1.5s`. Raises FaultError."""
    found = _SECONDS.fullmatch(text)
    require(found is not None, f"{text!r} is not a number of seconds, such as 1.5s")
    assert found is not None
    return float(found[1])


def _milliseconds(text: str) -> int:
    found = _MILLISECONDS.fullmatch(text)
    require(found is not None, f"{text!r} is not a number of milliseconds, such as 200ms")
    assert found is not None
    return int(found[1])


def _share(text: str) -> float:
    require(re.fullmatch(_NUMBER, text) is not None, f"{text!r} is not a share, such as 0.05")
    return float(text)


def _groups(words: list[str]) -> Cut:
    return Cut(tuple(tuple(group.split()) for group in " ".join(words).split("|")))


_MAKERS: dict[str, tuple[int, Callable[[list[str]], Fault]]] = {
    Cut.word: (0, _groups),
    PairCut.word: (2, lambda words: PairCut(*words)),
    OneWay.word: (2, lambda words: OneWay(*words)),
    Delay.word: (3, lambda words: Delay(words[0], words[1], _milliseconds(words[2]))),
    Loss.word: (3, lambda words: Loss(words[0], words[1], _share(words[2]))),
    Kill.word: (1, lambda words: Kill(*words)),
    PowerLoss.word: (1, lambda words: PowerLoss(*words)),
    FastRestart.word: (1, lambda words: FastRestart(*words)),
    Pause.word: (2, lambda words: Pause(words[0], seconds_of(words[1]))),
    Freeze.word: (2, lambda words: Freeze(words[0], seconds_of(words[1]))),
    DiskStall.word: (1, lambda words: DiskStall(*words)),
    DiskFull.word: (1, lambda words: DiskFull(*words)),
    DiskLost.word: (1, lambda words: DiskLost(*words)),
    BackupRestored.word: (1, lambda words: BackupRestored(*words)),
    ClockJump.word: (2, lambda words: ClockJump(words[0], _milliseconds(words[1]))),
}
"""Word -> number of words that follow it (0: any number), and the function that makes the fault."""

WORDS = tuple(_MAKERS)
"""The words that faults begin with."""


def parse(text: str) -> Fault:
    """Returns the fault of a text; the inverse of `str`. Raises FaultError."""
    word, *rest = text.split() or [""]
    known = _MAKERS.get(word)
    require(known is not None, f"{word!r} is not a fault; there are {', '.join(WORDS)}")
    assert known is not None
    number, make = known
    require(number in (0, len(rest)), f"{word} takes {number} words, not {len(rest)}: {text!r}")
    return make(rest)
