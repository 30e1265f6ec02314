"""The local summary: what it takes from the entries, how it ranks them, and what fits in its limit."""

import sys

import pytest
from msgspec import structs

from compact import local_summary as building
from compact.directives import REQUEST
from compact.entry_account import account_of
from compact.identifiers import whole_name_counts
from compact.local_summary import (
    AccountsMissing,
    accounting_steps,
    build_local_summary,
    pins_of,
    results_read,
    summary_steps,
    without_long_accounts,
)
from compact.local_summary_text import (
    CLOSINGS_TITLE,
    OTHER_PATHS_TITLE,
    commitments_text,
    coverage,
    local_summary_text,
    most_used_names,
)
from tests.tables import each_row
from transcripts.facts import Compacted, Fold, Instructed, Result, Undone
from transcripts.folding import fold
from transcripts.messages import ImageBlock, TextBlock, ToolUseBlock, attached

from .worlds import COUNT, World


def local_summary(world):
    return build_local_summary(world.folded, world.folded.entries)


def started():
    world = World(judged=False)
    world.user("begin")
    return world


def test_files_are_distinguished_by_what_the_tool_does():
    world = started()
    world.call("read", "", file_path="a.py")
    world.call("MultiEdit", "", file_path="b.py")
    world.call("deploy", "", path="c.py")
    made = local_summary(world)
    assert (list(made.read), list(made.changed)) == (["a.py", "c.py"], ["b.py"])
    world.open({"name": "deploy", "kind": "writes"})
    assert list(local_summary(world).changed) == ["b.py", "c.py"]


def test_what_failed_or_was_refused_changed_and_read_nothing_and_the_reason_is_not_an_error():
    world = started()
    world.call("edit", "File has not been read yet", error=True, file_path="a.py")
    world.call("read", "no such file\nthe nearest:\n11\timport b", error=True, file_path="b.py")
    reply = world.reply(ToolUseBlock("t", "edit", {"file_path": "c.py"}))
    said = Result.about_remarks(("", "No. Never edit c.py by hand. It is nice."))
    refused = world.result(reply, 0, "The user denied this call: No.", error=True, about=said)
    made = local_summary(world)
    assert made.changed == {} == made.read and {"a.py", "b.py", "c.py"} <= made.names.keys()
    assert list(made.errors.values()) == [
        "edit a.py: File has not been read yet",
        "read b.py: no such file",
    ]
    assert made.constraints == [("No. Never edit c.py by hand.", f"r{refused.seq}")]


def test_what_commands_changed_counts_and_what_they_removed_is_reported_as_gone():
    world = started()

    def run(**files):
        reply = world.reply(ToolUseBlock(f"t{world.folded.last_seq}", "bash", {"command": "sh x"}))
        paths = {path.replace("_", "."): how for path, how in files.items()}
        world.result(reply, 0, "", about={"exit": 0, "changed": paths} if files else {"exit": 0})

    world.call("write", "ok", file_path="/p/made.py")
    world.call("write", "ok", file_path="/p/unmade.py")
    run(a_py="changed", made_py="gone", b_py="new")
    run(c_py="gone")
    run()
    assert list(local_summary(world).changed) == ["/p/unmade.py", "a.py", "b.py"]
    shown = local_summary_text(local_summary(world), COUNT, 500).partition("\nCommands")[0].splitlines()
    assert shown[0] == "Files changed:" and set(shown[1:]) == {
        "- /p/unmade.py (r6.0)", "- a.py", "- b.py", "- made.py (deleted)", "- c.py (deleted)"
    }  # fmt: skip
    world.call("write", "ok", file_path="/p/made.py")
    assert list(local_summary(world).gone) == ["c.py"] and "/p/made.py" in local_summary(world).changed
    run(**{f"f{at}_py": "new" for at in range(40)})
    assert local_summary(world).changed["f7.py"] < local_summary(world).changed["a.py"] / 5


def test_files_that_patches_change_and_commands_print_are_known(monkeypatch):
    def patch(*sections):
        return "\n".join(("*** Begin Patch", *sections, "*** End Patch"))

    world = started()
    world.call("bash", "x = 1", command="cd /p && sed -n 1,80p read.py")
    world.call("bash", "x = 1", command="cat one.py two.py")
    sections = ("*** Add File: new.py", "+y = 1", "*** Update File: a.py", "@@", "-x", "+y")
    patched = world.call("apply_patch", "Done", input=patch(*sections, "*** Delete File: old.py")).of
    world.call("apply_patch", "no such line", error=True, input=patch("*** Update File: b.py", "@@", "-z"))
    shell = f"apply_patch <<'EOF'\n{patch('*** Add File: c.py', '+z = 1')}\nEOF"
    reply = world.reply(ToolUseBlock("t", "bash", {"command": shell}))
    world.result(reply, 0, "Done", about={"exit": 0, "changed": {"/p/c.py": "new"}})
    recent = local_summary(world)
    monkeypatch.setattr(building, "DISTANT_CALLS", 1)
    world.add(Compacted, "summary", "auto", (whole_fold(world.folded),), report={})
    for number in range(3):
        world.call("bash", "", command=f"make {number}")
    for made in (recent, local_summary(world)):
        assert list(made.read) == ["read.py"], "two files in one command are not told apart"
        assert (list(made.changed), list(made.gone)) == (["new.py", "a.py", "/p/c.py"], ["old.py"])
        ids = [(edit.path, edit.ident) for edit in made.edits]
        new, changed = (f"r{patched}.0", f"r{reply.seq}.0")
        assert ids == [("new.py", new), ("a.py", new), ("/p/c.py", changed)]
    assert world.folded.memo(building.EntryAccounts).distant.entries > 0


def test_paths_and_branches_in_commands_are_listed_unless_they_are_shown_already():
    world = started()
    world.call("read", "x = 1", file_path="src/a.py")
    world.call("bash", "ok", command="git push origin fix/parser 2>/dev/null", workdir="/p/other/tree")
    world.call("bash", "ok", command=f"{'x' * 200} $OUT/golden-a/b.txt")
    long = f"python <<'E'\n{'x = 1' * 500}\nopen('deep/in/data.py')\nE"
    world.call("bash", "ok", command=f"cat src/a.py {'x' * 200} docs/guide.md")
    world.call("bash", "ok", command=long)
    line = local_summary_text(local_summary(world), COUNT, 1_000).splitlines()[-1]
    assert line == f"{OTHER_PATHS_TITLE}: docs/guide.md, /p/other/tree"  # fix/parser is in the command above


def test_paths_in_prompts_texts_and_edits_are_listed_but_no_pairs_of_words():
    world = started()
    world.user("Compare read/write in docs/old.md with /srv/data.")
    world.reply(TextBlock("The either/or is explained in docs/new.md, I think."))
    world.call("edit", "ok", file_path="a.go", old_string="", new_string='import "internal/auth"')
    line = local_summary_text(local_summary(world), COUNT, 1_000).splitlines()[-1]
    title, _, listed = line.partition(": ")
    assert title == OTHER_PATHS_TITLE and "either/or" not in line and "read/write" not in line
    assert {"internal/auth", "docs/old.md", "/srv/data"} <= set(listed.split(", "))


def test_a_file_that_commands_name_by_a_shorter_path_is_listed_once():
    world = started()
    world.call("edit", "ok", file_path="/p/web/config.js")
    world.call("read", "x", file_path="/p/src/a.py")
    for command in ("cat config.js", "cat web/config.js", "sed -n 1,9p src/a.py", "cat src/b.py", "cat b.py"):
        world.call("bash", "x = 1", command=command)
    text = local_summary_text(local_summary(world), COUNT, 1_000)
    read = text.partition("Files read:\n")[2].partition("\nCommands")[0].splitlines()
    assert sorted(read) == ["- /p/src/a.py", "- src/b.py"]


def test_a_reply_that_announces_a_table_is_shown_with_its_beginning():
    world = started()
    world.reply("Shipped, two commits:\n\n| commit | what |\n|---|---|\n| a1b2 | the parser |")
    world.reply("It is done.\n\n```\nmake\n```")
    shown = [text for text, _ in local_summary(world).closings]
    assert "a1b2 | the parser" in shown[0] and shown[1] == "It is done."


def test_files_that_a_prompt_attached_are_read_and_stand_with_their_ids():
    world = World(judged=False)
    file = attached("File", "src/a (1).py (lines 1-9 of 80)", "def a(): ...")
    image = (ImageBlock("image/png", "AA"), attached("Image", "b (2).png", "8x8"))
    world.user(file, *image, "look at @src/a (1).py")
    world.call("read", "text", file_path="/p/c.py")
    shown = local_summary_text(local_summary(world), COUNT, 1_000)
    assert shown.startswith("Files read:\n- ")
    assert set(shown.splitlines()[1:]) == {"- src/a (1).py (r1.0)", "- b (2).png (r1.1)", "- /p/c.py"}


def test_accounts_made_in_steps_beforehand_give_the_same_summary_and_leave_little_to_do(monkeypatch):
    def session():
        world = World(judged=False)
        world.user("Never touch billing.")
        for number in range(8):
            path = f"src/f{number % 3}.py"
            world.call("read", f"     1\tdef handle_{number}():\n     2\t    pass\n", file_path=path)
            world.call(
                "edit", "ok", file_path=path, old_string="    pass", new_string=f"    handle_{number}()"
            )
        world.call("bash", "1 failed", command="make", error=True)
        return world

    plain = session().folded
    wanted = build_local_summary(plain, plain.entries)
    made = session()
    steps = len(list(accounting_steps(made.folded)))
    assert steps == len(made.folded.entries) - 1 and list(accounting_steps(made.folded)) == []
    accounted = []
    make = account_of

    def counted(*values):
        accounted.append(1)
        return make(*values)

    monkeypatch.setattr(building, "account_of", counted)
    assert build_local_summary(made.folded, made.folded.entries) == wanted
    assert len(accounted) == 1  # the newest entry


def test_a_session_whose_accounts_were_made_is_not_gone_through_again_before_each_call(monkeypatch):
    world = World(judged=False)
    for number in range(building.MAX_MISSING_ACCOUNTS + 1):
        world.user(f"question {number}")
    assert len(list(summary_steps(world.folded))) == building.MAX_MISSING_ACCOUNTS + 1
    looked_at = []

    def look(entry, kind_of):
        looked_at.append(entry)
        return 0, 0, ()

    monkeypatch.setattr(building, "composition_of", look)
    world.user("one more")
    assert list(summary_steps(world.folded)) == [] and looked_at == []


def test_a_summary_that_needs_many_accounts_says_so_where_that_would_take_too_long():
    world = World(judged=False)
    for number in range(building.MAX_MISSING_ACCOUNTS + 1):
        world.user(f"question {number}")
    folded = world.folded
    with pytest.raises(AccountsMissing), without_long_accounts(folded):
        build_local_summary(folded, folded.entries)
    assert len(list(summary_steps(folded))) == len(folded.entries)
    with without_long_accounts(folded):
        made = build_local_summary(folded, folded.entries)
    fresh = fold(folded.facts)
    assert made == build_local_summary(fresh, fresh.entries)


def test_a_summary_reads_the_results_that_are_not_faded_and_accounts_again_for_those_that_came_later():
    whole = World(judged=False)
    for number in range(building.FADED_CALLS + 3):
        whole.call("bash", f"result of handle_{number}", command="make")
    folded = fold([*whole.facts, Compacted(9_999, 0.0, "summary", "auto", (whole_fold(whole.folded),))])
    calls = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(note)
    read = set(results_read(folded))
    sys.setprofile(None)
    assert calls < 1.5 * len(folded.entries), "it is read before each plan of a resumed session"
    results = {fact.seq: fact for fact in folded.facts if isinstance(fact, Result)}
    oldest = sorted(results)[:2]
    assert results.keys() - read == set(oldest)

    left = {seq: structs.replace(fact, content=()) for seq, fact in results.items()}
    folded = fold(left.get(fact.seq, fact) for fact in folded.facts)
    assert "handle_900" not in build_local_summary(folded, folded.entries).names
    folded.fill_in(results[seq] for seq in read)
    wanted = build_local_summary(fold(folded.facts), folded.entries)
    assert build_local_summary(folded, folded.entries) == wanted and "handle_900" in wanted.names


def whole_fold(folded):
    return Fold(1, folded.last_seq, (TextBlock("all of it"),), 3)


def test_no_accounts_are_made_beforehand_of_what_a_summary_covers():
    world = World(judged=False)
    for number in range(6):
        world.user(f"question {number}")
    covered = world.folded.entries[3].last
    world.add(Compacted, "summary", "auto", (Fold(1, covered, (TextBlock("so far"),), 9),), report={})
    assert (
        len(list(accounting_steps(world.folded))) == 1
    )  # of six entries, four are covered and one is the newest


def test_what_a_summary_covered_long_ago_is_told_without_its_names_and_results(monkeypatch):
    """Files, commands, errors and promises stay; what would weigh nothing after so many calls is not read."""
    monkeypatch.setattr(building, "FADED_CALLS", 3)
    world = started()
    world.call("read", "def parse_old(): pass", file_path="old.py")
    edit = ToolUseBlock("t", "edit", {"file_path": "old.py", "old_string": "a"})
    world.result(world.reply(edit), 0, "ok")
    world.reply(TextBlock("I will never rename parse_old."))
    world.call("bash", "boom: no such table", error=True, command="make old")
    covered = world.folded.entries[4].last
    for number in range(4):
        world.call("read", f"def parse_{number}(): pass", file_path=f"new{number}.py")
    before = local_summary(world)
    assert "parse_old" in before.names and "parse_old" in before.defined["old.py"]
    world.add(Compacted, "summary", "auto", (Fold(1, covered, (TextBlock("so far"),), 9),), report={})
    made = local_summary(world)
    assert "parse_old" not in made.names and "parse_old" not in made.defined.get("old.py", {})
    assert {"parse_0", "parse_3"} <= made.names.keys()
    assert made.read.keys() == before.read.keys() and made.changed == before.changed
    assert made.commitments == before.commitments != [] and made.edits == before.edits
    assert list(made.errors.values()) == ["bash make old"]
    assert [command.line for command in made.commands] == ["make old"]


def test_of_the_distant_past_one_account_keeps_files_edits_and_the_words_of_the_user(monkeypatch):
    """However long a session is, a summary of it reads only its newest part in detail."""
    monkeypatch.setattr(building, "FADED_CALLS", 2)
    monkeypatch.setattr(building, "DISTANT_CALLS", 4)
    world = started()
    world.user("Never touch billing.")
    world.call("edit", "ok", file_path="old.py", old_string="a")
    world.call("bash", "boom", error=True, command="make old")
    world.reply(TextBlock("I will never rename parse_old."))
    for number in range(8):
        world.call("read", f"def parse_{number}(): pass", file_path=f"new{number}.py")
    before = local_summary(world)
    accounts = world.folded.memo(building.EntryAccounts)
    assert accounts.distant.entries == 0, "no summary covers anything yet"
    entries = world.folded.entries
    covered = [entry.seq for entry in entries if entry.last <= entries[7].last]
    folds = (Fold(1, entries[7].last, (TextBlock("so far"),), 9),)
    compacted = world.add(Compacted, "summary", "auto", folds, report={})
    made = local_summary(world)
    assert accounts.distant.entries == len(covered) and accounts.by_seq.keys().isdisjoint(covered)
    assert made.constraints == before.constraints != [] and made.edits == before.edits != []
    assert made.changed.keys() == {"old.py"} and made.read.keys() == before.read.keys()
    assert max(made.read, key=made.read.__getitem__) == "new7.py"
    assert made.errors == {} and made.commands == [] and made.commitments == []

    world.call("read", "def parse_9(): pass", file_path="new0.py")  # longer ago by one call, read again
    again = local_summary(world)
    fresh = fold(world.folded.facts)
    assert again == build_local_summary(fresh, fresh.entries)
    world.add(Undone, compacted.id)
    assert local_summary(world).commitments == before.commitments and accounts.distant.entries == 0


def test_commands_stand_with_their_exit_codes_and_errors_with_their_last_line():
    world = started()
    for command, about, error in (
        ("make  a", {"exit": 0}, False),
        ("make b", {}, True),
        ("make c", {}, False),
    ):
        reply = world.reply(ToolUseBlock(command, "bash", {"command": command}))
        world.result(reply, 0, "first\n\n  last line  \n\n", error=error, about=about)
    world.reply(ToolUseBlock("t", "bash", {"command": "unfinished"}))
    made = local_summary(world)
    assert [(each.line, each.ended) for each in made.commands] == [
        ("make a", "0"), ("make b", "error"), ("make c", ""), ("unfinished", "")
    ]  # fmt: skip
    assert list(made.errors.values()) == ["bash make b: last line"]
    world.call("read", "no such file " * 50, error=True, file_path="gone.py")
    newest = list(local_summary(world).errors.values())[-1]
    assert len(newest) == 160 and newest.startswith("read gone.py: no such")


def test_an_error_is_open_until_the_same_thing_succeeds():
    world = started()
    world.call("bash", "E: one failed", error=True, command="cd /p && pytest tests/a.py -x")
    world.call("edit", "old_string not found", error=True, file_path="a.py")
    world.call("bash", "error: no target", error=True, command="make docs")
    assert len(local_summary(world).errors) == 3
    world.call("edit", "ok", file_path="a.py")
    world.call("bash", "3 passed", command="pytest tests/a.py")
    assert list(local_summary(world).errors.values()) == ["bash make docs: error: no target"]


def test_commands_that_do_something_come_first_each_with_its_last_result():
    world = started()
    for command, output in (
        ("pytest -q", "1 failed\n[exit code 1]"),
        ("make", "built in 3 s"),
        ("pytest -q", "12 passed\n[took 3 s]"),
        ("git -C /p log --oneline", "abc1234 one"),
        ("cd /p && ls src", "a.py"),
    ):
        world.call("bash", output, command=command)
    text = local_summary_text(local_summary(world), COUNT, 2_000)
    assert text.splitlines() == [
        "Commands with their last results:",
        "- pytest -q: 12 passed",
        "- make: built in 3 s",
        "- cd /p && ls src",
        "- git -C /p log --oneline",
    ]


def test_a_changed_file_stands_with_what_was_done_in_it():
    world = started()
    edit = ToolUseBlock("t", "edit", {"file_path": "a.py", "old_string": "x", "new_string": "y"})
    reply = world.reply("The tests pass. I will guard the empty list.", edit)
    world.result(reply, 1, "ok")
    world.call("edit", "ok", file_path="a.py")
    world.call("edit", "ok", file_path="b.py")
    assert local_summary_text(local_summary(world), COUNT, 500).splitlines() == [
        "Files changed:",
        "- a.py (2 edits, last r6.0: I will guard the empty list)",
        "- b.py (r9.0)",
    ]


def test_a_name_weighs_by_where_it_stands_and_half_as_much_60_calls_later():
    world = started()
    world.call("grep", "seen_name seen_name", query="used_name")
    world.reply("said_name 4217")
    scores = local_summary(world).names
    assert scores["said_name"] == pytest.approx(scores["used_name"] * 0.5)
    assert scores["seen_name"] == pytest.approx(scores["used_name"] * 0.15 * (1 + 0.6931), rel=1e-3)
    assert list(local_summary(world).numbers) == ["4217"]
    for _ in range(59):
        world.call("bash", "", command="ls")
    world.call("grep", "", query="later_name")
    scores = local_summary(world).names
    assert scores["later_name"] == pytest.approx(2 * scores["used_name"])


def test_only_the_beginning_of_a_long_result_is_looked_through():
    world = started()
    world.call("bash", "early_name " + " " * 59_985 + " cut_name", command="ls")
    assert "early_name" in local_summary(world).names and "cut_name" not in local_summary(world).names


@each_row(
    ("sentence", "kept"),
    [
        ("Never push to main.", True),
        ("Please do not touch billing.", True),
        ("DON'T do that here.", True),
        ("Push to main now.", False),
        ("Before you run a migration, wait for my go-ahead.", True),
        ("The parser never sees tabs.", False),
        ("Never " + "x" * 293 + ".", True),
        ("Never " + "x" * 294 + ".", False),
        ("Make sure   it\tworks.", True),
    ],
)
def test_constraints_are_sentences_of_the_user_that_forbid_or_demand(sentence, kept):
    world = World(judged=False)
    world.user("Hello.", sentence + " And more!")
    world.user("never mind, says the harness", source="harness")
    assert local_summary(world).constraints == [(sentence, "r1.1")] * kept


def test_pins_are_what_was_pinned_and_not_taken_off():
    world = started()
    world.note("pin", id=1, text="a")
    world.note("pin", id=2, text="b")
    world.note("unpin", id=1)
    world.note("unpin", id=9)
    assert pins_of(world.folded.metadata) == {2: "b"}


def rich():
    world = started()
    for at in range(30):
        world.call("read", f"shown_name_{at}", file_path=f"src/read_{at}.py")
        world.call("edit", "", file_path=f"src/changed_{at}.py")
        world.call("bash", "failed", error=True, command=f"make target_{at} " + "x" * 200)
    return world


def test_the_text_keeps_within_its_limit_and_each_section_within_its_share():
    made = local_summary(rich())
    shares = {"Files changed": 0.35, "Files read": 0.20, "Open errors": 0.08, "Commands": 0.15}
    for limit in (150, 300, 600):
        text = local_summary_text(made, COUNT, limit)
        assert 0.2 * limit <= COUNT.text(text) <= limit
        for title, share in shares.items():
            start = text.find(title)
            if start >= 0:
                ends = [text.find(f"\n{other}", start) for other in shares]
                section = text[start : min((end for end in ends if end > 0), default=len(text))]
                assert COUNT.text(section) <= limit * share


def test_the_text_has_the_newest_first():
    text = local_summary_text(local_summary(rich()), COUNT, 2_000)
    assert [line.partition(" (")[0] for line in text.splitlines()[:3]] == [
        "Files changed:",
        "- src/changed_29.py",
        "- src/changed_28.py",
    ]
    command = text[text.index("Commands") :].splitlines()[1]
    assert command == f"- {('make target_29 ' + 'x' * 200)[:120]} -> error: failed"


def paged(source):
    """A page of a file as the read tool shows it."""
    return "\n".join(f"{at}\t{line}" for at, line in enumerate(source.splitlines(), 1))


STORE = """\
import os.path

class FactStore:
    def append_fact(self, fact):
        path = os.path.join(self.folder, "x")
        return self.write_line(path, fact)

    def verify_all(self):
        return True

    def never_used(self):
        raise KeyError
"""


def test_a_name_is_listed_with_the_file_that_defines_it_and_none_of_a_library():
    world = started()
    world.call("read", paged(STORE), file_path="store.py")
    world.call(
        "edit", "ok", file_path="store.py", old_string="return self.write_line(path, fact)", new_string=""
    )
    world.call(
        "edit", "ok", file_path="main.py", old_string="x", new_string="FactStore().verify_all(os.path.x)"
    )
    world.reply("I raise `KeyError` there and call `os.path.join`.")
    assert local_summary_text(local_summary(world), COUNT, 2_000).splitlines()[:3] == [
        "Files changed:",
        "- main.py (r9.0)",
        "- store.py (r6.0): append_fact, FactStore, verify_all, never_used",
    ]


def test_the_definition_around_an_edited_place_counts_although_the_edit_does_not_name_it():
    world = started()
    world.call("read", paged(STORE), file_path="store.py")
    for _ in range(3):
        world.call("edit", "ok", file_path="store.py", old_string="raise KeyError", new_string="pass")
    world.reply("`verify_all` is next.")
    scores = local_summary(world).defined["store.py"]
    assert sorted(scores, key=scores.__getitem__)[-2:] == ["verify_all", "never_used"]
    assert scores["FactStore"] == scores["append_fact"] == 0  # defined, but not mentioned


def test_of_one_file_five_names_are_listed_and_of_all_files_400_tokens():
    world = started()
    for file in range(60):
        defined = [f"defined_by_{file}_with_number_{at}" for at in range(7)]
        world.call(
            "write",
            "ok",
            file_path=f"f{file}.py",
            content="\n".join(f"def {name}(): ..." for name in defined),
        )
    text = local_summary_text(local_summary(world), COUNT, 2_000)
    listed = [line.partition(": ")[2] for line in text.splitlines()[1:]]
    assert listed[0].count("defined_by_59") == 5
    assert 300 < sum(COUNT.text(names) for names in listed) <= 400
    assert "" in listed  # files without names are listed, too


def test_prose_and_failed_calls_define_no_names():
    world = started()
    world.call("write", "ok", file_path="notes.md", content="def from_notes(): ...")
    world.call("write", "denied", error=True, file_path="a.py", content="def from_failed(): ...")
    world.reply("`from_notes` and `from_failed`")
    assert local_summary(world).defined == {}


def test_replies_that_ended_a_turn_are_listed_by_their_beginnings_oldest_first():
    world = started()
    world.reply("It is done. All **12 tests** pass.\n\n```\nok\n```")
    world.user("again")
    world.reply("It is done. All **12 tests** pass.")
    world.user("and now?")
    world.reply("I will look.", ToolUseBlock("t", "read", {"file_path": "a.py"}))
    world.reply("The cause is the cache. " + "It is never cleared when a user logs out. " * 20)
    text = local_summary_text(local_summary(world), COUNT, 2_000)
    shown = text.partition(CLOSINGS_TITLE)[2].splitlines()[1:]
    assert shown[0] == "- It is done. All **12 tests** pass. (r6.0)"
    assert shown[1].startswith("- The cause is the cache. It is never") and shown[1].endswith(
        "logs out. (r11.0)"
    )
    assert len(shown) == 2 and len(shown[1]) < 260


def test_a_file_that_was_changed_does_not_stand_among_those_read():
    world = started()
    world.call("read", "", file_path="a.py")
    world.call("edit", "", file_path="a.py")
    assert local_summary_text(local_summary(world), COUNT, 500) == "Files changed:\n- a.py (r6.0)"


def test_an_empty_local_summary_is_not_text():
    assert local_summary_text(local_summary(started()), COUNT, 500) == ""


def test_coverage_counts_what_the_summary_and_what_all_names():
    world = started()
    for at in range(50):
        world.call("read", "", file_path=f"src/f{at}.py")
        world.reply(f"name_{at} is {1000 + at}")
    made = coverage(
        most_used_names(local_summary(world)), "src/f49.py name_49", "src/f48.py name_49 name_48 1049"
    )
    assert made == {"paths": [1, 1, 40], "identifiers": [1, 2, 40], "numbers": [0, 1, 20]}


def test_what_the_assistant_promised_decided_and_gave_up_stands_verbatim_with_its_id():
    world = started()
    world.reply("I chose SQLite over Postgres because one process writes. It has 3 tables.")
    world.reply("I tried a cache, but it made the diff unstable. I will not touch billing.")
    world.call("read", "", file_path="a.py")
    text = commitments_text(local_summary(world), COUNT, 500)
    assert text.splitlines() == [
        "Promised or confirmed by the assistant:",
        "- I will not touch billing. (r5.0)",
        "Decided:",
        "- I chose SQLite over Postgres because one process writes. (r3.0)",
        "Tried and given up:",
        "- I tried a cache, but it made the diff unstable. (r5.0)",
    ]
    assert "billing" not in commitments_text(
        local_summary(world), COUNT, 500, skip="I will not touch billing."
    )
    assert commitments_text(local_summary(world), COUNT, 45).splitlines()[1:] == [
        "- I will not touch billing. (r5.0)"
    ]


def test_a_statement_that_may_be_no_promise_is_listed_as_said():
    world = started()
    world.reply("I'll keep you posted on the port. The old port stays untouched.")
    kinds = {each.text: (each.kind, each.weight) for each, _ in local_summary(world).commitments}
    (unsure,) = [text for text, (kind, weight) in kinds.items() if kind == "promise" and weight < REQUEST]
    said = commitments_text(local_summary(world), COUNT, 500).partition("Said by the assistant")[2]
    assert unsure in said and "keep you posted" not in said


def test_what_the_assistant_says_again_stands_where_it_was_said_last():
    world = started()
    for text in ("I'll use Redis because it is fast.", "I'll use files since Redis fell.") * 2:
        world.reply(text)
    world.reply("I'll use Redis because it is fast.")
    assert commitments_text(local_summary(world), COUNT, 500).splitlines()[1:] == [
        "- I'll use files since Redis fell. (r9.0)",
        "- I'll use Redis because it is fast. (r11.0)",
    ]


def searched_texts(monkeypatch):
    """The texts that are searched for names from now on."""
    searched = []

    def search(text):
        searched.append(text)
        return whole_name_counts(text)

    monkeypatch.setattr("compact.entry_account.whole_name_counts", search)
    return searched


def test_what_an_entry_says_is_worked_out_once_and_again_where_it_has_changed(monkeypatch):
    world = rich()
    asks = world.reply(ToolUseBlock("c1", "read", {"file_path": "src/first_one.py"}))
    before = local_summary(world)
    assert before.names
    searched = searched_texts(monkeypatch)
    world.add(Compacted, "ledger", "manual", (Fold(1, 4, (TextBlock("folded"),), 1),))
    assert local_summary(world) == before
    assert searched == []
    world.result(asks, 0, "from src/other_name.py")
    assert "src/other_name.py" in local_summary(world).names
    assert len(searched) == 3  # the input, for names and for mentions, and the result
    anew = fold(world.facts)
    made = build_local_summary(anew, anew.entries)
    assert (local_summary(world).names, local_summary(world)) == (made.names, made)


def test_a_tool_that_turns_out_to_write_is_accounted_for_again():
    world = started()
    world.call("put_file", "done", file_path="src/a.py")
    assert list(local_summary(world).read) == ["src/a.py"]
    world.add(Instructed, (), ({"name": "put_file", "kind": "writes"},))
    assert list(local_summary(world).changed) == ["src/a.py"]


def test_what_a_command_of_the_users_wrote_constrains_nothing():
    world = started()
    world.user("<command-of-the-user>\n$ cat policy.txt\nNever push.\n</command-of-the-user>", "Never pull.")
    assert [text for text, _ in local_summary(world).constraints] == ["Never pull."]


@each_row(
    ("command", "output", "told"),
    [
        (
            "ls /none",
            "ls: cannot access '/none': No such file or directory\n[exit code 2]",
            "ls /none: ls: cannot access '/none': No such file or directory",
        ),
        ("false", "[exit code 1]\n[took 12.0 s]", "false: [exit code 1]"),
        ("make  all", "E: Failed to fetch\nsee the log\n[exit code 100]", "make all: E: Failed to fetch"),
        ("echo " + "a" * 90, "b\n[exit code 3]", "echo " + "a" * 55 + ": b"),
    ],
)
def test_an_error_of_a_command_names_it_and_what_it_said(command, output, told):
    world = started()
    world.call("bash", output, error=True, command=command)
    assert list(local_summary(world).errors.values()) == [f"bash {told}"]
