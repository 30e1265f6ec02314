"""Every edit of recorded sessions changes the bytes that were named, and nothing else.

`MAKEROOM_RECORDINGS=FOLDER python -m pytest -m bench -n 0 -s tests/bench/test_recorded_edits.py`
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.file_session import FileSession
from tools.base import ToolError
from tools.files import FileError
from tools.files.opening import load_file
from tools.files.workspace import SeenFile

FOLDER = os.environ.get("MAKEROOM_RECORDINGS", "")
NAMES = (("old_string", "new_string"), ("oldText", "newText"), ("old_str", "new_str"))


def recorded_edits() -> Iterator[tuple[str, str, bool]]:
    """(old, new, whether all are replaced) of each edit that has both."""
    for path in sorted(Path(FOLDER).glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            content = json.loads(line)["content"]
            for block in content if isinstance(content, list) else ():
                given = block.get("input", {})
                for old, new in NAMES:
                    if isinstance(given.get(old), str) and isinstance(given.get(new), str):
                        yield given[old], given[new], bool(given.get("replace_all"))


@pytest.mark.bench
@pytest.mark.skipif(not FOLDER, reason="MAKEROOM_RECORDINGS names no folder of recordings")
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_recorded_edits_are_byte_equal(tmp_path: Path, newline: str) -> None:
    files, equal, refused = FileSession(tmp_path), 0, []
    edits = [edit for edit in recorded_edits() if edit[0] and edit[0] != edit[1]]
    for old, new, every in edits:
        before = f"first é line\n{old}\nlast line\n".replace("\n", newline)
        path = files.put("f", before.encode())
        files.context.seen[str(path)] = SeenFile(load_file(str(path)).sha256)
        wanted = before.replace(old.replace("\n", newline), new.replace("\n", newline))
        try:
            files.edit("f", old, new, replace_all=every)
        except (FileError, ToolError) as error:
            refused.append(f"{error}"[:200])
            continue
        equal += path.read_bytes() == wanted.encode()
    print(f"\n{equal} of {len(edits)} recorded edits are byte-equal; refused: {refused}")
    assert equal == len(edits)
