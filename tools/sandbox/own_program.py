"""Find the files of the running program: the installation of its interpreter, and our packages.

Modules are also imported late, outside the sandbox and with the key in the environment. So commands may not
write them, even if they are in the project, such as in a checkout with its own `.venv`.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent  # contains our packages
_PACKAGES = ("agent", "tools", "compact", "transcripts")
_INSTALLED = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")


def own_program(writable: Iterable[Path]) -> list[Path]:
    """Return the real paths of the program's files and directories within writable directories.

    An installation that contains a writable directory is represented by its parts in it.
    """
    places = [*writable]
    inner = [path for path, above in _program() if not above.isdisjoint(places)]
    return [
        path for path in inner if not any(path != other and path.is_relative_to(other) for other in inner)
    ]


@cache
def _program() -> tuple[tuple[Path, frozenset[Path]], ...]:
    """Return the real paths of the program, each with the directories above it."""
    prefixes = dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix))
    found = [*prefixes, *(f"{prefix}/pyvenv.cfg" for prefix in prefixes)]
    found += [path for name in _INSTALLED if (path := sysconfig.get_path(name))]
    found += [path for path in sys.path if path.endswith(("/site-packages", "/dist-packages"))]
    found += [str(ROOT / name) for name in _PACKAGES]
    real = (Path(path).resolve() for path in dict.fromkeys(found))
    return tuple((path, frozenset(path.parents)) for path in real if path.exists())
