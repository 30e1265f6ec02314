"""What the model is told about changes of its environment, from the facts of a session alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent.session.environment import (
    END_OF_PLAN_TEXT,
    OPEN_TEXT,
    PLAN_KEY,
    Environment,
    environment_news,
    news_of_pins,
    plan_text,
    post_command_text,
    post_planning,
)
from agent.session.late_news import news_of_ended_commands, restore_news
from agent.session.plan_and_todo import TodoItem, todo_lines
from agent.session.system_prompts import SANDBOX_AND_RECORDS_TEXT, command_text
from tests.tables import each_row
from tools.processes.inbox import Inbox
from transcripts.facts import Compacted, Fact, Fold, Metadata, Opened, Reply, Result, Undone, User
from transcripts.folding import Folded, fold
from transcripts.messages import ChannelBlock, TextBlock, ToolUseBlock

FOLDER = Path("/nowhere/project")
TOOLS = ("ask_user", "exit_plan")
PLAN_TEXT = plan_text(TOOLS)
PLAN_WITHOUT_TOOLS = """\
# Plan mode
Plan mode is on. Explore the code; decide what is open, and say what you assumed. Do not edit files. When \
ready, reply with the plan: the files to change, the steps and the verification."""
SANDBOXED = command_text(True, True)


class Story:
    """The facts of a session, numbered as they are added."""

    def __init__(self, system: tuple[str, ...] = (SANDBOXED,), folder: Path = FOLDER) -> None:
        self.facts: list[Fact] = [Opened(1, 0.0, system, (), "m", 200_000, str(folder), tag="7f")]

    @property
    def next(self) -> int:
        return len(self.facts) + 1

    @property
    def folded(self) -> Folded:
        return fold(self.facts)

    def say(self, *own: str) -> Story:
        """Add a prompt with makeroom's own words before it."""
        blocks = (*map(ChannelBlock, own), TextBlock("go"))
        self.facts.append(User(self.next, 0.0, blocks, (1,) * len(blocks)))
        return self

    def call(self, text: str = "done", command: str = "", own: str = "", **about: Any) -> Story:
        """Add a call of bash with its result, and with makeroom's own words in it."""
        use = ToolUseBlock(f"t{self.next}", "bash", {"command": command} if command else {})
        self.facts.append(Reply(self.next, 0.0, (use,), (1,)))
        content = (TextBlock(text), *([ChannelBlock(own)] if own else []))
        result = Result(self.next, 0.0, self.next - 1, 0, content, (1,) * len(content), about=about)
        self.facts.append(result)
        return self

    def note(self, topic: str, **about: Any) -> Story:
        self.facts.append(Metadata(self.next, 0.0, topic, about))
        return self

    def news(self, **changed: Any) -> list[str]:
        now_is = Environment(
            **{"folder": FOLDER, "model": "m", "commands": SANDBOXED, "tools": TOOLS, **changed}
        )
        return environment_news(self.folded, now_is, 0.0)


ENVIRONMENT = "# Environment\nDate: today\nModel: m\nGit: none"


def test_the_environment_is_described_once_for_each_directory() -> None:
    [first] = Story().news()
    assert first.startswith("# Environment\nDate: ") and "\nModel: m\nProject directory: /nowhere" in first
    assert first.endswith("\nGit: no repository")
    assert Story().say(first).news() == []
    [again] = Story(folder=Path("/elsewhere")).say(first).news()
    assert again.startswith("# Environment")
    [alone] = environment_news(Folded(), Environment(FOLDER, "m", mode="manual"), 0.0)
    assert alone.startswith("# Environment")
    assert environment_news(Folded(), Environment(FOLDER, "m", mode="plan", tools=TOOLS), 0.0)[1:] == [
        PLAN_TEXT
    ]


@each_row(
    "own, changed, news",
    [
        ((ENVIRONMENT,), {"model": "other"}, ["# Model\nThe model is other from now on."]),
        ((ENVIRONMENT, "# Model\nThe model is other from now on."), {"model": "other"}, []),
        (
            (ENVIRONMENT, "# Model\nThe model is other from now on."),
            {},
            ["# Model\nThe model is m from now on."],
        ),
        ((), {}, []),
        ((), {"model": "other"}, ["# Model\nThe model is other from now on."]),
        ((), {"cwd": "src"}, ["# Current directory\nCommands run in src."]),
        (("# Current directory\nCommands run in src.",), {"cwd": "src"}, []),
        (
            ("# Current directory\nCommands run in src.",),
            {"cwd": "."},
            ["# Current directory\nCommands run in the project directory."],
        ),
        ((), {"mode": "plan"}, [PLAN_TEXT]),
        ((PLAN_TEXT,), {"mode": "plan"}, [PLAN_TEXT]),
        ((), {"mode": "plan", "tools": ()}, [PLAN_WITHOUT_TOOLS]),
        ((PLAN_WITHOUT_TOOLS,), {}, [END_OF_PLAN_TEXT]),
        ((PLAN_TEXT,), {"mode": "manual"}, [END_OF_PLAN_TEXT]),
        ((PLAN_TEXT, END_OF_PLAN_TEXT), {}, []),
        ((), {"commands": None}, []),
        ((), {"commands": ""}, [OPEN_TEXT]),
        ((OPEN_TEXT,), {"commands": ""}, []),
        ((OPEN_TEXT,), {}, [SANDBOXED]),
        ((), {"mode": "bypassPermissions"}, [OPEN_TEXT]),
    ],
)
def test_what_has_changed_since_the_model_was_last_told_is_news(
    own: tuple[str, ...], changed: dict[str, Any], news: list[str]
) -> None:
    assert Story().say(*own).news(**changed) == news


def test_a_result_that_moved_the_current_directory_told_so() -> None:
    moved = Story().say().call(cwd="src")
    told = Story().say().call(own="# Current directory\nCommands run in src.")
    for story in (moved, told):
        assert story.news(cwd="src") == []
        assert story.news() == ["# Current directory\nCommands run in the project directory."]


def test_pins_are_news_until_a_prompt_or_a_summary_has_them() -> None:
    story = Story().say()
    assert news_of_pins(story.folded) == []
    story.note("pin", id=1, text="be brief").note("pin", id=2, text="no tabs")
    [told] = news_of_pins(story.folded)
    assert told == (
        "# Pins\n- pinned by the user; applies from now on: be brief\n"
        "- pinned by the user; applies from now on: no tabs"
    )
    assert story.news() == [told]
    story.say(told)
    assert news_of_pins(story.folded) == []
    story.note("unpin", id=1)
    [told] = news_of_pins(story.folded)
    assert told == "# Pins\n- no longer pinned; no longer applies: be brief"
    edits = (Fold(2, story.next - 2, (TextBlock("summary"),), 1),)
    for layer in ("summary", "ledger"):
        story.facts.append(Compacted(story.next, 0.0, layer, "auto", edits))
        assert news_of_pins(story.folded) == [], "the summary lists the pins"
        story.facts.append(Undone(story.next, 0.0, f"c{story.next - 1}"))
        assert news_of_pins(story.folded) == [told]
    story.facts.append(Compacted(story.next, 0.0, "micro", "auto", edits))
    assert news_of_pins(story.folded) == [told]


KILLED = "# Background commands\n- Background command {} ({}) was killed when makeroom exited"


def test_commands_in_the_background_that_the_model_takes_for_running_are_reported_as_killed() -> None:
    assert news_of_ended_commands(Story().say().call().folded) is None
    story = Story().say().call("started", "make\n all", job="b1")
    assert news_of_ended_commands(story.folded) == (3, KILLED.format("b1", "make all"))
    story.call("still running", job="b1").call("started", "serve", job="b2")
    first, text = news_of_ended_commands(story.folded) or (0, "")
    assert first == 3 and text.split("\n")[1:] == [
        "- Background command b1 (make all) was killed when makeroom exited",
        "- Background command b2 (serve) was killed when makeroom exited",
    ]
    story.call("it ended", job="b1", ended=True)
    assert news_of_ended_commands(story.folded) == (7, KILLED.format("b2", "serve"))
    inbox = Inbox()
    restore_news(story.folded, inbox)
    [block] = inbox.take()
    assert isinstance(block, ChannelBlock) and block.text == KILLED.format("b2", "serve")
    story.call("[Background command b2 (serve) ended with exit code 1]")
    assert news_of_ended_commands(story.folded) is None


def test_a_prompt_that_told_of_the_end_of_a_command_ends_it() -> None:
    story = Story().say().call("started", "make", job="b1").say("Background command b1 (make) is a joke")
    assert news_of_ended_commands(story.folded) is not None
    story.say(KILLED.format("b1", "make"))
    assert news_of_ended_commands(story.folded) is None
    inbox = Inbox()
    restore_news(story.folded, inbox)
    assert inbox.take() == []


def test_plan_mode_that_ends_before_the_model_knew_of_it_is_no_news() -> None:
    inbox = Inbox()
    post_planning(inbox, TOOLS, True)
    assert [block.text for block in inbox.waiting.values()] == [PLAN_TEXT] and PLAN_KEY in inbox.waiting
    post_planning(inbox, TOOLS, False)
    assert not inbox.waiting
    post_planning(inbox, TOOLS, False)
    assert [block.text for block in inbox.take()] == [END_OF_PLAN_TEXT]


def test_the_text_about_commands_waits_until_it_is_as_the_model_knows_it() -> None:
    story = Story().say()
    inbox = Inbox()
    for text, waiting in ((SANDBOX_AND_RECORDS_TEXT, True), ("", True), (SANDBOXED, False)):
        post_command_text(inbox, story.folded, text, "manual")
        assert [block.text for block in inbox.waiting.values()] == ([text or OPEN_TEXT] if waiting else [])
    post_command_text(inbox, Folded(), "", "manual")
    assert not inbox.waiting


def test_an_item_in_progress_is_shown_by_its_active_form() -> None:
    items = (
        TodoItem("paint", "in_progress", "painting"),
        TodoItem("dry", "in_progress"),
        TodoItem("sell", ""),
    )
    assert [item.shown for item in items] == ["painting", "dry", "sell"]
    assert TodoItem("paint", "pending", "painting").shown == "paint"
    assert todo_lines(items) == ["[in_progress] paint", "[in_progress] dry", "[?] sell"]
