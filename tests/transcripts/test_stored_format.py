"""A transcript that an earlier version wrote is read, shown and written again unchanged.

data/every_kind.jsonl holds every kind of fact, edit and block; data/every_kind_views.json the views after
some of its facts, by seq, as that version showed them.
"""

import json
from pathlib import Path
from typing import Any

from transcripts.codec import encode_fact
from transcripts.facts import FACT_TYPES
from transcripts.folding import Folded
from transcripts.load import read_transcript
from transcripts.view import Message, View

from .api_rules import as_sent

DATA = Path(__file__).parent / "data"
LOADED = read_transcript(DATA / "every_kind.jsonl")


def written_down(view: View) -> list[dict[str, Any]]:
    return [
        {
            "role": message.role,
            "first": message.first,
            "last": message.last,
            "content": as_sent(message)["content"],
            "parts": [[part.seq, part.index, part.kind.name, part.tokens] for part in message.parts],
        }
        for message in view
    ]


def test_every_line_is_read_without_damage_and_written_again_byte_for_byte() -> None:
    assert LOADED.damaged == () and LOADED.torn_size == 0
    written = b"".join(encode_fact(fact, LOADED.sid) for fact in LOADED.facts)
    assert written == (DATA / "every_kind.jsonl").read_bytes()


def test_it_folds_to_the_views_that_were_stored_with_it() -> None:
    views = json.loads((DATA / "every_kind_views.json").read_text("utf-8"))
    folded = Folded()
    for fact in LOADED.facts:
        folded.apply(fact)
        if str(fact.seq) in views:
            assert written_down(folded.view) == views.pop(str(fact.seq)), f"after fact {fact.seq}"
    assert views == {}


def test_its_counts_are_what_they_were() -> None:
    folded = Folded()
    for fact in LOADED.facts:
        folded.apply(fact)
    assert (folded.last_reply_seq, folded.conversation.reply_count, folded.last_seq) == (42, 8, 48)
    assert (list(folded.gaps), folded.undone, folded.conversation.orphans) == ([38], {"c25": 27}, 1)
    measured = [(2900, 3100), (3600, 2100), (3600, 3700), (4500, 4500), (5000, 5600)]
    assert [(size.raw, size.tokens) for size in folded.sizes.requests] == measured
    usage = folded.usage
    assert (usage.input, usage.output, usage.cache_read) == (11_700, 250, 10_400)
    assert (usage.cache_written, usage.cache_written_hour) == (300, 100)
    assert folded.view.tokens == 256 + 6 * Message.CALL_ID_TOKENS


def test_it_holds_every_kind_of_fact_edit_and_block() -> None:
    raw = (DATA / "every_kind.jsonl").read_text("utf-8")
    for kind in FACT_TYPES:
        assert f'"kind":"{kind}"' in raw
    for edit in ("clear", "fold", "unthink"):
        assert f'"edit":"{edit}"' in raw
    for block in ("text", "image", "thinking", "redacted_thinking", "tool_use", "server_tool_use"):
        assert f'"type":"{block}"' in raw
