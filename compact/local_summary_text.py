"""Write a local summary as text: files with their names, errors, commands and replies, the newest first."""

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest

from .commitments import Commitment
from .directives import REQUEST
from .entry_account import Command, FileEdit, Scores
from .identifiers import base_name
from .local_summary import LocalSummary
from .tokens import TokenCounter

MAX_FILE_NAMES = 5  # of one file
MAX_NAMES_TOKENS = 400  # of the names of all files
CLOSINGS_TITLE = "Last replies to the user (beginnings, newest last)"
OTHER_PATHS_TITLE = "Other paths, branches and packages"
OTHER_PATHS_SHARE = 0.2
CHECKED_NAMES = 40  # of each kind, in the coverage of a summary; half as many numbers
_COMMITMENT_TITLES = {
    "promise": "Promised or confirmed by the assistant",
    "decision": "Decided",
    "rejected": "Tried and given up",
    "said": "Said by the assistant, may still apply",
}


def local_summary_text(local_summary: LocalSummary, counter: TokenCounter, limit: int) -> str:
    """Return a local summary in at most `limit` tokens of our count, a section for each kind of content.

    Files that were changed come first, and so do their names if there is no space for all.
    """
    sections: list[str] = []
    left = limit
    names_left = min(MAX_NAMES_TOKENS, limit // 5)
    changed = _files_changed(local_summary)
    for title, paths, share in (
        ("Files changed", changed, 0.35),
        ("Files read", _files_read(local_summary), 0.20),
    ):
        kept, used = _fitting(title, paths, counter, min(left, int(limit * share)))
        rows = []
        for row in kept:
            named, tokens = _names_of(local_summary.defined.get(paths[row], {}), counter, names_left)
            rows.append(f"{row}: {named}" if named else row)
            names_left -= tokens
            used += tokens
        sections.extend(_section(title, rows))
        left -= used
    for title, lines, share in (
        ("Open errors", local_summary.errors.values(), 0.08),
        ("Commands with their last results", _commands(local_summary), 0.15),
        (
            CLOSINGS_TITLE,
            [f"{text} ({ident})" for text, ident in _last_of_each(local_summary.closings)],
            0.20,
        ),
    ):
        kept, used = _fitting(title, _newest(lines), counter, min(left, int(limit * share)))
        sections.extend(_section(title, kept if title != CLOSINGS_TITLE else kept[::-1]))
        left -= used
    shown = "\n".join(sections)
    others = (path for path in _ranked(local_summary.used) if path not in shown)
    kept, _ = _fitting(OTHER_PATHS_TITLE, others, counter, min(left, int(limit * OTHER_PATHS_SHARE)))
    return "\n".join([*sections, *([f"{OTHER_PATHS_TITLE}: {', '.join(kept)}"] if kept else [])])


def _last_of_each(closings: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the (text, id) of each text where it occurs last."""
    last = {text: at for at, (text, _) in enumerate(closings)}
    return [closings[at] for at in sorted(last.values())]


def _files_changed(local_summary: LocalSummary) -> dict[str, str]:
    """Return the files that were changed, as {line: path}: with the number of edits and the newest one."""
    edits = dict[str, list[FileEdit]]()
    for edit in local_summary.edits:
        edits.setdefault(edit.path, []).append(edit)
    gone = {f"{path} (deleted)": score for path, score in local_summary.gone.items()}
    rows = dict[str, str]()
    for path in _ranked({**local_summary.changed, **gone}):
        made = edits.get(path, [])
        announced = next((f": {edit.announced}" for edit in reversed(made) if edit.announced), "")
        count = f"{len(made)} edits, last " if len(made) > 1 else ""
        rows[f"{path} ({count}{made[-1].ident}{announced})" if made else path] = path
    return rows


def _commands(local_summary: LocalSummary) -> list[str]:
    """Return the commands that matter, oldest first: those that only show something come before all others.

    Each is listed with its last result.
    """
    last = {command.line: command for command in local_summary.commands}
    newest = dict.fromkeys(command.line for command in reversed(local_summary.commands))
    ordered = sorted((last[line] for line in reversed(newest)), key=lambda command: not command.looks)
    return [_command_row(command) for command in ordered]


def _command_row(command: Command) -> str:
    ended = f" -> {command.ended}" if command.ended else ""
    telling = command.result[:1] not in ("", "[", "(") and not command.looks  # no note such as "(no output)"
    result = f": {command.result}" if telling else ""
    return f"{command.line}{ended}{result}"


def _section(title: str, rows: Iterable[str]) -> list[str]:
    lines = [f"- {row}" for row in rows]
    return ["\n".join([f"{title}:", *lines])] if lines else []


def _newest(lines: Iterable[str]) -> Iterable[str]:
    """Return the lines, newest first; one that occurs again is listed where it occurred last."""
    return dict.fromkeys(reversed(list(lines)))


def _files_read(local_summary: LocalSummary) -> dict[str, str]:
    """Return the files that were only read, as {line: path}; the line has the id of an attached text.

    A file that is also listed by a longer path, since commands name it relative to a directory, is left out.
    """
    ids = dict(local_summary.attached)
    by_name = dict[str, list[str]]()
    for path in {*local_summary.read, *local_summary.changed}:
        by_name.setdefault(base_name(path), []).append(path)
    paths = (
        path
        for path in _ranked(local_summary.read)
        if path not in local_summary.changed
        and (path in ids or not any(other.endswith(f"/{path}") for other in by_name[base_name(path)]))
    )
    return {f"{path} ({ids[path]})" if path in ids else path: path for path in paths}


def _names_of(scores: Scores, counter: TokenCounter, room: int) -> tuple[str, int]:
    """Return the most used names of a file that fit, as a list on one line, and its tokens."""
    named = nsmallest(MAX_FILE_NAMES, scores, key=lambda name: (-scores[name], name))
    while named:
        text = ", ".join(named)
        tokens = counter.text(text) + 1
        if tokens <= room:
            return text, tokens
        named.pop()
    return "", 0


def commitments_text(local_summary: LocalSummary, counter: TokenCounter, limit: int, skip: str = "") -> str:
    """Return the assistant's promises, decisions and rejections verbatim, with their recall ids.

    The text has at most `limit` tokens. The heaviest sentences are taken first, and of the same weight the
    newest; they are listed in the order in which they were said. Those in `skip` are left out.
    """
    ids = {each.text: ident for each, ident in local_summary.commitments}
    newest_first = reversed(local_summary.commitments)  # a repeated sentence is listed where it was last said
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
        of_kind = (kept[at].text for at in sorted(kept) if _shown_kind(kept[at]) == kind)
        lines = [f"- {text.removeprefix('- ')} ({ids[text]})" for text in of_kind]
        sections.extend(["\n".join([f"{title}:", *lines])] if lines else [])
    return "\n".join(sections)


def _shown_kind(commitment: Commitment) -> str:
    """Return the kind under which a commitment is listed; an uncertain promise counts as only said."""
    return "said" if commitment.kind == "promise" and commitment.weight < REQUEST else commitment.kind


def _fitting(title: str, rows: Iterable[str], counter: TokenCounter, room: int) -> tuple[list[str], int]:
    """Return the rows that fit with their title into `room` tokens, and the tokens that they take."""
    kept: list[str] = []
    used = counter.text(title) + 3
    for row in rows:
        tokens = counter.text(row) + 3
        if used + tokens > room:
            break
        used += tokens
        kept.append(row)
    return kept, used


def coverage(names: Mapping[str, Sequence[str]], summary: str, kept: str) -> dict[str, list[int]]:
    """Return for each kind of name [number named by the summary, by all that is kept, number of names]."""
    return {
        kind: [sum(name in summary for name in found), sum(name in kept for name in found), len(found)]
        for kind, found in names.items()
    }


def most_used_names(local_summary: LocalSummary) -> dict[str, list[str]]:
    """Return the most and most recently used paths, identifiers and numbers, which a summary should name."""
    names = local_summary.names
    paths = {**names, **local_summary.read, **local_summary.changed}
    others = names.items()
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
    return sorted(sorted(scores), key=scores.__getitem__, reverse=True)  # alphabetical if scores are equal
