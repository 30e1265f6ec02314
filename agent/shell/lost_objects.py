"""Find the lines that delete objects of a git repository for good.

Commits that commands drop stay reachable through refs of makeroom, so that git does not prune them. These
lines reach what those refs do not protect:

    git gc --prune=now                      objects that were unreachable before
    git for-each-ref --format='delete %(refname)' | git update-ref --stdin; git gc --prune=now
                                            all refs, and then what they named
    git filter-repo --path src              rewrites all refs, and prunes
"""

from __future__ import annotations

from typing import Literal

from .line_reading import read_line
from .parsed_text import is_unknown
from .program_names import GitCall
from .vital_places import Places, scenes

KEPT_REFS = "refs/makeroom"


def pruning(line: str, places: Places) -> Literal["", "unreachable", "kept"]:
    """Return which objects a line may delete for good: those that nothing names, or all that a ref keeps."""
    every = scenes(read_line(line).invocations, places)
    calls = [GitCall.of(scene.command.words) for scene in every if scene.program == "git"]
    if any(call.name == "filter-repo" for call in calls):
        return "kept"
    if not any(map(_prunes, calls)):
        return ""
    return "kept" if any(map(_sweeps_refs, calls)) else "unreachable"


def _prunes(call: GitCall) -> bool:
    """Return whether a command of git deletes unreachable objects that are younger than two weeks."""
    if call.name == "gc":
        return any(word.startswith("--prune=") and word != "--prune=never" for word in call.arguments)
    if call.name == "repack":
        letters = "".join(word[1:] for word in call.arguments if word[:1] == "-" and word[1:2] != "-")
        return "a" in letters and "d" in letters
    return call.name == "prune" and not {"-n", "--dry-run"}.intersection(call.arguments)


def _sweeps_refs(call: GitCall) -> bool:
    """Return whether a command of git may delete or rewrite refs of makeroom, as one that does so to all."""
    _, name, arguments = call
    if name == "update-ref":
        return "--stdin" in arguments or any(is_unknown(word) or KEPT_REFS in word for word in arguments)
    if name in ("fetch", "pull", "push", "remote"):
        mirrors = any("refs/*" in word or KEPT_REFS in word for word in arguments) or "--mirror" in arguments
        return mirrors and (name == "push" or any(word in ("-p", "--prune", "prune") for word in arguments))
    return name == "filter-branch" and "--all" in arguments
