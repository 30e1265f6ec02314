"""The command line as understood: plain data. A named tuple, which costs `--help` half of a dataclass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from agent.permissions import Mode
from tools.sandbox import SandboxSetting

Effort = Literal["low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)
NO_EFFORT: Literal["off"] = "off"  # without thinking
ThemeName = Literal["auto", "dark", "light", "ansi", "colour-blind", "colour-blind-light"]
THEMES: tuple[ThemeName, ...] = get_args(ThemeName)
EditingMode = Literal["emacs", "vim"]
EDITING_MODES: tuple[EditingMode, ...] = get_args(EditingMode)
# What --output-format may name -> where its class is, which only a run that uses it imports.
OUTPUT_FORMATS: Mapping[str, str] = {
    "text": "agent.ui:TextFormat",
    "json": "agent.ui:JsonFormat",
    "stream-json": "agent.stream_protocol:StreamJsonFormat",
}


class Options(NamedTuple):
    """Values of the flags; None where a flag was not given.

    `resume` is None (no), "" (choose one), or an id, a name, a file. `max_budget_usd` is in US dollars.
    `at` is the number of the last fact that a copy takes over.
    From `input_format` on they are for programs that run makeroom: `asks_client` has permission questions
    answered by the client, `may_bypass` allows a later switch to bypassPermissions, `agents` defines some in
    JSON, `remarks` are lines about flags that have no effect.
    """

    prompt: str = ""
    headless: bool = False
    output_format: str = "text"
    model: str | None = None
    max_turns: int | None = None
    max_budget_usd: float | None = None
    permission_mode: Mode | None = None
    sandbox: SandboxSetting | None = None
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    policy: str | None = None
    context_window: int | None = None
    window_flag: str = "--context-window"  # or the flag that told context_window in its place
    effort: str | None = None
    folder: str | None = None
    no_session: bool = False
    continue_: bool = False
    resume: str | None = None
    fork_session: bool = False
    at: int | None = None
    offline: bool = False
    sample: bool = False
    plain: bool = False
    color: str = "auto"
    append_system_prompt: str = ""
    safe_mode: bool = False
    debug_file: str | None = None
    input_format: str = "text"
    session_id: str | None = None
    system_prompt: str | None = None
    system_prompt_file: str | None = None
    append_system_prompt_file: str | None = None
    tools: tuple[str, ...] | None = None
    asks_client: bool = False
    may_bypass: bool = False
    fallback_model: str | None = None
    add_dirs: tuple[str, ...] = ()
    settings: str | None = None
    setting_sources: tuple[str, ...] | None = None
    mcp_config: tuple[str, ...] = ()
    strict_mcp_config: bool = False
    partial_messages: bool = False
    replay_user_messages: bool = False
    json_schema: str | None = None
    thinking: bool | None = None
    thinking_display: str | None = None
    betas: tuple[str, ...] = ()
    agents: str = ""
    remarks: tuple[str, ...] = ()
