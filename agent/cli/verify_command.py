"""`makeroom verify`: check that transcripts are consistent, without a model.

    verify [SESSION...]          verify sessions by id, start of an id, name, or path of a transcript
                                 (default: all sessions here)
    -C DIR                       verify the sessions of DIR

Three things are checked:

    - each request, rebuilt from the transcript, has the hash of the request that was sent
    - each text that a compaction removed can be recalled by its id, unchanged
    - each prefix of the transcript is a conversation that the API accepts

Prints a line for each session: the counts, or the first difference.

Exit codes: 0 no differences, 1 a difference, 2 usage error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from agent.app import encoders
from agent.model_port import ModelRequest, RequestSettings
from compact import SummaryRequest, problems, summary_messages
from transcripts import (
    RECORDS_FOLDER,
    Clear,
    Compacted,
    Fact,
    Fold,
    Folded,
    LoadedTranscript,
    Message,
    OutputsFolder,
    Part,
    PartKind,
    ProjectRecords,
    Reply,
    RequestSent,
    Result,
    StoreError,
    TextBlock,
    User,
    block_text,
    fact_text,
    fold,
    read_transcript,
)
from transcripts.search import NOTHING_SAID, Originals
from transcripts.storage import expand_home
from transcripts.wording import pluralize

from .command_words import OneLineParser, asks_for_help
from .printing import announce, complain, print_text

HASH_CHARS = 12  # of a hash in a message
_SETTINGS = frozenset(RequestSettings.__struct_fields__)


class Difference(Exception):
    """A difference from the transcript. The message is one line that names the fact."""


class Verified(Struct):
    """The counts of what was verified in a transcript; `unhashed` requests have no hash to compare.

    `torn` is the size in bytes of an incomplete last line, as a crash or a full disk leaves it.
    """

    requests: int = 0
    unhashed: int = 0
    removed: int = 0
    prefixes: int = 0
    torn: int = 0

    def line(self) -> str:
        requests = f"{pluralize(self.requests, 'request')} identical"
        old = f" ({self.unhashed} without a hash)" if self.unhashed else ""
        recalled = f"{pluralize(self.removed, 'removed text')} recalled"
        prefixes = pluralize(self.prefixes, "valid prefix", "valid prefixes")
        torn = f"; the last line is incomplete ({pluralize(self.torn, 'byte')})" if self.torn else ""
        return f"ok: {requests}{old}, {recalled}, {prefixes}{torn}"


def run_verify(words: list[str], folder: Path | None = None) -> int:
    """Run `verify` with these words."""
    if asks_for_help(words):
        return print_text(__doc__ or "")
    made = OneLineParser(prog="makeroom verify", add_help=False, allow_abbrev=False)
    made.add_argument("sessions", nargs="*")
    made.add_argument("-C", "--cd", dest="folder")
    given = made.parse_args(words)
    home = Path(given.folder or folder or "").resolve()
    try:
        paths = [_find(home, one) for one in given.sessions] or ProjectRecords(home).paths()
        if not paths:
            return complain(f"no sessions in {home}")
        return max([_report(path, home) for path in paths])
    except (StoreError, OSError) as error:
        return complain(str(error))


def _find(home: Path, wanted: str) -> Path:
    """Return the transcript at a path, or of a session. Raises StoreError and FileNotFoundError."""
    if "/" in wanted or wanted.endswith(".jsonl"):
        path = expand_home(wanted).absolute()
        if not path.exists():
            raise FileNotFoundError(f"cannot verify {wanted}: no such file")
        return path
    return ProjectRecords(home).find(wanted)


def _report(path: Path, home: Path) -> int:
    """Verify a session and print a line about it; returns the exit code."""
    if path.parent.name == RECORDS_FOLDER:
        home = path.parent.parent
    announce(f"verifying {path.stem}:", path, 4e6)
    try:
        print_text(f"{path.stem}: {verify_transcript(path, home).line()}")
    except Difference as difference:
        print_text(f"{path.stem}: {difference}")
        return 1
    return 0


def verify_transcript(path: Path, home: Path) -> Verified:
    """Verify a transcript of the project `home`, which stores its outputs.

    Raises Difference for the first difference, and StoreError.
    """
    loaded = read_transcript(path)
    if loaded.damaged:
        damaged = loaded.damaged[0]
        raise Difference(f"line {damaged.line} is damaged: {damaged.why}")
    for tail in loaded.second_tails:
        raise Difference(f"line {tail.line}: a second continuation from r{tail.facts[0].seq} begins here")
    if not loaded.facts:
        raise Difference(
            "no line of the transcript is valid" if loaded.torn_size else "the transcript is empty"
        )
    verified = Verified(torn=loaded.torn_size)
    _verify_requests(loaded.facts, verified)
    _verify_removed(home, loaded, verified)
    return verified


def _verify_requests(facts: Sequence[Fact], verified: Verified) -> None:
    """Fold the facts one by one, rebuilding each request and checking prefixes on the way."""
    folded = Folded()
    sent = set[int]()
    step = -(-len(facts) // 400)  # at most 400, evenly spaced: the cost of each grows with its length
    for number, fact in enumerate(facts):
        if isinstance(fact, RequestSent):
            _verify_request(folded, fact, verified)
            sent.add(fact.seq)
        elif isinstance(fact, Reply | Compacted) and fact.asked is not None and fact.asked not in sent:
            raise Difference(f"r{fact.seq}: its request r{fact.asked} is not in the transcript")
        folded.apply(fact)
        if number % step == 0 or isinstance(fact, Compacted):
            if found := problems(_with_question(folded.view)):
                raise Difference(f"r{fact.seq}: the API would reject the conversation up to here: {found[0]}")
            verified.prefixes += 1


def _with_question(view: Sequence[Message]) -> list[Message]:
    """Return the conversation with a message of the user at its end."""
    if view and view[-1].role == "user":
        return list(view)
    part = Part(TextBlock("continue"), seq=0, index=0, kind=PartKind.USER, tokens=1)
    return [*view, Message("user", parts=(part,), first=0, last=0)]


def _verify_request(folded: Folded, sent: RequestSent, verified: Verified) -> None:
    encode = encoders().get(sent.encoding)
    if not sent.sha256 or encode is None:
        verified.unhashed += 1
        return
    request = _request_of(folded, sent)
    found = hashlib.sha256(encode(request)).hexdigest()
    if found != sent.sha256:
        size = pluralize(len(request.messages), "message")
        hashes = f"{sent.sha256[:HASH_CHARS]} was sent, {found[:HASH_CHARS]} was rebuilt"
        raise Difference(f"r{sent.seq}: a request of {size} differs: {hashes}")
    verified.requests += 1


def _request_of(folded: Folded, sent: RequestSent) -> ModelRequest:
    """Rebuild a request from the transcript."""
    opened = folded.opened
    if opened is None:
        raise Difference(f"r{sent.seq}: the settings of the request are not in the transcript")
    about: dict[str, Any] = {"cache": None, "max_tokens": 0, "model": opened.model, **sent.settings}
    about["rejected"] = frozenset(about.get("rejected", ()))
    known = {name: value for name, value in about.items() if name in _SETTINGS}
    settings = RequestSettings(system=opened.system, tools=opened.tools, tag=opened.tag, **known)
    if sent.instructions:
        asked = SummaryRequest(sent.instructions, leave_out=sent.leave_out, max_tokens=0, edits=sent.edits)
        view = summary_messages(folded, asked)[0]
        compacts = bool(sent.settings.get("compacts"))
        return ModelRequest(
            settings,
            messages=view,
            cache_marks=tuple(sent.marks),
            instruction=sent.instructions,
            compacts=compacts,
        )
    paused = folded.last_reply is not None and folded.last_reply.stop == "pause_turn"
    return ModelRequest(
        settings,
        messages=folded.view if paused else folded.view.sendable(),
        cache_marks=tuple(sent.marks),
        previous=sent.settings.get("previous"),
    )


def _verify_removed(home: Path, loaded: LoadedTranscript, verified: Verified) -> None:
    """Recall the texts that compactions removed, and compare them with the facts."""
    deferred = read_transcript(loaded.path, defer=True)
    records = ProjectRecords(home)
    outputs = OutputsFolder(records.outputs)
    record = Originals(
        fold(deferred.facts),
        outputs=records.outputs,
        lazy_results=deferred.lazy_results,
        sid=loaded.sid,
        home=home,
        project=home,
    )
    live = {fact.seq for fact in record.folded.facts}
    for id, removed in _removed(loaded.facts).items():
        fact = removed.fact
        if fact.seq not in live:  # rewound: no longer part of the conversation
            continue
        if isinstance(fact, Result) and fact.stored is not None and outputs.read(fact.stored) is None:
            raise Difference(f"{id}: the full output in {fact.stored.path} is missing or has changed")
        try:
            found = record.original(id)
        except KeyError as error:
            raise Difference(f"{id} cannot be recalled: {error.args[0]}") from error
        is_stored = isinstance(fact, Result) and fact.stored is not None and "." not in id
        if not is_stored and found != (removed.text or NOTHING_SAID):
            raise Difference(f"{id}: the recalled text differs from the removed text")
        verified.removed += 1


class _Removed(NamedTuple):
    """A fact that a compaction summarized or cleared, or one block of it."""

    fact: User | Reply | Result
    block: int | None = None

    @property
    def text(self) -> str:
        """Its text; that of a result unchanged, with nothing between its blocks."""
        if isinstance(self.fact, Result):
            return "".join(map(block_text, self.fact.content))
        return fact_text(self.fact) if self.block is None else block_text(self.fact.blocks[self.block])


def _removed(facts: Sequence[Fact]) -> dict[str, _Removed]:
    """Return everything that any compaction removed, by its recall id."""
    by_seq = {fact.seq: fact for fact in facts}
    ids: dict[str, _Removed] = {}
    folds: list[Fold] = []
    compactions = [fact for fact in facts if isinstance(fact, Compacted)]
    for edit in (edit for made in reversed(compactions) for edit in made.edits):
        if isinstance(edit, Clear):
            fact = by_seq.get(edit.seq)
            if isinstance(fact, Result):
                ids[f"r{edit.seq}"] = _Removed(fact)
            elif isinstance(fact, User | Reply) and edit.block < len(fact.blocks):
                ids[f"r{edit.seq}.{edit.block}"] = _Removed(fact, edit.block)
            else:
                raise Difference(f"r{edit.seq}: the cleared text is not in the transcript")
        elif isinstance(edit, Fold):
            if any(one.first <= edit.first and edit.last <= one.last for one in folds):
                continue  # each summary covers what those before it covered
            folds.append(edit)
            inside = (by_seq[seq] for seq in range(edit.first, edit.last + 1) if seq in by_seq)
            ids.update(
                (f"r{fact.seq}", _Removed(fact)) for fact in inside if isinstance(fact, User | Reply | Result)
            )
    return ids
