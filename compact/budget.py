"""budget: results of one message that together are too large go to disk, largest first; a preview stays.

Runs before everything, at every call; micro would clear what budget has to save. A tool may be exempt: read
pages by itself.
"""

from __future__ import annotations

from transcripts.facts import Clear, Edit
from transcripts.messages import Text, ToolResult
from transcripts.view import Message, Part

from .placeholders import recall_id
from .plan import Situation

EXEMPT = ("read", "recall")
CHARS = 4  # characters to a token, for the share of the window


def plan_budget(situation: Situation) -> tuple[tuple[Edit, ...], tuple[tuple[str, str], ...]]:
    """(edits, files) for the newest message of results; older ones were looked at when they were newest."""
    view = situation.folded.view
    if not len(view) or view[-1].role != "user":
        return (), ()
    settings = situation.settings
    limit = min(settings.budget_chars, int(settings.budget_share * situation.window.size * CHARS))
    sizes = {index: _chars(part) for index, part in enumerate(view[-1].parts)}
    total = sum(sizes.values())
    edits: list[Edit] = []
    files: list[tuple[str, str]] = []
    for index in sorted(sizes, key=lambda index: -sizes[index]):
        if total <= limit or sizes[index] <= settings.preview_chars:
            break
        part = view[-1].parts[index]
        if not _eligible(view[-1], index):
            continue
        edit, name, text = preview(situation, part)
        total -= sizes[index] - len(edit.text)
        edits.append(edit)
        files.append((name, text))
    return tuple(edits), tuple(files)


def _eligible(message: Message, index: int) -> bool:
    part = message.parts[index]
    if not isinstance(part.block, ToolResult) or part.use is None or part.use.name.lower() in EXEMPT:
        return False
    return not text_of(part).startswith("<persisted-output")


def preview(situation: Situation, part: Part) -> tuple[Clear, str, str]:
    """The edit that shows a preview of a result, and the name and the text of the file that keeps it."""
    text = text_of(part)
    name = f"r{part.seq}.txt"
    head = text[: situation.settings.preview_chars]
    shown = (
        f'<persisted-output path=".task_outputs/tool-results/{name}" chars="{len(text)}" '
        f'recall="{recall_id(part)}">\n{head}\n[... {len(text) - len(head):,} more characters; '
        f"recall {recall_id(part)} pages through all of it]\n</persisted-output>"
    )
    saves = part.tokens - situation.count.text(shown)
    return Clear(part.seq, part.index, "content", shown, saves), name, text


def text_of(part: Part) -> str:
    """The text of a result as shown."""
    block = part.block
    if not isinstance(block, ToolResult):
        return block.text if isinstance(block, Text) else ""
    return "\n".join(piece.text for piece in block.content if isinstance(piece, Text))


def _chars(part: Part) -> int:
    return len(text_of(part)) if isinstance(part.block, ToolResult) else 0
