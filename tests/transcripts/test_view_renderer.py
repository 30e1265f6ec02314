"""Rendering of single entries: tokens, kinds, and the texts for what is missing."""

from tests.tables import each_row
from transcripts.facts import Clear, Compacted, Edit, Fact, Fold, Reply, Result, Started, User
from transcripts.folding import Folded, fold
from transcripts.messages import (
    Block,
    ImageBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from transcripts.view import PartKind
from transcripts.view_renderer import rough_tokens

from .api_rules import as_sent

CALL = ToolUseBlock("t1", "bash", {"command": "ls", "timeout": 9})
FACTS: list[Fact] = [
    User(1, 0.0, (TextBlock("list"), ImageBlock("image/png", "AAAA")), (3, 900)),
    Reply(2, 0.0, (ThinkingBlock("hm", "sig"), TextBlock("ok"), CALL), (2, 1, 40)),
    Result(3, 0.0, 2, 2, (TextBlock("a.py"),), (50,), error=True),
]


def edited(*edits: Edit) -> Folded:
    return fold([*FACTS, Compacted(4, 0.0, "micro", "auto", edits)])


def kinds_and_tokens(folded: Folded) -> list[list[tuple[str, int]]]:
    return [[(part.kind.name, part.tokens) for part in message.parts] for message in folded.view]


@each_row(
    ("block", "tokens"),
    [
        (TextBlock("x" * 40), 11),
        (TextBlock(""), 1),
        (ThinkingBlock("x" * 8, "sig"), 3),
        (RedactedThinkingBlock("zz"), 1_600),
        (ImageBlock("image/png", "AAAA"), 1_600),
        (ToolUseBlock("t", "bash", {"a": "xx"}), 10),
        (ToolResultBlock("t", (TextBlock("x" * 40), TextBlock("x" * 4))), 13),
        (UnknownBlock({"type": "new"}), 4),
    ],
)
def test_a_block_that_was_not_counted_is_estimated_by_its_length(block: Block, tokens: int) -> None:
    assert rough_tokens((block,)) == tokens


def test_counts_of_a_fact_are_used_as_far_as_there_are_any() -> None:
    folded = fold([User(1, 0.0, (TextBlock("a"), TextBlock("x" * 40)), (7,))])
    assert kinds_and_tokens(folded) == [[("USER", 7), ("USER", 11)]]


def test_parts_have_their_kinds_and_tokens_and_results_name_their_call() -> None:
    folded = fold(FACTS)
    assert kinds_and_tokens(folded) == [
        [("USER", 3), ("USER", 900)],
        [("THINKING", 2), ("ASSISTANT", 1), ("INPUT", 40)],
        [("RESULT", 50)],
    ]
    assert folded.view[2].parts[0].use == CALL and (folded.view[2].first, folded.view[2].last) == (2, 3)
    assert folded.view[2].parts[0].seq == 3
    assert folded.view.tally == (903, 1, 2, 40, 50, 0) and folded.view.between(PartKind.INPUT, 1, 3) == 40
    assert as_sent(folded.view[2])["content"][0]["is_error"]


def test_the_last_message_with_so_many_tokens_before_it_is_found_by_the_tallies() -> None:
    view = edited().view
    assert len(view) > 2
    for tokens in range(-1, view.tokens + 2):
        fitting = [at for at in range(len(view) + 1) if view.tokens_before(at) <= tokens]
        assert view.last_before(tokens) == max(fitting, default=0)


def test_each_field_can_be_cleared_and_a_cleared_part_is_a_placeholder() -> None:
    folded = edited(
        Clear(1, 0, "text", "TEXT", 2),
        Clear(1, 1, "source", "IMAGE", 890),
        Clear(2, 2, "command", "COMMAND", 30),
        Clear(3, 0, "content", " ", 45),
    )
    assert kinds_and_tokens(folded) == [
        [("PLACEHOLDER", 1), ("PLACEHOLDER", 10)],
        [("THINKING", 2), ("ASSISTANT", 1), ("INPUT", 10)],
        [("PLACEHOLDER", 5)],
    ]
    prompt, reply, result = (as_sent(message)["content"] for message in folded.view)
    assert [block["text"] for block in prompt] == ["TEXT", "IMAGE"]
    assert reply[2]["input"] == {"command": "COMMAND", "timeout": 9}
    assert result[0]["content"] == [{"type": "text", "text": "[left out]"}] and result[0]["is_error"]


def test_a_field_that_a_block_does_not_have_is_not_cleared_and_no_part_counts_nothing() -> None:
    folded = edited(
        Clear(1, 0, "source", "x"),
        Clear(1, 1, "text", "x"),
        Clear(2, 2, "path", "x"),
        Clear(3, 0, "text", "x", 99),
    )
    assert [as_sent(message) for message in folded.view] == [as_sent(message) for message in fold(FACTS).view]
    assert folded.view[2].parts[0].tokens == 1


def test_the_tokens_of_a_fold_are_spread_over_its_blocks_and_empty_texts_left_out() -> None:
    blocks = (TextBlock("a"), TextBlock("b"), TextBlock(" "))
    assert kinds_and_tokens(edited(Fold(1, 3, blocks, 11))) == [[("PLACEHOLDER", 5), ("PLACEHOLDER", 3)]]
    assert kinds_and_tokens(edited(Fold(1, 3, (), 11))) == []


def test_only_a_call_that_had_started_itself_may_have_run() -> None:
    other = ToolUseBlock("t2", "bash", {})
    facts = [FACTS[0], Reply(2, 0.0, (CALL, other)), Result(4, 0.0, 2, 7, ()), Started(5, 0.0, 2, 1)]
    first, second = as_sent(fold(facts).view[-1])["content"]
    assert "not run" in first["content"][0]["text"] and "may have run" in second["content"][0]["text"]
    assert first["is_error"] and second["is_error"]
    assert [part.tokens for part in fold(facts).view[-1].parts] == [12, 12]
    assert [part.use for part in fold(facts).view[-1].parts] == [CALL, other]


def test_an_empty_result_is_named_and_empty_texts_are_left_out() -> None:
    empty = Result(3, 0.0, 2, 2, (TextBlock(""), TextBlock("\n")))
    folded = fold([*FACTS[:2], empty])
    assert as_sent(folded.view[2])["content"][0]["content"] == [{"type": "text", "text": "(no output)"}]
    assert folded.view[2].parts[0].tokens == 3


def test_what_only_another_role_may_hold_is_left_out() -> None:
    result = ToolResultBlock("t9", (TextBlock("x"),))
    thinking = (ThinkingBlock("a", "sig"), RedactedThinkingBlock("b"))
    user = User(1, 0.0, (TextBlock("a"), CALL, result, *thinking, TextBlock(" ")))
    reply = Reply(2, 0.0, (TextBlock("b"), result, ThinkingBlock("unsigned", ""), TextBlock("")))
    assert [len(message.parts) for message in fold([user, reply]).view] == [1, 1]
    assert len(fold([user, Reply(2, 0.0, thinking)]).view) == 1, "thinking alone is no reply"


def test_a_conversation_without_its_first_prompt_begins_with_a_note() -> None:
    folded = fold([Reply(2, 0.0, (TextBlock("b"),)), User(3, 0.0, (TextBlock("c"),))])
    assert [message.role for message in folded.view] == ["user", "assistant", "user"]
    assert "could not be read" in as_sent(folded.view[0])["content"][0]["text"]
    folded.apply(Compacted(4, 0.0, "micro", "auto", (Clear(2, 0, "text", "GONE"),)))
    assert [message.role for message in folded.view] == ["user", "assistant", "user"]


def test_prompts_without_a_reply_between_them_are_one_message_and_change_together() -> None:
    folded = fold([User(seq, 0.0, (TextBlock(f"prompt {seq}"),)) for seq in (1, 2, 3)])
    assert [len(message.parts) for message in folded.view] == [3]
    for seq in (3, 1):
        folded.apply(Compacted(folded.last_seq + 1, 0.0, "micro", "auto", (Clear(seq, 0, "text", "GONE"),)))
        assert [len(message.parts) for message in folded.view] == [3]
    assert [block["text"] for block in as_sent(folded.view[0])["content"]] == ["GONE", "prompt 2", "GONE"]
    assert (folded.view[0].first, folded.view[0].last) == (1, 3)
