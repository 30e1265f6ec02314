"""However the REPL ends, the terminal is restored, and unsent text is not lost."""

import os
import runpy
import shlex
import shutil
import signal
from functools import partial

import pytest

from agent.ui.repl_state import describe_failure
from tests.sampling import sampled, sampled_rows

from . import scripted_driver
from .pty_terminal import ROOT, PtyTerminal, forked_makeroom, makeroom, scripted


def drafts(folder):
    return "".join(path.read_text() for path in (folder / "state" / "drafts").glob("*.txt"))


def assert_restored(terminal):
    raw = bytes(terminal.raw)
    assert raw.rfind(b"\x1b[?25h") > raw.rfind(b"\x1b[?25l"), "the cursor is visible"
    assert raw.rfind(b"\x1b[?2004l") > raw.rfind(b"\x1b[?2004h"), "bracketed paste is off"
    assert raw.rfind(b"\x1b[?7h") >= raw.rfind(b"\x1b[?7l"), "lines wrap"
    assert raw.count(b"\x1b[?2026h") == raw.count(b"\x1b[?2026l")


@pytest.mark.parametrize(
    ("ending", "code"),
    [("\x04", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["Ctrl-D", "SIGTERM", "SIGHUP"],
)
@pytest.mark.parametrize("busy", sampled([True, False], 2))
def test_the_terminal_is_restored(tmp_path, ending, code, busy):
    with PtyTerminal(tmp_path, argv=scripted(tmp_path) if busy else None) as terminal:
        terminal.ready()
        if busy:
            terminal.type("say x;run never\r").sees("compiling")
        if isinstance(ending, str):
            terminal.type(ending)
        else:
            terminal.signal(ending)
        assert terminal.ends() == code
        assert terminal.modes == terminal.initial_modes
        assert_restored(terminal)
        assert "closed" in terminal.log
        assert ("interrupted" in terminal.log) == busy


def test_a_fault_at_the_start_is_raised_with_the_terminal_restored(tmp_path):
    with PtyTerminal(tmp_path, argv=scripted(tmp_path), SCRIPTED_BROKEN="1") as terminal:
        assert terminal.ends() == 1
        terminal.until(lambda: "no agent today" in terminal.text)
        assert terminal.modes == terminal.initial_modes
        assert_restored(terminal)


def test_what_keeps_a_session_from_beginning_ends_it_with_one_line_whatever_was_sent(tmp_path):
    with PtyTerminal(tmp_path, argv=scripted(tmp_path), SCRIPTED_SLOW="1", SCRIPTED_UNUSABLE="1") as terminal:
        terminal.ready().type("say too early\r").sees("❯ say too early", "Ctrl-C to interrupt")
        terminal.open_gate("ready")
        assert terminal.ends() == 1  # by the traceback of the script
        assert terminal.text.endswith("agent.errors.UsageError: the service has no such model")
        assert terminal.everything.count("UsageError: the") == 1
        assert terminal.modes == terminal.initial_modes
        assert_restored(terminal)
        assert "prompt" not in terminal.log


def test_a_missing_key_is_reported_in_one_line_with_its_exit_code(tmp_path):
    program = forked_makeroom("")
    with PtyTerminal(tmp_path, (100, 24), program, MAKEROOM_PROVIDER="openai", OPENAI_MODEL="o3") as terminal:
        assert terminal.ends() == 5
        assert "with o3 in" in terminal.text
        assert terminal.text.endswith("error: no credentials: set OPENAI_API_KEY, or try --offline")


def test_the_mode_that_is_chosen_while_the_program_starts_is_that_of_the_session(tmp_path):
    with PtyTerminal(tmp_path, (100, 24), makeroom("--offline")) as terminal:
        terminal.sees("❯").type("\x1b[Z\x1b[Zabc").sees("❯ abc", "plan mode").misses("starting")
        assert "plan mode" in terminal.text


@pytest.mark.parametrize(
    ("typed", "shown"),
    sampled_rows([("one\rtwo\r", "❯ one\n  two"), ("/help\r", "More: /help")], 2),
    ids=["lines", "a line"],
)
def test_a_line_that_was_sent_before_the_first_paint_is_sent(tmp_path, typed, shown):
    with PtyTerminal(tmp_path, (100, 24), makeroom("--offline")) as terminal:
        terminal.type(typed).sees(shown, "❯").misses("starting")
        assert ("❯ one" in terminal.text) is ("one" in typed)


@pytest.fixture
def installed(tmp_path):
    for name in ("agent", "compact", "tools", "transcripts"):
        copy = tmp_path / "installed" / name
        shutil.copytree(ROOT / name, copy)  # with what was compiled
    (tmp_path / "project").mkdir()
    return tmp_path / "installed"


def test_a_program_that_is_removed_while_it_starts_says_so_in_a_line(tmp_path, installed):
    project, told = (
        tmp_path / "project",
        "makeroom has changed on disk since it started (No module named 'agent.ui.",
    )
    (installed / "agent/ui/markdown.py").unlink()
    with PtyTerminal(project, (100, 24), makeroom("--offline"), PYTHONPATH=str(installed)) as terminal:
        terminal.sees(f"{told}markdown'). Exit", "asks before edits").type("/exit\r")
        assert terminal.ends() == 0
    (installed / "agent/ui/transcript_view.py").unlink()
    with PtyTerminal(project, (100, 24), makeroom("--offline"), PYTHONPATH=str(installed)) as terminal:
        assert terminal.ends() == 1
        assert terminal.text.startswith(
            "error: cannot start: No module named 'agent.ui.transcript_view' (makeroom was replaced"
        )


def test_a_program_that_was_removed_while_it_runs_says_so_and_can_be_left(tmp_path, installed):
    project = tmp_path / "project"
    with PtyTerminal(project, (100, 24), makeroom("--offline"), PYTHONPATH=str(installed)) as terminal:
        terminal.sees("❯", "asks before edits")
        shutil.rmtree(installed / "agent/commands")
        told = "makeroom has changed on disk since it started (No module named 'agent.commands."
        terminal.type("/doctor\r").sees(told, "). Exit and", "resume with python -m agent -c")
        terminal.type("!ls\r").sees("agent.commands.project")
        terminal.type("/exit\r")
        assert terminal.ends() == 0


def test_an_error_of_replaced_code_says_that_the_program_has_changed_and_any_other_that_it_is_a_defect(
    tmp_path,
):
    code = tmp_path / "controller.py"
    code.write_text("raise TypeError('no such argument')\n")
    with pytest.raises(TypeError) as raised:
        runpy.run_path(str(code))
    written = code.stat().st_ctime
    told = describe_failure(raised.value, began=written - 1)
    assert told.startswith(
        "makeroom has changed on disk since it started (no such argument). Exit and resume"
    )
    missing = describe_failure(ModuleNotFoundError("No module named '_sqlite3'", name="_sqlite3"), 0.0)
    assert missing.startswith("a library cannot be loaded (No module named '_sqlite3'). Exit and resume")
    told = describe_failure(raised.value, began=written + 1)
    assert (
        told
        == "internal error in makeroom: TypeError: no such argument (controller.py:1). /bug writes a report"
    )


def test_a_terminal_that_goes_away_ends_the_program(tmp_path):
    with PtyTerminal(tmp_path, argv=scripted(tmp_path)) as terminal:
        terminal.ready().type("say x;run never\r").sees("compiling")
        child, terminal.status = terminal.child, 0
        os.close(terminal.fd)
        terminal.fd = os.open(os.devnull, os.O_RDONLY)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 129
        assert "closed" in terminal.log


def test_suspending_gives_the_terminal_back_and_fg_takes_it_again(tmp_path):
    shell = ["/bin/bash", "--norc", "--noprofile", "-i"]
    with PtyTerminal(tmp_path, argv=shell, PS1="$ ") as terminal:
        terminal.type(f"{shlex.join(scripted(tmp_path))}\r").ready().type("dra").sees("❯ dra").type("\x1a")
        terminal.until(lambda: b"Stopped" in bytes(terminal.raw), "the stop")
        raw = bytes(terminal.raw)
        assert raw.rfind(b"\x1b[?25h") > raw.rfind(b"\x1b[?25l")
        assert b"\x1b[?2004l" in raw
        # the shell does not get the focus report as typed text, and has its title back
        assert raw.count(b"\x1b[?1004h") == raw.count(b"\x1b[?1004l") == raw.count(b"\x1b[23;0t") == 1
        terminal.type("fg\r").sees("❯ dra").type("ft").sees("❯ draft").type("\x03").misses("draft").type(
            "\x04"
        )
        terminal.until(lambda: terminal.text.endswith("\n$"), "the shell").type("exit $((40 + 2))\r")
        assert terminal.ends() == 42


def test_the_screen_is_left_with_the_text_and_how_to_continue(tmp_path):
    with PtyTerminal(tmp_path) as terminal:
        terminal.ready().type("say the answer\r").sees("\nthe answer").type("\x04").ends()
        assert terminal.text.endswith("the answer\n\nResume this session with: makeroom --resume s42")


def test_a_draft_survives_a_kill_and_is_offered_once(tmp_path):
    with PtyTerminal(tmp_path) as terminal:
        terminal.ready().type("wait never\r").sees("Ctrl-C to interrupt").type("queued one\r").sees(
            "1 queued"
        )
        terminal.type("half a thou").until(lambda: "half a thou" in drafts(tmp_path), "the draft on disk")
        os.kill(terminal.child, signal.SIGKILL)
        terminal.ends()
    with PtyTerminal(tmp_path) as terminal:  # another session: nothing is in its way
        terminal.ready().type("x").sees("❯ x")
        assert "half" not in terminal.text
        terminal.type("\x03\x04").ends()
    going_on = partial(scripted_driver.main, ["scripted_driver.py", str(tmp_path), "-c"])
    with PtyTerminal(tmp_path, argv=going_on) as terminal:
        terminal.type("ahead").ready().sees("before this was sent: 'queued one ⏎ half a thou'", "❯ ahead")
        terminal.type("\x15\x1b[A").sees("❯ queued one\n  half a thou").type("\x03\x04").ends()
    assert drafts(tmp_path) == ""


def test_a_draft_survives_sigterm_too(tmp_path):
    with PtyTerminal(tmp_path) as terminal:
        terminal.ready().type("unsent words").sees("❯ unsent words").signal(signal.SIGTERM)
        assert terminal.ends() == 143
    assert "unsent words" in drafts(tmp_path)


def test_a_state_directory_that_cannot_be_written_is_reported_and_nothing_breaks(tmp_path):
    (tmp_path / "state").write_text("a file is in the way")
    with PtyTerminal(tmp_path) as terminal:
        terminal.ready().type("say fine\r").sees("\nfine").type("\x04")
        assert terminal.ends() == 0
        assert "cannot write the prompt history" in terminal.everything
