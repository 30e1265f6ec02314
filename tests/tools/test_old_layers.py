"""Layers over caches do not fill the disk for ever."""

import os
import time
from pathlib import Path

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
