"""The tables of docs/netsplit.md, made from the sources: `python -m strogoff.netsplit.policy_page docs/netsplit.md`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from .incidents import METRICS
from .policy import FLAGS, REFUSALS, Decision, Refusal, ViewState, decide

BEGIN = "<!-- from {}: begin -->"
END = "<!-- from {}: end -->"

_DECISIONS = {
    Decision.SERVE: "served",
    Decision.REFUSE: "refused",
    Decision.AP: "served without the unreachable nodes, merged at heal",
}


def decisions() -> str:
    """The decisions about an operation: a row for each flag, a column for each state."""
    rows = [[f"`{flag}`", *(_DECISIONS[decide(flag, state)] for state in ViewState)] for flag in FLAGS]
    return _table(["flag", *(state.value for state in ViewState)], rows)


def answers() -> str:
    """The answers that a client gets to refused packets."""
    head = ["packet", "flag", "MQTT 3.1 and 3.1.1", "MQTT 5"]
    return _table(head, ([each.packet, f"`allow_{each.operation}_during_netsplit`", *_seen(each)] for each in REFUSALS))


def metrics() -> str:
    """The metrics of the incident log."""
    return _table(["metric", "type", "meaning"], ([f"`{name}`", *about] for name, about in METRICS.items()))


PARTS = {"the policy table": decisions, "the answers": answers, "the metrics": metrics}
"""Name in a mark of the page -> function that makes the part."""


def renewed(page: str, parts: Mapping[str, Callable[[], str]] = PARTS) -> str:
    """Returns the page with new generated parts. Raises ValueError if the marks are missing."""
    for name, make in parts.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise ValueError(f"the page has no part between {begin} and {end}")
        page = f"{before}{begin}\n\n{make()}\n\n{end}{after}"
    return page


def main(argv: list[str]) -> int:
    """Rewrite the generated parts of the page on the command line."""
    path = Path(argv[0])
    path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


def _seen(refusal: Refusal) -> list[str]:
    answer = refusal.answer
    each = " for each filter" if answer in ("SUBACK", "UNSUBACK") else ""
    v3 = (
        f"no {answer}"
        if refusal.v3 is None
        else f"{answer} {refusal.v3 if refusal.v3 < 16 else f'{refusal.v3:#x}'}{each}"
    )
    v5 = f"no {answer}" if refusal.v5 is None else f"{answer} 0x{refusal.v5:02X}{each}"
    if not answer:
        return [refusal.v3_then, refusal.v5_then]
    return [f"{v3}; {refusal.v3_then}", f"{v5}; {refusal.v5_then}"]


def _table(head: list[str], lines: Iterable[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
