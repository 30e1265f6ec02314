"""Deferred tools: no part of the prompt until a search has found them; what the server rejects."""

from typing import Any

from .models import MODELS
from .prefix import walk_prefix
from .reply import Reply
from .reply_completion import complete_reply
from .request_checks import violations
from .tool_search import RESULT_TYPE, SEARCH_NAME, SEARCH_TYPE

MODEL = MODELS["claude-sonnet-5-5"]
SEARCH = {"type": SEARCH_TYPE, "name": SEARCH_NAME}


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"does {name}", "input_schema": {"type": "object"}, **more}


def body(*tools: dict[str, Any], found: str = "") -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    if found:
        call = {"type": "server_tool_use", "id": "s1", "name": SEARCH_NAME, "input": {"query": "x"}}
        references = [{"type": "tool_reference", "tool_name": found}]
        content = {"type": "tool_search_tool_search_result", "tool_references": references}
        result = {"type": RESULT_TYPE, "tool_use_id": "s1", "content": content}
        messages += [{"role": "assistant", "content": [call, result]}, {"role": "user", "content": "on"}]
    return {"model": MODEL.id, "max_tokens": 1_000, "tools": [*tools], "messages": messages}


def test_a_search_needs_a_tool_that_is_loaded_and_results_name_tools_that_are_offered() -> None:
    late = tool("late", defer_loading=True)
    assert violations(body(tool("now"), late, SEARCH, found="late"), MODEL) == []
    assert violations(body(late), MODEL) == [
        "All tools have defer_loading set. At least one tool must be non-deferred."
    ]
    (missing,) = violations(body(tool("now"), SEARCH, found="late"), MODEL)
    assert missing == "messages.1.content.1: Tool reference 'late' not found in available tools"
    marked = tool("late", defer_loading=True, cache_control={"type": "ephemeral"})
    assert len(violations(body(tool("now"), marked, SEARCH), MODEL)) == 1


def test_deferred_tools_count_from_the_result_on_that_names_them() -> None:
    late = [tool(f"late{number}", defer_loading=True) for number in range(20)]
    without = walk_prefix(body(tool("now"), SEARCH), binds=True)
    deferred = walk_prefix(body(tool("now"), *late, SEARCH), binds=True)
    assert (deferred.digest, deferred.tokens) == (without.digest, without.tokens)
    plain = walk_prefix(body(tool("now"), *late, SEARCH, found="late3"), binds=True)
    longer = [{**each, "description": "word " * 50} for each in late]
    assert (
        walk_prefix(body(tool("now"), *longer, SEARCH, found="late3"), binds=True).tokens > plain.tokens + 40
    )


def test_a_search_is_run_within_the_reply() -> None:
    request = body(
        tool("now"), tool("send_mail", defer_loading=True), tool("read_map", defer_loading=True), SEARCH
    )
    call = {"type": "server_tool_use", "name": SEARCH_NAME, "input": {"query": "how to send a mail"}}
    made = complete_reply(Reply([call]), request, MODEL, walk_prefix(request, binds=True))
    ran, result = made.blocks
    assert result["type"] == RESULT_TYPE and result["tool_use_id"] == ran["id"]
    assert [each["tool_name"] for each in result["content"]["tool_references"]] == ["send_mail"]
