from tests.tables import each_row
from transcripts.messages import UnknownBlock, Usage, block_from_json


@each_row(
    "raw",
    [
        {"type": "text", "text": 5},
        {"type": "text"},
        {"type": "image", "source": "x"},
        {"type": "image", "source": {"type": "url", "url": "x"}},
        {"type": "thinking", "signature": "x"},
        {"type": "tool_use", "id": "a", "name": "b"},
        {"type": "tool_result", "tool_use_id": "a", "content": [5]},
        {"type": "future", "x": 1},
        {},
    ],
)
def test_an_unreadable_block_is_sent_back_unchanged(raw: dict[str, object]) -> None:
    block = block_from_json(raw)
    assert isinstance(block, UnknownBlock)
    assert block.to_json() == raw


def test_unknown_fields_of_a_block_are_kept() -> None:
    for raw in (
        {"type": "text", "text": "a", "citations": [1]},
        {"type": "thinking", "thinking": "a", "signature": "b", "extra": {"c": 1}},
        {"type": "tool_use", "id": "a", "name": "b", "input": {}, "caller": "x"},
    ):
        assert block_from_json(raw).to_json() == raw


def test_the_tokens_of_two_replies_are_summed_kind_by_kind() -> None:
    one, other = Usage(1, 20, 300, 4_000, 50_000), Usage(2, 30, 400, 5_000, 60_000)
    assert one + other == Usage(3, 50, 700, 9_000, 110_000)
    assert sum([one, other], Usage()).cache_written_hour == 110_000


def test_the_prompt_is_all_that_was_read_and_written_and_the_total_adds_the_output() -> None:
    usage = Usage(input=1, output=20, cache_read=300, cache_written=4_000, cache_written_hour=3_000)
    assert (usage.prompt, usage.total) == (4_301, 4_321)


def test_usage_adds_up_and_subtracts_in_every_field() -> None:
    names = Usage.__struct_fields__
    one = Usage(**{name: at for at, name in enumerate(names, 1)})
    other = Usage(**{name: 10 * at for at, name in enumerate(names, 1)})
    assert one + other == Usage(**{name: 11 * at for at, name in enumerate(names, 1)})
    assert (one + other) - other == one
