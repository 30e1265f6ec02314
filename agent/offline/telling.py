"""Short, honest accounts of what tool calls brought: facts that stand in the result, nothing made up."""

import re
from collections.abc import Sequence

from .view import Call

_DENIED = re.compile(
    r"denied|declined|rejected|not allowed|not permitted by|refused by|(?:does|did)(?:n't| not) want",
    re.I,
)
_OS_DENIED = re.compile(r"permission denied|EACCES|operation not permitted", re.I)
_INTERRUPTED = re.compile(r"interrupted|not run\b|cancel+ed|aborted", re.I)
_DEFINITION = re.compile(r"^\s*(?:async\s+)?(?:def|class|function|fn|func|interface|struct|enum)\s+(\w+)")
_NUMBERED = re.compile(r"^\s*(\d+)(?:\t|→|\s*\|\s?|:\s)(.*)$")
_SHOWN = 12


def is_denied(result: str) -> bool:
    """Whether a failed call was forbidden by the person or by a rule, rather than by the file system."""
    head = result[:300]
    if head.startswith(("Permission denied:", "A hook refused", "The user refused")):
        return True
    return _DENIED.search(_OS_DENIED.sub("", head)) is not None


def is_interrupted(result: str) -> bool:
    """Whether a failed call was broken off, so that it is worth doing again."""
    return _INTERRUPTED.search(result[:300]) is not None


def told(calls: Sequence[Call]) -> str:
    """What successful calls brought, one paragraph each."""
    return "\n\n".join(_told(call) for call in calls)


def failure(calls: Sequence[Call]) -> str:
    """What went wrong, in the tool's own first line; and that the turn ends with it."""
    call = next(call for call in calls if call.failed)
    what = call.input.get("file_path") or call.input.get("command") or call.name
    first = call.result.strip()[:600] or "no result"
    if is_denied(call.result):
        return f"I was not allowed to use {call.name} (`{what}`), so I stop here.\n\n{first}"
    return f"{call.name} failed on `{what}`, so I stop here. It said:\n\n{_fenced(first)}"


def _told(call: Call) -> str:
    if call.name == "read":
        return _told_read(str(call.input.get("file_path")), call.result)
    if call.name == "bash":
        return _told_bash(str(call.input.get("command")), call.result)
    if call.name == "compact":
        return f"I asked for a compaction. The tool answered: {call.result.strip()[:300]}"
    if call.name == "recall":
        return f"This came back:\n\n{_fenced(_head(call.result))}"
    return _told_change(str(call.input.get("file_path")), call.result)


def _told_change(path: str, result: str) -> str:
    """The tool's own first line, without the heading of what follows it, the file marked as code."""
    first = result.strip().split("\n", 1)[0][:300].removesuffix(" The lines around the change:")
    name = re.escape(path.rsplit("/", 1)[-1])
    return f"Done: {re.sub(rf'(?<!`)[^ `]*{name}(?!`)', lambda found: f'`{found[0]}`', first, count=1)}"


def _told_read(path: str, result: str) -> str:
    lines = [_unnumbered(line) for line in result.rstrip("\n").split("\n")]
    if len(lines) == 1 and result.lstrip().startswith(("[", "<")):
        return f"I read `{path}`; its text is no longer in view."
    names = [match[1] for line in lines if (match := _DEFINITION.match(line))]
    said = f"`{path}`: I was shown {len(lines)} line{'s' * (len(lines) != 1)}, {len(result)} characters."
    if names:
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        said += f" It defines {', '.join(f'`{name}`' for name in names[:8])}{more}."
    return f"{said} It begins:\n\n{_fenced(chr(10).join(lines[:6]))}"


def _unnumbered(line: str) -> str:
    match = _NUMBERED.match(line)
    return match[2] if match else line


def _told_bash(command: str, result: str) -> str:
    if not result.strip():
        return f"`{command}` ran and printed nothing."
    lines = result.rstrip().split("\n")
    if len(lines) <= _SHOWN:
        return f"`{command}` printed:\n\n{_fenced(result.strip())}"
    return (
        f"`{command}` printed {len(lines)} lines; the last are:\n\n{_fenced(chr(10).join(lines[-_SHOWN:]))}"
    )


def _head(text: str) -> str:
    lines = text.strip().split("\n")
    return "\n".join(lines[:_SHOWN]) + (
        f"\n({len(lines) - _SHOWN} more lines)" if len(lines) > _SHOWN else ""
    )


def _fenced(text: str) -> str:
    clipped = text if len(text) <= 2_000 else f"{text[:2_000]}\n(cut here)"
    fence = "````" if "```" in clipped else "```"
    return f"{fence}\n{clipped}\n{fence}"
