"""Text from servers, models, tools and files takes time in proportion to its length, whatever it is made of.

Each function is timed on a text and on four times as much of it: four times as long is linear, sixteen times
quadratic. The pieces are those that make parsers go back. The gate has the pairs that went wrong; the sweep
tries all functions with all pieces.
"""

import itertools
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from agent import events
from agent.model.anthropic.accumulator import MessageAccumulator
from agent.model.anthropic.request import NAMES
from agent.model.error_mapping import map_error, quote, summarize_error
from agent.shell import Places, files_named_in, parse_simple_commands
from agent.ui.completion import rank, word_before_cursor
from agent.ui.markdown_stream import MarkdownStream
from agent.ui.paste_chips import PasteChips
from agent.ui.plain_repl import PlainView
from agent.ui.render import call_title, render_diff, render_notice, render_plainly
from agent.ui.terminal_text import (
    RenderContext,
    Theme,
    clip_painted,
    escape_output,
    longest_end,
    one_line,
    wrap,
)
from compact.commitments import commitments
from compact.directives import weighed_sentences
from compact.entry_account import _NUMBER
from compact.identifiers import whole_name_counts
from compact.replacement import summary_in
from compact.summary_prompt import _ANALYSIS, _SUMMARY
from tests.tables import each_row
from tools.left_out_text import added_placeholder
from tools.patch import find_all
from tools.processes.command_hints import hint, lex_commands, looks_like_prompt
from tools.processes.output_folding import fold_output
from tools.text.display import count_invisible, escaped, printable
from tools.text.encoding import decode_text
from tools.unified_diff import unified_diff
from transcripts.secrets.masking import SecretMasks, mask
from transcripts.secrets.stream_redactor import StreamRedactor

TOLERATED = 9.0  # times as long for four times as much, at most
SIZE = 16_000  # characters, and four times as many
MIN_SECONDS = 0.02  # for the longer text; what takes less is not worth a judgement
CONTEXT = RenderContext(80, Theme())


def redact(text: str) -> None:
    redactor = StreamRedactor(SecretMasks(("aaaaaaaaab", "<<<<<<<<x", "a secret value")))
    data = text.encode("utf-8", "replace")
    for at in range(0, len(data), 4_096):
        redactor.feed(data[at : at + 4_096])


def stream(text: str) -> None:
    """Markdown as it streams in, a few characters at a time."""
    markdown = MarkdownStream()
    for at in range(0, len(text), 16):
        markdown.feed(text[at : at + 16])
    markdown.end()


def plain_lines(text: str) -> None:
    view = PlainView.__new__(PlainView)
    view._unfinished, view._out = [], type("Nowhere", (), {"line": lambda self, text: None})()
    for at in range(0, len(text), 16):
        view.emit(events.TextDelta(text[at : at + 16]))


def accumulate(text: str) -> None:
    accumulator = MessageAccumulator()
    accumulator.feed(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "1"}}
    )
    for at in range(0, len(text), 16):
        delta = {"type": "input_json_delta", "partial_json": text[at : at + 16]}
        accumulator.feed({"type": "content_block_delta", "index": 0, "delta": delta})
    accumulator.feed({"type": "content_block_stop", "index": 0})


def name_files(text: str) -> None:
    """Words of a command, none of them longer than a path."""
    words = " ".join(text[at : at + 2_000] for at in range(0, len(text), 2_000))
    file = "/project/conf/" + 40 * "a"
    list(files_named_in(f"cat {words}", Places(folder="/project", home="/", cwd="/project/conf"), [file]))


FUNCTIONS: dict[str, Callable[[str], Any]] = {
    "printable": printable,
    "count_invisible": count_invisible,
    "escaped": escaped,
    "escape_output": escape_output,
    "one_line": one_line,
    "wrap": lambda text: wrap(text, 80),
    "longest_end": lambda text: longest_end(text, 80),
    "clip_painted": lambda text: clip_painted(text, 80),
    "render_plainly": lambda text: render_plainly(text, CONTEXT),
    "render_notice": lambda text: render_notice(events.Notice(text), CONTEXT),
    "render_diff": lambda text: render_diff(f"@@ -1 +1 @@\n+{text}", CONTEXT),
    "files_named_in": name_files,
    "call_title": lambda text: call_title(text, text, CONTEXT, role="good"),
    "markdown stream": stream,
    "plain lines": plain_lines,
    "accumulator": accumulate,
    "mask": mask,
    "SecretMasks.text": SecretMasks(("aaaaaaaaab", "<<<<<<<<x")).text,
    "StreamRedactor": redact,
    "map_error": lambda text: map_error(400, text, {}, 0.0, NAMES),
    "map_error of JSON": lambda text: map_error(
        400, json.dumps({"error": {"message": text}}), {}, 0.0, NAMES
    ),
    "quote": quote,
    "summarize_error": lambda text: summarize_error(ValueError(text)),
    "whole_name_counts": whole_name_counts,
    "numbers": _NUMBER.findall,
    "weighed_sentences": weighed_sentences.__wrapped__,
    "commitments": lambda text: list(commitments(text, True)),
    "summary": lambda text: _SUMMARY.search(_ANALYSIS.sub("", text, count=1)),
    "summary_in": summary_in,
    "added_placeholder": lambda text: added_placeholder(text, ""),
    "find_all": lambda text: find_all(text, text[: len(text) // 2]),
    "unified_diff": lambda text: unified_diff(text, text[::-1], "name"),
    "lex_commands": lex_commands,
    "looks_like_prompt": looks_like_prompt,
    "hint": lambda text: hint("ls", text),
    "fold_output": lambda text: fold_output(text, "make"),
    "decode_text": lambda text: decode_text(text.encode("utf-8", "surrogatepass")),
    "word_before_cursor": word_before_cursor,
    "rank": lambda text: rank(text, ["a" * 255] * 100),
    "paste": lambda text: PasteChips().paste(text),
    "parse_simple_commands": parse_simple_commands,
}
PIECES = [
    *(
        "a",
        "<",
        " ",
        "\n",
        "\t",
        "\r",
        "\x1b",
        "\x1b]",
        "\x1b[",
        "\x1bP",
        "\x9b",
        "\u200b",
        "é",
        "日",
        "\ufe0f",
        "\ud800",
    ),
    *(
        "(",
        "[",
        "![",
        "[a](",
        "*",
        "_",
        "*a_",
        "`",
        "``a",
        "~",
        "> ",
        "- a\n",
        "1. ",
        "|a|\n",
        "# a\n",
        "&#",
        "\\",
    ),
    *(
        "<a ",
        "< a='",
        "<!--",
        "a.b",
        "a/",
        "./",
        "../",
        "a_",
        "0.",
        "01,",
        "x=",
        "$(",
        "((",
        "{a,",
        "'",
        '"',
        "$'",
    ),
    *(
        "a;",
        "&&",
        "\n\n",
        "a\n",
        "\r\n",
        "a\x08",
        "\ra",
        "\r\x1b[K",
        "-----BEGIN A PRIVATE KEY-----",
        "eyJaaaaa.",
    ),
    *(
        "://a:",
        ":a@",
        "sk-ant-",
        "ghp_",
        "[cleared r1",
        "[put back: a, part, ",
        "[... 1,",
        "[cleared: r1.",
        "<analysis>",
        "<summary>",
        "never ",
    ),
    *(
        "maximum context length is ",
        "(1 ",
        "messages.1.content.",
        '"n_ctx"   ',
        "password ",
        "[y",
        "sudo: ",
        "```\n",
    ),
    "9%\n" * 4 + "8%\n" * 4,
    *("    a\n", "*a", "http://a", "a@b.c", "~/a", " @a", "+a ", "deadbeef", "👨\u200d👩\u200d👧"),
]
WENT_WRONG = [
    ("wrap", "日"),
    ("wrap", "\ufe0f"),
    ("markdown stream", "a"),
    ("markdown stream", "a\n"),
    ("plain lines", "a"),
    ("map_error", "<"),
    ("whole_name_counts", "./"),
    ("added_placeholder", "[cleared r1"),
    ("added_placeholder", "[put back: a, part, "),
    ("added_placeholder", "[... 1,"),
    ("find_all", "a"),
    ("files_named_in", "*a"),
    ("hint", "sudo: "),
    ("word_before_cursor", "a"),
    ("fold_output", "://a:"),
    ("fold_output", "9%\n" * 4 + "8%\n" * 4),
]


def seconds(function: Callable[[str], Any], text: str) -> float:
    began = time.process_time()
    function(text)
    return time.process_time() - began


def growth(name: str, piece: str) -> float:
    """Return by what factor a text four times as long takes longer; 0 if it takes hardly any time."""
    function, ends = FUNCTIONS[name], ("", " zzz", "\nX")
    short, long = ([(piece * size)[:size] + end for end in ends] for size in (SIZE, 4 * SIZE))
    found = []
    for one, other in zip(short, long, strict=True):
        first = max(seconds(function, one), 0.0005)
        second = seconds(function, other)
        found.append(second / first if second > MIN_SECONDS else 0.0)
    return max(found)


def is_linear(name: str, piece: str) -> bool:
    """Judged again where something else may have taken the time."""
    return any(growth(name, piece) <= TOLERATED for _ in range(3))


@each_row(("name", "piece"), WENT_WRONG)
def test_four_times_the_text_takes_about_four_times_as_long(name: str, piece: str) -> None:
    assert is_linear(name, piece)


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_piece_makes_a_function_slow(name: str) -> None:
    assert [piece for piece in PIECES if not is_linear(name, piece)] == []


def test_the_pairs_of_the_gate_are_among_those_of_the_sweep() -> None:
    assert set(WENT_WRONG) <= set(itertools.product(FUNCTIONS, PIECES))
