"""No process serves with the role of another process: its view has its own boot and process (H-01)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol


class Role(Protocol):
    """The part of a process with a lease that this checker reads."""

    @property
    def node(self) -> str:
        """The name of the node."""
        ...

    @property
    def boot(self) -> int:
        """The boot of the process."""
        ...

    @property
    def row_boot(self) -> int:
        """The boot that the view has for the node."""
        ...

    @property
    def process(self) -> str:
        """The random id of this process."""
        ...

    @property
    def row_process(self) -> str:
        """The id of the process that the membership has for the node."""
        ...


def judge(roles: Sequence[Role]) -> Iterator[str]:
    """Compare each process with the view and the membership."""
    for each in roles:
        if each.boot != each.row_boot or each.process != each.row_process:
            yield f"role: start {each.boot} of {each.node} serves, and the view has start {each.row_boot}"
