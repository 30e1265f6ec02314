"""The rules that translate a user's text into tool calls: a table of patterns and their calls."""

import re
import shlex
from collections.abc import Sequence

from transcripts.patterns import lazy_pattern

from .conversation import Calls, tool_call

RUN_TESTS = "python -m pytest -q"
_POLITE = lazy_pattern(
    r"(?i)^(please|(could|can|would|will) you|now|ok(ay)?|hey|hi|hello|and|also|first|next|finally|"
    r"i want you to|i'd like you to|let's|let us|just|makeroom)\b[\s,:!]*"
)
_THEN = lazy_pattern(  # outside of quotes
    r"(?:[,;.]\s*|\s+)(?:and\s+)?then\b[\s,]*(?=(?:[^`'\"]|`[^`]*`|'[^']*'|\"[^\"]*\")*$)", re.I
)
_QUOTED = lazy_pattern(r"""^(?:```\w*\n(.*?)\n?```|`([^`]*)`|'(.*)'|"(.*)")$""", re.S)
_FILE = r"([\w~@+-]*(/[\w.@+-]+)+|[\w@+-]*\.\w+[\w.]*|README|LICENSE|Makefile|Dockerfile)"
_NEW_FILE = rf"[`'\"]?(?P<file_path>{_FILE})[`'\"]?"
_IN_FILE = r"in [`'\"]?(?P<file_path>[\w./~@+-]+)[`'\"]?$"
_OLD = r"`[^`]+`|'[^']+'|\"[^\"]+\"|.+?"
_NEW = _OLD.replace("]+", "]*")
_RUN = r"(run\b|execute\b|!)\s*((the|this) (shell )?command:? ?)?"
_BEHIND = r"(?P<run_in_background> in (the )?background)?$"
# A pattern, the tool that it calls, and a shell command for bash or a file for read. A space in a pattern
# matches any white space. Its groups are the tool's arguments, or fill the gaps in the command. The first
# match counts.
_REQUEST_RULES = (
    (r"(?s)(((use|call|run|invoke) )?(the )?compact\b(?!.*\.\w+$)|make room\b)"
     r"(.*?(focus(ing|ed)?( on)?|keep(ing)?|about)\s*:? (?P<focus>.+)$)?", "compact", ""),
    (r"(recall|remember|remind me of|what did (we|i|you) (say|do) about) (?P<query>.+)$", "recall", ""),
    (r"(?s)(create|write|make|add|save) (an? |the )?(new )?((\w+ )?(file|script) )?(called |named )?"
     rf"{_NEW_FILE}\s*(with|containing|(that|which) (contains|says|(?P<prints>prints))|:)\s*:?\s*"
     r"(the )?((content|text|code|line)s?\b:?)?\s*(?P<content>.+)$", "write", ""),
    (rf"(?s)(write|save|put) (?P<content>.+?) (to|into|in) (the file )?{_NEW_FILE}$", "write", ""),
    (rf"(?s)(replace|change|substitute) (?P<all>all |every )?(?P<old_string>{_OLD}) (by|with|to|into) "
     rf"(?P<new_string>{_NEW}) (?P<each>everywhere )?{_IN_FILE}", "edit", ""),
    (r"what('s| is| does) (this|the) (project|repo|repository|code|codebase)( do| for| about)?$",
     "read", "README.md"),
    (r"(fix|repair) (the |a |my )?(failing |broken |red )?tests?$", "bash", RUN_TESTS),
    (r"`(?P<command>[^`]+)`$", "bash", "{command}"),
    (rf"(?s){_RUN}[^`]*`(?P<command>[^`]+)`.*?{_BEHIND}", "bash", "{command}"),
    (rf"{_RUN}(all )?(the |my )?(unit )?tests?( suite)?{_BEHIND}", "bash", RUN_TESTS),
    (rf"{_RUN}(it|(the|that) (file|script)){_BEHIND}", "bash", "{written}"),
    (rf"(?s){_RUN}(?P<command>.+?){_BEHIND}", "bash", "{command}"),
    (r"((list|show)( me)? ((all|the) )*(files|directory|folder|contents)|ls|what( files)? (is|are) "
     r"(here|there)|what files)\b\s*(.*?\b(in|of|under) (the )?)?"
     r"((this|here|current|there)\b|(?P<where>[\w./~@+-]+))?.*$", "bash", "ls -la {where}"),
    (r"find (all |the )?files? (named|called) (?P<what>\S+)( in (?P<where>\S+))?$",
     "bash", "find {where} -name {what} -not -path '*/.git/*'"),
    (rf"(find|search( for)?|grep( for)?|look for|where is) (all )?(?P<what>{_OLD})"
     r"( defined| used| mentioned)?( (in|under|inside|within) (the )?"
     r"(this|here|project|code|repo|repository|(?P<where>\S+))( directory| folder)?)?$",
     "bash", "grep -rnI --exclude-dir=.git -- {what} {where} | head -n 50"),
    (r"(read|show( me)?|open|cat|print|display|view|look at|explain|summari[sz]e|describe|what('s| is) in) "
     rf"(?=.*{_FILE})(?P<what>.+)$", "read", ""),
)  # fmt: skip
_PATTERNS = [lazy_pattern(pattern.replace(" ", r"\s+"), re.I) for pattern, _, _ in _REQUEST_RULES]


def plan_steps(text: str) -> tuple[list[Calls], list[str]]:
    """Return the steps of a request, in order, and the parts of it that no rule matches."""
    steps: list[Calls] = []
    rest: list[str] = []
    if len(text) > 5_000:  # a text this long was pasted, and the patterns are slow on it
        return [], [text[:80]]
    for piece in map(plain_request, _THEN.split(text.strip())):
        if found := _steps(piece, steps):
            steps.extend(found)
        elif piece:
            rest.append(piece)
    return steps, rest


def plain_request(text: str) -> str:
    """Return a request without polite words and without the punctuation at its end."""
    piece = text.strip()
    before = ""
    while piece != before:
        before = piece
        piece = _POLITE.sub("", piece).strip()
    piece = re.sub(r"[\s,]*\bplease\b[.!?]*$", "", piece, flags=re.I)
    is_kept = piece.endswith(("`", "'", '"', " ."))  # of a quotation, or the current directory
    return piece if is_kept else piece.rstrip("?!").removesuffix(".").strip()


def _steps(piece: str, before: Sequence[Calls]) -> list[Calls]:
    """Return the steps of one part of a request; `before` are the steps of the parts before it."""
    for pattern, (_, tool, text) in zip(_PATTERNS, _REQUEST_RULES, strict=True):
        if match := pattern.match(piece):
            given = {name: _unquoted(found) for name, found in match.groupdict().items() if found is not None}
            return _shell_steps(text, given, before) if tool == "bash" else _tool_steps(tool, text, given)
    return []


def _unquoted(text: str) -> str:
    match = _QUOTED.match(text.strip())
    return text.strip() if match is None else next(found for found in match.groups() if found is not None)


def _shell_steps(command: str, given: dict[str, str], before: Sequence[Calls]) -> list[Calls]:
    """Return a call of the command with its gaps filled; {written} is the last file written in `before`."""
    files = [str(call.input["file_path"]) for calls in before for call in calls if call.name == "write"]
    written = f"{'sh' if files[-1].endswith('.sh') else 'python'} {shlex.quote(files[-1])}" if files else ""
    what = shlex.quote(given.get("what", ""))
    where = shlex.quote(given.get("where", "."))
    command = command.format(command=given.get("command", ""), written=written, what=what, where=where)
    behind = {"run_in_background": True} if "run_in_background" in given else {}
    return [(tool_call("bash", command=command, **behind),)] if command else []


def _tool_steps(tool: str, what: str, given: dict[str, str]) -> list[Calls]:
    path = given.get("file_path", "")
    match tool:
        case "recall" if re.fullmatch(r"r\d+(\.\d+)?", given["query"]):
            return [(tool_call("recall", id=given["query"]),)]
        case "write":
            prints = "prints" in given and path.endswith(".py")
            content = f"print({given['content']!r})" if prints else given["content"]
            return [(tool_call("write", file_path=path, content=content.rstrip("\n") + "\n"),)]
        case "edit":
            change = {"file_path": path, "old_string": given["old_string"], "new_string": given["new_string"]}
            every = {"replace_all": True} if {"all", "each"} & given.keys() else {}
            return [(tool_call("read", file_path=path),), (tool_call("edit", **change, **every),)]
        case "read":
            what = given.get("what", what)
            paths = dict.fromkeys(found[0].rstrip(".") for found in re.finditer(_FILE, what))
            span = re.search(r"lines?\s+(\d+)\s*(?:-|to|through)\s*(\d+)", what, re.I)
            lines = {"offset": int(span[1]), "limit": max(1, int(span[2]) - int(span[1]) + 1)} if span else {}
            return [tuple(tool_call("read", file_path=path, **lines) for path in paths)]
    return [(tool_call(tool, **given),)]
