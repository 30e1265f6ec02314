"""Cleared text comes back with the call that touches its file: where it pays, once, and only what is true."""

from msgspec.structs import replace

from compact.block_tracker import tracker_of
from compact.restoring import FileTouch, PutBackRules
from tests.tables import each_row
from transcripts.data_tags import injected
from transcripts.facts import Clear, Compacted, Fold, Result, Undone
from transcripts.folding import fold
from transcripts.messages import TextBlock, ToolUseBlock

from .worlds import COUNT, World, again

SMALL = "\n".join(f"def small_{number}(): return {number}" for number in range(20))
LARGE = "\n".join(f"def function_{number}(first, second): return {number} + first" for number in range(400))
FAR = 60_000  # tokens of a prompt that is dear to send again


def numbered(text):
    return "\n".join(f"{number}\t{line}" for number, line in enumerate(text.split("\n"), 1))


def session(text=SMALL, *then):
    """A session that read src/a.py, whose result was cleared, and made further calls (tool, text, inputs)."""
    world = World(judged=False)
    world.user("begin")
    world.call("read", numbered(text), file_path="src/a.py")
    clear(world)
    for name, outcome, arguments in then:
        world.call(name, outcome, **arguments)
    return world


def clear(world, field="content"):
    seq = world.folded.facts[-1].seq
    world.add(Compacted, "micro", "auto", (Clear(seq, 0, field, "[cleared: it]"),))


def touch(name="grep", outcome="src/a.py:7: small_6", error=False, prompt=FAR, **arguments):
    use = ToolUseBlock("t", name, arguments or {"pattern": "small_6", "path": "src/a.py"})
    return FileTouch(use, (TextBlock(outcome),), error, prompt)


def back(world, call=None, present=None):
    call = call or touch()
    rules = PutBackRules(world.settings, world.prices, COUNT.text)
    needed = replace(rules.needed_by(world.folded, call), present=present)
    blocks = needed.blocks(world.folded)
    assert all(each.is_put_back for each in blocks)
    return [block.text for block in blocks]


def test_a_small_text_comes_back_whole_without_numbers_and_with_its_id():
    (said,) = back(session())
    head, _, text = said.partition("\n")
    assert head == "[put back: src/a.py, lines 1-20, shown earlier and cleared (r4)]"
    assert text == SMALL


def test_a_longer_text_comes_back_whole_in_a_large_request_and_in_part_in_a_small_one():
    text = "\n".join(f"def small_{number}(): return {number}" for number in range(120))
    assert 600 < COUNT.text(text) < 2_000
    (said,) = back(session(text))
    assert said.partition("\n")[2] == text
    (said,) = back(session(text), touch(prompt=15_000))
    assert "def small_6():" in said
    assert len(said.split("\n")) == 41


def test_lines_that_refer_to_another_result_do_not_come_back_with_the_text():
    text = "\n".join(f"def small_{number}(): return {number}" for number in range(20))
    world = World(judged=False)
    world.user("begin")
    before = "[lines 1-9 are unchanged since r2 above]"
    behind = "[lines 40-49 are unchanged since r3 above]\n[this result: r4]"
    world.call("read", f"{before}\n{text}\n{behind}", file_path="src/a.py")
    clear(world)
    (said,) = back(world)
    assert said.partition("\n")[2] == text


@each_row("indentation", ["\t", "    ", "\t\t"])
def test_indented_text_is_found_in_the_file_and_comes_back_as_it_stands_there(indentation):
    text = "\n".join(f"{indentation}small_{number}(first, second)" for number in range(20))
    (said,) = back(session(text), present={"src/a.py": f"def all():\n{text}\n"})
    assert said.partition("\n")[2] == text


def test_of_a_large_text_come_the_lines_around_what_the_call_is_about():
    call = touch(outcome="src/a.py:200: x", pattern="function_199", path="src/a.py")
    (said,) = back(session(LARGE), call)
    assert "def function_199(" in said
    assert "def function_10(" not in said
    assert COUNT.text(said) <= 2_000


def test_lines_that_a_failed_edit_replaces_tell_more_than_the_names_in_them():
    words = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
    boxes = "\n".join(f"- [ ] {word}_step" for word in words)
    filler = "\n".join(f"nothing of interest in row {number}" for number in range(200))
    calls = f"call({', '.join(f'{word}_step' for word in words)})"
    call = touch("edit", "not found", True, file_path="src/a.py", old_string=boxes, new_string="done")
    (said,) = back(session(f"{calls}\n{filler}\n{boxes}\n{filler}"), call)
    assert boxes in said and calls not in said
    done = touch("edit", "updated", file_path="src/a.py", old_string=boxes, new_string="done")
    (said,) = back(session(f"{calls}\n{filler}\n{boxes}\n{filler}"), done)
    assert calls in said, "the lines that it replaced are gone"


def test_the_texts_that_a_call_is_about_come_before_newer_ones():
    parts = [SMALL.replace("small", name) for name in ("first", "second", "third")]
    world = session(parts[0])
    call = touch("edit", "not found", error=True, file_path="src/a.py", old_string="first_7")
    for at, part in enumerate(parts[1:], 1):
        world.call("read", numbered(part), file_path="src/a.py", offset=100 * at)
        clear(world)
    told = [said.partition("\n")[2] for said in back(world, call)]
    assert told == [parts[0], parts[2]]


def test_a_result_with_which_text_was_put_back_is_no_text_of_the_file():
    world = session()
    (said,) = back(world)
    reply = world.reply(ToolUseBlock("e", "edit", {"file_path": "src/a.py"}))
    updated = TextBlock("The file src/a.py was updated.\n" * 40)
    world.add(Result, reply.seq, 0, (updated, TextBlock(said)), (300, 300))
    clear(world)
    assert back(world, touch("edit", "String not found", error=True, file_path="src/a.py")) == [said]


def test_a_large_text_of_which_nothing_is_named_stays_away():
    assert back(session(LARGE), touch(outcome="12", pattern="x", path="src/a.py")) == []


def test_a_call_that_touches_another_file_restores_nothing():
    assert back(session(), touch(outcome="src/b.py", path="src/b.py")) == []


def in_one_of_two_packages():
    """A session at /p that read one/a.py and .two/a.py, both cleared, with the paths as reported."""
    world = World(judged=False)
    world.open()
    world.user("begin")
    for folder in ("one", ".two"):
        reply = world.reply(ToolUseBlock(folder, "read", {"file_path": f"{folder}/a.py"}))
        content = (TextBlock(numbered(SMALL.replace("small", folder.strip(".")))),)
        world.add(Result, reply.seq, 0, content, (600,), about={"path": f"/p/{folder}/a.py"})
        clear(world)
    return world


def edit_that_misses(path):
    edit = {"file_path": path, "old_string": "one_6", "new_string": "x"}
    return touch("edit", "String to replace not found in file.", error=True, **edit)


@each_row(
    ("path", "told"),
    [
        ("one/a.py", ["one/a.py"]),
        ("./.two/a.py", [".two/a.py"]),
        ("/p/.two/a.py", [".two/a.py"]),
        ("../p/one/a.py", ["one/a.py"]),
        ("three/a.py", []),
        ("a.py", [".two/a.py", "one/a.py"]),
    ],
)
def test_another_file_of_the_same_name_restores_nothing(path, told):
    said = back(in_one_of_two_packages(), edit_that_misses(path))
    assert [text.partition(", ")[0].removeprefix("[put back: ") for text in said] == told


@each_row(
    ("real", "told"),
    [("/p/one/a.py", ["one/a.py"]), ("/p/three/a.py", []), ("", [".two/a.py", "one/a.py"])],
)
def test_a_name_that_is_a_file_in_the_current_directory_is_no_other_one(real, told):
    said = back(in_one_of_two_packages(), replace(edit_that_misses("a.py"), real=lambda name: real))
    assert [text.partition(", ")[0].removeprefix("[put back: ") for text in said] == told
    command = touch("bash", "6: x", command="cd one && grep -n two_6 a.py")
    (said,) = back(in_one_of_two_packages(), command)
    assert said.startswith("[put back: .two/a.py, ")
    said = back(in_one_of_two_packages(), replace(command, real=lambda name: real))
    assert bool(real) != any(text.startswith("[put back: .two/a.py, ") for text in said)


def test_what_was_put_back_of_one_file_is_not_put_back_again():
    world = in_one_of_two_packages()
    (said,) = back(world, edit_that_misses("one/a.py"))
    world.call("grep", (TextBlock("7"), TextBlock(said)), pattern="one_6", path="one")
    assert back(world, edit_that_misses("one/a.py")) == []


def test_an_error_that_names_the_file_touches_it_and_other_output_does_not():
    assert back(session(), touch("bash", 'File "src/a.py", line 7', error=True, command="make"))
    assert back(session(), touch("bash", "src/a.py  src/b.py", command="ls -R")) == []


def test_what_is_shown_is_not_put_back():
    assert back(session(SMALL, ("read", numbered(SMALL), {"file_path": "src/a.py"}))) == []
    assert back(session(), touch("read", numbered(SMALL), file_path="src/a.py")) == []


def test_what_was_put_back_is_not_put_back_again_until_that_is_cleared():
    world = session()
    content = (TextBlock("7"), *map(TextBlock, back(world)))
    world.call("grep", content, pattern="small_6", path=".")
    assert back(world) == []
    clear(world)
    assert len(back(world)) == 1


def test_calls_of_one_reply_do_not_bring_it_twice():
    world = session()
    uses = [ToolUseBlock(f"p{number}", "grep", {"path": "src/a.py"}) for number in range(2)]
    reply = world.reply(*uses)
    first = back(world)
    world.add(Result, reply.seq, 0, tuple(map(TextBlock, ["7", *first])), (1, 1))
    assert (len(first), back(world)) == (1, [])


def test_it_does_not_come_where_carrying_it_costs_more_than_a_read():
    edited = session(SMALL, ("edit", "updated", {"file_path": "src/a.py", "old_string": "x"}))
    assert len(back(edited)) == 1
    assert back(edited, touch(prompt=500)) == []


def test_an_edit_that_failed_has_the_lines_it_needed_whatever_that_costs():
    old = {"file_path": "src/a.py", "old_string": "def function_250(first, second): pass", "new_string": "x"}
    call = touch("edit", "String to replace not found in file.", error=True, prompt=500, **old)
    (said,) = back(session(LARGE), call)
    assert "def function_250(" in said


@each_row("settings", [{"policy": "classic"}, {"policy": "off"}, {"put_back_max_tokens": 0}])
def test_only_thrifty_puts_back_and_a_setting_turns_it_off(settings):
    world = session()
    world.settings = replace(world.settings, **settings)
    assert back(world) == []


def test_what_the_file_does_not_hold_any_more_stays_away_and_what_moved_has_its_present_lines():
    world = session()
    assert back(world, present={}) == []
    assert back(world, present={"src/a.py": SMALL.replace("small_6", "other")}) == []
    (said,) = back(world, present={"src/a.py": f"import os\n\n{SMALL}\n"})
    assert "a.py, lines 3-22," in said


def test_own_text_comes_back_where_it_was_written_and_what_it_replaced_does_not():
    world = World(judged=False)
    world.user("begin")
    new = {"file_path": "a.py", "old_string": LARGE[:900], "new_string": SMALL}
    world.call("edit", "ok", **new)
    edited = world.folded.facts[-2].seq
    edits = tuple(Clear(edited, 0, name, "[cleared: it]") for name in ("old_string", "new_string"))
    world.add(Compacted, "micro", "auto", edits)
    (said,) = back(world, touch(outcome="7", path="a.py"))
    assert said.endswith(SMALL)
    assert f"(r{edited}.0)" in said
    (within,) = back(world, touch(outcome="7", path="a.py"), present={"a.py": f"one\n    {SMALL}, 2\n"})
    assert "a.py, lines 2-21," in within


def test_of_a_patch_the_pieces_of_the_file_that_is_touched_come_back():
    world = World(judged=False)
    world.user("begin")
    new = {name: "\n".join(f"    new_{name}_{number}" for number in range(20)) for name in "ab"}
    added = {name: "+" + text.replace("\n", "\n+") for name, text in new.items()}
    sections = [f"*** Update File: {name}.py\n@@\n def f():\n-    old\n{added[name]}" for name in new]
    patch = "\n".join(("*** Begin Patch", *sections, "*** End Patch"))
    patched = world.call("apply_patch", "Success", input=patch).of
    world.add(Compacted, "micro", "auto", (Clear(patched, 0, "input", "[cleared: it]"),))
    (said,) = back(world, touch("bash", "ok", command="grep -n new b.py"))
    assert said.startswith("[put back: b.py, ")
    assert said.endswith("def f():\n" + new["b"])
    assert back(world, touch("bash", "ok", command="grep -n new c.py")) == []


def test_folded_text_comes_back_as_cleared_text_does():
    world = World(judged=False)
    world.user("begin")
    first = world.call("read", numbered(SMALL), file_path="src/a.py").of
    world.add(Compacted, "summary", "auto", (Fold(first, first + 1, (TextBlock("what was"),), 3),))
    (said,) = back(world)
    assert said.partition("\n")[2] == SMALL


def prompt(words):
    return FileTouch(None, (TextBlock(words),), False, FAR)


def test_a_prompt_that_names_the_file_restores_its_text_and_the_next_call_does_not_again():
    world = session()
    assert back(world, prompt("now on with b.py")) == []
    (said,) = back(world, prompt("add a case to src/a.py"))
    assert said.partition("\n")[2] == SMALL
    world.user(said, "add a case to src/a.py")
    assert back(world) == []


def failed_edit():
    old = "def function_199(first, second): return 200 + first"
    return touch("edit", "not found", error=True, file_path="src/a.py", old_string=old, new_string="x")


def test_what_is_in_an_earlier_prompt_or_in_a_result_is_not_put_back_while_it_is_shown():
    world, found = session(LARGE), []
    for number in range(3):
        words = f"look at function_199 in src/a.py again ({number})"
        said = back(world, prompt(words))
        found += said
        shown = world.user(*map(injected, said), words)
        world.reply("looked")
        world.folded = again(world)  # as continued by another process
        if said:
            first = shown
    assert len(found) == 1 and back(world, failed_edit()) == []
    world.add(Compacted, "summary", "auto", (Fold(first.seq, first.seq + 1, (TextBlock("so"),), 3),))
    said = back(world, failed_edit())
    assert said and "def function_199(" in said[0]
    world.call("grep", (TextBlock("7"), *map(TextBlock, said)), pattern="it", path="x")
    world.call("grep", "8", pattern="it", path="y")
    assert back(world, failed_edit()) == []


def test_of_a_large_text_a_prompt_restores_the_lines_that_it_names():
    (said,) = back(session(LARGE), prompt("change function_199 in src/a.py"))
    assert "def function_199(" in said and "def function_10(" not in said


def test_of_what_a_summary_covers_only_the_texts_of_the_newest_calls_are_known_after_a_session_was_resumed(
    monkeypatch,
):
    monkeypatch.setattr("compact.block_tracker.COVERED_CALLS", 3)
    world = World(judged=False)
    for number in range(6):
        world.call("edit" if number == 1 else "read", "a line\n" * 200, file_path=f"f{number}.py")
    last = world.folded.last_seq
    world.call("read", "a line\n" * 200, file_path="shown.py")
    fold_of_all = Compacted(last + 100, 0.0, "summary", "auto", (Fold(1, last, (TextBlock("all"),), 3),))
    tracker = tracker_of(resumed := fold([*world.facts, fold_of_all]))
    assert [number for number in range(6) if tracker.of_file(f"f{number}.py")] == [4, 5]
    assert tracker.edited and tracker.of_file("shown.py") and not tracker.of_file("f1.py")

    resumed.apply(Undone(last + 101, 0.0, fold_of_all.id))
    tracker = tracker_of(resumed)
    assert all(tracker.of_file(f"f{number}.py") for number in range(6))
