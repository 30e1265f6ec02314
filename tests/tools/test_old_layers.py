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
