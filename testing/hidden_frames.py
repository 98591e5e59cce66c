"""Which errors pytest reports without our frames: a module with this function as `__tracebackhide__` is left out.

Then the report of an error that the documentation names ends at the line of the test. Other errors may be defects of
this package: they are shown whole.
"""

from __future__ import annotations

from typing import Any

from .client_errors import MqttError
from .faults.packet_drops import FaultError


def of_documented_errors(raised: Any) -> bool:
    """Whether frames are left out; `raised` is pytest's `ExceptionInfo`. OSError: refused connections and timeouts."""
    return isinstance(getattr(raised, "value", None), MqttError | FaultError | OSError)
