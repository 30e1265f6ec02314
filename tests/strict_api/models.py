"""The models that the strict server serves, and how the models endpoint describes them."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

EFFORTS = ("low", "medium", "high", "xhigh", "max")
THINKING_TYPES = ("adaptive", "between_tools", "disabled", "enabled")


class ServedModel(Struct, frozen=True):
    """The limits and features of a model.

    `thinks_unasked`: it thinks where a request lacks `thinking`. `system_role`: messages may have the role
    "system".
    """

    id: str
    window: int
    max_output: int
    thinking: tuple[str, ...]
    binds_thinking: bool = True
    thinks_unasked: bool = False
    efforts: tuple[str, ...] = EFFORTS
    forced_tools: bool = True
    min_cacheable: int = 1024
    system_role: bool = False


MODELS = {
    model.id: model
    for model in (
        ServedModel(
            "claude-sonnet-5-5",
            1_000_000,
            128_000,
            ("adaptive", "between_tools"),
            thinks_unasked=True,
            forced_tools=False,
            system_role=True,
        ),
        ServedModel(
            "claude-opus-5-5",
            1_000_000,
            128_000,
            ("adaptive",),
            thinks_unasked=True,
            forced_tools=False,
            system_role=True,
        ),
        ServedModel(
            "claude-haiku-5-5",
            1_000_000,
            128_000,
            ("adaptive", "disabled"),
            thinks_unasked=True,
            system_role=True,
        ),
        ServedModel(
            "claude-sonnet-4-6",
            1_000_000,
            128_000,
            ("adaptive", "disabled", "enabled"),
            binds_thinking=False,
            efforts=("low", "medium", "high", "max"),
        ),
        ServedModel(
            "claude-haiku-4-5", 200_000, 64_000, ("disabled", "enabled"), binds_thinking=False, efforts=()
        ),
        ServedModel("makeroom-offline", 200_000, 64_000, ("adaptive", "disabled")),
    )
}


def find_model(
    model: str, window: int | None, max_output: int | None, binds: bool | None
) -> ServedModel | None:
    """The model of that id with the server's limits applied, or None where there is none."""
    found = MODELS.get(model)
    if found is None:
        return None
    return replace(
        found,
        window=found.window if window is None else window,
        max_output=found.max_output if max_output is None else max_output,
        binds_thinking=found.binds_thinking if binds is None else binds,
    )


def describe_model(model: ServedModel) -> dict[str, Any]:
    """The model as GET /v1/models/{id} shows it (the fields of the SDK's `ModelInfo`)."""
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.id.replace("-", " ").title(),
        "created_at": "2026-10-01T00:00:00Z",
        "lifecycle": "active",
        "deprecated_at": None,
        "retires_at": None,
        "line": None,
        "max_input_tokens": model.window,
        "max_tokens": model.max_output,
        "capabilities": _capabilities(model),
    }


def _capabilities(model: ServedModel) -> dict[str, Any]:
    yes, no = {"supported": True}, {"supported": False}
    effort = {name: {"supported": name in model.efforts} for name in EFFORTS}
    thinking = {name: {"supported": name in model.thinking} for name in THINKING_TYPES}
    return {
        "batch": no,
        "citations": no,
        "code_execution": no,
        "context_management": {
            "supported": False,
            "clear_thinking_20251015": no,
            "clear_tool_uses_20250919": no,
            "compact_20260112": no,
        },
        "effort": {"supported": bool(model.efforts), **effort},
        "image_input": yes,
        "pdf_input": no,
        "server_tools": {"supported": False, "code_execution": no, "web_search": no},
        "structured_outputs": no,
        "thinking": {"supported": bool(model.thinking), "types": thinking},
    }
