"""The settings that a file may contain, each with its valid values and the function that reads them.

An error names the valid values. A bad entry leaves the others of its file valid.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from msgspec import ValidationError, convert
from msgspec.structs import replace

from agent.extensions.hooks import HookTable, status_command
from agent.permissions import MODES, SANDBOX_MODES, Rule, parse_rules, sandbox_entries
from compact import CompactSettings, Prices

from .options import EDITING_MODES, EFFORT_CHOICES, THEMES

# Optional entries of [prices] besides input and output -> the multiple of the input price that they set.
PRICE_MULTIPLES = {"cache_read": "read", "cache_write": "write", "cache_write_hour": "write_hour"}


def _number(value: object) -> float:
    """Return a value as a number, or NaN, which is within no limits, if it is not one."""
    try:
        return math.nan if isinstance(value, bool) else float(str(value).replace("_", ""))
    except ValueError:
        return math.nan


def _url(text: str) -> str:
    with suppress(ValueError):  # the library's message would not fit after the setting's name
        parts = urlsplit(text)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts.geturl()
    raise ValueError("must be a URL such as http://localhost:11434")


def _rules(restricting: bool, value: Any) -> tuple[Rule, ...]:
    texts = convert(value, list[Any])
    return tuple(rule for text in texts for rule in parse_rules(str(text), restricting))


def _hooks(table: Any) -> HookTable:
    found = HookTable.read(table)
    if found.problems:
        raise ValueError(found.problems[0])
    return found


def _status_line(given: Any) -> str:
    """Return the command of a string or of Claude Code's `statusLine` object."""
    if not (command := given.strip() if isinstance(given, str) else status_command(given)):
        raise ValueError("must be a command")
    return command


def _compact(table: dict[str, Any]) -> dict[str, Any]:
    CompactSettings.from_table(table)
    return table


def _prices(table: dict[str, Any]) -> dict[str, Prices]:
    """Return prices by model from dollars per million tokens.

    A missing cache price is the usual multiple of the input price.
    """
    made = {}
    for model, given in table.items():
        numbers = {k: _number(v) for k, v in given.items()} if isinstance(given, dict) else {}
        rest = {name: numbers.pop(name) for name in PRICE_MULTIPLES if name in numbers}
        all_given = (*numbers.values(), *rest.values())
        if numbers.keys() != {"input", "output"} or not all(0 <= each < 1e6 for each in all_given):
            optional = ", ".join(PRICE_MULTIPLES)
            raise ValueError(
                f"[prices.{json.dumps(model)}] must contain input and output (optional: {optional}),"
                " in dollars per million tokens"
            )
        full = numbers["input"] or 1.0  # if input is free, so are its multiples
        multiples = {PRICE_MULTIPLES[name]: cost / full for name, cost in rest.items()}
        made[model] = replace(Prices(numbers["input"], numbers["output"]), **multiples)
    return made


class Setting(NamedTuple):
    """A setting: its valid values in words, which complete "must be ...", and the function that reads one.

    `read` raises ValidationError for a value of another form, and ValueError with the full reason otherwise.
    `help` is its purpose, for the reference.
    """

    form: str
    read: Callable[[Any], Any]
    help: str


def _text(value: Any) -> str:
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        raise ValidationError
    return text


def _whole(value: Any) -> int:
    number = _number(value)
    if not (number >= 1 and number.is_integer()):
        raise ValidationError
    return int(number)


def _seconds(value: Any) -> float:
    number = _number(value)
    if not 1 <= number < 1e6:
        raise ValidationError
    return number


def _choice(choices: Iterable[str], value: Any) -> str:
    text = _text(value)
    if text not in choices:
        raise ValidationError
    return text


def _one_of(*choices: str, help: str) -> Setting:
    return Setting(f"one of {', '.join(choices)}", read=partial(_choice, choices), help=help)


def _table(read: Callable[[dict[str, Any]], Any], value: Any) -> Any:
    return read(convert(value, dict[str, Any]))


_LIST_OF_RULES = 'a list of rules, such as ["bash(git status)"]'
SETTINGS: Mapping[str, Setting] = {
    "provider": Setting(
        "a string", read=_text, help="the API that the server provides: anthropic, openai or openai-responses"
    ),
    "model": Setting("a string", read=_text, help="a model id, or opus, sonnet, haiku"),
    "effort": _one_of(*EFFORT_CHOICES, help="how hard the model thinks"),
    "max_tokens": Setting("a whole number of at least 1", read=_whole, help="the largest reply, in tokens"),
    "context_window": Setting(
        "a whole number of at least 1", read=_whole, help="the size of the context window, in tokens"
    ),
    "cache": _one_of("5m", "1h", help="how long the provider keeps the prompt cache"),
    "base_url": Setting("a URL", read=lambda value: _url(_text(value)), help="the server"),
    "timeout": Setting(
        "a number of seconds, at least 1",
        read=_seconds,
        help="retry a request after this many seconds without data",
    ),
    "permission_mode": _one_of(*MODES, help="the mode in which sessions start"),
    "allow": Setting(_LIST_OF_RULES, read=partial(_rules, False), help="rules for what needs no approval"),
    "deny": Setting(_LIST_OF_RULES, read=partial(_rules, True), help="rules for what is never allowed"),
    "ask": Setting(
        _LIST_OF_RULES,
        read=partial(_rules, True),
        help="rules for what needs approval each time, in every mode",
    ),
    "sandbox": Setting(
        f"one of {', '.join(SANDBOX_MODES)}, or a table",
        read=sandbox_entries,
        help="the sandbox for commands",
    ),
    "notify": Setting(
        "true or false",
        read=partial(convert, type=bool, strict=False),
        help="notify when a long turn ends while the terminal is not focused",
    ),
    "theme": _one_of(*THEMES, help="the colours"),
    "editing": _one_of(*EDITING_MODES, help="the keys of the input"),
    "pass_env": Setting(
        "a list of strings",
        read=lambda value: tuple(map(_text, convert(value, list[Any]))),
        help="variables that commands may see although they look like credentials",
    ),
    "hooks": Setting(
        'a table, such as [hooks] and PreToolUse = "check.sh"', read=_hooks, help="commands to run at events"
    ),
    "status_line": Setting(
        "a command", read=_status_line, help="a command whose first line of output replaces the status line"
    ),
    "output_style": Setting(
        "the name of an output style", read=_text, help="the output style of new sessions"
    ),
    "tool_search": _one_of(
        "auto",
        "on",
        "off",
        help="let the Anthropic API search MCP tools; auto: if they would take a tenth of the window",
    ),
    "web_fetch": _one_of(
        "makeroom",
        "service",
        help="who fetches pages: makeroom itself, or the Anthropic API from its own servers",
    ),
    "prices": Setting(
        'a table, such as [prices."my-model"] with input = 0.5 and output = 2',
        read=partial(_table, _prices),
        help="prices in dollars per million tokens, by model",
    ),
    "compact": Setting("a table", read=partial(_table, _compact), help="how context is freed"),
}


def check(entries: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of the valid entries and the problems with the others, both by name."""
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for name, entry in entries.items():
        if name not in SETTINGS:
            near = difflib.get_close_matches(name, SETTINGS, 1)
            problems[name] = f"unknown setting `{name}`{f'; did you mean `{near[0]}`?' if near else ''}"
            continue
        try:
            values[name] = SETTINGS[name].read(entry)
        except ValidationError:
            problems[name] = f"{name} must be {SETTINGS[name].form}, not {entry!r}"
        except ValueError as error:
            problems[name] = _with_name(name, str(error))
    return values, problems


def _with_name(name: str, problem: str) -> str:
    """Put the name of a setting in front of the problem with its value, unless that names the table."""
    if problem.startswith("["):
        return problem
    return f"{name}{'' if problem.startswith('must ') else ':'} {problem}"


def form_of(name: str) -> str:
    """Return the form of a setting's values, in words."""
    return SETTINGS[name].form
