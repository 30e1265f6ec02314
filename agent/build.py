"""Where the parts are chosen and joined: model, tools, record, pipeline. The one place that knows them all.

`Workshop` holds what outlives a session within one run of the program: the model's client, the offline
model's server, the tools, the counter. It makes sessions and their parts.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from pathlib import Path

from compact.ledger import pins_of
from compact.prices import prices_for
from compact.tokens import Counter, load_counter
from compact.window import Window
from tools.base import Place, Tool
from tools.jobs import announcement, jobs_of
from tools.jobs import close as close_jobs
from tools.jobs import warm as warm_commands
from transcripts.facts import Opened, Unthink
from transcripts.fold import Folded
from transcripts.masking import Masks
from transcripts.view import Kind, dump

from .api import Api
from .config import OFFICIAL, grants_path, keep_grant
from .errors import ModelError
from .events import Emit, Notice
from .hooks import CommandHooks
from .models import Known, ModelFacts, from_endpoint, from_table, resolve
from .offline_model import OfflineModel
from .parts import Grants, Parts, Room
from .permissions import Rules, parse_rules
from .ports import Approver, NoHooks
from .prompt import memory_paths, read_memory, system_prompt
from .records import Begun, LiveLibrary, Records
from .request import Frame
from .session import Session
from .setup import Setup
from .toolbox import definitions, same_tools, toolbox

ASKING = 5.0  # seconds that the models endpoint may take; the table is good enough to go on without


class Workshop:
    """What outlives a session within one run. Made at once, `warm`ed when the prompt stands."""

    def __init__(self, setup: Setup, emit: Emit, approver: Approver) -> None:
        self.setup = setup
        self.counter: Counter = load_counter()
        self.facts: ModelFacts = from_table(setup.model, setup.config.official)
        self.tools: dict[str, Tool] = {}
        self.server = setup.config.base_url or OFFICIAL
        self.records = Records(setup.folder, keep=not setup.options.no_session, tell=self._warn)
        self._emit = emit
        self._approver = approver
        self._api = Api()
        self._offline: OfflineModel | None = None

    def _warn(self, text: str) -> None:
        self._emit(Notice(text, "warning"))

    async def warm(self) -> None:
        """Everything slow: the SDK, the tools, the tokenizer's table, the model's facts."""
        config = self.setup.config
        if self.setup.options.offline:
            self._offline = OfflineModel.start(self.setup.options.context_window)
            self.server = self._offline.base_url
        key = "offline" if self._offline else config.key
        if key is None and config.token is None and not config.official:
            key = "none"  # a local server asks for no key, the SDK does
        self._api = Api(None if config.official and not self._offline else self.server, key, config.token)
        self._api.headers = config.custom_headers
        await asyncio.to_thread(self._load)
        self.facts = await self._ask_facts(self.setup.model)

    def _load(self) -> None:
        self.tools = toolbox()
        self._api.warm()
        self.counter.warm()

    async def _ask_facts(self, model: str) -> ModelFacts:
        """What is known of a model: from the cache on disk, the models endpoint, or the table."""
        known = Known(self.setup.config.cache_dir / "models.json")
        now = self.setup.clock.now()
        if self._offline is None and (found := known.get(self.server, model, now)) is not None:
            return found
        official = self.setup.config.official or self._offline is not None
        try:
            raw = await asyncio.wait_for(self._api.model_facts(model), ASKING)
        except (ModelError, TimeoutError):
            return from_table(model, official)
        facts = from_endpoint(model, raw, official)
        if self._offline is None:
            known.put(self.server, facts, now)
        return facts

    async def first_session(self) -> tuple[Session, Parts]:
        """The session that the options ask for: a new one, the newest, or a named one."""
        options = self.setup.options
        if options.continue_:
            return await self.resume_session(self.records.newest())
        if options.resume is not None:
            return await self.resume_named(options.resume)
        return await self.new_session()

    async def resume_named(self, wanted: str) -> tuple[Session, Parts]:
        """A session by id, name, or the file of another agent's recording. Raises StoreError, UsageError."""
        if self.records.is_recording(wanted):
            begun = self.records.adopt(Path(wanted).expanduser(), self.setup.clock.now(), self.counter)
            return self._joined(begun)
        return await self.resume_session(self.records.named(wanted))

    async def new_session(self) -> tuple[Session, Parts]:
        return self._joined(self.records.new(self.setup.clock.now()))

    async def resume_session(self, path: Path) -> tuple[Session, Parts]:
        """Go on with a recorded session. Raises StoreError when it is in use or cannot be read."""
        return self._joined(self.records.reopen(path))

    async def fork_session(self, old: Session) -> tuple[Session, Parts]:
        return self._joined(self.records.copy(old.folded, self.setup.clock.now(), old.shelf))

    def _joined(self, begun: Begun) -> tuple[Session, Parts]:
        sid, store, folded, shelf = begun
        session = Session(sid, store, folded, self.counter, self.setup.clock.now)
        session.masks = Masks(self.setup.config.secrets)
        session.shelf = shelf
        return session, self._parts(session, folded.opened)

    def _parts(self, session: Session, opened: Opened | None) -> Parts:
        setup, facts = self.setup, self.facts
        frame = self._frame(opened)
        place = self._place(session)
        parts = Parts(
            model=self._api,
            frame=frame,
            tools=self.tools,
            place=place,
            approver=self._approver,
            hooks=CommandHooks(setup.config.hooks, setup.folder, self._warn)
            if setup.config.hooks
            else NoHooks(),
            clock=setup.clock,
            grants=self._grants(),
            room=self._room(frame, facts),
            max_turns=setup.options.max_turns,
            jitter=random.random,
            keeper=self.records.checkpoints(session),
        )
        place.compact = lambda focus: setattr(parts.room, "focus", focus)
        place.library = LiveLibrary(session, self.records.outputs)
        return parts

    def begin(self, session: Session, parts: Parts) -> None:
        """Record what the session is about to work with, where that is new or has changed.

        Whatever changed (tools, model, a hole in the record) makes the thinking so far unusable.
        """
        now, before = parts.frame, session.folded.opened
        if before is not None and not self._changed(session, before, now):
            return
        edits = (Unthink(0, session.folded.last_seq),) if session.folded.entries else ()
        session.open(
            now.system,
            now.tools,
            model=now.model,
            window=parts.room.window.size,
            folder=str(self.setup.folder),
            edits=edits,
            about={"holes": list(session.folded.holes)} if session.folded.holes else {},
        )

    def _changed(self, session: Session, before: Opened, now: Frame) -> bool:
        if before.model != now.model or not same_tools(before.tools, now.tools):
            self._emit(Notice("the model or the tools changed: earlier thinking is left out of the context"))
            return True
        return bool(session.folded.holes and session.folded.holes[-1] > before.seq)

    def _frame(self, opened: Opened | None) -> Frame:
        """System prompt as the session began with it; tools and model as they are now."""
        setup, facts = self.setup, self.facts
        if opened is not None:
            system = opened.system
        else:
            memory = read_memory(memory_paths(setup.folder, setup.config.user_dir))
            system = system_prompt(memory, setup.options.append_system_prompt)
        thinking = {"type": "adaptive", "display": "summarized"} if facts.thinking == "adaptive" else None
        return Frame(
            model=facts.id,
            max_tokens=min(setup.config.max_tokens, facts.max_output, max(1024, self._size() // 4)),
            system=system,
            tools=definitions(self.tools),
            thinking=thinking,
            effort=(setup.options.effort or setup.config.effort) if facts.effort else None,
            cache=setup.config.cache if facts.cache else None,
            eager=facts.eager,
        )

    def _room(self, frame: Frame, facts: ModelFacts) -> Room:
        return Room(
            settings=self.setup.settings(),
            window=Window(self._size(), frame.max_tokens),
            prices=prices_for(facts.id),
            counter=self.counter,
            overhead=sum(self.overheads(frame).values()),
            binds=facts.binds,
            learned=self._learn,
        )

    def _size(self) -> int:
        """The window in tokens: as told by flag or settings, else the model's."""
        return self.setup.options.context_window or self.setup.config.context_window or self.facts.window

    def _learn(self, size: int) -> None:
        """A refusal told the window: remember it for this model and server."""
        self.facts = dataclasses.replace(self.facts, window=size)
        if self._offline is None:
            known = Known(self.setup.config.cache_dir / "models.json")
            known.put(self.server, self.facts, self.setup.clock.now())

    def overheads(self, frame: Frame) -> dict[str, int]:
        """Our count of what stands before the messages: system, memory files, tools."""
        identity, *memory = frame.system or ("",)
        tools = dump(list(frame.tools)).decode()
        return {
            "system": self.counter.text(identity),
            "memory files": sum(self.counter.text(text) for text in memory),
            "tools": self.counter.text(tools),
        }

    def _place(self, session: Session) -> Place:
        folder = self.setup.folder
        return Place(
            folder=folder,
            cwd=folder,
            outputs=self.records.outputs,
            in_view=lambda seq: shows(session.folded, seq),
            environ=self.setup.environ,
            name=session.sid,
            passed=frozenset(self.setup.config.pass_env),
        )

    def _grants(self) -> Grants:
        setup = self.setup
        options, config = setup.options, setup.config
        allow = [rule for text in options.allowed_tools for rule in parse_rules(text)]
        deny = [rule for text in options.disallowed_tools for rule in parse_rules(text)]
        rules = Rules(setup.mode, (*config.allow, *allow), (*config.deny, *deny), str(setup.folder))
        path = grants_path(config.user_dir, setup.folder)
        return Grants(rules, lambda rule: keep_grant(path, rule))

    def pins(self, session: Session) -> dict[int, str]:
        """What the person pinned, by number."""
        return pins_of(session.folded.notes)

    async def change_model(self, session: Session, parts: Parts, name: str) -> None:
        """Use another model from now on; the thinking so far was bound to the old one."""
        self.facts = await self._ask_facts(resolve(name))
        parts.frame = dataclasses.replace(self._frame(session.folded.opened), without=parts.frame.without)
        parts.room = self._room(parts.frame, self.facts)
        if session.folded.opened is not None:
            self.begin(session, parts)

    def news(self, parts: Parts) -> list[str]:
        """What happened beside the conversation since the model last heard: finished background commands."""
        place = parts.place
        if place.jobs is None:
            return []
        return [announcement(job, place) for job in jobs_of(place).finished()]

    async def warm_commands(self, parts: Parts) -> None:
        """Start what runs commands, and tell the person when a background command ends."""
        jobs_of(parts.place).on_finish = lambda job: self._emit(Notice(announcement(job, parts.place)))
        await warm_commands(parts.place)

    def running_jobs(self, parts: Parts) -> int:
        return len(jobs_of(parts.place).running) if parts.place.jobs is not None else 0

    async def leave(self, session: Session | None, parts: Parts | None) -> None:
        """End what a session runs, and close its record."""
        if parts is not None:
            await close_jobs(parts.place)
        if session is not None:
            session.close("left")

    async def close(self) -> None:
        """End what is left; nothing that we started outlives this."""
        await self._api.close()
        if self._offline is not None:
            self._offline.close()
        self.records.close()


def shows(folded: Folded, seq: int) -> bool:
    """Whether the view still shows the result `seq` as it was."""
    view = folded.view
    at = view.index_of(seq)
    return at < len(view) and any(part.seq == seq and part.kind is Kind.RESULT for part in view[at].parts)
