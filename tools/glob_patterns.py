"""Match paths against the globs that a search is limited to."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import translate

from tools.guarded import alternatives


def name_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a test of paths below a directory against a glob: by name alone where it has no slash.

    `**` stands for any directories, `{a,b}` for each of its words and itself; names like `[id]` also match
    themselves. Raises ValueError for too many alternatives.
    """
    globs = [each.strip("/") if "/" in each.strip("/") else each for each in alternatives(pattern)]
    globs += [each.replace("[", "\\[") for each in globs if "[" in each]
    anywhere = [each.removeprefix("**/") for each in globs]
    by_name = [_name_pattern(each).pattern for each in anywhere if "/" not in each]
    by_path = [_path_pattern(each) for each in globs if "/" in each.removeprefix("**/")]
    match_name = re.compile("|".join(by_name) or "(?!)").match

    def fits_name(path: str) -> bool:
        return match_name(path.rpartition("/")[2]) is not None

    def fits(path: str) -> bool:
        return fits_name(path) or any(_fits(each, path.split("/")) for each in by_path)

    return fits if by_path else fits_name


def _path_pattern(pattern: str) -> tuple[re.Pattern[str] | None, ...]:
    """Return the patterns of the parts of a path, None for `**`, which at the end takes one part or more."""
    parts: list[re.Pattern[str] | None] = []
    for part in pattern.strip("/").split("/"):
        if part != "**":
            parts.append(_name_pattern(part))
        elif parts[-1:] != [None]:
            parts.append(None)
    return (*parts, re.compile("")) if parts[-1:] == [None] else tuple(parts)


def _name_pattern(glob: str) -> re.Pattern[str]:
    """Compile a glob of one name; a backslash makes the next character an ordinary one."""

    def literal(found: re.Match[str]) -> str:
        return f"[{found[1]}]" if found[1] in "*?[" else found[1]

    return re.compile(translate(re.sub(r"\\(.)", literal, glob.replace("[^", "[!"), flags=re.DOTALL)))


def _fits(parts: Sequence[re.Pattern[str] | None], path: Sequence[str]) -> bool:
    """Return whether the parts of a path match those of a pattern; `**` stands for any number of them."""
    if parts and parts[-1] is not None and not parts[-1].match(path[-1]):
        return False  # most paths, at once
    reached = {0}  # the numbers of parts of the pattern that may have been matched
    for name in path:
        after: set[int] = set()
        for at in _past_stars(parts, reached):
            if at < len(parts):
                pattern = parts[at]
                if pattern is None:
                    after.add(at)
                elif pattern.match(name):
                    after.add(at + 1)
        reached = after
    return len(parts) in reached


def _past_stars(parts: Sequence[re.Pattern[str] | None], reached: set[int]) -> set[int]:
    return reached | {at + 1 for at in reached if at < len(parts) and parts[at] is None}
