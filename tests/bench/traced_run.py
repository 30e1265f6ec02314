"""Run the program with its own calls traced: JSON on standard error of which functions ran on the two ways.

Counted is every function of the product that is entered on the main thread, once each. Comprehensions and
generator expressions belong to the function that holds them (from Python 3.12 on most have no frame of their
own), and a coroutine that goes on after a wait is not entered again. What the warming of the command
supervisor does meanwhile, a task of its own, is left out.
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
BEGINNINGS = {"Controller.prompt": "prompt", "MessageAccumulator.feed": "result"}  # function -> the way
BESIDE = ("tools/sandbox/supervisor_client.py",)
POST = ("_base_client.py", "post")  # of the SDK: the request goes out


def main() -> None:
    """Trace `makeroom ARGV`: from a prompt to its request, and from the reply's first event to the result."""
    ways: dict[str, set[tuple[str, str]]] = {"prompt": set(), "result": set()}
    entered: dict[int, FrameType] = {}  # kept, so that no other frame gets the same id
    way = ""

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal way
        code = frame.f_code
        name = code.co_qualname
        if event not in ("call", "return"):
            return
        if code.co_name == POST[1] and code.co_filename.endswith(POST[0]):
            way = ""
        if not code.co_filename.startswith(PACKAGES):
            return
        is_new = id(frame) not in entered
        entered[id(frame)] = frame
        if is_new and not ways[(begun := BEGINNINGS.get(name, "prompt"))] and name in BEGINNINGS:
            way = begun
        if way and is_new and "<locals>.<" not in name and not code.co_filename.endswith(BESIDE):
            ways[way].add((code.co_filename.removeprefix(f"{ROOT}{os.sep}"), name))
        if event == "return" and name == "Session.result" and way == "result":
            way = ""

    from agent.__main__ import main as makeroom

    sys.setprofile(watch)
    try:
        makeroom()
    finally:
        sys.setprofile(None)
        print(json.dumps({name: sorted(seen) for name, seen in ways.items()}), file=sys.stderr)


main()
