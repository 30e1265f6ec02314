"""Command lines are read roughly, and well enough for hints."""

from tests.tables import each_row
from tools.processes.command_hints import (
    awaits_keys,
    hint,
    is_answer,
    lex_commands,
    looks_like_prompt,
)


@each_row(
    ("command", "words"),
    [
        ("ls -l", [["ls", "-l"]]),
        ("a && b 'c; d' | e\nf &", [["a"], ["b", "c; d"], ["e"], ["f"]]),
        ("X=1 Y=2 env grep x", [["grep", "x"]]),
        ("if true; then grep x; fi", [["if", "true"], ["grep", "x"], ["fi"]]),
        ("(cd x && vim)", [["cd", "x"], ["vim"]]),
        ("diff <(ls a) <(ls b)", [["diff", "file", "file"]]),
        ("echo 'open", []),
        ("", []),
        ("x" * 30_000, []),
    ],
)
def test_the_lex_commands_of_a_line(command: str, words: list[list[str]]) -> None:
    assert lex_commands(command) == words


@each_row("line", ["git grep x", "git diff --exit-code", "git --no-pager grep x", "! grep x f"])
def test_git_and_negation_are_seen_through(line: str) -> None:
    assert is_answer(line, 1)
    assert not is_answer(line, 2)
    assert not is_answer("git push", 1)


@each_row("command", ["vim", "vim f", "sudo -e; vi f", "cd x; nano f", "/usr/bin/vim f", "emacs -nw f"])
def test_editors_that_would_wait(command: str) -> None:
    assert awaits_keys(command) == "editor"


@each_row("command", ["watch -n1 date", "make; watch 'ls -l'", "/usr/bin/watch -e make"])
def test_what_would_be_watched_for_ever(command: str) -> None:
    assert awaits_keys(command) == "watch"


@each_row(
    "command",
    ["vim -es f", "vi +wq f", "emacs --batch -l x", "grep vim f", "sed -i s,a,b, f", "watch -g x", "a watch"],
)
def test_editors_in_a_batch_and_mere_mentions(command: str) -> None:
    assert not awaits_keys(command)


@each_row(
    "text",
    [
        "Password: ",
        "x\n[sudo] password for me: ",
        "Continue? [y/N] ",
        "(yes/no)? ",
        "package name: (proj) ",
        ">>> ",
    ],
)
def test_questions(text: str) -> None:
    assert looks_like_prompt(text) is (not text.startswith("package"))


@each_row("text", ["", "done\n", "Compiling:\n", "50% ", "Password: \n", "npm info ok"])
def test_no_questions(text: str) -> None:
    assert not looks_like_prompt(text)


def test_hints_name_what_to_do() -> None:
    assert "stored credential" in str(hint("git push", "fatal: could not read Username for 'https://x'"))
    assert "prints and exits" in str(hint("top", ""))
    notice = "Pseudo-terminal will not be allocated because stdin is not a terminal.\n"
    assert hint("ssh host", f"{notice}ssh: Could not resolve hostname host") is None
    renaming = "fatal: renaming 'a/x' failed: Invalid cross-device link"
    assert "git mv does not" in str(hint("git mv a/x b/x", renaming))
    assert hint("make", "error: no rule") is None
    assert hint("python3 script.py", "") is None


@each_row(
    "output",
    [
        "sudo: a terminal is required to read the password; either use the -S option",
        "sudo: effective uid is not 0, is /usr/bin/sudo on a file system with the 'nosuid' option set?",
        "Error opening terminal: unknown.",
        "the input device is not a TTY",
        "git@host: Permission denied (publickey).",
    ],
)
def test_what_needs_a_terminal_is_for_the_user_in_another_one(output: str) -> None:
    advice = str(hint("x", output))
    assert "the user" in advice and "in another terminal" in advice
    assert "`!`" not in advice and "ask the user" not in advice  # who may have typed it there
    assert ("MAKEROOM_NAMESPACE=off" in advice) is ("uid" in output)


@each_row(
    "output",
    [
        'sudo: The "no new privileges" flag is set, which prevents sudo from running as root.',
        "error: gpg failed to sign the data\nfatal: failed to write commit object",
        "Failed to connect to bus: No such file or directory",
    ],
)
def test_what_cannot_work_in_the_sandbox_can_be_approved_by_itself(output: str) -> None:
    advice = hint("make release", output)
    assert advice is not None and "by itself, so that the user can approve running it outside" in advice
    assert hint("make release", output, sandboxed=False) is None


def test_fakeroot_is_not_blamed_on_the_system() -> None:
    output = "fakeroot: cannot create channels\nThis may be due to a lack of SYSV IPC support."
    advice = hint("fakeroot make", output)
    assert advice is not None and advice.startswith("the sandbox of this system blocks System V IPC")
    assert hint("fakeroot make", output, sandboxed=False) is None
