"""Read words of shell text in the way bash does: quotes, substitutions, here-documents.

The text is read once from left to right, within a budget of steps. `UnreadableError` is raised for text that
cannot be read; for deny rules that means that it may contain anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from transcripts.patterns import lazy_pattern

from .parsed_text import Assignment, HereDocument, NoSumError, Part, RawWord, ShellText, UnreadableError

_UNKNOWN = lazy_pattern("[\ufdd0-\ufdd5\ufdd7-\ufddf]")  # all but HOME
_PLAIN_TEXT = lazy_pattern(r"[^\\'\"$` \t\n;&|<>()]+")
_PLAIN_IN_DOUBLE = lazy_pattern(r"[^\\\"$`]+")
_PLAIN_IN_BODY = lazy_pattern(r"[^\\$`]+")
_PLAIN_IN_BRACES = lazy_pattern(r"[^\\'\"$`}<>]+")
_SUM_IN_BRACES = lazy_pattern(r"[!#]?\w+(?:\[|:(?![-=+?]))")  # a subscript or an offset
_PLAIN_IN_SUM = lazy_pattern(r"[^\\'\"$`()\[\]]+")
_ANSI_QUOTED = lazy_pattern(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_VARIABLE_NAME = lazy_pattern(r"[A-Za-z_]\w*|[0-9@*#?$!-]", re.ASCII)
_BRACED_NAME = lazy_pattern(r"(\w+(?:\[[@*]\])?|[@*#?$!-])\}", re.ASCII)
# Brace expansions that keep the value of these variables: no operator here can make them empty.
_SPECIAL_BRACED = lazy_pattern(r"(HOME|PWD)(?=:?[?-]|%/\})|(IFS)(?=:[0-2](?::[1-3])?\})")
_ASSIGNING_BRACED = lazy_pattern(r"(\w{1,64})(?:\[[^]]{0,64}\])?:?=", re.ASCII)
_BACKQUOTED = lazy_pattern(r"((?:[^`\\]|\\.)*)`", re.DOTALL)
_SIMPLE_ESCAPES = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SIMPLE_ESCAPES |= {"v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?"}
_ANSI_ESCAPE = lazy_pattern(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)


def read_word(source: ShellText, *, in_pattern: bool = False) -> RawWord:
    """Read a word, which may be empty. In a pattern, `@(a|b)` and the like are part of the word."""
    parts: list[Part] = []
    start = source.at
    continued = False
    while source.at < len(source.text):
        source.gathered.spend()
        if plain := _PLAIN_TEXT.match(source.text, source.at):
            parts += _text_parts(source, plain[0], quoted=False)
            source.at = plain.end()
            continued = False
            continue
        char = source.text[source.at]
        if char == "(" and in_pattern and source.text[source.at - 1] in "?*+@!" and source.at > start:
            _skip_pattern_group(source)
            parts.append(Part("unknown", text="", quoted=False))
        elif char in "<>" and source.text.startswith("(", source.at + 1):
            source.at += 2
            _read_nested(source, ")")
            parts.append(Part("unknown", text="", quoted=True))
        elif char in " \t\n;&|<>()":
            break
        elif char == "\\":
            continued = source.text.startswith("\\\n", source.at)
            parts += _escaped_char(source)
            continue
        else:
            parts += _read_quoted(source, char)
        continued = False
    if continued and source.peek() in ("<", ">", "("):
        raise UnreadableError
    return RawWord(tuple(parts), source.text[start : source.at].replace("\\\n", ""))


def _text_parts(source: ShellText, text: str, *, quoted: bool) -> list[Part]:
    """Return literal text as parts. Within a script, unknown text makes the script unsure."""
    if not _UNKNOWN.search(text):
        return [Part("text", text=text, quoted=quoted)]
    source.gathered.unsure = True
    return [Part("unknown", text="", quoted=False)]


def _escaped_char(source: ShellText) -> list[Part]:
    """Read a backslash and a character outside quotes."""
    char = source.text[source.at + 1 : source.at + 2]
    source.at += 2
    if char == "\n":
        return []
    return [Part("text", text=char or "\\", quoted=True)]


def _read_quoted(source: ShellText, char: str) -> list[Part]:
    """Read the construct that begins with a quote, dollar sign or backquote here."""
    if char == "'":
        end = source.text.find("'", source.at + 1)
        if end < 0:
            raise UnreadableError
        found = _text_parts(source, source.text[source.at + 1 : end], quoted=True)
        source.at = end + 1
        return found
    if char == '"':
        source.at += 1
        return _read_double_quoted(source)
    if char == "`":
        return [_read_backquoted(source, quoted=False)]
    return _read_dollar(source, quoted=False)


def _read_double_quoted(source: ShellText) -> list[Part]:
    """Read the parts up to the closing quote; at least one, since an empty word is a word too."""
    parts = [Part("text", text="", quoted=True)]
    while (char := source.peek()) != '"':
        source.gathered.spend()
        if plain := _PLAIN_IN_DOUBLE.match(source.text, source.at):
            parts += _text_parts(source, plain[0], quoted=True)
            source.at = plain.end()
        elif not char:
            raise UnreadableError
        else:
            parts += _read_interpreted(source, char, '$`"\\')
    source.at += 1
    return parts


def _read_interpreted(source: ShellText, char: str, escapable: str) -> list[Part]:
    """Read a backslash, dollar sign or backquote within double quotes or a here-document."""
    if char == "$":
        return _read_dollar(source, quoted=True)
    if char == "`":
        return [_read_backquoted(source, quoted=True)]
    follower = source.text[source.at + 1 : source.at + 2]
    source.at += 2
    if follower == "\n":
        return []
    return [
        Part("text", text=follower if follower and follower in escapable else f"\\{follower}", quoted=True)
    ]


def _read_dollar(source: ShellText, *, quoted: bool) -> list[Part]:
    start = source.at
    follower = source.text[start + 1 : start + 2]
    source.at += 2
    if follower == "(":
        return [_read_substitution(source, quoted=quoted)]
    if follower == "{":
        return [_read_braced(source, quoted=quoted)]
    if follower == "[":
        read_sum(source, "]")
        return [Part("unknown", text="", quoted=quoted)]
    if follower == "'" and not quoted:
        return [_read_ansi_quoted(source)]
    if follower == '"' and not quoted:
        return _read_double_quoted(source)
    if follower == "\\" and source.peek() == "\n":
        raise UnreadableError
    source.at = start + 1
    if name := _VARIABLE_NAME.match(source.text, source.at):
        source.at = name.end()
        return [Part("variable", text=name[0], quoted=quoted)]
    return [Part("text", text="$", quoted=True)]


def _read_substitution(source: ShellText, *, quoted: bool) -> Part:
    """Read `$(commands)` or `$((sum))`, which only differ in their ends."""
    start = source.at
    if source.peek() == "(":
        source.at += 1
        if try_sum(source):
            return Part("unknown", text="", quoted=quoted)
        source.at = start
    _read_nested(source, ")")
    return Part("code", text=source.text[start : source.at - 1], quoted=quoted)


def try_sum(source: ShellText) -> bool:
    """Read an arithmetic expression up to `))`; if it ends differently, read nothing and return False."""
    start = source.at
    depth = source.depth
    if source.text.find("))", start) < 0:
        return False
    try:
        read_sum(source, ")")
    except NoSumError:
        source.at = start
        source.depth = depth
        return False
    if source.peek() != ")":
        source.at = start
        return False
    source.at += 1
    return True


def read_sum(source: ShellText, closing: str, *, quotes: bool = False) -> None:
    """Skip an arithmetic expression or a subscript, up to its closing bracket."""
    opening = {")": "(", "]": "["}[closing]
    depth = 1
    source.deeper()
    while depth:
        source.gathered.spend()
        if plain := _PLAIN_IN_SUM.match(source.text, source.at):
            _text_parts(source, plain[0], quoted=True)
            source.at = plain.end()
            continue
        char = source.peek()
        if not char:
            raise NoSumError if closing == ")" else UnreadableError
        if char in "'\"" and not quotes:  # the meaning of quotes depends on the context of the expression
            raise UnreadableError
        if char in "'\"$`":
            _read_expanded_again(source, char)
        else:
            source.at += 2 if char == "\\" else 1
            depth += {opening: 1, closing: -1}.get(char, 0)
    source.depth -= 1


def _read_expanded_again(source: ShellText, char: str) -> None:
    """Read a quote, dollar sign or backquote in a subscript or offset, which bash expands once more.

    Single quotes keep no substitution in it from running.
    """
    is_single = char == "'" or source.text.startswith("$'", source.at)
    parts = _read_quoted(source, char)
    if is_single:
        expand_again(source, parts)


def expand_again(source: ShellText, parts: Iterable[Part]) -> None:
    """Read the substitutions in texts that were quoted."""
    for part in parts:
        if part.kind == "text":
            interpret_body(source.inner(part.text))


def _read_nested(source: ShellText, closing: str) -> None:
    """Read the commands of a substitution. Its here-documents begin and end within it."""
    pending = source.pending
    nested = source.nested
    blocked = source.blocked
    shells = source.shells
    source.pending = []
    source.nested = True
    source.blocked = blocked or bool(pending)
    source.shells = source.subshell()
    source.deeper()
    source.read_commands(source, closing)
    if source.pending:
        raise UnreadableError
    source.depth -= 1
    source.pending = pending
    source.nested = nested
    source.blocked = blocked
    source.shells = shells


def _read_braced(source: ShellText, *, quoted: bool) -> Part:
    """Read `${name}`, or another brace expansion, of which only the substitutions are read."""
    if simple := _BRACED_NAME.match(source.text, source.at):
        source.at = simple.end()
        return Part("variable", text=simple[1], quoted=quoted)
    if source.peek() in tuple(" \t\n|("):
        source.at += 1 if source.peek() == "|" else 0
        _read_nested(source, "}")
        return Part("unknown", text="", quoted=quoted)
    source.deeper()
    special = _SPECIAL_BRACED.match(source.text, source.at)
    is_sum = _SUM_IN_BRACES.match(source.text, source.at) is not None
    if assigning := _ASSIGNING_BRACED.match(source.text, source.at):
        source.gathered.assigned.append(Assignment(assigning[1], None))
    while (char := source.peek()) != "}":
        source.gathered.spend()
        if plain := _PLAIN_IN_BRACES.match(source.text, source.at):
            _text_parts(source, plain[0], quoted=True)
            source.at = plain.end()
        elif not char or (quoted and (char == "'" or source.peek(2) == "$'")):
            raise UnreadableError  # the meaning of a quote depends on the expansion
        elif char in "'\"$`":
            read_part = _read_expanded_again if is_sum else _read_quoted
            read_part(source, char)
        elif char in "<>" and source.text.startswith("(", source.at + 1):
            source.at += 2
            _read_nested(source, ")")
        else:
            source.at += 2 if char == "\\" else 1
    source.at += 1
    source.depth -= 1
    if special is None:
        return Part("unknown", text="", quoted=quoted)
    return Part("variable", text=special[1] or special[2], quoted=quoted)


def _read_backquoted(source: ShellText, *, quoted: bool) -> Part:
    found = _BACKQUOTED.match(source.text, source.at + 1)
    if found is None or ((source.blocked or source.pending) and "\n" in found[1]):
        raise UnreadableError
    source.at = found.end()
    code = re.sub(r"\\([$`\\\"])" if quoted else r"\\([$`\\])", r"\1", found[1])
    source.read_commands(source.inner(code), "")
    return Part("code", text=code, quoted=quoted)


def _read_ansi_quoted(source: ShellText) -> Part:
    """Read `$'…'` with its escapes, one byte each. Text after a NUL is dropped."""
    source.at -= 1
    found = _ANSI_QUOTED.match(source.text, source.at)
    if found is None or "\\x{" in found[1]:
        raise UnreadableError
    source.at = found.end()
    text = _ANSI_ESCAPE.sub(_unescaped, found[1]).partition("\0")[0]
    return _text_parts(source, text, quoted=True)[0]


def _unescaped(match: re.Match[str]) -> str:
    hexadecimal = match[1] or match[2] or match[3]
    if hexadecimal or match[4]:
        code = int(hexadecimal, 16) if hexadecimal else int(match[4], 8) & 0xFF
        return chr(code) if code < 0xD800 else "\N{REPLACEMENT CHARACTER}"
    if match[5]:
        return chr(ord(match[5]) & 0x1F)
    return _SIMPLE_ESCAPES.get(match[6], match[0])


def _skip_pattern_group(source: ShellText) -> None:
    """Skip `(a|b)` in a pattern."""
    source.deeper()
    source.at += 1
    while (char := source.peek()) != ")":
        if not char:
            raise UnreadableError
        if char in " \t\n;&|<>":
            source.at += 1
        elif char == "(":
            _skip_pattern_group(source)
        else:
            read_word(source, in_pattern=True)
    source.at += 1
    source.depth -= 1


def read_here_documents(source: ShellText) -> None:
    """Read the bodies of the here-documents of the line that ended just before."""
    if source.blocked:
        raise UnreadableError
    for document in source.pending:
        body = _body_of(source, document)
        if document.quoted:
            document.body = RawWord((Part("text", text=body, quoted=True),), body)
        else:
            document.body = RawWord(tuple(interpret_body(source.inner(body))), body)
    source.pending.clear()


def _body_of(source: ShellText, document: HereDocument) -> str:
    lines: list[str] = []
    while source.at < len(source.text):
        line = _next_line(source)
        while not document.quoted and _ends_with_backslash(line) and source.at < len(source.text):
            line = line[:-1] + _next_line(source)
        line = line.lstrip("\t") if document.strips_tabs else line
        if line == document.delimiter:
            break
        lines.append(line)
    else:
        if source.nested:
            raise UnreadableError
    return "".join(f"{line}\n" for line in lines)


def _ends_with_backslash(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _next_line(source: ShellText) -> str:
    end = source.text.find("\n", source.at)
    end = len(source.text) if end < 0 else end
    line = source.text[source.at : end]
    source.at = end + 1
    return line


def interpret_body(source: ShellText) -> list[Part]:
    """Return the parts of a here-document, or other text where only `$`, backquotes and backslashes count."""
    parts: list[Part] = []
    while char := source.peek():
        source.gathered.spend()
        if plain := _PLAIN_IN_BODY.match(source.text, source.at):
            parts += _text_parts(source, plain[0], quoted=True)
            source.at = plain.end()
        else:
            parts += _read_interpreted(source, char, "$`\\")
    return parts
