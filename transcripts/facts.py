"""Facts: what truly happened, one value each, appended and never rewritten.

`seq` numbers the facts of a session from 1 and is the only id there is: a recall id is `r<seq>` (or
`r<seq>.<block>`), a compaction's id is `c<seq>`. `ts` is seconds since the epoch, for people and for the
cache clock only; order is by `seq`. `tokens` holds one count for each block, made with the fact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .messages import Block, Usage, empty_mapping


@dataclass(frozen=True, slots=True)
class Clear:
    """Show `text` instead of one field of a block.

    `seq` and `block` address the block; `field` is "content" for a result, "text" or "source" for a block
    of the user, else the name of a string field of a tool input. `saves` is tokens shown less than before.
    """

    seq: int
    block: int
    field: str
    text: str
    saves: int = 0


@dataclass(frozen=True, slots=True)
class Fold:
    """Show the facts first..last, both on exchange boundaries, as one user message of `blocks`."""

    first: int
    last: int
    blocks: tuple[Block, ...]
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Unthink:
    """Leave the thinking of the replies first..last out."""

    first: int
    last: int


Edit = Clear | Fold | Unthink


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """An output kept outside the record: where (relative to the project), its hash and its size in bytes."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Opened:
    """A session began, or was opened again with another system prompt, tools or model.

    `edits` leaves out what the change made unusable (all thinking, when the tools changed). `about` names
    under "holes" the gaps that were known then: thinking that is produced later is bound to what is left.
    """

    seq: int
    ts: float
    system: tuple[str, ...]
    tools: tuple[Mapping[str, Any], ...]
    model: str
    window: int
    folder: str
    parent: str | None = None
    edits: tuple[Edit, ...] = ()
    about: Mapping[str, Any] = field(default_factory=empty_mapping)


@dataclass(frozen=True, slots=True)
class User:
    """Words of the person, or ours on their behalf (`source` says which: "user", "harness")."""

    seq: int
    ts: float
    blocks: tuple[Block, ...]
    tokens: tuple[int, ...] = ()
    source: str = "user"


@dataclass(frozen=True, slots=True)
class RequestSent:
    """A request was sent: why, how large we took it to be, which try it was.

    `tokens` is the calibrated estimate of the whole prompt, `raw` our uncorrected count of the same view.
    """

    seq: int
    ts: float
    trigger: str
    tokens: int = 0
    raw: int = 0
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model answered. `complete` is False where its stream did not end as it should.

    `partial` keeps the bytes of a block that never finished; `asked` is the seq of the request.
    """

    seq: int
    ts: float
    blocks: tuple[Block, ...]
    tokens: tuple[int, ...] = ()
    usage: Usage = field(default=Usage())
    stop: str | None = None
    complete: bool = True
    model: str = ""
    asked: int | None = None
    partial: str = ""


@dataclass(frozen=True, slots=True)
class Started:
    """A tool that may change something is about to act: call `block` of reply `of`."""

    seq: int
    ts: float
    of: int
    block: int


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to call `block` of reply `of`.

    `content` is for the model, `human` for the person (plain data, drawn by the faces), `about` what the
    tool says of it (path, hash, lines, exit code), `stored` where the whole output is.
    """

    seq: int
    ts: float
    of: int
    block: int
    content: tuple[Block, ...]
    tokens: tuple[int, ...] = ()
    error: bool = False
    human: Mapping[str, Any] = field(default_factory=empty_mapping)
    about: Mapping[str, Any] = field(default_factory=empty_mapping)
    stored: StoredOutput | None = None


@dataclass(frozen=True, slots=True)
class Compacted:
    """Room was made: what is shown otherwise from now on, by which layer, why, and the figures."""

    seq: int
    ts: float
    layer: str
    trigger: str
    edits: tuple[Edit, ...]
    asked: int | None = None
    report: Mapping[str, Any] = field(default_factory=empty_mapping)

    @property
    def id(self) -> str:
        return f"c{self.seq}"


@dataclass(frozen=True, slots=True)
class Undone:
    """The compaction `id` no longer holds; `edits` leaves out the thinking that was produced under it."""

    seq: int
    ts: float
    id: str
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """Something asked for did not come about (a summary, a hook); the conversation is as before."""

    seq: int
    ts: float
    what: str
    reason: str
    about: Mapping[str, Any] = field(default_factory=empty_mapping)


@dataclass(frozen=True, slots=True)
class Rewound:
    """The person went back: facts from `to` up to this one are no part of the conversation any more."""

    seq: int
    ts: float
    to: int
    about: Mapping[str, Any] = field(default_factory=empty_mapping)


@dataclass(frozen=True, slots=True)
class Metadata:
    """State beside the conversation: a pin, a name, a permission mode, a checkpoint of files."""

    seq: int
    ts: float
    topic: str
    about: Mapping[str, Any] = field(default_factory=empty_mapping)


@dataclass(frozen=True, slots=True)
class Closed:
    seq: int
    ts: float
    reason: str


@dataclass(frozen=True, slots=True)
class UnknownFact:
    """A line of a kind that this version does not know, kept as it was."""

    seq: int
    ts: float
    kind: str
    raw: Mapping[str, Any]


Fact = (
    Opened
    | User
    | RequestSent
    | Reply
    | Started
    | Result
    | Compacted
    | Undone
    | Failed
    | Rewound
    | Metadata
    | Closed
    | UnknownFact
)
KINDS: dict[str, type[Any]] = {
    "opened": Opened,
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
KIND_OF = {made: name for name, made in KINDS.items()}
