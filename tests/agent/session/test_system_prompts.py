"""The part of the system prompt about commands, in each permission mode."""

from pathlib import Path

from agent.session.skill_texts import (
    SKILL_TOOL,
    SKILLS_HEAD,
    instructions_text,
    kept_chars,
    kept_instructions,
)
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
from transcripts.facts import Opened, User
from transcripts.folding import fold
from transcripts.messages import ChannelBlock


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


def test_the_line_about_ambiguous_requests_fits_the_tools() -> None:
    for tools, line in (
        (["read"], "If the request is ambiguous, decide and say what you assumed."),
        (["ask_user"], "If the request is ambiguous and a wrong guess would waste work, ask; otherwise"),
    ):
        [text] = system_prompt([], tools)
        assert line in text and text.count("If the request is ambiguous") == 1


def test_an_agent_gets_the_list_of_skills_and_memory_files_only_if_it_can_use_them() -> None:
    memory = system_prompt([(Path("/p/AGENTS.md"), "Use tabs.")], ["read"])[1]
    skills = f"{SKILLS_HEAD}- review: reviews a change"
    session = ("You are makeroom.", memory, skills, "more")
    own = ("You review.",)
    assert agent_prompt(session, own, [SKILL_TOOL], True)[1:] == (memory, skills, "more")
    assert agent_prompt(session, own, ["read"], True)[1:] == (memory, "more")
    assert agent_prompt(session, own, [SKILL_TOOL], False)[1:] == (skills, "more")


def test_a_compaction_keeps_the_newest_instructions_within_their_share_of_the_window() -> None:
    texts = [instructions_text(name, Path("/p"), name * 5_000) for name in ("a", "b", "c")]
    facts = [User(seq, 0.0, (ChannelBlock(text),)) for seq, text in enumerate(texts, 2)]
    folded = fold([Opened(1, 0.0, tag="7f3a21"), *facts])
    window = 40_000
    assert kept_chars(window) == 7_000
    newest, second, oldest = kept_instructions(folded, window)
    assert newest == f"{texts[2]}\n(end of the instructions of c, r4)"
    left = kept_chars(window) - len(texts[2])
    cut = f"[{len(texts[1]) - left:,} more characters; read them with recall r3]"
    assert second == f"{texts[1][:left]}\n{cut}\n(end of the instructions of b, r3)"
    assert oldest.startswith(f"\n[{len(texts[0]):,} more characters")
