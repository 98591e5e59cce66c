"""A job runs again if a file has another name."""

from __future__ import annotations

import pytest

from strogoff.analytics.retrying import ATTEMPTS, retry


def test_a_job_is_tried_a_few_times_while_files_vanish() -> None:
    tried = []

    def job(wins: int) -> int:
        tried.append(1)
        if len(tried) < wins:
            raise FileNotFoundError("FileNotFoundError: boot=1-000001.jsonl.open")
        return len(tried)

    assert retry(lambda: job(ATTEMPTS)) == ATTEMPTS
    tried.clear()
    with pytest.raises(FileNotFoundError):
        retry(lambda: job(ATTEMPTS + 1))
    assert len(tried) == ATTEMPTS


def test_other_errors_are_not_tried_again() -> None:
    tried = []

    def job() -> str:
        tried.append(1)
        raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        retry(job)
    assert len(tried) == 1
