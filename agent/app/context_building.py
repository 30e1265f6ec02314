"""Parts made to measure: request frame, room, place, grants, from the setup and the model facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agent.loop.context import CompactionState
from agent.model.anthropic.request import RequestFrame
from agent.model.catalog import ModelFacts
from agent.permissions.permission_store import PermissionStore, permissions_path, stored_rules
from agent.permissions.rules import PermissionRules, Rule, parse_rules
from agent.session.session import Session
from agent.session.system_prompt import memory_paths, read_memory, system_prompt
from agent.session.tool_definitions import definitions
from compact.prices import prices_for
from compact.tokens import TokenCounter
from compact.window import ContextWindow
from tools.base import Tool, ToolContext
from transcripts.facts import Opened
from transcripts.fold import Folded
from transcripts.view import PartKind, dump

from .setup import RunSetup

LEAST_OUTPUT = 1024  # tokens, however small the window


def make_frame(
    setup: RunSetup, facts: ModelFacts, box: Mapping[str, Tool], opened: Opened | None
) -> RequestFrame:
    """What every request has in common: the system prompt as the session began, the rest as it is now."""
    if opened is not None:
        system = opened.system
    else:
        user_dir = setup.config.user_dir
        memory = read_memory(memory_paths(setup.folder, user_dir), user_dir)
        told = system_prompt(memory, setup.options.append_system_prompt)
        system = tuple(map(setup.masks.text, told))
    adaptive = {"type": "adaptive", "display": "summarized"}
    # A quarter of a small window at most: a reply has to fit beside its prompt.
    longest = max(LEAST_OUTPUT, window_size(setup, facts) // 4)
    return RequestFrame(
        model=facts.id,
        max_tokens=min(setup.config.max_tokens, facts.max_output, longest),
        system=system,
        tools=definitions(box),
        thinking=adaptive if facts.thinking == "adaptive" else None,
        effort=(setup.options.effort or setup.config.effort) if facts.effort else None,
        cache=setup.config.cache if facts.cache else None,
        eager=facts.eager,
    )


def window_size(setup: RunSetup, facts: ModelFacts) -> int:
    """The window in tokens: as told by flag or settings, else the model's."""
    return setup.options.context_window or setup.config.context_window or facts.window


def make_room_for(
    setup: RunSetup, facts: ModelFacts, frame: RequestFrame, counter: TokenCounter
) -> CompactionState:
    """What the pipeline needs to know. Raises ConfigError for settings that make no sense."""
    return CompactionState(
        settings=setup.settings(),
        window=ContextWindow(window_size(setup, facts), frame.max_tokens),
        prices=prices_for(facts.id),
        counter=counter,
        overhead=sum(overheads(frame, counter).values()),
        binds=facts.binds,
    )


def max_cost(setup: RunSetup, session: Session) -> float | None:
    """The dollars that a session may come to: what it cost before this run, and the budget of the run."""
    budget = setup.options.max_budget_usd
    return None if budget is None else session.cost + budget


def overheads(frame: RequestFrame, counter: TokenCounter) -> dict[str, int]:
    """Our count of what stands before the messages: system, memory files, tools."""
    identity, *memory = frame.system or ("",)
    return {
        "system": counter.text(identity),
        "memory files": sum(counter.text(text) for text in memory),
        "tools": counter.text(dump(list(frame.tools)).decode()),
    }


def make_place(setup: RunSetup, session: Session, outputs: Path) -> ToolContext:
    """Where the tools of a session work."""
    return ToolContext(
        folder=setup.folder,
        cwd=setup.folder,
        outputs=outputs,
        journals=setup.config.state_dir.resolve() / "journals",
        in_view=lambda seq: shows(session.folded, seq),
        environ=setup.environ,
        name=session.sid,
        passed=frozenset(setup.config.pass_env),
        masks=setup.masks,
    )


def make_grants(setup: RunSetup) -> PermissionStore:
    """The permission mode and rules to begin with; what was granted for good is read as it is now."""
    options, config = setup.options, setup.config
    path = permissions_path(config.user_dir, setup.folder)
    set_up = [rule for rule in config.allow if rule.origin != str(path)]
    allow = (*set_up, *stored_rules(path), *_flagged("--allowedTools", options.allowed_tools))
    deny = (*config.deny, *_flagged("--disallowedTools", options.disallowed_tools))
    return PermissionStore(PermissionRules(setup.mode, allow, deny, str(setup.folder)), path)


def _flagged(flag: str, texts: Sequence[str]) -> list[Rule]:
    return [replace(rule, origin=flag) for text in texts for rule in parse_rules(text)]


def shows(folded: Folded, seq: int) -> bool:
    """Whether the view still shows the result `seq` as it was."""
    view = folded.view
    at = view.index_of(seq)
    return at < len(view) and any(part.seq == seq and part.kind is PartKind.RESULT for part in view[at].parts)
