"""Random command lines: what the parser says that a line runs is what bash runs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from random import Random

import pytest

from agent.permissions.compound_lines import parse_steps
from agent.permissions.option_syntax import NotProved
from agent.permissions.read_only import Meanings, prove_line
from agent.permissions.reading_programs import Reading
from agent.permissions.shell_syntax import Glob, parse_joined_commands

from .bash_judge import BASH, commands_run, expected_commands

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
    """Commands as people write them; in every other line some odd characters get in somewhere."""
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
        and not any("/" in words[0] for _, words in joined)  # bash tells nobody of a path that is not there
    ]
    wrong = []
    for fail in (False, True):
        ran = commands_run(place / str(fail), [line for line, _ in parsed], fail=fail)
        for (line, joined), commands in zip(parsed, ran, strict=True):
            if commands != expected_commands(joined, fail=fail):
                wrong.append(line)
    return len(parsed), wrong


def test_bash_runs_the_commands_that_were_parsed(tmp_path: Path) -> None:
    parsed, wrong = differences(tmp_path, 500, seed=3)
    assert wrong == [] and parsed > 200


@pytest.mark.sweep
@pytest.mark.timeout(1_800)
def test_bash_runs_the_commands_that_were_parsed_of_many_lines(tmp_path: Path) -> None:
    parsed, wrong = differences(tmp_path, 30_000, seed=4)
    assert wrong == [] and parsed > 12_000


HEADS = [
    "if {}; then {}; fi", "if {}; then {}; else {}; fi", "for f in {w} {w}; do {}; done", "({})", "{{ {}; }}",
    "for g in {w}; do {}; {}; done", "! {}", "x={w}; {}", "{} && {}", "{} || {}", "{}; {}", "{} | {}",
    "{}\n{}", "a $({})", 'b "$({})" {w}', "x=$({}); {}",
    "if ! {}; then\n{}\nelif {}; then {}; fi", "{} # {}",
    "time {}",
    "{} | while read -r l; do {}; done", "for f in {w}\ndo {}\ndone | {}", "[[ -d {w} ]] && {}",
    "{} </dev/null",
    "({}) && {}", "if {}; then {}; fi || {}", "[ {w} = b ] || {}", "{} 2>&1 | {}",
    "for f in $({}); do {}; done",
]  # fmt: skip
VALUES = [
    "a", "b-c", "'d e'", '"f"', "$f", '"$f"', "$g", '"x$f"', "${x}", '"${x}y"', "g#h", "1", '""', "$x$f",
]  # fmt: skip
INNER = ["a", "b", "a {w}", "b {w} {w}", "c x{w}", "a \\; {w}", "b 'q r' >/dev/null"]


ENDLESS = re.compile(r"(?:while|until)(?! read -r l; do)|\0|while.*<")


def compound_line(random: Random, depth: int) -> str:
    """Commands within each other; at times odd characters get in, or the line is cut."""
    form = random.choice(HEADS if depth else INNER)
    while "{w}" in form:
        form = form.replace("{w}", random.choice(VALUES), 1)
    form = form.replace("${x}", "$x").replace("{{", "{").replace("}}", "}")
    while "{}" in form:
        form = form.replace("{}", compound_line(random, random.randint(0, depth - 1)), 1)
    return form


def odd_line(random: Random) -> str:
    line = compound_line(random, random.randint(1, 3))
    for _ in range(random.choice((0, 0, 0, 1, 2))):
        at = random.randint(0, len(line))
        end = at + random.randint(0, 2)
        line = line[:at] + random.choice([*ODD, "", "", " ", ";", ")", "("]) + line[end:]
    return line


def meanings(line: str) -> list[list[str]] | None:
    """The words of every command that a line may run; None where it is not read, or a word is not known."""
    reader = parse_steps(line)
    if reader is None:
        return None
    try:
        meant = Meanings(reader)
        return [words for step in reader.steps for words, _ in meant.of(step)]
    except NotProved:
        return None


def run_otherwise(place: Path, count: int, seed: int) -> tuple[int, list[str]]:
    """(how many random lines with loops were read, those of which bash runs other commands too)."""
    random = Random(seed)
    lines = [line for line in (odd_line(random) for _ in range(count)) if not ENDLESS.search(line)]
    read = [(line, found) for line in lines if (found := meanings(line)) is not None]
    read = [each for each in read if not any("/" in words[0] for words in each[1])]
    wrong = []
    for fail in (False, True):
        ran = commands_run(place / str(fail), [line for line, _ in read], fail=fail)
        for (line, found), commands in zip(read, ran, strict=True):
            wrong += [line] if any(command not in found for command in commands) else []
    return len(read), wrong


def test_bash_runs_no_command_of_a_loop_that_was_not_read(tmp_path: Path) -> None:
    read, wrong = run_otherwise(tmp_path, 1_500, seed=3)
    assert wrong == [] and read > 300


@pytest.mark.sweep
@pytest.mark.timeout(1_800)
def test_bash_runs_no_command_of_many_loops_that_was_not_read(tmp_path: Path) -> None:
    read, wrong = run_otherwise(tmp_path, 60_000, seed=4)
    assert wrong == [] and read > 12_000


FOLDERS = ["cd src", "cd src/deep", "cd ..", "cd nowhere", "cd -", "cd ../src", "cd .", "cd deep", "cd 'src'"]
MOVES = [
    "({})", "{{ {}; }}", "{} && {}", "{} || {}", "{}; {}", "{}; {}", "{} && {}", "{} | {}", "! {}", "{}\n{}",
    "if {}; then {}; fi", "if {}; then {}; else {}; fi", "ls $({})", "x=$({}); {}", "{} && ls $({}) && {}",
    "for f in a b; do {}; done", "({}) && {}", "time {}", "[ -d src ] && {}", "[[ -d src ]] && {}; {}",
    "({}) | {}", "{} < /dev/null", "echo $({}) && {}", "while {}; do {}; done",
]  # fmt: skip


class Anywhere:
    """Surroundings in which all may be read; keeps in which folders each `ls` with an operand may be run."""

    def __init__(self, top: str) -> None:
        self.top = top
        self.places: dict[str, set[str]] = {}

    def check(self, reading: Reading, folder: str) -> None:
        for word in reading.paths:
            self.places.setdefault(word, set()).add(folder)

    def folder_below(self, folder: str, path: str) -> str:
        found = os.path.normpath(os.path.join(folder, path))  # noqa: PTH118
        if not f"{found}/".startswith(f"{self.top}/"):
            raise NotProved("outside")
        return found

    def can_enter(self, folder: str) -> bool:
        return Path(folder).is_dir()

    def is_exported(self, name: str) -> bool:
        return False

    def check_unbroken(self, glob: Glob, folder: str) -> None:
        pass


def moving_line(random: Random, depth: int) -> str:
    form = random.choice(MOVES) if depth else random.choice([*FOLDERS, "ls N", "ls N", "true", "false"])
    form = form.replace("{{", "{").replace("}}", "}")
    while "{}" in form:
        form = form.replace("{}", moving_line(random, random.randint(0, depth - 1)), 1)
    return form


def elsewhere(place: Path, count: int, seed: int) -> tuple[int, list[str]]:
    """(how many lines were proved, those that ran a command in a folder that was not thought of)."""
    random, top = Random(seed), place / "project"
    (top / "src/deep").mkdir(parents=True)
    given: list[tuple[str, dict[str, set[str]]]] = []
    for _ in range(count):
        pieces = moving_line(random, random.randint(1, 4)).split("N")
        line = "".join(f"{piece}x{at}" if at < len(pieces) - 1 else piece for at, piece in enumerate(pieces))
        around = Anywhere(str(top))
        if "while" not in line and (found := prove_line(line, str(top), around)) is not None:
            given += [(line, around.places)] if not any(doubt for _, doubt in found) else []
    telling = 'ls() { echo "$1 $PWD" >&2; }; cd "$1"; eval "$2"'
    wrong = []
    for line, places in given:
        done = subprocess.run(
            [BASH, "--norc", "-c", telling, "bash", str(top), line],
            env={"PATH": "/nowhere"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
        told = [row.split(" ") for row in done.stderr.splitlines() if re.match(r"x\d+ /", row)]
        wrong += [line] if any(folder not in places.get(name, ()) for name, folder in told) else []
    return len(given), wrong


def test_bash_is_in_no_folder_that_was_not_thought_of(tmp_path: Path) -> None:
    proved, wrong = elsewhere(tmp_path, 600, seed=5)
    assert wrong == [] and proved > 100


@pytest.mark.sweep
@pytest.mark.timeout(1_800)
def test_bash_is_in_no_folder_that_was_not_thought_of_in_many_lines(tmp_path: Path) -> None:
    proved, wrong = elsewhere(tmp_path, 40_000, seed=6)
    assert wrong == [] and proved > 5_000
