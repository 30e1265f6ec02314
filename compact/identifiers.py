"""Extract the texts of blocks, and the file paths and identifiers in them that further work depends on.

- a path: letters, digits and `_.@~+-` with at least one slash between them and a letter in it, 6 characters
  or more; or a file name with a letter-led extension of 1 to 5 characters;
- an identifier: a word of 6 characters or more with an underscore inside, or with a change from lower to
  upper case; or 7 to 40 hexadecimal digits with both a letter and a digit among them (a commit, an id).

`whole_name_counts` also counts dotted and hyphenated names as a whole (`state.AgentType`, `data-testid`), as
later calls write them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from posixpath import normpath

from transcripts import Block, TextBlock, ToolResultBlock, ToolUseBlock
from transcripts.patterns import lazy_pattern

PATH_ARGUMENTS = ("file_path", "path", "notebook_path")
OLD_TEXT_ARGUMENTS = ("old_string", "oldText", "old_str", "old_text")  # what an edit replaces
MIN_LINE_CHARS = 4  # of a line that identifies its source: more than a bracket
MIN_PATH_CHARS = 6
_OUTSIDE = lazy_pattern(r"^(?:/|\.\./)+")  # the start of a path outside of the current directory
_NAME_RUN = lazy_pattern(r"[\w./@+~-]{2,}", re.ASCII)  # a run of characters that names consist of
_CANDIDATE = lazy_pattern(
    # Bounded, possessive and started once per run: otherwise a long run such as base64 takes quadratic time.
    # No file system allows more than 255 characters in a component of a path.
    r"""(?<![\w.@+-])(?:~?/)?(?:[\w.@+-]{1,255}+/)++[\w.@+-]{0,255}+    # a path, and the end of a sentence
      | \b(?<!\w)(?<!\w-)[\w-]{1,255}+(?:\.[\w-]{1,255}+){0,20}\.[A-Za-z]\w{0,4}\b        # a file name
      | \b[A-Za-z_]\w{5,}\b                                               # a word that may be an identifier
      | \b[0-9a-f]{7,40}\b""",
    re.VERBOSE | re.ASCII,
)
_COMPOUND = lazy_pattern(r"[A-Za-z_]\w{0,255}+(?:[.-]\w{1,255}+){1,20}(?![\w/-])", re.ASCII)
MIN_UNDOTTED_CHARS = 6  # without dots and slashes
_CASE_CHANGE_OR_UNDERSCORE = lazy_pattern(r"[a-z0-9][A-Z]|[A-Za-z0-9]_[A-Za-z0-9]")
_HEX_ID = lazy_pattern(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]{7,40}")
_LETTER = lazy_pattern(r"[A-Za-z]")


def names(text: str) -> set[str]:
    """Return every path and identifier in a text."""
    return {name for run in _runs(set(_NAME_RUN.findall(text))) for name in _run(run)[0]}


def whole_name_counts(text: str) -> dict[str, int]:
    """Count the names in a text, with dotted and hyphenated ones as a whole.

    Their parts only count if they also occur alone.
    """
    counts = Counter(_NAME_RUN.findall(text))
    found = dict[str, int]()
    compounds = dict[str, int]()
    for run in _runs(counts):
        names_in, compound = _run(run)
        times = counts[run]
        for name in names_in:
            found[name] = found.get(name, 0) + times
        if compound:
            compounds[compound] = compounds.get(compound, 0) + times
    for name, times in compounds.items():
        for part in re.split(r"[.-]", name) if name not in found else ():
            if part in found:
                found[part] -= times
        found[name] = max(times, found.get(name, 0))
    return {name: times for name, times in found.items() if times > 0}


def _runs(runs: Iterable[str]) -> list[str]:
    """Return the runs of text that may contain names: no plain or short words.

    No name extends beyond its run.
    """
    return [
        run
        for run in runs
        if (len(run) >= MIN_UNDOTTED_CHARS or "." in run or "/" in run)
        and not (run.isalpha() and run[1:].islower())
    ]


def _run(run: str) -> tuple[tuple[str, ...], str]:
    """Return the names in a run, and the compound that it begins with, "" if there is none."""
    # longer ones are not cached: about 1 MB in all
    return _kept_run(run) if len(run) <= 200 else _kept_run.__wrapped__(run)


@lru_cache(maxsize=4_096)  # most occur in the next texts, too
def _kept_run(run: str) -> tuple[tuple[str, ...], str]:
    candidates = (candidate.rstrip("/.@+-") for candidate in _CANDIDATE.findall(run))
    hit = _COMPOUND.match(run)
    compound = hit[0] if hit is not None and len(hit[0]) >= MIN_UNDOTTED_CHARS else ""
    return tuple(filter(_is_name, candidates)), compound


def _is_name(name: str) -> bool:
    if "/" in name:
        return len(name) >= MIN_PATH_CHARS and _LETTER.search(name) is not None
    if "." in name:
        return _LETTER.match(name) is not None
    return _CASE_CHANGE_OR_UNDERSCORE.search(name) is not None or _HEX_ID.fullmatch(name) is not None


def strings(value: object) -> Iterator[str]:
    """Yield every string within a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings(item)


def block_texts(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield every text, string of a tool input and text of a result in the blocks, without thinking."""
    for block in blocks:
        match block:
            case TextBlock():
                yield block.text
            case ToolUseBlock():
                yield from strings(block.input)
            case ToolResultBlock():
                yield from block_texts(block.content)


def joined_text(blocks: Sequence[Block]) -> str:
    """Return the texts of `blocks`, joined by newlines."""
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


def file_path_of(use: ToolUseBlock) -> str:
    """Return the file that a call names, "" if none."""
    for name in PATH_ARGUMENTS:
        value = use.input.get(name)
        if isinstance(value, str):
            return value
    return ""


def base_name(path: str) -> str:
    return path.rpartition("/")[2]


def may_be_same(one: str, other: str) -> bool:
    """Return whether two paths may name the same file: one ends with the other."""
    if one == other:
        return True
    one, other = (f"/{_OUTSIDE.sub('', normpath(path))}" for path in (one, other))
    return one.endswith(other) or other.endswith(one)
