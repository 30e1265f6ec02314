"""Run the program with its own calls traced: JSON on standard error of which functions ran on the two ways.

Counted is every function of the product that is entered on the main thread (generator expressions and lambdas
too), once each; a coroutine that goes on after a wait is not entered again.
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
POST = ("_base_client.py", "post")  # of the SDK: the request goes out


def main() -> None:
    """Trace `makeroom ARGV`: from a prompt to its request, and from the reply's first event to the result."""
    ways: dict[str, set[tuple[str, str]]] = {"prompt": set(), "result": set()}
    entered: dict[int, FrameType] = {}  # kept, so that no other frame gets the same id
    resumed: set[int] = set()
    way = ""

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal way
        if event not in ("call", "return"):
            return
        code = frame.f_code
        name = code.co_qualname
        if code.co_name == POST[1] and code.co_filename.endswith(POST[0]):
            way = ""
        if not code.co_filename.startswith(PACKAGES):
            return
        is_new = (
            event == "call" and entered.setdefault(id(frame), frame) is frame and id(frame) not in resumed
        )
        resumed.add(id(frame))
        if event == "call" and name == "Controller.prompt" and not ways["prompt"]:
            way = "prompt"
        if event == "call" and name == "MessageAccumulator.feed" and not ways["result"]:
            way = "result"
        if way and is_new:
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
