"""What walled commands of a session may touch, from what is in its project and its home."""

from __future__ import annotations

import os
from pathlib import Path

from .wall import WallProfile

_RECORDS = (".transcripts", ".task_outputs")
_HIDDEN_FOLDERS = (".ssh", ".aws", ".gnupg", ".kube", ".docker")


def wall_profile(folder: Path, home: Path) -> WallProfile:
    """The profile of a project in its real folder."""
    hidden = [home / name for name in _HIDDEN_FOLDERS]
    hidden += [Path("/etc/shadow"), Path("/etc/gshadow"), Path("/run")]
    git = folder / ".git"
    return WallProfile(
        folder=folder,
        read_only=tuple(path for path in (git / "hooks", git / "config") if path.exists()),
        hidden=tuple(Path(os.path.realpath(path)) for path in hidden if path.exists()),
        records=tuple(folder / name for name in _RECORDS if (folder / name).is_dir()),
    )
