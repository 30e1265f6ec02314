"""A reference is the first use of a name that only tool results had; the view says where it stands."""

from agent.replay.references import (
    Reference,
    file_edits,
    is_in_view,
    judge_reference,
    references,
    replacements_in,
)
from agent.replay.references import ReferenceState as State
from transcripts.facts import Clear, Compacted, Fold, Reply, Result, Undone, User
from transcripts.folding import fold
from transcripts.messages import TextBlock, ThinkingBlock, ToolUseBlock


def talk(*facts):
    return (User(1, 0.0, (TextBlock("look into the_topic"),)), *facts)


def reads(seq, shown, **arguments):
    call = ToolUseBlock(f"t{seq}", "read", arguments or {"path": "a/b.py"})
    return Reply(seq, 0.0, (call,)), Result(seq + 1, 0.0, seq, 0, (TextBlock(shown),))


def found(*facts):
    return [reference for hits in references(talk(*facts)).values() for reference in hits]


def test_a_name_learned_from_results_and_used_in_a_call_is_a_reference_to_all_of_them():
    facts = (*reads(2, "def some_name"), *reads(4, "some_name()"), *reads(6, "", query="grep some_name"))
    assert found(*facts) == [Reference("some_name", 6, (3, 5))]


def test_a_use_in_the_models_text_counts_and_one_in_its_thinking_does_not():
    said = Reply(4, 0.0, (TextBlock("I see camelCaseName."),))
    thought = Reply(4, 0.0, (ThinkingBlock("camelCaseName", "s"),))
    assert [r.name for r in found(*reads(2, "camelCaseName"), said)] == ["camelCaseName"]
    assert found(*reads(2, "camelCaseName"), thought) == []


def test_a_name_is_a_reference_only_the_first_time():
    facts = (*reads(2, "some_name"), *reads(4, "", q="some_name"), *reads(6, "", q="some_name"))
    assert [r.user for r in found(*facts)] == [4]


def test_a_name_that_the_user_or_the_model_said_first_is_none():
    facts = (*reads(2, "the_topic and a/b.py"), *reads(4, "", q="the_topic in a/b.py"))
    assert found(*facts) == []


def test_ordinary_words_are_not_names_and_paths_and_commits_are():
    facts = (
        *reads(2, "function configuration src/x.py 1234567 ab12cd9"),
        Reply(4, 0.0, (TextBlock("function configuration src/x.py 1234567 ab12cd9"),)),
    )
    assert [r.name for r in found(*facts)] == ["ab12cd9", "src/x.py"]


def judged(*compactions, undo=None):
    facts = [*talk(*reads(2, "def some_name"), Reply(4, 0.0, (TextBlock("ok"),)))]
    for edits in compactions:
        facts.append(Compacted(len(facts) + 1, 0.0, "micro", "auto", edits))
    if undo:
        facts.append(Undone(len(facts) + 1, 0.0, undo))
    folded = fold(facts)
    return judge_reference(Reference("some_name", 9, (3,)), (3,), folded, replacements_in(folded.view))


def test_a_source_that_is_shown_whole_is_in_context():
    assert judged() is State.IN_CONTEXT


def test_a_placeholder_that_names_the_id_makes_it_recoverable_and_one_that_does_not_loses_it():
    assert (
        judged((Clear(3, 0, "content", "[cleared: read a/b.py; recall r3 shows it]"),)) is State.RECOVERABLE
    )
    assert judged((Clear(3, 0, "content", "[cleared: read a/b.py; recall r33 shows it]"),)) is State.LOST
    assert judged((Clear(3, 0, "content", "[cleared]"),)) is State.LOST


def test_a_preview_or_a_local_summary_that_has_the_name_keeps_it_in_context():
    assert judged((Clear(3, 0, "content", "cut: def some_name"),)) is State.IN_CONTEXT
    assert judged((Fold(2, 4, (TextBlock("seen: some_name"),)),)) is State.IN_CONTEXT


def test_a_fold_leads_back_by_its_own_id_by_a_result_or_by_a_range_of_them():
    assert judged((Fold(2, 4, (TextBlock("[folded; c5 undoes it]"),)),)) is State.RECOVERABLE
    assert judged((Fold(2, 4, (TextBlock("[folded; c6 undoes it]"),)),)) is State.LOST
    assert judged((Fold(2, 4, (TextBlock("[folded; recall r2-r4]"),)),)) is State.RECOVERABLE
    assert judged((Fold(2, 4, (TextBlock("[folded; recall r3 shows a/b.py]"),)),)) is State.RECOVERABLE


def test_an_undone_compaction_gives_the_source_back():
    assert judged((Clear(3, 0, "content", "[cleared]"),), undo="c5") is State.IN_CONTEXT


def test_a_patch_is_an_edit_of_what_it_removes_and_shows_what_it_leaves():
    def patch(ident, removed, added):
        rows = (
            "*** Begin Patch",
            "*** Update File: src/a.py",
            "@@",
            f"-{removed}",
            f"+{added}",
            "*** End Patch",
        )
        return Reply(int(ident), 0.0, (ToolUseBlock(ident, "apply_patch", {"input": "\n".join(rows)}),), (9,))

    facts = (
        Reply(1, 0.0, (ToolUseBlock("1", "bash", {"command": "cat src/a.py"}),), (9,)),
        Result(2, 0.0, 1, 0, (TextBlock("first = 1\nsecond = 2"),), (9,)),
        patch("3", "first = 1", "third = 3"),
        patch("4", "third = 3", "fourth = 4"),
        patch("5", "first = 1", "fifth = 5"),
    )
    needs = {seq: [edit.needs for edit in edits] for seq, edits in file_edits(facts).items()}
    shown, own = (2, 0, "content"), (3, 0, "input")
    assert needs == {3: [((shown,),)], 4: [((own,),)], 5: [((shown,),)]}


def test_an_edit_is_in_view_on_two_pages_that_show_its_text_together():
    lines = [f"value_{number} = {number}" for number in range(9)]
    within_a_line = "\n".join(lines[2:7])[3:]
    edit = ToolUseBlock("9", "edit", {"path": "a/b.py", "old_string": within_a_line})
    facts = talk(
        *reads(2, "\n".join(lines)),
        *reads(4, "\n".join(lines[:5])),
        *reads(6, "\n".join(lines[4:])),
        *reads(8, "\n".join(lines[6:])),
        Reply(10, 0.0, (edit,)),
    )
    (needed,) = file_edits(facts)[10]
    same = {fact.seq: fact.seq for fact in facts}

    def in_view(*cleared):
        gone = tuple(Clear(seq, 0, "content", "[cleared]") for seq in cleared)
        return is_in_view(needed, same, fold([*facts[:-1], Compacted(10, 0.0, "micro", "auto", gone)]), "")

    assert in_view(3)  # the whole text is gone, and two pages have it
    assert not in_view(3, 5)
    assert not in_view(3, 7)  # the last page begins after a line that is missing
