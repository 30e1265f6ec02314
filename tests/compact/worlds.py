"""A session without a model: facts are made by hand, plans are carried out, and every view is judged.

Counting is by characters, so that nothing has to be loaded. The judge recomputes what the API checks: the
grammar, and whether each thinking block still stands behind what it was made for.
"""

import hashlib
import json
from typing import Any

from msgspec.structs import replace

from agent.model.anthropic.messages import encode_message
from compact.breakpoints import cache_breakpoints
from compact.estimate import Calibration
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
            Calibration.of(self.folded), self.binds, COUNT, vetoed=self.vetoed,
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
    """Judges every view as the API would, whatever fact came last."""

    def __init__(self, binds):
        self.binds = binds
        self.made = {}  # (seq, index) of a thinking block -> the digest of what stood before it, its place
        self.judged = []  # the messages that were found sound
        self.read = {}  # id of a message -> the message, which never changes, and how `read_message` reads it

    def after(self, folded, fact):
        view = list(folded.view)
        if view == self.judged and not isinstance(fact, Reply):
            return  # what was sent is unchanged
        bodies = [self.body(message) for message in folded.view]
        stands = standing(folded.view, bodies)
        if isinstance(fact, Reply):
            self.made.update((key, place) for key, place in stands.items() if key[0] == fact.seq)
        messages = [body for body, _ in bodies]
        assert grammar(folded.view, messages) + self.moved(stands, turns(messages)) == []
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


def read_message(message):
    """Return a message as sent, and the bytes of each of its blocks, with its role, for a digest."""
    body = json.loads(encode_message(message))
    role = message.role.encode()
    return body, [role + json.dumps(block, sort_keys=True).encode() for block in body["content"]]


def grammar(view, messages):
    """Return what the API would reject in a view, followed by a prompt if it ends in a reply."""
    if not messages:
        return []
    if messages[-1]["role"] == "assistant":
        return violations([*messages, {"role": "user", "content": [{"type": "text", "text": "continue"}]}])
    return [*violations(messages), *problems(view)]


def standing(view, bodies) -> dict[tuple[int, int], tuple[bytes, int, int]]:
    """Of each thinking block: digest of all before it, its place in its turn, the number of the turn."""
    digest, place, turn = hashlib.blake2b(), 0, 0
    found: dict[tuple[int, int], tuple[bytes, int, int]] = {}
    for message, (body, encoded) in zip(view, bodies, strict=True):
        for part, block, piece in zip(message.parts, body["content"], encoded, strict=True):
            if message.role == "user" and block["type"] != "tool_result":
                place, turn = 0, turn + 1
            if part.kind is PartKind.THINKING:
                found[part.seq, part.index] = (digest.digest(), place, turn)
                place += 1
            digest.update(piece)
    return found


def turns(messages):
    blocks = (block for body in messages if body["role"] == "user" for block in body["content"])
    return sum(block["type"] != "tool_result" for block in blocks)


def bodies(folded):
    return [encode_message(message) for message in folded.view]


def again(world) -> Any:
    """The session as a restart finds it."""
    return fold(world.facts)
