"""The files of a project are walked much as git would list them, without running it."""

import os
import random
import subprocess
from pathlib import Path

import pytest

from tests.tables import each_row
from tools.glob_patterns import name_matcher
from tools.search.project_files import list_project

WORDS = ("a", "b", "build", "a.py", "b.py", "x.log")
PATTERNS = (
    *("a", "*.py", "!*.py", "/a", "a/", "/build/", "build/*", "!build/a", "**/b", "a/**", "a/**/b", "*.l?g"),
    *("[ab]", "[!a]", "# a", "", "  ", "b  ", "\\#a", "!a/", "a/b", "/*", "!/a/", "**", "a**b", "x.[a-l]og"),
)

ODD_WORDS = ("a", "b", "z", "-", "]", "[", "*", "?", "#a#", ".#a", "!a", "a.log", "a\\", "b ", "foo", "[i]")
ODD_PATTERNS = (  # with backslashes, sets of characters and slashes too many
    *("\\#*\\#", ".\\#*", "*\\.log", "\\[*\\]*", "\\*", "\\?", "*\\", "a\\", "*\\\\", "\\a*", "b\\ "),
    *("\\!*", "fo\\o", "[[:punct:]]*", "[[:alpha:]-]"),
    *("[^a]", "[!a]", "[a-]", "[-a]", "[z-a]", "[]]", "[]-a]", "[!]]", "[a\\]]", "[\\a]", "[]"),
    *("[a", "[a-b-z]", "[[]*", "[[:alpha:]]", "[[:alpha:]", "[[:alpha]", "[[:foo:]]", "[^[:alnum:]]"),
    *("foo//", "//foo", "/foo/", "*[!o]", "f**o", "*o*", "**\\#*", "\ufeffa", "a\\\\ ", "b\\  "),
)


def in_git(folder: Path) -> set[str]:
    """Return the list by git itself."""
    words = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    environ = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, check=True)
    return {os.fsdecode(name) for name in done.stdout.split(b"\0") if name}


def listed(folder: Path) -> set[str]:
    return {name for name in list_project(folder) if not name.endswith("/")}


def plant(folder: Path, chance: random.Random, depth: int = 0) -> None:
    """Files, directories and files of patterns, by chance."""
    folder.mkdir(exist_ok=True)
    if chance.random() < 0.6:
        lines = chance.choices(PATTERNS, k=chance.randint(1, 4))
        (folder / ".gitignore").write_text("\n".join(lines))
    for word in chance.sample(WORDS, k=4):
        if depth < 3 and chance.random() < 0.5:
            plant(folder / word, chance, depth + 1)
        else:
            (folder / word).touch()


def differing(folder: Path, seeds: range) -> list[int]:
    """The seeds of the trees that are not listed as git lists them."""
    found = []
    for seed in seeds:
        root = folder / str(seed)
        plant(root, random.Random(seed))
        subprocess.run(["git", "init", "-q", str(root)], check=True)
        if seed % 2:
            (root / ".git" / "info" / "exclude").write_text("x.log\n")
        inner = next(iter(path for path in root.iterdir() if path.is_dir() and path.name != ".git"), root)
        places = (root, inner) if in_git(inner) else (root,)
        if any(listed(place) != in_git(place) for place in places):
            found.append(seed)
    return found


def test_patterns_mean_what_they_mean_to_git(tmp_path: Path) -> None:
    assert differing(tmp_path, range(25)) == []


@each_row("pattern", ["?", "??", "x?z", "x??z", "[!a]", "[!a]*", "[é]", "é", "*é", "[à-ü]?", "日*"])
def test_a_pattern_counts_the_bytes_of_a_name_as_git_does(tmp_path: Path, pattern: str) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text(f"{pattern}\n", "utf-8")
    for name in ("a", "b", "é", "xéz", "xyz", "日本", "aé"):
        (tmp_path / name).touch()
    assert listed(tmp_path) == in_git(tmp_path)


def test_the_patterns_of_the_user_count_in_every_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, root = tmp_path / "home", tmp_path / "root"
    for name in ("root/a.swp", "root/sub/b.own", "root/sub/c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (home / ".config/git").mkdir(parents=True)
    (home / "dotfiles").write_text("*.swp\n")
    (home / ".config/git/ignore").symlink_to(home / "dotfiles")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert listed(root) == {"a.swp", "sub/b.own", "sub/c"}  # it is not a repository
    (root / ".git").write_text("gitdir: elsewhere\n")  # as in a worktree
    assert listed(root) == {"sub/b.own", "sub/c"}
    (home / ".gitconfig").write_text("[user]\n\tname = x\n[core]\n\tpager = cat\n\texcludesFile = ~/own\n")
    (home / "own").write_text("*.own\n")
    (root / ".gitignore").write_text("/sub/c\n")
    assert listed(root) == {"a.swp", ".gitignore"} and listed(root / "sub") == set()


def test_a_directory_called_gitignore_is_not_a_file_of_patterns(tmp_path: Path) -> None:
    (tmp_path / ".gitignore" / "inner").mkdir(parents=True)
    (tmp_path / "a.py").touch()
    assert listed(tmp_path) == {"a.py"} and listed(tmp_path / ".gitignore") == set()


def test_what_a_repository_excludes_counts_in_its_worktrees(tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    shared, own = main / ".git", main / ".git" / "worktrees" / "tree"
    for folder in (shared / "info", own, tree):
        folder.mkdir(parents=True)
    (shared / "info" / "exclude").write_text("*.log\n")
    (own / "commondir").write_text("../..\n")
    (tree / ".git").write_text(f"gitdir: {own}\n")
    for name in ("a.log", "a.py"):
        (tree / name).touch()
    assert listed(tree) == {"a.py"}


def test_a_glob_takes_its_characters_literally_behind_a_backslash() -> None:
    fits = name_matcher("\\[*\\]/**/*.{ts,tsx}")
    assert fits("[id]/a/page.tsx") and not fits("id/page.tsx")
    assert name_matcher("[id]*.ts")("[id]page.ts")  # and a set of characters also as it is written


@pytest.mark.sweep
def test_patterns_mean_what_they_mean_to_git_in_many_projects(tmp_path: Path) -> None:
    assert len(differing(tmp_path, range(25, 1_500))) <= 5  # what pathspec reads otherwise


def test_a_hostile_project_is_listed_in_bounded_time(tmp_path: Path) -> None:
    stars = "*a" * 100 + "b"
    (tmp_path / ".gitignore").write_text(
        "\n".join([stars] * 500 + ["**/" * 300 + "x", "/".join(["*a"] * 99)])
    )
    for number in range(20):
        (tmp_path / f"{'a' * 200}{number}").touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    deep = tmp_path / "deep"
    deep.mkdir()
    os.mkfifo(deep / ".gitignore")
    for _ in range(40):
        deep /= "d" * 50
    deep.mkdir(parents=True)
    (deep / "end").touch()
    found = list_project(tmp_path)
    assert sum("a" * 200 in name for name in found) == 20
    assert {"loop", "pipe"} <= set(found) and found[-1].endswith("/end")


def test_a_list_that_no_one_wants_any_more_ends(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").touch()
    looks = iter((False, False, True))
    assert list_project(tmp_path, lambda: next(looks)) == ["a/", "a/f"]
