"""The mutants that are known to survive, with the reason: `survivors.toml`, one table a mutant.

[[survivor]]
module = "transcripts/folding.py"
place = "Folded.apply"
code = "if fact.seq > self.last_seq + 1:"
change = "1 -> 2"
reason = "why no test can tell it, or why none should"
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from .mutants import Mutant

PATH = Path(__file__).with_name("survivors.toml")


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that is known to survive, by what stays when lines move."""

    module: str
    place: str
    code: str
    change: str
    reason: str

    def is_made_by(self, mutant: Mutant) -> bool:
        return (self.place, self.code, self.change) == (mutant.place, mutant.code, mutant.change)


def known_survivors(module: str, path: Path = PATH) -> list[Survivor]:
    """Those of one module. Raises ValueError or TypeError where the file is not as it should be."""
    tables = tomllib.loads(path.read_text("utf-8")).get("survivor", [])
    return [survivor for survivor in (Survivor(**table) for table in tables) if survivor.module == module]
