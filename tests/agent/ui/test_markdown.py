"""Nothing of a text is lost when it is drawn as markdown, in any script and at any width."""

import re
from collections import Counter
from random import Random

import pytest
from wcwidth import strip_sequences

from agent.ui.markdown import draw_markdown
from agent.ui.terminal_text import Theme, painted_width, wrap_painted

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
    assert losses(seed=1, texts=150) == []


@pytest.mark.sweep
@pytest.mark.timeout(600)
def test_ten_thousand_random_texts_are_drawn_whole() -> None:
    assert losses(seed=2, texts=10_000) == []


def test_a_narrow_table_shows_its_rows_one_below_the_other() -> None:
    drawn = draw_markdown("| name | kind |\n|---|---|\n| a | x |\n| b | y |", 18, Theme())
    assert strip_sequences(drawn) == "name: a\nkind: x\n\nname: b\nkind: y"


def test_a_painted_line_that_is_too_wide_keeps_its_colours_in_every_row() -> None:
    rows = wrap_painted("  \x1b[1mone two\x1b[0m \x1b[32mthree four\x1b[0m", 8)
    assert [strip_sequences(row) for row in rows] == ["  one", "  two", "  three", "  four"]
    assert "\x1b[1mtwo" in rows[1] and "\x1b[32mfour" in rows[3]
    assert wrap_painted("short", 8) == ["short"]
