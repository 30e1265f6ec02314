"""Whole runs against the strict server in small windows: whatever fills them, the session continues."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agent.cli.verify_command import verify_transcript
from tests.agent.ui.headless_run import run_here
from tests.sampling import sampled, sampled_rows
from tests.strict_api.reply import Body, Reply, calls, says
from tests.strict_api.server import Server, ServerOptions
from transcripts.facts import Clear, Compacted, Result
from transcripts.listing import ProjectRecords
from transcripts.load import read_transcript
from transcripts.session_lock import path_of

LINES = "\n".join(f"def function_{row}(value): return value * {row}" for row in range(12))
SUMMARY = "<summary>1. Primary request and intent: the files were read.</summary>"
READ_ALL = "Read all the files at once."


def write_files(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / f"part_{number:03}.py").write_text(LINES, "utf-8")


def write_settings(folder: Path, text: str) -> None:
    settings = folder / "home" / ".config" / "makeroom" / "settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(text)


def reader(count: int) -> Any:
    """A model that reads so many files with one reply when it is first asked to, and then talks."""
    asked: list[bool] = []

    def answer(body: Body) -> Reply:
        said = json.dumps(body["messages"][-1])
        if "<summary>" in said:
            return Reply([says(SUMMARY)])
        if READ_ALL in said and not asked:
            asked.append(True)
            return Reply([calls("read", file_path=f"part_{number:03}.py") for number in range(count)])
        return Reply([says("Done.")])

    return answer


def shown_again(folder: Path) -> set[int]:
    """The seqs of the results that are recalled by an id in the view: of a placeholder or within a record."""
    facts = read_transcript(path_of(folder, ProjectRecords(folder).sids()[0])).facts
    edits = [edit for fact in facts if isinstance(fact, Compacted) for edit in fact.edits]
    named: set[int] = set()
    for fact in facts:
        if isinstance(fact, Result):
            cleared = any(f'recall("r{fact.seq}")' in getattr(edit, "text", "") for edit in edits)
            folded = any(edit.first <= fact.seq <= edit.last for edit in edits if not isinstance(edit, Clear))
            named |= {fact.seq} if cleared or folded else set()
    return named


@pytest.mark.parametrize(("window", "count"), sampled_rows([(8_000, 40), (16_000, 100), (32_000, 200)], 3))
def test_many_short_results_in_a_small_window_do_not_end_the_session(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], window: int, count: int
) -> None:
    write_files(tmp_path, count)
    flags = ("--output-format", "json", "--context-window", str(window))
    with Server(reader(count), ServerOptions(window=window, keep_requests=False)) as server:
        for words in (("Hello.",), ("-c", READ_ALL), ("-c", "/compact"), ("-c", "And now?")):
            done = run_here(tmp_path, capfd, server, *flags, *words)
            assert done.returncode == 0, done.stdout + done.stderr
        assert len(server.refused) <= 1
    assert len(shown_again(tmp_path)) >= count // 4
    (sid,) = ProjectRecords(tmp_path).sids()
    assert verify_transcript(path_of(tmp_path, sid), tmp_path).requests >= 5


@pytest.mark.parametrize(("window", "count"), sampled_rows([(8_000, 40), (32_000, 200)], 2))
def test_compact_frees_context_where_the_request_did_not_fit(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], window: int, count: int
) -> None:
    write_files(tmp_path, count)
    write_settings(tmp_path, "[compact]\nreactive = false\n")
    flags = ("--output-format", "json", "--context-window", str(window))
    with Server(reader(count), ServerOptions(window=window, keep_requests=False)) as server:
        run_here(tmp_path, capfd, server, *flags, "Hello.")
        stuck = run_here(tmp_path, capfd, server, *flags, "-c", READ_ALL)
        assert stuck.returncode == 1 and "too long" in stuck.stdout
        made = run_here(tmp_path, capfd, server, "-c", "/compact")
        assert made.returncode == 0 and "[manual compact]" in made.stdout, made.stdout + made.stderr
        assert run_here(tmp_path, capfd, server, *flags, "-c", "And now?").returncode == 0
        assert len(server.refused) == 1


def test_a_window_that_no_prompt_fits_into_is_an_error_at_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Server(reader(0), ServerOptions(window=10)) as server:
        done = run_here(tmp_path, capfd, server, "--context-window", "10", "Hello.")
        assert done.returncode == 2 and not server.requests
        told = re.search(
            r"cannot work with --context-window 10: the system prompt and the tools alone take (\S+)",
            done.stderr,
        )
        write_settings(tmp_path, "context_window = 10\n")
        done = run_here(tmp_path, capfd, server, "Hello.")
        assert done.returncode == 6 and "cannot work with context_window = 10 (" in done.stderr
        assert not server.requests
    assert told is not None
    window = int(told[1].replace(",", "")) + 200  # for a prompt that names a long path
    with Server(reader(0), ServerOptions(window=window)) as server:
        done = run_here(tmp_path, capfd, server, "--context-window", str(window), "Hello.")
        assert done.returncode == 1 and done.stderr.count("nothing more can be cleared") == 1
        assert len(server.refused) == 1  # the same request is not sent again


def test_a_large_prompt_that_fits_is_sent_whole_and_without_a_warning(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Before much was sent our estimate of it is up to a half too high."""
    paste = "\n".join(f"item {number} weighs {number * 37 % 991} grams," for number in range(2_500))
    flags = ("--output-format", "json", "--context-window", "32000")
    with Server(reader(0), ServerOptions(window=32_000)) as server:
        run_here(tmp_path, capfd, server, *flags, "Hello.")
        done = run_here(tmp_path, capfd, server, *flags, "-c", paste)
        assert done.returncode == 0 and not server.refused and "would free" not in done.stderr
        assert "characters omitted" not in json.dumps(server.requests[-1])
        usage = json.loads(done.stdout)["usage"]
    assert 20_000 < usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"] < 32_000


@pytest.mark.parametrize("window", sampled([8_000, 32_000], 2))
def test_a_prompt_larger_than_the_window_is_cut_to_what_fits_before_it_is_sent(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], window: int
) -> None:
    paste = " ".join(f"item {number} weighs {number * 37 % 991} grams," for number in range(window // 5))
    flags = ("--output-format", "json", "--context-window", str(window))
    with Server(reader(0), ServerOptions(window=window)) as server:
        run_here(tmp_path, capfd, server, *flags, "Hello.")
        done = run_here(tmp_path, capfd, server, *flags, "-c", paste)
        assert done.returncode == 0 and list(server.refused) == [], done.stderr
        assert "[reactive compact]" in done.stderr and "nothing more can be cleared" not in done.stderr
    usage = json.loads(done.stdout)["usage"]
    sent = usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"] + usage["input_tokens"]
    assert 0.5 * window < sent < 0.95 * window
    assert 'characters omitted; recall(\\"r' in json.dumps(server.requests[-1])
