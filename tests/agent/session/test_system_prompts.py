"""The part of the system prompt about commands, in each permission mode."""

from agent.session.system_prompts import (
    COMMAND_TEXTS,
    RECORDS_TEXT,
    SANDBOX_AND_RECORDS_TEXT,
    SANDBOX_TEXT,
    command_text,
    text_in_mode,
)
from tests.tables import each_row


def test_the_sandbox_and_the_hidden_transcripts_are_told_where_there_are_any() -> None:
    assert command_text(sandboxed=True, hides_records=True) == SANDBOX_TEXT
    assert command_text(sandboxed=True, hides_records=False) == SANDBOX_AND_RECORDS_TEXT
    assert command_text(sandboxed=False, hides_records=False) == RECORDS_TEXT
    assert command_text(sandboxed=False, hides_records=True) == ""


@each_row(
    ("text", "unsandboxed"),
    [
        (SANDBOX_TEXT, ""),
        (SANDBOX_AND_RECORDS_TEXT, RECORDS_TEXT),
        (RECORDS_TEXT, RECORDS_TEXT),
        ("", ""),
        ("the user's own text", "the user's own text"),
    ],
)
def test_where_commands_run_open_nothing_is_told_of_the_sandbox(text: str, unsandboxed: str) -> None:
    assert text_in_mode(text, "bypassPermissions") == unsandboxed
    assert [text_in_mode(text, mode) for mode in ("manual", "plan", "acceptEdits")] == [text] * 3
    assert len(COMMAND_TEXTS) == 3
