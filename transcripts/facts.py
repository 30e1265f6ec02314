"""Facts: the events of a session, immutable values that are appended to the transcript and never rewritten.

`seq` numbers the facts of a session from 1 and is the only id: a recall id is `r<seq>` or `r<seq>.<block>`,
the id of a compaction is `c<seq>`. `ts` is in seconds since the epoch, for display and for the age of the
prompt cache only; facts are ordered by `seq`. `tokens` has one count for each block, made with the fact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, ClassVar

from msgspec import Struct, field

from .messages import Block, CacheMiss, TextBlock, ToolUseBlock, Usage, empty_mapping

REMARKS_KEY = "said"  # a key of `Result.about`, see `Result.remarks`
CHANGED_KEY = "changed"  # a key of `Result.about`, see `Result.changed_files`


class Clear(Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Show `text` instead of one field of a block.

    `seq` and `block` address the block. `field` is "content" for a result, "text" or "source" for a text or
    an image, UNKNOWN_BLOCK for a block of an unknown type, otherwise the name of a string field of a tool
    input, or UNKNOWN_FIELDS for the fields of a call besides its input. `saves` is the number of tokens
    saved.
    """

    UNKNOWN_BLOCK: ClassVar = "block"
    UNKNOWN_FIELDS: ClassVar = "(unknown fields)"

    seq: int
    block: int
    field: str
    text: str
    saves: int = 0


class Fold(Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Show the facts first..last, both on exchange boundaries, as one user message of `blocks`."""

    first: int
    last: int
    blocks: tuple[Block, ...]
    tokens: int = 0


class Unthink(Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Omit the thinking of the replies first..last."""

    first: int
    last: int


Edit = Clear | Fold | Unthink


class StoredOutput(Struct, frozen=True, array_like=True, gc=False):
    """An output stored outside the transcript: its path relative to the project, hash, and size in bytes."""

    path: str
    sha256: str
    size: int


class Display(Struct, frozen=True, array_like=True, gc=False):
    """The view of a result for the user, besides its text for the model or instead of it.

    text     the output for the user; None: the text for the model is shown
    diff     a unified diff
    note     one short line
    silent   the title of the call says all
    denied   the reason why the call was denied
    blocked  the access that the sandbox blocked
    answer   the result of a run without a screen
    above    the number of lines that are missing above `text`
    file     the path of the full output, relative to the project
    """

    text: str | None = None
    diff: str = ""
    note: str = ""
    silent: bool = False
    denied: str = ""
    blocked: str = ""
    answer: str = ""
    above: int = 0
    file: str = ""


class Fact(Struct, frozen=True, array_like=True, tag=True, gc=False):
    """An event of a session: its number and time."""

    seq: int
    ts: float

    @property
    def speaker(self) -> str:
        """The speaker in one word; "" if the fact is not part of the conversation."""
        return ""


class Opened(Fact, frozen=True):
    """A session began, or was reopened with another system prompt, tools or model.

    `system` and `tools` are those in force. In the transcript they have a line of their own (`Instructed`);
    only lines of earlier versions have them here. `edits` omit what the change made unusable (all thinking,
    if the tools changed). `about["holes"]` lists the gaps in the transcript that were known at that time:
    signatures of later thinking cover only what remained. `tag` is the suffix of the tags around makeroom's
    own words (channel.py), "" in a session that began without one.
    """

    system: tuple[str, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    model: str = ""
    window: int = 0
    folder: str = ""
    parent: str | None = None
    edits: tuple[Edit, ...] = ()
    about: Mapping[str, Any] = field(default_factory=empty_mapping)
    tag: str = ""


class Instructed(Fact, frozen=True):
    """The system prompt and the tools from here on; `tools` as the API accepts them, each with its kind."""

    system: tuple[str, ...]
    tools: tuple[Mapping[str, Any], ...]


class User(Fact, frozen=True):
    """A prompt, from the user (`source` "user") or from makeroom on the user's behalf ("harness").

    `joined`: the user sent it during a turn, which also handles it. `scripted`: it was sent with -p or by a
    program.
    """

    blocks: tuple[Block, ...]
    tokens: tuple[int, ...] = ()
    source: str = "user"
    joined: bool = False
    scripted: bool = False

    @property
    def speaker(self) -> str:
        return "user" if self.source == "user" else "harness"


class RequestSent(Fact, frozen=True):
    """A request was sent.

    `trigger` is the reason; `tokens` is the calibrated estimate of the whole prompt, `raw` our uncorrected
    count of the same view; `attempt` counts from 1. The other fields allow the request to be rebuilt from the
    transcript: `sha256` of the body as sent, with credentials masked as in the transcript; `encoding`, the
    name of the encoding ("": not encoded); `settings`, those not in `Opened`; `marks`, the cache breakpoints.
    A request for a summary also has the `instructions` that followed the view, the number of oldest exchanges
    that were omitted (`leave_out`), and the `edits` that applied to this request only.
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

    `complete` is False if the stream broke off; `partial` is then the text of the unfinished block. `stop` is
    the API's stop_reason, `asked` the seq of the request, `ident` the API's id of the message.
    """

    blocks: tuple[Block, ...]
    tokens: tuple[int, ...] = ()
    usage: Usage = field(default=Usage())
    stop: str | None = None
    complete: bool = True
    model: str = ""
    asked: int | None = None
    partial: str = ""
    ident: str = ""
    cache_miss: CacheMiss | None = None

    @property
    def speaker(self) -> str:
        return "assistant"

    @property
    def text(self) -> str:
        """The text of all blocks.

        A text with citations comes in several blocks. Another block between two texts parts them.
        """
        runs = groupby(self.blocks, key=lambda block: isinstance(block, TextBlock))
        texts = ("".join(block.text for block in run if isinstance(block, TextBlock)) for _, run in runs)
        return "\n\n".join(filter(None, texts))

    @property
    def calls(self) -> list[tuple[int, ToolUseBlock]]:
        """(block index, call) of each call, in order; an incomplete reply has none."""
        blocks = enumerate(self.blocks if self.complete else ())
        return [(index, block) for index, block in blocks if isinstance(block, ToolUseBlock)]

    @property
    def is_cut(self) -> bool:
        """Return whether the reply was cut off by a limit, so that the next one continues it."""
        is_full = self.stop in ("max_tokens", "model_context_window_exceeded")
        return is_full and self.complete and not self.calls


class Started(Fact, frozen=True):
    """A tool that may change something is about to run: call `block` of reply `of`."""

    of: int
    block: int


class Result(Fact, frozen=True):
    """The result of call `block` of reply `of`.

    `content` is for the model, `human` for the user; `about` has what the tool reports about it (path, hash,
    lines, exit code), and `stored` locates the full output.
    """

    RECALLED: ClassVar = "recalled"  # a key of `Result.about`: the result shows earlier text again

    of: int
    block: int
    content: tuple[Block, ...]
    tokens: tuple[int, ...] = ()
    error: bool = False
    human: Display = field(default=Display())
    about: Mapping[str, Any] = field(default_factory=empty_mapping)
    stored: StoredOutput | None = None

    @property
    def speaker(self) -> str:
        return "error" if self.error else "result"

    def call_in(self, reply: Fact | None) -> ToolUseBlock | None:
        """Return the call that it answers, from the reply that contains it; None if the reply was lost."""
        blocks = reply.blocks if isinstance(reply, Reply) else ()
        use = blocks[self.block] if self.block < len(blocks) else None
        return use if isinstance(use, ToolUseBlock) else None

    @property
    def changed_files(self) -> Mapping[str, str]:
        """The files that a command changed, by their paths in the project: "changed", "new" or "gone"."""
        changed = self.about.get(CHANGED_KEY)
        return changed if isinstance(changed, dict) else {}  # a transcript may contain any shape here

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """(question, words) of each answer of the user to the call; "": the call itself was the question."""
        pairs = self.about.get(REMARKS_KEY, ())
        return tuple((str(pair[0]), str(pair[1])) for pair in pairs if len(pair) == 2)

    @staticmethod
    def about_remarks(*pairs: tuple[str, str]) -> dict[str, Any]:
        """Return the entries of `Result.about` that `Result.remarks` reads; {} if the user said nothing."""
        answers = [list(pair) for pair in pairs if pair[1].strip()]
        return {REMARKS_KEY: answers} if answers else {}

    @staticmethod
    def about_changed(files: Mapping[str, str]) -> dict[str, Any]:
        """Return the entries of `Result.about` for changed files, as `Result.changed_files` reads them."""
        return {CHANGED_KEY: dict(files)}


_LAYER_LABELS = {
    "budget": "results moved to files",
    "snip": "messages removed",
    "micro": "results cleared",
    "collapse": "segments summarized",
    "summary": "model summary",
    "ledger": "local summary",
    "reactive": "results shortened",
    "unthink": "thinking dropped",
    "drop": "block dropped",
}


class Compacted(Fact, frozen=True):
    """The conversation was compacted: the edits that apply from now on, the layer, trigger and figures."""

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
        """The layer in the user's words."""
        return _LAYER_LABELS.get(self.layer, self.layer)


class Undone(Fact, frozen=True):
    """The compaction `id` was undone; `edits` omit the thinking that was produced while it applied."""

    id: str
    edits: tuple[Edit, ...] = ()


class Failed(Fact, frozen=True):
    """An attempt failed (a summary, a hook, a request); the conversation is unchanged."""

    what: str
    reason: str
    about: Mapping[str, Any] = field(default_factory=empty_mapping)


class Rewound(Fact, frozen=True):
    """The user rewound: the facts from `to` up to this one are no longer part of the conversation."""

    to: int
    about: Mapping[str, Any] = field(default_factory=empty_mapping)


class Metadata(Fact, frozen=True):
    """State outside the conversation, by topic: a pin, a name, a permission mode, a checkpoint of files."""

    NEWS: ClassVar = "news"  # a topic: a note of an inbox, which refers to facts of its session by number
    FORK: ClassVar = "fork"  # a topic: {"of": the copied session, "at": its last copied fact, or absent}
    # A topic: bytes `start` to `end` of the file are another continuation, now the session `session`.
    TAIL: ClassVar = "second tail"

    topic: str
    about: Mapping[str, Any] = field(default_factory=empty_mapping)


class Closed(Fact, frozen=True):
    """The session ended."""

    reason: str


class UnknownFact(Fact, frozen=True):
    """A line of a kind or a version that this version does not know, kept unchanged."""

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
"""The types of facts by their kind in the transcript."""


def name_of(notes: Iterable[Metadata]) -> str:
    """Return the latest name that the user gave a session, on one line, or ""."""
    names = [note.about.get("name", "") for note in notes if note.topic == "name"]
    return " ".join(str(names[-1]).split()) if names else ""
