"""A session transcript of any size: reads, commands and edits in a project of 60 files, with summaries."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from transcripts import Display
from transcripts.codec import encode_fact
from transcripts.facts import Compacted, Fact, Fold, Reply, RequestSent, Result, Started, User
from transcripts.load import read_transcript
from transcripts.messages import TextBlock, ToolUseBlock, Usage
from transcripts.session_key import SessionKey

TURNS_BETWEEN_SUMMARIES = 25
CALLS_IN_TURN = 8


class LargeRecord:
    """Appends exchanges to a recorded session until its file has a size."""

    def __init__(self, path: Path, key: SessionKey) -> None:
        loaded = read_transcript(path)
        self.path = path
        self.sid = loaded.sid
        self.key = key
        self.seq = loaded.facts[-1].seq
        self.model = next(fact.model for fact in loaded.facts if isinstance(fact, Reply))
        self.dice = random.Random(5)

    def grow(self, size: int) -> None:
        """Append turns until the file has so many bytes."""
        written = self.path.stat().st_size
        turns = 0
        with self.path.open("ab") as file:
            while written < size:
                for fact in self.turn():
                    written += file.write(self.key.sign(encode_fact(fact, self.sid)))
                turns += 1
                if turns % TURNS_BETWEEN_SUMMARIES == 0:
                    written += file.write(self.key.sign(encode_fact(self.summary(), self.sid)))

    def _next(self) -> tuple[int, float]:
        self.seq += 1
        return self.seq, 1.5e9 + self.seq

    def summary(self) -> Fact:
        last = self.seq
        text = f"All so far, up to r{last}: the parser was changed and the tests pass. " * 60
        edits = (Fold(1, last, (TextBlock(text),), 900),)
        return Compacted(*self._next(), "summary", "auto", edits)

    def turn(self) -> Iterator[Fact]:
        words = f"Please look at part_{self.dice.randrange(60)} once more, step {self.seq}."
        yield User(*self._next(), (TextBlock(words),), (20,))
        for _ in range(CALLS_IN_TURN):
            yield from self.call()
        asked = RequestSent(*self._next(), "turn", 60_000, 50_000)
        yield asked
        answer = (TextBlock(f"The step {self.seq} is done, see `step_{self.seq}_result`. " * 8),)
        yield Reply(
            *self._next(), answer, (60,), Usage(100, 60, 60_000), "end_turn", True, self.model, asked.seq
        )

    def call(self) -> Iterator[Fact]:
        dice = self.dice
        file = f"src/package_{dice.randrange(6)}/part_{dice.randrange(60)}.py"
        asked = RequestSent(*self._next(), "turn", 60_000, 50_000)
        yield asked
        kind = dice.choice(("read", "read", "bash", "bash", "edit"))
        arguments: dict[str, object] = {"file_path": file}
        output = ""
        if kind == "read":
            first = dice.randrange(1, 400)
            arguments |= {"offset": first, "limit": 240}
            output = "".join(
                f"{first + line:6}\tdef function_{line % 40}(self, value_{line}): return {line}\n"
                for line in range(240)
            )
        elif kind == "bash":
            arguments = {"command": f"python -m pytest {file} -k case_{dice.randrange(999)}"}
            output = "".join(
                f"tests/test_part_{line}.py::test_case_{dice.randrange(9999)} PASSED in 0.{line:03} s\n"
                for line in range(dice.choice((3, 20, 200)))
            )
        else:
            body = "".join(f"    value_{line} = compute_{dice.randrange(99)}()\n" for line in range(12))
            arguments |= {"old_string": body, "new_string": body.replace("compute", "derive")}
            output = f"Edited {file}: 12 lines changed."
        use = ToolUseBlock(f"toolu_{self.seq:08}", kind, arguments)
        said = TextBlock(f"Now I {kind} {file}, since function_{dice.randrange(40)} may be involved.")
        reply = Reply(
            *self._next(),
            (said, use),
            (30, 20 + len(str(arguments)) // 4),
            Usage(100, 60, 60_000),
            "tool_use",
            True,
            self.model,
            asked.seq,
        )
        yield reply
        yield Started(*self._next(), reply.seq, 1)
        about = {"path": file, "sha256": f"{self.seq:064x}"} if kind == "read" else {}
        human = Display(text=output[:2000]) if kind == "bash" else Display()
        yield Result(
            *self._next(), reply.seq, 1, (TextBlock(output),), (len(output) // 4,), human=human, about=about
        )
