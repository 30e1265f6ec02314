"""`makeroom recall`: search the sessions of this directory, in plain text and without a model.

    recall WORDS                 show the best matches for words or a question, best first
    recall ID                    show the original text of an id: SESSION/r57, where SESSION is the start of a
                                 session's id, or r57 of the newest session

    --scope session|project      search the newest session (or that of --session), or all (the default)
    --session ID                 search this session: an id, the start of one, or a name
    --limit N                    show at most N matches (default: 10)
    --json                       print a JSON object with the query and its matches
    --queries FILE               search for each line of FILE, a query or a JSON object with "query", and
                                 print a JSON object for each
    -C DIR                       search the sessions of DIR

Exit codes: 0 found, 1 nothing found, 2 usage error.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from msgspec import Struct

from agent.ui import wrap
from tools.text import escaped
from transcripts import Folded, ProjectRecords, StoreError
from transcripts.search import Originals, ProjectSearch, SearchHits, is_recall_id, update_index
from transcripts.wording import cause_of

from .command_words import OneLineParser, asks_for_help, to_count
from .printing import announce, complain, environment_masks, print_text, show_usage

HIT_INDENT = "    "  # of the excerpts of a match


class RecallScope(Struct, frozen=True):
    """The ids of the sessions to search, the maximum number of matches, and the search of their project."""

    sids: tuple[str, ...]
    limit: int
    search: ProjectSearch

    def find(self, query: str) -> SearchHits:
        """Return the best matches."""
        return self.search.find(query, self.sids, self.limit)


def run_recall(words: list[str], folder: Path | None = None) -> int:
    """Run `recall` with these words."""
    if not words or asks_for_help(words):
        return print_text(__doc__ or "") if words else show_usage("recall WORDS | ID")
    try:
        return _recall(_parser().parse_args(words), folder)
    except (StoreError, OSError, ValueError, KeyError) as error:
        return complain(str(error.args[0] if isinstance(error, KeyError) else error))


def _parser() -> argparse.ArgumentParser:
    made = OneLineParser(prog="makeroom recall", add_help=False, allow_abbrev=False)
    made.add_argument("words", nargs="*")
    made.add_argument("--scope", choices=("session", "project"))
    made.add_argument("--session", default="")
    made.add_argument("--limit", type=to_count, default=10)
    made.add_argument("--json", action="store_true")
    made.add_argument("--queries")
    made.add_argument("-C", "--cd", dest="folder")
    return made


def _recall(given: argparse.Namespace, folder: Path | None) -> int:
    project = Path(given.folder or folder or "").resolve()
    words = " ".join(given.words).strip()
    if not words and not given.queries:
        return show_usage("recall WORDS | ID")
    records = ProjectRecords(project)
    sids = tuple(path.stem for path in records.paths())
    if not sids:
        return complain(f"no sessions in {project}")
    here = records.find(given.session).stem if given.session else sids[0]
    if is_recall_id(words) and not given.queries:
        record = Originals(Folded(), records.outputs, home=project, project=project, typed=True)
        sid, slash, id = words.rpartition("/")
        if not slash:
            sid = here
        announce("reading", records.find(sid), 100e6)
        return print_text(environment_masks().all(record.original(f"{sid}/{id}")))
    in_one = given.scope == "session" or (given.session and given.scope is None)
    _update(project)
    search = ProjectSearch(project, project, environment_masks().all)
    limit = max(1, min(given.limit, 1_000))
    scope = RecallScope((here,) if in_one else sids, limit=limit, search=search)
    if given.queries:
        return _answer_all(scope, given.queries)
    return _answer(scope, words, given.json)


def _update(home: Path) -> None:
    """Update the index; print a notice if that takes long. If it fails, the search says why."""
    quiet_until = time.monotonic() + 1.0  # a shorter update needs no notice
    is_usable = update_index(home, lambda: time.monotonic() > quiet_until)
    if is_usable and time.monotonic() > quiet_until:
        paths = ProjectRecords(home).paths()
        size = sum(path.stat().st_size for path in paths if path.exists())
        sys.stderr.write(f"indexing {size / 1e6:,.1f} MB of transcripts (once) ...\n")
        update_index(home, lambda: False)


def _answer(scope: RecallScope, query: str, as_json: bool) -> int:
    found = scope.find(query)
    now = time.time()
    if as_json:
        print_text(json.dumps({"query": query, "hits": [hit.to_json(now) for hit in found.hits]}), raw=True)
    elif found.hits:
        columns = get_terminal_size().columns if sys.stdout.isatty() else 0
        print_text("\n".join(_within_screen(found.lines(now, columns), columns)))
    what = "" if as_json or found.hits else "nothing found"
    if notice := ": ".join(filter(None, (what, found.note))):
        sys.stderr.write(f"{notice}\n")
    return 0 if found.hits else 1


def _within_screen(lines: Iterable[str], columns: int) -> Iterator[str]:
    """Wrap what is wider than that many columns, unless that is 0, and indent continuation lines."""
    for line in lines:
        if not columns:
            yield line
            continue
        indent = HIT_INDENT if line.startswith(HIT_INDENT) else ""
        first, *rest = wrap(escaped(line.removeprefix(indent)), columns - len(indent))
        yield f"{indent}{first}"
        yield from (f"{HIT_INDENT}{row}" for row in rest)


def _answer_all(scope: RecallScope, file: str) -> int:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except OSError as error:
        raise ValueError(f"cannot read the queries from {file}: {cause_of(error)}") from error
    any_found = False
    for about in _queries(text):
        began = time.perf_counter()
        hits = scope.find(about["query"]).hits
        spent = 1000 * (time.perf_counter() - began)
        now = time.time()
        shown = {**about, "ms": round(spent, 1), "hits": [hit.to_json(now) for hit in hits]}
        print_text(json.dumps(shown), raw=True)
        any_found = any_found or bool(hits)
    return 0 if any_found else 1


def _queries(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of queries, each with a text "query". Raises ValueError."""
    for line in filter(str.strip, text.splitlines()):
        about: dict[str, Any] = {} if line.lstrip().startswith("{") else {"query": line}
        with suppress(ValueError):
            about = about or json.loads(line)
        if not isinstance(about.get("query"), str):
            raise ValueError(f'not a query: {line[:80]} (a line of words, or an object with "query")')
        yield about
