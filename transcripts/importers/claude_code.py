"""Read sessions of Claude Code: lines of {"type", "message", "uuid", "parentUuid", "timestamp", ...}.

A reply is split over several lines with one `message.id`; results of its first calls may come between them.
Side chains (subagents have their own context), lines marked as meta, and summaries that replaced history (a
replay has the history itself) are omitted. Of prompts on the same parent, one begins the conversation that
the file ends on. The others, with all that follows from them, were rewound, or two processes continued the
session at the same time: then lines of the other branch come after that prompt, and it is read as a fork.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from ..facts import Reply
from ..messages import Block, TextBlock, ToolResultBlock
from .recording import SECOND_WRITER, ImportedSession, ParsedFile, content_blocks, mapping_in, parse_time

MAX_FORKS = 10  # of a recording, the newest; each one contains the conversation before it
_MESSAGE_TYPES = ("user", "assistant")
# Field -> what a message is in which it is true.
_LEFT_OUT = {
    "isSidechain": "subagent messages",
    "isMeta": "messages that Claude Code added",
    "isCompactSummary": "summaries",
}
# How messages begin that Claude Code writes in the user's name: reports of agents and background commands,
# the output of commands that the user ran, and notes of interruptions.
_NOTICE_STARTS = (
    "<task-notification>",
    "<local-command-stdout>",
    "<bash-stdout>",
    "[Request interrupted by user",
)


class _Branch(NamedTuple):
    """A line that does not lead to the last message: what it is, and the prompt that begins its branch."""

    what: str
    start: str


class _Message(Struct):
    """A complete reply, or a message from the user."""

    role: str
    blocks: tuple[Block, ...]
    ts: float | None
    id: str
    model: str  # "" for a message from the user
    note: Any  # Claude Code's note on a result (`toolUseResult`)
    source: str  # of a prompt

    @property
    def is_prompt(self) -> bool:
        return self.role == "user" and not any(isinstance(block, ToolResultBlock) for block in self.blocks)


def recognizes(file: ParsedFile) -> bool:
    """Return whether the lines wrap messages as Claude Code does."""
    return any(map(_holds_message, file.objects))


def read_session(file: ParsedFile, session: ImportedSession) -> None:
    """Add the main conversation in the order of the file, and those of other writers as forks of it."""
    others = _other_branches(file.objects)
    _read_branch(file, session, others)
    leaves = {
        branch.start: ident
        for ident, branch in others.items()
        if branch.what == SECOND_WRITER and ident in _messages(file.objects)
    }
    session.skip("other continuations", max(0, len(leaves) - MAX_FORKS))
    for leaf in list(leaves.values())[-MAX_FORKS:]:
        fork = ImportedSession(session.format, session.count)
        _read_branch(file, fork, _other_branches(file.objects, leaf))
        if any(isinstance(fact, Reply) for fact in fork.facts):
            session.forks.append(fork)


def _messages(objects: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the uuids of the lines with a message of the conversation."""
    return {str(raw.get("uuid")) for raw in objects if _holds_message(raw) and not _left_out(raw)}


def _read_branch(file: ParsedFile, session: ImportedSession, others: Mapping[str, _Branch]) -> None:
    """Add the messages of all lines except those of `others`."""
    messages: list[_Message] = []
    idents: set[str] = set()
    for raw in file.objects:
        if not _holds_message(raw):
            session.skip_line(raw)
            continue
        ident = str(raw.get("uuid") or len(idents))
        branch = others.get(ident)
        what = "repeated lines" if ident in idents else _left_out(raw) or (branch.what if branch else "")
        if what:
            session.skip(what)
            continue
        idents.add(ident)
        message = raw["message"]
        blocks = content_blocks(message.get("content"), session.skip)
        if blocks is None:
            session.damaged += 1
        else:
            made = _Message(
                str(raw["type"]),
                blocks=blocks,
                ts=parse_time(raw.get("timestamp")),
                id=str(message.get("id") or ""),
                model=str(message.get("model") or ""),
                note=raw.get("toolUseResult"),
                source=_source(raw, blocks),
            )
            _add(made, messages)
    for each in messages:
        session.add_message(
            each.role, each.blocks, each.ts, note=each.note, model=each.model, source=each.source
        )


def _holds_message(raw: Mapping[str, Any]) -> bool:
    return raw.get("type") in _MESSAGE_TYPES and isinstance(raw.get("message"), Mapping)


def _source(raw: Mapping[str, Any], blocks: Sequence[Block]) -> str:
    """Return who wrote a message: the user, or Claude Code. Older versions do not state its origin."""
    text = next((block.text for block in blocks if isinstance(block, TextBlock)), "")
    reported = mapping_in(raw, "origin").get("kind") == "task-notification"
    return "harness" if reported or text.startswith(_NOTICE_STARTS) else "user"


def _left_out(raw: Mapping[str, Any]) -> str:
    """Return what a line is that does not belong to the main conversation, "" if it does."""
    return next((what for field, what in _LEFT_OUT.items() if raw.get(field)), "")


def _other_branches(objects: Sequence[Mapping[str, Any]], end: str = "") -> dict[str, _Branch]:
    """Return the lines that do not lead to the message `end`, by default the last of the file, by uuid."""
    parents: dict[str, str] = {}  # uuid of a line -> that of the line before it, "" if there is none
    prompts: dict[str, list[str]] = {}  # uuid of a parent -> uuids of the prompts on it
    leaf = ""
    for raw in objects:
        ident = raw.get("uuid")
        if not isinstance(ident, str) or ident in parents:
            continue
        parent = raw.get("parentUuid") or raw.get("logicalParentUuid")
        parents[ident] = parent if isinstance(parent, str) else ""
        if _holds_message(raw) and not _left_out(raw):
            leaf = ident
            if parents[ident] and _is_prompt(raw):
                prompts.setdefault(parents[ident], []).append(ident)
    path: set[str] = set()
    leaf = end or leaf
    while leaf in parents and leaf not in path:
        path.add(leaf)
        leaf = parents[leaf]
    kept: dict[str, str] = {}  # the prompt that begins another branch -> the prompt next to it that is kept
    for siblings in prompts.values():
        followed = next((each for each in siblings if each in path), siblings[-1])
        kept |= {each: followed for each in siblings if each != followed}
    return _named_branches(parents, kept)


def _named_branches(parents: Mapping[str, str], kept: Mapping[str, str]) -> dict[str, _Branch]:
    """Return what each line of the branches is, by its uuid; `parents` has all lines in the file's order."""
    starts: dict[str, str] = {}  # uuid of a line -> the prompt that begins its branch
    last: dict[str, int] = {}  # such a prompt -> the place of the last line of its branch
    places = {ident: at for at, ident in enumerate(parents)}
    for ident, parent in parents.items():
        start = ident if ident in kept else starts.get(parent)
        if start is not None:
            starts[ident] = start
            last[start] = places[ident]
    what = {
        start: "rewound messages" if last[start] < places[other] else SECOND_WRITER
        for start, other in kept.items()
    }
    return {ident: _Branch(what[start], start) for ident, start in starts.items()}


def _is_prompt(raw: Mapping[str, Any]) -> bool:
    content = raw["message"].get("content")
    blocks = content if isinstance(content, list) else ()
    return raw["type"] == "user" and not any(
        isinstance(block, Mapping) and block.get("type") == "tool_result" for block in blocks
    )


def _add(message: _Message, messages: list[_Message]) -> None:
    """Append a message, or join it to the reply that it continues."""
    if message.role == "assistant" and message.id:
        said = (old for old in reversed(messages) if old.role == "assistant" or old.is_prompt)
        newest = next(said, None)  # only results may come between the parts of a reply
        if newest is not None and newest.role == "assistant" and newest.id == message.id:
            newest.blocks += message.blocks
            return
    messages.append(message)
