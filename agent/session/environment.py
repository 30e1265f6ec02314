"""The environment of the model: date, model, directory and branch with the first prompt, and changes later.

Changes are those of the model, the current directory, the mode, the sandbox and the pins, and background
commands that ended with an earlier run. They are sent with the next prompt, so that the cached beginning of
the conversation stays valid. The branch is read from files: git would run programs that the repository's
configuration names, before the user has allowed anything.
"""

from __future__ import annotations

import platform
from collections.abc import Container, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field

from compact import EnvironmentHeading, in_force, pins_of
from tools.processes import Inbox
from transcripts import Block, Channel, FactTrail, Fold, Folded, Result, User

from .repository_state import branch, shown_name
from .system_prompts import COMMAND_TEXTS, text_in_mode

OPEN_TEXT = """\
# Commands
- Commands run without a sandbox from now on; each may need the user's approval."""
_PLAN_HEAD = "# Plan mode\n"
PLANNING = f"{_PLAN_HEAD}Plan mode is on"  # begins the text about it, in sessions of every version
END_OF_PLAN_TEXT = """\
# Plan mode
Plan mode is off. You may change files again."""
ENVIRONMENT_HEADING = "# Environment"
MODEL_HEADING = "# Model"
_MODEL_LINE = "Model: "
PLAN_KEY = "plan mode"  # of news about it
_COMMAND_TEXTS = (*COMMAND_TEXTS, OPEN_TEXT)


class Environment(Struct, frozen=True):
    """The environment of a session as it is now.

    cwd       the directory that commands run in, as `shown_cwd` returns it
    commands  the text about commands in the system prompt of a session that would begin now; None: nothing
              is known
    mode      the permission mode
    tools     the names of the tools that the model is offered
    """

    folder: Path
    model: str
    cwd: str = "."
    commands: str | None = None
    mode: str = ""
    tools: Container[str] = ()


def plan_text(tools: Container[str]) -> str:
    """Return the text about plan mode for a model that is offered these tools."""
    asking = "; decide what is open, and say what you assumed"
    if "ask_user" in tools:
        asking = " and ask about open decisions with ask_user"
    content = "the files to change, the steps and the verification"
    end = f"reply with the plan: {content}."
    if "exit_plan" in tools:
        end = f"call exit_plan with {content}. Do not ask for approval in text."
    return f"{PLANNING}. Explore the code{asking}. Do not edit files. When ready, {end}"


def environment_context(now_is: Environment, now: float) -> str:
    """Return date, model, directory, system and branch, a line each."""
    lines = [
        ENVIRONMENT_HEADING,
        f"Date: {datetime.fromtimestamp(now).astimezone():%A %Y-%m-%d %H:%M %Z}",
        f"{_MODEL_LINE}{shown_name(now_is.model)}",
        f"Project directory: {shown_name(now_is.folder)} (file tools resolve relative paths against it)",
        f"System: {platform.system()} {platform.machine()}",
        f"Git: {branch(now_is.folder)}",
    ]
    return "\n".join(lines)


def is_told_environment(folded: Folded, folder: Path) -> bool:
    """Return whether the model has received the environment of this directory."""
    return folded.opened is not None and folded.opened.folder == str(folder) and bool(folded.entries)


def environment_news(folded: Folded, now_is: Environment, now: float) -> list[str]:
    """Return the environment if the model has not received it yet, and its changes, before a prompt."""
    news: list[str] = []
    if not is_told_environment(folded, now_is.folder):
        news.append(environment_context(now_is, now))
    elif not _knows_model(folded, now_is.model):
        news.append(_model_text(now_is.model))
    if not _knows_cwd(folded, now_is.cwd):
        news.append(_cwd_text(now_is.cwd))
    if folded.opened is not None or now_is.mode == "plan":  # else nothing that could have changed was sent
        news += news_of_environment(folded, now_is)
    if folded.metadata:
        news += news_of_pins(folded)
    return news


def _model_text(model: str) -> str:
    return f"{MODEL_HEADING}\nThe model is {shown_name(model)} from now on."


def _cwd_text(cwd: str) -> str:
    where = "the project directory" if cwd == "." else shown_name(cwd)
    return f"{EnvironmentHeading.DIRECTORY}\nCommands run in {where}."


def _knows_model(folded: Folded, model: str) -> bool:
    """Return whether this model is the one that was named last; older sessions only recorded it."""
    line = f"\n{_MODEL_LINE}{shown_name(model)}\n"
    for _, text in reversed(own_words_sent(folded)):
        if text.startswith(MODEL_HEADING):
            return text == _model_text(model)
        if text.startswith(ENVIRONMENT_HEADING) and f"\n{_MODEL_LINE}" in text:
            return line in text
    return folded.opened is None or folded.opened.model == model


def _knows_cwd(folded: Folded, cwd: str) -> bool:
    """Return whether results and prompts last named this as the directory of commands."""
    own_words = own_words_sent(folded) if folded.entries else []
    last = next(
        (text for _, text in reversed(own_words) if text.startswith(EnvironmentHeading.DIRECTORY)), ""
    )
    return last == _cwd_text(cwd) if last else cwd == "."


def news_of_environment(folded: Folded, now_is: Environment) -> list[str]:
    """Return the changes to the environment since the model was last informed, for the next prompt.

    In the permission mode "plan" every prompt says so.
    """
    planning = now_is.mode == "plan"
    own_words = _newest_words(folded)
    news = [plan_text(now_is.tools)] if planning else []
    if now_is.commands is not None:
        news += _news_of_commands(folded, own_words, now_is.commands, now_is.mode)
    last = next((text for text in own_words if text.startswith(_PLAN_HEAD)), "")
    if not planning and last.startswith(PLANNING):
        news.append(END_OF_PLAN_TEXT)
    return news


def _newest_words(folded: Folded) -> list[str]:
    """Return makeroom's own words that the model was sent, the newest first."""
    return [text for _, text in reversed(own_words_sent(folded))]


def _news_of_commands(folded: Folded, own_words: Sequence[str], commands: str, mode: str) -> list[str]:
    """Return the text about commands in a permission mode, if the last one of `own_words` is another."""
    if folded.opened is None:
        return []
    before = next((text for text in (*own_words, *folded.opened.system) if text in _COMMAND_TEXTS), OPEN_TEXT)
    now = text_in_mode(commands, mode) or OPEN_TEXT
    return [now] if now != before else []


def post_command_text(inbox: Inbox, folded: Folded, text: str, mode: str) -> None:
    """Send the model the text about commands in a permission mode, if it was last sent another one."""
    key = "commands"
    inbox.withdraw(key)
    for news in _news_of_commands(folded, _newest_words(folded), text, mode):
        inbox.post(news, key, folded.last_seq + 1)


def post_planning(inbox: Inbox, tools: Container[str], planning: bool) -> None:
    """Tell the model that plan mode began or ended, unless it does not know of the last change."""
    if PLAN_KEY in inbox.waiting:
        inbox.withdraw(PLAN_KEY)
    else:
        inbox.post(plan_text(tools) if planning else END_OF_PLAN_TEXT, PLAN_KEY)


def news_of_pins(folded: Folded) -> list[str]:
    """Return the changes to the pins since a summary or a prompt last showed them to the model."""
    if not any(note.topic == "pin" for note in folded.metadata):
        return []
    made = (each for each in in_force(folded) if each.layer in ("summary", "ledger"))
    records = (each.seq for each in made if any(isinstance(edit, Fold) for edit in each.edits))
    shown = (seq for seq, text in own_words_sent(folded) if text.startswith(EnvironmentHeading.PINS))
    since = max((*records, *shown), default=0)
    before = pins_of(note for note in folded.metadata if note.seq < since).values()
    now = pins_of(folded.metadata).values()
    lines = [f"- pinned by the user; applies from now on: {text}" for text in now if text not in before]
    lines += [f"- no longer pinned; no longer applies: {text}" for text in before if text not in now]
    return ["\n".join((EnvironmentHeading.PINS, *lines))] if lines else []


class SentWords(NamedTuple):
    """Words of makeroom's own, and the seq of the entry that shows them."""

    seq: int
    text: str


class _WordsTrail(FactTrail):
    """makeroom's own words in the facts read so far."""

    words: list[SentWords] = field(default_factory=list)


def own_words_sent(folded: Folded) -> list[SentWords]:
    """Return makeroom's own words to the model, oldest first.

    A result that moved the current directory counts as words about it. Each fact is read once.
    """
    trail = folded.memo(_WordsTrail)
    channel = Channel(folded.tag)
    for fact in trail.unread(folded, User, Result):
        if isinstance(fact, User):
            trail.words += _words_in(fact.blocks, channel, fact.seq)
        elif isinstance(fact, Result):
            words = _words_in(fact.content, channel, fact.of)
            if "cwd" in fact.about:
                words.append(SentWords(fact.of, _cwd_text(str(fact.about["cwd"]))))
            if words and folded.conversation.shows(fact):  # mostly there are none
                trail.words += words
    return trail.words


def _words_in(blocks: Iterable[Block], channel: Channel, seq: int) -> list[SentWords]:
    """Return makeroom's own words in blocks that the entry `seq` shows."""
    return [SentWords(seq, text) for block in blocks if (text := channel.words(block)) is not None]
