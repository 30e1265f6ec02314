"""Show a resumed session as it looked when it ran: emit events for its newest exchanges."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from agent.events import (
    CommandOutput,
    ContextCompacted,
    EarlierMessages,
    Emit,
    Event,
    Notice,
    PromptReplayed,
    ToolCallFinished,
)
from compact import compaction_notice, is_announced
from tools.base import Tool, ToolError
from transcripts import (
    DataTag,
    Display,
    Entry,
    Exchange,
    Folded,
    Metadata,
    Prompt,
    Result,
    ToolUseBlock,
    short_sid,
    unquoted_data,
    with_paste_labels,
)
from transcripts.wording import shorten

from .late_news import ended_commands
from .session import Session

MAX_RECENT_PROMPTS = 3
MAX_ANSWER_CHARS = 12_000  # of one answer, which is cut at the end of a line
SHOWN_PROMPT_LINES = 8


def show_replayed(session: Session, tools: Mapping[str, Tool], emit: Emit, policy: str = "thrifty") -> None:
    """Emit the newest exchanges of a resumed session, after a line about the earlier ones.

    `policy` decides which compactions are shown.
    """
    _show_recent(session, tools, emit, policy)
    last = session.folded.conversation.last_exchange
    if last is not None and last.open:
        results = last.results
        running = [_call(use, tools) for index, use in last.uses.items() if index not in results]
        calls = ", ".join(f"`{each}`" for each in running)
        text = f"the previous run was interrupted during {calls}"
        text = f"{text}; {'it' if len(running) == 1 else 'they'} may have partially run"
        emit(Notice(text, "warning"))
    if ended := ended_commands(session.folded):
        emit(Notice(f"background commands were stopped when the session ended: {', '.join(ended)}"))
    if session.folded.entries:
        emit(Notice(f"resumed session {session.sid}{_of_which(session.folded.metadata)}"))


def show_rewound(session: Session, tools: Mapping[str, Tool], emit: Emit, policy: str = "thrifty") -> None:
    """Emit the last exchange that a rewind left, since the removed ones stay on the screen above."""
    if any(map(_is_prompt, session.folded.entries)):
        emit(Notice("the conversation now ends here:"))
        _show_recent(session, tools, emit, policy, prompts=1)
    else:
        emit(Notice("the conversation is now empty: the model sees none of the messages above"))


def _show_recent(
    session: Session,
    tools: Mapping[str, Tool],
    emit: Emit,
    policy: str,
    prompts: int = MAX_RECENT_PROMPTS,
) -> None:
    entries = session.folded.entries
    first = recent_start(entries, prompts)
    newest = _newest_prompt(entries, first)
    if before := entries[max(0, first - 400) : first]:  # `makeroom sessions show` prints all
        earlier = _messages_before(session.folded, min(first, newest))
        emit(EarlierMessages(earlier, tuple(_events(before, session, tools))))
    if newest < first:  # a long turn: its end, below the prompt
        for event in _events(entries[newest : newest + 1], session, tools):
            emit(event)
    made = deque(_shown_compactions(session, entries[first].seq if entries else 0, policy))
    for entry in entries[first:]:
        while made and made[0][0] < entry.seq:
            emit(made.popleft()[1])
        for event in _events([entry], session, tools):
            emit(event)
    for _, event in made:
        emit(event)


class _MessageCount(Struct):
    """The number of messages among the first `upto` entries."""

    upto: int = 0
    messages: int = 0


def count_earlier(folded: Folded) -> None:
    """Count the messages that `show_replayed` does not show, which takes 0.05 s in a session of 500 MB."""
    first = recent_start(folded.entries)
    _messages_before(folded, min(first, _newest_prompt(folded.entries, first)))


def _newest_prompt(entries: Sequence[Entry], default: int) -> int:
    """Return the index of the user's newest prompt."""
    return next((at for at in range(len(entries) - 1, -1, -1) if _is_prompt(entries[at])), default)


def _messages_before(folded: Folded, end: int) -> int:
    """Return the number of messages among the first entries; each is looked at once."""
    known = folded.memo(_MessageCount)
    if known.upto > end:
        known.upto = known.messages = 0
    known.messages += sum(map(_is_message, folded.entries[known.upto : end]))
    known.upto = end
    return known.messages


def _of_which(notes: Sequence[Metadata]) -> str:
    """Describe the session that this one is a copy of, and its last message; "" if it is not a copy."""
    fork = next((note.about for note in reversed(notes) if note.topic == Metadata.FORK), None)
    if fork is None:
        return ""
    end = f" up to r{fork['at']}" if fork.get("at") else ""
    return f", a fork of {short_sid(str(fork.get('of')))}{end}"


MAX_RECENT_CALLS = 30
MAX_RECENT_CHARS = 20_000  # of prompts and answers; the newest entry is always shown


def recent_start(entries: Sequence[Entry], most: int = MAX_RECENT_PROMPTS) -> int:
    """Return the index of the first entry to show: the last prompts with their answers, within limits."""
    prompts = calls = chars = 0
    for at in range(len(entries) - 1, -1, -1):
        entry = entries[at]
        chars += sum(min(len(text), MAX_ANSWER_CHARS) for text in _texts(entry))
        calls += len(entry.uses) if isinstance(entry, Exchange) else 0
        if (calls > MAX_RECENT_CALLS or chars > MAX_RECENT_CHARS) and at < len(entries) - 1:
            return at + 1
        prompts += _is_prompt(entry)
        if prompts == most:
            return at
    return 0


def _is_prompt(entry: Entry) -> bool:
    return isinstance(entry, Prompt) and entry.fact.source == "user"


def _is_message(entry: Entry) -> bool:
    """Return whether an entry is a prompt of the user or a final answer: what a user calls a message."""
    if isinstance(entry, Prompt):
        return bool(entry.texts)
    return not entry.calls and bool(entry.fact.text.strip())


def _texts(entry: Entry) -> list[str]:
    return entry.texts if isinstance(entry, Prompt) else [entry.fact.text]


def _events(entries: Sequence[Entry], session: Session, tools: Mapping[str, Tool]) -> Iterator[Event]:
    for entry in entries:
        if isinstance(entry, Prompt):
            yield from _prompt_events(entry)
        elif not entry.superseded:
            if text := entry.fact.text.strip():
                yield CommandOutput(_cut(text, entry.seq), "markdown")
            uses = entry.uses
            for index, result in sorted(entry.results.items()):
                use = uses[index]
                shown = _without_content(result) if result.seq in session.deferred else result
                name, title = _heading(use, tools)
                yield ToolCallFinished(
                    entry.seq, block=index, name=name, title=title, result=shown, seconds=0.0
                )


def _shown_compactions(session: Session, since: int, policy: str) -> Iterator[tuple[int, Event]]:
    """Yield (seq, notice) of the compactions since a fact that were shown, except undone ones."""
    before = next((each for each in reversed(session.folded.compactions) if each.seq <= since), None)
    made = [each for each in session.folded.compactions if each.seq > since]
    made = [each for each in made if each.id not in session.folded.undone and "cold" in each.report]
    for _, group in groupby(enumerate(made), lambda pair: (pair[1].seq - pair[0], pair[1].trigger)):
        together = [each for _, each in group]  # consecutive ones were planned and shown as one
        is_shown = is_announced(together, policy, before)
        before = together[-1]
        if is_shown:
            ids = tuple(each.id for each in together)
            line = compaction_notice(together)
            trigger = together[0].trigger
            yield (
                together[0].seq,
                ContextCompacted(line, trigger=trigger, ids=ids, report=together[-1].report),
            )


def _prompt_events(prompt: Prompt) -> Iterator[Event]:
    for text in prompt.texts:
        own = unquoted_data(text, DataTag.OWN_COMMAND)
        if own is not None and own.startswith("$ "):
            command, _, output = own.removeprefix("$ ").partition("\n")
            yield PromptReplayed(f"!{command}")
            yield CommandOutput(output)
        else:
            yield PromptReplayed(_cut_prompt(text, prompt.seq))
    for attachment in filter(None, (block.attachment for block in prompt.fact.blocks)):
        yield Notice(f"{'listed' if attachment.kind == 'Folder' else 'read'} {attachment.name}")


def _cut_prompt(text: str, seq: int) -> str:
    """Return the first lines of a long prompt, with labels for what was pasted into it."""
    text = with_paste_labels(text)
    lines = text.strip("\n").split("\n")
    if len(lines) <= 20:
        return _cut(text, seq)
    head = "\n".join(lines[:SHOWN_PROMPT_LINES])
    left = len(lines) - SHOWN_PROMPT_LINES
    return f"{_cut(head, seq)}\n… {left:,} more lines (show them with /recall r{seq})"


def _cut(text: str, seq: int) -> str:
    """Return the beginning of a long answer, to the end of a line."""
    if len(text) <= MAX_ANSWER_CHARS:
        return text
    end = max(text.rfind("\n", 0, MAX_ANSWER_CHARS), MAX_ANSWER_CHARS // 2)
    return f"{text[:end]}\n\n… {len(text) - end:,} more characters (show them with /recall r{seq})"


def _without_content(result: Result) -> Result:
    """Return a placeholder for a result that was left in the file because it is not in the context."""
    return replace(result, human=Display(text=f"(not in the context; show it with /recall r{result.seq})"))


def _call(use: ToolUseBlock, tools: Mapping[str, Tool]) -> str:
    """Describe a call in a few words, so that the user can check its effect."""
    name, title = _heading(use, tools)
    return f"{name} {shorten(' '.join(title.split()), 80)}".rstrip()


def _heading(use: ToolUseBlock, tools: Mapping[str, Tool]) -> tuple[str, str]:
    """Return the name and the title of a call as they were shown when it ran."""
    try:
        return tools[use.name].heading(use.input)
    except (KeyError, ToolError):
        return use.name, next((value for value in use.input.values() if isinstance(value, str)), "")
