"""What a call would touch, as the permission rules see it; free of the tools themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Access:
    """One thing a call would do.

    kind "read" and "write": `target` is the canonical real path. kind "run": `target` is the command line.
    kind "none" needs no permission. `protected` marks a place that always asks (see tools/paths.py),
    `outside` one outside the project.
    """

    kind: Literal["read", "write", "run", "none"]
    target: str = ""
    outside: bool = False
    protected: bool = False
