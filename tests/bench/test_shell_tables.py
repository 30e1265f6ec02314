"""Entries of the shell reader's tables that decide a verdict, over recorded lines.

`MAKEROOM_RECORDINGS=FOLDER python -m pytest -m bench -n 0 -s tests/bench/test_shell_tables.py`

Recordings have one message of the Messages API a line. With `MAKEROOM_COMMAND_LINES=FILE` the lines of that
file are read too. An entry decides where the verdict on some line is another one without it:

    program, git  a line is no longer proved to only read: without a sandbox it is asked about (denied in plan
                  and dontAsk), with one it costs a checkpoint
    risk          a rule for the program covers an option that runs or writes something else
    launcher ...  a deny rule, or what is irreversible, misses the command behind a program

Before that the verdicts are counted by mode, with a sandbox and without, and those that the proofs change.
Paths are taken as inside the project and programs as those of the system: what is measured are the tables.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent.permissions import MODES, PermissionRules, judge_call
from agent.shell import (
    JudgedCommand,
    Places,
    irreversible_effect,
    launched_commands,
    launcher_tables,
    option_syntax,
    read_line,
    reading_git,
    reading_languages,
    reading_programs,
    risky_options,
)
from agent.shell.read_only import prove_line
from agent.shell.reading_programs import Reading
from agent.shell.simple_commands import parse_simple_commands
from tests.agent.permissions import test_command_corpus, test_deny_rules
from tests.agent.permissions.test_allow_rules import COVERED, NOT_COVERED
from tests.agent.shell import test_destructive
from tests.agent.shell.reading_project import lines_of
from tools.base import Access

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]
FOLDER = os.environ.get("MAKEROOM_RECORDINGS", "")
PLACES = Places("/home/me/work", "/home/me", "/home/me/work")
Entry = tuple[str, str]  # of a table: its name, and the entry's


class AnyProject:
    """Implements CommandEnvironment and ReadingJudge of read_only: nothing is outside, or of the project."""

    def judge(self, line: str, folder: str) -> list[JudgedCommand] | None:
        """See ReadingJudge."""
        return prove_line(line, folder, self)

    def other_names(self, word: str, folder: str, wanted: frozenset[str]) -> frozenset[str]:
        """See ProgramFiles."""
        return frozenset()

    def own_programs(self, words: Sequence[str], folder: str) -> str:
        """See ProgramFiles."""
        return ""

    def program(self, name: str, folder: str) -> str | None:
        """See ProgramFiles."""
        return None

    def steering_digests(
        self, names: Sequence[str], operands: Sequence[str], folder: str
    ) -> Mapping[str, str]:
        """See ProgramFiles."""
        return {}

    def is_outside(self, word: str, folder: str) -> bool:
        """See ProgramFiles."""
        return False

    def variable(self, name: str) -> str:
        return ""

    def may_write(self, path: str) -> bool:
        """See ProgramFiles."""
        return False

    def text(self, path: str) -> str:
        """See ProgramFiles."""
        return ""

    def file_names(self, folder: str) -> Sequence[str]:
        """See ProgramFiles."""
        return ()

    def git_values(self, folder: str) -> Mapping[str, Sequence[str]]:
        """See ProgramFiles."""
        return {}

    def made_git_values(self, folder: str) -> Mapping[str, Sequence[str]]:
        """See ProgramFiles."""
        return {}

    def check(self, reading: Reading, folder: str) -> None:
        """See CommandEnvironment."""

    def folder_below(self, folder: str, path: str) -> str:
        """See CommandEnvironment."""
        return os.path.normpath(os.path.join(folder, path))  # noqa: PTH118

    def can_enter(self, folder: str) -> bool:
        """See CommandEnvironment."""
        return True


def recorded_lines(folder: str) -> Iterator[str]:
    """The command lines that agents ran in recorded sessions."""
    for path in sorted(Path(folder).glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            content = json.loads(line)["content"]
            for block in content if isinstance(content, list) else ():
                given = block.get("input") if isinstance(block, dict) else None
                if isinstance(given, dict) and isinstance(given.get("command"), str):
                    yield given["command"]


def corpora() -> dict[str, list[str]]:
    found = {"recorded": list(dict.fromkeys(recorded_lines(FOLDER)))}
    if more := os.environ.get("MAKEROOM_COMMAND_LINES"):
        found["more"] = list(dict.fromkeys(Path(more).read_text("utf-8").splitlines()))
    names = ("lines_that_read.txt", "lines_in_doubt.txt", "lines_that_attack.txt", "everyday_lines.txt")
    found["tests"] = [line for name in names for line in lines_of(name)]
    found["tests"] += [line for rules in (COVERED, NOT_COVERED) for lines in rules.values() for line in lines]
    found["denied"] = denied_lines()
    return found


def denied_lines() -> list[str]:
    """The lines of the tests of deny rules and of what is irreversible."""
    deny, ruin = test_deny_rules, test_destructive
    forms = [*deny.BEFORE, *deny.WRAPPERS, *ruin.WRAPPERS]
    found = [form.format("curl x") for form in forms]
    found += [form.format("'curl x'") for form in (*deny.SCRIPTS, *ruin.SCRIPTS)]
    found += [line.replace("P", "rm -rf x") for line in test_command_corpus.FORBIDDEN]
    found += [*deny.SPELT, *deny.UNTOLD, *deny.SPOKEN, *ruin.EVERYDAY]
    found += [line for lines in ruin.RUIN.values() for line in lines]
    return found


@contextmanager
def watched_proofs(used: set[Entry]) -> Iterator[None]:
    """Note each program and option that a proof rests on."""
    plain = option_syntax.split_arguments
    rows = {id(row): f"{name} " for table in proof_tables().values() for name, row in table.items()}
    rows |= {id(value): f"{name.strip('_').lower()} " for module in (reading_git, reading_languages)
             for name, value in vars(module).items() if isinstance(value, option_syntax.Options)}  # fmt: skip

    def split(arguments: Any, allowed: Any) -> Any:
        found = plain(arguments, allowed)
        used.update(("option", f"{rows.get(id(allowed), '? ')}{name}") for name in found.options)
        return found

    watched = (reading_programs, reading_git, reading_languages, risky_options)
    for module in watched:
        module.split_arguments = split  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module in watched:
            module.split_arguments = plain  # type: ignore[attr-defined]


def proof_tables() -> dict[str, Mapping[str, Any]]:
    languages = reading_languages
    return {
        "program": {**reading_programs.TABLED, **languages.LANGUAGES, **languages.BUILTINS},
        "git": {
            f"git {name}": row
            for table in (reading_git._PLAIN, reading_git._CONTENTS, reading_git._LISTS)
            for name, row in table.items()
        },
    }


def proof_entries(line: str) -> set[Entry]:
    """Return the entries that the proof of a line relies on; nothing if it is not proved."""
    used: set[Entry] = set()
    with watched_proofs(used):
        judged = prove_line(line, "/home/me/work", AnyProject())
    if judged is None or any(command.doubt for command in judged):
        return set()
    for command in judged:
        name = command.words[0].rpartition("/")[2]
        if name == "git":
            words = [word for word in command.words[1:] if not word.startswith("-")]
            used |= {("git", f"git {' '.join(words[:count])}") for count in (1, 2)}
        elif command.words[1:] in (["--version"], ["--help"]):
            used.add(("version", name))
        else:
            used.add(("program", name) if name in proof_tables()["program"] else ("version", name))
    return used


def risk_entries(line: str) -> set[Entry]:
    """The rows of risks by which a rule for a program would not cover a command of the line."""
    found = set()
    for words in parse_simple_commands(line) or ():
        for count in (1, 2):
            if (word := risky_options.risky_word(words, words[:count])) and len(words) > count:
                found.add(("risk", f"{risky_options._program(words)}"))
                found.add(("risky word", f"{risky_options._program(words)} {word[:20]}"))
    return found


def launcher_rows() -> Iterator[tuple[Entry, MutableMapping[str, Any]]]:
    """Each entry of the tables by which commands behind commands are found, with a table that has it."""
    for title, table in (
        ("launcher", launcher_tables.LAUNCHERS),
        ("words", launcher_tables.LAUNCHING_WORDS),
        ("script option", launcher_tables.SCRIPT_OPTIONS),
        ("command option", launcher_tables.COMMAND_OPTIONS),
        ("special", launched_commands._SPECIAL),
    ):
        for name in list(table):
            yield (title, name), table


LAUNCHER_SETS = (
    "SHELLS", "SHELL_STARTERS", "SCRIPT_JOINERS", "SCRIPT_EACH", "INTERPRETERS", "FILE_RUNNERS", "EVALUATORS",
    "ENVIRONMENT_SETTERS", "QUIET",
)  # fmt: skip


def reading_of(line: str) -> object:
    """Return everything in a reading that deny rules and irreversible effects depend on."""
    read_line.cache_clear()
    irreversible_effect.cache_clear()
    reading = read_line(line)
    commands = Counter((each.words, each.sure) for each in reading.invocations)
    return commands, tuple(sorted(reading.code)), reading.opaque, irreversible_effect(line, PLACES)


def launcher_entries(lines: Iterable[str]) -> Counter[Entry]:
    """The entries without which some line would be read otherwise, with how many lines."""
    lines = list(lines)
    plain = {line: reading_of(line) for line in lines}
    found: Counter[Entry] = Counter()

    def compare(entry: Entry, name: str) -> None:
        stem = name.rstrip("0123456789.")
        found[entry] = sum(reading_of(line) != plain[line] for line in lines if stem in line.lower())

    for entry, table in launcher_rows():
        row = table.pop(entry[1])
        compare(entry, entry[1])
        table[entry[1]] = row
    for name, row in launcher_tables.LAUNCHERS.items():
        if row.values or row.flags:
            launcher_tables.LAUNCHERS[name] = launcher_tables.Launcher(operands=row.operands)
            compare(("launcher options", name), name)
            launcher_tables.LAUNCHERS[name] = row
    for title in LAUNCHER_SETS:
        for name in sorted(getattr(launcher_tables, title)):
            holders = [module for module in (launcher_tables, launched_commands) if hasattr(module, title)]
            whole = getattr(launcher_tables, title)
            for module in holders:
                setattr(module, title, whole - {name})
            compare((title.lower(), name), name)
            for module in holders:
                setattr(module, title, whole)
    return found


def counted(lines: Iterable[str], entries_of: Callable[[str], set[Entry]]) -> Counter[Entry]:
    return Counter(entry for line in lines for entry in entries_of(line))


def answers(lines: Iterable[str], rules: PermissionRules) -> list[str]:
    return [judge_call("bash", [Access("run", line)], rules).answer for line in lines]


def print_verdicts(lines: list[str]) -> None:
    """Count the verdicts by mode, and how many are other ones where nothing is proved to only read."""
    for mode in MODES:
        for sandbox in (False, True):
            rules = PermissionRules(
                mode,
                folder=PLACES.folder,
                home=PLACES.home,
                sandboxed=sandbox,
                sandbox_read_only=sandbox and mode == "plan",
                reading=AnyProject,
            )
            judged = answers(lines, rules)
            unproved = answers(lines, structs.replace(rules, reading=None))
            changed = sum(one != other for one, other in zip(judged, unproved, strict=True))
            counts = Counter(judged)
            print(
                f"{mode:18} {'sandboxed' if sandbox else 'no sandbox':11}"
                f" allow {counts['allow']:5} ask {counts['ask']:5} deny {counts['deny']:5}"
                f"  by proofs {changed:5}"
            )


@pytest.mark.skipif(not FOLDER, reason="MAKEROOM_RECORDINGS names no folder of recordings")
def test_which_entries_ever_decide() -> None:
    found = {}
    read = corpora()
    print_verdicts(read["recorded"])
    for name, lines in read.items():
        found[name] = counted(lines, proof_entries) + counted(lines, risk_entries)
        found[name].update(launcher_entries(lines))
        proved = sum(bool(proof_entries(line)) for line in lines)
        print(f"\n{name}: {len(lines)} lines, {proved} proved to only read")
    known: set[Entry] = {(title, name) for title, table in proof_tables().items() for name in table}
    known |= {("risk", name) for name in risky_options.RISKS}
    known |= {entry for entry, _ in launcher_rows()}
    known |= {
        ("launcher options", name)
        for name, row in launcher_tables.LAUNCHERS.items()
        if row.values or row.flags
    }
    known |= {(title.lower(), name) for title in LAUNCHER_SETS for name in getattr(launcher_tables, title)}
    for title in sorted({title for title, _ in known}):
        entries = sorted(name for each, name in known if each == title)
        for corpus, counts in found.items():
            deciding = [name for name in entries if counts[title, name]]
            print(f"{title:20} {corpus:9} {len(deciding):4} of {len(entries):4} decide")
        never = [name for name in entries if not any(counts[title, name] for counts in found.values())]
        print(f"    never: {' '.join(never)}")
    if path := os.environ.get("MAKEROOM_TABLES_OUT"):
        rows = {
            corpus: [[*entry, count] for entry, count in counts.items()] for corpus, counts in found.items()
        }
        Path(path).write_text(json.dumps(rows, indent=1), "utf-8")
    assert found["recorded"]
