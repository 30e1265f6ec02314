"""`makeroom sessions`: list, show, search and export sessions, in plain text and without a model.

    sessions [list]              list the sessions of this directory and their agents, newest first
    sessions show ID             print a conversation
    sessions search WORDS        same as `recall WORDS`
    sessions export ID [FILE]    write a session to a .md (the default), .html, .json or .jsonl file, or to
                                 standard output if FILE is `-`
      --format FORMAT            md, html, json, jsonl or claude-code. Without FILE, claude-code writes to
                                 Claude Code's own directory for sessions of this project

ID is an id, the start of an id, a name, or a file (including other agents' files).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import get_terminal_size

from agent.menus import session_line
from agent.settings_files import claude_folder
from agent.ui import clip
from tools.text import escaped
from transcripts import ProjectRecords, SessionSummary, StoreError
from transcripts.export import (
    EXPORTERS,
    claude_code_lines,
    claude_code_path,
    conversation_pieces,
    export_pieces,
    load_conversation,
    mask_session,
    write_private,
)
from transcripts.storage import expand_home, make_private_folders
from transcripts.wording import cause_of

from .command_words import OneLineParser, asks_for_help
from .printing import announce, complain, environment_masks, print_pieces, print_text, show_usage
from .recall_command import run_recall

CLAUDE_CODE = "claude-code"
FORMATS = (*(suffix.removeprefix(".") for suffix in EXPORTERS), CLAUDE_CODE)


def run_sessions(words: list[str], folder: Path | None = None) -> int:
    """Run `sessions` with these words. Returns 0, 1 if nothing was found, 2 for a usage error."""
    action, rest = (words[0], words[1:]) if words else ("list", [])
    if asks_for_help(words):
        return print_text(__doc__ or "")
    if action not in ACTIONS:
        return complain(f"unknown command 'sessions {action}'; the commands are {', '.join(ACTIONS)}")
    try:
        return ACTIONS[action](rest, folder or Path.cwd())
    except (StoreError, ValueError) as error:
        return complain(str(error))


def list_sessions(words: list[str], folder: Path) -> int:
    """Print the sessions of the directory."""
    if words:
        return show_usage("sessions list")
    lines = session_lines(folder)
    if not lines:
        return print_text(f"no sessions in {folder}")
    if sys.stdout.isatty():
        lines = [clip(line, get_terminal_size().columns) for line in lines]
    return print_text("\n".join(lines))


def session_lines(folder: Path) -> list[str]:
    """Return a line for each session of the directory, which begins with its id. Raises StoreError."""
    found = ProjectRecords(folder).sessions()
    masks = environment_masks()
    now = time.time()
    return [escaped(session_line(one, now, masks, depth)) for depth, one in in_tree_order(found)]


def in_tree_order(listed: Sequence[SessionSummary]) -> list[tuple[int, SessionSummary]]:
    """Pair each session with its depth; nested ones follow the session that started them, oldest first."""
    sids = {one.sid for one in listed}
    nested: dict[str, list[SessionSummary]] = {}
    for one in reversed(listed):
        if one.parent in sids:
            nested.setdefault(one.parent or "", []).append(one)
    return [
        (depth, each)
        for top in listed
        if top.parent not in sids
        for depth, each in ((0, top), *((1, child) for child in nested.get(top.sid, ())))
    ]


def show_session(words: list[str], folder: Path) -> int:
    """Print one conversation."""
    if len(words) != 1:
        return show_usage("sessions show ID")
    _announce_export(words[0], folder)
    passages = conversation_pieces(load_conversation(words[0], folder, _warn), environment_masks())
    return print_pieces(passages)


def search_sessions(words: list[str], folder: Path) -> int:
    """Print the best matches for the words in all sessions, best first."""
    if not words:
        return show_usage("sessions search WORDS")
    return run_recall([*words, "--scope", "project"], folder)


def export_session(words: list[str], folder: Path) -> int:
    """Write a session to a file, or to standard output."""
    made = OneLineParser(prog="makeroom sessions export", add_help=False, allow_abbrev=False)
    made.add_argument("words", nargs="*")
    made.add_argument("--format", choices=FORMATS, default="")
    given = made.parse_intermixed_args(words)
    if len(given.words) not in (1, 2):
        return show_usage("sessions export ID [FILE] [--format FORMAT]")
    wanted: str = given.format
    _announce_export(given.words[0], folder)
    sid, folded, lazy_results = load_conversation(given.words[0], folder, _warn)
    target = given.words[1] if len(given.words) == 2 else ""
    suffix = f".{wanted}" if wanted else Path(target).suffix or ".md"
    project = Path(folded.opened.folder) if folded.opened and folded.opened.folder else folder.resolve()
    masks = environment_masks()
    if wanted == CLAUDE_CODE:
        pieces = claude_code_lines(mask_session(folded, sid, masks, lazy_results), project)
    else:
        pieces = export_pieces(folded, sid, suffix, lazy_results, masks)
    if target == "-":
        return print_pieces(pieces, raw=not sys.stdout.isatty())
    path = folder / expand_home(target or f"{sid}{suffix}")
    try:
        if wanted == CLAUDE_CODE and not target:
            path = claude_code_path(claude_folder(os.environ) / "projects", sid, project)
            make_private_folders(path.parent)
        write_private(path, pieces)
    except FileExistsError:
        return complain(f"cannot write {path}: the file exists; use another name")
    except OSError as error:
        return complain(f"cannot write {path}: {cause_of(error)}")
    return print_text(f"wrote {path.resolve()}")


def _announce_export(wanted: str, folder: Path) -> None:
    """Announce that a long session is about to be converted; most of the time is spent on finding secrets."""
    path = expand_home(wanted)
    announce("converting", path if path.is_file() else ProjectRecords(folder).find(wanted), 3e6)


def _warn(line: str) -> None:
    sys.stderr.write(f"warning: {escaped(line)}\n")


ACTIONS: dict[str, Callable[[list[str], Path], int]] = {
    "list": list_sessions,
    "show": show_session,
    "search": search_sessions,
    "export": export_session,
}
