"""Line by line: everything is shown and asked without a screen and without escape codes."""

import subprocess

import pytest

from .pty_terminal import PtyTerminal, makeroom, scripted


@pytest.mark.parametrize(("term", "words"), [("dumb", []), ("xterm", ["--plain"])], ids=["dumb", "--plain"])
def test_line_mode_on_a_terminal_sends_no_escape_codes(tmp_path, term, words):
    with PtyTerminal(tmp_path, argv=scripted(tmp_path, *words), TERM=term) as terminal:
        terminal.sees(">").type("say hello;bash x;edit\n").sees("hello", "bash: x", "12 passed")
        terminal.type("reads 1\n").sees("read: src/part_0.py", "10 lines")
        terminal.type("ask\n").sees("Allow bash?", "Answer:").type("n not now\n").logged("reason='not now'")
        terminal.type("wait never\n").logged("prompt 'wait never'").type("\x03").sees("Interrupted")
        terminal.type("!gate\n").logged("command '!gate'").type("\x03").sees("! interrupted\n")
        terminal.type("/context\n").sees("tool results: 30,000").type("exit\n")
        assert terminal.ends() == 0
        assert terminal.text.endswith("Resume this session with: makeroom --resume s42")
    assert b"\x1b" not in bytes(terminal.raw)


def test_line_mode_is_left_by_a_second_interrupt_at_the_prompt(tmp_path):
    with PtyTerminal(tmp_path, argv=scripted(tmp_path, "--plain")) as terminal:
        terminal.sees(">").type("say hello\n").sees("\nhello\n").until(lambda: terminal.text.endswith("\n>"))
        terminal.type("\x03").sees("> ^C\nPress Ctrl-C again to exit\n>").type("say still here\n")
        terminal.sees("\nstill here\n").type("ask\n").sees("Answer:").type("\x03").sees(
            "^C\nInterrupted. What should makeroom do instead?\n>"
        )
        terminal.type("\x03").sees("instead?\n> ^C\nPress Ctrl-C again to exit\n>").type("\x03")
        assert terminal.ends() == 130
        assert terminal.text.endswith("\n> ^C\nResume this session with: makeroom --resume s42")


def test_the_end_of_input_ends_the_row_of_the_prompt(tmp_path):
    with PtyTerminal(tmp_path, argv=scripted(tmp_path, "--plain")) as terminal:
        terminal.sees(">").type("say hello\n").sees("\nhello\n").until(lambda: terminal.text.endswith("\n>"))
        terminal.type("\x04")
        assert terminal.ends() == 0
        assert "\n>\nResume this session" in terminal.text


def test_line_mode_names_the_file_of_a_change_and_asks_why_after_a_bare_no(tmp_path):
    with PtyTerminal(tmp_path, argv=scripted(tmp_path, "--plain")) as terminal:
        terminal.sees(">").type("ask diff\n").sees("Allow edit?", "src/calc.py", "Type a letter", "Answer:")
        assert terminal.text.index("src/calc.py") < terminal.text.index("return a + b")
        terminal.type("n\n").sees("What should makeroom do instead?").type("use git\n").logged(
            "reason='use git', stop=False"
        )
        terminal.type("ask make clean\n").sees("Allow bash?").type("n\n\n").logged("reason='', stop=False")
        terminal.sees("  make clean")


def test_line_mode_reads_a_pipe_to_its_end(tmp_path):
    done = subprocess.run(
        scripted(tmp_path),
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


def test_a_pipe_that_ends_at_a_question_ends_the_session(tmp_path):
    words = scripted(tmp_path, "--plain")
    done = subprocess.run(words, input="ask make clean\n", capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "Answer:" in done.stdout


def test_help_lists_no_keys_of_the_screen(tmp_path):
    argv = makeroom(f"--offline --plain --no-session -C {tmp_path}")
    done = subprocess.run(argv, input="/help keys", capture_output=True, text=True, timeout=60, check=True)
    assert "Ctrl-C interrupts a turn" in done.stdout
    assert "Ctrl-O" not in done.stdout


def test_line_mode_takes_what_is_typed_in_the_charset_of_the_locale(tmp_path):
    with PtyTerminal(tmp_path, argv=scripted(tmp_path, "--plain"), LC_ALL="cs_CZ.ISO-8859-2") as terminal:
        terminal.sees(">").type(b"say \xb9\n").logged("prompt 'say \u0161'")


def test_line_by_line_a_number_chooses(tmp_path):
    with PtyTerminal(tmp_path, argv=scripted(tmp_path, "--plain")) as terminal:
        terminal.sees(">").type("pick fruits\r").sees("Which fruit?", "  2  banana  (no. 1)", "Number (")
        terminal.type("x\r").sees("'x' is not one of the numbers above")
        terminal.until(lambda: terminal.text.count("Number (") == 2)
        terminal.type("2\r").logged("picked 'banana'").type("pick question\r").sees("Sure?")
        terminal.type("\r").logged("picked 'nothing'")
