"""Fault schedules: the faults of a cluster and their times, as text for people and programs.

One fault per line, in the order of time:

    at 0s delay a b 20ms
    at 1.5s cut a b | c for 10s
    at 2s kill a

Without `for` a fault lasts until the end of all faults, unless its kind has no duration.
"""

from __future__ import annotations

from dataclasses import dataclass

from .kinds import FOR, Fault, FaultError, check_seconds, number_text, parse, require, seconds_of


@dataclass(frozen=True, slots=True)
class Step:
    """One fault of a schedule: `at_s` seconds after the begin of the schedule, for `for_s` seconds; None means until
    the end of all faults."""

    at_s: float
    fault: Fault
    for_s: float | None = None

    def __post_init__(self) -> None:
        check_seconds(self.at_s, zero=True)
        if self.for_s is not None:
            check_seconds(self.for_s)

    def __str__(self) -> str:
        end = "" if self.for_s is None else f" {FOR} {number_text(self.for_s)}s"
        return f"at {number_text(self.at_s)}s {self.fault}{end}"


@dataclass(frozen=True, slots=True)
class FaultSchedule:
    """Faults in the order of time."""

    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        times = [step.at_s for step in self.steps]
        require(times == sorted(times), "the faults of a schedule must be in the order of time")

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))

    @property
    def nodes(self) -> tuple[str, ...]:
        """Every node of the schedule, sorted."""
        return tuple(sorted({node for step in self.steps for node in step.fault.nodes}))

    @classmethod
    def parse(cls, text: str) -> FaultSchedule:
        """Parse a text: one fault per line, or several separated by `;`; `#` begins a comment.

        Raises FaultError with the number of the line.
        """
        steps: list[Step] = []
        for number, line in enumerate(text.splitlines(), 1):
            for part in line.partition("#")[0].split(";"):
                if part.strip():
                    try:
                        steps.append(_step(part.split()))
                        cls(tuple(steps[-2:]))
                    except FaultError as error:
                        raise FaultError(f"line {number}: {error}") from None
        return cls(tuple(steps))


def _step(words: list[str]) -> Step:
    require(len(words) > 2 and words[0] == "at", f"a fault begins with a time, such as 'at 2s': {' '.join(words)!r}")
    for_s = None
    at_s, rest = seconds_of(words[1]), words[2:]
    if len(rest) > 2 and rest[-2] == FOR:
        for_s = seconds_of(rest[-1])
        rest = rest[:-2]
    return Step(at_s, parse(" ".join(rest)), for_s)
