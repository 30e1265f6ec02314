"""Patches of apply_patch are parsed in one place, for importers and for compaction."""

from msgspec.structs import replace

from compact.patches import files_of, is_patch, old_texts, patched_text
from transcripts.importers.apply_patch import own_calls
from transcripts.messages import ToolUseBlock
from transcripts.patches import PatchHunk, file_patches

PATCH = """*** Begin Patch
*** Update File: src/a.py
@@ def total
 a = 1

-old = 2
+new = 2
@@
-gone
*** End of File
*** Add File: b.py
+x = 1
+
*** Delete File: c.py
*** Update File: d.py
*** Move to: e.py
*** End Patch"""


def test_a_patch_names_its_files_and_their_pieces():
    first, added, deleted, moved = file_patches(f"apply_patch <<'EOF'\n{PATCH}\nEOF\n+no part of it")
    assert [each.action for each in (first, added, deleted, moved)] == ["update", "add", "delete", "update"]
    assert [each.path for each in (first, added, deleted, moved)] == ["src/a.py", "b.py", "c.py", "d.py"]
    assert first.hunks == [PatchHunk((" a = 1", "", "-old = 2", "+new = 2")), PatchHunk(("-gone",))]
    assert (first.hunks[0].old, first.hunks[0].new) == ("a = 1\n\nold = 2", "a = 1\n\nnew = 2")
    assert added.hunks[0].new == "x = 1\n" and deleted.hunks == moved.hunks == []
    assert moved.lines == ("*** Update File: d.py", "*** Move to: e.py")


def test_a_text_without_a_patch_has_none_and_a_cut_one_counts_as_far_as_it_goes():
    assert file_patches("*** Update File: a.py\n-x") == file_patches("") == []
    (cut,) = file_patches("*** Begin Patch\n*** Update File: a.py\n@@\n-x")
    assert cut.hunks == [PatchHunk(("-x",))]


def test_importers_and_compaction_read_the_same_old_texts():
    use = ToolUseBlock("t1", "apply_patch", {"input": PATCH})
    edits = [call.input["old_string"] for call in own_calls(use) if call.name == "edit"]
    assert edits == list(old_texts(use)) == ["a = 1\n\nold = 2", "gone"]
    assert files_of(use) == ["src/a.py", "b.py", "c.py", "d.py"]
    command = {"command": ["apply_patch", PATCH]}
    assert is_patch(use) and is_patch(replace(use, input=command))
    assert not is_patch(replace(use, input={"input": "a = 1", "command": ["cat", "a.py"]}))
    assert patched_text(PATCH) == "a = 1\n\nnew = 2\n\nx = 1\n" and patched_text("plain") == "plain"
