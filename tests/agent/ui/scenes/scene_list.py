"""The scenes: what is typed into the real program, what the model answers, and what then must be seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.agent.ui.pty_terminal import PtyTerminal
from tests.strict_api.faults import Fault
from tests.strict_api.reply import Block, calls, says, thinks

Steps = Sequence[Sequence[Block]]
MARKDOWN = """# Heading one

Some **bold**, *italic*, ~~struck~~ and `code`, a [link](https://example.org/docs) and src/calc.py:12.

## Heading two

> A quote that is long enough to be wrapped on a narrow terminal, and keeps its bar on every one of its lines.
>
> With a second paragraph.

---

- one
  - nested, with a text that goes on for a while so that it has to be wrapped and hangs
- [x] done
- [ ] not done

1. first
2. second

### Heading three

Plain text.
"""
TABLE = """The layers, in their order:

| layer | what it does | tokens | share |
|:------|:-------------|-------:|------:|
| budget | stores results that are too large together | 12,300 | 31% |
| micro | clears old results in batches that pay | 8,100 | 20% |
| summary | asks the model for a summary | 19,500 | 49% |

`summary` is the last.
"""
CODE = """Here is the function:

```python
class Cart:
    \"\"\"What somebody buys.\"\"\"

    def total(self, rate: float = 0.19) -> float:
        # net prices, so the tax is added
        return sum(item.price for item in self.items) * (1 + rate)
```

and how to run it:

```sh
python -m shop --verbose | tee out.log
```

```diff
-old
+new
```

Indented, without a language:

    plain block
"""
CJK = """多言語のテキスト: 日本語, 中文, 한국어 und Русский.

| name | Größe |
|---|---|
| 🎉 party | 12 |
| 日本 | 3 |

Emoji 👍 and flags 🇩🇪, family 👩‍👩‍👧, naïve café.
"""
CALC = "".join(f"def rule_{at}(x):\n    return x + {at}\n\n\n" for at in range(6))
EDIT = calls("edit", file_path="calc.py", old_string="def rule_2(x):\n    return x + 2", new_string=(
    "def rule_2(x, factor=1):\n    # what callers asked for\n    return x * factor + 2"))  # fmt: skip


@dataclass(frozen=True)
class Scene:
    """`act` drives the terminal to the moment of the picture; `replies` are the model's, one a request."""

    name: str
    act: Callable[[PtyTerminal], object]
    replies: Steps = ()
    words: str = ""
    delay: float = 0.0
    faults: Sequence[Fault] = ()
    prepare: Callable[[Path], Any] = field(default=lambda folder: None)


def asks(text: str, *seen: str) -> Callable[[PtyTerminal], object]:
    """Send a prompt or command and wait for texts."""
    return lambda terminal: terminal.type(f"{text}\r").sees(*seen)


def types(keys: str, *seen: str) -> Callable[[PtyTerminal], object]:
    return lambda terminal: terminal.type(keys).sees(*seen)


def both(*acts: Callable[[PtyTerminal], object]) -> Callable[[PtyTerminal], object]:
    return lambda terminal: [act(terminal) for act in acts]


def bash(command: str) -> Block:
    return calls("bash", command=command)


def earlier(folder: Path) -> None:
    """Sessions of before, which can be resumed."""
    from tests.agent.ui.scenes.make_pictures import run_headless

    run_headless(folder, "what does calc.py do?", [[calls("read", file_path="calc.py")], [says(TABLE)]])
    run_headless(folder, "rename rule_2 everywhere and tell me what else uses it", [[says("Done.")]])


READS = [
    calls("read", file_path="calc.py"),
    calls("read", file_path="README.md"),
    calls("grep", pattern="return"),
]
LONG = "\n\n".join(
    f"Paragraph {at} of an answer that goes on for a while, with *words* in it." for at in range(40)
)
CHANGE: Steps = ([calls("read", file_path="calc.py")], [EDIT], [says("Done.")])
TODOS = calls(
    "todo",
    todos=[
        {"content": "Read the rules", "status": "completed", "activeForm": "Reading the rules"},
        {"content": "Change rule 2", "status": "in_progress", "activeForm": "Changing rule 2"},
        {"content": "Run the tests", "status": "pending", "activeForm": "Running the tests"},
    ],
)
PLAN = calls("exit_plan", plan="## Plan\n\n1. Give `rule_2` a factor\n2. Run the tests\n")
ASK = calls(
    "ask_user",
    questions=[
        {
            "question": "Which rule is to be changed?",
            "header": "Rule",
            "options": [
                {"label": "rule_2", "description": "the one that callers use"},
                {"label": "rule_3", "description": "the new one"},
            ],
        }
    ],
)
AGENTS = [calls("task", description=f"Look at part {at}", prompt="look", agent="explore") for at in (1, 2)]
SERVE: Steps = ([calls("bash", command="sleep 300", run_in_background=True)], [says("Served.")])
DONE: Steps = ([says("Done.")],)
TALK = ([*READS], [says("It has six rules.")])
SCENES = (
    Scene("start", lambda terminal: None),
    Scene("streaming", asks("explain", "Paragraph 9"), ([says(LONG)],), delay=0.03),
    Scene(
        "thinking",
        asks("think", "Thinking"),
        ([thinks("First the parser has to be read. " * 80)],),
        delay=0.03,
    ),
    Scene("markdown", asks("show", "Plain text."), ([says(MARKDOWN)],)),
    Scene("table", asks("show", "is the last"), ([says(TABLE)],)),
    Scene("code", asks("show", "plain block"), ([says(CODE)],)),
    Scene("cjk_emoji", asks("show", "party"), ([says(CJK)],)),
    Scene("tool_run", asks("run it", "running,"), ([bash("echo compiling; echo linking; sleep 30")],)),
    Scene("tool_done", asks("run it", "All"), ([bash("seq 1 30; echo 12 passed")], [says("All passed.")])),
    Scene(
        "tool_failed",
        asks("run it", "It failed"),
        ([bash("echo no such module >&2; exit 3")], [says("It failed.")]),
    ),
    Scene(
        "tool_full",
        both(asks("run it", "All passed"), types("\x0f", "Full output")),
        ([bash("seq 1 12")], [says("All passed.")]),
    ),
    Scene("reads", asks("look", "six rules"), TALK),
    Scene("diff", asks("change it", "Done."), CHANGE, "--permission-mode acceptEdits"),
    Scene(
        "write",
        asks("make it", "Done."),
        ([calls("write", file_path="src/new.py", content='"""New."""\n\nTAX = 0.19\n')], *DONE),
        "--permission-mode acceptEdits",
    ),
    Scene("question_edit", asks("change it", "Allow edit"), CHANGE),
    Scene("question_leave", asks("install", "outside the sandbox"), ([bash("touch /opt/outside")], *DONE)),
    Scene(
        "question_reason",
        both(asks("change it", "Allow edit"), lambda t: t.drain(0.8).type("n").sees("Enter to deny")),
        CHANGE,
    ),
    Scene(
        "error",
        asks("hello", "credit"),
        (),
        faults=(Fault("status", status=400, text="Your credit is too low"),),
    ),
    Scene("todo", asks("plan it", "running,"), ([TODOS], [bash("echo compiling; sleep 30")])),
    Scene("plan", asks("plan it", "factor"), ([PLAN], *DONE), "--permission-mode plan"),
    Scene("ask_form", asks("ask me", "Which rule"), ([ASK], *DONE)),
    Scene("agents", asks("look at it", "Look at part 2"), (AGENTS, [bash("sleep 30")], [bash("sleep 30")])),
    Scene("background", both(asks("serve it", "Served"), asks("/tasks", "sleep")), SERVE),
    Scene("retry", asks("hello", "overloaded"), DONE, faults=(Fault("status", status=529, times=None),)),
    Scene("queue", both(asks("run it", "running,"), asks("then the docs", "queued")), ([bash("sleep 30")],)),
    Scene(
        "interrupted", both(asks("run it", "running,"), types("\x1b", "Interrupted")), ([bash("sleep 30")],)
    ),
    Scene("completions", types("/", "/compact")),
    Scene("completions_files", types("look at @ca", "calc.py")),
    Scene("shortcuts", types("?", "/ commands")),
    Scene("paste", types("see \x1b[200~" + "line\n" * 40 + "\x1b[201~ here", "40 lines")),
    Scene("own_command", asks("!ls -la", "README.md")),
    Scene("search_history", both(asks("first thing", "Done."), types("\x12fir", "search")), DONE),
    Scene("help", asks("/help", "/help commands")),
    Scene("status", asks("/status", "model")),
    Scene("context", both(asks("look", "six rules"), asks("/context", "free")), TALK),
    Scene("compaction", both(asks("look", "six rules"), asks("/compact", "compact")), (*TALK, *DONE)),
    Scene("cost", both(asks("look", "six rules"), asks("/cost", "$")), TALK),
    Scene(
        "diff_command",
        both(asks("change it", "Done."), asks("/diff", "1 file")),
        CHANGE,
        "--permission-mode acceptEdits",
    ),
    Scene("permissions", asks("/permissions", "mode")),
    Scene("config", asks("/config", "Which setting")),
    Scene("model", asks("/model", "opus")),
    Scene("effort", asks("/effort", "high")),
    Scene("doctor", asks("/doctor", "server")),
    Scene("sessions", asks("/resume", "rename rule_2"), prepare=earlier),
    Scene("rewind", both(asks("look", "six rules"), asks("/rewind", "look")), TALK),
    Scene(
        "resume",
        lambda terminal: terminal.sees("six rules"),
        (),
        "-c",
        prepare=lambda folder: earlier_talk(folder),
    ),
    Scene("unknown", asks("/modle", "did you mean")),
    Scene("exit", both(asks("look", "six rules"), asks("/exit", "--resume")), TALK),
)


def earlier_talk(folder: Path) -> None:
    from tests.agent.ui.scenes.make_pictures import run_headless

    run_headless(folder, "look", TALK)
