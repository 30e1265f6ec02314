"""Adding a part of each kind takes one new file and one registered line: done with a dummy, run, and counted.

The product is copied, the part is added to the copy, and the copy is run. What counts as a line of existing
files is every line that was changed or added there, except the import of the new file. Two of them are run
in the gate, all with `-m "sweep or not sweep"`.
"""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.strict_api.reply import Reply, calls
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server

ROOT = Path(__file__).resolve().parents[1]
RUN_DEADLINE_S = 60


@dataclass
class Copy:
    """A copy of the product with a project to work in; remembers which existing lines were touched."""

    folder: Path
    touched: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)

    @property
    def project(self) -> Path:
        return self.folder / "project"

    def add(self, path: str, text: str) -> None:
        """Add a new file."""
        target = self.folder / path
        assert not target.exists()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        self.added.append(path)

    def change(self, path: str, *changes: tuple[str, str]) -> None:
        """Replace texts in an existing file."""
        target = self.folder / path
        before = after = target.read_text()
        for old, new in changes:
            assert after.count(old) == 1, f"{path} has {after.count(old)} times {old!r}"
            after = after.replace(old, new)
        target.write_text(after)
        for line in difflib.ndiff(before.splitlines(), after.splitlines()):
            if line.startswith("+ ") and not line.startswith(("+ from ", "+ import ")):
                self.touched.append(line[2:].strip())

    def run(self, *argv: str, typed: str = "", **environ: str) -> str:
        """Return what a program prints: standard output, then standard error."""
        return self._python(["-m", "agent", *argv], typed, environ)

    def python(self, code: str) -> str:
        return self._python(["-c", code], "", {})

    def _python(self, argv: list[str], typed: str, environ: dict[str, str]) -> str:
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR")}
        done = subprocess.run(
            [sys.executable, *argv],
            cwd=self.project,
            env={**kept, "HOME": str(self.folder / "home"), "PYTHONPATH": str(self.folder), **environ},
            input=typed,
            capture_output=True,
            text=True,
            timeout=RUN_DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    for package in ("agent", "tools", "compact", "transcripts"):
        # With what is compiled, which saves half a second.
        shutil.copytree(ROOT / package, tmp_path / package)
    made = Copy(tmp_path)
    made.project.mkdir()
    (made.project / "README.md").write_text("three small words\n")
    return made


@contextmanager
def strict_server(*steps: Reply | str) -> Iterator[tuple[Server, dict[str, str]]]:
    """A server that plays the steps, and the environment that leads to it."""
    with Server(ScriptedModel(steps)) as server:
        yield server, {"ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "test-key-123456"}
        assert server.refused == []


def result_of(server: Server) -> str:
    """Return what the model was sent about the newest call."""
    return str(server.requests[-1]["messages"][-1]["content"])


def test_a_tool_is_a_file_and_a_name(copy: Copy) -> None:
    copy.add(
        "tools/count_words.py",
        """
from pathlib import Path

from tools.base import Tool, ToolCall, ToolResult, text_result
from tools.parameters import FileArguments


async def count_words(arguments: FileArguments, call: ToolCall) -> ToolResult:
    words = Path(arguments.real_path(call.context)).read_text().split()
    return text_result(f"{len(words)} words")


TOOL = Tool(
    "count_words", "Counts words.", FileArguments, "reads", FileArguments.title, FileArguments.access,
    count_words, parallel=True,
)
""",
    )
    copy.change("tools/__init__.py", ('"recall"', '"recall", "count_words"'))
    with strict_server(Reply((calls("count_words", file_path="README.md"),)), "Three.") as (server, environ):
        printed = copy.run("-p", "how many words?", **environ)
        assert "Three." in printed and "count_words  README.md" in printed
        assert "count_words" in [tool["name"] for tool in server.requests[0]["tools"]]
        assert "3 words" in result_of(server)
    assert (len(copy.added), len(copy.touched)) == (1, 1)


def test_a_compaction_layer_is_a_file_and_a_name(copy: Copy) -> None:
    copy.add(
        "compact/layers/first_words.py",
        """
from compact.situation import Layer, Proposal, Situation
from compact.report import propose
from transcripts.facts import Clear
from transcripts.view import PartKind


def _plan(situation: Situation) -> tuple[Proposal, ...]:
    parts = [part for message in situation.view for part in message.parts if part.kind is PartKind.RESULT]
    edits = tuple(Clear(part.seq, part.index, "content", f"[r{part.seq}: gone]", 5) for part in parts[:1])
    return (propose(situation, "first_words", "auto", edits),) if edits else ()


FIRST_WORDS_LAYER = Layer(_plan)
""",
    )
    register_layer(copy)
    with strict_server(Reply((calls("read", file_path="README.md"),)), "Read.") as (server, environ):
        copy.run("-p", "read it", **environ)
        assert "gone]" in result_of(server) and "three small words" not in result_of(server)
    record = next((copy.project / ".transcripts").glob("*.jsonl")).read_text()
    assert '"layer":"first_words"' in record
    assert (len(copy.added), len(copy.touched)) == (1, 1)


def register_layer(copy: Copy) -> None:
    copy.change(
        "compact/layers/__init__.py",
        ("from .micro", "from .first_words import FIRST_WORDS_LAYER\nfrom .micro"),
        ("SNIP_LAYER,\n", "SNIP_LAYER,\n    FIRST_WORDS_LAYER,\n"),
    )


@pytest.mark.sweep
def test_a_slash_command_is_a_function_and_a_line(copy: Copy) -> None:
    copy.add(
        "agent/commands/greeting.py",
        '''
from agent.app.controller import Controller
from agent.events import CommandOutput, Event


async def greet(controller: Controller, argument: str) -> Event | None:
    """/greet."""
    return CommandOutput(f"hello {argument}")
''',
    )
    copy.change(
        "agent/commands/table.py",
        (
            '    Command("clear", ',
            '    Command("greet", "greeting.greet", "Greet somebody. Takes a name.", usage="NAME"),\n'
            '    Command("clear", ',
        ),
    )
    printed = copy.run("--offline", "--plain", typed="/greet world\n/help greet\n/exit\n")
    assert "hello world" in printed and "/greet: Greet somebody. Takes a name." in printed
    assert (len(copy.added), len(copy.touched)) == (1, 1)


@pytest.mark.sweep
def test_an_output_format_is_a_class_and_an_entry(copy: Copy) -> None:
    copy.add(
        "agent/ui/count_format.py",
        """
from agent.events import Event, TurnFinished
from agent.ui.output_formats import OutputFormat, RunOutput


class CountFormat(OutputFormat):
    def __init__(self, run: RunOutput) -> None:
        self.run, self.events = run, 0

    def show(self, event: Event) -> None:
        self.events += 1
        if isinstance(event, TurnFinished):
            self.run.out.line(f"more than three: {self.events > 3}")
""",
    )
    copy.change(
        "agent/app/options.py",
        (
            '    "json": "agent.ui:',
            '    "count": "agent.ui.count_format:CountFormat",\n    "json": "agent.ui:',
        ),
    )
    assert "more than three: True" in copy.run("-p", "hello", "--offline", "--output-format", "count")
    assert "count" in copy.run("--help")
    assert (len(copy.added), len(copy.touched)) == (1, 1)


@pytest.mark.sweep
def test_a_hook_event_is_a_member_and_the_place_that_fires_it(copy: Copy) -> None:
    copy.change("agent/ports.py", ("    PRE_COMPACT = ", '    FAREWELL = "Farewell"\n    PRE_COMPACT = '))
    assert len(copy.touched) == 1
    copy.change(
        "agent/app/controller.py",
        (
            "            await end_session(self.session, self.context, reason)\n",
            "            if self.context.hooks is not None:\n"
            "                await self.context.hooks.run(HookEvent.FAREWELL, {})\n"
            "            await end_session(self.session, self.context, reason)\n",
        ),
        (
            "from agent.ports import Approver,",
            "from agent.ports import HookEvent\nfrom agent.ports import Approver,",
        ),
    )
    settings = copy.folder / "home" / ".config" / "makeroom" / "settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[hooks]\nFarewell = 'cat > ended'\n")
    assert "Farewell" not in copy.run("-p", "hello", "--offline")
    assert '"hook_event_name": "Farewell"' in (copy.project / "ended").read_text()


@pytest.mark.sweep
def test_a_source_of_tools_is_a_file_and_a_line(copy: Copy) -> None:
    copy.add(
        "agent/app/greeting_tools.py",
        """
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.parameters import Arguments
from tools.base import Tool, ToolCall, ToolResult, no_access, text_result


class Greeting(Arguments):
    who: str


class GreetingTools:
    name = "greetings"

    async def open(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder

    def tools(self) -> Sequence[Tool]:
        async def greet(arguments: Greeting, call: ToolCall) -> ToolResult:
            return text_result(f"hello {arguments.who} in {self.folder.name}")

        return [Tool("greet", "Greets.", Greeting, "other", lambda a: a.who, no_access, greet)]

    async def close(self) -> None:
        (self.folder / "closed").touch()
""",
    )
    copy.change(
        "agent/app/composition.py",
        ("(BuiltinTools,)", "(BuiltinTools, GreetingTools)"),
        (
            "from .setup import RunSetup",
            "from .greeting_tools import GreetingTools\nfrom .setup import RunSetup",
        ),
    )
    with strict_server(Reply((calls("greet", who="you"),)), "Greeted.") as (server, environ):
        assert "Greeted." in copy.run("-p", "greet me", **environ)
        assert "hello you in project" in result_of(server)
    assert (copy.project / "closed").exists()
    assert (len(copy.added), len(copy.touched)) == (1, 1)


@pytest.mark.sweep
def test_a_model_provider_is_a_directory_and_a_line(copy: Copy) -> None:
    copy.add(
        "agent/model/parrot/parrot_model.py",
        """
from agent.events import TextDelta
from agent.model_port import ModelCatalog, ModelFacts
from transcripts.messages import TextBlock, Usage


class ParrotModel:
    server, catalog, encoding = "none", ModelCatalog("parrot-1"), ""

    def encode(self, request):
        return b""

    def connect(self):
        pass

    def known_facts(self, model):
        return ModelFacts(model)

    async def describe(self, model):
        return self.known_facts(model)

    async def stream(self, request, reply, emit):
        said = request.messages[-1].parts[-1].block.text
        emit(TextDelta(said))
        reply.blocks.append(TextBlock(f"You said: {said}"))
        reply.model, reply.usage, reply.stop, reply.complete = "parrot-1", Usage(5, 3), "end_turn", True

    async def count_tokens(self, model, blocks):
        return None

    async def close(self):
        pass


def parrot_model(setup):
    return ParrotModel()
""",
    )
    copy.change(
        "agent/app/composition.py",
        ('    "demo": demo_model,\n', '    "demo": demo_model,\n    "parrot": parrot_model,\n'),
        (
            "from agent.model_port",
            "from agent.model.parrot.parrot_model import parrot_model\nfrom agent.model_port",
        ),
    )
    assert "You said: hello" in copy.run("-p", "hello", MAKEROOM_PROVIDER="parrot")
    assert (len(copy.added), len(copy.touched)) == (1, 1)
