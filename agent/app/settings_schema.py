"""What a settings file may hold, as a pydantic model; mistakes are told with what would be right.

Importing this costs about 0.1 s: config.py does so only when there is something to check.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from agent.extensions.hooks import HookTable, read_hooks, status_command
from agent.permissions import MODES, SANDBOX_MODES, Mode, Rule, parse_rules, sandbox_entries
from compact.prices import Prices
from compact.settings import settings_from

from .options import EDITING_MODES, EFFORTS, NO_EFFORT, THEMES, EditingMode, Effort, ThemeName

# What [prices] may name besides input and output -> the multiple of the input price that it sets.
PRICE_MULTIPLES = {"cache_read": "read", "cache_write": "write", "cache_write_hour": "write_hour"}


def _number(value: object) -> float:
    """The number that a value is or holds; NaN, which fits no limits, where it is none."""
    try:
        return math.nan if isinstance(value, bool) else float(str(value).replace("_", ""))
    except ValueError:
        return math.nan


def _url(text: str) -> str:
    with suppress(ValueError):  # as the library words it, it would not end a sentence
        parts = urlsplit(text)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts.geturl()
    raise ValueError("takes a URL such as http://localhost:11434")


def _rules(texts: list[Any]) -> tuple[Rule, ...]:
    return tuple(rule for text in texts for rule in parse_rules(str(text)))


def _hooks(table: Any) -> HookTable:
    found = read_hooks(table)
    if found.problems:
        raise ValueError(found.problems[0])
    return found


def _status_line(given: Any) -> str:
    """A command, also as Claude Code writes it."""
    if not (command := given.strip() if isinstance(given, str) else status_command(given)):
        raise ValueError("takes a command")
    return command


def _compact(table: dict[str, Any]) -> dict[str, Any]:
    settings_from(table)
    return table


def _prices(table: dict[str, Any]) -> dict[str, Prices]:
    """Prices by model, from dollars per million tokens; what is not given is a usual multiple of input."""
    made = {}
    for model, given in table.items():
        numbers = {k: _number(v) for k, v in given.items()} if isinstance(given, dict) else {}
        rest = {name: numbers.pop(name) for name in PRICE_MULTIPLES if name in numbers}
        all_given = (*numbers.values(), *rest.values())
        if numbers.keys() != {"input", "output"} or not all(0 <= each < 1e6 for each in all_given):
            names = ", ".join(("input and output", *PRICE_MULTIPLES))
            raise ValueError(f"[prices.{json.dumps(model)}] takes {names}, in dollars per million tokens")
        full = numbers["input"] or 1.0  # where input is free, its multiples are
        multiples = {PRICE_MULTIPLES[name]: cost / full for name, cost in rest.items()}
        made[model] = Prices(**numbers, **multiples)
    return made


_Text = Annotated[str, Field(min_length=1)]
_Whole = Annotated[int, BeforeValidator(_number), Field(ge=1)]
_Seconds = Annotated[float, BeforeValidator(_number), Field(ge=1, lt=1e6)]
_RuleList = Annotated[list[Any], AfterValidator(_rules)]
_EFFORTS = (NO_EFFORT, *EFFORTS)
_WHOLE = "a whole number of at least 1"
_RULES = 'a list of rules, such as ["bash(git status)"]'


class FileSettings(BaseModel):
    """The entries of a settings file. A field's description completes "takes ..." in an error."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    provider: _Text | None = Field(None, description="a text")
    model: _Text | None = Field(None, description="a text")
    effort: Effort | Literal["off"] | None = Field(None, description=f"one of {', '.join(_EFFORTS)}")
    max_tokens: _Whole | None = Field(None, description=_WHOLE)
    context_window: _Whole | None = Field(None, description=_WHOLE)
    cache: Literal["5m", "1h"] | None = Field(None, description="one of 5m, 1h")
    base_url: Annotated[_Text, AfterValidator(_url)] | None = Field(None, description="a URL")
    timeout: _Seconds | None = Field(None, description="seconds, at least 1")
    permission_mode: Mode | None = Field(None, description=f"one of {', '.join(MODES)}")
    allow: _RuleList | None = Field(None, description=_RULES)
    deny: _RuleList | None = Field(None, description=_RULES)
    sandbox: Annotated[Any, AfterValidator(sandbox_entries)] = Field(
        None, description=f"one of {', '.join(SANDBOX_MODES)}, or a table"
    )
    notify: bool | None = Field(None, description="true or false")
    theme: ThemeName | None = Field(None, description=f"one of {', '.join(THEMES)}")
    editing: EditingMode | None = Field(None, description=f"one of {', '.join(EDITING_MODES)}")
    pass_env: tuple[_Text, ...] | None = Field(None, description="a list of texts")
    hooks: Annotated[Any, AfterValidator(_hooks)] = Field(
        None, description='a table, such as [hooks] and PreToolUse = "check.sh"'
    )
    status_line: Annotated[Any, AfterValidator(_status_line)] = Field(None, description="a command")
    output_style: _Text | None = Field(None, description="the name of a style")
    prices: Annotated[dict[str, Any], AfterValidator(_prices)] | None = Field(
        None, description='a table, such as [prices."my-model"] with input = 0.5 and output = 2'
    )
    compact: Annotated[dict[str, Any], AfterValidator(_compact)] | None = Field(None, description="a table")


def check(entries: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The values of the entries that are right, and for each of the others what is wrong with it."""
    problems: dict[str, str] = {}
    try:
        found = FileSettings.model_validate(dict(entries))
    except ValidationError as error:
        problems = dict(_problems(error, entries))
        found = FileSettings.model_validate({k: v for k, v in entries.items() if k not in problems})
    return {name: getattr(found, name) for name in found.model_fields_set}, problems


def form_of(name: str) -> str:
    """What a setting takes, in words."""
    return FileSettings.model_fields[name].description or ""


def _problems(error: ValidationError, entries: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for each in error.errors():
        name = str(each["loc"][0])
        cause = each.get("ctx", {}).get("error")
        if each["type"] == "extra_forbidden":
            near = difflib.get_close_matches(name, FileSettings.model_fields, 1)
            yield name, f"is unknown{f'; did you mean {near[0]}?' if near else ''}"
        elif cause is not None:
            yield name, str(cause)
        else:
            yield name, f"takes {FileSettings.model_fields[name].description}, not {entries[name]!r}"
