"""Random command lines: what the parser says that a line runs is what bash runs."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from agent.shell.simple_commands import parse_joined_commands

from .bash_judge import commands_run, expected_commands

PROGRAMS = [
    "{}", "a", "b", "ls", "git", "x.y", "a-b", "A_1",
    "'q r'", '"s t"', "b\\;c", "c''", "\\d", "e@f", "g#h", "2x",
]  # fmt: skip
PIECES = [
    "a", "git", "{}", "[", "-n", "--a=b", "a=b", "b+=c",
    "'q r'", '"s t"', "'it'\\''s'", '"a\\"b"', "\\;", "\\&",
    "\\|",
    "a\\ b", "\\\\", "''", '""', "2", "12", "HEAD~1", "@{u}", "a@{1}", "*", "*.c", "a?", "[ab]", "'*'",
    "\\*",
    "a#b", "!", "!a", "%1", "a%", "^", "'é'", "'$x'", "\\$x", "if", "then", "in", "do", "\"a\nb\"",
    "'a\nb'",
    "'a;b'", '"a|b"', '"\\a"', '"\\\\"', "\\(", "\\'", '"\'"', "'\"'", "'`'", '"\\`a"', '"\\$(a)"', "]",
    "a]", "~b~",
]  # fmt: skip
BLANKS = [" ", " ", " ", " ", "  ", "\t", " \t "]
REDIRECTIONS = [
    " 2>&1", " >/dev/null", " 2>/dev/null", " </dev/null", " &>/dev/null", "2>&1", ">/dev/null", " 1>&2",
    ">&2",
    " > /dev/null", " 2>>/dev/null", "</dev/null", "&>>/dev/null", " >\t/dev/null",
    " <.in", "<.in", " < '.in'", " <\t.i\\n",
]  # fmt: skip
JOINTS = [" && ", " || ", "; ", " | ", "\n", "&&", "||", ";", "|", "\n\n", " &&\n", "|\n\n", ";\n", " ;\n \n"]
ODD = [
    "$x", "$1", '"$x"', "$'a\\n'", '$"a"', "`a`", "$(a)", "~", "~a", "a:~", "a=~", "{a,b}", "{}",
    "{1..3}", " #c",
    "#", " if ", "time ", "coproc ", "function ", "case ", "[[ ", "! ", "select ", "é", "\u00a0",
    "\u2028", "\x0b",
    "\x0c", "\r", "\x1c", "\x85", "\u3000", "\ufeff", "'", '"', "\\", "(", ")", "<", ">", " & ", "&",
    ";;", "|&", ";",
    " ; ; ", "&&", "|", "\n", "\\\n", " > f", ">>f ", "< f ", " <<E ", "<<<x ", " >&- ", " 3>/dev/null ",
    "<>", "12",
    ">|/dev/null ", " >/dev/nullx ", "12>/dev/null ", "\n&& ", "\r\n", "a[0]=b ", "a=b ", "a+=b ", "=",
    "!", "!!", "^a^b",
    "{", "}", "*", "?", "[", "-", "+", "@", "@(a)", "2>&1", "2", "0", "&>", ">&2x", "$", "`", "$((1))",
    "${a}", "\x7f",
]  # fmt: skip


def random_line(random: Random) -> str:
    """Commands as users write them; in every other line some odd characters get in somewhere."""
    pieces = []
    for at in range(random.choice((1, 1, 1, 2, 2, 3, 4))):
        pieces.append(random.choice(JOINTS) if at else "")
        pieces.append(random.choice(PROGRAMS))
        for _ in range(random.randint(0, 4)):
            glued = random.random() < 0.2
            pieces.append(random.choice(REDIRECTIONS) if random.random() < 0.15 else "")
            pieces.append(("" if glued else random.choice(BLANKS)) + random.choice(PIECES))
        pieces.append(random.choice(REDIRECTIONS) if random.random() < 0.2 else "")
    line = "".join(pieces) + random.choice(("", "", "", " ", "\n", ";", " ;\n"))
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        at = random.randint(0, len(line))
        line = line[:at] + random.choice(ODD) + line[at:]
    return line


def differences(place: Path, count: int, seed: int) -> tuple[int, list[str]]:
    """(how many random lines were parsed, those that bash runs otherwise)."""
    random = Random(seed)
    lines = [
        line for line in (random_line(random) for _ in range(count)) if "\r" not in line and "\0" not in line
    ]
    parsed = [
        (line, joined)
        for line in lines
        if (joined := parse_joined_commands(line)) is not None
        # bash does not report a path that does not exist, nor `[`, which it runs itself
        and not any("/" in words[0] or words[0] == "[" for _, words, _ in joined)
        # nor a command whose input does not exist
        and not any({*inputs} - {".in", "/dev/null"} for _, _, inputs in joined)
    ]
    wrong = []
    for fail in (False, True):
        ran = commands_run(place / str(fail), [line for line, _ in parsed], fail=fail)
        for (line, joined), commands in zip(parsed, ran, strict=True):
            if commands != expected_commands(joined, fail=fail):
                wrong.append(line)
    return len(parsed), wrong


def test_bash_runs_the_commands_that_were_parsed(tmp_path: Path) -> None:
    parsed, wrong = differences(tmp_path, 200, seed=3)
    assert wrong == [] and parsed > 70


@pytest.mark.sweep
@pytest.mark.timeout(1_800)
def test_bash_runs_the_commands_that_were_parsed_of_many_lines(tmp_path: Path) -> None:
    parsed, wrong = differences(tmp_path, 30_000, seed=4)
    assert wrong == [] and parsed > 11_500
