"""Remove layers over caches that belong to projects which nobody has worked on for long."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

MAX_UNUSED_S = 30 * 24 * 3600.0


def use_layers(folder: Path) -> threading.Thread:
    """Mark the layers of a project as used, and remove those of others that were not for 30 days.

    That is done by a thread which does not keep the program from ending; what it leaves is removed next time.
    """
    thread = threading.Thread(target=_use, args=(folder,), daemon=True)
    thread.start()
    return thread


def _use(folder: Path) -> None:
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(folder)
        for other in folder.parent.iterdir():
            if other != folder and time.time() - other.stat().st_mtime > MAX_UNUSED_S:
                shutil.rmtree(other, onerror=_open_and_retry)


def _open_and_retry(act: Callable[..., Any], path: str, _: object) -> None:
    """The kernel's own folder in a layer is closed to its owner too; what cannot be removed stays."""
    with suppress(OSError):
        os.chmod(path, 0o700)  # noqa: PTH101
        if act in (os.rmdir, os.open, os.scandir):
            shutil.rmtree(path, ignore_errors=True)
