"""References between pages resolve in every request, whatever the compactions leave of the pages."""

import re
import threading
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.app.context_building import shows
from compact.page_references import pages_referred_to, with_resolved_references, with_result_id
from compact.settings import CompactSettings, Policy
from compact.situation import Proposal
from compact.uncompact import plan_drop
from tests.narrowing import block_text, narrow
from tests.sampling import scaled
from tools.files import SeenFile
from tools.left_out_text import added_placeholder
from tools.read import read_page
from transcripts import content_text
from transcripts.facts import Clear, Compacted, Fold, Result
from transcripts.folding import Folded
from transcripts.messages import TextBlock, ToolUseBlock

from .worlds import World, again, answered, words

ABOVE = re.compile(r"(?:unchanged since|as in(?: lines [\d-]+ of)?) r(\d+) above")
WINDOWS = (8_000, 16_000, 40_000, 200_000)


def dangling(folded: Folded) -> list[str]:
    """Return the references in the view to results and prompts that it does not show."""
    parts = [part for message in folded.view for part in message.parts]
    texts = [words(part.block) for part in parts]
    shown = {
        ident for text in texts for ident in re.findall(r"^\[this result: r(\d+)\]$", text, re.MULTILINE)
    }
    found = [f"r{ident}" for text in texts for ident in ABOVE.findall(text) if ident not in shown]
    for part, text in zip(parts, texts, strict=True):
        if "since the user attached it above" in text:
            result = narrow(folded.fact_at(part.seq), Result)
            if not shows(folded, result.about["unchanged"]):
                found.append(f"r{result.about['unchanged']}, a prompt")
    return found


class Reading(World):
    """A session that reads real files, with repeated reads answered by references."""

    def __init__(self, folder: Path, seed: int, window: int, policy: Policy):
        super().__init__(CompactSettings(policy=policy), window=window, overhead=window // 5, judged=False)
        self.random = Random(seed)
        self.folder = folder
        self.seen: dict[str, SeenFile] = {}
        self.texts_of = {f"f{at}.py": self.lines(self.random.randrange(20, 160)) for at in range(4)}
        for name in self.texts_of:
            self.save(name)
        self.user("begin with src/a.py. Never push.")

    def lines(self, count: int) -> list[str]:
        return [f"value_{self.random.randrange(10**6)} = call({at}, 'some words')" for at in range(count)]

    def save(self, name: str) -> None:
        (self.folder / name).write_text("\n".join(self.texts_of[name]))

    def shown_page(self, path: str) -> SeenFile | None:
        seen = self.seen.get(path)
        return seen if seen and seen.result is not None and shows(self.folded, seen.result) else None

    def read(self, count: int) -> None:
        names = [self.random.choice(list(self.texts_of)) for _ in range(count)]
        uses = [
            ToolUseBlock(f"t{self.folded.last_seq}_{at}", "read", {"file_path": str(self.folder / name)})
            for at, name in enumerate(names)
        ]
        reply = self.reply(*uses)
        for index, use in enumerate(uses):
            path = use.input["file_path"]
            wanted = self.random.choice((None, None, (1, 60), (30, 90)))
            made = read_page(path, wanted, self.shown_page(path), threading.Event())
            content = made.content
            if "unchanged" not in made.about:
                content = with_result_id(content, self.folded.last_seq + 1)
            result = self.result(reply, index, content, about=made.about)
            if "unchanged" not in made.about and (seen := SeenFile.shown_by(made.about)) is not None:
                self.seen[path] = replace(seen, result=result.seq)

    def attach(self) -> None:
        path = str(self.folder / self.random.choice(list(self.texts_of)))
        made = read_page(path, None, None, threading.Event())
        prompt = self.user(f"File: {path}\n{content_text(made.content)}", "look at it")
        if (seen := SeenFile.shown_by(made.about)) is not None:
            self.seen[path] = replace(seen, result=prompt.seq, attached=True)

    def recall(self) -> None:
        results = [fact for fact in self.folded.facts if isinstance(fact, Result)]
        if results:
            chosen = self.random.choice(results)
            reply = self.reply(ToolUseBlock(f"t{self.folded.last_seq}", "recall", {"id": f"r{chosen.seq}"}))
            text = TextBlock(content_text(chosen.content))
            self.result(reply, 0, with_resolved_references(self.folded, (text,)))

    def change(self) -> None:
        name = self.random.choice(list(self.texts_of))
        lines = self.texts_of[name]
        at = self.random.randrange(len(lines))
        lines[at : at + self.random.randrange(3)] = self.lines(self.random.randrange(3))
        self.save(name)

    def step(self) -> None:
        names = ("read", "attach", "recall", "change", "say", "auto", "manual", "reactive", "undo")
        match self.random.choices(names, (50, 4, 5, 15, 8, 40, 3, 5, 5))[0]:
            case "read":
                self.read(self.random.randrange(1, 4))
            case "attach":
                self.attach()
            case "recall":
                self.recall()
            case "change":
                self.change()
            case "say":
                self.user("and now " + "something else " * self.random.randrange(40))
            case "reactive":
                self.compact("reactive", answered(), rung=self.random.randint(1, 3))
            case "undo":
                made = self.folded.compactions
                self.undo(self.random.choice(made).id if made else "")
            case trigger:
                self.compact(trigger, answered())


@pytest.mark.parametrize("policy", ["thrifty", "classic"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("examples", scaled(1, 60))
def test_every_reference_resolves_within_the_request(
    tmp_path_factory: pytest.TempPathFactory, window: int, policy: Policy, examples: int
) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(seed=st.integers(0, 2**32))
    def every_reference_resolves(seed: int) -> None:
        world = Reading(tmp_path_factory.mktemp("files"), seed, window, policy)
        for _ in range(60):
            world.step()
            assert dangling(world.folded) == []
        assert dangling(again(world)) == []

    every_reference_resolves()


def opened_with_two_pages(tmp_path: Path) -> tuple[Reading, int, int]:
    """Return a session with a page and one of an earlier version that refers to it; the seqs of both."""
    world = Reading(tmp_path, 0, 200_000, "thrifty")
    path = str(tmp_path / "f0.py")
    text = "\n".join(f"{at}\tvalue_{at} = call({at}, 'some words')" for at in range(1, 81))
    first = world.call("read", with_result_id((TextBlock(text),), world.folded.last_seq + 3), file_path=path)
    trimmed = (TextBlock(f"[lines 1-80 are unchanged since r{first.seq} above]\n81\tthe end"),)
    second = world.call("read", with_result_id(trimmed, world.folded.last_seq + 3), file_path=path)
    assert pages_referred_to(second.content) == {first.seq}
    return world, first.seq, second.seq


def test_dropping_a_page_rewrites_the_reference_and_undoing_that_restores_it(tmp_path: Path) -> None:
    world, first, second = opened_with_two_pages(tmp_path)
    before = world.texts
    assert shows(world.folded, second)
    proposal = narrow(plan_drop(world.situation, f"r{first}"), Proposal)
    world.add(Compacted, proposal.layer, "manual", proposal.edits, report=proposal.report)
    assert not shows(world.folded, second), "nor does the view show what it refers to"
    page = world.shown[-1]
    assert page.startswith(
        f"[lines 1-80 are unchanged since r{first}, which is no longer shown: "
        f'read them again, or recall("r{first}")]\n81\tthe end\n'
    )
    assert page.endswith(f"[this result: r{second}]"), "its own lines stay, and so does its id"
    assert added_placeholder(page.split("\n")[0], ""), "write and edit refuse a copy of the line"
    world.undo()
    assert world.texts == before


def test_a_recalled_page_refers_to_what_is_in_view_or_can_be_recalled(tmp_path: Path) -> None:
    world, first, second = opened_with_two_pages(tmp_path)
    content = narrow(world.folded.fact_at(second), Result).content
    assert with_resolved_references(world.folded, content) == content
    world.add(Compacted, "micro", "auto", (Clear(first, 0, "content", "[cleared: it]"),))
    (line, *_) = block_text(with_resolved_references(world.folded, content)[0]).split("\n")
    assert line.endswith(f'recall("r{first}")]')


@pytest.mark.parametrize("repeats", [True, False])
def test_a_recalled_page_may_refer_to_one_that_a_summary_repeats(tmp_path: Path, repeats: bool) -> None:
    world, first, second = opened_with_two_pages(tmp_path)
    content = narrow(world.folded.fact_at(second), Result).content
    summary = f"[summarized]\n[this result: r{first}]" if repeats else "[summarized]"
    fold = Fold(world.folded.entries[0].seq, first, blocks=(TextBlock(summary),), tokens=5)
    world.add(Compacted, "summary", "manual", (fold,))
    assert (with_resolved_references(world.folded, content) == content) == repeats
