"""Tells an operator that a file belongs to another user than the one who runs the node, and what to do about it."""

from __future__ import annotations

import os
import pwd
import shlex
import stat
from contextlib import suppress
from pathlib import Path

from ...storage.lock_owner import data_owner

UID_MAP = Path("/proc/self/uid_map")
_ALL_IDS = ["0", "0", str(2**32 - 1)]
"""The map of the machine itself, user_namespaces(7). A container may have another one."""


def explain(error: Exception, *owned: Path) -> str:
    """The text of the error, and, if the process may not use a file, who owns it and what to do.

    `owned` are the directories that should belong to the node. The text is about the first of the file and its parents
    that this process can see.
    """
    if not isinstance(error, PermissionError) or not isinstance(error.filename, str):
        return str(error)
    path = Path(error.filename).absolute()
    place, found = _visible(path)
    own, mode = os.geteuid(), f"{stat.S_IMODE(found.st_mode):04o}"
    if found.st_uid == own:
        return f"{error}: look at the mode of {place}, which is {mode}"
    said = f"{error}: {place} belongs to user {found.st_uid} and has the mode {mode}, and the node runs as user {own}"
    ours = next((each.absolute() for each in owned if each.absolute() in (path, *path.parents)), None)
    target = ours or (place if place in (path, path.parent) else path)
    if target in (place, *place.parents):
        mounted = "if a container has it mounted, on what the host has mounted there"
        return f"{said}: run `chown -R {own}` on {target}; {mounted}"
    if os.access(place, os.X_OK):
        return f"{said}: make {target}, and run `chown -R {own}` on it"
    return f"{said}: let user {own} enter {place} (`chmod o+x`, or its group), and run `chown -R {own}` on {target}"


def _visible(path: Path) -> tuple[Path, os.stat_result]:
    """The path, or the first directory above it, that this process can see."""
    for place in (path, *path.parents):
        with suppress(OSError):
            return place, place.stat()
    raise AssertionError("every process sees /")


def other_owner(directory: Path) -> str:
    """Why root must not start a node on this data directory: it belongs to another user, whose node could not use the
    files that root makes. "" if it may.

    In a container root may be the only user, or stand for a user of the host. It is one if this is process 1, or if the
    ids of its users are mapped.
    """
    if os.geteuid() != 0 or os.getpid() == 1 or _ids_are_mapped():
        return ""
    owner = data_owner(directory)
    if owner is None or owner.st_uid == 0:
        return ""
    user = _name(owner.st_uid)
    return (
        f"{directory} belongs to user {user}, whose node could not use the files that root makes there: run "
        f"`sudo -u {user} strogoff start ...`, or give it to root: `chown -R root {shlex.quote(str(directory))}`"
    )


def _ids_are_mapped() -> bool:
    try:
        return UID_MAP.read_text().split() != _ALL_IDS
    except OSError:  # this kernel has no user namespaces
        return False


def _name(uid: int) -> str:
    """The name of a user for `sudo -u`."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"'#{uid}'"
