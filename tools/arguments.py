"""Read the input of a call as the parameters of its tool, forgiving what is harmless, naming what is not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from .base import Arguments, Tool, ToolError


def parse(tool: Tool, given: Mapping[str, Any]) -> Arguments:
    """The parameters of a call: "5" counts as 5, and a value that was itself encoded as JSON is decoded.

    Raises ToolError with a line for each problem.
    """
    try:
        return tool.arguments.model_validate(dict(given))
    except ValidationError as error:
        first = error
    decoded = _decoded(given, {str(each["loc"][0]) for each in first.errors() if each["loc"]})
    if decoded is not None:
        try:
            return tool.arguments.model_validate(decoded)
        except ValidationError:
            pass  # what was sent is what we report on
    raise ToolError("\n".join(_lines(tool, first))) from first


def _decoded(given: Mapping[str, Any], wrong: Iterable[str]) -> dict[str, Any] | None:
    """The input with the wrong ones of its strings read as JSON, or None where that changes nothing."""
    found = dict(given)
    for name in wrong:
        text = found.get(name)
        if isinstance(text, str):
            try:
                found[name] = json.loads(text)
            except ValueError:
                continue
    return found if found != dict(given) else None


def _lines(tool: Tool, error: ValidationError) -> Iterable[str]:
    problems = error.errors()
    yield f"{tool.name} could not be called:"
    for problem in problems:
        yield _line(tool, problem)
    yield f"Its parameters are: {', '.join(map(_described, tool.arguments.model_fields.items()))}."


def _line(tool: Tool, problem: Any) -> str:
    name = ".".join(map(str, problem["loc"])) or "the input"
    match problem["type"]:
        case "missing":
            return f"The required parameter `{name}` is missing."
        case "extra_forbidden":
            near = get_close_matches(name, tool.arguments.model_fields, 1, 0.4)
            hint = f" Did you mean `{near[0]}`?" if near else ""
            return f"An unexpected parameter `{name}` was provided.{hint}"
        case _:
            given = repr(problem["input"])
            shown = given if len(given) <= 80 else f"{given[:80]}…"
            return f"The parameter `{name}` is {shown}: {problem['msg']}."


def _described(field: tuple[str, Any]) -> str:
    name, info = field
    return f"{name} (required)" if info.is_required() else name
