"""Layers over caches do not fill the disk for ever."""

import fcntl
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tools.sandbox.old_layers import MAX_UNUSED_S, use_layers

ROOT = Path(__file__).parents[2]


def layer_of(tmp_path: Path, name: str, age_s: float) -> Path:
    folder = tmp_path / name
    (folder / "0" / "home-.cache" / "work" / "work").mkdir(parents=True)
    (folder / "0" / "home-.cache" / "content").mkdir()
    (folder / "0" / "home-.cache" / "content" / "file").write_text("kept")
    (folder / "0" / "home-.cache" / "work" / "work").chmod(0)
    os.utime(folder, (time.time() - age_s,) * 2)
    return folder


def test_layers_that_were_not_used_for_a_month_are_removed_and_others_are_not(tmp_path: Path) -> None:
    old, recent = layer_of(tmp_path, "a", MAX_UNUSED_S + 60), layer_of(tmp_path, "b", MAX_UNUSED_S - 60)
    mine = layer_of(tmp_path, "c", MAX_UNUSED_S + 60)
    use_layers(mine).join()
    assert not old.exists()
    assert (recent / "0/home-.cache/content/file").read_text() == "kept"
    assert (mine / "0/home-.cache/content/file").exists()
    assert time.time() - mine.stat().st_mtime < MAX_UNUSED_S


def test_what_was_not_used_for_a_month_is_removed_from_the_state_directory(tmp_path: Path) -> None:
    kept = (
        "history",
        "approvals.json",
        "mcp-tokens/a.json",
        "journals/a.undo",
        f"drafts/p-{os.getpid()}.txt",
    )
    removed = (
        "drafts/p-999999999.txt",
        "reports/20260101-101112.md",
        "mcp/maps-1f2e.log",
        "put_aside/1f-config",
    )
    for name in (*kept, *removed, "git_copies/p-999999999/objects/ab/cd", "images/new.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("content")
    (tmp_path / "images" / "link").symlink_to(tmp_path / "history")
    old = (time.time() - MAX_UNUSED_S - 60,) * 2
    for name in (*kept, *removed, "git_copies/p-999999999", "images/link"):
        os.utime(tmp_path / name, old, follow_symlinks=False)
    use_layers(tmp_path / "cache_layers" / "mine").join()
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if not path.is_dir()}
    assert found == {*kept, "images/new.png"}


def test_directories_of_runs_that_were_killed_are_removed_and_those_of_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    removed = ("net-dead0000", "records0")
    kept = ("net-alive000", "net-young000", "open_rec", "supervis", "project0", "records-of-mine", "net-lab")
    folders = {name: tmp_path / f"makeroom-{name}" for name in (*removed, *kept)}
    for folder in folders.values():
        folder.mkdir()
    for name in ("records0", "open_rec", "project0", "records-of-mine"):
        (folders[name] / ".transcripts").mkdir()
        (folders[name] / ".transcripts" / "s.lock").touch()
    # Of these a run knows nothing but the name, or was killed there.
    (folders["project0"] / "work").write_text("the only copy")
    (folders["net-lab"] / "work").write_text("the only copy")
    (tmp_path / "makeroom-net-link0000").symlink_to(folders["supervis"])
    with socket.socket(socket.AF_UNIX) as dead, socket.socket(socket.AF_UNIX) as alive:
        dead.bind(str(folders["net-dead0000"] / "proxy"))
        alive.bind(str(folders["net-alive000"] / "proxy"))
        alive.listen(1)
        dead.close()
        with (folders["open_rec"] / ".transcripts" / "s.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for name, folder in folders.items():
                if name != "net-young000":
                    os.utime(folder, (time.time() - 100,) * 2)
            use_layers(tmp_path / "layers" / "mine").join()
    assert {name for name, folder in folders.items() if not folder.exists()} == set(removed)


REMOVAL = """
import os, sys, time
from pathlib import Path
from tools.sandbox.old_layers import MAX_UNUSED_S, use_layers

place = Path(sys.argv[1])
if os.geteuid() == 0:  # to whom no directory is read-only
    os.chown(place, 65534, 65534)
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
target, layer = place / "target", place / "cache_layers" / "old"
target.touch(0o640)
(layer / "read-only" / "below").mkdir(parents=True)
(layer / "read-only" / "below" / "link").symlink_to(target)
(layer / "read-only" / "below").chmod(0o500)
(layer / "read-only").chmod(0o500)
os.utime(layer, (time.time() - MAX_UNUSED_S - 60,) * 2)
use_layers(place / "cache_layers" / "mine").join()
print(layer.exists(), oct(target.stat().st_mode))
"""


def test_a_read_only_directory_is_removed_and_what_a_link_in_it_leads_to_stays_as_it_was() -> None:
    with TemporaryDirectory() as name:  # pytest's directories are closed to other users
        done = subprocess.run(
            [sys.executable, "-c", REMOVAL, name], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
        assert done.stdout == "False 0o100640\n", done.stderr
