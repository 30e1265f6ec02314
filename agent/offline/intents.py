"""From what a person typed to the tool calls that it asks for, by patterns."""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Action:
    """One tool call to make."""

    tool: str
    input: dict[str, object]
    note: str


Step: TypeAlias = tuple[Action, ...]
"""Calls that go out in one reply."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps in order, and the parts of the request that no rule fits."""

    steps: tuple[Step, ...] = ()
    rest: tuple[str, ...] = field(default=())


_POLITE = re.compile(
    r"^(?:please|could you|can you|would you|will you|now|ok(?:ay)?|hey|hi|hello|and|also|first|next|finally|"
    r"i want you to|i'd like you to|let's|let us|just|makeroom)\b[\s,:!]*",
    re.I,
)
_THEN = re.compile(
    r"(?:[,;.]\s*|\s+)(?:and\s+)?then\b[\s,]*(?=(?:[^`'\"]|`[^`]*`|'[^']*'|\"[^\"]*\")*$)", re.I
)
_PATH = r"[`'\"]?(?P<path>[\w./~@+-]+)[`'\"]?"
_QUOTED = re.compile(
    r"""^(?:```\w*\n(?P<fence>.*?)\n?```|`(?P<tick>[^`]*)`|'(?P<one>.*)'|"(?P<two>.*)")$""", re.S
)
_LONGEST = 5_000
"""Characters beyond which a text is taken for something pasted; the patterns are not made for more."""
_FILE = re.compile(r"[\w~@+-]*(?:/[\w.@+-]+)+|[\w@+-]*\.\w+[\w.]*|README|LICENSE|Makefile|Dockerfile")


def plan(text: str) -> Plan:
    """The plan for a request; without steps where nothing is understood."""
    found: list[Step] = []
    rest: list[str] = []
    if len(text) > _LONGEST:
        return Plan(rest=(text[:80],))
    for part in _THEN.split(text.strip()):
        piece = _plain(part)
        step = _actions(piece, found)
        if step:
            found.extend(step)
        elif piece:
            rest.append(piece)
    return Plan(tuple(found), tuple(rest))


def _plain(part: str) -> str:
    piece, before = part.strip(), ""
    while piece != before:
        before, piece = piece, _POLITE.sub("", piece).strip()
    piece = re.sub(r"[\s,]*\bplease\b[.!?]*$", "", piece, flags=re.I)
    return piece if piece.endswith(("`", "'", '"')) else piece.rstrip("?!").removesuffix(".").strip()


def _actions(piece: str, before: list[Step]) -> list[Step]:
    for rule in _RULES:
        found = rule(piece, before)
        if found:
            return found
    return []


def unquoted(text: str) -> str:
    """A text without the quotes, backticks or fence around it."""
    match = _QUOTED.match(text.strip())
    if match is None:
        return text.strip()
    return next(value for value in match.groupdict().values() if value is not None)


def bash(command: str, note: str) -> Step:
    """A step of one command."""
    return (Action("bash", {"command": command}, note),)


def _compact(piece: str, before: list[Step]) -> list[Step]:
    match = re.match(
        r"(?:(?:use|call|run|invoke)\s+)?(?:the\s+)?compact\b(?P<rest>.*)$|make room\b", piece, re.I | re.S
    )
    if match is None or re.search(r"\.\w+$", match["rest"] or ""):
        return []
    focus = re.search(
        r"(?:focus(?:ing|ed)?(?:\s+on)?|keep(?:ing)?|about)\s*:?\s+(.+)$", match["rest"] or "", re.I | re.S
    )
    given: dict[str, object] = {"focus": unquoted(focus[1])} if focus else {}
    return [(Action("compact", given, "ask for a compaction"),)]


def _recall(piece: str, before: list[Step]) -> list[Step]:
    match = re.match(
        r"(?:recall|remember|remind me of|what did (?:we|i|you) (?:say|do) about)\s+(.+)$", piece, re.I
    )
    if match is None:
        return []
    what = unquoted(match[1])
    given: dict[str, object] = {"id": what} if re.fullmatch(r"r\d+(?:\.\d+)?", what) else {"query": what}
    return [(Action("recall", given, f"recall {what}"),)]


_CREATE = re.compile(
    r"(?:create|write|make|add|save)\s+(?:an?\s+|the\s+)?(?:new\s+)?(?:(?:\w+\s+)?(?:file|script)\s+)?"
    rf"(?:called\s+|named\s+)?{_PATH}\s*(?P<how>with|containing|(?:that|which)\s+(?:contains|says|prints)|:)\s*:?\s*"
    r"(?:the\s+)?(?:(?:content|text|code|line)s?\b:?)?\s*(?P<content>.+)$",
    re.I | re.S,
)
_PUT = re.compile(
    rf"(?:write|save|put)\s+(?P<content>.+?)\s+(?:to|into|in)\s+(?:the\s+file\s+)?{_PATH}$", re.I | re.S
)


def _write(piece: str, before: list[Step]) -> list[Step]:
    match = _CREATE.match(piece) or _PUT.match(piece)
    if match is None or not _FILE.fullmatch(match["path"]):
        return []
    content = unquoted(match["content"])
    if "prints" in (match.groupdict().get("how") or "").lower() and match["path"].endswith(".py"):
        content = f"print({content!r})"
    given: dict[str, object] = {"file_path": match["path"], "content": content.rstrip("\n") + "\n"}
    return [(Action("write", given, f"write `{match['path']}`"),)]


_CHANGE = re.compile(
    r"(?:replace|change|substitute)\s+(?P<all>all\s+|every\s+)?(?P<old>`[^`]+`|'[^']+'|\"[^\"]+\"|.+?)\s+"
    rf"(?:by|with|to|into)\s+(?P<new>`[^`]*`|'[^']*'|\"[^\"]*\"|.+?)\s+(?P<each>everywhere\s+)?in\s+{_PATH}$",
    re.I | re.S,
)


def _edit(piece: str, before: list[Step]) -> list[Step]:
    match = _CHANGE.match(piece)
    if match is None:
        return []
    path, old, new = match["path"], unquoted(match["old"]), unquoted(match["new"])
    given: dict[str, object] = {"file_path": path, "old_string": old, "new_string": new}
    if match["all"] or match["each"]:
        given["replace_all"] = True
    return [
        (Action("read", {"file_path": path}, f"read `{path}` before changing it"),),
        (Action("edit", given, f"replace `{old!r}` by `{new!r}` in `{path}`"),),
    ]


_BACKGROUND = re.compile(r"\s+in\s+(?:the\s+)?background$", re.I)


def _run(piece: str, before: list[Step]) -> list[Step]:
    match = re.match(r"(?:run|execute|!)\s*(?:the\s+command\s+)?(?P<what>.+)$", piece, re.I | re.S)
    if match is None:
        return [bash(piece[1:-1], f"run {piece}")] if re.fullmatch(r"`[^`]+`", piece) else []
    what = _BACKGROUND.sub("", match["what"])
    behind = what != match["what"]
    ticked = re.search(r"`([^`]+)`", what)
    if ticked:
        command = ticked[1]
    elif re.fullmatch(r"(?:all\s+)?(?:the\s+|my\s+)?(?:unit\s+)?tests?(?:\s+suite)?", what, re.I):
        command = "python -m pytest -q"
    elif re.fullmatch(r"it|(?:the|that) (?:file|script)", what, re.I):
        command = _runner(before)
    else:
        command = unquoted(what)
    if command and behind:
        given: dict[str, object] = {"command": command, "run_in_background": True}
        return [(Action("bash", given, f"run `{command}` in the background"),)]
    return [bash(command, f"run `{command}`")] if command else []


def _runner(before: list[Step]) -> str:
    written = [str(action.input["file_path"]) for step in before for action in step if action.tool == "write"]
    if not written:
        return ""
    return f"{'sh' if written[-1].endswith('.sh') else 'python'} {shlex.quote(written[-1])}"


def _search(piece: str, before: list[Step]) -> list[Step]:
    named = re.match(
        r"find\s+(?:all\s+|the\s+)?files?\s+(?:named|called)\s+(\S+)(?:\s+in\s+(\S+))?$", piece, re.I
    )
    if named:
        name, where = unquoted(named[1]), shlex.quote(named[2] or ".")
        return [
            bash(
                f"find {where} -name {shlex.quote(name)} -not -path '*/.git/*'",
                f"look for files named `{name}`",
            )
        ]
    match = re.match(
        r"(?:find|search(?:\s+for)?|grep(?:\s+for)?|look\s+for|where\s+is)\s+(?:all\s+)?(?P<what>`[^`]+`|'[^']+'|"
        r"\"[^\"]+\"|.+?)(?:\s+(?:defined|used|mentioned))?(?:\s+(?:in|under|inside|within)\s+(?:the\s+)?(?P<where>\S+)"
        r"(?:\s+(?:directory|folder))?)?$",
        piece,
        re.I,
    )
    if match is None:
        return []
    what, where = unquoted(match["what"]), match["where"] or "."
    where = (
        "." if where.lower() in ("this", "here", "project", "code", "repo", "repository") else unquoted(where)
    )
    command = f"grep -rnI --exclude-dir=.git -- {shlex.quote(what)} {shlex.quote(where)} | head -n 50"
    return [bash(command, f"search for `{what}`")]


def _list(piece: str, before: list[Step]) -> list[Step]:
    match = re.match(
        r"(?:(?:list|show)(?:\s+me)?\s+(?:(?:all|the)\s+)*(?:files|directory|folder|contents)|ls|"
        r"what(?:\s+files)?\s+(?:is|are)\s+(?:here|there)|what files)\b(?P<rest>.*)$",
        piece,
        re.I,
    )
    if match is None:
        return []
    rest = match["rest"].strip()
    where = re.search(r"\b(?:in|of|under)\s+(?:the\s+)?([\w./~@+-]+)", rest) or re.match(
        r"([\w./~@+-]+)", rest
    )
    place = where[1] if where and where[1].lower() not in ("this", "here", "current", "there") else "."
    return [bash(f"ls -la {shlex.quote(place)}", f"list `{place}`")]


def _read(piece: str, before: list[Step]) -> list[Step]:
    match = re.match(
        r"(?:read|show(?:\s+me)?|open|cat|print|display|view|look\s+at|explain|summari[sz]e|describe|"
        r"what(?:'s|\s+is)\s+in)\s+(?P<rest>.+)$",
        piece,
        re.I,
    )
    if match is None:
        return []
    paths = list(dict.fromkeys(found.rstrip(".") for found in _FILE.findall(match["rest"])))
    span = re.search(r"lines?\s+(\d+)\s*(?:-|to|through)\s*(\d+)", match["rest"], re.I)
    part: dict[str, object] = {}
    if span:
        part = {"offset": int(span[1]), "limit": max(1, int(span[2]) - int(span[1]) + 1)}
    return (
        [tuple(Action("read", {"file_path": path, **part}, f"read `{path}`") for path in paths)]
        if paths
        else []
    )


_RULES: tuple[Callable[[str, list[Step]], list[Step]], ...] = (
    _compact,
    _recall,
    _write,
    _edit,
    _run,
    _list,
    _search,
    _read,
)
