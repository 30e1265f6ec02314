"""Nothing of a text is lost when it is drawn as markdown, in any script and at any width."""

import os
import re
from collections import Counter
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from random import Random

import pytest
from wcwidth import strip_sequences

from agent.ui.file_links import with_file_links
from agent.ui.markdown import draw_markdown
from agent.ui.markdown_stream import MarkdownStream
from agent.ui.terminal_text import Theme, painted_width, wrap_painted
from tests.tables import each_row

PIECES = (
    "abc", "Wörter", "日本語テキスト", "한국어", "👩\u200d👩\u200d👧\u200d👦", "👩🏽\u200d💻", "🇩🇪🇫🇷",
    "👍🏿", "e\u0301",
    "ก็ษ์", "हिन्दी", "עברית", "العربية", "x" * 30, "long_identifier_name", "❤\ufe0f", "1\ufe0f\u20e3",
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "ﷺ", "😀😀😀",
    "½", "①", "ｆｕｌｌ", "中" * 40, "“q”", "—", "Z\u0302\u0323",
)  # fmt: skip
WIDTHS = (12, 20, 33, 40, 60, 80, 100, 120)
SHOWN = re.compile(r"[\w\U0001f000-\U0001faff]")


def words(random: Random, most: int, least: int = 1) -> str:
    return " ".join(random.choice(PIECES) for _ in range(random.randint(least, most)))


def table(random: Random) -> str:
    columns = random.randint(1, 6)
    rows = ["| " + " | ".join(words(random, 3, 0) or "-" for _ in range(columns)) + " |" for _ in range(4)]
    return "\n".join([rows[0], "|" + "---|" * columns, *rows[1:]])


BLOCKS = (
    lambda random: "#" * random.randint(1, 4) + " " + words(random, 6),
    lambda random: "\n".join("- " + words(random, 12) for _ in range(random.randint(1, 4))),
    lambda random: "\n".join(f"{at}. " + words(random, 12) for at in range(1, random.randint(2, 5))),
    table,
    lambda random: "```python\n" + "\n".join(words(random, 10, 0) for _ in range(3)) + "\n```",
    lambda random: "- item\n\n  ```\n  " + words(random, 20) + "\n  ```",
    lambda random: "> " + words(random, 20),
    lambda random: f"**{words(random, 2)}** and `{words(random, 2)}` {words(random, 10)}",
    lambda random: words(random, 40),
)


def losses(seed: int, texts: int) -> list[tuple[int, str]]:
    """(width, text) of the random texts that lost a character or are wider than the screen."""
    random = Random(seed)
    found = []
    for _ in range(texts):
        text = "\n\n".join(random.choice(BLOCKS)(random) for _ in range(random.randint(1, 4)))
        columns = random.choice((*WIDTHS, random.randint(12, 140)))
        drawn = strip_sequences(draw_markdown(text, columns, Theme(random.random() < 0.5)))
        source = re.sub(r"^(```python|\d+\. )", "", text, flags=re.M)
        lost = Counter(SHOWN.findall(source)) - Counter(SHOWN.findall(drawn))
        if lost or max(map(painted_width, drawn.split("\n"))) > columns:
            found.append((columns, text))
    return found


def test_random_texts_of_many_scripts_are_drawn_whole() -> None:
    assert losses(seed=1, texts=50) == []


@pytest.mark.sweep
@pytest.mark.timeout(600)
def test_ten_thousand_random_texts_are_drawn_whole() -> None:
    assert losses(seed=2, texts=10_000) == []


def test_rows_are_as_full_as_whole_words_fill_them_also_with_joined_emoji() -> None:
    random = Random(3)
    for columns in range(24, 100):
        rows = strip_sequences(
            draw_markdown(words(random, 60, 50).replace("x" * 30, "x"), columns, Theme(True))
        )
        for row, following in pairwise(rows.split("\n")):
            if "中" * 9 not in row + following:  # which is broken anywhere
                assert painted_width(f"{row} {following.split(' ')[0]}") > columns


def test_a_narrow_table_shows_its_rows_one_below_the_other() -> None:
    drawn = draw_markdown("| name | kind |\n|---|---|\n| a | x |\n| b | y |", 18, Theme())
    assert strip_sequences(drawn) == "name: a\nkind: x\n\nname: b\nkind: y"


def test_words_behind_long_numbers_of_lists_are_shown_in_a_narrow_terminal() -> None:
    assert "999999999. a word" in strip_sequences(draw_markdown("999999999. " * 3 + "a word", 20, Theme()))


def test_a_painted_line_that_is_too_wide_keeps_its_colours_in_every_row() -> None:
    rows = wrap_painted("  \x1b[1mone two\x1b[0m \x1b[32mthree four\x1b[0m", 8)
    assert [strip_sequences(row) for row in rows] == ["  one", "  two", "  three", "  four"]
    assert "\x1b[1mtwo" in rows[1] and "\x1b[32mfour" in rows[3]
    assert wrap_painted("short", 8) == ["short"]
    for end in ("\x1b[m", "\x1b[0m"):
        assert wrap_painted(f"\x1b[1mone{end} two six", 4) == ["\x1b[1mone\x1b[m", "two", "six"], end


@each_row(
    ("text", "shown"),
    [
        ("An image ![alt](https://e.org/a.png) here", "An image alt (https://e.org/a.png) here"),
        ("[![badge](https://b.org/i.svg)](https://t.org)", "badge (https://t.org)"),
        ("see [the docs][1]\n\n[1]: https://e.org 'T'", "see [the docs][1]\n\n[1]: https://e.org 'T'"),
        ("<https://e.org/x> and <me@e.org>", "https://e.org/x and me@e.org"),
        ("[日本](<docs/日本.md>)", "日本 (docs/日本.md)"),
        ("```sh title=a.sh\nls\n```", "── sh title=a.sh\n  ls"),
        ("a &#x202e; b [c](src/%1b%0a)", "a <U+202E> b c (src/␛)"),
        ("|a|b|\n|-|-|\n|1|`x || y`|\n|2|", "a  b\n─────────\n1  x || y\n2"),
        ("> |a|b|\n> |-|-|\n> |1|2|3|4", "│ a  b\n│ ────────\n│ 1  2|3|4"),
    ],
)  # fmt: skip
def test_everything_that_markdown_would_leave_out_is_shown(text: str, shown: str) -> None:
    assert strip_sequences(draw_markdown(text, 60, Theme())) == shown


@each_row(
    ("text", "shown"),
    [("[a](src/b.py#L1)", "a (src/b.py#L1)"), ("[](https://e.org)", "https://e.org"), ("![](u)", "u")],
)
def test_an_address_that_no_link_holds_is_shown_where_the_terminal_has_links(text: str, shown: str) -> None:
    assert strip_sequences(draw_markdown(text, 60, Theme(links=True))) == shown


@each_row(
    ("text", "address", "target"),
    [
        ("see https://de.wikipedia.org/wiki/Ä_(b) too", "https://de.wikipedia.org/wiki/Ä_(b)",
         "https://de.wikipedia.org/wiki/%C3%84_(b)"),
        ("https://foo.bar/日本。次", "https://foo.bar/日本", "https://foo.bar/%E6%97%A5%E6%9C%AC"),
        ("“https://foo.bar/é”—that", "https://foo.bar/é", "https://foo.bar/%C3%A9"),
        ("https://müller.de/?q=ü.", "https://müller.de/?q=ü", "https://xn--mller-kva.de/?q=%C3%BC"),
        ("https://e.org/हिन्दी", "https://e.org/हिन्दी",
         "https://e.org/%E0%A4%B9%E0%A4%BF%E0%A4%A8%E0%A5%8D%E0%A4%A6%E0%A5%80"),
        ("https://e.org/50%25%zz.", "https://e.org/50%25%zz", "https://e.org/50%25%zz"),
    ],
)  # fmt: skip
def test_a_bare_address_is_a_link_in_every_script(text: str, address: str, target: str) -> None:
    drawn = draw_markdown(text, 100, Theme(links=True))
    assert re.findall(r"\x1b\]8;[^;]*;([^\x1b\x07]+)", drawn) == [target]
    assert strip_sequences(drawn) == text and address in strip_sequences(drawn)


def test_files_of_the_project_that_an_answer_names_are_links_and_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name in ("a.py", "src/b.py", "e.org"):
        (tmp_path / name).write_text("")
    text = "see a.py:3, `src/b.py` and **a.py**. No: c.py, ../a.py, x/a.py, https://e.org/a.py, [a.py](https://e.org)"
    drawn = draw_markdown(text, 200, Theme(links=True))
    made = with_file_links(drawn, str(tmp_path))
    place = f"file://{os.uname().nodename}{tmp_path}"
    shown = re.findall(r"\x1b\]8;[^;]*;([^\x1b\x07]+)\x1b\\((?:\x1b\[[0-9;]*m)*[^\x1b]*)", made)
    assert [(at, strip_sequences(words)) for at, words in shown if at.startswith("file")] == [
        (f"{place}/a.py", "a.py:3"),
        (f"{place}/src/b.py", "src/b.py"),
        (f"{place}/a.py", "a.py"),
    ]
    assert len(shown) == 5 and strip_sequences(made) == strip_sequences(drawn)
    assert with_file_links(drawn, "") == drawn


def numbered(random: Random, count: int) -> str:
    """Text of words that occur once, in what markdown makes of words."""
    forms = ("{0}",) * 30 + (
        "**{0}**", "`{0}`", "[{0}](https://e.org/{1})", "![{0}](https://e.org/{1}.png)", "[{0}](src/{1}.py)",
        "[{0}][{1}]", "<{0}>", "~~{0}~~", "*{0}", "`{0}", "👨\u200d👩\u200d👧{0}", "<https://e.org/{0}>",
        "{0}\\", "[{0}", "|{0}|", "<div class='{0}'>", "<!-- {0}", "&{0};",
    )  # fmt: skip
    return " ".join(
        random.choice(forms).format(f"w{next(NUMBERS)}q", f"w{next(NUMBERS)}q") for _ in range(count)
    )


NUMBERS = count()
NUMBERED_BLOCKS: tuple[Callable[[Random], str], ...] = (
    lambda random: "#" * random.randint(1, 7) + " " + numbered(random, 4),
    lambda random: "\n".join(random.choice("-*+") + " " + numbered(random, 5) for _ in range(3)),
    lambda random: "\n".join(f"{at}) {numbered(random, 5)}" for at in range(98, 101)),
    lambda random: "|a|b|\n|---|---|\n|x|" + "|".join(f"w{next(NUMBERS)}q" for _ in range(3)) + "|",
    lambda random: f"~~~sh w{next(NUMBERS)}q\n\n  w{next(NUMBERS)}q\n" + random.choice(("~~~", "")),
    lambda random: f"> {numbered(random, 20)}\n{numbered(random, 3)}",
    lambda random: f"- {numbered(random, 2)}\n\n  {numbered(random, 9)}\n  - a\n    1. {numbered(random, 9)}",
    lambda random: f"1. a\n   ```\n   w{next(NUMBERS)}q\n   ```\n2. {numbered(random, 1)}",
    lambda random: f"[w{next(NUMBERS)}q]: https://e.org/w{next(NUMBERS)}q",
    lambda random: f"    w{next(NUMBERS)}q\n{random.choice(('---', '===', '- a', '> a'))}",
    lambda random: numbered(random, 40),
    lambda random: "> " + random.choice(NUMBERED_BLOCKS)(random).replace("\n", "\n> "),
    lambda random: "- " + random.choice(NUMBERED_BLOCKS)(random).replace("\n", "\n  "),
)


def not_once(random: Random) -> tuple[int, str] | None:
    """(width, text) of a random text of which a word is not seen once, streamed in random pieces."""
    text = random.choice(("\n\n", "\n")).join(
        random.choice(NUMBERED_BLOCKS)(random) for _ in range(random.randint(1, 6))
    )
    columns, stream, chunks, at = random.choice((12, 20, 40, 80, 120)), MarkdownStream(), [], 0
    while at < len(text):
        size = random.choice((1, 2, 5, 20, 1000))
        chunks += stream.feed(text[at : at + size])
        at += size
    drawn = [draw_markdown(chunk.text, columns, Theme()) for chunk in [*chunks, *stream.end()]]
    shown = re.sub(r"[\s│─]", "", strip_sequences("\n".join(drawn)))
    # a narrow table has the letters of a word in rows that others stand between
    seen, wanted = (re.findall(r"w\d+q" if columns >= 80 else r"[wq]", each) for each in (shown, text))
    missing = Counter(wanted) - Counter(seen)
    again = Counter(seen) - Counter(wanted) if columns >= 80 else None
    return (columns, text) if missing or again else None


def test_every_word_of_a_streamed_text_is_drawn() -> None:
    assert [found for seed in range(40) if (found := not_once(Random(seed)))] == []


@pytest.mark.sweep
@pytest.mark.timeout(600)
def test_every_word_of_ten_thousand_streamed_texts_is_drawn() -> None:
    assert [found for seed in range(10_000) if (found := not_once(Random(seed)))] == []
