"""The part of the system prompt about commands, in each permission mode."""

from pathlib import Path

from agent.session.skill_texts import SKILL_TOOL, SKILLS_HEAD
from agent.session.system_prompts import (
    COMMAND_TEXTS,
    RECORDS_TEXT,
    SANDBOX_AND_RECORDS_TEXT,
    SANDBOX_TEXT,
    agent_prompt,
    command_text,
    system_prompt,
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


def test_an_agent_gets_the_list_of_skills_and_memory_files_only_if_it_can_use_them() -> None:
    memory = system_prompt([(Path("/p/AGENTS.md"), "Use tabs.")], ["read"])[1]
    skills = f"{SKILLS_HEAD}- review: reviews a change"
    session = ("You are makeroom.", memory, skills, "more")
    own = ("You review.",)
    assert agent_prompt(session, own, [SKILL_TOOL], True)[1:] == (memory, skills, "more")
    assert agent_prompt(session, own, ["read"], True)[1:] == (memory, "more")
    assert agent_prompt(session, own, [SKILL_TOOL], False)[1:] == (skills, "more")
