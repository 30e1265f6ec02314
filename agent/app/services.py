"""The services of a run of the program, which outlive its sessions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from agent.errors import ConfigError, UnknownModel, UsageError
from agent.events import Emit, Notice
from agent.extensions import Approvals, IgnoredPart, skills
from agent.extensions.agents import BUILTIN_AGENTS, AgentDefinition, AgentPlaces
from agent.extensions.hooks import ApprovedSettings
from agent.extensions.plugins import Plugin, PluginPlaces
from agent.extensions.skills import SkillLibrary
from agent.menus import Menu, MenuRow
from agent.model import ModelSelection
from agent.ports import Approver, Chooser, CommandSummary, ToolSource, WaitingPrompts
from agent.session import MemoryPlaces, SessionRepository
from agent.settings_files import home_folder
from compact import TokenCounter
from tools import TOOL_NAMES
from tools.base import SMALL_WINDOW_TOKENS, Tool
from tools.registry import join_tools
from tools.search import Checkout

from .memory_approval import approved_memory
from .permission_loading import denied_tools
from .project_approval import settle_project_items
from .project_place import ask_for_folder_access
from .setup import RunSetup
from .structured_output import StructuredOutput
from .unread_files import unread_files
from .web_tools import fetches_by_service

if TYPE_CHECKING:
    from agent.extensions.mcp import McpServers
    from tools.sandbox import Supervisor

RETIREMENT_NOTICE_S = 60 * 86_400.0  # before a model retires; providers announce it that early


def _foreign_tools(agents: Iterable[AgentDefinition]) -> Iterator[IgnoredPart]:
    """Yield the tools in the files of agents that makeroom does not have; those of MCP servers may come."""
    own = dict.fromkeys((*TOOL_NAMES, "mcp"), True)
    for agent in agents:
        names = [name for name in (*(agent.tools or ()), *agent.without) if not name.endswith("*")]
        if not names or not Path(agent.origin).is_absolute():  # it has no file
            continue
        from agent.loop import same_tool  # 20 ms that few sessions need before the first prompt

        for name in names:
            if same_tool(own, name) is None:
                yield IgnoredPart(Path(agent.origin), f"tool {name}", "makeroom has no such tool")


class Services(Struct):
    """The services that outlive a session within one run of the program.

    They are created immediately, and the slow parts are loaded once the prompt is shown.

    chooser           None where no user can choose
    waiting           None where no user can type while a turn runs
    builtin_commands  lists the slash commands of makeroom
    turn_ends         called once each, when the turn ends
    """

    setup: RunSetup
    emit: Emit
    approver: Approver
    selection: ModelSelection
    repository: SessionRepository
    counter: TokenCounter
    sources: tuple[ToolSource, ...]
    tools: dict[str, Tool] = field(default_factory=dict)
    structured: StructuredOutput | None = None
    mcp: McpServers | None = None
    chooser: Chooser | None = None
    waiting: WaitingPrompts | None = None
    # Replaced by `settle`; until then, nothing in the project is approved.
    approvals: Approvals = field(default_factory=lambda: Approvals(Path(os.devnull), Path()))
    agents: Mapping[str, AgentDefinition] = field(default_factory=lambda: BUILTIN_AGENTS)
    approved: ApprovedSettings = field(default_factory=ApprovedSettings)
    plugins: tuple[Plugin, ...] = ()
    skills: SkillLibrary = field(default_factory=SkillLibrary)
    builtin_commands: Callable[[], Sequence[CommandSummary]] = tuple
    turn_ends: list[Callable[[], None]] = field(default_factory=list)
    supervisor: asyncio.Task[Supervisor] | None = None  # begun for the first session
    _late: set[asyncio.Task[None]] = field(default_factory=set)  # finished before the services are closed
    problems: Sequence[str] = ()  # of the approved settings, plugins and agents
    _ignored_in_agents: Sequence[IgnoredPart] = ()
    _ignored_files: Sequence[IgnoredPart] = ()

    def warn(self, text: str) -> None:
        self.emit(Notice(text, "warning"))

    async def read_approved(self) -> None:
        """Load the approved settings, plugins and agents, for sessions made from now on."""
        folder = self.setup.folder
        environ = self.setup.environ
        sources = self.setup.options.setting_sources
        self.approved = await asyncio.to_thread(
            ApprovedSettings.read, self.approvals, folder, environ, sources
        )
        self.setup = replace(self.setup, variables=self.approved.variables)
        self.repository.masks = self.setup.masks
        given = () if self.setup.options.safe_mode else self.setup.options.plugin_dirs
        places_of_plugins = PluginPlaces(folder, environ, sources=sources, given=given)
        self.plugins = tuple(await asyncio.to_thread(places_of_plugins.plugins))
        places = AgentPlaces(
            folder=folder,
            environ=environ,
            user_dir=self.setup.config.user_dir,
            sources=sources,
            given=self.setup.options.agents,
            plugins=self.active_plugins,
        )
        try:
            loaded = await asyncio.to_thread(places.agents, self.approvals.allows)
        except ValueError as error:
            raise UsageError(f"--agents: {error}") from error
        self.agents = loaded.agents
        self._ignored_in_agents = loaded.ignored
        if sources is None:
            found = unread_files(self.setup.memory, home_folder(environ).resolve())
            self._ignored_files = await asyncio.to_thread(list, found)
        unusable = [
            f"the plugin {one.id}: {one.problem}"
            for one in self.plugins
            if one.enabled and one.problem and one.missing_from is None
        ]
        known = self.problems
        self.problems = (*self.approved.problems, *unusable, *loaded.problems)
        for problem in self.problems:
            if problem not in known:
                self.warn(problem)

    @property
    def active_plugins(self) -> list[Plugin]:
        """Return the plugins that may act: given by a flag, or approved."""
        usable = (plugin for plugin in self.plugins if not plugin.problem)
        return [each for each in usable if each.source == "flag" or self.approvals.allows(each.item)]

    @property
    def ignored_parts(self) -> list[IgnoredPart]:
        """Return the parts without effect of Claude Code's settings files, of agents, skills and plugins."""
        of_plugins = (
            IgnoredPart(plugin.root, name, why)
            for plugin in self.active_plugins
            for name, why in plugin.ignored
        )
        missing = (
            IgnoredPart(plugin.missing_from, f"the plugin {plugin.id}", plugin.problem)
            for plugin in self.plugins
            if plugin.enabled and plugin.missing_from is not None
        )
        of_skills = (part for skill in self.skills.skills.values() for part in skill.ignored)
        return [
            *self.approved.ignored,
            *self._ignored_in_agents,
            *_foreign_tools(self.agents.values()),
            *of_skills,
            *self.skills.unusable,
            *self.skills.hidden(one.name for one in self.builtin_commands()),
            *of_plugins,
            *missing,
            *self._ignored_files,
        ]

    @property
    def memory(self) -> MemoryPlaces:
        """The places of memory files, with the approved ones above the repository. Blocks on the disk."""
        approved = approved_memory(self.approvals, self.setup.folder, self.setup.environ)
        return replace(self.setup.memory, above=approved)

    async def settle(self) -> None:
        """Ask the user about undecided items of the project, and load the approved ones."""
        self.setup = await ask_for_folder_access(self.setup, self.chooser, self.emit)
        self.approvals = await settle_project_items(self.setup, self.chooser, self.emit)
        await self.read_approved()
        self._use_approved_model()
        await self.find_skills()

    def _use_approved_model(self) -> None:
        """Use the model of Claude Code's settings files if no setting of our own names one."""
        setup = self.setup
        name = self.approved.model
        if not name or setup.model_name or setup.options.offline or setup.config.provider != "anthropic":
            return
        id = self.selection.model.catalog.resolve(name)
        if not self.selection.knows(id):
            self.warn(f"unknown model {name!r} in a settings file of Claude Code (ignored); see /model")
            return
        origins = {**setup.config.origins, "model": "settings of Claude Code"}
        self.setup = replace(setup, config=replace(setup.config, model=name, origins=origins))
        self.selection.facts = self.selection.model.known_facts(id)

    def begin_supervisor(self) -> None:
        """Start the supervisor of the first session beside `warm`, if its first prompt runs git."""
        from tools.processes import begin_session_supervisor  # 10 ms, not before a prompt is painted

        if Checkout.around(self.setup.folder) is not None:
            self.supervisor = begin_session_supervisor(self.setup.program_environ)

    async def warm(self) -> None:
        """Load the slow parts: tools, client, tokenizer table, model. `settle` must have returned."""
        for source in self.sources:
            await source.open(self.setup.folder, self.setup.program_environ)
        await asyncio.to_thread(self.selection.model.connect)
        await self._choose_model()
        if self.window <= 64_000:  # a rough count of the first prompts may be too inaccurate there
            await asyncio.to_thread(self.counter.warm)
        self.fix_tools()

    async def _choose_model(self) -> None:
        """Use the model that is set; if the server has others, the user chooses. Raises UnknownModel."""
        setup = self.setup
        try:
            await self.selection.choose(setup.model_name)
        except UnknownModel as error:
            if not setup.model_name and len(error.listed) == 1:
                await self.selection.choose(error.listed[0])
                return
            if self.chooser is None or not error.listed:
                raise
            rows = tuple(MenuRow(id, id) for id in error.listed)
            problem = str(error) if setup.model_name else "the server has several models"
            why = problem[:1].upper() + problem[1:]
            menu = Menu(f"{why}. Choose one:", rows, appears_unasked=True)
            row = await self.chooser.choose(menu)
            if row is None:
                raise
            origins = {**setup.config.origins, "model": "your choice at startup"}
            config = replace(setup.config, model=row.value, openai_model=None, origins=origins)
            self.setup = replace(setup, options=replace(setup.options, model=None), config=config)
            await self.selection.choose(row.value)

    def fix_tools(self) -> None:
        """Offer the tools that the sources have now. Raises ConfigError."""
        try:
            offers = [(each.name, each.tools()) for each in self.sources]
            if self.skills.for_model():
                offers.append(("skills", (skills.TOOL,)))
            joined = join_tools(offers)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        if any(tool.deferred for tool in joined.values()):
            from .tool_search import defers_tools  # saves runs without servers 5 ms

            if not defers_tools(self.setup, joined.values(), self.window, self.counter):
                joined = {name: tool for name, tool in joined.items() if not tool.deferred}
        wanted = self.setup.options.tools
        own = set(TOOL_NAMES)
        left_out = own & self._left_out(joined) if wanted is None else own.difference(wanted)
        offered = {name: tool for name, tool in joined.items() if name not in left_out}
        if self.window <= SMALL_WINDOW_TOKENS:
            offered = {name: tool.in_brief() for name, tool in offered.items()}
        self.tools = offered

    def _left_out(self, tools: Mapping[str, Tool]) -> Set[str]:
        """Return the names of the tools that are of no use in this run, unless a flag names them."""
        left_out = {name for name, tool in tools.items() if self.window < tool.least_window}
        left_out |= denied_tools(self.setup)
        options = self.setup.options
        if fetches_by_service(self.setup):
            left_out |= {"web_fetch"}
        if options.headless and not options.asks_client:  # no one can answer
            left_out |= {"ask_user"} if self.setup.mode == "plan" else {"ask_user", "exit_plan"}
        return left_out

    @property
    def window(self) -> int:
        """The context window in tokens: set by flag or settings, else the model's.

        It is at most the size that an error of the server has named.
        """
        facts = self.selection.facts
        learned = self.selection.learned
        window = self.setup.given_window or facts.window
        return min(window, learned.get(facts.id, window))

    def warn_of_window(self) -> None:
        """Warn if the window is set to more than the server reports."""
        facts = self.selection.facts
        given = self.setup.given_window
        if given and facts.window_source and self.window == given > facts.window:
            self.warn(
                f"the context window is set to {given:,} tokens, but the server reports {facts.window:,} "
                f"({facts.window_source}); if it rejects a request as too large, its limit is used"
            )

    def warn_of_retirement(self) -> None:
        """Warn if the model is scheduled to retire soon, after which requests for it fail."""
        facts = self.selection.facts
        now = self.setup.clock.now()
        today, soon = (
            datetime.fromtimestamp(at, UTC).date().isoformat() for at in (now, now + RETIREMENT_NOTICE_S)
        )
        if facts.retires_on and facts.retires_on <= soon:
            when = "was to retire" if facts.retires_on < today else "is scheduled to retire"
            how = "--model" if self.setup.options.headless else "/model"
            self.warn(f"{facts.id} {when} on {facts.retires_on}; change the model with {how}")

    def summaries_behind(self, own: Sequence[CommandSummary]) -> Sequence[CommandSummary]:
        """List the built-in commands `own`, then the commands, skills and server prompts that users add."""
        names = {each.name for each in own}
        added = (*self.skills.summaries(names), *(self.mcp.summaries() if self.mcp is not None else ()))
        return (*own, *(each for each in added if each.name not in names))

    def told_tools(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names of the tools as a client is shown them: with those that servers offer by `mcp`."""
        servers = self.mcp.servers if self.mcp is not None else ()
        found = (name for each in servers if not each.failure for name in each.offer.names.values())
        return tuple(dict.fromkeys((*names, *found)))

    async def find_skills(self) -> None:
        """Find commands and skills, or find them again."""
        setup = self.setup
        self.skills = await asyncio.to_thread(
            SkillLibrary.load,
            setup.folder,
            setup.environ,
            setup.config.user_dir,
            sources=setup.options.setting_sources,
            plugins=self.active_plugins,
        )

    def end_turn(self) -> None:
        """Revoke everything that was granted for this turn only."""
        while self.turn_ends:
            self.turn_ends.pop()()

    def after_turn(self) -> None:
        """Do the work that is due between two turns, unseen by the user."""
        self.end_turn()
        if self.mcp is not None:
            self.mcp.renew()
        if not self.setup.options.headless:
            self.repository.update_index()

    def finish_later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do work that no one waits for, before the services are closed."""
        task = asyncio.ensure_future(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def close(self) -> None:
        """Close sources, model and repository; nothing that this run started outlives it."""
        await asyncio.gather(*self._late, return_exceptions=True)
        if self.supervisor is not None:
            from tools.processes import abandon_start  # 10 ms

            await abandon_start(self.supervisor)
        for source in self.sources:
            await source.close()
        await self.selection.model.close()
        self.repository.close()
