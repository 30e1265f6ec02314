"""The request for a summary: its prompt, its messages, and the answers that count."""

import pytest

from agent.model.anthropic.messages import encode_message
from compact.situation import SummaryReply, SummaryRequest
from compact.summary_prompt import (
    AGAIN,
    ANALYSIS,
    INSTRUCTIONS,
    REMINDER,
    SummaryFailed,
    request_summary,
    summary_messages,
)
from tests.tables import each_row
from transcripts.facts import Clear, Compacted
from transcripts.messages import TextBlock, ThinkingBlock, ToolUseBlock
from transcripts.view import PartKind

from .worlds import World, answered, failed


def session(calls=6, **more):
    world = World(judged=False, **more)
    world.user("begin")
    for at in range(calls):
        world.call("bash", "x" * 4_000, thinks="hm", command=f"make part{at}")
    return world


def ask(world, *replies, focus=""):
    """(the requests, the summary or the failure): each request is answered in turn."""
    flow, requests, given = request_summary(world.situation, focus), [], list(replies)
    try:
        requests.append(next(flow))
        while True:
            requests.append(flow.send(given.pop(0)))
    except StopIteration as stop:
        return requests, stop.value
    except SummaryFailed as failure:
        return requests, failure


def test_the_instructions_come_first_and_last_and_the_focus_between():
    (request,), _ = ask(session(), answered(), focus="mind the zebra")
    first, focus, last = request.instructions.partition("mind the zebra")
    assert first.startswith(INSTRUCTIONS.format(analysis="Write")) and focus and last.endswith(REMINDER)
    (request,), _ = ask(session(), answered())
    assert "particular attention" not in request.instructions
    assert (request.leave_out, request.edits) == (0, ())


def test_only_a_model_that_has_not_thought_so_far_is_asked_for_an_analysis():
    world = World(judged=False)
    world.user("begin")
    world.call("bash", "line " * 4_000, command="ls")
    (request,), _ = ask(world, answered())
    assert request.instructions == INSTRUCTIONS.format(analysis=ANALYSIS) + REMINDER
    world.call("bash", "ok", thinks="hm", command="ls")
    (request,), _ = ask(world, answered())
    assert "analysis" not in request.instructions


@pytest.mark.parametrize(("window", "output"), [(200_000, 20_000), (40_000, 10_000)])
def test_the_answer_may_be_as_long_as_is_set_and_the_model_writes(window, output):
    (request,), _ = ask(session(window=window), answered())
    assert request.max_tokens == output


@each_row(
    ("reply", "failure"),
    [
        (failed("overloaded"), "overloaded"),
        (SummaryReply("text", stop="tool_use"), "the answer called a tool"),
        (SummaryReply("text", stop="refusal"), "the model refused to answer"),
        (SummaryReply("text", stop="max_tokens"), "the answer was cut off (max_tokens)"),
        (SummaryReply("text", stop="model_context_window_exceeded"), "the answer was cut off (model_context"),
        (answered(""), "the answer was empty"),
        (answered("<analysis>all</analysis>"), "the answer was empty"),
        (answered("<analysis>never closed"), "the answer was empty"),
        (
            answered("<summary>" + "word " * 9_000 + "</summary>"),
            "the summary is larger than what it replaces",
        ),
    ],
)
def test_an_answer_that_is_none_is_a_failure(reply, failure):
    requests, failed = ask(session(), reply)
    assert len(requests) == 1 and isinstance(failed, SummaryFailed) and str(failed).startswith(failure)


@each_row(
    "text",
    [
        "<analysis>a b</analysis> \n<summary> this </summary> more",
        "<analysis>a <summary>this</summary>",
        "<summary>this",
        " this ",
    ],
)
def test_the_summary_is_taken_without_analysis_and_tags(text):
    assert ask(session(), answered(text))[1] == "this"


HOLLOW = [
    "Here is a summary of the conversation",
    "<summary>Sure, here's the summary of our conversation so far:</summary>",
    "<summary>\n1. Primary request and intent:\n\n## 2. Key technical concepts\n**3. Next step**\n</summary>",
    "1. Primary request and intent: N/A\n2. Key technical concepts:\n - none\n9. Next step: [Next step]",
    "```\n# Summary\n---\n...\n```",
    "Understood. I will summarize the conversation.",
    "The conversation has been summarized. Let me know how to continue!",
    "I'm sorry, but I can't help with that.",
    "There is no conversation to summarize. What would you like me to do?",
    "Hier ist die Zusammenfassung des bisherigen Gesprächs:",
    "Voici un résumé de la conversation.",
    "<summary>以下是对话的总结：</summary>",
    f"<summary>{INSTRUCTIONS.format(analysis='Write')}</summary>",
    f"<summary>{'The parser is fine now. ' * 610}</summary>",
    "3. Files and Code Sections:\n   ...\n9. Optional Next Step: (to be filled)",
    "No information was provided in the conversation.",
    "Understood. I will continue with the task.",
]


@each_row("text", HOLLOW)
def test_a_summary_without_content_is_asked_for_once_more(text):
    requests, summary = ask(session(), answered(text), answered("<summary>this</summary>"))
    assert summary == "this" and requests[1].instructions == requests[0].instructions + AGAIN.format(
        defect="had no content"
    )
    requests, failure = ask(session(), answered(text), answered(text))
    assert len(requests) == 2 and isinstance(failure, SummaryFailed)
    assert str(failure) == "the answer had no content, also when asked again"


GERMAN_REQUEST = "Lies die Tabelle aus der Datei und behalte die Reihenfolge der Zeilen."
GERMAN = """\
1. Anliegen: Der Benutzer will, dass die Tabelle aus der Datei gelesen wird.
2. Begriffe: Die Werte stehen in der ersten Spalte und werden nicht sortiert.
3. Dateien: In parser.py ist die Schleife nicht mehr nötig und wurde entfernt."""
CHINESE = "1. 主要请求：用户希望从文件中读取表格。\n3. 文件：已修改 parser.py 的循环。\n9. 下一步：运行测试。"
REFUSED = """\
Thank you for the detailed context. I have thought about this carefully, and I would rather not write a \
summary of this conversation, because it may contain private details that should stay where they are.

I would be glad to go on with the work itself instead, or to answer any question about what was done so far. \
Just tell me which of the two you prefer, and I will begin right away with what is most useful to you now."""
OTHER_ANSWERS = [
    ('{"request": "read the table", "files": ["parser.py"], "next_step": null}', "was JSON"),
    ('<summary>```json\n[{"file": "parser.py"}]\n```</summary>', "was JSON"),
    (REFUSED, "had no content"),
    (GERMAN, "was in another language than the user's"),
    (CHINESE, "was in another language than the user's"),
]


@each_row(("text", "defect"), OTHER_ANSWERS)
def test_an_answer_that_is_no_summary_is_asked_for_once_more_with_the_reason(text, defect):
    world = session(12)
    world.user("Please read the table from the file, and keep the order of the rows.")
    requests, summary = ask(world, answered(text), answered("<summary>the parser.py reads it</summary>"))
    assert summary == "the parser.py reads it"
    assert f"it {defect}. Write" in requests[1].instructions
    _, failure = ask(world, answered(text), answered(text))
    assert str(failure) == f"the answer {defect}, also when asked again"


@each_row(
    ("words", "text"),
    [
        (GERMAN_REQUEST, GERMAN),
        ("repariere den Test", GERMAN),  # too short to tell its language
        ("请从文件中读取表格，并保持行的顺序。", CHINESE),
        (
            "Lies die Tabelle aus der Datei und behalte die Reihenfolge der Zeilen.",
            "The parser.py is done now.",
        ),
        ("Read the table from the file.", "1. Primary request and intent: to read a table {from a file}"),
        ("Read the table from the file.", "The table is read from the file by parser.py, as it was before."),
        (
            "Read the table from the file.",
            '3. Files: data.json is now {"rows": []}, nothing else was done.',
        ),
    ],
)
def test_a_summary_in_the_users_language_or_in_english_is_taken(words, text):
    world = session(12)
    world.user(words)
    assert ask(world, answered(text))[1] == text


def test_a_summary_of_a_short_conversation_may_name_nothing():
    assert ask(session(9), answered(REFUSED))[1] == REFUSED


def test_a_short_summary_with_content_is_taken():
    text = "Here is the summary: the parser was fixed in parser.py"
    assert ask(session(), answered(text))[1] == text
    assert ask(session(), answered("1. Primary request and intent: fix it"))[1].endswith("fix it")
    text = "Zusammenfassung der Arbeit an parser.py"
    assert ask(session(), answered(text))[1] == text
    text = "This is the summary of a session about parsers.\n9. Next step: none"
    assert ask(session(), answered(f"{text}\nThe parser passes."))[1].endswith("passes.")


def test_a_request_that_is_too_long_is_asked_again_with_less():
    requests, failure = ask(session(20), *[failed("too long: 9 > 8", too_long=True)] * 3)
    assert [request.leave_out for request in requests] == [0, 20 - 1, 20]
    assert isinstance(failure, SummaryFailed)
    assert str(failure) == "too long: 9 > 8 (asked 3 times, omitting more each time)"
    requests, summary = ask(session(20, window=100_000), failed("too long", too_long=True), answered())
    assert requests[1].leave_out == 20 - 1 and isinstance(summary, str)


def test_as_much_is_left_out_as_instructions_and_answer_need():
    world = session(20, window=22_000)  # 22,000 tokens, of which a quarter is for the answer
    (request,), _ = ask(world, answered())
    view = world.folded.view
    replies = [index for index, message in enumerate(view) if message.role == "assistant"]

    def size(leave_out):
        return view.tokens - view.tokens_before(replies[leave_out]) + 700 + request.max_tokens

    assert size(request.leave_out) <= 22_000 < size(request.leave_out - 1)


def request(leave_out=0, edits=()):
    return SummaryRequest("summarise", leave_out, 10, edits)


def test_the_messages_are_the_view_up_to_the_user_with_its_breakpoints():
    world = session()
    world.reply("done")
    messages, breakpoints = summary_messages(world.folded, request())
    assert list(messages) == list(world.folded.view)[:-1] and breakpoints == ()
    world.add(Compacted, "micro", "auto", (Clear(4, 0, "content", "[cleared]", 900),), report={})
    messages, breakpoints = summary_messages(world.folded, request())
    assert "[cleared]" in encode_message(messages[2]).decode() and breakpoints == (1, 2)
    edits = (Clear(world.folded.facts[-4].seq, 0, "content", "[preview]", 900),)
    messages, _ = summary_messages(world.folded, request(edits=edits))
    assert "[preview]" in encode_message(messages[-1]).decode() and "[preview]" not in world.texts


def test_the_oldest_exchanges_are_left_out_with_all_thinking():
    world = session()
    world.add(Compacted, "micro", "auto", (Clear(4, 0, "content", "[cleared]", 900),), report={})
    messages, breakpoints = summary_messages(world.folded, request(2))
    assert breakpoints == ()
    assert messages[0].role == "user" and messages[0].parts[0].tokens == 12
    assert messages[0].parts[0].block == TextBlock("[The oldest part of this conversation is omitted here.]")
    assert [message.first for message in messages[1:]] == [m.first for m in world.folded.view][5:]
    kinds = {part.kind for message in messages for part in message.parts}
    assert PartKind.THINKING not in kinds and PartKind.INPUT in kinds
    assert b"hm" not in b"".join(encode_message(message) for message in messages)


def test_where_all_exchanges_are_left_out_the_newest_words_of_the_user_stay():
    world = World(judged=False)
    world.user("begin")
    world.reply(ThinkingBlock("hm", "s"), TextBlock("done"))
    world.user("and now?")
    assert [m.first for m in summary_messages(world.folded, request(1))[0]] == [world.folded.last_seq]
    reply = world.reply(ToolUseBlock("t", "bash", {}))
    world.result(reply, 0, "ok")
    (only,), _ = summary_messages(world.folded, request(2))
    assert only.parts[0].kind is PartKind.PLACEHOLDER
