"""Small sessions for the tests of replay, made in code."""

from transcripts.facts import Fact, Reply, Result, User
from transcripts.messages import TextBlock, ThinkingBlock, ToolUseBlock


def count_text(text):
    return len(text) // 4 + 1


class Counted:
    """A counter by length: nothing to load."""

    name = "length"

    def text(self, text):
        return count_text(text)

    def blocks(self, blocks):
        return tuple(count_text(repr(block)) for block in blocks)


def session(turns, result_chars=4_000, gap=0.0, thinks=False):
    """A prompt, then `turns` exchanges that each read a file and name what the one before had shown."""
    facts: list[Fact] = [User(1, 0.0, (TextBlock("keep the promise; never push"),), (8,))]
    for turn in range(turns):
        seq, now = len(facts) + 1, (turn + 1) * gap
        call = ToolUseBlock(
            f"t{turn}", "read", {"path": f"src/part_{turn}.py", "about": f"uses name_{turn - 1}_x"}
        )
        blocks = (ThinkingBlock("hm " * 20, "sig"), call) if thinks else (call,)
        facts.append(Reply(seq, now, blocks, tuple(20 for _ in blocks)))
        shown = f"def name_{turn}_x(): ..." + f"line {turn} " * (result_chars // 8)
        at = len(blocks) - 1
        facts.append(Result(seq + 1, now, seq, at, (TextBlock(shown),), (count_text(shown),)))
    facts.append(Reply(len(facts) + 1, turns * gap, (TextBlock("done"),), (2,)))
    return tuple(facts)
