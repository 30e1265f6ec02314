"""Layers over caches do not fill the disk for ever."""

import fcntl
import os
import socket
import time
from pathlib import Path

import pytest

from tools.sandbox.old_layers import MAX_UNUSED_S, use_layers


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
    folders = {}
    for name in ("net-dead", "net-alive", "net-young", "records", "open-records", "supervisor"):
        folders[name] = folder = tmp_path / f"makeroom-{name}"
        (folder / ".transcripts").mkdir(parents=True)
    (tmp_path / "makeroom-net-link").symlink_to(folders["supervisor"])
    for name in ("records", "open-records"):
        (folders[name] / ".transcripts" / "s.lock").touch()
    with socket.socket(socket.AF_UNIX) as dead, socket.socket(socket.AF_UNIX) as alive:
        dead.bind(str(folders["net-dead"] / "proxy"))
        alive.bind(str(folders["net-alive"] / "proxy"))
        alive.listen(1)
        dead.close()
        with (folders["open-records"] / ".transcripts" / "s.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for name, folder in folders.items():
                if name != "net-young":
                    os.utime(folder, (time.time() - 100,) * 2)
            use_layers(tmp_path / "layers" / "mine").join()
    assert {name for name, folder in folders.items() if not folder.exists()} == {"net-dead", "records"}
