"""Facts: what happened in a session, one immutable value each, appended to the record and never rewritten.

`seq` numbers the facts of a session from 1 and is the only id: a recall id is `r<seq>` or `r<seq>.<block>`,
the id of a compaction `c<seq>`. `ts` is in seconds since the epoch, for display and for the age of the prompt
cache only; the order of facts is that of `seq`. `tokens` holds one count for each block, made with the fact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from msgspec import Struct, field

from .messages import Block, Usage, empty_mapping

SAID_KEY = "said"  # of what a tool tells of a result, see `Result.said`
CHANGED_KEY = "changed"  # of the same, the files that a command changed, see `Result.changed_files`
NEWS_TOPIC = "news"  # of metadata: a note of an inbox, which names facts of its own record by number


class Clear(Struct, frozen=True):
    """Show `text` in the place of one field of a block.

    `seq` and `block` address the block. `field` is "content" for a result, "text" or "source" for a text or
    an image, UNKNOWN_BLOCK for a block of an unknown type, else the name of a string field of a tool input,
    or UNKNOWN_FIELDS for what a call holds beside it. `saves` is how many tokens fewer are shown.
    """

    UNKNOWN_BLOCK: ClassVar = "block"
    UNKNOWN_FIELDS: ClassVar = "(unknown fields)"

    seq: int
    block: int
    field: str
    text: str
    saves: int = 0


class Fold(Struct, frozen=True):
    """Show the facts first..last, both on exchange boundaries, as one user message of `blocks`."""

    first: int
    last: int
    blocks: tuple[Block, ...]
    tokens: int = 0


class Unthink(Struct, frozen=True):
    """Leave out the thinking of the replies first..last."""

    first: int
    last: int


Edit = Clear | Fold | Unthink


class StoredOutput(Struct, frozen=True):
    """An output kept outside the record: its path relative to the project, its hash, its size in bytes."""

    path: str
    sha256: str
    size: int


class Fact(Struct, frozen=True):
    """One thing that happened: its number and its time."""

    seq: int
    ts: float


class Opened(Fact, frozen=True):
    """A session began, or was opened again with another system prompt, tools or model.

    `system` and `tools` are those in force, see `Instructed`: in the record they have a line of their own;
    only lines of earlier versions have them here. `edits` leave out what the change made unusable (all
    thinking, when the tools changed). `about["holes"]` names the gaps in the record that were known then:
    thinking produced later is bound to what was left.
    """

    system: tuple[str, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    model: str = ""
    window: int = 0
    folder: str = ""
    parent: str | None = None
    edits: tuple[Edit, ...] = ()
    about: Mapping[str, Any] = field(default_factory=empty_mapping)


class Instructed(Fact, frozen=True):
    """The system prompt and the tools from here on; `tools` as the API takes them, each with its kind."""

    system: tuple[str, ...]
    tools: tuple[Mapping[str, Any], ...]


class User(Fact, frozen=True):
    """A prompt: of the user (`source` "user"), or of the program on the user's behalf ("harness").

    `joined`: it was written while a turn ran, and is worked on in that.
    """

    blocks: tuple[Block, ...]
    tokens: tuple[int, ...] = ()
    source: str = "user"
    joined: bool = False


class RequestSent(Fact, frozen=True):
    """A request was sent.

    `trigger` says why; `tokens` is the calibrated estimate of the whole prompt, `raw` our uncorrected count
    of the same view; `attempt` counts from 1. By the rest the request can be made again from the record:
    `sha256` of the body as it was sent, credentials masked as in the record; `encoding` names how it was
    encoded ("": it was not), `settings` are those that are not in `Opened`, `marks` where the cache may end.
    A request for a summary has the `instructions` that stood behind the view, how many of the oldest
    exchanges were left out, and `edits` that were in force for it alone.
    """

    trigger: str
    tokens: int = 0
    raw: int = 0
    attempt: int = 1
    sha256: str = ""
    encoding: str = ""
    settings: Mapping[str, Any] = field(default_factory=empty_mapping)
    marks: tuple[int, ...] = ()
    instructions: str = ""
    leave_out: int = 0
    edits: tuple[Edit, ...] = ()


class Reply(Fact, frozen=True):
    """A reply of the model.

    `complete` is False where the stream broke off; `partial` then keeps the text of the unfinished block.
    `stop` is the API's stop_reason, `asked` the seq of the request.
    """

    blocks: tuple[Block, ...]
    tokens: tuple[int, ...] = ()
    usage: Usage = field(default=Usage())
    stop: str | None = None
    complete: bool = True
    model: str = ""
    asked: int | None = None
    partial: str = ""


class Started(Fact, frozen=True):
    """A tool that may change something is about to act: call `block` of reply `of`."""

    of: int
    block: int


class Result(Fact, frozen=True):
    """The result of call `block` of reply `of`.

    `content` is for the model, `human` for display (plain data), `about` what the tool tells of it (path,
    hash, lines, exit code), `stored` where the whole output is kept.
    """

    of: int
    block: int
    content: tuple[Block, ...]
    tokens: tuple[int, ...] = ()
    error: bool = False
    human: Mapping[str, Any] = field(default_factory=empty_mapping)
    about: Mapping[str, Any] = field(default_factory=empty_mapping)
    stored: StoredOutput | None = None

    @property
    def changed_files(self) -> Mapping[str, str]:
        """The files that a command changed, by their paths in the project: "changed", "new" or "gone"."""
        changed = self.about.get(CHANGED_KEY)
        return changed if isinstance(changed, dict) else {}  # what a record holds is of any shape

    @property
    def said(self) -> tuple[tuple[str, str], ...]:
        """(question, words) of what a person said in answer to the call; "": the call was the question."""
        pairs = self.about.get(SAID_KEY, ())
        return tuple((str(pair[0]), str(pair[1])) for pair in pairs if len(pair) == 2)


class Compacted(Fact, frozen=True):
    """The conversation was compacted: the edits in force from now on, the layer, the trigger, the figures."""

    layer: str
    trigger: str
    edits: tuple[Edit, ...]
    asked: int | None = None
    report: Mapping[str, Any] = field(default_factory=empty_mapping)

    @property
    def id(self) -> str:
        return f"c{self.seq}"

    @property
    def label(self) -> str:
        """The layer as people are shown it."""
        return "thinking dropped" if self.layer == "unthink" else self.layer


class Undone(Fact, frozen=True):
    """The compaction `id` was undone; `edits` leave out the thinking that was produced under it."""

    id: str
    edits: tuple[Edit, ...] = ()


class Failed(Fact, frozen=True):
    """Something that was attempted failed (a summary, a hook, a request); the conversation is as before."""

    what: str
    reason: str
    about: Mapping[str, Any] = field(default_factory=empty_mapping)


class Rewound(Fact, frozen=True):
    """The user went back: the facts from `to` up to this one are no longer part of the conversation."""

    to: int
    about: Mapping[str, Any] = field(default_factory=empty_mapping)


class Metadata(Fact, frozen=True):
    """State beside the conversation, by topic: a pin, a name, a permission mode, a checkpoint of files."""

    topic: str
    about: Mapping[str, Any] = field(default_factory=empty_mapping)


class Closed(Fact, frozen=True):
    """The session ended."""

    reason: str


class UnknownFact(Fact, frozen=True):
    """A line of a kind or a version that this version does not know, kept as it was."""

    kind: str
    raw: Mapping[str, Any]


FACT_TYPES: dict[str, type[Fact]] = {
    "opened": Opened,
    "instructed": Instructed,
    "user": User,
    "asked": RequestSent,
    "reply": Reply,
    "started": Started,
    "result": Result,
    "compacted": Compacted,
    "undone": Undone,
    "failed": Failed,
    "rewound": Rewound,
    "noted": Metadata,
    "closed": Closed,
}
"""The types of facts by their kind in the record."""


def about_said(*pairs: tuple[str, str]) -> dict[str, Any]:
    """Return the record of the user's words in a result, as `Result.said` reads it; empty where they said
    nothing.
    """
    said = [list(pair) for pair in pairs if pair[1].strip()]
    return {SAID_KEY: said} if said else {}


def about_changed(files: Mapping[str, str]) -> dict[str, Any]:
    """Return the record of the files that a command changed, as `Result.changed_files` reads it."""
    return {CHANGED_KEY: dict(files)}


def name_of(notes: Iterable[Metadata]) -> str:
    """The name that the person gave a session last, on one line, or ""."""
    names = [note.about.get("name", "") for note in notes if note.topic == "name"]
    return " ".join(str(names[-1]).split()) if names else ""
