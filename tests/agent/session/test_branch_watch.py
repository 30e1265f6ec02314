"""The branch on the status line."""

from pathlib import Path

from agent.session.environment_context import BRANCH_INTERVAL_S, BranchWatch


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
