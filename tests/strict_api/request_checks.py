"""Everything that the real API rejects in the body of a request, in the real API's words.

Pure. What depends on sizes and signatures is checked afterwards, by `prefix.walk_prefix` and the endpoint.
"""

from collections.abc import Iterator
from typing import Any

from .block_checks import PROPERTY, TOOL_NAME, block_violations, mark_violations
from .models import EFFORTS, THINKING_TYPES, ServedModel
from .pairing import merged, order_violations
from .prefix import blocks_of
from .reply import Body
from .tool_search import SEARCH_TYPE, search_violations

MAX_BODY_BYTES = 32 * 1024 * 1024
BINDING_BETA = "thinking-binding-controls-2026-08-01"
UPDATES_BETA = "thinking-display-updates-2026-08-18"
COMPACTION_BETA = "compact-2026-09-04"
BETAS = frozenset({BINDING_BETA, UPDATES_BETA, COMPACTION_BETA})
VERSIONS = ("2023-01-01", "2023-06-01", "2026-10-21")

_COUNTED = {
    "model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control",
    "speed", "user_profile_id", "workspace_id",
}  # fmt: skip
_EMPTY = "all messages must have non-empty content except for the optional final assistant message"
_FIELDS = _COUNTED | {
    "max_tokens", "stream", "stop_sequences", "metadata", "service_tier", "container", "diagnostics",
    "inference_geo", "compaction",
}  # fmt: skip
_TOOL_FIELDS = {
    "name", "description", "input_schema", "type", "cache_control", "strict", "defer_loading",
    "eager_input_streaming", "input_examples", "allowed_callers",
}  # fmt: skip

_DOMAINS = {"allowed_domains", "blocked_domains"}
_SERVER_TOOLS = {
    "web_search_20260318": _DOMAINS | {"user_location"},
    SEARCH_TYPE: {"defer_loading"},
    "web_fetch_20260318": _DOMAINS | {"max_content_tokens", "url_sources", "citations"},
}


def violations(
    body: Body,
    model: ServedModel,
    betas: frozenset[str] = frozenset(),
    paused: bool = False,
    counting: bool = False,
) -> list[str]:
    """Each reason to answer 400, first the one that the API would name; empty where the body is valid.

    `paused`: the conversation ends with a reply that stopped with pause_turn. `counting`: for count_tokens.
    """
    found = [*_field_violations(body, counting), *_message_violations(body, model)]
    if found:
        return found
    found = [
        *_limit_violations(body, model, counting),
        *_system_violations(body),
        *_tool_violations(body, model),
        *_thinking_violations(body, model, betas),
        *_effort_violations(body, model),
        *_compaction_violations(body, betas),
        *order_violations(body, paused),
        *search_violations(body),
    ]
    return found or list(_mark_violations(body))


def header_violations(version: str, betas: frozenset[str]) -> Iterator[str]:
    """Yield what is wrong with the headers that name the version and the betas."""
    if not version:
        yield "anthropic-version: header is required"
    elif version not in VERSIONS:
        yield f'anthropic-version: "{version}" is not a valid version. You probably want "{VERSIONS[-1]}".'
    for beta in sorted(betas - BETAS):
        yield f"Unexpected value(s) `{beta}` for the `anthropic-beta` header."


def _field_violations(body: Body, counting: bool) -> Iterator[str]:
    for name in body.keys() - (_COUNTED if counting else _FIELDS):
        yield f"{name}: Extra inputs are not permitted"
    for name in ("model", "messages") if counting else ("model", "messages", "max_tokens"):
        if name not in body:
            yield f"{name}: Field required"
    if not isinstance(body.get("stream", False), bool):
        yield "stream: Input should be a valid boolean"
    metadata = body.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        yield "metadata: Input should be a valid dictionary"
    for name in metadata.keys() - {"user_id"} if isinstance(metadata, dict) else ():
        yield f"metadata.{name}: Extra inputs are not permitted"
    stops = body.get("stop_sequences") or []
    if not isinstance(stops, list) or not all(isinstance(stop, str) and stop.strip() for stop in stops):
        yield "stop_sequences: each stop sequence must contain non-whitespace"


def _message_violations(body: Body, model: ServedModel) -> Iterator[str]:
    messages = body.get("messages")
    if not isinstance(messages, list):
        yield "messages: Input should be a valid list"
        return
    if not messages:
        yield "messages: at least one message is required"
    for number, message in enumerate(messages):
        path = f"messages.{number}"
        if not isinstance(message, dict):
            yield f"{path}: Input should be a valid dictionary"
            continue
        role = message.get("role")
        if role == "system" and not model.system_role:
            yield f"{path}: role 'system' is not supported on this model"
        elif role not in ("user", "assistant", "system"):
            yield f"{path}.role: Input should be 'user' or 'assistant'"
        for name in message.keys() - {"role", "content"}:
            yield f"{path}.{name}: Extra inputs are not permitted"
        yield from _content_violations(path, str(role), message.get("content"))


def _content_violations(path: str, role: str, content: Any) -> Iterator[str]:
    if not isinstance(content, str | list):
        yield f"{path}.content: Input should be a valid list"
    elif not content:
        yield f"{path}: {_EMPTY}"
    else:
        for place, block in enumerate(blocks_of(content)):
            yield from block_violations(f"{path}.content.{place}", role, block)


def _limit_violations(body: Body, model: ServedModel, counting: bool) -> Iterator[str]:
    if counting:
        return
    asked = body["max_tokens"]
    if isinstance(asked, bool) or not isinstance(asked, int):
        yield "max_tokens: Input should be a valid integer"
    elif asked < (1 if body.get("stream") else 0):  # 0 warms the cache
        yield "max_tokens: must be greater than or equal to 1"
    elif asked > model.max_output:
        yield (
            f"max_tokens: {asked} > {model.max_output}, which is the maximum allowed number of output tokens "
            f"for {model.id}"
        )


def _system_violations(body: Body) -> Iterator[str]:
    system = body.get("system")
    if system is None or system == "":
        return
    if not isinstance(system, str | list):
        yield "system: Input should be a valid list"
        return
    for place, block in enumerate(blocks_of(system)):
        path = f"system.{place}"
        if not isinstance(block, dict) or block.get("type") != "text":
            yield f"{path}.type: Input should be 'text'"
        else:
            yield from block_violations(path, "user", block)


def _compaction_violations(body: Body, betas: frozenset[str]) -> Iterator[str]:
    wanted = body.get("compaction")
    if wanted is None:
        return
    if COMPACTION_BETA not in betas:
        yield "compaction: Extra inputs are not permitted"
    elif not isinstance(wanted, dict) or wanted.get("type") != "summarize":
        yield "compaction.type: Input should be 'summarize'"
    elif extra := wanted.keys() - {"type", "instructions"}:
        yield f"compaction.{min(extra)}: Extra inputs are not permitted"
    elif clash := body.keys() & {"stop_sequences", "tool_choice"}:
        yield f"compaction: may not be combined with {min(clash)}"


def _tool_violations(body: Body, model: ServedModel) -> Iterator[str]:
    tools = body.get("tools") or []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        yield "tools: Input should be a valid list"
        return
    names: set[str] = set()
    for place, tool in enumerate(tools):
        path, name = f"tools.{place}.custom", tool.get("name")
        if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
            yield f"{path}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            continue
        if name in names:
            yield "tools: Tool names must be unique."
        names.add(name)
        if "type" in tool:
            yield from _server_tool_violations(f"tools.{place}", tool)
            continue
        if not isinstance(tool.get("description", ""), str):
            yield f"{path}.description: Input should be a valid string"
        yield from _schema_violations(f"{path}.input_schema", tool.get("input_schema"))
        for extra in tool.keys() - _TOOL_FIELDS:
            yield f"{path}.{extra}: Extra inputs are not permitted"
        yield from mark_violations(path, tool)
    yield from _choice_violations(body, model, names)


def _server_tool_violations(path: str, tool: Body) -> Iterator[str]:
    fields = _SERVER_TOOLS.get(tool["type"])
    if fields is None:
        yield f"{path}: Input tag '{tool['type']}' found using 'type' does not match any of the expected tags"
        return
    if tool["name"] not in tool["type"]:
        yield f"{path}.name: Input should be the tool's own"
    for extra in tool.keys() - fields - {"type", "name", "max_uses", "allowed_callers", "cache_control"}:
        yield f"{path}.{tool['type']}.{extra}: Extra inputs are not permitted"
    if tool.get("allowed_domains") and tool.get("blocked_domains"):
        yield f"{path}: Only one of allowed_domains and blocked_domains may be given"


def _schema_violations(path: str, schema: Any) -> Iterator[str]:
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield f"{path}.type: Input should be 'object'"
        return
    if schema.keys() & {"oneOf", "allOf", "anyOf"}:
        yield f"{path}: input_schema does not support oneOf, allOf, or anyOf at the top level"
    properties = schema.get("properties", {})
    if not isinstance(properties, dict) or not all(isinstance(each, dict) for each in properties.values()):
        yield f"{path}: JSON schema is invalid. It must match JSON Schema draft 2020-12"
        return
    for name in properties:
        if not PROPERTY.fullmatch(name):
            yield f"{path}.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'"


def _choice_violations(body: Body, model: ServedModel, names: set[str]) -> Iterator[str]:
    choice = body.get("tool_choice")
    if choice is None:
        return
    kind = choice.get("type") if isinstance(choice, dict) else None
    if kind not in ("auto", "any", "tool", "none"):
        yield "tool_choice: Input should be one of 'auto', 'any', 'tool', 'none'"
    elif kind != "none" and not names:
        yield "tool_choice may only be specified while providing tools."
    elif kind == "tool" and choice.get("name") not in names:
        yield f"Tool '{choice.get('name')}' not found in provided tools"
    elif kind in ("any", "tool") and not model.forced_tools:
        yield f"tool_choice: '{kind}' is not supported on this model"
    elif kind in ("any", "tool") and (body.get("thinking") or {}).get("type") == "enabled":
        yield "Thinking may not be enabled when tool_choice forces tool use."


def _thinking_violations(body: Body, model: ServedModel, betas: frozenset[str]) -> Iterator[str]:
    thinking = body.get("thinking")
    if thinking is None:
        return
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if kind not in THINKING_TYPES:
        yield f"thinking: Input tag '{kind}' does not match any of the expected tags: {THINKING_TYPES}"
        return
    if kind not in model.thinking:
        yield f"thinking.type: '{kind}' is not supported on this model"
    allowed = {
        "adaptive": {"type", "display", "block_binding"},
        "enabled": {"type", "display", "budget_tokens", "block_binding"},
    }.get(kind, {"type"})
    for name in thinking.keys() - allowed:
        yield f"thinking.{kind}.{name}: Extra inputs are not permitted"
    displays = ("summarized", "omitted", "updates") if UPDATES_BETA in betas else ("summarized", "omitted")
    if thinking.get("display") not in (None, *displays):
        yield f"thinking.{kind}.display: Input should be one of {displays}"
    yield from _budget_violations(body, kind)
    yield from _binding_violations(thinking, model, betas)


def _budget_violations(body: Body, kind: str) -> Iterator[str]:
    if kind != "enabled":
        return
    budget = body["thinking"].get("budget_tokens")
    if not isinstance(budget, int) or budget < 1_024:
        yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    elif isinstance(body.get("max_tokens"), int) and body["max_tokens"] <= budget:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`."
    messages = merged(body)
    calling = next((said for said in reversed(messages) if said.role == "assistant"), None)
    last = messages[-1].blocks[0][1]["type"]
    if calling is not None and last == "tool_result" and "thinking" not in calling.blocks[0][1]["type"]:
        path, block = calling.blocks[0]
        yield (
            f"{path}.type: Expected `thinking` or `redacted_thinking`, but found `{block['type']}`. When "
            "`thinking` is enabled, a final `assistant` message must start with a thinking block "
            "(preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
        )


def _binding_violations(thinking: dict[str, Any], model: ServedModel, betas: frozenset[str]) -> Iterator[str]:
    binding = thinking.get("block_binding")
    if binding is None:
        return
    if BINDING_BETA not in betas or not model.binds_thinking:
        yield "thinking.block_binding: Extra inputs are not permitted"
    elif not isinstance(binding, dict) or binding.get("prefix_mismatch_behavior") not in (
        "error",
        "drop_block",
    ):
        yield "thinking.block_binding.prefix_mismatch_behavior: Input should be 'error' or 'drop_block'"


def _effort_violations(body: Body, model: ServedModel) -> Iterator[str]:
    config = body.get("output_config")
    if config is None:
        return
    if not isinstance(config, dict) or config.keys() - {"effort", "format"}:
        yield "output_config: Extra inputs are not permitted"
        return
    effort = config.get("effort")
    if effort is not None and effort not in EFFORTS:
        yield f"output_config.effort: Input should be one of {EFFORTS}"
    elif effort is not None and effort not in model.efforts:
        yield "This model does not support the effort parameter."


def _mark_violations(body: Body) -> Iterator[str]:
    """At most four cache marks in all, and those of one hour before those of five minutes."""
    marks = [tool.get("cache_control") for tool in body.get("tools") or []]
    blocks = [block for message in body["messages"] for block in blocks_of(message["content"])]
    for block in [*blocks_of(body.get("system")), *blocks]:
        marks.append(block.get("cache_control"))
        if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
            marks.extend(part.get("cache_control") for part in block["content"])
    automatic = body.get("cache_control")
    yield from mark_violations("top-level", {"cache_control": automatic})
    ttls = [mark.get("ttl", "5m") for mark in [*marks, automatic] if mark is not None]
    if len(ttls) > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {len(ttls)}."
    if "5m" in ttls and "1h" in ttls[ttls.index("5m") :]:
        yield "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block."
