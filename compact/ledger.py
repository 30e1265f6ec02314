"""The ledger: what happened, kept without any model. Files, identifiers, commands, errors, constraints.

Made from the agent's own tool inputs and the results' exit codes, ranked by how recently and how often a
name was used; the same facts give the same text. Part of every summary, and the floor when there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import log

from transcripts.entries import Entry, Prompt
from transcripts.facts import Metadata, Result
from transcripts.messages import TextBlock, ToolResultBlock, ToolUseBlock, is_injected

from .clearing import path_in, text_of
from .identifiers import counted, names, strings
from .tokens import TokenCounter

HALF_LIFE = 60.0  # calls after which one use of a name counts half
_CONSTRAINT = re.compile(
    r"\b(?:do not|don't|dont|never|only|always|must not|mustn't|make sure|avoid|without)\b", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WRITERS = {"write", "edit", "multiedit", "notebookedit", "str_replace_based_edit_tool", "create"}
_RUNNERS = {"bash", "shell", "run", "execute"}
SAID, SEEN = 0.5, 0.15  # what a name weighs in a text of the model, in a result; in a tool input, 1
LOOKED_AT = 60_000  # characters of a result
_LONGEST = 300  # characters of a constraint
_ERROR = 160  # characters of an error
NUMBERS = 15  # that are appended to a summary which lacks them
IMPORTANT = 40  # of each kind, for the check of a summary
_NUMBER = re.compile(r"(?<![\w.,:/-])\d[\d.,:]*\d(?![\w/-])")


@dataclass(slots=True)
class Ledger:
    """What the entries say. Scores are sums over uses, each halved every HALF_LIFE calls."""

    read: dict[str, float] = field(default_factory=dict)
    changed: dict[str, float] = field(default_factory=dict)
    names: dict[str, float] = field(default_factory=dict)
    commands: list[tuple[str, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    constraints: list[tuple[str, str]] = field(default_factory=list)
    numbers: dict[str, float] = field(default_factory=dict)


def keep_ledger(entries: Iterable[Entry]) -> Ledger:
    """The ledger of a conversation."""
    ledger, calls = Ledger(), 0
    for entry in entries:
        if isinstance(entry, Prompt):
            ledger.constraints.extend(_constraints(entry))
            continue
        for index, use in entry.uses.items():
            calls += 1
            _enter(ledger, use, entry.results.get(index), _weight(calls))
        for block in entry.fact.blocks:
            if isinstance(block, TextBlock):
                weight = SAID * _weight(calls)
                _score(ledger.names, names(block.text), weight)
                _score(ledger.numbers, {n for n in _NUMBER.findall(block.text) if len(n) > 2}, weight)
    return ledger


def _enter(ledger: Ledger, use: ToolUseBlock, result: Result | None, weight: float) -> None:
    path, name = path_in(use), use.name.lower()
    if path:
        _score(ledger.changed if name in _WRITERS else ledger.read, [path], weight)
    _score(ledger.names, names("\n".join(strings(use.input))), weight)
    if result is not None:
        for seen, times in counted(text_of(ToolResultBlock("", result.content))[:LOOKED_AT]).items():
            _score(ledger.names, [seen], SEEN * weight * (1 + log(times)))
    if name in _RUNNERS and isinstance(command := use.input.get("command"), str):
        code = result.about.get("exit") if result is not None else None
        failed = result is not None and result.error
        ledger.commands.append(
            (" ".join(command.split()), str(code) if code is not None else "error" * failed)
        )
    if result is not None and result.error:
        text = "\n".join(block.text for block in result.content if isinstance(block, TextBlock))
        ledger.errors.append(f"{use.name} {path}: {_last_line(text)}"[:_ERROR])


def _weight(calls: int) -> float:
    """Of a use after so many calls: newer ones weigh more; only the ratios count."""
    return float(2.0 ** (calls / HALF_LIFE % 900))  # bounded: a float ends at 2 ** 1023


def important(ledger: Ledger) -> dict[str, list[str]]:
    """What a summary should name: the paths, identifiers and numbers in most and latest use."""
    paths = {**ledger.names, **ledger.read, **ledger.changed}
    return {
        "paths": [name for name in _ranked(paths) if "/" in name or "." in name][:IMPORTANT],
        "identifiers": [name for name in _ranked(ledger.names) if "/" not in name and "." not in name][
            :IMPORTANT
        ],
        "numbers": _ranked(ledger.numbers)[: IMPORTANT // 2],
    }


def _score(scores: dict[str, float], found: Iterable[str], weight: float) -> None:
    for name in found:
        scores[name] = scores.get(name, 0.0) + weight


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _constraints(entry: Prompt) -> Iterator[tuple[str, str]]:
    if entry.fact.source != "user":
        return
    for index, block in enumerate(entry.fact.blocks):
        if isinstance(block, TextBlock) and not is_injected(block):
            for sentence in _SENTENCE.split(block.text):
                sentence = " ".join(sentence.split())
                if 8 < len(sentence) <= _LONGEST and _CONSTRAINT.search(sentence):
                    yield sentence, f"r{entry.seq}.{index}"


def pins_of(notes: Iterable[Metadata]) -> dict[int, str]:
    """What the person pinned, by number."""
    pins: dict[int, str] = {}
    for note in notes:
        if note.topic == "pin":
            pins[int(note.about["id"])] = str(note.about["text"])
        elif note.topic == "unpin":
            pins.pop(int(note.about["id"]), None)
    return pins


def ledger_text(ledger: Ledger, count: TokenCounter, limit: int, skip: str = "") -> str:
    """The ledger as text of at most `limit` tokens; names that `skip` holds already are left out.

    `skip` is what the model is shown beside it. Files, errors and commands have not quite half of the room,
    the rest is for names: one line of names is worth more to the work that follows than one more command.
    """
    sections: list[str] = []
    left = limit
    commands = [f"{line[:120]}{f' -> {code}' if code else ''}" for line, code in reversed(ledger.commands)]
    for title, rows, share in (
        ("Files changed", _ranked(ledger.changed), 0.12),
        ("Files read", [p for p in _ranked(ledger.read) if p not in ledger.changed], 0.12),
        ("Last errors", _unique(reversed(ledger.errors)), 0.06),
        ("Last commands", _unique(commands), 0.08),
    ):
        text, used = _section(title, rows, count, min(left, int(limit * share)))
        if text:
            sections.append(text)
            left -= used
    text, _ = _section("Names", _fresh_names(ledger, "\n".join([skip, *sections])), count, left)
    if text:
        sections.append(text)
    return "\n".join(sections)


def missing(ledger: Ledger, count: TokenCounter, limit: int, text: str) -> str:
    """Names and numbers in most and latest use that a text does not hold, in at most `limit` tokens."""
    numbers = [number for number in important(ledger)["numbers"] if number not in text]
    rows = [*numbers[:NUMBERS], *_fresh_names(ledger, text)]
    return _section("Names", rows, count, limit)[0].partition("  ")[2]


def _section(title: str, rows: Iterable[str], count: TokenCounter, room: int) -> tuple[str, int]:
    joint = ", " if title == "Names" else "\n  "
    kept: list[str] = []
    used = count.text(title) + 3
    for row in rows:
        cost = count.text(row) + 2
        if used + cost > room:
            break
        used += cost
        kept.append(row)
    return (f"{title}:{'' if joint == ', ' else chr(10)}  {joint.join(kept)}", used) if kept else ("", 0)


def _ranked(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=lambda name: (-scores[name], name))


def _fresh_names(ledger: Ledger, skip: str) -> Iterator[str]:
    return (name for name in _ranked({**ledger.read, **ledger.changed, **ledger.names}) if name not in skip)


def _unique(rows: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(rows))
