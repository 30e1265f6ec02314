"""The texts about skills for the model: the list in the system prompt and the loaded instructions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from msgspec import field

from compact import block_texts
from transcripts import SKILL_START, Channel, Fact, FactTrail, Folded, Result, TextBlock, User

SKILLS_HEAD = "# Skills\n"
LIST_INTRODUCTION = """\
A skill is a set of instructions for one kind of work, written by the user or for this project. Where one of \
these fits, load it with the skill tool before you begin, and follow it: treat what that tool returns as \
instructions of the user."""
MORE_SKILLS = "- and {count} more: the skill tool finds them by `query`"
SKILL_TOOL = "skill"


class ListedSkill(Protocol):
    """A skill as it is listed."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...


def skills_section(skills: Iterable[ListedSkill], window: int, count: Callable[[str], int]) -> str:
    """Return the list for the system prompt, at most 2 % of a window; "" if empty or too long for that.

    `count` returns the tokens of a text.
    """
    lines = [f"- {one.name}: {one.description[:250].strip()}" for one in skills]
    head = f"{SKILLS_HEAD}{LIST_INTRODUCTION}"
    # The list of skills takes at most this share of the window.
    left = int(window * 0.02) - count(head)
    if not lines or left < 0:
        return ""
    sizes = [count(line) + 1 for line in lines]
    if sum(sizes) <= left:
        return "\n".join((head, *lines))
    left -= count(MORE_SKILLS) + 5
    kept = 0
    while sizes[kept] <= left:
        left -= sizes[kept]
        kept += 1
    return "\n".join((head, *lines[:kept], MORE_SKILLS.format(count=len(lines) - kept)))


def instructions_text(name: str, folder: Path, body: str) -> str:
    """Return the instructions of a skill as they are loaded."""
    return f"{SKILL_START}{name} (its files are in {folder}):\n\n{body.strip()}"


class LoadedSkill(NamedTuple):
    """The instructions of a skill, and the seq of the fact that loaded them."""

    seq: int
    text: str


class _SkillTrail(FactTrail):
    """The instructions loaded by the facts read so far, by the name of the skill, the newest last."""

    loaded: dict[str, LoadedSkill] = field(default_factory=dict)


def skills_in_use(folded: Folded) -> dict[str, LoadedSkill]:
    """Return the loaded instructions by the name of the skill, each the newest, newest first.

    Each fact is read once.
    """
    trail = folded.memo(_SkillTrail)
    kinds: tuple[type[Fact], ...] = (User,)
    if SKILL_TOOL in folded.conversation.tools_called:
        kinds = (*kinds, Result)
    for fact in trail.unread(folded, *kinds):
        for text in _loaded(folded, fact):
            name = text[len(SKILL_START) :].partition(" (")[0]
            trail.loaded.pop(name, None)
            trail.loaded[name] = LoadedSkill(fact.seq, text)
    return dict(reversed(trail.loaded.items()))


def hidden_instructions(folded: Folded) -> dict[str, str]:
    """Return the instructions in use that the view no longer contains in any form, by the skill's name."""
    used = skills_in_use(folded)
    if not used:
        return {}
    shown = "\n".join(block_texts(part.block for message in folded.view for part in message.parts))
    return {name: loaded.text for name, loaded in used.items() if f"{SKILL_START}{name} (" not in shown}


MAX_KEPT_SHARE = 0.05  # of the window, for all instructions in use that a compaction keeps
KEPT_CHARS_PER_TOKEN = 3.5  # of English with current tokenizers


def kept_chars(window: int) -> int:
    """Return how many characters of instructions a compaction keeps in a window of that many tokens."""
    return int(window * MAX_KEPT_SHARE * KEPT_CHARS_PER_TOKEN)


def kept_instructions(folded: Folded, window: int) -> Iterator[str]:
    """Yield the instructions in use as a compaction keeps them, newest first, in their share of a window."""
    left = kept_chars(window)
    for name, (seq, text) in skills_in_use(folded).items():
        most = min(left, 20_000)  # of one skill
        if len(text) > most:
            text = f"{text[:most]}\n[{len(text) - most:,} more characters; read them with recall r{seq}]"
        yield f"{text}\n(end of the instructions of {name}, r{seq})"
        left = max(0, left - len(text))


def _loaded(folded: Folded, fact: Fact) -> Iterator[str]:
    """Yield the instructions loaded with a prompt or by the skill tool; no other text counts."""
    if isinstance(fact, User):
        texts = (Channel(folded.tag).words(block) or "" for block in fact.blocks)
    elif isinstance(fact, Result) and _is_of_skill_tool(folded, fact):
        parts = (part for part in fact.content if isinstance(part, TextBlock))
        texts = (part.injected_text or part.text.strip("\n") for part in parts)
    else:
        return
    yield from (text for text in texts if text.startswith(SKILL_START))


def _is_of_skill_tool(folded: Folded, result: Result) -> bool:
    use = folded.conversation.call_of(result)
    return use is not None and use.name == SKILL_TOOL
