"""The command line as understood: plain data. A named tuple, which costs `--help` half of a dataclass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from agent.permissions.rules import Mode
from tools.wall import SandboxSetting

Effort = Literal["low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)
# What --output-format may name -> where its class is, which only a run that uses it imports.
OUTPUT_FORMATS: Mapping[str, str] = {
    "text": "agent.ui.output_formats:TextFormat",
    "json": "agent.ui.output_formats:JsonFormat",
    "stream-json": "agent.ui.output_formats:StreamJsonFormat",
}


class Options(NamedTuple):
    """Values of the flags; None where a flag was not given.

    `resume` is None (no), "" (choose one), or an id, a name, a file. `max_budget_usd` is in US dollars.
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
    effort: str | None = None
    folder: str | None = None
    no_session: bool = False
    continue_: bool = False
    resume: str | None = None
    fork_session: bool = False
    offline: bool = False
    plain: bool = False
    color: str = "auto"
    append_system_prompt: str = ""
    debug_file: str | None = None
