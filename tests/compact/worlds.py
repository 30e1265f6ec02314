"""A session without a model: facts are made by hand, plans are carried out, and every view is judged.

Counting is by characters, so that nothing has to be loaded. The judge recomputes what the API checks: the
grammar, and whether each thinking block still stands behind what it was made for.
"""

import hashlib
import json
from itertools import takewhile
from typing import Any, NamedTuple

from msgspec.structs import replace

from agent.model.anthropic.messages import encode_message
from compact.breakpoints import cache_breakpoints
from compact.invariants import problems
from compact.pipeline import plan
from compact.prices import Prices
from compact.settings import CompactSettings, ContextWindow
from compact.situation import CannotChange, Proposal, Situation, SummaryReply, finish_plan
from compact.tokens import TokenCounter
from compact.uncompact import plan_undo
from tests.narrowing import block_text, narrow, present
from tests.transcripts.api_rules import violations
from transcripts.facts import (
    Compacted,
    Failed,
    Fold,
    Metadata,
    Opened,
    Reply,
    RequestSent,
    Result,
    Undone,
    User,
)
from transcripts.folding import Folded, fold
from transcripts.messages import TextBlock, ThinkingBlock, ToolUseBlock, Usage
from transcripts.view import PartKind

COUNT = TokenCounter(None)
SUMMARY = "<analysis>all of it</analysis><summary>1. Primary request and intent: as told.</summary>"


class World:
    """A session: `facts` so far, what they fold to, and the circumstances of planning."""

    def __init__(self, settings=None, window=200_000, binds=True, overhead=0, judged=True):
        # Small windows make small tests; what is done without a model only because they are small is apart.
        self.settings = replace(
            settings or CompactSettings(), ledger_only_max_window=0, background_summaries=False
        )
        self.window = ContextWindow(window, min(32_000, window // 4))
        self.binds, self.overhead = binds, overhead
        self.folded, self.facts = Folded(), []
        self.now = 1_000.0
        self.prices = Prices()
        self.judge = Judge(binds) if judged else None
        self.questions = []
        self.files = {}
        self.vetoed = False  # by a hook: results are cleared, and nothing is summarized
        self.tokenizer = (0, 1.0)  # offset and slope from our count to the server's

    def add(self, made, *values, **more):
        fact = made(self.folded.last_seq + 1, self.now, *values, **more)
        self.folded.apply(fact)
        self.facts.append(fact)
        if self.judge is not None:
            self.judge.after(self.folded, fact)
        return fact

    def user(self, *texts, source="user", joined=False):
        blocks = tuple(TextBlock(text) if isinstance(text, str) else text for text in texts)
        return self.add(User, blocks, COUNT.blocks(blocks), source, joined)

    def reply(self, *blocks, complete=True, **more):
        blocks = tuple(TextBlock(block) if isinstance(block, str) else block for block in blocks)
        sizes = self.situation.tokens, self.overhead + self.folded.view.tokens
        marks = cache_breakpoints(self.folded) if self.folded.compactions else ()
        asked = self.add(RequestSent, "turn", *sizes, marks=marks)
        offset, slope = self.tokenizer
        sent = offset + round(slope * (self.overhead + self.folded.view.tokens))
        usage = Usage(input=sent, output=round(slope * sum(COUNT.blocks(blocks))))
        more = {"usage": usage, **more}
        return self.add(Reply, blocks, COUNT.blocks(blocks), complete=complete, asked=asked.seq, **more)

    def result(self, reply, block, text, **more):
        content = (TextBlock(text),) if isinstance(text, str) else text
        return self.add(Result, reply.seq, block, content, COUNT.blocks(content), **more)

    def call(self, name, result, thinks="", error=False, **arguments):
        """One exchange: a call of a tool, and its result."""
        use = ToolUseBlock(f"t{self.folded.last_seq}", name, arguments)
        blocks = (ThinkingBlock(thinks, "sig"), use) if thinks else (use,)
        reply = self.reply(*blocks)
        return self.result(reply, len(blocks) - 1, result, error=error)

    def open(self, *tools):
        """The session is opened with these definitions of tools."""
        return self.add(Opened, (), tools, "m", self.window.size, "/p")

    def note(self, topic, **about):
        return self.add(Metadata, topic, about)

    @property
    def situation(self):
        return Situation(
            self.folded, self.settings, self.window, self.prices, self.now, self.overhead,
            self.binds, COUNT, vetoed=self.vetoed,
        )  # fmt: skip

    def plan(self, trigger="auto", *answers, focus="", rung=0):
        """The plan, each question answered in turn (the last answer again and again)."""
        given = list(answers or (answered(),))

        def answer(asked):
            self.questions.append(asked)
            return given.pop(0) if len(given) > 1 else given[0]

        return finish_plan(plan(self.situation, trigger, focus, rung), answer)

    def carry_out(self, made, trigger="auto"):
        for what, reason in made.failures:
            self.add(Failed, what, reason)
        for proposal in made.proposals:
            self.files.update(proposal.files)
            self.add(Compacted, proposal.layer, trigger, proposal.edits, report=proposal.report)
        return made

    def compact(self, trigger="auto", *answers, **more):
        """Plan and carry out."""
        return self.carry_out(self.plan(trigger, *answers, **more), trigger)

    def undo(self, id=""):
        found = plan_undo(self.situation, id)
        if not isinstance(found, CannotChange):
            self.add(Undone, found.id, found.edits)
        return found

    def with_settings(self, **more):
        self.settings = replace(self.settings, **more)

    @property
    def texts(self):
        """Everything that the model is shown, as one text."""
        return "\n".join(encode_message(message).decode() for message in self.folded.view)

    @property
    def shown(self):
        """The blocks of the view as the model reads them: texts, and the texts of results and inputs."""
        return [words(part.block) for message in self.folded.view for part in message.parts]


def summary_text(proposal: Proposal | None) -> str:
    """Return the first text that the fold of this proposal shows."""
    return block_text(narrow(present(proposal).edits[0], Fold).blocks[0])


def words(block):
    match block:
        case TextBlock():
            return block.text
        case ToolUseBlock():
            return json.dumps(dict(block.input), ensure_ascii=False)
        case ThinkingBlock():
            return block.thinking
    return "\n".join(piece.text for piece in getattr(block, "content", ()) if isinstance(piece, TextBlock))


def answered(text=SUMMARY, stop="end_turn"):
    return SummaryReply(text, None, Usage(), stop)


def failed(reason="overloaded", too_long=False):
    return SummaryReply(None, reason, too_long=too_long)


class Judge:
    """Judges every view as the API would, whatever fact came last.

    Most facts add to the view: then only its end is judged, and what stands before is known to be sound.
    """

    def __init__(self, binds):
        self.binds = binds
        self.made = {}  # (seq, index) of a thinking block -> the digest of what stood before it, its place
        self.judged = []  # the messages that were found sound
        self.standing = []  # of each of them: Standing
        self.read = {}  # id of a message -> the message, which never changes, and how `read_message` reads it

    def after(self, folded, fact):
        view = list(folded.view)
        pairs = zip(view, self.judged, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))
        if same == len(view) == len(self.judged) and not isinstance(fact, Reply):
            return  # what was sent is unchanged
        reads = [self.body(message) for message in view]
        del self.standing[same:]
        for message, read in zip(view[same:], reads[same:], strict=True):
            self.standing.append(Standing.after(self.standing[-1:], message, read))
        stands = {key: place for each in self.standing for key, place in each.thinking.items()}
        if isinstance(fact, Reply):
            self.made.update((key, place) for key, place in stands.items() if key[0] == fact.seq)
        found = grammar(*end_of(view, reads, same)) + repeated_ids(reads)
        assert found + self.moved(stands, self.standing[-1].turn if view else 0) == []
        self.judged = view

    def body(self, message):
        if id(message) not in self.read:
            self.read[id(message)] = message, read_message(message)
        return self.read[id(message)][1]

    def moved(self, stands, last_turn):
        """The thinking that does not stand where it was made."""
        found = []
        for key, (digest, place, turn) in stands.items():
            then, was, _ = self.made[key]
            if self.binds and digest != then:
                found.append(f"thinking {key} stands behind something else")
            if turn == last_turn and place != was:
                found.append(f"thinking {key} has place {place}, was made at {was}")
        return found


class Standing(NamedTuple):
    """What stands in a view up to the end of a message, and where the thinking of the message stands.

    digest    of all blocks so far
    place     the number of thinking blocks so far in the turn
    turn      its number
    thinking  (seq, index) of each thinking block -> digest of all before it, its place, its turn
    """

    digest: Any
    place: int
    turn: int
    thinking: dict[tuple[int, int], tuple[bytes, int, int]]

    @classmethod
    def after(cls, before, message, read):
        digest, place, turn = hashlib.blake2b(), 0, 0
        if before:
            digest, place, turn = before[0].digest.copy(), before[0].place, before[0].turn
        thinking = {}
        for part, block, piece in zip(message.parts, read.body["content"], read.blocks, strict=True):
            if message.role == "user" and block["type"] != "tool_result":
                place, turn = 0, turn + 1
            if part.kind is PartKind.THINKING:
                thinking[part.seq, part.index] = (digest.digest(), place, turn)
                place += 1
            digest.update(piece)
        return cls(digest, place, turn, thinking)


class ReadMessage(NamedTuple):
    """A message as sent, the bytes of each of its blocks, with its role, for a digest, and its calls."""

    body: dict[str, Any]
    blocks: list[bytes]
    calls: list[str]  # their ids
    is_served: bool  # it has calls that the API runs


def read_message(message):
    body = json.loads(encode_message(message))
    role, content = message.role.encode(), body["content"]
    blocks = [role + json.dumps(block, sort_keys=True).encode() for block in content]
    calls = [block["id"] for block in content if block["type"] == "tool_use"]
    return ReadMessage(body, blocks, calls, any(block["type"] == "server_tool_use" for block in content))


def grammar(view, messages):
    """Return what the API would reject in a view, followed by a prompt if it ends in a reply."""
    if not messages:
        return []
    if messages[-1]["role"] == "assistant":
        return violations([*messages, {"role": "user", "content": [{"type": "text", "text": "continue"}]}])
    return [*violations(messages), *problems(view)]


def end_of(view, reads, same):
    """Return a view and its messages without what stands before the last reply of those that are the same.

    The first prompt stays. Nothing is left out if the API runs calls of a reply: their results may come in
    the next reply.
    """
    at = next((at for at in range(min(same, len(view)) - 1, 0, -1) if view[at].role == "assistant"), 0)
    if at == 0 or any(read.is_served for read in reads[:at]):
        return view, [read.body for read in reads]
    return [view[0], *view[at:]], [reads[0].body, *(read.body for read in reads[at:])]


def repeated_ids(reads):
    ids = [ident for read in reads for ident in read.calls]
    return ids if len(ids) != len(set(ids)) else []


def bodies(folded):
    return [encode_message(message) for message in folded.view]


def again(world) -> Any:
    """The session as a restart finds it."""
    return fold(world.facts)
