"""Translate the permission rules of Claude Code's settings to ours, so that they restrict at least as much.

Commands are matched by words here, paths by globs whose `*` crosses slashes. Claude Code's paths are patterns
as in a .gitignore: a name without a slash is meant in every directory, and a directory stands for everything
in it. So one of its rules can become several of ours:

    Read(./secrets/**)      read(secrets/**)
    Read(.env)              read(.env), read(.env/*), read(*/.env), read(*/.env/*)
    Bash(npm run test:*)    bash(npm run test), and the same with a last word like `test:unit`

All of them are shown as the rule that was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from glob import escape
from itertools import islice, product
from posixpath import normpath

from msgspec.structs import replace

from tools.guarded import alternatives
from transcripts.patterns import lazy_pattern

from .rule_syntax import EDITING, FOREIGN_PREFIX, READING, RUNNING, WEB_TOOLS, Rule, UnknownTool, known_rules

_WRITTEN = lazy_pattern(r"\s*([\w*-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_INNER_STAR = lazy_pattern(r"(?<=[^*])\*(?=[^*])")
_QUOTED = lazy_pattern(r"\"([^\"*?\[$`\\]*)\"|'([^'*?\[]*)'")
_NOT_PLAIN = lazy_pattern(r"[^\w./:@=+-]")
# Tools whose rules with a path are about every tool of a kind.
_PATH_TOOLS = {
    **dict.fromkeys(("read", "grep", "glob", "ls", "notebookread"), READING),
    **dict.fromkeys(("edit", "write", "multiedit", "notebookedit"), EDITING),
}


class UnreadableRule(ValueError):
    """A text is not a rule of Claude Code."""


def translate_rule(text: str, folder: str) -> tuple[Rule, ...]:
    """Return our rules for a rule of Claude Code. `folder` is the project, a real path.

    Raises ValueError if the rule has no counterpart, with the reason: UnknownTool, whose text is the name, if
    it is about a tool that does not exist here, UnreadableRule if it is not a rule.
    """
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise UnreadableRule("it is not a rule")
    name = match[1]
    lower = name.lower()
    pattern = (match[2] or "").strip()
    if lower == RUNNING:
        rules = list(_about_commands(pattern))
    elif pattern and lower in _PATH_TOOLS:
        rules = [Rule(_PATH_TOOLS[lower], each) for each in path_patterns(pattern, folder)]
    elif pattern and lower in ("task", "agent"):  # whose arguments no rule matches here
        raise ValueError("makeroom does not match the types of agents")
    else:
        rules = list(_about_others(name, pattern))
    return tuple(replace(rule, written=text.strip()) for rule in rules)


def with_our_path(text: str) -> str:
    """Return a rule of Claude Code with its path as we write it: there `//x` is absolute, `/x` is not."""
    match = _WRITTEN.fullmatch(text)
    pattern = (match[2] or "").strip() if match is not None and match[1].lower() in _PATH_TOOLS else ""
    return f"{match[1]}({pattern[1:]})" if match is not None and pattern.startswith("/") else text


def _about_commands(pattern: str) -> Iterator[Rule]:
    if pattern in ("", "*", ":*"):
        yield Rule(RUNNING)
        return
    goes_on = pattern.endswith((":*", " *"))
    text = pattern.removesuffix(":*")
    rule = _known(RUNNING, _QUOTED.sub(_unquoted, text) if goes_on else text)
    if rule.exact and goes_on:
        raise ValueError("it begins with more than the words of one command")
    if rule.exact or "|" in (rule.pattern or ""):
        yield rule
        return
    words = (rule.pattern or "").split()
    choices = [list(_spread(word, at, len(words) - 1)) for at, word in enumerate(words)]
    # A pattern with many alternatives would become too many rules.
    for chosen in islice(product(*choices), 16):
        yield replace(rule, pattern=" ".join(chosen))
    if pattern.endswith(":*") and len(words) > 1:
        yield replace(rule, pattern=f"{rule.pattern}:*")


def _unquoted(quoted: re.Match[str]) -> str:
    """Return the text between quotes, with `?` for what is not part of a plain word."""
    return _NOT_PLAIN.sub("?", quoted[1] or quoted[2] or "")


def _spread(word: str, at: int, last: int) -> Iterator[str]:
    """Yield the forms of a word whose `*` may stand for several words, too: `git*push`, `*--hard*`."""
    if word == "*" and at == 0:  # further on it does so anyway
        yield from ("*", "* *")
        return
    for form in dict.fromkeys(_INNER_STAR.sub(stars, word) for stars in ("*", "* *", "* * *")):
        yield form
        if len(word) > 1 and word.startswith("*"):
            yield f"* {form}"
            if at == 0:
                yield f"* * {form}"
        if len(word) > 1 and word.endswith("*") and at < last:
            yield f"{form} *"


def _about_others(name: str, pattern: str) -> Iterator[Rule]:
    """Yield the rules about the web, MCP servers and tools whose arguments are not matched."""
    host = pattern.removeprefix("domain:")
    tool = f"{name}({pattern})" if pattern else name
    if name.lower().replace("_", "") == WEB_TOOLS[1].replace("_", "") and pattern:
        if host == "*":
            yield Rule(WEB_TOOLS[1])
            return
        yield _known(WEB_TOOLS[1], host)
        yield _known("net", host)
    elif name.startswith(FOREIGN_PREFIX):
        yield Rule(name)  # with an argument too, since ours do not match those of servers
    else:
        found, _ = known_rules(tool, restricting=True)
        if not found:
            raise UnknownTool(name)
        yield from found


def _known(tool: str, pattern: str) -> Rule:
    """Return a checked rule. Raises ValueError."""
    return known_rules(str(Rule(tool, pattern)), restricting=True)[0][0]


def path_patterns(text: str, folder: str) -> tuple[str, ...]:
    """Return our patterns for a path of a rule, which may match more than it. Raises ValueError."""
    if text.startswith("!"):
        raise ValueError("exceptions with `!` are not supported")
    anchored = "/" in text.rstrip("/").removesuffix("/**").removesuffix("/*")
    path = text[1:] if text.startswith("/") else text.removeprefix("./")  # `//` begins an absolute path
    path = path.rstrip("/")
    if ".." in path.split("/"):
        path = normpath(path if path.startswith(("/", "~/")) else f"{escape(folder)}/{path}")
    if not path.strip("/") or path == "~":
        raise ValueError("it names no path")
    alternatives(path)  # or there are too many
    places = (path,) if anchored or path.startswith(("/", "~/")) else (path, f"*/{path}")
    return tuple(each for place in places for each in _with_contents(place))


def _with_contents(place: str) -> tuple[str, ...]:
    """Return a pattern, and the one for everything in directories that match it."""
    return (place,) if place.endswith("*") else (place, f"{place}/*")
