"""What is mutated, and the few tests that should notice: those that usually do so first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_MUTANTS = 150  # of one module; of more of them an even sample is run
MAX_MUTANTS_IN_ROOMS = 8  # of each module of a whole room, whose tests take longer
ROOMS = ("agent/loop", "agent/model", "agent/session", "agent/checkpoints", "compact")


@dataclass(frozen=True, slots=True)
class Target:
    """A module, and the tests (files, or tests within files) of its room."""

    module: str
    tests: tuple[str, ...]
    most: int = MAX_MUTANTS


def _in(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"tests/{folder}/test_{name}.py" for name in names)


def _room(package: str, folder: str, known: frozenset[str]) -> tuple[Target, ...]:
    """Return a target for each module of a room, a small sample of each, with all tests of the room."""
    tests = tuple(sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / folder).glob("test_*.py")))
    modules = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / package).rglob("*.py"))
    made = (name for name in modules if name not in known and not name.endswith("__init__.py"))
    return tuple(Target(name, tests, MAX_MUTANTS_IN_ROOMS) for name in made)


_RULES = _in("agent/permissions", "permissions", "command_corpus", "modes")
_ALLOWED = _in("agent/permissions", "allow_rules", "command_corpus")
_READING = (*_in("agent/shell", "read_only"), *_in("agent/permissions", "replica"))
_DENIED = (*_in("agent/permissions", "deny_rules"), *_in("agent/shell", "destructive"))
_RUIN = _in("agent/shell", "destructive")
CHOSEN = (
    Target("agent/permissions/allow_rules.py", _ALLOWED),
    Target("agent/shell/git_files.py", _in("agent/shell", "git_settings")),
    Target("agent/shell/git_index.py", _in("agent/shell", "read_only", "git_settings")),
    Target("agent/shell/git_settings.py", _in("agent/shell", "git_settings")),
    Target("agent/shell/option_syntax.py", _READING),
    Target("agent/shell/reading_git.py", _READING),
    Target("agent/shell/reading_languages.py", _READING),
    Target("agent/shell/reading_programs.py", _READING),
    Target("agent/shell/command_pattern.py", (*_DENIED, *_ALLOWED)),
    Target("agent/shell/risky_options.py", _ALLOWED),
    Target("agent/shell/sed_and_awk.py", (*_ALLOWED, *_READING)),
    Target("agent/shell/project_environment.py", _READING),
    Target("agent/shell/destructive.py", _RUIN),
    Target("agent/shell/mass_deletion.py", _RUIN),
    Target("agent/shell/system_damage.py", _RUIN),
    Target("agent/shell/vital_places.py", _RUIN),
    Target("agent/permissions/permission_store.py", _in("agent/permissions", "permission_store")),
    Target("agent/shell/read_only.py", _READING),
    Target("agent/permissions/rules.py", (*_RULES, *_in("agent/permissions", "deny_rules", "explanation"))),
    Target("agent/permissions/deny_rules.py", _DENIED),
    Target("agent/shell/launched_commands.py", _DENIED),
    Target("agent/shell/launcher_arguments.py", _DENIED),
    Target("agent/shell/line_reading.py", _DENIED),
    Target("agent/shell/grammar.py", _DENIED),
    Target("agent/shell/word_reader.py", _DENIED),
    Target("agent/shell/word_expansion.py", _DENIED),
    Target("agent/permissions/rule_syntax.py", (*_RULES, *_in("agent/permissions", "rule_syntax"))),
    Target("agent/shell/simple_commands.py", _in("agent/shell", "simple_commands", "shell_fuzz")),
    Target("transcripts/folding.py", _in("transcripts", "fold", "tool_kinds", "fold_thinking")),
    Target("transcripts/edits.py", _in("transcripts", "edits", "fold")),
    Target("transcripts/entries.py", _in("transcripts", "fold", "fold_thinking")),
    Target("transcripts/codec.py", _in("transcripts", "codec", "stored_format")),
    Target("agent/model/anthropic/accumulator.py", _in("agent/model", "accumulator")),
    Target("tools/text/display.py", _in("tools", "truncate")),
    Target("tools/text/shortening.py", _in("tools", "truncate")),
    Target("tools/patch.py", _in("tools", "patch", "edit")),
    Target("compact/invariants.py", _in("compact", "invariants")),
    Target("transcripts/storage/disk.py", _in("transcripts", "disk", "store")),
    Target("transcripts/journal.py", _in("transcripts", "store", "store_damage", "spare_copy")),
    Target("transcripts/store.py", _in("transcripts", "store", "store_damage")),
)
_MODULES = frozenset(target.module for target in CHOSEN)
TARGETS = (*CHOSEN, *(each for room in ROOMS for each in _room(room, f"tests/{room}", _MODULES)))


def chosen(names: list[str]) -> list[Target]:
    """The targets whose module contains one of the names; all of them without names.

    Raises ValueError for a name that fits none.
    """
    for name in names:
        if not any(name in target.module for target in TARGETS):
            raise ValueError(f"{name!r} names no target; they are {', '.join(t.module for t in TARGETS)}")
    return [target for target in TARGETS if not names or any(name in target.module for name in names)]
