"""The official SDK as a client of the server: a program that fails if a check does.

Its arguments are the server's URL and, as JSON, the body of a request.

In a process of its own, because importing all of the SDK takes more time and memory than all tests of the
server, and tests that run later would no longer import a part of it as the program does. Type checkers do not
see the import: they would read its 3,000 modules.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from typing import Any

sdk: Any = import_module("anthropic")


async def talk(api: Any, body: dict[str, Any]) -> None:
    """Stream a turn, send it back, and count it."""
    async with api.messages.stream(**body) as stream:
        first = await stream.get_final_message()
    assert [block.type for block in first.content] == ["thinking", "text", "tool_use"]
    call = first.content[2]
    assert call.input == {"command": "ls -la", "timeout": 5}
    assert first.stop_reason == "tool_use" and first.usage.output_tokens > 10
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "ok"}
    messages: list[Any] = [
        *body["messages"],
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [result]},
    ]
    again = await api.messages.create(**{**body, "messages": messages})
    assert again.content[1].text == first.content[1].text
    raw = await api.post(
        "/v1/messages",
        body={**body, "messages": messages, "stream": True},
        cast_to=dict,
        stream=True,
        stream_cls=sdk.AsyncStream[dict[str, Any]],
    )
    kinds = [event["type"] async for event in raw]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
    count = await api.messages.count_tokens(model=body["model"], messages=messages)
    assert count.input_tokens == again.usage.input_tokens


async def read_models(api: Any) -> None:
    found = await api.models.retrieve("claude-sonnet-5-5")
    assert (found.max_input_tokens, found.max_tokens) == (50_000, 128_000)
    assert found.capabilities and found.capabilities.thinking.types.adaptive.supported
    assert not found.capabilities.thinking.types.enabled.supported
    assert found.capabilities.effort.low.supported
    assert "makeroom-offline" in [model.id async for model in api.models.list()]
    try:
        await api.models.retrieve("claude-9")
    except sdk.NotFoundError:
        return
    raise AssertionError("a model that does not exist was found")


async def main(url: str, body: str) -> None:
    async with sdk.AsyncAnthropic(api_key="x", base_url=url, max_retries=0) as api:
        await talk(api, json.loads(body))
        await read_models(api)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
