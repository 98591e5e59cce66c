"""The reason of a verdict in one sentence, and answers: was anything lost, doubled, reordered or refused.

Nothing is judged here. The audit has judged; this module counts its findings and puts them into words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from ...judge.definitions import DEFINITIONS
from ..audit.run_audit import Kind, RunAudit, without_messages
from .report_data import DROPS, REFUSALS, RunReport
from .words import names, number, plural

Said = Literal["no", "yes", "allowed", "unknown"]
"""An answer: `yes` is a broken promise or an error; `allowed` happened, and breaks no promise; `unknown` is an answer,
too: rows are missing that could tell."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A question, its answer in one word, and the reason."""

    question: str
    said: Said
    because: str


def _is_loss(kind: Kind) -> bool:
    return kind.anomaly in ("A1", "A12") or (kind.anomaly == "A14" and kind.kind == "lost")


def _is_double(kind: Kind) -> bool:
    return kind.anomaly in ("A4", "A5") or (kind.anomaly == "A14" and kind.kind == "dup")


def _is_reorder(kind: Kind) -> bool:
    return kind.anomaly == "A6"


def _is_refusal(kind: Kind) -> bool:
    return kind.anomaly == "A19" and kind.kind == "refused"


def _is_other(kind: Kind) -> bool:
    asked = (_is_loss, _is_double, _is_reorder, _is_refusal)
    return kind.anomaly != "A0" and kind.severity in ("fatal", "error") and not any(each(kind) for each in asked)


QUESTIONS: Final[tuple[tuple[str, Callable[[Kind], bool]], ...]] = (
    ("Was anything lost?", _is_loss),
    ("Was anything doubled?", _is_double),
    ("Was anything reordered?", _is_reorder),
    ("Was anything refused?", _is_refusal),
    ("Was anything else wrong?", _is_other),
)
"""The questions, and the kinds of findings that say yes. A finding that breaks a promise belongs to exactly one."""


def reason(run: RunReport) -> str:
    """Returns the reason of a run's verdict, in one sentence."""
    audit = run.audit
    broken = [each for each in audit.kinds if each.severity == "fatal" and each.anomaly != "A0"]
    if audit.verdict == "invalid":
        return f"The cluster broke its promises ({_listed(broken)})."
    if audit.verdict == "unknown":
        if audit.holes:
            return f"Rows of the log are missing ({_listed(audit.holes)}), and nobody can tell what they had."
        return f"Rows that decide may have been lost with the end of a boot ({_listed(broken)})."
    if not audit.published:
        return f"Nothing in the log breaks a promise, but {without_messages(audit.levels)}."
    told = f"{plural(audit.acked, 'acknowledged message')} with QoS 1 or 2"
    everything = f"{number(audit.published)} were published with any QoS"
    return _sentences(f"The cluster kept its promises for {told}; {everything}", *_left_out(audit))


def answers(run: RunReport) -> list[Answer]:
    """Returns the answers to `QUESTIONS`, in their order."""
    return [Answer(question, *_answer(run, question, belongs)) for question, belongs in QUESTIONS]


def _answer(run: RunReport, question: str, belongs: Callable[[Kind], bool]) -> tuple[Said, str]:
    found = [each for each in run.audit.kinds if belongs(each)]
    wrong = [each for each in found if each.severity in ("fatal", "error")]
    notes = [*_notes(run, question)]
    if run.audit.holes:
        possible = f"Possible: {_listed(wrong)}" if wrong else "None was found"
        return "unknown", _sentences(f"{possible}, but rows of the log are missing", *notes)
    if sum(each.number - each.unsure for each in wrong):
        return "yes", _sentences(f"Found: {_listed(found)}", *notes)
    if wrong:
        return "unknown", _sentences(f"Rows that decide may have been lost: {_listed(found)}", *notes)
    if belongs in (_is_loss, _is_double, _is_reorder) and not run.audit.published:
        none = without_messages(run.audit.levels)
        return "unknown", _sentences(f"{none[0].upper()}{none[1:]}", *notes)
    if found:
        return "allowed", _sentences(f"MQTT allows it: {_listed(found)}", *notes)
    if belongs is _is_refusal and run.total(REFUSALS):
        return "allowed", _sentences(*notes)
    if belongs is _is_loss and run.total(DROPS):
        return "allowed", _sentences("None without a reason", *notes)
    return "no", _sentences("None was found", *notes)


def _notes(run: RunReport, question: str) -> Iterable[str]:
    audit = run.audit
    if question == QUESTIONS[0][0]:
        yield f"{plural(audit.acked, 'message')} acknowledged"
        if audit.waiting:
            yield f"{number(audit.waiting)} still wait for their subscribers"
        if audit.open:
            yield f"{number(audit.open)} cannot be judged: the logs end too early, or a node wrote no rows of messages"
        yield from _left_out(audit)
        if dropped := run.total(DROPS):
            yield f"{number(dropped)} dropped with a reason in the log ({_reasons(run, DROPS)})"
    elif question == QUESTIONS[3][0] and (refused := run.total(REFUSALS)):
        yield f"{number(refused)} refused with a reason in the log ({_reasons(run, REFUSALS)})"


def _left_out(audit: RunAudit) -> Iterable[str]:
    if any((each.anomaly, each.kind) == ("A0", "left-out") for each in audit.kinds):
        yield "Nodes left other messages out of the log as a whole"


def _reasons(run: RunReport, types: dict[str, str]) -> str:
    return names(dict.fromkeys(each.reason for each in run.counts if each.type in types), 4)


def _listed(kinds: Iterable[Kind]) -> str:
    """Returns anomalies with the numbers of their findings, such as `A1 lost-acked: 2`."""
    numbers: dict[str, int] = {}
    for each in kinds:
        numbers[each.anomaly] = numbers.get(each.anomaly, 0) + each.number
    return ", ".join(f"{title(anomaly)}: {number(many)}" for anomaly, many in numbers.items())


def title(anomaly: str) -> str:
    """Returns number and name of an anomaly; the number alone for one that this version does not know."""
    known = DEFINITIONS.get(anomaly)
    return known.title if known else anomaly


def _sentences(*parts: str) -> str:
    return " ".join(f"{each}." for each in parts if each)
