"""The parts of the system prompt: the lines about tools, the text about commands, and skills."""

import random
import re
from pathlib import Path
from typing import NamedTuple

from agent.extensions.agents.builtin import BUILTIN_AGENTS, REPORT_RULES
from agent.session.skill_texts import (
    LIST_INTRODUCTION,
    MORE_SKILLS,
    SKILL_TOOL,
    SKILLS_HEAD,
    hidden_instructions,
    instructions_text,
    kept_chars,
    kept_instructions,
    skills_section,
)
from agent.session.system_prompts import (
    COMMAND_TEXTS,
    RECORDS_TEXT,
    SANDBOX_AND_RECORDS_TEXT,
    SANDBOX_TEXT,
    TOOL_LINES,
    WORKING_LINES,
    agent_prompt,
    command_text,
    system_prompt,
    text_in_mode,
    with_command_text,
)
from tests.tables import each_row
from tools import TOOL_NAMES
from transcripts.facts import Compacted, Fold, Opened, User
from transcripts.folding import fold
from transcripts.messages import ChannelBlock, TextBlock


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
        [text] = system_prompt({}, tools)
        assert line in text and text.count("If the request is ambiguous") == 1


def test_only_where_someone_answers_a_denied_call_may_be_asked_about() -> None:
    for tools, end in ((["read"], "or say what you would need."), (["ask_user"], "or ask.")):
        [text] = system_prompt({}, tools)
        [line] = [line for line in text.split("\n") if line.startswith("- If a call is denied")]
        assert line.endswith(end)


def test_no_prompt_of_a_session_or_an_agent_names_a_tool_that_is_not_offered() -> None:
    chance = random.Random(28)
    names = {*TOOL_NAMES}
    words = names - {"read", "write", "edit", "compact", "task"}  # which are also words of English
    for _ in range(200):
        offered = [name for name in sorted(names) if chance.random() < 0.5]
        brief = chance.random() < 0.3
        texts = [*system_prompt({}, offered, brief=brief)]
        for agent in BUILTIN_AGENTS.values():
            texts += agent_prompt(texts[:1], [agent.prompt, REPORT_RULES], offered, True, brief)
        for text in texts:
            named = words.intersection(re.findall(r"\w+", text))
            assert named <= set(offered), (named - set(offered), offered, text)


def test_a_line_about_tools_is_sent_where_all_of_them_are_offered() -> None:
    lines = [*WORKING_LINES, *TOOL_LINES]
    named = {name.removeprefix("!") for line in lines for name in line.tools.split()}
    assert named <= {*TOOL_NAMES}
    for line in lines:
        excluded = {name[1:] for name in line.tools.split() if name.startswith("!")}
        needed = [name for name in line.tools.split() if not name.startswith("!")]
        everything = {*TOOL_NAMES} - excluded
        assert line.text in system_prompt({}, everything)[0]
        for missing in needed:
            assert line.text not in system_prompt({}, everything - {missing})[0]
        brief = line.text if line.brief is None else line.brief
        assert brief in system_prompt({}, everything, brief=True)[0]


def test_the_text_about_commands_follows_the_identity_and_replaces_the_last_one() -> None:
    system = ("identity", SANDBOX_TEXT, "memory")
    for text, mode, texts in (
        (RECORDS_TEXT, "manual", ("identity", RECORDS_TEXT, "memory")),
        (SANDBOX_TEXT, "bypassPermissions", ("identity", "memory")),
    ):
        assert with_command_text(system, text, mode) == texts
        assert with_command_text(("identity", "memory"), text, mode) == texts


class Skill(NamedTuple):
    name: str
    description: str


def test_the_list_of_skills_has_as_many_as_fit_into_two_percent_of_the_window() -> None:
    skills = [Skill(f"skill-{number}", f" number {number}{' of many' * 99}") for number in range(50)]
    head = f"{SKILLS_HEAD}{LIST_INTRODUCTION}"
    lines = [f"- {one.name}: {one.description[:250].strip()}" for one in skills]
    whole = "\n".join((head, *lines))
    window = 50 * len(whole)
    assert skills_section(skills, window, len) == whole
    cut = skills_section(skills, window - 50, len)
    kept = cut.count("\n- skill-")
    assert cut == "\n".join((head, *lines[:kept], MORE_SKILLS.format(count=50 - kept)))
    assert len(cut) <= len(whole) - 1 < len(cut) + len(lines[kept]) + 10
    none = skills_section(skills, 50 * (len(head) + len(MORE_SKILLS) + 5), len)
    assert none == f"{head}\n{MORE_SKILLS.format(count=50)}"
    assert skills_section(skills, 50 * len(head) - 1, len) == skills_section([], window, len) == ""


def test_instructions_that_no_message_shows_are_hidden() -> None:
    texts = {name: instructions_text(name, Path("/p"), name * 9) for name in ("a", "b")}
    facts = [User(seq, 0.0, (ChannelBlock(text),)) for seq, text in enumerate(texts.values(), 2)]
    folded = fold([Opened(1, 0.0, tag="7f3a21"), *facts])
    assert hidden_instructions(folded) == {}
    folded.apply(Compacted(4, 0.0, "summary", "auto", (Fold(2, 2, (TextBlock("summary"),), 1),)))
    assert hidden_instructions(folded) == {"a": texts["a"]}


def test_an_agent_gets_the_list_of_skills_and_memory_files_only_if_it_can_use_them() -> None:
    memory = system_prompt({Path("/p/AGENTS.md"): "Use tabs."}, ["read"])[1]
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
