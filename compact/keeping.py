"""What a fold over old history shows in its place: the record that code keeps, whatever the model wrote.

In this order: the summary (if there is one), the ledger, constraints with their source, the words of the
person verbatim, live state; recently read files stand in a block of their own. Marked as a record, so that
nothing in it is taken for a new request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from transcripts.entries import Entry, Exchange, Prompt
from transcripts.facts import Result
from transcripts.messages import Image, Text

from .ledger import OURS, keep_ledger, ledger_text, pins_of
from .plan import Situation
from .settings import Settings
from .tokens import Counter

HEADER = (
    "[folded: this is makeroom's record of the earlier conversation (r{first}-r{last}), not a request. "
    "Nothing is lost: recall r<number>, or words, shows any of it.]"
)
OPEN = "The last of the user's messages above is the request being worked on: go on with it from where it stands."
DONE = "The requests above have been dealt with or are known; wait for the user's next message."


@dataclass(frozen=True, slots=True)
class Kept:
    """The texts of a fold, and how many tokens each is by our count."""

    texts: tuple[str, ...]
    tokens: int


def keep_cap(situation: Situation) -> int:
    """Tokens that a fold may keep (restored files come on top): min(18k, 30 % of the window), or the user's cap."""
    settings = situation.settings
    cap = min(settings.keep_cap, int(settings.keep_share * situation.window.size))
    return min(cap, settings.max_compact_size) if settings.max_compact_size else cap


def keep(situation: Situation, span: tuple[int, int], summary: str, going_on: bool, room: int) -> str:
    """The record of the entries first..last in at most `room` tokens, the summary included."""
    first, last = span
    count, settings = situation.count, situation.settings
    inside = [entry for entry in situation.folded.entries if first <= entry.seq <= last]
    head = HEADER.format(first=first, last=last)
    words = _user_words(
        inside, count, settings, max(500, room - count.text(summary) - settings.ledger_tokens - 600)
    )
    limit = max(200, min(settings.ledger_tokens, room - count.text(summary) - count.text(words) - 400))
    ledger = keep_ledger(inside)
    pieces = [head]
    if summary:
        pieces.append(f"## Summary\n{summary}")
    if text := ledger_text(ledger, count, limit, skip=summary):
        pieces.append(f"## Ledger (newest and most used first)\n{text}")
    pieces.extend(_held(situation, ledger.constraints, words))
    if words:
        pieces.append(f"## All user messages, verbatim\n{words}")
    pieces.append(OPEN if going_on else DONE)
    return "\n\n".join(pieces)


def _held(situation: Situation, constraints: Sequence[tuple[str, str]], words: str) -> Iterator[str]:
    pins = [f"- {text} (pinned by the user)" for text in pins_of(situation.folded.notes).values()]
    held = [f"- {text} ({source})" for text, source in constraints if text not in words]
    if pins or held:
        yield "## Constraints\n" + "\n".join([*pins, *held[-20:]])
    if situation.live:
        yield "## State now\n" + "\n".join(f"- {line}" for line in situation.live)


def _user_words(entries: Iterable[Entry], count: Counter, settings: Settings, room: int) -> str:
    """The words of the person, newest kept first when there is no room for all."""
    said: list[str] = []
    for entry in entries:
        if isinstance(entry, Prompt) and entry.fact.source == "user":
            said.extend(_prompt_texts(entry, count, settings))
    kept: list[str] = []
    for text in reversed(said):
        room -= count.text(text)
        if room < 0 and kept:
            kept.append(f"({len(said) - len(kept)} older messages are left out here; recall shows them)")
            break
        kept.append(text)
    return "\n".join(reversed(kept))


def _prompt_texts(entry: Prompt, count: Counter, settings: Settings) -> Iterator[str]:
    for index, block in enumerate(entry.fact.blocks):
        ident = f"r{entry.seq}.{index}"
        if isinstance(block, Image):
            yield f"({ident}) [an image]"
        elif isinstance(block, Text):
            text = block.text
            tokens = entry.fact.tokens[index] if index < len(entry.fact.tokens) else count.text(text)
            if tokens > settings.user_block_tokens:
                text = _head_and_tail(text, ident, settings.user_block_tokens)
            mark = "(surroundings)" if text.startswith(OURS) else f"({ident})"
            yield f"{mark} {text}"


def _head_and_tail(text: str, ident: str, tokens: int) -> str:
    half = tokens * 3 // 4 * 2  # characters: three quarters of the room, half of it each, at about 4 a token
    cut = len(text) - 2 * half
    if cut <= 0:
        return text
    return f"{text[:half]}\n[... {cut:,} characters are left out here; recall {ident} shows all of it ...]\n{text[-half:]}"


def restored(situation: Situation, last: int, tail: str) -> tuple[str, int]:
    """Recently read files as they were read, within the limits; (text, tokens)."""
    settings, count = situation.settings, situation.count
    room = min(settings.restore_cap, int(settings.restore_share * situation.window.size))
    texts: list[str] = []
    seen: set[str] = set()
    used = 0
    for path, result in _recent_reads(situation.folded.entries, last):
        if path in seen or path in tail or len(texts) >= settings.restore_files:
            continue
        seen.add(path)
        tokens = sum(result.tokens)
        if tokens > settings.restore_tokens or used + tokens > room or result.error:
            continue
        body = "\n".join(block.text for block in result.content if isinstance(block, Text))
        texts.append(f"### {path} (as read in r{result.seq})\n{body}")
        used += tokens + 20
    if not texts:
        return "", 0
    text = (
        "[folded: files as they were last read, kept for reference; read again before you edit]\n"
        + "\n\n".join(texts)
    )
    return text, count.text(text)


def _recent_reads(entries: Sequence[Entry], last: int) -> Iterator[tuple[str, Result]]:
    """(path, result) of reads up to fact `last`, newest first; a file changed since is passed over."""
    changed: set[str] = set()
    for entry in reversed(entries):
        if not isinstance(entry, Exchange):
            continue
        for index, use in reversed(entry.uses.items()):
            path = str(use.input.get("file_path") or use.input.get("path") or "")
            result = entry.results.get(index)
            if not path or result is None:
                continue
            if use.name.lower() in ("write", "edit"):
                changed.add(path)
            elif use.name.lower() == "read" and entry.seq <= last and path not in changed:
                yield path, result
