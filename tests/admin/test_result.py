"""The parts of an answer."""

from __future__ import annotations

from strogoff.admin.result import DONE, CommandError, Text


def test_the_result_of_success_is_the_word_of_vernemq() -> None:
    assert Text("Done") == DONE


def test_an_error_is_its_sentence() -> None:
    assert str(CommandError("No.")) == "No."
