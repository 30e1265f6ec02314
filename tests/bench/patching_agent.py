"""Derive from recorded sessions those of an agent that patches: it reads by commands and edits by patches.

Reads become `sed -n` in bash without line numbers, and each edit becomes a patch, so that the newest text of
what an edit touched is in the model's own patch, and no call names its file in an argument.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from compact.identifiers import OLD_TEXT_ARGUMENTS, file_path_of
from compact.tokens import TokenCounter
from transcripts.facts import Fact, Reply, Result
from transcripts.messages import Block, TextBlock, ToolUseBlock
from transcripts.patterns import lazy_pattern

_NUMBER = lazy_pattern(r"(?m)^ *\d+(?:→|\t)")


def as_patching_agent(facts: Iterable[Fact], counter: TokenCounter) -> Iterator[Fact]:
    """Yield the facts with reads as commands and edits as patches."""
    reads: set[tuple[int, int]] = set()  # (seq, block) of the calls that read
    for fact in facts:
        if isinstance(fact, Reply):
            blocks = tuple(map(_call, fact.blocks))
            for index, (before, after) in enumerate(zip(fact.blocks, blocks, strict=True)):
                if isinstance(before, ToolUseBlock) and before.name.lower() == "read" and before != after:
                    reads.add((fact.seq, index))
            changed = [index for index, block in enumerate(blocks) if block is not fact.blocks[index]]
            tokens = list(fact.tokens)
            for index in changed:
                tokens[index] = sum(counter.blocks((blocks[index],)))
            yield replace(fact, blocks=blocks, tokens=tuple(tokens))
        elif isinstance(fact, Result) and (fact.of, fact.block) in reads:
            content = tuple(_unnumbered(block) for block in fact.content)
            yield replace(fact, content=content, tokens=counter.blocks(content))
        else:
            yield fact


def _call(block: Block) -> Block:
    if not isinstance(block, ToolUseBlock) or not (path := file_path_of(block)):
        return block
    given = block.input
    if block.name.lower() == "read":
        first = int(given.get("offset") or 1)
        command = f"sed -n '{first},{first + int(given.get('limit') or 2_000) - 1}p' {path}"
        return replace(block, name="bash", input={"command": command})
    old = next((given[name] for name in OLD_TEXT_ARGUMENTS if isinstance(given.get(name), str)), None)
    new = next((given[name] for name in _NEW_TEXTS if isinstance(given.get(name), str)), None)
    if new is None:
        return block
    if old is None:
        lines = [f"*** Add File: {path}"]
    else:
        lines = [f"*** Update File: {path}", "@@", *(f"-{line}" for line in old.split("\n"))]
    lines += [f"+{line}" for line in new.split("\n")]
    patch = "\n".join(("*** Begin Patch", *lines, "*** End Patch"))
    return replace(block, name="apply_patch", input={"input": patch})


_NEW_TEXTS = ("new_string", "newText", "new_str", "content")


def _unnumbered(block: Block) -> Block:
    return TextBlock(_NUMBER.sub("", block.text)) if isinstance(block, TextBlock) else block
