"""Search for deferred tools as the API does it: which requests are valid, what a search finds, what it adds.

The words of the errors are those of the API where they are known.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from .reply import Block, Body

SEARCH_TYPE = "tool_search_tool_bm25_20251119"
SEARCH_NAME = "tool_search_tool_bm25"
RESULT_TYPE = "tool_search_tool_result"
MAX_FOUND = 5


def is_deferred(tool: Any) -> bool:
    """Return whether a tool is no part of the prompt."""
    return isinstance(tool, dict) and tool.get("defer_loading") is True


def search_violations(body: Body) -> Iterator[str]:
    """Yield what is wrong with deferred tools, and with results that name tools."""
    tools = [tool for tool in body.get("tools") or [] if isinstance(tool, dict)]
    if tools and all(map(is_deferred, tools)):
        yield "All tools have defer_loading set. At least one tool must be non-deferred."
    for place, tool in enumerate(tools):
        if is_deferred(tool) and tool.get("cache_control"):
            yield f"tools.{place}: Tools with defer_loading cannot use prompt caching"
    known = {tool.get("name") for tool in tools}
    for number, message in enumerate(body["messages"]):
        content = message["content"] if isinstance(message["content"], list) else []
        for place, block in enumerate(content):
            for name in found_names(block):
                if name not in known:
                    where = f"messages.{number}.content.{place}"
                    yield f"{where}: Tool reference '{name}' not found in available tools"


def found_names(block: Block) -> list[str]:
    """The names of the tools in a result of a search; [] for any other block."""
    content = block.get("content") if block.get("type") == RESULT_TYPE else None
    found = content.get("tool_references", []) if isinstance(content, dict) else []
    return [str(each.get("tool_name")) for each in found]


def found_tools(block: Block, tools: Sequence[Block]) -> list[Block]:
    """The definitions that a result of a search adds to the prompt."""
    names = found_names(block)
    return [tool for tool in tools if tool.get("name") in names] if names else []


def with_searches(blocks: Sequence[Block], tools: Sequence[Block], made: str) -> list[Block]:
    """Run the searches among the blocks of a reply that have no result, if the request offers the search."""
    offered = any(tool.get("type") == SEARCH_TYPE for tool in tools)
    answered = {block.get("tool_use_id") for block in blocks}
    done: list[Block] = []
    for place, block in enumerate(blocks):
        done.append(block)
        if not offered or block.get("type") != "server_tool_use" or block.get("name") != SEARCH_NAME:
            continue
        ident = block.setdefault("id", f"srvtoolu_{made}_{place}")
        if ident not in answered:
            done.append(_result(ident, str(block.get("input", {}).get("query", "")), tools))
    return done


def _result(ident: str, query: str, tools: Sequence[Block]) -> Block:
    words = set(re.findall(r"\w+", query.lower()))
    scored = []
    for place, tool in enumerate(filter(is_deferred, tools)):
        text = f"{tool['name']} {tool.get('description', '')}".lower().replace("_", " ")
        if score := len(words & set(re.findall(r"\w+", text))):
            scored.append((-score, place, tool["name"]))
    found = [{"type": "tool_reference", "tool_name": name} for _, _, name in sorted(scored)[:MAX_FOUND]]
    content = {"type": "tool_search_tool_search_result", "tool_references": found}
    return {"type": RESULT_TYPE, "tool_use_id": ident, "content": content}
