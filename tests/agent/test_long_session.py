"""The whole program against the strict server, in a window far too small for what it reads.

Every file is read one a turn; not one request is refused; and from every prefix of the transcript a
conversation folds that the API accepts.
"""

import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from agent.model.anthropic.request import encode_request
from agent.model_port import ModelRequest, RequestSettings
from compact.breakpoints import cache_breakpoints
from tests.agent.ui.headless_run import run_here
from tests.sampling import sampled
from tests.strict_api.demo_bridge import demo_reply
from tests.strict_api.models import MODELS
from tests.strict_api.request_checks import violations
from tests.strict_api.server import Server, ServerOptions
from transcripts.facts import Reply, User
from transcripts.folding import fold
from transcripts.load import read_transcript
from transcripts.messages import TextBlock, ToolUseBlock

MODEL = "claude-sonnet-5-5"
LongRun = Callable[..., tuple[Path, int]]
PROMPT = "Read every Python file in the src directory one by one"


def tree(folder: Path, files: int, lines: int = 330) -> None:
    """Python files of 3 to 4 thousand tokens each."""
    place = folder / "src"
    place.mkdir()
    for number in range(files):
        rows = [f"def function_{number}_{row}(value): return value * {row}" for row in range(lines)]
        (place / f"module_{number:03}.py").write_text("\n".join(rows), "utf-8")


def transcript(folder: Path) -> Path:
    (path,) = (folder / ".transcripts").glob("*.jsonl")
    return path


def accepted(path: Path) -> list[str]:
    """Return what the API would reject about the conversation of a transcript file and "continue"."""
    facts = list(read_transcript(path).facts)
    folded = fold(facts)
    if folded.opened is None:
        return []
    folded.apply(User(folded.last_seq + 1, 0.0, (TextBlock("continue"),)))
    opened = folded.opened
    settings = RequestSettings(opened.model, 8_000, opened.system, opened.tools, thinking=True)
    body = json.loads(encode_request(ModelRequest(settings, folded.view, cache_breakpoints(folded))))
    return [str(found) for found in violations(body, MODELS[MODEL], frozenset())]


def cuts(path: Path, places: Iterator[int], folder: Path) -> None:
    whole = path.read_bytes()
    for place in places:
        cut = folder / "cut.jsonl"
        cut.write_bytes(whole[:place])
        assert accepted(cut) == [], f"cut at byte {place}"


def line_ends(path: Path) -> list[int]:
    ends, at = [], 0
    for line in path.read_bytes().splitlines(keepends=True):
        at += len(line)
        ends.append(at)
    return ends


@pytest.fixture
def long_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> LongRun:
    """Runs the program in `tmp_path`; see run_and_check."""
    return partial(run_and_check, tmp_path, capfd)


def run_and_check(
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    policy: str,
    files: int,
    window: int,
    believed: int,
    prompt: str = PROMPT,
) -> tuple[Path, int]:
    """Let the program read so many files. Returns its transcript and how many requests were too long."""
    tree(folder, files)
    flags = ("--output-format", "json", "--allowedTools", "bash", "-m", MODEL, "--policy", policy)
    with Server(demo_reply, ServerOptions(window=window, binds_thinking=True, keep_requests=False)) as server:
        done = run_here(folder, capfd, server, *flags, "--context-window", str(believed), prompt)
        refused = [text for text in server.refused if "prompt is too long" not in text]
        too_long = len(server.refused) - len(refused)
    assert refused == []
    result = json.loads(done.stdout)
    assert result["subtype"] == "success", result
    assert f"all {files} files" in result["result"]
    path = transcript(folder)
    named = {
        str(block.input.get("file_path"))
        for fact in read_transcript(path).facts
        if isinstance(fact, Reply)
        for block in fact.blocks
        if isinstance(block, ToolUseBlock) and block.name == "read"
    }
    assert len(named) == files
    return path, too_long


@pytest.mark.sweep  # the next tests check cuts of a shorter session, with a server that refuses requests
@pytest.mark.parametrize("policy", ["thrifty", "classic"])
def test_sixty_files_in_a_window_that_holds_ten(tmp_path: Path, long_run: LongRun, policy: str) -> None:
    path, too_long = long_run(policy, files=60, window=60_000, believed=60_000)
    assert too_long == 0
    rng = random.Random(1)
    cuts(path, iter(line_ends(path)[::25]), tmp_path)
    cuts(path, (rng.randrange(path.stat().st_size) for _ in range(8)), tmp_path)


def test_in_a_window_of_8k_nothing_is_refused_though_the_prompt_is_long(long_run: LongRun) -> None:
    _, too_long = long_run(
        "thrifty", files=12, window=8_192, believed=8_192, prompt=f"{PROMPT}. {'Mind this. ' * 300}"
    )
    assert too_long == 0


@pytest.mark.parametrize("policy", sampled(["thrifty", "off"], 2))
def test_a_server_with_a_smaller_window_than_believed(tmp_path: Path, long_run: LongRun, policy: str) -> None:
    path, too_long = long_run(policy, files=30, window=40_000, believed=200_000)
    assert too_long >= 1
    assert any('"trigger":"reactive"' in line for line in path.read_text("utf-8").splitlines())
    cuts(path, iter(line_ends(path)[::25]), tmp_path)


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("policy", ["thrifty", "classic"])
def test_a_hundred_and_fifty_files_and_every_prefix(tmp_path: Path, long_run: LongRun, policy: str) -> None:
    path, too_long = long_run(policy, files=150, window=60_000, believed=60_000)
    assert too_long == 0
    rng = random.Random(2)
    cuts(path, iter(line_ends(path)), tmp_path)
    cuts(path, (rng.randrange(path.stat().st_size) for _ in range(300)), tmp_path)


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("policy", "window"), [("thrifty", 40_000), ("classic", 18_000), ("off", 40_000)])
def test_a_hundred_and_fifty_files_in_a_window_smaller_than_believed(
    long_run: LongRun, policy: str, window: int
) -> None:
    _, too_long = long_run(policy, files=150, window=window, believed=200_000)
    assert too_long >= 1
