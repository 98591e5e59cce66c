"""Runs a job again if a file that it reads has got another name meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

ATTEMPTS: Final = 3
"""Most tries of a job, because the broker may rename a file that the job reads, and an ingest may replace one."""

_GONE: Final = ("FILE_NOT_EXIST", "FileNotFoundException", "FileNotFoundError")

Result = TypeVar("Result")


def retry(job: Callable[[], Result]) -> Result:
    """Run a job again if the broker renamed or deleted a file between its listing and its reading."""
    for _ in range(ATTEMPTS - 1):
        try:
            return job()
        except Exception as error:
            if not any(word in str(error) for word in _GONE):
                raise
    return job()
