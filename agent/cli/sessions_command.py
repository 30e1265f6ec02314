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

from agent.session.session_rows import line
from tools.truncate import escaped
from transcripts.facts import Compacted, Fact, Reply, Result, User
from transcripts.fold import Folded, fold
from transcripts.injected_context import without_injected
from transcripts.masking import SecretMasks, secret_values
from transcripts.messages import Block, TextBlock, ToolUseBlock
from transcripts.render_text import block_text, content_text, fact_text, speaker_of
from transcripts.store import StoreError, read_record, resolve, sessions

FOUND = 50  # hits of a search
WIDTH = 100
SHOWN = 2_000  # characters of one output


def main(argv: list[str], folder: Path | None = None) -> int:
    """Run `sessions` with these words. Exit code 0, 1 when nothing was found, 2 for bad usage."""
    folder = folder or Path.cwd()
    word, rest = (argv[0], argv[1:]) if argv else ("list", [])
    if word in ("-h", "--help", "help"):
        return _say(__doc__ or "")
    action = ACTIONS.get(word)
    if action is None:
        return _complain(f"unknown: sessions {word}; it is one of {', '.join(ACTIONS)}")
    try:
        return action(rest, folder)
    except (StoreError, ValueError) as error:
        return _complain(str(error))
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def list_(words: list[str], folder: Path) -> int:
    """The sessions of the folder."""
    if words:
        return _complain("sessions list takes nothing more; sessions search WORDS looks for words")
    found = sessions(folder)
    if not found:
        return _say(f"no sessions are kept in {folder}")
    masks = _masks()
    return _say("\n".join(line(one, masks) for one in found))


def show(words: list[str], folder: Path) -> int:
    """One conversation."""
    if len(words) != 1:
        return _complain("sessions show takes one id, name or file")
    return _say(shown(words[0], folder))


def search(words: list[str], folder: Path) -> int:
    """What all sessions say with these words in it, the newest first."""
    wanted = " ".join(words).casefold().split()
    if not wanted:
        return _complain("sessions search takes the words to look for")
    hits = 0
    for one in sessions(folder):
        for fact, excerpt in _hits(read_record(one.path).facts, wanted):
            _say(f"{one.sid}  r{fact.seq:<5} {speaker_of(fact):<9}  {excerpt}")
            hits += 1
            if hits >= FOUND:
                return _say("... and more: give more words")
    return 0 if hits else 1


def export(words: list[str], folder: Path) -> int:
    """Write a session to a file."""
    if len(words) not in (1, 2):
        return _complain("sessions export takes an id, name or file, and where to write it")
    from transcripts.export import export_text, write_private

    sid, folded = _session(words[0], folder)
    target = words[1] if len(words) == 2 else f"{sid}.md"
    if target == "-":
        return _say(export_text(folded, sid, ".md", masks=_masks()), safe=True)
    path = folder / Path(target).expanduser()
    text = export_text(folded, sid, path.suffix or ".md", masks=_masks())
    try:
        write_private(path, text)
    except FileExistsError:
        return _complain(f"{path} exists already; give another name")
    except OSError as error:
        return _complain(f"{path} cannot be written: {error.strerror}")
    return _say(f"written to {path.resolve()}")


ACTIONS: dict[str, Callable[[list[str], Path], int]] = {
    "list": list_,
    "show": show,
    "search": search,
    "export": export,
}


def _masks() -> SecretMasks:
    """What the variables with secret names hold: it is shown nowhere."""
    return SecretMasks(secret_values(os.environ))


def shown(wanted: str, folder: Path) -> str:
    """One conversation as text. Controls are not escaped. Raises StoreError, ValueError."""
    from transcripts.export import masked

    sid, folded = _session(wanted, folder)
    return "\n\n".join(_told(masked(folded, sid, _masks())))


def _session(wanted: str, folder: Path) -> tuple[str, Folded]:
    path = Path(wanted).expanduser()
    if path.is_file() and ("/" in wanted or path.suffix):
        from transcripts.importers import detect, load

        raw = path.read_bytes()
        if detect(raw).name != "makeroom":
            return path.stem, fold(load(raw, lambda blocks: ()).facts)
    else:
        path = resolve(folder, wanted)
    loaded = read_record(path)
    return loaded.sid, fold(loaded.facts)


def _told(folded: Folded) -> Iterator[str]:
    for fact in folded.facts:
        match fact:
            case User():
                if said := content_text(without_injected(fact.blocks)):
                    yield f"> {said}".replace("\n", "\n> ")
            case Reply():
                yield from (
                    _block(block) for block in fact.blocks if isinstance(block, TextBlock | ToolUseBlock)
                )
            case Result():
                text = content_text(fact.content)
                more = f"\n... {len(text) - SHOWN:,} more characters" if len(text) > SHOWN else ""
                yield f"[{speaker_of(fact)} r{fact.seq}]\n{text[:SHOWN]}{more}"
            case Compacted():
                yield f"--- room was made: {fact.id} ({fact.layer}, {fact.trigger}) ---"


def _block(block: Block) -> str:
    return f"[call] {block_text(block)[:SHOWN]}" if isinstance(block, ToolUseBlock) else block_text(block)


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
            at = max(0, text.casefold().find(wanted[0]) - WIDTH // 3)
            yield fact, " ".join(text[at : at + WIDTH].split())


def _say(text: str, *, safe: bool = False) -> int:
    """Print; with `safe` the text goes out as it is, else no terminal obeys what is in it."""
    shown = text if safe else escaped(text)
    sys.stdout.write(shown.encode("utf-8", "replace").decode() + ("" if shown.endswith("\n") else "\n"))
    sys.stdout.flush()
    return 0


def _complain(line: str) -> int:
    sys.stderr.write(f"{escaped(line)}\n")
    return 2
