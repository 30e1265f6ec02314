"""Build the turn context of a session from the setup, the model's facts and the services."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agent.errors import ConfigError, UsageError
from agent.events import Notice
from agent.extensions.agents import agents_section
from agent.extensions.hooks import NotifyingApprover, about_session, command_hooks
from agent.extensions.skills import StylePlaces
from agent.loop import (
    ATTACHED_TOPIC,
    CompactionState,
    SessionSandbox,
    TurnContext,
    attached_files,
    request_compaction,
)
from agent.model import MAX_TRIES, ModelSelection
from agent.model_port import ModelFacts, RequestSettings, output_room
from agent.permissions import PermissionRules
from agent.ports import Hooks
from agent.session import (
    Session,
    channel_rules,
    memory_text,
    post_planning,
    prompt_part,
    skills_section,
    system_prompt,
    telling_facts,
)
from compact import ANNOUNCED_LAYERS, ContextWindow, PriceList, TokenCounter, pages_referred_to
from tools.base import SMALL_WINDOW_TOKENS, ToolContext
from tools.files import recover
from tools.processes import command_runner
from transcripts import (
    Channel,
    Compacted,
    Fact,
    Folded,
    Metadata,
    Opened,
    PartKind,
    Result,
    ToolResultBlock,
    is_deferred_tool,
    to_json_bytes,
    visible_definition,
)

from .options import NO_EFFORT
from .own_commands import commands_within
from .permission_loading import home_of, permission_store
from .services import Services
from .setup import RunSetup
from .tool_search import sent_definitions
from .web_tools import served_web_tools, web_tools


def build_context(services: Services, session: Session) -> TurnContext:
    """Build the context of a session's turns. Raises ConfigError for contradictory settings."""
    setup = services.setup
    facts = services.selection.facts
    permissions = permission_store(setup)
    settings = request_settings(services, session.folded.opened, permissions.rules)
    budget = setup.options.max_budget_usd
    session.use_prices(PriceList(setup.config.prices))
    require_price(setup, facts)
    tools = tool_context_of(services, session)
    sandbox = SessionSandbox(tools, permissions=permissions, home=home_of(setup.environ))
    command_runner(tools).first_profile = sandbox.first_profile
    tools.may_read = lambda tool, path: permissions.rules.may_search(tool, path)
    tools.plan_mode = permissions
    permissions.on_planning = partial(post_planning, tools.inbox, services.tools)
    context = TurnContext(
        model=services.selection.model,
        settings=settings,
        tools=services.tools,
        tool_context=tools,
        approver=services.approver,
        hooks=session_hooks(services, session, sandbox),
        clock=setup.clock,
        permissions=permissions,
        compaction=compaction_state(services, settings),
        max_turns=setup.options.max_turns,
        max_cost=None if budget is None else session.cost + budget,
        jitter=random.random,
        summary_model=summary_model(services),
        max_tries=MAX_TRIES if setup.config.max_retries is None else 1 + setup.config.max_retries,
        checkpoints=services.repository.checkpoints(session),
        sandbox=sandbox,
        advises=not setup.options.headless,
        follows_memory=setup.options.setting_sources is None or "project" in setup.options.setting_sources,
    )
    if setup.options.asks_client or not setup.options.headless:
        context.approver = NotifyingApprover(services.approver, lambda: context.hooks)
    if services.mcp is not None:
        services.mcp.attach(tools.inbox)
        services.mcp.renew = partial(renew_tools, services, session, context)
        tools.servers = services.mcp
    tools.page_bytes = lambda: context.compaction.page_bytes
    context.tool_context.compact = partial(request_compaction, session, context)
    context.tool_context.offers = lambda name: name in context.tools
    return context


def renew_tools(services: Services, session: Session, context: TurnContext) -> None:
    """Offer the tools that servers have now, if no request was sent, or history was replaced since.

    In that case the cached prefix is lost anyway, and the thinking that was bound to it is gone.
    """
    opened = session.folded.opened
    mcp = services.mcp
    if mcp is None:
        return
    if opened is not None:
        later = takewhile(lambda fact: fact.seq > opened.seq, reversed(session.folded.facts))
        if not any(isinstance(fact, Compacted) and fact.layer in ANNOUNCED_LAYERS for fact in later):
            return
    mcp.forget_tools()
    services.fix_tools()
    context.tools = services.tools
    settings = replace(context.settings, tools=offered_definitions(services, context.permissions.rules))
    context.settings = settings.without(*settings.rejected)
    context.compaction.overhead = sum(overheads(context.settings, context.compaction.counter).values())


def offered_definitions(services: Services, rules: PermissionRules) -> tuple[Mapping[str, Any], ...]:
    """Return the definitions of all tools to send, with those that run on the server."""
    web = web_tools(served_web_tools(services.setup), rules)
    return (*sent_definitions(services.tools.values()), *web)


def require_price(setup: RunSetup, facts: ModelFacts) -> None:
    """Raise UsageError if there is a budget but the model's price is unknown."""
    if setup.options.max_budget_usd is not None and PriceList(setup.config.prices).known(facts.id) is None:
        raise UsageError(
            f"cannot apply --max-budget-usd: the price of {facts.id} is unknown; add"
            f" [prices.{json.dumps(facts.id)}] with input and output, in dollars per million tokens, to your"
            " settings file"
        )


def session_hooks(services: Services, session: Session, sandbox: SessionSandbox) -> Hooks | None:
    """Return the hooks of an embedding program and of the settings; None if there are none."""
    setup = services.setup
    of_plugins = (entry for plugin in services.active_plugins for entry in plugin.hooks)
    entries = (*setup.config.hooks, *services.approved.hooks, *of_plugins)
    if not entries:
        return setup.hooks
    about = partial(about_session, session, sandbox.tools, sandbox.permissions)
    return command_hooks(
        entries,
        commands_within(sandbox, services.approved.files),
        about,
        services.warn,
        first=setup.hooks,
        attended=not setup.options.headless,
    )


def tool_context_of(services: Services, session: Session) -> ToolContext:
    """Build the context for the tools of a session, after undoing writes that a crash interrupted."""
    setup = services.setup
    outputs = services.repository.outputs
    context = ToolContext(
        folder=setup.folder,
        added=setup.added,
        cwd=setup.folder,
        outputs=outputs,
        journals=setup.config.state_dir.resolve() / "journals",
        in_view=lambda seq: shows(session.folded, seq),
        lookup=partial(services.repository.originals, session),
        environ=setup.program_environ,
        session=session.sid,
        attended=not setup.options.headless and setup.options.input_format == "text",
        pass_env=frozenset(setup.config.pass_env),
        masks=setup.masks,
        records=services.repository.guard,
    )
    for restored in recover(context.journals):
        services.warn(f"restored {restored}: a previous run ended while writing it")
    _restore_seen(context, telling_facts(session.folded))
    runner = command_runner(context)
    runner.on_finish = lambda announcement: services.emit(Notice(announcement))
    runner.begun = services.supervisor
    services.supervisor = None
    return context


def _restore_seen(context: ToolContext, facts: Sequence[Fact]) -> None:
    """Restore the files that the model has seen, newest first: most facts show files that changed later."""
    known = set[str]()
    for fact in reversed(facts):
        prompt = None
        shown: Sequence[Mapping[str, Any]] = ()
        if isinstance(fact, Result):
            shown = (fact.about,) if "sha256" in fact.about else ()
        elif isinstance(fact, Metadata) and fact.topic == ATTACHED_TOPIC:
            prompt = int(fact.about.get("prompt", 0))
            shown = attached_files(fact.about)[::-1]
        for about in shown:
            path = str(about.get("path"))
            if path not in known and "unchanged" not in about:
                known.add(path)
                context.restore_seen(about, fact.seq if prompt is None else prompt, prompt is not None)


def request_settings(services: Services, opened: Opened | None, rules: PermissionRules) -> RequestSettings:
    """Return the settings that all requests share.

    The system prompt is the one that the session began with; the rest follows the settings now.
    """
    setup = services.setup
    facts = services.selection.facts
    max_output = output_room(services.window)
    thinking, effort = how_to_think(setup, facts)
    began = opened is not None and opened.system  # with this system prompt, which may name no tag
    tag = opened.tag if opened is not None and began else Channel.new().suffix
    return RequestSettings(
        model=facts.id,
        max_tokens=min(setup.config.max_tokens, facts.max_output, max_output),
        system=opened.system if opened is not None and began else _new_system_prompt(services, rules, tag),
        tools=offered_definitions(services, rules),
        thinking=thinking,
        silent_thinking=setup.options.thinking_display == "omitted",
        effort=effort,
        cache=setup.config.cache if facts.cache and setup.config.caches else None,
        eager=facts.eager,
        diagnoses=facts.diagnoses,
        system_role=facts.system_role,
        tag=tag,
    )


def how_to_think(setup: RunSetup, facts: ModelFacts) -> tuple[bool, str | None]:
    """Return whether the model thinks first, and its effort; None leaves the effort to the model."""
    effort = setup.options.effort or setup.config.effort
    thinks = setup.options.thinking
    if thinks is None or setup.options.effort == NO_EFFORT:
        thinks = setup.config.thinks and effort != NO_EFFORT
    return facts.thinking and thinks, effort if facts.effort and effort != NO_EFFORT else None


def _new_system_prompt(services: Services, rules: PermissionRules, tag: str) -> tuple[str, ...]:
    setup = services.setup
    options = setup.options
    memory = services.memory.find(options.setting_sources, partial(rules.may_search, "read"))
    _warn_of_size(services, memory)
    texts = system_prompt(
        memory,
        services.tools,
        extra=options.append_system_prompt,
        own=options.system_prompt,
        brief=services.window <= SMALL_WINDOW_TOKENS,
    )
    if "skill" in services.tools:
        section = skills_section(services.skills.for_model(), services.window, services.counter.text)
        texts = (*texts, section) if section else texts
    if "task" in services.tools and (agents := agents_section(services.agents)):
        texts = (*texts, agents)
    style = _style(services)
    texts = (*texts, style, channel_rules(tag)) if style else (*texts, channel_rules(tag))
    return tuple(map(setup.masks.text, texts))


def _warn_of_size(services: Services, memory: Mapping[Path, str]) -> None:
    tokens = sum(services.counter.text(memory_text(path, text)) for path, text in memory.items())
    if (share := tokens / services.window) > 0.05:  # smaller memory files are not worth a warning
        services.warn(f"memory files take {tokens:,} tokens ({share:.0%} of the context window); see /memory")


def _style(services: Services) -> str:
    """Return the text of the output style; "" if none is set or, with a warning, if it cannot be read."""
    setup = services.setup
    name = setup.config.output_style or services.approved.output_style
    places = StylePlaces(
        setup.folder,
        user_dir=setup.config.user_dir,
        environ=setup.environ,
        sources=setup.options.setting_sources,
        plugins=services.active_plugins,
    )
    try:
        return places.text(name)
    except ValueError as error:
        services.warn(str(error))
        return ""


def summary_model(services: Services) -> str:
    """Return the model set for summaries, "" for the session's own. Only Anthropic's provider has one."""
    config = services.setup.config
    offline = services.setup.options.offline
    named = "" if offline or config.provider != "anthropic" else config.summary_model
    return services.selection.model.catalog.resolve(named) if named else ""


def window_source(setup: RunSetup, selection: ModelSelection) -> str:
    """Return the source of the window size in words, "" if the size is a guess."""
    facts = selection.facts
    given = setup.given_window
    if given and selection.learned.get(facts.id, given) < given:
        return facts.window_source
    if setup.options.context_window:
        return setup.options.window_flag
    if setup.config.context_window:
        return setup.config.origins.get("context_window", "settings")
    return facts.window_source or (
        "the built-in model table" if selection.model.known_facts(facts.id).known else ""
    )


def compaction_state(services: Services, settings: RequestSettings) -> CompactionState:
    """Build the state of the compaction pipeline.

    Raises ConfigError for contradictory settings, and UsageError or ConfigError for a window that is set so
    small that no prompt fits.
    """
    setup = services.setup
    facts = services.selection.facts
    limits = setup.compact_settings()
    prices = PriceList(setup.config.prices).planning(facts.id)
    if settings.cache == "1h":
        limits = limits.for_hour_cache()
        prices = replace(prices, write=prices.write_hour)
    overhead = sum(overheads(settings, services.counter).values())
    _require_larger_window(setup, overhead)
    return CompactionState(
        settings=limits,
        window=ContextWindow(services.window, settings.max_tokens),
        prices=prices,
        counter=services.counter,
        overhead=overhead,
        binds=facts.binds,
        learn_window=services.selection.learn_window,
        window_source=window_source(setup, services.selection),
        cuts_silently=facts.cuts_silently,
    )


def _require_larger_window(setup: RunSetup, overhead: int) -> None:
    given = setup.given_window
    if given is None or given > overhead:
        return
    words = f"the system prompt and the tools alone take {overhead:,} tokens"
    if setup.options.context_window:
        raise UsageError(f"cannot work with {setup.options.window_flag} {given}: {words}")
    origin = setup.config.origins.get("context_window", "settings")
    raise ConfigError(f"cannot work with context_window = {given} ({origin}): {words}")


def overheads(settings: RequestSettings, counter: TokenCounter) -> dict[str, int]:
    """Return our token counts of the parts before the messages: system prompt, memory files, tools."""
    sizes = {"system": 0, "memory files": 0}
    for text in settings.system:
        part = prompt_part(text)
        sizes[part] = sizes.get(part, 0) + counter.text(text)
    loaded = (tool for tool in settings.tools if not is_deferred_tool(tool))
    tools = to_json_bytes([visible_definition(tool) for tool in loaded])
    return {**sizes, "tools": counter.text(tools.decode())}


def shows(folded: Folded, seq: int) -> bool:
    """Return whether the view still shows fact `seq` unchanged.

    For a result this includes the pages that it refers to; for a prompt, all its files.
    """
    view = folded.view
    at = view.index_of(seq)
    parts = [part for part in view[at].parts if part.seq == seq] if at < len(view) else []
    for part in parts:
        if part.kind is PartKind.RESULT and isinstance(part.block, ToolResultBlock):
            return all(shows(folded, page) for page in pages_referred_to(part.block.content))
    return {part.kind for part in parts} == {PartKind.USER}
