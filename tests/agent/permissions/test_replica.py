"""Every line that runs without a question is run, in a project with traps: it may leave no trace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from agent.shell.simple_commands import parse_joined_commands
from tests.agent.shell.bash_judge import fingerprint, run_lines, shims
from tests.agent.shell.reading_project import ReadingProject, lines_of
from tools.processes.env_filter import filter_environment
from tools.text.words import word_set

from .test_allow_rules import COVERED, NOT_COVERED
from .test_command_corpus import SMUGGLES

READ = lines_of("lines_that_read.txt")
HARM = [*lines_of("lines_in_doubt.txt"), *lines_of("lines_that_attack.txt"), *SMUGGLES]
HARM += [line for lines in NOT_COVERED.values() for line in lines]
# What users allow, of which nothing changes a file.
COMMON_RULES = (
    "git status", "git log", "git diff", "git show", "git grep", "find", "rg", "grep", "sed", "awk",
    "sort", "uniq",
    "ls", "cat", "head", "tree", "file", "diff", "date", "jq", "npm test", "pytest", "wc", "xargs wc",
    "timeout 5 ls",
)  # fmt: skip
ENDLESS = ("find / -name x", "grep -r x /", "head /dev/zero", "cat /dev/zero")  # that rules allow
PROGRAMS = word_set(
    "ls cat head tail wc cut tr which df du stat sort uniq diff cmp comm file nl tac rev fold expand"
    " paste join column od base64 cksum realpath readlink md5sum sha256sum basename dirname id groups"
    " seq pgrep uname whoami hostname arch nproc uptime free lscpu ss netstat grep rg sed jq date find"
    " ps sleep git tree strings hexdump sh bash touch rm tee cp mv ln mkdir xargs awk gawk env less"
    " more man vim xxd python3 node perl make gcc curl pytest npm timeout nice nohup stdbuf setsid"
    " busybox dd kill pkill split csplit install truncate shred ssh evil mkfifo sha1sum unexpand"
    " getent gpg git-lfs pr gzip zcat lessopen"
)
# What a line is tried with at every place between its words.
BARBS = [
    "-o pwned", "-opwned", "--output=pwned", "--output pwned", "--outp=pwned", "-exec touch pwned \\;",
    "-delete",
    "-fprint pwned", "-i", "-ni", "-w pwned", "--pre ./evil", "--pre=./evil", "--compress-program=./evil",
    "-O",
    "-Otouch", "--ext-diff", "--textconv", "--open-files-in-pager=touch", "-c core.pager=./evil", "-C ..",
    "-f a.py",
    "--files0-from=a.py", "-T .", "-z", "-R", "-L", "-m a.py", "-C", "-s", "-e 'w pwned'", "-x", "-D",
    "pwned",
    "; touch pwned", "&& touch pwned", "| tee pwned", "> pwned", ">> pwned", "& touch pwned",
    "$(touch pwned)",
    "`touch pwned`", "\ntouch pwned", "|| touch pwned", "../other/notes", "/etc/passwd", "link",
    "folder_link/*", "*",
    "./*", "-*", "~", "$HOME", "'w pwned'", "-- -o pwned", "--", "-", "new", "-d new", "--no-index",
    "--help",
    "--version", "2>pwned", "<a.py", "</dev/null", "-v x", "-u", "-F", "--follow", "-k", "-b", "#", "{a,b}",
]  # fmt: skip


def replica(place: Path) -> ReadingProject:
    """A project whose settings, files and links are traps; every program on PATH reports that it ran."""
    made = ReadingProject(place, {"PATH": f"{place.resolve()}/bin"})
    shims(made.place / "bin", made.place / "log", PROGRAMS)
    made.environ["PATH"] = "/usr/bin:/bin"
    made.commit()
    evil = f"#!/bin/sh\necho evil >>{made.place}/log/$AT\ntouch {made.place}/other/pwned\ncat\n"
    for name in ("evil", "src/ls", "watch"):
        (made.root / name).write_text(evil)
        (made.root / name).chmod(0o755)
    made.git("config", "core.pager", "./evil")
    made.git("config", "core.hooksPath", "hooks")
    made.git("config", "alias.log", "!./evil")
    made.git("config", "gpg.program", "./evil")
    (made.root / "hooks").mkdir()
    for hook in ("post-index-change", "pre-commit", "post-checkout", "reference-transaction"):
        (made.root / "hooks" / hook).write_text(evil)
        (made.root / "hooks" / hook).chmod(0o755)
    (made.root / "link").symlink_to(made.place / "other/notes")
    (made.root / "folder_link").symlink_to(made.place / "other")
    (made.root / "rgrc").write_text("--pre=./evil\n")
    made.environ |= {
        "PATH": f"{made.place}/bin",
        "RIPGREP_CONFIG_PATH": str(made.root / "rgrc"),
        "LESSOPEN": "|./evil %s",
        "GREP_OPTIONS": "-f a.py",
        "GIT_EXTERNAL_DIFF": "./evil",
        "PAGER": "./evil",
        "BASH_ENV": str(made.root / "evil"),
        "CDPATH": str(made.place),
    }
    (made.place / "home/.jq").write_text("def map(f): env;\n")
    return made


def trace_of(
    project: ReadingProject, lines: Sequence[str], *rules: str, every: int = 1
) -> tuple[int, list[str]]:
    """(how many lines run unasked, what they did that they may not: changed files, other programs).

    Of the lines that run unasked `every` second, third ... is run.
    """
    allowed = [line for line in dict.fromkeys(lines) if project.runs(line, *rules)][::every]
    places = [project.root, project.place / "other", project.place / "home"]
    before = [fingerprint(place) for place in places]
    run_lines(project.place, allowed, project.root, filter_environment(project.environ))
    found = [f"{path} was changed" for place, was in zip(places, before, strict=True)
             for path in {key for key, _ in fingerprint(place).items() ^ was.items()}]  # fmt: skip
    for at, line in enumerate(allowed):
        log = project.place / "log" / str(at)
        ran = set(log.read_text().split()) if log.exists() else set()
        named = {word for _, words, _ in parse_joined_commands(line) or [] for word in words}
        found += [f"{line!r} ran {name}" for name in ran - named]
        log.unlink(missing_ok=True)
    return len(allowed), found


def barbed(lines: Sequence[str]) -> list[str]:
    """The lines, and each with each barb at each place between its words."""
    found = list(lines)
    for words in (line.split(" ") for line in lines):
        for barb in BARBS:
            found += [" ".join((*words[:at], barb, *words[at:])) for at in range(1, len(words) + 1)]
    return found


def test_the_corpus_is_as_large_as_it_has_to_be() -> None:
    assert len(set(HARM)) >= 1_000
    assert len(set(lines_of("lines_that_attack.txt"))) >= 500


def test_what_runs_unasked_leaves_no_trace(tmp_path: Path) -> None:
    project = replica(tmp_path / "work")
    count, trace = trace_of(project, [*HARM, *READ], every=9)
    assert trace == [] and count > len(READ) / 12


def test_what_common_rules_let_run_leaves_no_trace(tmp_path: Path) -> None:
    project = replica(tmp_path / "work")
    lines = [line for line in HARM if line not in ENDLESS]
    count, trace = trace_of(project, lines, *COMMON_RULES, every=12)
    assert trace == [] and count > 6


@pytest.mark.sweep
@pytest.mark.timeout(1_800)
def test_every_line_with_every_barb_leaves_no_trace(tmp_path: Path) -> None:
    lines = [*barbed(READ), *HARM, *(line for lines in COVERED.values() for line in lines)]
    project = replica(tmp_path / "work")
    count, trace = trace_of(project, lines)
    assert trace == [] and count > 1_000


@pytest.mark.sweep
@pytest.mark.timeout(1_800)
def test_what_common_rules_let_run_with_every_barb_leaves_no_trace(tmp_path: Path) -> None:
    lines = [line for line in barbed([*READ, *HARM][::2]) if not set(line.split()) & {"/", "/dev/zero"}]
    count, trace = trace_of(replica(tmp_path / "work"), lines, *COMMON_RULES, every=7)
    assert trace == [] and count > 1_000


@pytest.mark.sweep
@pytest.mark.timeout(1_800)
def test_random_pieces_of_the_corpus_leave_no_trace(tmp_path: Path) -> None:
    random = Random(5)
    pieces = [*READ, *HARM, *BARBS]
    words = sorted({word for line in pieces for word in line.split()})
    lines = []
    for _ in range(12_000):
        line = random.choice(READ).split(" ")
        for _ in range(random.randint(1, 3)):
            line.insert(random.randint(0, len(line)), random.choice(words))
        lines.append(" ".join(line))
    project = replica(tmp_path / "work")
    count, trace = trace_of(project, lines)
    assert trace == [] and count > 500
