"""The demo as a model: what it costs, what it rejects, how little it loads, and a run in a small window."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.demo.demo_model import DemoModel
from agent.errors import PromptTooLong
from agent.model_port import IncomingReply, ModelRequest, RequestSettings
from transcripts.facts import Compacted, User
from transcripts.folding import fold
from transcripts.load import read_transcript
from transcripts.messages import TextBlock, Usage

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ({"name": "read", "input_schema": {"type": "object"}},)


def used(model: DemoModel, *prompts: str, instruction: str = "", **more: object) -> Usage:
    """Return the cost of a request with these prompts; each counts for 100 tokens."""
    view = fold(User(seq, 0.0, (TextBlock(text),), (100,)) for seq, text in enumerate(prompts, 1)).view
    settings = RequestSettings("makeroom-offline", 8_000, ("s" * 400,), **more)  # type: ignore[arg-type]
    reply = IncomingReply()
    asyncio.run(model.stream(ModelRequest(settings, view, (), instruction), reply, lambda event: None))
    assert reply.complete
    return reply.usage


def test_what_the_last_prompt_had_too_was_read_from_the_cache() -> None:
    model = DemoModel(pace=0)
    first = used(model, "hello")
    assert (first.input, first.cache_read, first.cache_written) == (0, 0, 204)
    again = used(model, "hello")
    assert (again.cache_read, again.cache_written) == (204, 0)
    asked = used(model, "hello", instruction="x" * 40)
    assert (asked.input, asked.cache_read, asked.cache_written) == (10, 204, 0)
    other = used(model, "bye")
    assert (other.cache_read, other.cache_written) == (100, 104)
    assert used(model, "bye", effort="low").cache_read == 0


def test_the_cache_is_the_one_that_was_asked_for() -> None:
    assert used(DemoModel(pace=0), "hello", cache="1h").cache_written_hour == 204
    plain = DemoModel(pace=0)
    assert used(plain, "hello", cache=None) == used(plain, "hello", cache=None)
    assert used(plain, "hello", cache=None).input == 204


def test_a_prompt_over_the_window_is_too_long_and_nothing_is_said() -> None:
    with pytest.raises(PromptTooLong, match="204 tokens > 203 maximum") as raised:
        used(DemoModel(window=203, pace=0), "hello")
    assert (raised.value.actual, raised.value.limit) == (204, 203)
    used(DemoModel(window=204, pace=0), "hello")


def test_the_catalog_has_one_model_that_takes_everything() -> None:
    model = DemoModel(window=9_000)
    facts = model.known_facts(model.catalog.resolve(""))
    assert (facts.id, facts.window, facts.known) == ("makeroom-offline", 9_000, True)
    assert facts.thinking and facts.binds and facts.effort and facts.cache and facts.eager
    assert asyncio.run(model.describe(facts.id)) == facts
    assert DemoModel().window == 200_000


def offline(folder: Path, *argv: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """A headless run; `code` is executed behind it in the same process."""
    words = ["-p", *argv, "--offline"]
    program = f"import sys; from agent.__main__ import main; main({words!r}); {code or 'pass'}"
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environ, capture_output=True, text=True, check=True
    )


def test_the_demo_needs_no_server_and_no_sdk(tmp_path: Path) -> None:
    done = offline(tmp_path, "hello", "--no-session", code="print(*sys.modules, file=sys.stderr)")
    assert done.stdout.startswith("Hello! I am makeroom's offline demo")
    assert not {"anthropic", "httpx2", "http.server", "socketserver"} & set(done.stderr.split())


def test_a_small_window_shows_how_context_is_freed(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for number in range(12):
        rows = [f"def function_{number}_{row}(value): return value * {row}" for row in range(120)]
        (tmp_path / "src" / f"module_{number:02}.py").write_text("\n".join(rows), "utf-8")
    words = ("read every python file in src", "--allowedTools", "bash", "--context-window", "16000")
    done = offline(tmp_path, *words)
    assert "all 12 files" in done.stdout and "12 could be read" in done.stdout
    (record,) = tmp_path.glob(".transcripts/*.jsonl")
    assert any(isinstance(fact, Compacted) for fact in read_transcript(record).facts)
    until = ("Keep reading files until compression triggers automatically.", *words[1:-1], "16000")
    done = offline(tmp_path, *until)
    assert "The context was compacted automatically, so I am stopping here" in done.stdout
    assert "[auto compact]" in done.stderr


def test_nothing_but_the_composition_root_imports_the_demo() -> None:
    users = [
        path.relative_to(ROOT).as_posix()
        for package in ("agent", "tools", "compact", "transcripts")
        for path in (ROOT / package).rglob("*.py")
        if "agent.demo" in path.read_text("utf-8")
    ]
    assert users == ["agent/app/composition.py"]
