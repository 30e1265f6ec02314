"""The simulated prompt cache follows the API's documented rules, position by position."""

import pytest

from agent.replay.cache_simulation import FIVE_MINUTES_S, LOOK_BACK_POSITIONS, PromptLayout, SimulatedCache
from transcripts.messages import TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from transcripts.view import Message, Part, PartKind

OVERHEAD = 1_000


def part(block, seq, tokens=100, kind=PartKind.USER, index=0):
    return Part(block, seq, index, kind, tokens)


def user(seq, text="words", tokens=100):
    return Message("user", (part(TextBlock(text), seq, tokens),), seq, seq)


def assistant(seq, *blocks, tokens=100):
    kinds = [
        PartKind.THINKING if isinstance(block, ThinkingBlock) else PartKind.ASSISTANT for block in blocks
    ]
    parts = tuple(
        part(b, seq, tokens, kind, i) for i, (b, kind) in enumerate(zip(blocks, kinds, strict=True))
    )
    return Message("assistant", parts, seq, seq)


def send(cache, layout, messages, marks=None, now=0.0):
    layout.update(messages)
    return cache.send(layout, [len(messages) - 1] if marks is None else marks, now)


def test_the_first_request_writes_everything_and_reads_nothing():
    served = send(SimulatedCache(), PromptLayout(OVERHEAD), [user(1)])
    assert (served.cache_read, served.cache_written, served.input) == (
        0,
        OVERHEAD + 100 + Message.FRAME_TOKENS,
        0,
    )


def test_a_request_that_only_grows_reads_what_the_one_before_left_and_writes_the_rest():
    cache, layout = SimulatedCache(), PromptLayout(OVERHEAD)
    talk = [user(1)]
    first = send(cache, layout, talk)
    talk += [assistant(2, TextBlock("hi")), user(3)]
    served = send(cache, layout, talk)
    assert served.cache_read == first.prompt
    assert served.cache_written == 2 * (100 + Message.FRAME_TOKENS)
    assert not cache.broke


def test_an_edit_behind_a_mark_that_stayed_reads_up_to_that_mark():
    cache, layout = SimulatedCache(), PromptLayout(OVERHEAD)
    talk = [user(1), assistant(2, TextBlock("a")), user(3), assistant(4, TextBlock("b")), user(5)]
    send(cache, layout, talk, [0, 4])
    edited = [*talk[:2], user(3, "[cleared]", 10), *talk[3:]]
    served = send(cache, layout, edited, [0, 4])
    assert served.cache_read == OVERHEAD + 100 + Message.FRAME_TOKENS
    assert cache.broke


def test_an_edit_with_no_mark_before_it_falls_back_to_system_and_tools():
    cache, layout = SimulatedCache(), PromptLayout(OVERHEAD)
    talk = [user(1), assistant(2, TextBlock("a")), user(3)]
    send(cache, layout, talk)
    served = send(cache, layout, [user(1, "changed"), *talk[1:]])
    assert served.cache_read == OVERHEAD


def test_an_entry_further_back_than_the_look_back_is_not_found():
    cache, layout = SimulatedCache(), PromptLayout(0)
    talk = [user(1)]
    send(cache, layout, talk)
    near = [*talk, assistant(2, *(TextBlock(str(i)) for i in range(LOOK_BACK_POSITIONS - 1))), user(3)]
    assert send(cache, layout, near).cache_read == 100 + Message.FRAME_TOKENS
    far = [*talk, assistant(4, *(TextBlock(f"{i}!") for i in range(LOOK_BACK_POSITIONS))), user(5)]
    assert send(cache, layout, far).cache_read == 0


def test_a_run_of_calls_or_of_results_is_one_position():
    cache, layout = SimulatedCache(), PromptLayout(0)
    talk = [user(1)]
    send(cache, layout, talk)
    uses = [ToolUseBlock(f"t{i}", "f", {}) for i in range(40)]
    results = tuple(part(ToolResultBlock(f"t{i}", (TextBlock("r"),)), 3 + i, 1) for i in range(40))
    talk += [assistant(2, *uses), Message("user", results, 3, 42)]
    assert send(cache, layout, talk).cache_read == 100 + Message.FRAME_TOKENS


def test_a_mark_never_stands_on_thinking():
    cache, layout = SimulatedCache(), PromptLayout(0)
    talk = [user(1), assistant(2, TextBlock("a"), ThinkingBlock("hm", "s")), user(3)]
    served = send(cache, layout, talk, [1])
    assert served.cache_written == 2 * (100 + Message.FRAME_TOKENS)
    assert served.input == 100 + 100 + Message.FRAME_TOKENS


def test_an_entry_lives_its_time_from_its_last_use_and_expiry_is_not_a_break():
    cache, layout = SimulatedCache(FIVE_MINUTES_S), PromptLayout(OVERHEAD)
    talk = [user(1)]
    send(cache, layout, talk, now=0)
    assert send(cache, layout, talk, now=299).cache_read > 0
    assert send(cache, layout, talk, now=598).cache_read > 0
    served = send(cache, layout, talk, now=899)
    assert served.cache_read == 0
    assert not cache.broke


def test_what_was_asked_behind_the_last_mark_is_neither_read_nor_written():
    cache, layout = SimulatedCache(), PromptLayout(OVERHEAD)
    talk = [user(1)]
    send(cache, layout, talk)
    served = send(cache, layout, [*talk, user(2)], [0])
    assert (served.cache_written, served.input) == (0, 100 + Message.FRAME_TOKENS)


def test_equal_content_in_new_messages_is_the_same_prefix():
    cache, layout = SimulatedCache(), PromptLayout(OVERHEAD)
    send(cache, layout, [user(1)])
    assert layout.update([user(1)]) == 0
    assert send(cache, layout, [user(1)]).cache_written == 0


def test_layout_lays_out_again_only_from_the_first_message_that_changed():
    layout = PromptLayout(OVERHEAD)
    talk = [user(1), assistant(2, TextBlock("a")), user(3)]
    assert layout.update(talk) == 0
    assert layout.update([*talk[:2], user(4)]) == 2
    assert layout.tokens == OVERHEAD + 3 * (100 + Message.FRAME_TOKENS)
    assert layout.update(talk[:1]) == 1
    assert layout.tokens == OVERHEAD + 100 + Message.FRAME_TOKENS


def test_more_breakpoints_than_the_api_takes_are_an_error():
    layout = PromptLayout(OVERHEAD)
    talk = [user(1), assistant(2, TextBlock("a")), user(3), assistant(4, TextBlock("b")), user(5)]
    layout.update(talk)
    with pytest.raises(ValueError, match="5 cache breakpoints"):
        SimulatedCache().send(layout, [0, 1, 2, 4], 0.0)
