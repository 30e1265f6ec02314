"""However it ends, the terminal is as it was, and what was not sent is not lost."""

import os
import signal
import subprocess
import sys

import pytest

from .person import SCRIPTED, Person


def restored(person):
    raw = bytes(person.raw)
    assert raw.rfind(b"\x1b[?25h") > raw.rfind(b"\x1b[?25l"), "the cursor is visible"
    assert raw.rfind(b"\x1b[?2004l") > raw.rfind(b"\x1b[?2004h"), "bracketed paste is off"
    assert raw.rfind(b"\x1b[?7h") >= raw.rfind(b"\x1b[?7l"), "lines wrap"
    assert raw.count(b"\x1b[?2026h") == raw.count(b"\x1b[?2026l")


@pytest.mark.parametrize(
    ("ending", "code"),
    [("\x04", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["Ctrl-D", "SIGTERM", "SIGHUP"],
)
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "in a turn"])
def test_the_terminal_is_restored(tmp_path, ending, code, busy):
    with Person(tmp_path) as person:
        before = person.modes
        person.ready()
        if busy:
            person.type("say x;run never\r").sees("compiling")
        if isinstance(ending, str):
            person.type(ending)
        else:
            person.signal(ending)
        assert person.ends() == code
        assert person.modes == before
        restored(person)
        assert "closed" in person.log
        assert ("interrupted" in person.log) == busy


def test_a_fault_at_the_start_is_raised_with_the_terminal_restored(tmp_path):
    with Person(tmp_path, SCRIPTED_BROKEN="1") as person:
        before = person.modes
        assert person.ends() == 1
        person.until(lambda: "no agent today" in person.text)
        assert person.modes == before
        restored(person)


def test_a_terminal_that_goes_away_ends_the_program(tmp_path):
    with Person(tmp_path) as person:
        person.ready().type("say x;run never\r").sees("compiling")
        child, person.status = person.child, 0
        os.close(person.terminal)
        person.terminal = os.open(os.devnull, os.O_RDONLY)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 129
        assert "closed" in person.log


def test_suspending_gives_the_terminal_back_and_fg_takes_it_again(tmp_path):
    with Person(tmp_path, SHELL_FIRST="1") as person:
        person.type(f"{sys.executable} {SCRIPTED} {tmp_path}\r").ready().type("dra").sees("❯ dra").type(
            "\x1a"
        )
        person.until(lambda: b"Stopped" in bytes(person.raw), "the stop")
        raw = bytes(person.raw)
        assert raw.rfind(b"\x1b[?25h") > raw.rfind(b"\x1b[?25l")
        assert b"\x1b[?2004l" in raw
        person.type("fg\r").sees("❯ dra").type("ft").sees("❯ draft").type("\x03").misses("draft").type("\x04")
        person.until(lambda: person.text.endswith("\n$"), "the shell").type("exit $((40 + 2))\r")
        assert person.ends() == 42


def test_the_screen_is_left_with_the_text_and_how_to_go_on(tmp_path):
    with Person(tmp_path) as person:
        person.ready().type("say the answer\r").sees("\nthe answer").type("\x04").ends()
        assert person.text.endswith("the answer\n\nGo on with: makeroom --resume s42")


def test_a_draft_survives_a_kill_and_is_offered_once(tmp_path):
    with Person(tmp_path) as person:
        person.ready().type("wait never\r").sees("Ctrl-C to interrupt").type("queued one\r").sees("1 queued")
        person.type("half a thou").until(lambda: "half a thou" in drafts(tmp_path), "the draft on disk")
        os.kill(person.child, signal.SIGKILL)
        person.ends()
    with Person(tmp_path) as person:
        person.ready().sees("Restored what you had not sent", "❯ queued one\n  half a thou")
        person.type("\x03\x04").ends()
    with Person(tmp_path) as person:
        person.ready().type("x").sees("❯ x")
        assert "half" not in person.text
        person.type("\x03\x04").ends()
    assert drafts(tmp_path) == ""


def test_a_draft_survives_sigterm_too(tmp_path):
    with Person(tmp_path) as person:
        person.ready().type("unsent words").sees("❯ unsent words").signal(signal.SIGTERM)
        assert person.ends() == 143
    assert "unsent words" in drafts(tmp_path)


def test_a_state_folder_that_cannot_be_written_is_told_and_nothing_breaks(tmp_path):
    (tmp_path / "state").write_text("a file is in the way")
    with Person(tmp_path) as person:
        person.ready().type("say fine\r").sees("\nfine").type("\x04")
        assert person.ends() == 0
        assert "the history is not kept" in person.everything


def drafts(folder):
    return "".join(path.read_text() for path in (folder / "state" / "drafts").glob("*.txt"))


@pytest.mark.parametrize("how", [{"TERM": "dumb"}, {"WORDS": "--plain"}], ids=["TERM=dumb", "--plain"])
def test_line_mode_on_a_terminal_sends_no_escape_codes(tmp_path, how):
    with Person(tmp_path, **how) as person:
        person.sees(">").type("say hello;bash x;edit\n").sees("hello", "bash: x", "12 passed (exit 0, 2.3 s)")
        person.type("ask\n").sees("Allow bash?", "Answer:").type("n not now\n").logged("reason='not now'")
        person.type("wait never\n").logged("prompt 'wait never'").type("\x03").sees("Interrupted")
        person.type("/context\n").sees("tool results: 30,000").type("exit\n")
        assert person.ends() == 0
    assert b"\x1b" not in bytes(person.raw)


def test_line_mode_names_the_file_of_a_change_and_asks_why_after_a_bare_no(tmp_path):
    with Person(tmp_path, WORDS="--plain") as person:
        person.sees(">").type("ask diff\n").sees("Allow edit?", "src/calc.py", "n REASON", "Answer:")
        assert person.text.index("src/calc.py") < person.text.index("return a + b")
        person.type("n\n").sees("Why? (Enter for no reason)").type("use git\n").logged(
            "reason='use git', stop=False"
        )
        person.type("ask make clean\n").sees("Allow bash?").type("n\n\n").logged("reason='', stop=False")
        person.sees("  make clean")


def test_line_mode_reads_a_pipe_to_its_end(tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPTED), str(tmp_path)],
        input="say one\n/help\nsay two",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert [word in done.stdout for word in ("one", "output of /help", "two")] == [True] * 3
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
