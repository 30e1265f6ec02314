"""The ledger: an account of what happened that needs no model.

It holds files read and changed, names, commands with exit codes, errors, and the user's constraints, ranked
by how recently and how often they were used. The same entries give the same text. It is part of every record
of a fold, and stands alone where there is no summary. The weights and limits were measured on recorded
sessions, by how many of the names that the next 20 tool calls use are in the record.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from math import log

from transcripts.entries import Entry, Prompt
from transcripts.facts import Metadata, Result
from transcripts.messages import TextBlock, ToolUseBlock, is_injected
from transcripts.tool_kinds import ToolKind

from .identifiers import file_path_of, joined_text, name_counts, names, strings
from .tokens import TokenCounter

HALF_LIFE_CALLS = 60.0  # after which one use of a name counts half
SAID_WEIGHT, SEEN_WEIGHT = 0.5, 0.15  # of a name in a text of the model, in a result; in a tool input it is 1
MAX_SEARCHED_RESULT_CHARS = 60_000  # of a result, in which names are looked for
MIN_CONSTRAINT_CHARS, MAX_CONSTRAINT_CHARS = 9, 300
MAX_ERROR_CHARS = 160
MAX_LISTED_COMMAND_CHARS = 120
MIN_NUMBER_CHARS = 3
MAX_APPENDED_NUMBERS = 15  # appended to a summary that lacks them
MANY_NAMES = 200  # from so many on it is faster to find all names of a text first than to search it for each
CHECKED_NAMES = 40  # of each kind, in the coverage of a summary; half as many numbers
_CONSTRAINT = re.compile(
    r"\b(?:do not|don't|dont|never|only|always|must not|mustn't|make sure|avoid|without)\b", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_NUMBER = re.compile(r"(?<![\w.,:/-])\d[\d.,:]*\d(?![\w/-])")

Scores = dict[str, float]


@dataclass(slots=True)
class Ledger:
    """What a stretch of the conversation says. Scores are sums over uses, halved every HALF_LIFE_CALLS.

    commands are as they are listed, with exit code or "error"; constraints are (sentence, recall id).
    """

    read: Scores = field(default_factory=dict)
    changed: Scores = field(default_factory=dict)
    names: Scores = field(default_factory=dict)
    numbers: Scores = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    constraints: list[tuple[str, str]] = field(default_factory=list)


def build_ledger(entries: Iterable[Entry], kind_of: Callable[[str], ToolKind]) -> Ledger:
    """The ledger of a stretch of the conversation. `kind_of` tells the kind of a tool by its name."""
    ledger, kind_of, calls = Ledger(), cache(kind_of), 0
    for entry in entries:
        if isinstance(entry, Prompt):
            ledger.constraints.extend(_constraints(entry))
            continue
        for index, use in entry.uses.items():
            calls += 1
            _add_call(ledger, use, kind_of(use.name), entry.results.get(index), _weight(calls))
        for block in entry.fact.blocks:
            if isinstance(block, TextBlock):
                weight = SAID_WEIGHT * _weight(calls)
                found = {number for number in _NUMBER.findall(block.text) if len(number) >= MIN_NUMBER_CHARS}
                _add(ledger.names, names(block.text), weight)
                _add(ledger.numbers, found, weight)
    return ledger


def _add_call(
    ledger: Ledger, use: ToolUseBlock, kind: ToolKind, result: Result | None, weight: float
) -> None:
    path = file_path_of(use)
    if path:
        _add(ledger.changed if kind == "writes" else ledger.read, [path], weight)
    _add(ledger.names, names("\n".join(strings(use.input))), weight)
    text = joined_text(result.content) if result is not None else ""
    for name, times in name_counts(text[:MAX_SEARCHED_RESULT_CHARS]).items():
        _add(ledger.names, [name], SEEN_WEIGHT * weight * (1 + log(times)))
    failed = result is not None and result.error
    if kind == "runs" and isinstance(command := use.input.get("command"), str):
        code = result.about.get("exit") if result is not None else None
        ended = f" -> {code}" if code is not None else " -> error" * failed
        ledger.commands.append(f"{' '.join(command.split())[:MAX_LISTED_COMMAND_CHARS]}{ended}")
    if failed:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        ledger.errors.append(f"{use.name} {path}: {lines[-1] if lines else ''}"[:MAX_ERROR_CHARS])


def _weight(calls: int) -> float:
    """The weight of a use after so many calls: newer ones weigh more, and only the ratios count."""
    return float(2.0 ** (calls / HALF_LIFE_CALLS % 900))  # bounded: a float ends at 2 ** 1023


def _add(scores: Scores, found: Iterable[str], weight: float) -> None:
    for name in found:
        scores[name] = scores.get(name, 0.0) + weight


def _constraints(entry: Prompt) -> Iterator[tuple[str, str]]:
    """(sentence, recall id) of each constraint in the user's own words."""
    if entry.fact.source != "user":
        return
    for index, block in enumerate(entry.fact.blocks):
        if isinstance(block, TextBlock) and not is_injected(block):
            for sentence in _SENTENCE_END.split(block.text):
                sentence = " ".join(sentence.split())
                fits = MIN_CONSTRAINT_CHARS <= len(sentence) <= MAX_CONSTRAINT_CHARS
                if fits and _CONSTRAINT.search(sentence):
                    yield sentence, f"r{entry.seq}.{index}"


def pins_of(notes: Iterable[Metadata]) -> dict[int, str]:
    """The texts that the user has pinned, by number."""
    pins: dict[int, str] = {}
    for note in notes:
        if note.topic == "pin":
            pins[int(note.about["id"])] = str(note.about["text"])
        elif note.topic == "unpin":
            pins.pop(int(note.about["id"]), None)
    return pins


def ledger_text(ledger: Ledger, counter: TokenCounter, limit: int, skip: str = "") -> str:
    """The ledger in at most `limit` tokens of our count, without the names that are in `skip`.

    `skip` is what the model is shown beside the ledger. Files, errors and commands get just under half of
    the limit, because a line of names is worth more to the work that follows than one more command.
    """
    sections: list[str] = []
    left = limit
    for title, rows, share in (
        ("Files changed", _ranked(ledger.changed), 0.12),
        ("Files read", [path for path in _ranked(ledger.read) if path not in ledger.changed], 0.12),
        ("Last errors", dict.fromkeys(reversed(ledger.errors)), 0.06),
        ("Last commands", dict.fromkeys(reversed(ledger.commands)), 0.08),
    ):
        kept, used = _fitting(title, rows, counter, min(left, int(limit * share)))
        if kept:
            sections.append("\n  ".join([f"{title}:", *kept]))
            left -= used
    named, _ = _fitting("Names", _names_not_in("\n".join([skip, *sections]), ledger), counter, left)
    return "\n".join([*sections, *([f"Names:  {', '.join(named)}"] if named else [])])


def missing_names(ledger: Ledger, counter: TokenCounter, limit: int, text: str) -> str:
    """The most used and latest numbers and names that `text` lacks, in at most `limit` tokens."""
    numbers = [number for number in _most_used(ledger)["numbers"] if number not in text]
    # Lazy: names are searched for only as long as there is room for one more.
    rows = chain(numbers[:MAX_APPENDED_NUMBERS], _names_not_in(text, ledger))
    return ", ".join(_fitting("Names", rows, counter, limit)[0])


def _fitting(title: str, rows: Iterable[str], counter: TokenCounter, room: int) -> tuple[list[str], int]:
    """As many rows as fit with their title into `room` tokens, and the tokens that they take."""
    kept: list[str] = []
    used = counter.text(title) + 3
    for row in rows:
        tokens = counter.text(row) + 2
        if used + tokens > room:
            break
        used += tokens
        kept.append(row)
    return kept, used


def coverage(ledger: Ledger, summary: str, kept: str) -> dict[str, list[int]]:
    """What a summary covers, by kind of name: [named by the summary, by all that is kept, of so many]."""
    return {
        kind: [sum(name in summary for name in found), sum(name in kept for name in found), len(found)]
        for kind, found in _most_used(ledger).items()
    }


def _most_used(ledger: Ledger) -> dict[str, list[str]]:
    """The paths, identifiers and numbers in most and latest use, which a summary should name."""
    paths = _ranked({**ledger.names, **ledger.read, **ledger.changed})
    return {
        "paths": [name for name in paths if _is_path(name)][:CHECKED_NAMES],
        "identifiers": [name for name in _ranked(ledger.names) if not _is_path(name)][:CHECKED_NAMES],
        "numbers": _ranked(ledger.numbers)[: CHECKED_NAMES // 2],
    }


def _is_path(name: str) -> bool:
    return "/" in name or "." in name


def _ranked(scores: Scores) -> list[str]:
    return sorted(scores, key=lambda name: (-scores[name], name))


def _names_not_in(text: str, ledger: Ledger) -> Iterator[str]:
    ranked = _ranked({**ledger.read, **ledger.changed, **ledger.names})
    written = names(text) if len(ranked) > MANY_NAMES else ()
    return (name for name in ranked if name not in written and name not in text)
