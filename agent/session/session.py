"""A session: the transcript on disk and the conversation that it folds to, kept in step.

Facts are made only here. Every method appends one fact, then applies it. Four facts are durable before
anything depends on them: the user's prompt, the reply before its tools run, `started` before a mutating tool
acts, results before the tools of the next reply run. The caller syncs for all except the first.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from msgspec.structs import asdict, astuple, replace

from agent.events import Emit, Notice
from agent.model_port import IncomingReply, RequestSettings
from compact import PriceList, Spending, TokenCounter
from transcripts import (
    Block,
    Closed,
    Compacted,
    Display,
    Edit,
    Fact,
    Failed,
    Folded,
    Instructed,
    LazyResults,
    Metadata,
    Opened,
    Reply,
    RequestSent,
    Result,
    Rewound,
    Started,
    StoredOutput,
    TextBlock,
    Undone,
    Unthink,
    Usage,
    User,
    replace_surrogates,
    same_tools,
)

F = TypeVar("F", bound=Fact)
NESTED_TOPIC = "nested session"  # of metadata: {"session", "model", "usage", "dollars"}
CHARGE_TOPIC = "request"  # of metadata: {"model", "usage"[, "dollars"]} of a request outside the conversation


class RecordWriter(Protocol):
    """The writer of facts. A full or broken disk raises nothing: the facts are kept and it is reported."""

    @property
    def failure(self) -> str:
        """The reason why appended facts are not on the disk, "" if they are."""

    @property
    def written_size(self) -> int:
        """The size of the file if its lines contain all facts as they are in memory, else 0."""

    def append(self, fact: Fact, durable: bool = False) -> None: ...

    def digest(self, body: bytes) -> str: ...

    def sync(self) -> None: ...

    def begin_sync(self) -> Future[None] | None:
        """Start to sync in a thread; return what to wait for before `sync`, so that it does not block."""

    def close(self) -> None: ...


class Session:
    """One conversation.

    sid       the id of the session and the name of its transcript
    folded    the conversation that its facts fold to
    prices    of requests
    deferred  results left in the transcript's file
    """

    def __init__(
        self, sid: str, record: RecordWriter, folded: Folded, count: TokenCounter, now: Callable[[], float]
    ) -> None:
        self.sid = sid
        self.folded = folded
        self.deferred = LazyResults()
        self.prices = PriceList()
        self._spending = defaultdict[str, Spending](Spending)
        self._charges_counted = 0
        self._record = record
        self.why_unsaved: Callable[[], str] = lambda: record.failure  # "" while facts are written
        self._count = count
        self._now = now
        self._unsynced = False

    @property
    def spending(self) -> Mapping[str, Spending]:
        """The spending so far by model, of this session and its nested ones."""
        charges = self.folded.charges
        total = self._spending
        for each in charges[self._charges_counted :]:
            if each.dollars is not None:
                total[each.model] += Spending(each.usage, each.dollars)
            else:
                total[each.model] += self.prices.spending(each.model, each.usage)
        self._charges_counted = len(charges)
        return total

    @property
    def spent(self) -> Usage:
        """Usage so far, over all models."""
        return sum((each.usage for each in self.spending.values()), Usage())

    @property
    def cost(self) -> float:
        """US dollars so far, at the prices of each request's model; a model without a price adds nothing."""
        return sum(each.dollars for each in self.spending.values())

    @property
    def unpriced(self) -> list[str]:
        """The models that were used and have no known price."""
        return [model for model, spent in self.spending.items() if spent.unpriced]

    def use_prices(self, prices: PriceList) -> None:
        """Use these prices, for earlier requests too."""
        if prices == self.prices:
            return  # what they were summed up with when the session was opened
        self.prices = prices
        self._charges_counted = 0
        self._spending.clear()

    def open(self, system: tuple[str, ...], tools: Sequence[Mapping[str, Any]], **more: Any) -> Opened:
        """Record that the session begins, or continues with another prompt, tools, model or directory."""
        opened = self._add(Opened(*self._next(), **more), durable=True)
        now = self.folded.opened
        if now is None or (now.system, now.tools) != (system, tuple(tools)):
            self._add(Instructed(*self._next(), system, tuple(tools)), durable=True)
        return opened

    def user(
        self, blocks: tuple[Block, ...], source: str = "user", *, joined: bool = False, scripted: bool = False
    ) -> User:
        blocks = tuple(map(without_surrogates, blocks))
        counts = self._count.blocks(blocks)
        prompt = User(*self._next(), blocks, counts, source, joined=joined, scripted=scripted)
        return self._add(prompt, durable=True)

    def request_sent(
        self,
        trigger: str,
        body: bytes,
        *,
        tokens: int = 0,
        raw: int = 0,
        attempt: int = 1,
        encoding: str = "",
        settings: Mapping[str, Any] | None = None,
        marks: tuple[int, ...] = (),
        instructions: str = "",
        leave_out: int = 0,
        edits: tuple[Edit, ...] = (),
    ) -> RequestSent:
        """Record that a request with this body is sent. The fields are those of the fact."""
        sent = RequestSent(
            *self._next(),
            trigger,
            tokens=tokens,
            raw=raw,
            attempt=attempt,
            sha256=self._record.digest(body) if body else "",
            encoding=encoding,
            settings=settings or {},
            marks=marks,
            instructions=instructions,
            leave_out=leave_out,
            edits=edits,
        )
        return self._add(sent)

    def reply(self, reply: IncomingReply, asked: int) -> Reply:
        blocks = reply.kept() if reply.pending else tuple(reply.blocks)
        counts = self._count.blocks(blocks)
        made = Reply(
            *self._next(),
            blocks,
            counts,
            usage=reply.usage if reply.complete else self.used_at_least(reply),
            partial=replace_surrogates(reply.unfinished) if reply.pending else "",
            stop=reply.stop,
            complete=reply.complete,
            model=reply.model,
            asked=asked,
            ident=reply.ident,
            cache_miss=reply.cache_miss,
        )
        return self._add(made)

    def used_at_least(self, reply: IncomingReply) -> Usage:
        """Return the usage of a reply that was cut off, with our count of the received output."""
        received: tuple[Block, ...] = tuple(reply.blocks)
        if rest := reply.unfinished:
            received = (*received, TextBlock(rest))
        output = sum(self._count.blocks(received))
        return replace(reply.usage, output=max(reply.usage.output, output))

    def charge(self, usage: Usage, model: str = "", asked: int | None = None) -> None:
        """Record the usage of a request outside the conversation; `model` "" is that of the session.

        `asked` is the seq of the request, if that is in the transcript.
        """
        if usage != Usage():
            name = model or (self.folded.opened.model if self.folded.opened else "")
            of = {} if asked is None else {"asked": asked}
            self.add_metadata(CHARGE_TOPIC, {"model": name, "usage": asdict(usage), **of})

    def charge_nested(self, sid: str, model: str, spent: Spending) -> None:
        """Record the usage of a nested session, which has its own transcript."""
        dollars = None if spent.unpriced else spent.dollars
        about = {"session": sid, "model": model, "usage": asdict(spent.usage), "dollars": dollars}
        self.add_metadata(NESTED_TOPIC, about)

    @property
    def nested_charges(self) -> list[Mapping[str, Any]]:
        """Return what `charge_nested` recorded: "session", "model", "usage" and "dollars" of each."""
        return [note.about for note in self.folded.metadata if note.topic == NESTED_TOPIC]

    def started(self, of: int, block: int) -> Started:
        return self._add(Started(*self._next(), of, block))

    def result(
        self,
        of: int,
        block: int,
        content: tuple[Block, ...],
        *,
        error: bool = False,
        human: Display | None = None,
        about: Mapping[str, Any] = MappingProxyType({}),
        stored: StoredOutput | None = None,
    ) -> Result:
        content = tuple(map(without_surrogates, content))
        result = Result(
            *self._next(),
            of,
            block,
            content,
            self._count.blocks(content),
            error=error,
            human=Display(*replace_surrogates(astuple(human))) if human is not None else Display(),
            about=replace_surrogates(about),
            stored=stored,
        )
        return self._add(result)

    def compacted(
        self, layer: str, trigger: str, edits: tuple[Edit, ...], report: Mapping[str, Any]
    ) -> Compacted:
        return self._add(Compacted(*self._next(), layer, trigger, edits, report=report), durable=True)

    def undone(self, id: str, edits: tuple[Edit, ...]) -> Undone:
        return self._add(Undone(*self._next(), id, edits), durable=True)

    def failed(self, what: str, reason: str, about: Mapping[str, Any] | None = None) -> Failed:
        return self._add(Failed(*self._next(), what, reason, about or {}))

    def add_metadata(self, topic: str, about: Mapping[str, Any]) -> Metadata:
        return self._add(Metadata(*self._next(), topic, about))

    def rewound(self, to: int, about: Mapping[str, Any]) -> Rewound:
        return self._add(Rewound(*self._next(), to, about), durable=True)

    def close(self) -> None:
        if self.folded.last_seq:
            self._add(Closed(*self._next(), "left"), durable=True)
        self._record.close()

    def sync(self) -> None:
        """Wait until everything appended so far is on the disk, or its loss has been reported."""
        if self._unsynced:
            self._record.sync()
            self._unsynced = False

    @property
    def is_in_file(self) -> bool:
        """Return whether the transcript's file contains the session as it is now."""
        return self.written_size > 0

    @property
    def written_size(self) -> int:
        """The size of the transcript's file if it contains the session as it is now, else 0."""
        return self._record.written_size

    def begin_sync(self) -> None:
        """Start to write everything appended so far to the disk, while other work continues."""
        if self._unsynced:
            self._record.begin_sync()

    async def synced(self) -> None:
        """Wait like `sync`, but without blocking the event loop."""
        if self._unsynced and (running := self._record.begin_sync()) is not None:
            await asyncio.wait([asyncio.wrap_future(running)])
        self.sync()

    def _next(self) -> tuple[int, float]:
        return self.folded.last_seq + 1, self._now()

    def _add(self, fact: F, durable: bool = False) -> F:
        self._record.append(fact, durable)
        self._unsynced = not durable
        self.folded.apply(fact)
        return fact


def record_opening(session: Session, settings: RequestSettings, window: int, folder: str, emit: Emit) -> None:
    """Record the system prompt, tools, model and directory of the session if they are new or have changed.

    Any change (tools, model, directory, a gap in the transcript) makes the thinking so far unusable.
    """
    before = session.folded.opened
    gaps = list(session.folded.gaps)
    if before is not None:
        same = before.model == settings.model and same_tools(before.tools, settings.tools)
        same = same and before.tag == settings.tag
        if same and before.folder == folder and list(before.about.get("holes", ())) == gaps:
            return
        if not same and _shows_thinking(session):
            what = "model has" if before.model != settings.model else "tools have"
            emit(Notice(f"the {what} changed; earlier thinking is no longer in the context"))
        if before.folder != folder:
            was = before.folder or "an unknown directory"
            emit(Notice(f"the session's directory has changed from {was} to {folder}", "warning"))
    session.open(
        settings.system,
        settings.tools,
        model=settings.model,
        window=window,
        folder=folder,
        edits=(Unthink(0, session.folded.last_seq),) if session.folded.entries else (),
        about={"holes": gaps} if gaps else {},
        tag=settings.tag,
    )


def _shows_thinking(session: Session) -> bool:
    return any(part.block.is_thinking for message in session.folded.view for part in message.parts)


def without_surrogates(block: Block) -> Block:
    """Return a block without lone surrogates, which neither a file nor a request can contain."""
    if isinstance(block, TextBlock) and (text := replace_surrogates(block.text)) != block.text:
        return TextBlock(text, block.extra)
    return block
