"""The parsed command line as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct

from agent.permissions import Mode
from tools.sandbox import SandboxSetting

Effort = Literal["low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)
NO_EFFORT: Literal["off"] = "off"  # without thinking
EFFORT_CHOICES = (NO_EFFORT, *EFFORTS)
ThemeName = Literal["auto", "dark", "light", "ansi", "colour-blind", "colour-blind-light"]
THEMES: tuple[ThemeName, ...] = get_args(ThemeName)
EditingMode = Literal["emacs", "vim"]
EDITING_MODES: tuple[EditingMode, ...] = get_args(EditingMode)
# A value of --output-format -> the place of its class, which is imported only when it is used.
OUTPUT_FORMATS: Mapping[str, str] = {
    "text": "agent.ui:TextFormat",
    "json": "agent.ui:JsonFormat",
    "stream-json": "agent.stream_protocol:StreamJsonFormat",
}


class Options(Struct, frozen=True):
    """Values of the flags; None where a flag was not given.

    resume          None: no; "": choose a session; otherwise an id, a name or a file
    max_budget_usd  in US dollars
    at              the seq of the last fact that a fork copies
    worktree        the name of the git worktree to work in; "": a new one

    Fields from `input_format` on are for programs that run makeroom:

    asks_client     the client answers permission questions
    may_bypass      the client may switch to bypassPermissions later
    agents          agent definitions in JSON
    remarks         lines about flags without effect
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
    window_flag: str = "--context-window"  # the name of the flag that set context_window
    effort: str | None = None
    folder: str | None = None
    no_session: bool = False
    continue_: bool = False
    resume: str | None = None
    fork_session: bool = False
    from_elsewhere: bool = False
    at: int | None = None
    offline: bool = False
    sample: bool = False
    worktree: str | None = None
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
    plugin_dirs: tuple[str, ...] = ()
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
