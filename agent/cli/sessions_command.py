"""`python -m agent sessions`: list, show, search and export sessions, in plain text and without a model.

    sessions [list]              the sessions of this folder, newest first
    sessions show ID             one conversation
    sessions search WORDS        prompts, replies and outputs of all of them that hold all the words
    sessions export ID [FILE]    .md (the default), .html, .json or .jsonl; `-` writes to standard output

ID is an id, the beginning of one, a name, or a file (of another agent too).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from agent.menus import session_line
from agent.session.conversation_text import conversation_text, load_conversation
from tools.truncate import escaped
from transcripts.export import export_text, write_private
from transcripts.facts import Fact, Reply, Result, User
from transcripts.listing import recorded_sessions
from transcripts.load import read_record
from transcripts.masking import SecretMasks
from transcripts.messages import without_injected
from transcripts.record_errors import StoreError
from transcripts.render_text import content_text, fact_text, speaker_of
from transcripts.secret_forms import secret_values

MAX_HITS = 50  # of a search
EXCERPT_CHARS = 100
USAGE_ERROR_CODE = 2


def main(words: list[str], folder: Path | None = None) -> int:
    """Run `sessions` with these words. Exit code 0, 1 when nothing was found, 2 for bad usage."""
    action, rest = (words[0], words[1:]) if words else ("list", [])
    if action in ("-h", "--help", "help"):
        return _print(__doc__ or "")
    if action not in ACTIONS:
        return _complain(f"unknown: sessions {action}; it is one of {', '.join(ACTIONS)}")
    try:
        return ACTIONS[action](rest, folder or Path.cwd())
    except (StoreError, ValueError) as error:
        return _complain(str(error))
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def list_sessions(words: list[str], folder: Path) -> int:
    """The sessions of the folder."""
    if words:
        return _complain("sessions list takes nothing more; sessions search WORDS looks for words")
    found = recorded_sessions(folder)
    if not found:
        return _print(f"no sessions are kept in {folder}")
    masks = _masks()
    return _print("\n".join(session_line(summary, masks) for summary in found))


def show_session(words: list[str], folder: Path) -> int:
    """One conversation."""
    if len(words) != 1:
        return _complain("sessions show takes one id, name or file")
    return _print(conversation_text(words[0], folder, _masks()))


def search_sessions(words: list[str], folder: Path) -> int:
    """The prompts, replies and outputs of all sessions that hold all the words, newest session first."""
    wanted = " ".join(words).casefold().split()
    if not wanted:
        return _complain("sessions search takes the words to look for")
    hits = 0
    for summary in recorded_sessions(folder):
        for fact, excerpt in _hits(read_record(summary.path).facts, wanted):
            _print(f"{summary.sid}  r{fact.seq:<5} {speaker_of(fact):<9}  {excerpt}")
            hits += 1
            if hits >= MAX_HITS:
                return _print("... and more: give more words")
    return 0 if hits else 1


def export_session(words: list[str], folder: Path) -> int:
    """Write a session to a file, or to standard output."""
    if len(words) not in (1, 2):
        return _complain("sessions export takes an id, name or file, and where to write it")
    sid, folded = load_conversation(words[0], folder)
    target = words[1] if len(words) == 2 else f"{sid}.md"
    if target == "-":
        return _print(export_text(folded, sid, ".md", masks=_masks()), raw=not sys.stdout.isatty())
    path = folder / Path(target).expanduser()
    text = export_text(folded, sid, path.suffix or ".md", masks=_masks())
    try:
        write_private(path, text)
    except FileExistsError:
        return _complain(f"{path} exists already; give another name")
    except OSError as error:
        return _complain(f"{path} cannot be written: {error.strerror}")
    return _print(f"written to {path.resolve()}")


ACTIONS: dict[str, Callable[[list[str], Path], int]] = {
    "list": list_sessions,
    "show": show_session,
    "search": search_sessions,
    "export": export_session,
}


def _masks() -> SecretMasks:
    """The secrets of the environment: they are shown nowhere."""
    return SecretMasks(secret_values(os.environ))


def _hits(facts: list[Fact], wanted: list[str]) -> Iterator[tuple[Fact, str]]:
    masks = _masks()
    for fact in facts:
        match fact:
            case User():
                text = content_text(without_injected(fact.blocks))
            case Reply() | Result():
                text = fact_text(fact)
            case _:
                continue
        folded = text.casefold()
        if all(word in folded for word in wanted):
            text = masks.all(text)
            start = max(0, text.casefold().find(wanted[0]) - EXCERPT_CHARS // 3)
            yield fact, " ".join(text[start : start + EXCERPT_CHARS].split())


def _print(text: str, *, raw: bool = False) -> int:
    """Print the text; unless it is to be `raw`, control characters are escaped."""
    shown = text if raw else escaped(text)
    sys.stdout.write(shown.encode("utf-8", "replace").decode() + ("" if shown.endswith("\n") else "\n"))
    sys.stdout.flush()
    return 0


def _complain(line: str) -> int:
    sys.stderr.write(f"{escaped(line)}\n")
    return USAGE_ERROR_CODE
