"""Tells whether a disk has everything that former processes wrote there: a kill keeps it, a loss of power may not.

A process that writes without fsync leaves the id of the kernel's present boot in the data directory. The kernel keeps
such writes when the process is killed. If the next process runs under another boot of the kernel, the machine has lost
power, or its kernel has crashed: the last writes may be missing. A process that stops in order syncs everything, and
takes the id back. Pure, without I/O.
"""

from __future__ import annotations

from .engine import Durability

SYNCED = ""
"""Nothing is left unsynced. A version that left no note counts as this."""
IN_MEMORY = "memory"
"""Writes went to memory alone: no other process has them."""
UNKNOWN = "unknown"
"""Writes were left unsynced, under a kernel without an id of its boot."""


def left_unsynced(durability: Durability | None, machine: str, former: str) -> str:
    """Returns the note for a process that begins to write. `durability` is None if it writes to memory alone; `machine`
    is the id of the kernel's boot, "" if there is none; `former` is the note of the last process."""
    if durability is None:
        return IN_MEMORY
    if durability == "os":
        return machine or UNKNOWN
    return former if former == machine else SYNCED  # the kernel may still have writes of the last process


def may_lack_writes(former: str, machine: str) -> bool:
    """Whether the disk may lack writes of the last process, which left this note. `machine` as in `left_unsynced`."""
    return former not in (SYNCED, machine)
