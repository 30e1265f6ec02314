"""The branch on the status line."""

import subprocess
from pathlib import Path

from agent.session.repository_state import BRANCH_INTERVAL_S, BranchWatch, branch


def test_the_status_line_follows_the_branch_without_asking_git(tmp_path: Path) -> None:
    watch = BranchWatch(tmp_path / "src")
    assert watch.name(0.0) == ""
    (tmp_path / ".git").mkdir()
    head = tmp_path / ".git/HEAD"
    head.write_text("ref: refs/heads/main\n")
    assert watch.name(BRANCH_INTERVAL_S / 2) == "" and watch.name(BRANCH_INTERVAL_S) == "main"
    head.write_text("ref: refs/heads/x\x1b[2J\n")
    assert watch.name(99.0) == "x\\x1b[2J"
    head.unlink()
    assert watch.name(999.0) == ""


def test_the_branch_of_a_worktree_within_a_repository_and_of_a_submodule_is_its_own(tmp_path: Path) -> None:
    main, library = tmp_path / "main", tmp_path / "library"

    def git(folder: Path, *words: str) -> None:
        author = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")
        subprocess.run(["git", "-C", folder, *author, *words], check=True, capture_output=True)

    for folder in (main, library):
        folder.mkdir()
        git(folder, "init", "-q", "-b", folder.name)
        git(folder, "commit", "-qm", "one", "--allow-empty")
    tree, module = main / ".worktrees" / "fix", main / "lib"
    git(main, "worktree", "add", "-q", "-b", "fix/it", str(tree))
    git(main, "submodule", "add", str(library), "lib")
    (tree / "src").mkdir()
    named = {folder: BranchWatch(folder).name(0.0) for folder in (main, tree, tree / "src", module)}
    assert named == {main: "main", tree: "fix/it", tree / "src": "fix/it", module: "library"}
    assert branch(tree / "src") == f"fix/it (worktree or submodule at {tree})"
    git(tree, "checkout", "-q", "--detach")
    assert BranchWatch(tree).name(0.0).startswith("detached at ")


def test_a_file_that_leads_to_no_repository_has_no_branch(tmp_path: Path) -> None:
    for text in ("", "gitdir: nowhere", "gitdir: a\0b", "gitdir: /dev"):
        (tmp_path / ".git").write_text(text)
        assert BranchWatch(tmp_path).name(0.0) == ""
        assert branch(tmp_path) == f"a worktree or submodule at {tmp_path}"
