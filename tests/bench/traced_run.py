"""Run the program with its own calls traced: which functions ran on the ways through it.

    python traced_run.py OUT ARGV...

Writes JSON to the file OUT: way -> [[file, function], ...]. Counted is every function of the product that is
entered on the main thread, once each. Comprehensions and generator expressions belong to the function that
holds them (from Python 3.12 on most have no frame of their own). A coroutine that continues after a wait is
not entered again. The warming of the command supervisor, a task of its own, is left out. What a module runs
while it is loaded is left out as well: loading it when it is first used does not make a way longer.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = tuple(f"{ROOT / name}{os.sep}" for name in ("agent", "tools", "compact", "transcripts"))
# The function whose first call begins a way, and the function whose return ends it.
WAYS = {
    "prompt": ("Controller.prompt", "post"),  # of the SDK: the request goes out
    "result": ("MessageAccumulator.feed", "Session.result"),
    "question": ("ApprovalDialog.ask", "Session.result"),
    "compaction": ("compact_context", "Session.compacted"),
}
# A task of its own, and what loads modules and patterns when they are first used.
BESIDE = (
    "agent/import_guard.py",
    "agent/model/anthropic/sdk_import.py",
    "tools/sandbox/supervisor_client.py",
    "transcripts/lazy_door.py",
    "transcripts/patterns.py",
)
SDK = "_base_client.py"


def main(out: Path) -> None:
    """Trace a run of the program with the arguments that are left."""
    seen: dict[str, set[tuple[str, str]]] = {way: set() for way in WAYS}
    under_way: set[str] = set()
    over: set[str] = set()
    entered: dict[int, FrameType] = {}  # kept, so that no other frame gets the same id
    loading: list[FrameType] = []  # the modules that are being loaded

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return"):
            return
        own = code.co_filename.startswith(PACKAGES)
        if not own and not code.co_filename.endswith(SDK):
            return
        name = code.co_qualname if own else code.co_name
        is_new = own and id(frame) not in entered
        if own:
            entered[id(frame)] = frame
        if own and name == "<module>":
            if event == "call":
                loading.append(frame)
            elif frame in loading:
                loading.remove(frame)
            return
        if is_new:
            under_way.update(way for way, (first, _) in WAYS.items() if name == first and way not in over)
            if not loading and "<locals>.<" not in name and not code.co_filename.endswith(BESIDE):
                for way in under_way:
                    seen[way].add((code.co_filename.removeprefix(f"{ROOT}{os.sep}"), name))
        if event == ("return" if own else "call"):
            ended = {way for way in under_way if WAYS[way][1] == name}
            over.update(ended)
            under_way.difference_update(ended)

    from agent.__main__ import main as makeroom

    sys.setprofile(watch)
    try:
        makeroom()
    finally:
        sys.setprofile(None)
        out.write_text(json.dumps({way: sorted(functions) for way, functions in seen.items()}))


main(Path(sys.argv.pop(1)))
