"""The text of a local summary: files, errors, commands and names, the most and latest used first."""

from collections.abc import Iterable, Iterator
from itertools import chain

from transcripts.patterns import lazy_pattern

from .commitments import Commitment
from .local_summary import LocalSummary, Scores
from .tokens import TokenCounter

MAX_APPENDED_NUMBERS = 15  # appended to a summary that lacks them
MANY_NAMES = 200  # from so many on it is faster to find all names of a text first than to search it for each
CHECKED_NAMES = 40  # of each kind, in the coverage of a summary; half as many numbers
_EDGE = "./@+-~"
_WORD_WITH_SIGNS = lazy_pattern(r"[\w./@+~-]+")
_COMMITMENT_TITLES = {
    "promise": "Promised by the assistant",
    "decision": "Decided",
    "rejected": "Tried and given up",
    "said": "Said by the assistant",
}


def local_summary_text(local_summary: LocalSummary, counter: TokenCounter, limit: int, skip: str = "") -> str:
    """The ledger in at most `limit` tokens of our count, without the names that are in `skip`.

    `skip` is what the model is shown beside the ledger. Files, errors and commands get just under half of
    the limit, because a line of names is worth more to the work that follows than one more command.
    """
    sections: list[str] = []
    left = limit
    gone = {f"{path} (gone)": score for path, score in local_summary.gone.items()}
    for title, rows, share in (
        ("Files changed", _ranked({**local_summary.changed, **gone}), 0.12),
        ("Files read", _files_read(local_summary), 0.12),
        ("Last errors", dict.fromkeys(reversed(local_summary.errors)), 0.06),
        ("Last commands", dict.fromkeys(reversed(local_summary.commands)), 0.08),
    ):
        kept, used = _fitting(title, rows, counter, min(left, int(limit * share)))
        if kept:
            sections.append("\n  ".join([f"{title}:", *kept]))
            left -= used
    found = _without_parts(_names_not_in("\n".join([skip, *sections]), local_summary))
    named, _ = _fitting("Names", found, counter, left)
    return "\n".join([*sections, *([f"Names:  {', '.join(named)}"] if named else [])])


def _files_read(local_summary: LocalSummary) -> Iterator[str]:
    """Paths, with the id of the newest text where a prompt mentioned them."""
    ids = dict(local_summary.attached)
    paths = (path for path in _ranked(local_summary.read) if path not in local_summary.changed)
    return (f"{path} ({ids[path]})" if path in ids else path for path in paths)


def commitments_text(local_summary: LocalSummary, counter: TokenCounter, limit: int, skip: str = "") -> str:
    """Return the assistant's promises, decisions and rejections verbatim, with ids, in at most `limit`
    tokens.

    The heaviest are taken first and of the same weight the newest; they stand in their order. What `skip`
    holds is left out.
    """
    ids = {each.text: ident for each, ident in local_summary.commitments}
    newest_first = reversed(local_summary.commitments)  # what is said again stands where it was said last
    unique = list({each.text: each for each, _ in newest_first if each.text not in skip}.values())[::-1]
    ranked = sorted(enumerate(unique), key=lambda item: (-item[1].weight, -item[0]))
    kept: dict[int, Commitment] = {}
    left = limit - 8 * len({each.kind for each in unique})
    for at, each in ranked:
        left -= counter.text(each.text) + 8  # the frame of a line, with its id
        if left < 0:
            break
        kept[at] = each
    sections = []
    for kind, title in _COMMITMENT_TITLES.items():
        lines = [f"- {kept[at].text} ({ids[kept[at].text]})" for at in sorted(kept) if kept[at].kind == kind]
        sections.extend(["\n".join([f"{title}:", *lines])] if lines else [])
    return "\n".join(sections)


def missing_names(local_summary: LocalSummary, counter: TokenCounter, limit: int, text: str) -> str:
    """The most used and latest numbers and names that `text` lacks, in at most `limit` tokens."""
    numbers = [number for number in _used_numbers(local_summary) if number not in text]
    # Lazy: names are searched for only as long as there is room for one more.
    rows = chain(numbers[:MAX_APPENDED_NUMBERS], _names_not_in(text, local_summary))
    return ", ".join(_fitting("Names", rows, counter, limit)[0])


def _fitting(title: str, rows: Iterable[str], counter: TokenCounter, room: int) -> tuple[list[str], int]:
    """Return the rows that fit with their title into `room` tokens, and the tokens that they take."""
    kept: list[str] = []
    used = counter.text(title) + 3
    for row in rows:
        tokens = counter.text(row) + 2
        if used + tokens > room:
            break
        used += tokens
        kept.append(row)
    return kept, used


def coverage(local_summary: LocalSummary, summary: str, kept: str) -> dict[str, list[int]]:
    """Return the coverage of a summary by kind of name: [named by the summary, by all that is kept, of so
    many].
    """
    return {
        kind: [sum(name in summary for name in found), sum(name in kept for name in found), len(found)]
        for kind, found in _most_used(local_summary).items()
    }


def _most_used(local_summary: LocalSummary) -> dict[str, list[str]]:
    """The paths, identifiers and numbers in most and latest use, which a summary should name."""
    paths = {**local_summary.names, **local_summary.read, **local_summary.changed}
    others = local_summary.names.items()
    return {
        "paths": _ranked({name: score for name, score in paths.items() if _is_path(name)})[:CHECKED_NAMES],
        "identifiers": _ranked({name: score for name, score in others if not _is_path(name)})[:CHECKED_NAMES],
        "numbers": _used_numbers(local_summary),
    }


def _used_numbers(local_summary: LocalSummary) -> list[str]:
    return _ranked(local_summary.numbers)[: CHECKED_NAMES // 2]


def _is_path(name: str) -> bool:
    return "/" in name or "." in name


def _ranked(scores: Scores) -> list[str]:
    return sorted(sorted(scores), key=scores.__getitem__, reverse=True)  # of the same score by the alphabet


def _without_parts(names: Iterable[str]) -> Iterator[str]:
    """The names, without those that stand within one before them: `AgentType` after `state.AgentType`."""
    before = ""
    for name in names:
        if name not in before:
            before += f"\n{name}"
            yield name


def _names_not_in(text: str, local_summary: LocalSummary) -> Iterator[str]:
    """The names, best first, that do not stand in a text: as a word, a part of one, or the end of a path."""
    ranked = _ranked({**local_summary.read, **local_summary.changed, **local_summary.names})
    if len(ranked) <= MANY_NAMES:
        return (name for name in ranked if name not in text)
    mentioned = {word.strip(_EDGE) for word in set(_WORD_WITH_SIGNS.findall(text))}
    mentioned.update([name for word in mentioned if _is_path(word) for name in _parts(word)])
    return (name for name in ranked if name not in mentioned and name.strip(_EDGE) not in mentioned)


def _parts(word: str) -> Iterator[str]:
    """Return the components of a compound word, and the ends of a path."""
    yield from word.split(".")
    ends = word.split("/")
    for at in range(1, len(ends)):
        yield "/".join(ends[at:])
        yield ends[at - 1]
