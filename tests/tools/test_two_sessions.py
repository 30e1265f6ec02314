"""Two sessions that change one file at the same time: no change of either is lost."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tools.base import ToolError
from tools.files import FileError

from .file_session import FileSession

LINES = 12
STEPS = 8  # of each session


def numbers(content: str) -> dict[int, int]:
    """The version of each line of the file."""
    found = {}
    for line in content.splitlines():
        name, version = line.split(" is version ")
        found[int(name.removeprefix("line "))] = int(version)
    return found


async def work(files: FileSession, own: list[int], made: dict[int, int], source: random.Random) -> None:
    """Change own lines by edits, and by writing the whole file as this session has read it."""
    for _ in range(STEPS):
        line = source.choice(own)
        version = made[line]
        try:
            if source.random() < 0.6:
                old, new = (f"line {line} is version {each}\n" for each in (version, version + 1))
                await files.act("edit", file_path="f", old_string=old, new_string=new)
            else:
                await files.act("read", file_path="f")
                content = files.path("f").read_text()
                for _ in range(source.randrange(4)):
                    await asyncio.sleep(0)
                changed = numbers(content) | {line: version + 1}
                text = "".join(f"line {each} is version {at}\n" for each, at in sorted(changed.items()))
                await files.act("write", file_path="f", content=text)
        except (FileError, ToolError):
            continue  # the other session was there in between: nothing was changed
        made[line] = version + 1


def run_together(folder: Path, seed: int) -> int:
    """Let two sessions work on one file; return the number of their changes that were refused."""
    folder.mkdir()
    (folder / "f").write_text("".join(f"line {each} is version 0\n" for each in range(LINES)))
    made = dict.fromkeys(range(LINES), 0)
    sessions = [FileSession(folder), FileSession(folder)]
    own = [list(range(0, LINES, 2)), list(range(1, LINES, 2))]

    async def together() -> None:
        for files in sessions:
            await files.act("read", file_path="f")
        await asyncio.gather(
            *(
                work(files, lines, made, random.Random(f"{seed} {lines[0]}"))
                for files, lines in zip(sessions, own, strict=True)
            )
        )

    asyncio.run(together())
    assert numbers((folder / "f").read_text()) == made
    assert sessions[0].litter() == []
    return 2 * STEPS - sum(made.values())


def test_two_sessions_with_one_file_lose_nothing(tmp_path: Path) -> None:
    refused = sum(run_together(tmp_path / str(seed), seed) for seed in range(10))
    assert 0 < refused < 10 * 2 * STEPS  # they were in each other's way, and got through


@pytest.mark.sweep
def test_two_sessions_lose_nothing_in_200_interleavings(tmp_path: Path) -> None:
    for seed in range(1_000, 1_200):
        run_together(tmp_path / str(seed), seed)
