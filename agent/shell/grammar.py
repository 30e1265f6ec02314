"""Find every simple command in a shell text: in lists, pipes, bodies and substitutions.

The grammar accepts more than bash does (a `fi` without an `if`), never less. Every command that bash would
run is found, or `UnreadableError` is raised.
"""

from __future__ import annotations

import re

from msgspec import Struct

from tools.text import word_set
from transcripts.patterns import lazy_pattern

from .parsed_text import (
    Assignment,
    Gathered,
    HereDocument,
    Part,
    RawCommand,
    RawRedirect,
    RawWord,
    ShellText,
    UnreadableError,
)
from .word_reader import expand_again, interpret_body, read_here_documents, read_sum, read_word, try_sum

_BLANK_RUNS = lazy_pattern(r"(?:[ \t]|\\\n)*(?:(?<![^\s;&|()])#[^\n]*)?")
_OPERATOR = lazy_pattern(r"&&|\|\||;;&?|;&|\|&|;|\||&(?!>)")
_SPLIT_OPERATOR = lazy_pattern(r"(?:\\\n)+[;&|<>()]")
_REDIRECT = lazy_pattern(
    r"(?:\d{1,9}|\{[A-Za-z_]\w*(?:\[[^]\s]*\])?\})?(&>>|&>|<<<|<<-|<<|<>|<&|>&|>>|>\||<(?!\()|>(?!\())",
    re.ASCII,
)
_DELIMITER = lazy_pattern(r"'([^'\n]*)'|\"([^\"\n$`\\]*)\"|(\\?)([\w.+:@%/!,=-]+)")
_ASSIGNMENT_START = lazy_pattern(r"([A-Za-z_]\w*)(\+?=|\[)", re.ASCII)
_WRITTEN_ASSIGNMENT = lazy_pattern(r"[A-Za-z_]\w*(?:\[.*\])?\+?=", re.ASCII | re.DOTALL)
_FUNCTION_BRACKETS = lazy_pattern(r"[ \t]*\([ \t]*\)")
_NAMED_COPROCESS = lazy_pattern(
    r"[ \t]*[^\s;&|<>()]+[ \t]+(?=[({]|\[\[|(?:if|while|until|for|case|select)[\s(])"
)
_TIME_OPTION = lazy_pattern(r"[ \t]+(?:-p|--)(?=[\s;&|()]|\Z)")
_CASE_END = lazy_pattern(r"esac(?=[\s;&|()<>]|\Z)")
_CLAUSE_WORDS = word_set("if then else elif fi while until do done !")
_RESERVED = _CLAUSE_WORDS | word_set("time { } [[ case esac for select function coproc")
_WORD_ENDS = ("", *" \t\n;&|<>()")
_DECLARING = word_set("declare typeset local export readonly")


class _Level(Struct):
    """The last command of the list that is being read, and the command whose output the next one reads."""

    last: RawCommand | None = None
    piped: RawCommand | None = None


def read_shell_text(text: str, gathered: Gathered, *, substitutions_only: bool = False) -> None:
    """Gather the simple commands of a text, or only those of its substitutions (as in double quotes).

    Raises UnreadableError. Commands found before the error remain gathered.
    """
    source = ShellText(text, gathered=gathered, read_commands=read_commands)
    if substitutions_only:
        interpret_body(source)
    else:
        read_commands(source, "")


def read_commands(source: ShellText, closing: str) -> None:
    """Read up to the token that closes the list: ")", "}", "esac" (a case's clause ends), or "" (the end)."""
    level = _Level()
    while True:
        _skip_blanks(source)
        source.gathered.spend()
        char = source.peek()
        if not char:
            if closing:
                raise UnreadableError
            return
        if char == ")":
            if closing != ")":
                raise UnreadableError
            source.at += 1
            return
        if char == "\n":
            source.at += 1
            read_here_documents(source)
        elif operator := _OPERATOR.match(source.text, source.at):
            _pass_operator(source, operator, level)
            if operator[0][:2] in (";;", ";&") and closing == "esac":
                return
        elif char == "(":
            _read_group(source, level)
        elif _read_command(source, closing, level):
            return


def _skip_blanks(source: ShellText) -> None:
    if blanks := _BLANK_RUNS.match(source.text, source.at):
        source.at = blanks.end()


def _skip_lines(source: ShellText) -> None:
    """Skip blanks, comments and newlines."""
    _skip_blanks(source)
    while source.peek() == "\n":
        source.at += 1
        read_here_documents(source)
        _skip_blanks(source)


def _pass_operator(source: ShellText, operator: re.Match[str], level: _Level) -> None:
    source.at = operator.end()
    if _SPLIT_OPERATOR.match(source.text, source.at):
        raise UnreadableError
    level.piped = level.last if operator[0] in ("|", "|&") else None
    if level.last is not None:
        level.last.joint = operator[0]


def _read_group(source: ShellText, level: _Level) -> None:
    """Read a subshell, or an arithmetic command."""
    source.at += 1
    if source.peek() == "(":
        source.at += 1
        if try_sum(source):
            return
        source.at -= 1
    source.deeper()
    bodies = source.bodies
    shells = source.shells
    source.bodies = [*bodies, source.defining]
    source.defining = ""
    source.shells = source.subshell()
    read_commands(source, ")")
    source.bodies = bodies
    source.shells = shells
    source.depth -= 1
    level.last = source.gathered.commands[-1] if source.gathered.commands else None


def _read_command(source: ShellText, closing: str, level: _Level) -> bool:
    """Read a simple command or a reserved word; return whether that closes the list."""
    start = source.at
    place = len(source.gathered.commands)
    command = RawCommand(within=tuple(filter(None, source.bodies)), shells=source.shells)
    while not _is_at_end_of_command(source):
        if redirect := _REDIRECT.match(source.text, source.at):
            _read_redirect(source, redirect, command)
        elif source.peek() == "(":
            return _begin_function(source, command)
        elif not _read_assignment(source, command):
            word = read_word(source)
            if not word.source or (not command.words and _WRITTEN_ASSIGNMENT.match(word.source)):
                raise UnreadableError
            if word.source in _RESERVED and not (command.words or command.assignments):
                if command.redirects:  # a program of that name, but reserved in `$(…)` of bash 5.2
                    raise UnreadableError
                if word.source == "esac" and closing == "esac":
                    source.at = start
                    return True
                return _read_reserved(source, word.source, closing)
            command.words.append(word)
    command.source = level.piped
    level.piped = None
    level.last = command
    source.defining = ""
    source.gathered.commands.insert(place, command)
    return False


def _is_at_end_of_command(source: ShellText) -> bool:
    char = _next_char(source)
    return char in ("", *"\n;|)") or (char == "&" and source.peek(2) != "&>")


def _next_char(source: ShellText) -> str:
    _skip_blanks(source)
    source.gathered.spend()
    return source.peek()


def _begin_function(source: ShellText, command: RawCommand) -> bool:
    brackets = _FUNCTION_BRACKETS.match(source.text, source.at)
    if brackets is None or len(command.words) != 1 or command.redirects or command.assignments:
        raise UnreadableError
    source.at = brackets.end()
    _define(source, command.words[0].source)
    return False


def _define(source: ShellText, name: str) -> None:
    source.defining = name
    source.gathered.functions.add(name)


def _read_redirect(source: ShellText, redirect: re.Match[str], command: RawCommand) -> None:
    source.at = redirect.end()
    if _SPLIT_OPERATOR.match(source.text, source.at):
        raise UnreadableError
    while source.peek() in (" ", "\t") or source.peek(2) == "\\\n":
        source.at += 1 if source.peek() != "\\" else 2
    operator = redirect[1]
    stream = redirect[0].removesuffix(operator)
    if operator in ("<<", "<<-"):
        document = _here_document(source, operator)
        source.pending.append(document)
        command.redirects.append(RawRedirect(operator, RawWord((), ""), document=document, stream=stream))
        return
    target = read_word(source)
    if not target.source:
        raise UnreadableError
    command.redirects.append(RawRedirect(operator, target, document=None, stream=stream))


def _here_document(source: ShellText, operator: str) -> HereDocument:
    found = _DELIMITER.match(source.text, source.at)
    if found is None or source.text[found.end() : found.end() + 1] not in _WORD_ENDS:
        raise UnreadableError
    source.at = found.end()
    delimiter = next(text for text in (found[4], found[1], found[2]) if text is not None)
    return HereDocument(delimiter, quoted=found[4] is None or bool(found[3]), strips_tabs=operator == "<<-")


def _read_assignment(source: ShellText, command: RawCommand) -> bool:
    """Read `name=value`, `name+=value`, `name[i]=value` or `name=(values)` if one is allowed here."""
    declares = bool(command.words) and command.words[0].source in _DECLARING
    found = _ASSIGNMENT_START.match(source.text, source.at)
    if found is None or (command.words and not declares):
        return False
    start = source.at
    source.at = found.end()
    if found[2] == "[" and not _read_subscript(source, start):
        return False
    is_list = source.peek() == "("
    value = _read_array(source) if is_list else read_word(source)
    command.assignments.append(Assignment(found[1], value=value, listed=is_list))
    source.gathered.assigned += _assigned(found[1], value, plain=found[2] == "=", is_list=is_list)
    if declares:
        name = Part("text", source.text[start : found.end()], quoted=True)
        command.words.append(RawWord((name, *value.parts), source.text[start : source.at]))
    return True


def _assigned(name: str, value: RawWord, *, plain: bool, is_list: bool) -> list[Assignment]:
    if plain and not is_list:
        return [Assignment(name, value)]
    whole = value if plain else None
    return [*(Assignment(f"{name}[{all_of}]", whole, listed=True) for all_of in "@*"), Assignment(name, None)]


def _read_subscript(source: ShellText, start: int) -> bool:
    """Read `[…]=` if it follows. Raises UnreadableError if only bash can determine where the word ends."""
    opening = source.at
    read_sum(source, "]", quotes=True)
    subscript = source.text[opening : source.at]
    operator = re.compile(r"\+?=").match(source.text, source.at)
    if operator is not None:
        source.at = operator.end()
        return True
    if re.search(r"[\s;&|<>()]", subscript) or source.peek() in ("\\", "+"):
        raise UnreadableError
    source.at = start
    return False


def _read_array(source: ShellText) -> RawWord:
    """Read the values of an array as one word, with BLANK marks between them."""
    start = source.at
    parts: list[Part] = []
    source.at += 1
    while True:
        _skip_lines(source)
        source.gathered.spend()
        if source.peek() == ")":
            source.at += 1
            return RawWord(tuple(parts), source.text[start : source.at])
        word = read_word(source)
        if not word.source:
            raise UnreadableError
        if word.source.startswith("["):
            expand_again(source, word.parts)
        parts += [*word.parts, Part("variable", "IFS", quoted=False)]


def _read_reserved(source: ShellText, word: str, closing: str) -> bool:
    """Read what follows a reserved word; return whether the word closes the list."""
    if word == "{":
        source.bodies.append(source.defining)
        source.defining = ""
    elif word == "}":
        if closing == "}":
            return True
        if source.bodies:
            source.bodies.pop()
    elif word == "time":
        source.gathered.commands.append(RawCommand([RawWord((Part("text", text=word, quoted=False),), word)]))
        while option := _TIME_OPTION.match(source.text, source.at):
            source.at = option.end()
    elif word == "coproc":
        if name := _NAMED_COPROCESS.match(source.text, source.at):
            source.at = name.end()
    elif word == "function":
        _skip_blanks(source)
        _define(source, read_word(source).source)
        if brackets := _FUNCTION_BRACKETS.match(source.text, source.at):
            source.at = brackets.end()
    elif word in _COMPOUNDS:
        _COMPOUNDS[word](source)
    return False


def _read_loop_head(source: ShellText) -> None:
    """Read `for name in words` or `for ((…))`. The words become values of the name."""
    _skip_blanks(source)
    if source.peek(2) == "((":
        source.at += 2
        if not try_sum(source):
            raise UnreadableError
        return
    name = read_word(source).source
    _skip_lines(source)
    start = source.at
    if read_word(source).source != "in":
        source.at = start
        source.gathered.assigned.append(Assignment(name, None))
        return
    while (char := _next_char(source)) and char not in "\n;":
        word = read_word(source)
        if not word.source:
            raise UnreadableError
        source.gathered.assigned.append(Assignment(name, word, listed=True))


def _read_case(source: ShellText) -> None:
    source.deeper()
    _skip_blanks(source)
    read_word(source)
    _skip_lines(source)
    if read_word(source).source != "in":
        raise UnreadableError
    while True:
        _skip_lines(source)
        source.gathered.spend()
        if end := _CASE_END.match(source.text, source.at):
            source.at = end.end()
            source.depth -= 1
            return
        source.at += 1 if source.peek() == "(" else 0
        _skip_blanks(source)
        while True:
            if not read_word(source, in_pattern=True).source:
                raise UnreadableError
            _skip_blanks(source)
            source.at += 1
            if source.text[source.at - 1 : source.at] == ")":
                break
            if source.text[source.at - 1 : source.at] != "|":
                raise UnreadableError
            _skip_blanks(source)
        read_commands(source, "esac")


def _read_test(source: ShellText) -> None:
    """Read `[[ … ]]` as a command. Its arithmetic may evaluate the words."""
    command = RawCommand([RawWord((Part("text", text="[[", quoted=False),), "[[")])
    while True:
        _skip_lines(source)
        source.gathered.spend()
        char = source.peek()
        if not char or char == ";":
            raise UnreadableError
        if char in "()|&" or (char in "<>" and source.text[source.at + 1 : source.at + 2] != "("):
            source.at += 1
            continue
        word = read_word(source, in_pattern=True)
        if word.source == "]]":
            source.gathered.commands.append(command)
            return
        command.words.append(word)


_COMPOUNDS = {"for": _read_loop_head, "select": _read_loop_head, "case": _read_case, "[[": _read_test}
