"""A project whose files are changed as tools and commands change them, and what it looks like."""

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

from agent.checkpoints.recorder import Checkpoints


class Seq:
    """The record's newest number."""

    def __init__(self) -> None:
        self.value = 1

    def __call__(self) -> int:
        return self.value


def tree(root: Path) -> dict[str, tuple[object, ...]]:
    """Bytes, modes and links of everything in the project but the record."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(root):
        if ".transcripts" in folders:
            folders.remove(".transcripts")
        for name in folders + files:
            path = Path(folder) / name
            about = path.lstat()
            if stat.S_ISLNK(about.st_mode):
                value: tuple[object, ...] = ("link", str(path.readlink()))
            elif stat.S_ISDIR(about.st_mode):
                value = ("dir", stat.S_IMODE(about.st_mode))
            else:
                value = ("file", stat.S_IMODE(about.st_mode), path.read_bytes())
            found[path.relative_to(root).as_posix()] = value
    return found


def run(checkpoints: Checkpoints, command: Callable[[], object]) -> None:
    checkpoints.begin()
    command()
    checkpoints.finish()


def write(checkpoints: Checkpoints, path: Path, text: str) -> None:
    checkpoints.announce(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    checkpoints.finish()


def copy_tree(template: Path, folder: Path) -> None:
    """Copy a prepared project with its modes, times and links: making its commits takes ten times as long."""
    subprocess.run(["cp", "-a", f"{template}/.", folder], check=True)
