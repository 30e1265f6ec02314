"""Runs without a screen: the answer alone on stdout, in the shapes that wrappers read."""

import io
import json
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent import events
from agent.app.options import OUTPUT_FORMATS
from agent.cli.arguments import parse
from agent.client_names import client_output
from agent.ports import Status
from agent.ui.output_formats import OutputFormat, RunOutput, json_line
from compact.prices import Spending
from tests.tables import each_row
from tools.text.shortening import NO_OUTPUT
from transcripts import Display
from transcripts.facts import Reply, Result
from transcripts.messages import ImageBlock, TextBlock, ThinkingBlock, ToolUseBlock, Usage

SPENT = {"claude-x": Spending(Usage(11, 7, 103, 24), 0.25)}
STATUS = Status("claude-x", None, 200_000, "NORMAL", 0.25, "manual", "s1", "/w", spending=SPENT)


class Run:
    """An output format that writes to memory, fed with the events of a small turn."""

    def __init__(self, form, out=None, status=STATUS):
        self.out, self.err = out or io.StringIO(), io.StringIO()
        with redirect_stdout(self.out), redirect_stderr(self.err):
            self.output = RunOutput(form)
            spent: Any = iter(({}, {}))
            self.status = status
            self.output.begin(
                lambda: replace(self.status, spending=next(spent, self.status.spending)), ("bash", "read")
            )

    def show(self, *shown):
        for event in shown:
            self.output.show(event)
        return self

    def objects(self):
        return [json.loads(line) for line in self.out.getvalue().split("\n") if line]


CALL = Reply(
    3,
    0.0,
    (TextBlock("Looking."), ToolUseBlock("toolu_1", "bash", {"command": "ls"})),
    usage=Usage(10, 5, 100, 20),
    stop="tool_use",
)
DONE = Reply(5, 0.0, (TextBlock("Two files\u2028here \ud800."),), usage=Usage(1, 2, 3, 4), stop="end_turn")
TURN = (
    events.TurnStarted("list"),
    events.RequestStarted("turn", 100, 1),
    events.TextDelta("Look"),
    events.ReplyFinished(CALL),
    events.ToolCallStarted(3, 1, "bash", "ls"),
    events.ToolCallFinished(3, 1, "bash", "ls", Result(4, 0.0, 3, 1, (TextBlock("a b"),)), 0.1),
    events.RequestStarted("turn", 120, 1),
    events.ReplyFinished(DONE),
    events.TurnFinished("done", 2),
)


def test_a_reply_that_was_cut_off_and_continued_is_one_answer():
    pieces = (("One, tw", "max_tokens"), ("o, thr", "max_tokens"), ("ee.", "end_turn"))
    replies = [Reply(seq, 0.0, (TextBlock(text),), stop=stop) for seq, (text, stop) in enumerate(pieces)]
    run = Run("json").show(*map(events.ReplyFinished, replies), events.TurnFinished("done", 3))
    assert run.objects()[-1]["result"] == "One, two, three."
    run = Run("text").show(*map(events.ReplyFinished, [CALL, *replies]), events.TurnFinished("done", 4))
    assert run.out.getvalue() == "One, two, three.\n"


def test_a_text_with_citations_is_not_parted_and_texts_around_another_block_are():
    blocks = (TextBlock("Searching."), ThinkingBlock("hm", "sig"), TextBlock("Paris is "), TextBlock("big"))
    run = Run("text").show(events.ReplyFinished(Reply(1, 0.0, blocks)), events.TurnFinished("done", 1))
    assert run.out.getvalue() == "Searching.\n\nParis is big\n"


def test_text_puts_only_the_final_answer_on_stdout():
    run = Run("text").show(events.Notice("careful", "warning"), *TURN)
    assert run.out.getvalue() == "Two files\u2028here ?.\n"
    assert run.err.getvalue() == "warning: careful\n● bash  ls\n"
    assert run.output.finish() == 0


def test_the_reason_of_repeated_retries_is_reported_once():
    again = events.Retrying("busy", 2.0, attempt=3, tries=9)
    run = Run("text").show(again, again, events.Notice("so"), again)
    line = "retrying in 2 s (3 of 9)\n"
    assert run.err.getvalue() == f"busy; {line}{line}so\nbusy; {line}"
    waiting = events.Retrying("nothing listens", 2.0, attempt=3, tries=9, left_s=51.0)
    run = Run("text").show(waiting, waiting, waiting)
    assert run.err.getvalue() == "nothing listens; retrying in 2 s (gives up in 51 s)\n"


EVIL = "\x1b]52;c;ZXZpbA==\x07\x9b31m\u202e"
HIDDEN = EVIL + "\x7f\U000e0041\u2066\u200b\ufeff"


def test_nothing_that_a_terminal_obeys_is_reported_on_stderr():
    use = Reply(3, 0.0, (ToolUseBlock("toolu_1", EVIL, {}),), stop="tool_use")
    result = Result(4, 0.0, 3, 0, (TextBlock(EVIL),), error=True)
    run = Run("text").show(
        events.Notice(EVIL),
        events.ReplyFinished(use),
        events.ToolCallFinished(3, 0, EVIL, EVIL, result, 0.1),
        events.Retrying(EVIL, 1, 1, 3),
        events.CommandOutput(EVIL),
        events.TurnFinished("failed", 1, EVIL, 1),
    )
    told = run.err.getvalue().replace("\n", "")
    assert told.isprintable() and told.count("␛]52;c;ZXZpbA==␇<U+009B>31m<U+202E>") == 6


def test_emoji_and_scripts_are_reported_on_stderr_unchanged():
    title = "echo ⚠\ufe0f 👨\u200d👩\u200d👧 می\u200cخواهم"
    done = events.ToolCallFinished(3, 0, "bash", f"{title} a\u200db", Result(4, 0.0, 3, 0, ()), 0.1)
    assert Run("text").show(done).err.getvalue() == f"● bash  {title} a<U+200D>b\n"


@pytest.mark.parametrize("form", ["json", "stream-json"])
def test_json_holds_no_raw_control_characters(form):
    run = Run(form).show(
        events.ReplyFinished(Reply(3, 0.0, (TextBlock(HIDDEN),))), events.TurnFinished("done", 1)
    )
    assert run.out.getvalue().replace("\n", "").isprintable()
    assert run.objects()[-1]["result"] == HIDDEN


def test_the_title_of_a_call_is_cut_where_no_one_reads_on():
    done = events.ToolCallFinished(3, 0, "bash", "x" * 3_000_000, Result(4, 0.0, 3, 0, ()), 0.1)
    assert Run("text").show(done).err.getvalue() == f"● bash  {'x' * 1_999}…\n"


def test_numbers_that_json_cannot_hold_are_null():
    assert json_line({"a": [float("nan"), 1e999, -1e999, 0.5], "b": Path("x")}) == (
        '{"a":[null,null,null,0.5],"b":"x"}'
    )


class TerminalInMemory(io.StringIO):
    def isatty(self):
        return True


def test_the_answer_is_escaped_for_a_terminal_alone():
    answer = (
        events.ReplyFinished(Reply(3, 0.0, (TextBlock(EVIL + "\n\tyes"),))),
        events.TurnFinished("done", 1),
    )
    assert Run("text").show(*answer).out.getvalue() == f"{EVIL}\n\tyes\n"
    assert (
        Run("text", TerminalInMemory()).show(*answer).out.getvalue()
        == "␛]52;c;ZXZpbA==␇<U+009B>31m<U+202E>\n\tyes\n"
    )


def test_json_is_one_object_with_all_the_fields():
    (result,) = Run("json").show(*TURN).objects()
    assert result["type"] == "result"
    assert result["subtype"] == "success"
    assert result["is_error"] is False
    assert result["num_turns"] == 2
    assert result["result"] == "Two files\u2028here ?."
    assert result["session_id"] == "s1"
    assert result["total_cost_usd"] == 0.25
    assert result["stop_reason"] == "end_turn"
    assert result["usage"] == {
        "input_tokens": 11,
        "output_tokens": 7,
        "cache_read_input_tokens": 103,
        "cache_creation_input_tokens": 24,
    }
    assert result["modelUsage"]["claude-x"]["cacheReadInputTokens"] == 103
    assert result["duration_ms"] >= result["duration_api_ms"] >= 0


def test_stream_json_starts_with_init_and_ends_with_the_result():
    lines = Run("stream-json").show(*TURN).objects()
    kinds = [(line["type"], line.get("subtype")) for line in lines]
    assert kinds == [
        ("system", "init"),
        ("assistant", None),
        ("assistant", None),
        ("user", None),
        ("assistant", None),
        ("result", "success"),
    ]
    assert {line["session_id"] for line in lines} == {"s1"}
    assert (lines[0]["permissionMode"], lines[0]["tools"], lines[0]["cwd"]) == (
        "default",
        ["Bash", "Read"],
        "/w",
    )
    assert [line["message"]["content"][0].get("name") for line in lines[1:3]] == [None, "Bash"]
    assert lines[1]["message"]["id"] == lines[2]["message"]["id"] != lines[4]["message"]["id"]
    assert lines[3]["message"]["content"][0]["tool_use_id"] == "toolu_1"
    assert lines[3]["tool_use_result"]["stdout"] == "a b"


@each_row("form", OUTPUT_FORMATS)
def test_no_output_holds_a_line_separator_of_unicode_within_a_json_line(form):
    text = Run(form).show(*TURN).out.getvalue()
    if form != "text":
        assert "\u2028" not in text
        assert "\\u2028" in text
        assert all(json.loads(line) for line in text.splitlines())


def test_a_run_cut_short_still_has_its_one_result():
    run = Run("stream-json").show(*TURN[:4])
    assert run.output.finish(143, "terminated by SIGTERM") == 143
    assert run.output.finish(1) == 143
    results = [line for line in run.objects() if line["type"] == "result"]
    assert [line["subtype"] for line in results] == ["error_during_execution"]
    assert results[0]["errors"] == ["terminated by SIGTERM"]
    assert results[0]["is_error"] is True
    assert "terminated" in run.err.getvalue()


@each_row(
    ("reason", "subtype"),
    [
        ("done", "success"),
        ("max_turns", "error_max_turns"),
        ("failed", "success"),
        ("interrupted", "error_during_execution"),
    ],
)
def test_each_reason_has_its_subtype(reason, subtype):
    (result,) = Run("json").show(events.TurnFinished(reason, 1, code=7)).objects()
    assert result["subtype"] == subtype
    assert result["is_error"] is (reason != "done")


def test_each_turn_of_a_run_has_a_result_of_its_own_and_the_costs_of_all():
    run = Run("stream-json").show(*TURN)
    run.output.begin_turn(("bash",))
    first, second = (
        line for line in run.show(events.ReplyFinished(DONE), TURN[-1]).objects() if line["type"] == "result"
    )
    assert [first["usage"]["input_tokens"], second["usage"]["input_tokens"]] == [11, 1]
    assert second["modelUsage"]["claude-x"]["inputTokens"] == 11
    assert second["total_cost_usd"] == second["modelUsage"]["claude-x"]["costUSD"] == 0.25


def test_what_agents_spent_stands_with_their_model_and_a_new_conversation_adds_to_the_sum():
    agents = {**SPENT, "claude-y": Spending(Usage(3, 4), 0.5), "local": Spending(Usage(9), 0.0, True)}
    run = Run("stream-json", status=replace(STATUS, spending=agents)).show(*TURN)
    run.status = replace(STATUS, session="s2", spending={})
    for spending in ({}, SPENT):
        run.output.begin_turn(("bash",))
        run.status = replace(run.status, spending=spending)
        run.show(TURN[-1])
    results = [line for line in run.objects() if line["type"] == "result"]
    assert [each["total_cost_usd"] for each in results] == [0.75, 0.75, 1.0]
    used = results[-1]["modelUsage"]
    assert [used[name]["costUSD"] for name in ("claude-x", "claude-y", "local")] == [0.5, 0.5, 0.0]
    assert used["claude-y"]["outputTokens"] == 4 and used["claude-x"]["inputTokens"] == 22
    assert [name for name in used if "costBasis" in used[name]] == ["local"]


def test_a_line_is_never_longer_than_a_client_takes():
    huge = Result(4, 0.0, 3, 1, (TextBlock("\x85" * 400_000), ImageBlock("image/png", "A" * 2_000_000)))
    run = Run("stream-json").show(TURN[3], events.ToolCallFinished(3, 1, "bash", "ls", huge, 0.1))
    assert max(map(len, run.out.getvalue().split("\n"))) < 1024 * 1024
    told = run.objects()[-1]["message"]["content"][0]["content"]
    assert "more characters omitted" in told[0]["text"] and "image" in told[1]["text"]


def test_a_command_that_printed_nothing_has_an_empty_output_for_clients():
    told = client_output("bash", NO_OUTPUT)
    assert told is not None and told["stdout"] == ""


def test_a_denied_call_is_listed_with_its_input():
    denied = events.ToolCallFinished(
        3, 1, "bash", "ls", Result(4, 0.0, 3, 1, (TextBlock("no"),), error=True), 0.0, denied=True
    )
    run = Run("json").show(TURN[3], denied, events.TurnFinished("denied", 1, "not allowed: bash", 4))
    (result,) = run.objects()
    assert result["permission_denials"] == [
        {"tool_name": "Bash", "tool_use_id": "toolu_1", "tool_input": {"command": "ls"}}
    ]
    assert run.output.finish() == 4


@each_row(
    ("human", "error", "denied", "told"),
    [
        ({}, False, False, "● bash  ls"),
        ({"note": "exit 1"}, True, False, "● bash  ls  (failed)"),
        ({"text": "You denied this call."}, True, True, "● bash  ls  (denied)"),
        ({"denied": "it reaches \x1b a host"}, True, True, "● bash  ls  (denied: it reaches ␛ a host)"),
        ({"note": "exit 0; no host", "blocked": "no host"}, False, False, "● bash  ls  (exit 0; no host)"),
    ],
)
def test_a_call_that_did_not_end_well_says_why_beside_the_answer(human, error, denied, told):
    result = Result(4, 0.0, 3, 1, (TextBlock("no"),), error=error, human=Display(**human))
    run = Run("text").show(events.ToolCallFinished(3, 1, "bash", "ls", result, 0.0, denied=denied))
    assert run.err.getvalue() == f"{told}\n"


def test_a_compaction_is_reported_in_the_stream_and_beside_the_answer():
    run = Run("stream-json").show(
        events.ContextCompacted("[auto compact] 90k -> 20k", "auto", ("c7",), {"before": 90})
    )
    line = run.objects()[1]
    assert line["subtype"] == "compact_boundary"
    assert line["compact_metadata"]["ids"] == ["c7"]
    assert "[auto compact]" in run.err.getvalue()


def test_a_reader_that_goes_away_is_noticed_quietly():
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as out:
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            output = RunOutput("stream-json")
            output.begin(lambda: STATUS)
        os.close(reading)
        for event in TURN:
            output.show(event)
    assert output.finish() == 141


def test_control_characters_do_not_reach_the_terminal_through_stderr():
    run = Run("text").show(
        events.ToolCallFinished(1, 0, "bash", "echo \x1b[2J", Result(1, 0.0, 1, 0, (TextBlock(""),)), 0.0)
    )
    assert "\x1b" not in run.err.getvalue()


class Quiet(OutputFormat):
    """A format that only reports how a run ended."""

    def show(self, event):
        if isinstance(event, events.TurnFinished):
            self.run.out.line(event.reason)


def test_a_format_is_a_class_and_one_entry(monkeypatch):
    monkeypatch.setitem(OUTPUT_FORMATS, "quiet", f"{__name__}:Quiet")
    assert parse(["-p", "hi", "--output-format", "quiet"]).output_format == "quiet"
    assert Run("quiet").show(*TURN).out.getvalue() == "done\n"


def test_a_cost_that_no_one_knows_is_said_to_be_unknown():
    unknown = {"claude-x": Spending(Usage(11, 7), 0.0, unpriced=True)}
    for status in (STATUS, replace(STATUS, spending=unknown)):
        (result,) = Run("json", status=status).show(*TURN).objects()
        (usage,) = result["modelUsage"].values()
        spent = status.spending["claude-x"]
        assert usage["costUSD"] == spent.dollars and ("costBasis" in usage) == spent.unpriced
