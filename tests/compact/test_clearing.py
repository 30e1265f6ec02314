"""Blocks that can be cleared, the text that replaces them, and the savings stated in the edit."""

import pytest

from compact.block_tracker import tracker_of
from compact.clearing import (
    GAP,
    call_label,
    clear_candidates,
    ends_and_directives,
    head_and_tail,
    is_one_line,
    is_placeholder,
    is_replaced,
    omission_note,
    part_at,
    placeholder_edit,
    preview_edit,
    shown_text,
    user_block_edit,
    with_sentences,
)
from compact.directives import REQUEST
from compact.identifiers import file_path_of
from tests.narrowing import present
from tests.tables import each_row
from transcripts.facts import Result, StoredOutput
from transcripts.messages import ImageBlock, TextBlock, ToolUseBlock
from transcripts.view import PartKind

from .worlds import COUNT, World


def world(*calls):
    """A session of calls (name, result, arguments); the last thing is a text of the model."""
    made = World(judged=False)
    made.user("begin")
    for name, result, arguments in calls:
        made.call(name, result, **arguments)
    made.reply("done")
    return made


def found(made):
    return [(each.part.seq, each.field, each.gain) for each in clear_candidates(made.folded)]


def placeholder(made, part, field):
    return present(placeholder_edit(made.folded, part, field, COUNT))


def preview(made, part, characters):
    edit, files = preview_edit(made.situation, part, characters)
    return present(edit), files


def part(made, kind):
    return next(part for message in made.folded.view for part in message.parts if part.kind is kind)


@pytest.mark.parametrize(("tokens", "clearable"), [(89, False), (90, True)])
def test_a_result_is_cleared_where_that_frees_60_tokens_beyond_its_placeholder(tokens, clearable):
    made = world(("bash", "x" * 4 * tokens, {"command": "ls"}))
    assert found(made) == [(4, "content", tokens - 30)] * clearable


def test_what_the_model_has_not_seen_is_not_a_candidate():
    made = World(judged=False)
    made.user("begin")
    made.call("bash", "x" * 4_000, command="ls")
    assert found(made) == []
    made.reply("seen")
    assert len(found(made)) == 1


@each_row("name", ["file_path", "path", "notebook_path", "pattern", "description", "url", "glob"])
def test_what_says_what_a_call_is_about_stays(name):
    assert found(world(("write", "ok", {name: "x" * 4_000}))) == []


@pytest.mark.parametrize(("characters", "clearable"), [(280, False), (400, True)])
def test_long_texts_among_the_inputs_are_candidates_by_their_share(characters, clearable):
    made = world(("write", "ok", {"file_path": "a.py", "content": "x" * characters, "n": 5}))
    assert [field for _, field, _ in found(made)] == ["content"] * clearable


def test_a_short_field_is_not_a_candidate_however_many_tokens_it_has():
    made = World(judged=False)
    made.user("begin")
    made.call("write", "ok", file_path="a.py", content="\u4e16" * 159)
    made.call("write", "ok", file_path="a.py", content="\u4e16" * 160)
    made.reply("done")
    assert [seq for seq, _, _ in found(made)] == [6]


def test_placeholders_and_previews_are_not_candidates():
    made = world(
        ("bash", "[cleared: " + "x" * 4_000, {"command": "ls"}),
        ("bash", '<persisted-output path="' + "x" * 4_000, {"command": "ls"}),
        ("write", "ok", {"content": "[cleared: " + "x" * 4_000}),
    )
    assert found(made) == []


def test_the_placeholder_names_the_call_the_size_and_the_id():
    made = world(("bash", "x" * 4_000, {"command": "make all"}))
    edit = placeholder(made, part(made, PartKind.RESULT), "content")
    assert edit.text == '[cleared: bash make all, 1,000 tokens. recall("r4") shows it]'
    assert (edit.seq, edit.block, edit.field) == (4, 0, "content")
    assert edit.saves == 1_000 - COUNT.text(edit.text)


@pytest.mark.parametrize("pair", [("", "Never use make. " + "It is old. " * 9), ("Which?", "the small one")])
def test_what_a_user_said_stays_where_the_result_is_cleared_or_previewed(pair):
    made = World(judged=False)
    made.user("begin")
    reply = made.reply(ToolUseBlock("t", "bash", {"command": "make"}))
    made.result(reply, 0, "x" * 4_000 + pair[1], about=Result.about_remarks(pair))
    shown = part(made, PartKind.RESULT)
    cleared = placeholder(made, shown, "content").text
    heading, *said = cleared.splitlines()[1:]
    assert heading == "The user said:" and said == [" ".join(pair).strip()] and is_one_line(cleared)
    assert said[0] in preview(made, shown, 400)[0].text
    (block,) = tracker_of(made.folded).blocks
    assert abs(block.tokens - (sum(made.facts[-1].tokens) - COUNT.text(cleared))) < 30


def test_of_very_long_words_of_a_user_the_ends_and_what_directs_the_work_stay():
    made = World(judged=False)
    made.user("begin")
    reply = made.reply(ToolUseBlock("t", "bash", {"command": "make"}))
    said = "first. " + "hm, it is as it is. " * 400 + "Never use make. " + "so it goes. " * 400 + "last"
    made.result(reply, 0, said, about=Result.about_remarks(("", said)))
    text = placeholder(made, part(made, PartKind.RESULT), "content").text
    assert len(text) < 4_400 and "Never use make." in text and "\nfirst. " in text and text.endswith("last")
    assert 'recall("r4") shows all of it' in text


def test_the_placeholder_of_an_input_names_the_field_and_keeps_the_beginning_of_a_command():
    made = world(("write", "ok", {"file_path": "a.py", "content": "x" * 800, "command": "y" * 800}))
    shown = part(made, PartKind.INPUT)
    edit = placeholder(made, shown, "content")
    assert edit.text == '[cleared: content, 200 tokens. recall("r3.0") shows it]'
    assert edit.saves == COUNT.value("x" * 800) - COUNT.value(edit.text)
    command = placeholder(made, shown, "command").text
    assert command == f'[cleared: command {"y" * 79}\u2026, 200 tokens. recall("r3.0") shows it]'
    assert placeholder_edit(made.folded, shown, "nothing", COUNT) is None


def test_what_is_shorter_than_its_placeholder_is_not_replaced():
    made = world(("bash", "x" * 20, {"command": "ls"}), ("write", "ok", {"content": "x" * 20}))
    assert placeholder_edit(made.folded, part(made, PartKind.RESULT), "content", COUNT) is None


def test_a_preview_shows_the_beginning_and_names_the_file_that_keeps_all():
    made = world(("bash", "line " * 2_000, {"command": "cat log"}))
    edit, files = preview(made, part(made, PartKind.RESULT), 50)
    assert edit.text == (
        '<persisted-output path=".task_outputs/tool-results/r4.txt" characters="10000" recall="r4">\n'
        'Preview (the first 50 of 10,000 characters; recall("r4") pages through all of it):\n'
        f"{'line ' * 10}\n</persisted-output>"
    )
    assert files == (("r4.txt", "line " * 2_000),)
    assert edit.saves == COUNT.text("line " * 2_000) - COUNT.text(edit.text)
    assert preview_edit(made.situation, part(made, PartKind.USER), 50) == (None, ())
    assert preview_edit(made.situation, part(made, PartKind.RESULT), 10_000) == (None, ())


def test_an_output_that_is_stored_already_is_named_where_it_is():
    made = World(judged=False)
    made.user("begin")
    reply = made.reply(ToolUseBlock("t", "bash", {"command": "x"}))
    made.result(reply, 0, "line " * 2_000, stored=StoredOutput("out/log.txt", "sha", 99_999))
    edit, files = preview(made, part(made, PartKind.RESULT), 50)
    assert '<persisted-output path="out/log.txt"' in edit.text and files == ()


def test_of_a_long_text_of_the_user_the_sentences_that_direct_the_work_stay():
    rule = "Before you run a migration, wait for my go-ahead."
    text = f"{'The log says nothing of it. ' * 100}{rule} {'It went on for hours. ' * 100}"
    shown = ends_and_directives(text, 400, "r1.0")
    assert rule in shown.split("\n") and 'recall("r1.0") shows all of it' in shown and len(shown) < 600
    assert shown.startswith(text[:100]) and shown.endswith(text[-100:])
    plain = "The log says nothing of it. " * 100
    assert ends_and_directives(plain, 400, "r1.0") == head_and_tail(plain, 400, "r1.0")
    assert ends_and_directives(rule, 400, "r1.0") == rule
    for beside in (plain + rule, f"{rule} {plain}"):  # the ends show it
        assert ends_and_directives(beside, 400, "r1.0") == head_and_tail(beside, 400, "r1.0")
    many = " ".join(f"Never touch the table number {number}." for number in range(200))
    assert len(ends_and_directives(many, 400, "r1.0")) < 600


def test_sentences_of_a_long_text_stay_in_place_and_are_taken_off_its_ends():
    rule = "Before you run a migration, wait for my go-ahead."
    text = f"{'The log says nothing of it. ' * 100}{rule} {'It went on for hours. ' * 100}"
    begin, end = with_sentences(text, "r1.0", REQUEST, ends=400).split(f"{GAP}{rule}{GAP}")
    end, _, note = end.partition(" [... ")
    assert text.startswith(begin) and text.endswith(end)
    assert 400 - 2 <= len(begin) + len(rule) + len(end) <= 400 + 30
    assert note == f"{len(text) - len(begin) - len(rule) - len(end):,} " + note.partition(" ")[2]
    assert with_sentences(text, "r1.0", REQUEST, head=8).startswith(f"The log says{GAP}{rule} [... ")


def test_a_block_of_the_user_is_shown_by_head_and_tail_and_an_image_by_a_line():
    made = World(judged=False)
    made.user("a" * 500 + "b" * 500, ImageBlock("image/png", ""))
    text, image = made.folded.view[0].parts
    edit = present(user_block_edit(made.folded, text, 100, COUNT))
    assert edit.text == head_and_tail("a" * 500 + "b" * 500, 100, "r1.0")
    assert edit.text.startswith("a" * 50 + f"\n{omission_note(900, 'r1.0')}\n")
    assert edit.text.endswith("b" * 50) and edit.field == "text"
    line = present(user_block_edit(made.folded, image, 100, COUNT))
    assert line.field == "source"
    assert line.text == '[cleared: image of the user, 1,600 tokens. recall("r1.1") shows it]'


def test_head_and_tail_leaves_a_short_text_unchanged():
    assert head_and_tail("abcd", 4, "r1") == "abcd"
    assert head_and_tail("abcde", 4, "r1") != "abcde"


def test_placeholders_are_known_by_how_they_begin():
    assert (
        is_placeholder("[cleared: x")
        and is_placeholder("<persisted-output path")
        and not is_placeholder(" [cleared:")
    )
    assert is_one_line("[cleared: x") and not is_one_line("<persisted-output")


@each_row(
    ("arguments", "label"),
    [
        ({}, "f"),
        ({"path": "a" * 200}, "f " + "a" * 200),
        ({"command": "a" * 80}, "f " + "a" * 80),
        ({"command": "a" * 81}, "f " + "a" * 79 + "\u2026"),
        ({"description": "d", "command": "c"}, "f c"),
        ({"command": "[cleared: x]", "description": "d"}, "f d"),
        ({"other": [1]}, 'f {"other": [1]}'),
        ({"command": "two\n lines '*/.[!.]*'"}, "f two lines '*/.[!.]*'"),
    ],
)
def test_a_call_is_named_by_its_most_telling_argument(arguments, label):
    assert call_label(ToolUseBlock("t", "f", arguments)) == label


def test_the_file_of_a_call_and_the_text_of_a_block():
    assert file_path_of(ToolUseBlock("t", "f", {"path": 5, "notebook_path": "n.ipynb"})) == "n.ipynb"
    assert file_path_of(ToolUseBlock("t", "f", {"file_path": "a", "path": "b"})) == "a"
    assert file_path_of(ToolUseBlock("t", "f", {})) == ""
    assert shown_text(ToolUseBlock("t", "f", {})) == "" and shown_text(TextBlock("a")) == "a"
    made = world(("bash", (TextBlock("a"), ImageBlock("image/png", ""), TextBlock("b")), {"command": "x"}))
    assert shown_text(part(made, PartKind.RESULT).block) == "a\nb"
    assert not is_replaced(part(made, PartKind.RESULT))


def test_of_a_command_of_the_users_its_line_alone_may_direct_later_work():
    told = "Never push this.\n" * 60 + "Always ask.\n" + "Row.\n" * 60
    ran = f"<command-of-the-user>\n$ cat policy.txt\n{told}</command-of-the-user>"
    assert "Always ask." in ends_and_directives(told, 400, "r1.0")
    assert ends_and_directives(ran, 400, "r1.0") == head_and_tail(ran, 400, "r1.0")


def test_a_part_is_found_by_its_fact_and_block():
    made = world(("bash", "x" * 40, {"command": "make"}))
    view = made.folded.view
    at, shown = present(part_at(view, 4, 0))
    assert (view[at].parts.index(shown), shown.seq, shown.kind) == (0, 4, PartKind.RESULT)
    assert part_at(view, 4, 1) is None and part_at(view, 999, 0) is None
    assert part_at(World(judged=False).folded.view, 1, 0) is None
