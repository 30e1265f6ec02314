"""What a command costs in a large tree: a repository, the same files without one, and untracked files.

Run with `pytest -m bench -n 0 -s`. It prints seconds from one request to the next and seconds of CPU, for a
command that writes and, to compare, for the first of the same commands in an empty project. The tree is
listed when the session begins, and even a fast model takes a second for its first reply. BENCH_FILES is the
number of files, 86,000 unless it is set; BENCH_TREE may name an existing repository instead. Searches are
compared with ripgrep alone. They run in the program too, which has imported what they need.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from tests.strict_api.reply import Block, Body, Reply, calls, says
from tests.strict_api.server import Server

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]
ROOT = Path(__file__).resolve().parents[2]
FILES = int(os.environ.get("BENCH_FILES", "86000"))
WRITES = tuple(
    calls("bash", command=line) for line in ("touch new_a", "echo 1 >new_b", "rm new_a", "rm new_b")
)
PATTERNS = ("in_no_file_a", "word 77;", "in_no_file_b", "word 78;")
ENDINGS = (".c", ".h", ".py", ".ts", ".go", ".rst", ".yaml")


def make_tree(root: Path, count: int) -> None:
    """Write files of several languages in nested directories, and dependencies that git ignores."""
    choose = random.Random(5)
    lines = [f"{'word ' * choose.randint(2, 9)}{number};\n" for number in range(1000)]
    folders = [root]
    for number in range(max(5, count // 15)):
        folder = choose.choice(folders[-40:]) / f"part{number}"
        folder = folder if len(folder.relative_to(root).parts) < 7 else root / f"part{number}"
        folder.mkdir(parents=True)
        folders.append(folder)
    for number in range(count):
        size = min(max(3, int(choose.lognormvariate(4.6, 1.1))), 4000)
        start = choose.randrange(1000)
        text = "".join(lines[(start + 7 * line) % 1000] for line in range(size))
        (choose.choice(folders) / f"file{number}{ENDINGS[number % 7]}").write_text(text)
    modules = root / "node_modules" / "one"
    modules.mkdir(parents=True)
    for number in range(count // 20):
        (modules / f"{number}.js").write_text("module.exports = 1\n")
    (root / ".gitignore").write_text("node_modules/\n.transcripts/\nhome/\n")


def git(root: Path, *words: str) -> None:
    settings = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0")
    subprocess.run(["git", *settings, *words], cwd=root, check=True, stdout=subprocess.DEVNULL)


def cpu_of(pid: int) -> float:
    """CPU seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def measured(root: Path, thinking_s: float, made: Sequence[Block] = WRITES) -> list[tuple[float, float]]:
    """Run the calls in a session; (seconds, CPU seconds) from each reply to the next request.

    The model takes `thinking_s` for its first reply.
    """
    times: list[tuple[float, float]] = []
    pids: list[int] = []

    def brain(body: Body) -> Reply:
        if not times:
            time.sleep(thinking_s)
        times.append((time.monotonic(), cpu_of(pids[0])))
        return Reply([made[len(times) - 1]] if len(times) <= len(made) else [says("done")])

    with Server(brain) as server, tempfile.TemporaryDirectory() as home:
        environ = {
            **os.environ,
            "HOME": home,
            "PYTHONPATH": str(ROOT),
            "ANTHROPIC_BASE_URL": server.base_url,
            "ANTHROPIC_API_KEY": "bench",
        }
        words = ["-m", "agent", "-p", "go", "--allowedTools", "bash", "grep", "-m", "makeroom-offline"]
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=root,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        pids.append(process.pid)
        _, errors = process.communicate()
    assert process.returncode == 0 and len(times) == len(made) + 1, errors
    assert "/rewind may not" not in errors and "/rewind cannot" not in errors, errors
    shutil.rmtree(root / ".transcripts")
    return [(later[0] - sooner[0], later[1] - sooner[1]) for sooner, later in pairwise(times)]


def show(name: str, root: Path, thinking_s: float = 0.0) -> list[tuple[float, float]]:
    found = measured(root, thinking_s)
    seconds = " ".join(f"{wall:6.2f}" for wall, _ in found)
    cpu = " ".join(f"{used:5.2f}" for _, used in found)
    print(f"  {name:34} s {seconds}   CPU {cpu}   load {os.getloadavg()[0]:.1f}")
    return found


def test_commands_in_large_trees(tmp_path: Path) -> None:
    """A repository must not cost more than a few times what git needs to compare its files."""
    small, repository = tmp_path / "small", tmp_path / "repository"
    small.mkdir()
    if given := os.environ.get("BENCH_TREE"):
        repository = Path(given)
    else:
        make_tree(repository, FILES)
        git(repository, "init", "-q")
        git(repository, "add", "-A")
        git(repository, "commit", "-qm", "all")
    print(f"\nfour commands that write, one after the other; {FILES:,} files")
    bare = show("an empty project", small)
    if not os.environ.get("BENCH_TREE"):
        show("all objects loose", repository)
        show("all objects loose, reply after 1 s", repository, thinking_s=1.0)
        git(repository, "repack", "-adq")  # as a clone, or a commit with many objects
    found = show("a repository", repository)
    show("a repository, reply after 1 s", repository, thinking_s=1.0)
    compared = cpu_of(os.getpid())
    subprocess.run(["git", "--no-optional-locks", "diff-files", "--quiet"], cwd=repository, check=True)
    compared = cpu_of(os.getpid()) - compared
    print(f"  git diff-files: CPU {compared:.2f} s")
    later = sorted(used for _, used in found[1:])[1] - sorted(used for _, used in bare[1:])[1]
    assert later < 6 * max(compared, 0.05), "two comparisons a command"
    if not os.environ.get("BENCH_TREE"):
        shutil.rmtree(repository / ".git")
        show("the same files without git", repository)


def test_commands_beside_untracked_files(tmp_path: Path) -> None:
    make_tree(tmp_path, FILES // 4)
    git(tmp_path, "init", "-q")
    print()
    show(f"{FILES // 4:,} untracked files", tmp_path)


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
def test_searches_in_a_large_tree(tmp_path: Path) -> None:
    """The first search of a session also looks for texts with a NUL, which takes as long as a search."""
    small, repository = tmp_path / "small", Path(os.environ.get("BENCH_TREE", tmp_path / "repository"))
    small.mkdir()
    if not repository.exists():
        make_tree(repository, FILES)
        git(repository, "init", "-q")
    searches = [calls("grep", pattern=pattern) for pattern in PATTERNS]
    bare = measured(small, 1.0, searches)
    found = measured(repository, 1.0, searches)
    ratios = []
    for pattern, (ours, _), (least, _) in zip(PATTERNS, found, bare, strict=True):
        began = time.monotonic()
        words = ["rg", "--hidden", "--glob=!.git", "-l", "-e", pattern, "./"]
        subprocess.run(words, cwd=repository, check=False, stdout=subprocess.DEVNULL)
        alone = time.monotonic() - began
        ratios.append((ours - least) / alone)
        print(f"  {pattern:14} {ours:.2f} s, ripgrep {alone:.2f} s: {ratios[-1]:.2f} times as long")
    assert min(ratios[1:]) < 2, "each search looks for NULs"
