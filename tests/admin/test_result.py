"""The parts of an answer."""

from __future__ import annotations

from strogoff.admin.result import DONE, CommandError, Text


def test_done_is_verne_mqs_word() -> None:
    assert Text("Done") == DONE


def test_an_error_is_its_sentence() -> None:
    assert str(CommandError("No.")) == "No."
