"""Use a command or skill in a session: fill in its text, run its command lines, grant the rights it names.

A command or skill from a checkout runs commands and gets rights only if its current content is approved.
Rights, model and effort last until the turn ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from glob import escape

from msgspec import Struct, field
from msgspec.structs import replace

from agent.errors import AgentError
from agent.events import Notice, TurnFinished
from agent.extensions.skills import CommandLine, Skill, SkillLibrary, open_skill, search_result
from agent.loop import NO_ADDITIONS, PromptAdditions, StoppedByUser, TurnContext, embedded_output
from agent.permissions import OPENING, REACHING, Rule, known_rules, with_our_path
from agent.session import Session, instructions_text
from compact import joined_text
from tools.base import ToolError, ToolResult
from tools.files import FileError
from tools.spawning import SpawnRequest
from tools.task import DEFAULT_AGENT
from transcripts import ChannelBlock, Display

from .mentioned_files import mentioned_files
from .services import Services

UNAPPROVED = "[not run: {line}: {path} belongs to the project and is not approved; approve it with /trust]"
# Agents that cannot run a skill, and their replacements.
ISOLATED_AGENTS = {"plan": "explore", "fork": DEFAULT_AGENT}


class SessionSkills(Struct):
    """The commands and skills as one session uses them; returned by `ToolContext.skills`.

    `use_model` switches to another model from the next request on and raises AgentError. Without it, a skill
    gets no rights, no model and no effort of its own.
    """

    services: Services
    session: Session
    context: TurnContext
    use_model: Callable[[str], Awaitable[None]] | None
    _count: int = 0
    noted: set[str] = field(default_factory=set)  # skills with a notice that their arguments count from 1

    @property
    def library(self) -> SkillLibrary:
        return self.services.skills

    async def typed(self, line: str) -> PromptAdditions:
        """Return the additions for a typed line; none if it does not call a command or skill."""
        found = self.library.typed(line)
        if found is None:
            return NO_ADDITIONS
        try:
            return await self._additions(_Use(self, *found))
        except StoppedByUser:
            self.services.end_turn()
            return PromptAdditions(ended=TurnFinished("interrupted", turns=0, error="interrupted", code=130))
        except (FileError, ToolError, OSError, ValueError) as error:
            self.services.end_turn()
            return PromptAdditions(
                ended=TurnFinished("failed", turns=0, error=f"/{found[0].name}: {error}", code=1)
            )
        except BaseException:
            self.services.end_turn()
            raise

    async def _additions(self, used: _Use) -> PromptAdditions:
        text = await used.text()
        if used.skill.forks:
            text = await used.forked(text)
        else:
            await used.change_model()
            used.change_effort()
        files = await used.mentioned()
        return replace(files, after=(ChannelBlock(text),))

    async def load(self, name: str, arguments: str) -> ToolResult:
        """Load a skill for the model and return the tool's result. Raises ToolError and FileError."""
        skill = self.library.find(name)
        if skill is None or skill not in self.library.for_model():
            near = joined_text(search_result(self.library, name).content)
            raise ToolError(f"Unknown skill: {name!r}.\nSimilar skills:\n{near}")
        try:
            used = _Use(self, skill, arguments)
            text = await used.text()
            if used.skill.forks:
                text = await used.forked(text)
            else:
                used.change_effort()
            files = await used.mentioned()
        except (OSError, ValueError) as error:
            raise ToolError(f"Cannot read the skill {name}: {error}") from error
        except StoppedByUser:
            raise ToolError("The user denied a command line of the skill.\nAsk them what to do.") from None
        human = Display(note=f"{skill.kind} from {skill.path}")
        return ToolResult((ChannelBlock(text, in_place=True), *files.blocks), human=human)

    def next_ident(self) -> str:
        """Return an id for the next command line of a text."""
        self._count += 1
        return f"skill.{self._count}"


class _Use:
    """One use of a command or skill. Raises OSError and ValueError if its file cannot be read."""

    def __init__(self, skills: SessionSkills, skill: Skill, arguments: str) -> None:
        self.skills = skills
        self.arguments = arguments
        self._opened = open_skill(skill)
        self.skill = self._opened.skill
        self._own_text = ""
        item = self._opened.item
        self.approved = item is None or skills.services.approvals.allows(item)

    async def text(self) -> str:
        """Grant the rights that the skill names, and return its instructions, filled in."""
        skill = self.skill
        if self.skills.use_model is not None and self.approved:
            self._grant()
        pieces = self._opened.filled(self.arguments, self._variables())
        self._own_text = "".join(piece for piece in pieces if isinstance(piece, str))
        body = "".join([await self._shown(piece) for piece in pieces])
        return instructions_text(skill.name, skill.folder, body)

    async def mentioned(self) -> PromptAdditions:
        """Read the files that the text mentions, not those that the output of its command lines mentions.

        The user did not name these files, so a file that needs approval is not read.
        """
        skills = self.skills
        return await mentioned_files(skills.context, self._own_text, True, skills.services.emit)

    def _variables(self) -> dict[str, str]:
        skills = self.skills
        skill = self.skill
        if self._opened.counts_from_one and self.arguments and skill.name not in skills.noted:
            skills.noted.add(skill.name)
            skills.services.emit(Notice(f"/{skill.name} does not use $0, so $1 is its first argument"))
        root = {} if skill.plugin_root is None else {"CLAUDE_PLUGIN_ROOT": str(skill.plugin_root)}
        return {
            **root,
            "CLAUDE_SKILL_DIR": str(skill.folder),
            "CLAUDE_SESSION_ID": skills.session.sid,
            "CLAUDE_PROJECT_DIR": str(skills.context.tool_context.folder),
            "CLAUDE_EFFORT": skills.context.settings.effort or "",
        }

    async def _shown(self, piece: str | CommandLine) -> str:
        if not isinstance(piece, CommandLine):
            return piece
        if not self.approved:
            return UNAPPROVED.format(line=" ".join(piece.line.split()), path=self.skill.path)
        skills = self.skills
        output = await embedded_output(skills.context, skills.services.emit, piece.line, skills.next_ident())
        return output if piece.inline else f"```\n{output}\n```"

    def _grant(self) -> None:
        """Allow what the file names until the turn ends, except leaving the sandbox.

        Protected files and files outside the project still need approval.
        """
        store = self.skills.context.permissions
        skill = self.skill
        origin = f"the {skill.kind} {skill.name}"
        if skill.kind == "skill":  # its other files may be read when they are needed, in any turn
            files = Rule("read", f"{escape(str(skill.folder.resolve()))}/*")
            if files not in store.rules.allow:
                store.allow(files)
        rules: list[Rule] = []
        for text in skill.allowed_tools:
            with suppress(ValueError):
                found, _ = known_rules(with_our_path(text))
                named = (rule for rule in found if rule.tool not in (OPENING, REACHING))
                rules += (replace(rule, origin=origin, granted=True) for rule in named)
        if rules:
            store.rules = replace(store.rules, allow=(*store.rules.allow, *rules))
            self._at_turn_end(lambda: _drop(self.skills.context, rules))

    def change_effort(self) -> None:
        """Use the effort that the file sets until the turn ends, if the model supports it."""
        skills = self.skills
        context = self.skills.context
        effort = self.skill.effort
        before = context.settings.effort
        supported = skills.services.selection.facts.effort
        if not effort or not supported or skills.use_model is None:
            return
        if effort != before and "effort" not in context.settings.rejected:
            context.settings = replace(context.settings, effort=effort)

            def restore() -> None:
                if context.settings.effort == effort:  # otherwise the user has changed it in the meantime
                    context.settings = replace(context.settings, effort=before)

            self._at_turn_end(restore)

    async def change_model(self) -> None:
        """Use the model that the file names for this turn; emits a warning if it cannot be used."""
        skills = self.skills
        context = self.skills.context
        wanted = self.skill.model
        if not wanted or not self.approved or skills.use_model is None:
            return
        selection = skills.services.selection
        before = (selection.facts, context.settings, context.compaction)
        offline = skills.services.setup.options.offline
        if offline or selection.model.catalog.resolve(wanted) == context.settings.model:
            return

        def restore() -> None:
            if context.settings.model in used:  # otherwise the user has changed it in the meantime
                selection.facts, context.settings, context.compaction = before

        try:
            await skills.use_model(wanted)
        except AgentError as error:
            skills.services.warn(f"/{self.skill.name}: cannot use model {wanted}: {error}")
        else:
            fallback = skills.services.setup.options.fallback_model
            used = {context.settings.model, selection.model.catalog.resolve(fallback) if fallback else ""}
            self._at_turn_end(restore)

    async def forked(self, text: str) -> str:
        """Run the instructions in a session of their own, without this conversation, and return the report.

        Raises ToolError in an agent, and StoppedByUser if the user stopped it.
        """
        skill = self.skill
        skills = self.skills
        spawn = skills.context.tool_context.spawn
        if spawn is None:
            raise ToolError(f"An agent cannot use the skill {skill.name}: it runs in a session of its own.")
        agent = ISOLATED_AGENTS.get(skill.agent.lower(), skill.agent or DEFAULT_AGENT)
        task = f"/{skill.name} {self.arguments}".strip()
        ident = skills.next_ident()
        ended = await spawn(SpawnRequest(text, agent=agent, task=task, call=ident))
        if ended.stops:
            raise StoppedByUser
        return f"The skill {skill.name} ran in a session of its own. Its report:\n\n{ended.report()}"

    def _at_turn_end(self, restore: Callable[[], None]) -> None:
        self.skills.services.turn_ends.append(restore)


def _drop(context: TurnContext, rules: list[Rule]) -> None:
    """Revoke granted rules; equal rules that the user allowed in the meantime stay."""
    store = context.permissions
    left = [rule for rule in store.rules.allow if not any(rule is each for each in rules)]
    store.rules = replace(store.rules, allow=tuple(left))
