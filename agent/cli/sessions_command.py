"""`makeroom sessions`: list, show, search and export sessions, in plain text and without a model.

    sessions [list]              the sessions of this folder, newest first, each with its agents
    sessions show ID             one conversation
    sessions search WORDS        the same as `recall WORDS`
    sessions export ID [FILE]    .md (the default), .html, .json or .jsonl; `-` writes to standard output

ID is an id, the beginning of one, a name, or a file (of another agent too).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from agent.menus import session_line
from transcripts import ProjectRecords, SessionSummary, StoreError
from transcripts.export import conversation_text, export_text, load_conversation, write_private

from .command_words import asks_for_help
from .recall_command import complain, environment_masks, print_text, run_recall


def run_sessions(words: list[str], folder: Path | None = None) -> int:
    """Run `sessions` with these words. Exit code 0, 1 when nothing was found, 2 for bad usage."""
    action, rest = (words[0], words[1:]) if words else ("list", [])
    if asks_for_help(words):
        return print_text(__doc__ or "")
    if action not in ACTIONS:
        return complain(f"unknown: sessions {action}; it is one of {', '.join(ACTIONS)}")
    try:
        return ACTIONS[action](rest, folder or Path.cwd())
    except (StoreError, ValueError) as error:
        return complain(str(error))
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def list_sessions(words: list[str], folder: Path) -> int:
    """The sessions of the folder."""
    if words:
        return complain("sessions list takes nothing more; sessions search WORDS looks for words")
    found = ProjectRecords(folder).sessions()
    if not found:
        return print_text(f"no sessions are kept in {folder}")
    masks = environment_masks()
    return print_text("\n".join(session_line(one, masks, depth) for depth, one in in_tree_order(found)))


def in_tree_order(listed: Sequence[SessionSummary]) -> list[tuple[int, SessionSummary]]:
    """Pair each session with its depth: nested ones, the oldest first, behind the one that started them."""
    known = {one.sid for one in listed}
    nested: dict[str, list[SessionSummary]] = {}
    for one in reversed(listed):
        if one.parent in known:
            nested.setdefault(one.parent or "", []).append(one)
    return [
        (depth, each)
        for top in listed
        if top.parent not in known
        for depth, each in ((0, top), *((1, child) for child in nested.get(top.sid, ())))
    ]


def show_session(words: list[str], folder: Path) -> int:
    """One conversation."""
    if len(words) != 1:
        return complain("sessions show takes one id, name or file")
    return print_text(conversation_text(words[0], folder, environment_masks()))


def search_sessions(words: list[str], folder: Path) -> int:
    """Print the best matches for the words in all sessions, the best first."""
    return run_recall([*words, "--scope", "project"] if words else [], folder)


def export_session(words: list[str], folder: Path) -> int:
    """Write a session to a file, or to standard output."""
    if len(words) not in (1, 2):
        return complain("sessions export takes an id, name or file, and where to write it")
    sid, folded = load_conversation(words[0], folder)
    target = words[1] if len(words) == 2 else f"{sid}.md"
    if target == "-":
        return print_text(
            export_text(folded, sid, ".md", masks=environment_masks()), raw=not sys.stdout.isatty()
        )
    path = folder / Path(target).expanduser()
    text = export_text(folded, sid, path.suffix or ".md", masks=environment_masks())
    try:
        write_private(path, text)
    except FileExistsError:
        return complain(f"{path} exists already; give another name")
    except OSError as error:
        return complain(f"{path} cannot be written: {error.strerror}")
    return print_text(f"written to {path.resolve()}")


ACTIONS: dict[str, Callable[[list[str], Path], int]] = {
    "list": list_sessions,
    "show": show_session,
    "search": search_sessions,
    "export": export_session,
}
