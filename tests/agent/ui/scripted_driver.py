"""A driver that plays scripts: what the screen is tested with, without an agent.

Tests run it on a terminal of their own: `python scripted_driver.py FOLDER [--plain]`. A prompt is a little
program of steps separated by `;` (the `do_` methods below), so that each test says what the agent is to do.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from tools.user_questions import Preview, QuestionOption, UserQuestion
from transcripts import Display

ROOT = Path(__file__).resolve().parents[3]
if __name__ == "__main__":
    sys.path[:] = [str(ROOT), *[entry for entry in sys.path if Path(entry) != Path(__file__).parent]]

from agent import events  # noqa: E402
from agent.app.config import Config  # noqa: E402
from agent.app.options import Options  # noqa: E402
from agent.app.setup import RunSetup  # noqa: E402
from agent.errors import UsageError  # noqa: E402
from agent.events import Emit, TurnFinished  # noqa: E402
from agent.menus import Menu, MenuRow, question_menu  # noqa: E402
from agent.ports import (  # noqa: E402
    Approver,
    Chooser,
    CommandSummary,
    Deny,
    PermissionQuestion,
    Status,
    WaitingPrompts,
)
from agent.ui import approval, question_form  # noqa: E402
from agent.ui.repl import run_repl  # noqa: E402
from tools.base import Access  # noqa: E402
from transcripts.data_tags import split_pastes  # noqa: E402
from transcripts.facts import Reply, Result  # noqa: E402
from transcripts.messages import TextBlock  # noqa: E402

DIFF = """--- a/calc.py
+++ b/calc.py
@@ -1,3 +1,3 @@
 def add(a, b):
-    return a - b
+    return a + b
 # end
"""
FRUITS = ("apple", "banana", "cherry", "date", "elder", "fig", "grape", "日本の梨 \x1b[31m")
MENUS = {
    "fruits": Menu(
        "Which fruit?", tuple(MenuRow(name, name, (f"no. {at}",)) for at, name in enumerate(FRUITS))
    ),
    "many": Menu("Which number?", tuple(MenuRow(str(at), f"number {at}") for at in range(100))),
    "question": question_menu("Sure?", yes="Yes, do it", no="No"),
}
MARKDOWN = """# Report

Some **bold** words and `code`, [brackets] and a [link](https://example.org/x).

1. first
2. second

```python
def add(a, b):
    return a + b
```

| name | tokens |
|------|-------:|
| system | 3,000 |
| tools | 5,000 |

The end.
"""


class ScriptedDriver:
    """Implements ports.Driver. What it was asked is written to the log, a line each."""

    def __init__(self, emit: Emit, approver: Approver, chooser: Chooser | None, folder: Path) -> None:
        self.emit, self.approver, self.chooser = emit, approver, chooser
        self.log, self.gate = folder / "log", folder / "gate"
        self.modes = ["manual", "acceptEdits", "dontAsk"]
        self.tokens = 46_000
        self.state = "NORMAL"

    def status(self) -> Status:
        return Status(
            "claude-sonnet-5-5", self.tokens, 200_000, self.state, 0.1234, self.modes[0], "s42", "/w"
        )

    def take_prompts_from(self, waiting: WaitingPrompts) -> None:
        self.waiting = waiting

    async def do_requests(self, _: str) -> None:
        """Come to the next request, with which the prompts go that wait."""
        while (prompt := self.waiting.take()) is not None:
            self.note("taken", prompt[0])
            if prompt[0] == "held":
                try:
                    await self.opened("never")
                finally:
                    self.waiting.give_back()

    async def open(self) -> bool:
        return True

    def needs_session(self, line: str) -> bool:
        return not line.startswith(("/help", "/exit"))

    async def ready(self) -> None:
        if "SCRIPTED_SLOW" in os.environ:
            await self.opened("ready")
        if "SCRIPTED_UNUSABLE" in os.environ:
            raise UsageError("the service has no such model")

    async def prompt(self, text: str, *, typed: str | None = None) -> TurnFinished:
        pieces = split_pastes(text)
        text = "".join(pieces)
        self.note("prompt", text)
        if len(pieces) > 1:
            self.note("pasted", "\n".join(pieces[1::2]))
        self.emit(events.TurnStarted(text))
        try:
            for words in text.split(";"):
                name, _, rest = words.strip().partition(" ")
                act = getattr(self, f"do_{name}", None)
                await (act(rest) if act else self.do_say(f"You said: {words.strip()}"))
        except asyncio.CancelledError:
            self.note("interrupted", text)
            ended = TurnFinished("interrupted", 1, "interrupted", 130)
            self.emit(ended)
            return ended
        ended = TurnFinished("done", 1)
        self.emit(ended)
        return ended

    async def command(self, line: str) -> bool:
        self.note("command", line)
        name = line[1:].split()[0]
        if name == "context":
            rows = (("system", 3000), ("tools", 5200), ("user text", 1200), ("tool results", 30_000))
            self.emit(events.ContextChart("Context", rows, 200_000))
        elif name == "exit":
            return False
        elif name == "copy":
            self.emit(events.ClipboardCopy("blüm", "gave 4 characters"))
        elif name == "init":
            await self.prompt("say initialised")
        elif name == "markdown":
            self.emit(events.CommandOutput(MARKDOWN, "markdown"))
        elif name in ("help", "rewind"):
            self.emit(events.CommandOutput(f"output of {line}"))
        elif line == "!gate":
            await self.opened("gate")
        elif line.startswith("!"):
            self.emit(events.CommandOutput(f"ran {line[1:]}"))
        else:
            self.emit(events.Notice(f"unknown command {line.split()[0]}", "warning"))
        return True

    def may_run_during_turn(self, line: str) -> bool:
        return line.split()[0] in ("/help", "/context", "/cost", "/exit", "/background")

    def commands(self) -> Sequence[CommandSummary]:
        return [
            CommandSummary("help", "Show the commands and keys"),
            CommandSummary("compact", "Make room in the context now"),
            CommandSummary("context", "Show what fills the context"),
            CommandSummary("cost", "Show what the session has cost"),
            CommandSummary("clear", "Start anew"),
            CommandSummary("init", "Write AGENTS.md"),
            CommandSummary("markdown", "Show some markdown"),
            CommandSummary("rewind", "Go back"),
            CommandSummary("exit", "Leave"),
            CommandSummary("tokens", alias_of="context"),
            CommandSummary("uncompact", alias_of="back"),
        ]

    def watch_status(self, on_change: Callable[[], None]) -> None:
        self.on_status_change = on_change

    def cycle_mode(self) -> str:
        self.modes.append(self.modes.pop(0))
        return self.modes[0]

    async def close(self) -> None:
        self.note("closed", "")

    # What a prompt can be made of.

    async def do_say(self, words: str) -> None:
        for word in words.split(" "):
            self.emit(events.TextDelta(word + " "))
        self.emit(events.ReplyFinished(Reply(1, 0.0, (TextBlock(words),))))

    async def do_markdown(self, rest: str) -> None:
        for at in range(0, len(MARKDOWN), 7):
            self.emit(events.TextDelta(MARKDOWN[at : at + 7]))
            await asyncio.sleep(0.02)
        self.emit(events.ReplyFinished(Reply(1, 0.0, (TextBlock(MARKDOWN),))))

    async def do_lines(self, rest: str) -> None:
        """`lines 100`: a list of so many numbered lines, streamed."""
        for number in range(int(rest)):
            self.emit(events.TextDelta(f"- line {number} of the list\n"))
            await asyncio.sleep(0)
        self.emit(events.ReplyFinished(Reply(1, 0.0, ())))

    async def do_paragraphs(self, rest: str) -> None:
        for number in range(int(rest)):
            self.emit(events.TextDelta(f"Paragraph {number} stands here with some words.\n\n"))
            await asyncio.sleep(0)
        self.emit(events.ReplyFinished(Reply(1, 0.0, ())))

    async def do_drip(self, rest: str) -> None:
        """Prose at 200 words a second until interrupted."""
        number = 0
        while True:
            number += 1
            self.emit(events.TextDelta("\n\n" if number % 60 == 0 else f"word{number} "))
            await asyncio.sleep(0.005)

    async def do_stream(self, rest: str) -> None:
        """Text without an end of the paragraph."""
        self.emit(events.TextDelta(rest))

    async def do_raw(self, rest: str) -> None:
        """Text with Python escapes, as the model's."""
        self.emit(events.TextDelta(rest.encode().decode("unicode_escape")))
        self.emit(events.ReplyFinished(Reply(1, 0.0, ())))

    async def do_think(self, rest: str) -> None:
        for word in rest.split(" "):
            self.emit(events.ThinkingDelta(word + " "))
            await asyncio.sleep(0.5)

    async def do_wait(self, rest: str) -> None:
        """Until the test opens the gate of that name."""
        await self.opened(rest or "gate")

    async def do_bash(self, rest: str) -> None:
        self.emit(events.ToolCallStarted(1, 0, "bash", rest))
        text = "\n".join([*(f"test_{number} passed" for number in range(8)), "12 passed"])
        self.end("bash", rest, Display(text=text), {"exit": 0}, 2.34)

    async def do_reads(self, rest: str) -> None:
        """So many calls that show ten lines of a file each."""
        for at in range(int(rest)):
            name = f"src/part_{at}.py"
            self.emit(events.ToolCallStarted(1, 0, "read", name))
            self.end("read", name, Display(note="10 lines"), {"path": name, "first": 1, "last": 10}, 0.01)

    async def do_run(self, rest: str) -> None:
        """A call that shows its output and waits for the gate."""
        self.emit(events.ToolCallStarted(1, 0, "bash", "make"))
        self.emit(events.ToolCallProgress(1, 0, "compiling\nlinking\n"))
        await self.opened(rest or "gate")
        self.end("bash", "make", Display(text="built"), {"exit": 0}, 0.1)

    async def do_output(self, rest: str) -> None:
        text = rest.encode().decode("unicode_escape")
        self.emit(events.ToolCallStarted(1, 0, "bash", text))
        self.end("bash", text, Display(text=text), {"exit": 0}, 0.1)

    async def do_edit(self, rest: str) -> None:
        self.emit(events.ToolCallStarted(1, 0, "edit", "calc.py"))
        self.end("edit", "calc.py", Display(diff=DIFF, note="1 replacement"), {}, 0.1)

    async def do_ask(self, rest: str) -> None:
        command = rest.encode().decode("unicode_escape") or "rm -rf build && make"
        preview = Preview(diff=DIFF) if rest == "diff" else Preview(text=command)
        access = (Access("write", "/etc/passwd", outside=True),) if rest == "outside" else ()
        tool, title = ("edit", "src/calc.py") if rest == "diff" else ("bash", command)
        question = PermissionQuestion(tool, title, access, "not allowed by a rule", "make", preview)
        answer = await self.approver.ask(question)
        self.note("answer", repr(answer))
        if isinstance(answer, Deny) and answer.stop:
            raise asyncio.CancelledError

    async def do_form(self, rest: str) -> None:
        """Questions of the model, then its plan."""
        options = (QuestionOption(label="arrow", description="small"), QuestionOption(label="pendulum"))
        asked = UserQuestion(question="Which one?", header="Library", options=options)
        for preview in (Preview(questions=(asked,)), Preview(plan="# Plan\n\n1. **Do** it")):
            question = PermissionQuestion("x", "x", (), "", None, preview)
            self.note("answer", repr(await self.approver.ask(question)))

    async def do_pick(self, rest: str) -> None:
        """Have a row of a menu chosen and note its value."""
        assert self.chooser is not None
        row = await self.chooser.choose(MENUS[rest])
        self.note("picked", row.value if row else "nothing")

    async def do_back(self, rest: str) -> None:
        self.emit(events.PromptRestored("taken back"))

    async def do_replay(self, rest: str) -> None:
        before = (events.PromptReplayed("what came before"), events.CommandOutput("**answered**", "markdown"))
        self.emit(events.EarlierMessages(2, before))
        self.emit(events.PromptReplayed("what is shown again"))

    async def do_compact(self, rest: str) -> None:
        self.emit(
            events.ContextCompacted(
                "[auto compact] 180k -> 42k tokens, 61 results shortened", "auto", ("c9",), {}
            )
        )

    async def do_notice(self, rest: str) -> None:
        self.emit(events.Notice(rest))

    async def do_retry(self, rest: str) -> None:
        self.emit(events.Retrying("overloaded", 7.0, 2, 10))
        await self.opened("gate")

    async def do_lost(self, rest: str) -> None:
        self.emit(events.TextDelta("half an ans"))
        self.emit(events.StreamAborted("connection reset", "half an ans"))

    async def do_critical(self, rest: str) -> None:
        self.state, self.tokens = "CRITICAL", 188_000

    async def do_boom(self, rest: str) -> None:
        raise RuntimeError("boom in the driver")

    def end(self, name: str, title: str, human: Display, about: dict[str, Any], seconds: float) -> None:
        result = Result(2, 0.0, 1, 0, (TextBlock("for the model"),), human=human, about=about)
        self.emit(events.ToolCallFinished(1, 0, name, title, result, seconds))

    async def opened(self, name: str) -> None:
        """Until the file GATE.name exists."""
        path = self.gate.with_suffix(f".{name}")
        while not path.exists():
            await asyncio.sleep(0.02)

    def note(self, what: str, text: str) -> None:
        with self.log.open("a", encoding="utf-8", newline="") as file:
            file.write(f"{what} {text!r}\n")


def main(argv: Sequence[str]) -> int:
    """Run the REPL on a scripted driver. Questions listen sooner than users need, and tests wait less."""
    # The modules read the names that they imported.
    question_form.ANSWER_DELAY_S = 0.0  # type: ignore[attr-defined]
    question_form.LISTEN_DELAY_S = float(os.environ.get("SCRIPTED_LISTEN_S", "0"))
    approval.LISTEN_DELAY_S = float(os.environ.get("SCRIPTED_LISTEN_S", "0"))  # type: ignore[attr-defined]
    folder = Path(argv[1])
    options = Options(plain="--plain" in argv, resume="s41" if "-c" in argv else None)
    editing: Literal["emacs", "vim"] = "vim" if os.environ.get("SCRIPTED_EDITING") == "vim" else "emacs"
    setup = RunSetup(
        options,
        Config(state_dir=folder / "state", editing=editing),
        folder,
        os.environ,
    )

    async def make(emit: Emit, approver: Approver, chooser: Chooser | None) -> ScriptedDriver:
        if "SCRIPTED_BROKEN" in os.environ:
            raise RuntimeError("no agent today")
        return ScriptedDriver(emit, approver, chooser, folder)

    return asyncio.run(run_repl(make, setup))


if __name__ == "__main__":
    sys.exit(main(sys.argv))
