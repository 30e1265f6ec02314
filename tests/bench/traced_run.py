"""Run the program with its own calls traced: which functions ran on the ways through it.

    python traced_run.py OUT ARGV...

Writes JSON to the file OUT: way -> [[file, function], ...]. Counted is every function of the product that is
entered on the main thread, once each. Comprehensions and generator expressions belong to the function that
holds them (from Python 3.12 on most have no frame of their own). A coroutine that continues after a wait is
not entered again. Left out are the warming of the command supervisor, a task of its own, the timer that saves
the input, and what a module runs while it is loaded: loading it when it is first used does not make a way
longer.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
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
AUTOSAVE = "UnsentInput.save_soon.<locals>.<lambda>"
SDK = "_base_client.py"
# Only calls are watched, and the returns of our own functions. With sys.setprofile, which also reports each
# call of a function in C, a run takes a quarter longer.
Watcher = Callable[[FrameType, str, Any], Any]


def main(out: Path) -> None:
    """Trace a run of the program with the arguments that are left."""
    seen: dict[str, set[tuple[str, str]]] = {way: set() for way in WAYS}
    under_way: set[str] = set()
    over: set[str] = set()
    entered: dict[int, FrameType] = {}  # kept, so that no other frame gets the same id
    aside: list[FrameType] = []  # the modules that are being loaded, and the timer that saves the input

    def watch(frame: FrameType, event: str, argument: Any) -> Watcher | None:
        """Note a call, and have `watch_end` called when a function of ours returns."""
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGES):
            if code.co_filename.endswith(SDK):
                end_ways(code.co_name)
            return None
        name = code.co_qualname
        is_new = id(frame) not in entered
        entered[id(frame)] = frame
        frame.f_trace_lines = False
        if name in ("<module>", AUTOSAVE):
            aside.append(frame)
        elif is_new:
            under_way.update(way for way, (first, _) in WAYS.items() if name == first and way not in over)
            if not aside and "<locals>.<" not in name and not code.co_filename.endswith(BESIDE):
                for way in under_way:
                    seen[way].add((code.co_filename.removeprefix(f"{ROOT}{os.sep}"), name))
        return watch_end

    def watch_end(frame: FrameType, event: str, argument: Any) -> Watcher:
        if event == "return":
            if frame in aside:
                aside.remove(frame)
            end_ways(frame.f_code.co_qualname)
        return watch_end

    def end_ways(name: str) -> None:
        ended = {way for way in under_way if WAYS[way][1] == name}
        over.update(ended)
        under_way.difference_update(ended)

    from agent.__main__ import main as makeroom

    sys.settrace(watch)
    try:
        makeroom()
    finally:
        sys.settrace(None)
        out.write_text(json.dumps({way: sorted(functions) for way, functions in seen.items()}))


main(Path(sys.argv.pop(1)))
