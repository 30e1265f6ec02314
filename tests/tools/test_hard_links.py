"""A file that is shared with other projects by a hard link and changed in place is reported."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.sandbox.guards import hard_links
from tools.sandbox.guards.hard_links import changed_links, report_changed_links

from .sandbox_session import SandboxedSession, sandboxed_session


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A project with packages whose files are linked from a store."""
    store, project = tmp_path / "store", tmp_path / "project"
    for name in ("a", "b", "same"):
        place = project / "node_modules/.pnpm" / name / "index.js"
        place.parent.mkdir(parents=True)
        store.mkdir(exist_ok=True)
        (store / name).write_text(name)
        place.hardlink_to(store / name)
    (project / "own").write_text("x")
    (project / "own2").hardlink_to(project / "own")
    (project / ".git").mkdir()
    (project / ".git/object").hardlink_to(store / "a")
    return project


def later() -> float:
    """A moment after all that was written."""
    mark = time.time()
    while time.time() < mark + 0.1:
        os.sched_yield()
    return time.time()


def test_links_that_are_made_for_rewind_are_no_names_in_other_projects(tmp_path: Path) -> None:
    held = tmp_path / ".transcripts/checkpoints/held"
    held.mkdir(parents=True)
    (tmp_path / "big").write_text("x")
    for session in ("1", "2"):
        (held / session).hardlink_to(tmp_path / "big")
    assert changed_links(tmp_path, 0.0) == []
    (tmp_path.parent / f"{tmp_path.name}-elsewhere").hardlink_to(tmp_path / "big")
    assert changed_links(tmp_path, 0.0) == ["big"]


def test_what_is_changed_in_place_is_reported_and_what_is_not_shared_is_not(shared: Path) -> None:
    since = later()
    assert changed_links(shared, since) == []
    (shared / "own").write_text("y")
    (shared / "new").write_text("z")
    other = shared / "node_modules/.pnpm/same/index.js"
    other.unlink()
    other.write_text("a file of its own")
    assert changed_links(shared, since) == []
    changed = shared / "node_modules/.pnpm/b/index.js"
    before = changed.stat()
    changed.write_text("patched")
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert changed_links(shared, since) == ["node_modules/.pnpm/b/index.js"]
    told: set[str] = set()
    (line,) = report_changed_links(shared, since, told)
    assert line.endswith("that changed while commands ran: node_modules/.pnpm/b/index.js")
    assert report_changed_links(shared, since, told) == []


@pytest.fixture
def sandboxed(tmp_path: Path) -> SandboxedSession:
    return sandboxed_session(tmp_path)


def test_after_sandboxed_commands_they_are_looked_for_once(shared: Path, sandboxed: SandboxedSession) -> None:
    sandboxed.require_sandbox()
    later()

    def looked() -> list[str]:
        return sandboxed.runner.run(sandboxed.commands.guard.look_at_links())

    assert looked() == []
    sandboxed.prints("echo patched >node_modules/.pnpm/a/index.js")
    assert (shared.parent / "store/a").read_text() == "patched\n"
    (told,) = looked()
    assert "node_modules/.pnpm/a/index.js" in told
    assert looked() == []
    sandboxed.end()


def test_a_file_that_is_removed_meanwhile_is_passed_over(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = hard_links._files

    def removing(top: int) -> Iterator[tuple[str, os.DirEntry[str]]]:
        for path, entry in walk(top):
            if path.endswith("a/index.js"):
                (shared / path).unlink()
            yield path, entry

    monkeypatch.setattr(hard_links, "_files", removing)
    assert changed_links(shared, 0.0) == [f"node_modules/.pnpm/{name}/index.js" for name in ("b", "same")]
