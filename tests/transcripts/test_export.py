import json
import re
import resource
import tracemalloc
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from pkgutil import resolve_name

import pytest
from msgspec import Struct, structs
from msgspec.structs import replace

from tests.tables import each_row
from transcripts import Display
from transcripts.codec import encode_fact
from transcripts.export import EXPORTERS, fenced, mask_session, write_private
from transcripts.export.formats import ExportedSession
from transcripts.export.html_page import PROGRAM_LABEL
from transcripts.export.size_chart import WORDS_BY_LAYER, scale_step
from transcripts.facts import (
    Clear,
    Compacted,
    Fact,
    Failed,
    Fold,
    Metadata,
    Opened,
    Reply,
    Result,
    Rewound,
    StoredOutput,
    Undone,
    Unthink,
    User,
)
from transcripts.folding import fold
from transcripts.load import MIN_LAZY_LINE_BYTES, read_transcript
from transcripts.messages import (
    ImageBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    Usage,
)
from transcripts.render_text import session_title, shortened
from transcripts.secrets import SecretMasks

from .exported import exported, page_of

EVIL = (
    "</title></style></script>--><script>alert(1)</script><img src=https://x onerror=alert(1)>\" ' onload=a\n"
    "[a](javascript:alert(1)) [b](https://x/\"onclick=a) ![c](https://x/i.png 'onload=a') <https://x>\n"
    "```html onclick=a\n<b>\n```\n&lt;script&gt; &#60;script&#62; <style>*{}</style><base href=//x>"
)
SECRET = "sk-" + "ant-api03-" + "Ab1_" * 20
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old line\n+new line\n same"


def session() -> list[Fact]:
    """A little of everything, with what would break a page if it were not escaped."""
    facts: list[Fact] = [
        Opened(
            1, 1_795_253_400.0, ("be good",), ({"name": "bash"},), "claude-sonnet-5-5", 200_000, "/home/me/p"
        ),
        User(
            2,
            1_795_253_401.0,
            (TextBlock("Fix </script><script>alert(1)</script> & **this**"), ImageBlock("image/png", PIXEL)),
        ),
    ]
    for turn in range(6):
        seq = facts[-1].seq
        blocks = (
            ThinkingBlock(f"I think {turn}", "sig"),
            RedactedThinkingBlock("zz"),
            TextBlock(f"Step {turn}:\n```python\nprint('<b>')\n```\nok"),
            ToolUseBlock(f"t{turn}", "edit", {"path": f"x{turn}.py", "old_string": "<old>"}),
        )
        usage = Usage(input=1000 * (turn + 1), cache_read=9000 * (turn % 4), output=50)
        facts.append(Reply(seq + 1, 1_795_253_402.0 + turn, blocks, usage=usage))
        facts.append(
            Result(
                seq + 2,
                1_795_253_403.0 + turn,
                seq + 1,
                3,
                (TextBlock(f"done {turn} key={SECRET}\x1b[31m\u202e" + "y" * MIN_LAZY_LINE_BYTES),),
                (600,),
                error=turn == 4,
                human=Display(diff=DIFF if turn % 2 else ""),
                stored=StoredOutput(".task_outputs/tool-results/x.txt", "0" * 64, 12345)
                if turn == 5
                else None,
            )
        )
        if turn == 3:
            edits = (
                Clear(4, 0, "content", "[cleared: recall r4]", 590),
                Fold(2, 4, (TextBlock("so far"),), 9),
            )
            report = {"why": "over 80 % of the window", "before": 180_000, "after": 40_000}
            facts.append(
                Compacted(seq + 3, 1_795_253_409.0, "micro", "auto", (*edits, Unthink(2, 9)), None, report)
            )
    seq = facts[-1].seq
    return [
        *facts,
        Metadata(seq + 1, 1_795_253_500.0, "name", {"name": "A <fine> name"}),
        Failed(seq + 2, 1_795_253_500.0, "summary", "no answer"),
        User(seq + 3, 1_795_253_501.0, (TextBlock("forget this"),)),
        Rewound(seq + 4, 1_795_253_502.0, seq + 3),
        User(seq + 5, 1_795_253_503.0, (TextBlock("the end ```"),), source="user"),
        Reply(seq + 6, 1_795_253_504.0, (TextBlock("half"),), complete=False, partial="and a <piece>"),
    ]


FOLDED = fold(session())


@each_row("suffix", [".md", ".html", ".json", ".jsonl"])
def test_no_export_shows_a_secret_or_what_was_rewound(suffix: str) -> None:
    text = exported(FOLDED, "s1", suffix)
    assert SECRET[-20:] not in text and "[Anthropic key masked]" in text
    assert "forget this" not in text


def test_a_result_on_a_page_is_one_of_an_error_or_not() -> None:
    call = ToolUseBlock("t", "bash", {"command": "false"})
    failed = Result(2, 0.0, 1, 0, (TextBlock("no"),), error=True)
    for result, kind in ((failed, "error"), (replace(failed, error=False), "result")):
        page = page_of([Reply(1, 0.0, (call,)), result])
        assert f"<article class={kind} id=r2><details class={kind}><summary>{kind} of bash false" in page


@pytest.mark.parametrize("suffix", [".md", ".html"])
def test_the_time_reported_is_that_of_the_beginning_also_after_a_change_of_the_model(suffix: str) -> None:
    facts = session()
    changed = Opened(facts[-1].seq + 1, 1_795_300_000.0, model="claude-opus-5-5", folder="/home/me/p")
    about = exported(fold([*facts, changed]), "s1", suffix)
    assert re.search(r"claude-opus-5-5 in .*/home/me/p.*, 2026-11-21 09:30:00 UTC", about)


def test_where_the_disk_is_full_no_part_of_an_export_is_left(tmp_path: Path) -> None:
    """Its name can be given again, once there is space."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, old[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_private(tmp_path / "x.md", ["a text"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    write_private(tmp_path / "x.md", ["a text"])
    with pytest.raises(FileExistsError):
        write_private(tmp_path / "x.md", ["another"])
    assert (tmp_path / "x.md").read_text() == "a text"


def test_an_unknown_suffix_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"\.md, \.html, \.json, \.jsonl"):
        exported(FOLDED, "s1", ".pdf")


def test_markdown_holds_prompts_replies_calls_and_results() -> None:
    text = exported(FOLDED, "s1", ".md")
    assert text.startswith("# A <fine> name\n\nclaude-sonnet-5-5 in `/home/me/p`, 2026-11-21 09:30:00 UTC\n")
    for piece in (
        "## You\n\nFix",
        "Step 5:",
        "> I think 0",
        '"path": "x3.py"',
        "Error of `r",
        "(interrupted)",
    ):
        assert piece in text
    assert f"Compaction c11: {WORDS_BY_LAYER['micro']}" in text and "(auto)" in text


def test_a_fence_is_longer_than_any_in_the_text_and_a_long_text_loses_its_middle() -> None:
    assert fenced("a ```` b").startswith("`````\n")
    long = shortened("a" * 30_000)
    assert len(long) < 21_000 and "10,000 characters" in long
    assert shortened("short") == "short"


def test_the_jsonl_export_can_be_resumed(tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    path.write_text(exported(FOLDED, "s1", ".jsonl"), "utf-8")
    loaded = read_transcript(path)
    assert [fact.seq for fact in loaded.facts] == [fact.seq for fact in FOLDED.facts]
    assert loaded.damaged == () and loaded.torn_size == 0
    assert len(fold(loaded.facts).view) == len(FOLDED.view)


def test_the_json_export_is_the_conversation_before_any_compaction() -> None:
    value = json.loads(exported(FOLDED, "s1", ".json"))
    assert value["session"] == "s1" and value["model"] == "claude-sonnet-5-5"
    text = json.dumps(value["messages"])
    assert "done 0" in text and "[cleared" not in text and "so far" not in text
    assert [message["role"] for message in value["messages"]][:2] == ["user", "assistant"]


def test_results_left_in_the_file_are_exported_too(tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    path.write_bytes(b"".join(encode_fact(fact, "s1") for fact in session()))
    loaded = read_transcript(path, defer=True)
    assert len(loaded.lazy_results) == 1
    assert "done 0" not in exported(fold(loaded.facts), "s1", ".md")
    for suffix in EXPORTERS:
        assert "done 0" in exported(fold(loaded.facts), "s1", suffix, loaded.lazy_results)


@each_row("suffix", EXPORTERS)
def test_an_export_has_one_result_in_memory_at_a_time(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "s1.jsonl"
    facts: list[Fact] = [Opened(1, 1.0)]
    for seq in range(2, 62, 2):
        use = ToolUseBlock(f"t{seq}", "bash", {"command": "make"})
        facts.append(Reply(seq, 1.0, (use,), (10,)))
        facts.append(Result(seq + 1, 1.0, seq, 0, (TextBlock("a line of output\n" * 5_000),), (20_000,)))
    facts.append(Compacted(62, 1.0, "summary", "auto", (Fold(1, 61, (TextBlock("made"),), 1),)))
    path.write_bytes(b"".join(encode_fact(fact, "s1") for fact in facts))
    loaded = read_transcript(path, defer=True)
    session = ExportedSession("s1", fold(loaded.facts), loaded.lazy_results)
    write = resolve_name(EXPORTERS[suffix])
    tracemalloc.start()
    length = sum(map(len, write(session)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert length > 30 * 20_000 and peak < 1_500_000  # the results have 2,550,000 characters


def test_masking_copies_only_the_facts_with_a_secret() -> None:
    facts = [
        Opened(1, 1_795_253_400.123, ("be good",), ({"name": "bash"},), "claude-sonnet-5-5", 200_000, "/p"),
        User(2, 1_795_253_401.0, (TextBlock("Fix it"), ImageBlock("image/png", PIXEL)), (9, 9)),
        *session()[2:4],
    ]
    masked = mask_session(fold(facts), "s1", SecretMasks()).folded.facts
    assert [one is other for one, other in zip(masked, facts, strict=True)] == [True, True, True, False]
    assert SECRET in str(facts[3]) and SECRET not in str(masked[3])


def test_the_page_needs_nothing_else_and_escapes_what_it_shows() -> None:
    page = exported(FOLDED, "s1", ".html")
    for outside in ("http://", "https://", "//cdn", "@import", "url("):
        assert outside not in page
    assert "default-src 'none'" in page and "width=device-width" in page
    assert page.count("<script>") == page.count("</script>") == 1
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in page
    assert "⟨U+001B⟩[31m⟨U+202E⟩" in page


def all_evil(value: object) -> object:
    """Return a fact, or a part of one, with EVIL for every text in it."""
    if isinstance(value, str):
        return EVIL
    if isinstance(value, Mapping):
        return {f"{EVIL}{at}": all_evil(each) for at, each in enumerate(value.values())}
    if isinstance(value, list | tuple):
        return tuple(map(all_evil, value))
    if isinstance(value, Struct):
        names = (name for name in value.__struct_fields__ if name != "source")
        return structs.replace(value, **{name: all_evil(getattr(value, name)) for name in names})
    return value


def test_no_text_of_a_session_becomes_markup_of_the_page() -> None:
    page = page_of([all_evil(fact) for fact in session()], EVIL)  # type: ignore[misc]
    tags = list[tuple[str, dict[str, str | None]]]()

    class TagReader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append((tag, dict(attrs)))

    TagReader().feed(page)
    names = [name for name, _ in tags]
    assert (
        names.count("script") == names.count("style") == names.count("title") - len(FOLDED.compactions) == 1
    )
    assert not {"iframe", "object", "link", "base", "form"} & set(names)
    for name, given in tags:
        assert not [each for each in given if each.startswith("on") or each == "style"], (name, given)
        assert name != "img" or str(given["src"]).startswith("data:image/")
        address = str(given.get("href") or "#")
        assert address.startswith(("#", "https://")), address


def test_the_page_runs_no_script_but_its_own() -> None:
    page = exported(FOLDED, "s1", ".html")
    (script,) = re.findall(r"<script>(.*)</script>", page, re.DOTALL)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in page


def test_the_page_shows_emoji_and_scripts_unchanged_and_numbers_what_hides_text() -> None:
    everyday = "Team 👨\u200d👩\u200d👧 می\u200cخواهم ⚠\ufe0f"
    facts = [
        *session()[:1],
        User(1, 0.0, (TextBlock(f"{everyday} \u200d\U000e0041⚠\ufe0f\ufe0e"),)),
    ]
    page = exported(fold(facts), "s1", ".html")
    shown = f"{everyday} ⟨U+200D⟩⟨U+E0041⟩⚠⟨U+FE0F⟩⟨U+FE0E⟩"
    assert f"<title>{shown}</title>" in page and page.count(shown) >= 2


def test_the_page_shows_what_a_compaction_left_out_and_why() -> None:
    page = exported(FOLDED, "s1", ".html")
    assert f"Compaction c11: {WORDS_BY_LAYER['micro']}" in page
    assert "over 80 % of the window" in page and "<a href=#r4>r4</a>: content, 590 tokens" in page
    assert page.count("class=mark") == 1 and "<polyline" in page
    undone = exported(fold([*session(), Undone(99, 0.0, "c11")]), "s1", ".html")
    assert "(auto), undone later" in undone and "1 compaction (1 undone)</p>" in undone


def test_an_empty_session_can_be_exported() -> None:
    for suffix in (".md", ".html", ".json", ".jsonl"):
        exported(fold([]), "s1", suffix)


def page_saying(text: str) -> str:
    """The page of a session of another agent, without times and figures, in which the model wrote `text`."""
    user = User(1, 0.0, (TextBlock("Tell me"),))
    facts = [user, Reply(2, 0.0, (TextBlock(text),)), Reply(3, 0.0, (TextBlock("more"),))]
    return exported(fold(facts), "s1", ".html")


def test_markdown_of_the_model_is_rendered_and_its_html_stays_text() -> None:
    page = page_saying(
        "## A heading\n\n- **one**\n- `two`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n<b onclick=x()>bold</b>"
    )
    assert "<h2>A heading</h2>" in page and "<strong>one</strong>" in page and "<td>2</td>" in page
    assert "&lt;b onclick=x()&gt;" in page and "<b onclick" not in page


def test_an_image_of_the_web_becomes_a_link() -> None:
    page = page_saying(
        "[go](https://example.org/a) ![pic <1>](https://example.org/i.png?a=1&b=2) [no](javascript:alert(1))"
    )
    assert '<a href="https://example.org/a">go</a>' in page
    assert '<a href="https://example.org/i.png?a=1&amp;b=2">pic &lt;1&gt;</a>' in page
    assert "<img" not in page and 'href="javascript' not in page


def test_times_are_left_out_and_sizes_estimated_where_there_are_none() -> None:
    page = page_saying("x" * 4_000)
    assert "1970" not in page and "<time>" not in page
    assert "at most 1,001 tokens (estimated" in page


def test_a_secret_within_markdown_is_masked() -> None:
    assert SECRET not in page_saying(f"use `{SECRET}` or **{SECRET}**")


def with_injected_context() -> list[Fact]:
    """A prompt with what the program puts beside it, and a change of a file."""
    around = TextBlock("<surroundings>\nProject folder: /home/me\n</surroundings>")
    diff = f"{DIFF}\n--- counted down"  # the last line takes `-- counted down` away
    return [
        User(1, 1.79e9, (around, TextBlock("change x.py"))),
        Reply(
            2, 1.79e9, (TextBlock("ok"), ToolUseBlock("t", "edit", {"file_path": "x.py", "old_string": "a"}))
        ),
        Result(3, 1.79e9, 2, 1, (TextBlock("from typing import Any"),), human=Display(diff=diff)),
    ]


def test_injected_context_is_distinguished_from_what_the_user_wrote() -> None:
    folded = fold(with_injected_context())
    page = exported(folded, "s", ".html")
    you = page[page.index("<h2>You ") : page.index("<h2>Model ")]
    assert f"<details class=about><summary>{PROGRAM_LABEL}</summary><pre>&lt;surroundings&gt;" in you
    assert you.endswith("</details><p>change x.py</p></article><article class=reply id=r2>")
    markdown = exported(folded, "s", ".md")
    assert "> <surroundings>\n> Project folder: /home/me\n" in markdown
    assert "## You\n\nchange x.py\n" in markdown


def test_the_words_of_a_hook_are_not_shown_as_the_users() -> None:
    folded = fold([User(1, 1.79e9, (TextBlock("<hook>\nhook day\n</hook>"), TextBlock("change x.py")))])
    assert f"<summary>{PROGRAM_LABEL}</summary><pre>&lt;hook&gt;" in exported(folded, "s", ".html")
    assert "> <hook>\n> hook day\n> </hook>\n\n## You\n\nchange x.py\n" in exported(folded, "s", ".md")


def test_a_result_is_labelled_with_its_call_and_only_changed_lines_of_its_diff_are_coloured() -> None:
    page = exported(fold(with_injected_context()), "s", ".html")
    assert "<summary>result of edit x.py</summary>" in page
    coloured = [line.split(">", 1) for line in page.split("<span class=")[1:]]
    assert [(kind, line.split("\n")[0]) for kind, line in coloured] == [
        ('"at"', "x.py"),
        ('"del"', "<i>1</i> - <mark>old</mark> line"),
        ('"add"', "<i>1</i> + <mark>new</mark> line"),
        ('"same"', "<i>2</i>   same"),
        ('"del"', "<i>3</i> - -- counted down"),
    ]


def test_dropped_thinking_is_called_so_wherever_a_compaction_is_shown():
    facts = [
        User(1, 1.0, (TextBlock("hi"),), (1,)),
        Compacted(2, 2.0, "unthink", "reactive", (Unthink(0, 1),), report={}),
    ]
    for suffix in (".md", ".html"):
        text = exported(fold(facts), "s", suffix)
        assert "thinking dropped" in text and ": unthink" not in text


def test_the_title_is_the_name_else_the_first_prompt() -> None:
    blocks = (TextBlock("<surroundings>\nx\n</surroundings>"), TextBlock("fix\nthe  build " * 20))
    words = User(2, 1.0, blocks, ())
    name = Metadata(3, 1.0, "name", {"name": "my session"})
    title = session_title([words], "s1")
    assert title.startswith("fix the build fix the build") and title.endswith("…")
    assert session_title([words, name], "s1") == "my session"
    assert session_title([], "s1") == "Session s1"


def test_a_diff_has_the_colours_of_its_language_on_both_sides_and_its_marks() -> None:
    change = " def f(a):\n-    return a + 1  # <b>\n+    return a + 22  # <b>\n"
    diff = f"--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n{change}"
    facts: list[Fact] = [
        User(1, 1.0, (TextBlock("go"),), (1,)),
        Reply(2, 1.0, (ToolUseBlock("t", "edit", {"file_path": "x.py"}),), (1,)),
        Result(3, 1.0, 2, 0, (TextBlock("done"),), human=Display(diff=diff)),
    ]
    page = page_of(facts)
    shown = page[page.index("<pre class=diff>") : page.index("</pre>", page.index("<pre class=diff>"))]
    assert shown.count("<b class=key>return</b>") == 2 and "<b class=def>f</b>" in shown
    assert "<mark>1</mark>" in shown and "<mark>22</mark>" in shown
    assert shown.count("<b class=rem># &lt;b&gt;</b>") == 2
    plain = page_of([*facts[:2], replace(facts[2], human=Display(diff=diff.replace(".py", ".odd")))])
    assert "<b class=" not in plain and "<mark>22</mark>" in plain


@each_row(("most", "step"), [(1, 1), (5, 1), (9, 2), (24, 5), (95, 20), (31_000, 10_000), (180_000, 50_000)])
def test_a_scale_has_few_round_lines(most: int, step: int) -> None:
    assert scale_step(most) == step


def test_the_chart_has_a_scale_and_words_at_its_compactions() -> None:
    report = {"before": 30_780, "after": 13_226}
    facts: list[Fact] = [User(1, 1.0, (TextBlock("go"),), (1,))]
    for seq, tokens in ((2, 9_000), (3, 31_000), (5, 13_000)):
        facts.append(Reply(seq, 1.0, (TextBlock("x"),), (1,), usage=Usage(tokens)))
    facts.insert(3, Compacted(4, 1.0, "micro", "auto", (), None, report))
    page = page_of(facts)
    assert all(f">{label}</text>" in page for label in ("0", "10k", "20k", "30k", "40k", "r2", "r5"))
    assert f">{WORDS_BY_LAYER['micro']}, 31k → 13k tokens</text>" in page
    assert f"{WORDS_BY_LAYER['micro']}, 31k → 13k tokens (auto)</summary>" in page


def test_the_chart_shows_each_compaction_with_the_sizes_before_and_after_it() -> None:
    facts: list[Fact] = [User(1, 1.0, (TextBlock("go"),), (1,))]
    for seq, tokens in ((2, 9_000), (3, 22_000), (5, 13_000)):
        facts.append(Reply(seq, 1.0, (TextBlock("x"),), (1,), usage=Usage(tokens)))
    facts.insert(3, Compacted(4, 1.0, "micro", "auto", (), None, {"before": 31_000, "after": 12_000}))
    facts.append(Compacted(6, 1.0, "micro", "manual", (), None, {"before": 14_000, "after": 12_000}))
    page = page_of(facts)
    assert "at each reply and compaction, at most 31,000 tokens" in page
    assert page.count("<line class=mark") == 2 and ">r6</text>" in page
    curve = re.findall(r"<polyline class=size points='(.*?)'", page)[0].split()
    assert len(curve) == 3 + 2 * 2


def test_compactions_close_to_each_other_have_their_words_in_rows_of_their_own() -> None:
    report = {"before": 30_780, "after": 13_226}
    facts: list[Fact] = [User(1, 1.0, (TextBlock("go"),), (1,))]
    for seq in range(2, 40):
        told = Compacted(seq, 1.0, "micro", "auto", (), None, report)
        reply = Reply(seq, 1.0, (TextBlock("x"),), (1,), usage=Usage(9_000))
        facts.append(told if seq in (20, 22, 24) else reply)
    page = page_of(facts)
    words = re.findall(r"<text class=words x=([\d.]+) y=(\d+)", page)
    assert len(words) == 3 and len({y for _, y in words}) == 3
    assert page.rindex("<line class=mark") < page.index("<text class=words")
