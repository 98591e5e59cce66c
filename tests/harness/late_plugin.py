"""A plugin that answers late about the first CONNECT of one client."""

from __future__ import annotations

from typing import Any

from strogoff.sim.engine.host import AllowAll


class LateOnce(AllowAll):
    """The first answer about client `x` waits for `PendingHooks.answer`; the others come at once."""

    def __init__(self) -> None:
        self.asked = 0

    def auth_on_register(self, *arguments: Any) -> Any:
        if arguments[1][1] != "x":
            return True
        self.asked += 1
        return self._later() if self.asked == 1 else True

    async def _later(self) -> bool:
        return True
