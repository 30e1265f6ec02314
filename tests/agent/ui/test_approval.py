"""A question takes the place of the input; nothing typed for something else answers it."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from wcwidth import strip_sequences

from agent.__main__ import main
from agent.ports import Allow, Deny, PermissionQuestion
from agent.ui import approval
from agent.ui.approval import (
    ApprovalDialog,
    ApprovalPanel,
    draw_approval,
    full_question,
    question_body,
)
from agent.ui.approval_answers import approval_choices
from agent.ui.headless import DenyAll
from agent.ui.terminal_text import RenderContext, Theme, painted_width
from tests.sampling import sampled
from tests.strict_api.reply import Reply, calls
from tests.strict_api.scripted_model import ScriptedModel, Step
from tests.strict_api.server import Server
from tests.tables import each_row
from tools.base import Access
from tools.user_questions import Preview

from .headless_run import environment
from .pty_terminal import PtyTerminal


def ask(terminal, what="ask"):
    tool = "edit" if what == "ask diff" else "bash"
    return terminal.type(f"{what}\r").sees(f"Allow {tool}?", "Esc to deny and stop")


def listening(terminal):
    """Wait until keys are answers: an arrow then marks the second choice. The arrow changes nothing else."""
    return terminal.again("\x1b[B", lambda: "❯ 2 Yes" in terminal.text)


ANSWERS = {
    "y": "scope='once'",
    "a\r": "scope='session'",
    "p\r": "scope='always'",
    "1": "scope='once'",
    "2\r": "scope='session'",
    "4\r": "scope='always'",
    "\r": "scope='session'",
    "\x1b": "stop=True",
}


def test_each_key_is_its_answer(terminal):
    for count, (keys, expected) in enumerate(ANSWERS.items(), 1):
        listening(ask(terminal)).type(keys).misses("Allow bash?")
        answers = [line for line in terminal.log.splitlines() if line.startswith("answer")]
        assert len(answers) == count and expected in answers[-1], keys


def test_no_takes_a_reason_that_reaches_the_agent(terminal):
    listening(ask(terminal)).type("n").sees("Enter to deny").type("use pytest").sees("❯ use pytest")
    terminal.type("\x1b").misses("Enter to deny").again("n", lambda: "❯ use pytest" in terminal.text)
    terminal.type(" instead\r").logged("Deny(reason='use pytest instead', stop=False")
    terminal.misses("Allow bash?")
    listening(ask(terminal)).type("n").sees("Enter to deny").type("not this").sees("❯ not this")
    terminal.type("\x1b").misses("Enter to deny").again("\t", lambda: "Enter to approve" in terminal.text)
    terminal.misses("not this").type("quietly\r").logged("remark='quietly'")


def test_keys_typed_before_a_question_could_be_read_answer_nothing_and_leave_the_draft_alone(tmp_path):
    with PtyTerminal(tmp_path, SCRIPTED_LISTEN_S="60") as terminal:
        terminal.ready().type("wait;ask\r").sees("Ctrl-C to interrupt").type("draft ").sees("❯ draft")
        terminal.open_gate().sees("Allow bash?").type("\x1b[A").sees("Answer the question first (1-4")
        terminal.type("yyyp\r\x7f\x7f\x15\x11\x1b[Z\x0c").sees("Answer the question first")
        assert "answer" not in terminal.log and "accepts edits" not in terminal.text
        terminal.type("\x03").misses("Allow bash?").sees("Interrupted", "draft", "asks before edits")
        assert "answer" not in terminal.log and "yyy" not in terminal.text


@pytest.mark.parametrize("editing", ["emacs", "vim"])
def test_esc_before_a_question_could_be_read_is_dropped_like_other_keys(tmp_path, editing):
    with PtyTerminal(tmp_path, SCRIPTED_LISTEN_S="60", SCRIPTED_EDITING=editing) as terminal:
        ask(terminal.ready()).type("\x1b").sees("Answer the question first (1-4")
        assert "answer" not in terminal.log and "Allow bash?" in terminal.text


@pytest.mark.parametrize("dialog", ["ask", "form", "pick fruits"])
def test_a_dialog_that_comes_during_a_search_ends_it_and_what_is_typed_later_is_seen(terminal, dialog):
    seen = "apple" if dialog == "pick fruits" else "❯ 1"
    terminal.type(f"say x;wait;{dialog}\r").sees("Ctrl-C to interrupt").type("dra").sees("❯ dra")
    terminal.type("\x12wait").sees("search: wait").open_gate().sees(seen)
    terminal.type("\x03").misses("search: wait").sees("❯ dra").type("ft").sees("❯ draft")


def test_of_a_question_on_a_very_small_screen_nothing_scrolls_away(tmp_path):
    with PtyTerminal(tmp_path, (20, 7)) as terminal:
        terminal.sees("❯").type("ask\r").sees("❯ 1 Yes")
        terminal.again("\x1b[B", lambda: "❯ 2 Yes" in terminal.text).type("1").logged("scope='once'")
        terminal.sees("───\n❯")
        assert "Yes" not in terminal.everything and terminal.everything.count("─" * 20) == 1


def test_after_a_pause_the_marked_answer_is_taken_whatever_was_typed_before(tmp_path):
    with PtyTerminal(tmp_path, SCRIPTED_LISTEN_S="0.15") as terminal:
        ask(terminal.ready()).type("\x1b[200~/help pasted\x1b[201~xyz").sees("Answer the question first")
        terminal.again("\r", lambda: "answer" in terminal.log).logged("scope='once'")
        assert "pasted" not in terminal.text and "xyz" not in terminal.text


class Paced:
    """Keys at moments of our choosing, on a clock of our own."""

    def __init__(self, approval, asked, clock):
        self.approval, self.asked, self.clock = approval, asked, clock

    def types(self, words, gap):
        for key in words:
            self.clock[0] += gap
            if not self.approval.listening:
                self.approval.note_typing()
            elif key == "\r":
                self.approval.enter()
            else:
                self.approval.press(key)
        return self

    @property
    def marked(self):
        return self.approval.panel.choices[self.approval.panel.marked].letter


def paced(use, shown_for=5.0):
    async def whole():
        clock = [100.0]
        approval = ApprovalDialog(lambda: None, lambda: clock[0])
        asked = asyncio.ensure_future(approval.ask(question(prefix="make")))
        await asyncio.sleep(0)
        clock[0] += shown_for
        try:
            await use(Paced(approval, asked, clock))
        finally:
            asked.cancel()
            await asyncio.wait([asked])

    asyncio.run(whole())


@each_row("gap", [0.01, 0.1, 0.3, 0.55])
@each_row("words", ["yes\r", "1\r", "app 4 me\r", "\r\r\r"])
def test_continued_typing_when_a_question_appears_answers_nothing(words, gap):
    async def use(keys):
        keys.types(words, gap)
        assert not keys.asked.done() and keys.marked == "y"

    paced(use, shown_for=0.0)


@each_row("gap", [0.05, 0.2, 0.5])
@each_row("words", ["please\r", "also\r", "pay any penny\r", "apply that\r", "app 4 me\r"])
def test_words_grant_nothing_that_outlasts_the_call(words, gap):
    async def use(keys):
        keys.types(words, gap)
        assert not keys.asked.done() or keys.asked.result() == Allow("once")

    paced(use)


@each_row(("key", "scope"), [("a", "session"), ("p", "always"), ("2", "session")])
def test_what_outlasts_the_call_is_only_marked_by_its_key_and_taken_by_enter(key, scope):
    async def use(keys):
        keys.types(key, 0.5)
        keys.clock[0] += 60
        assert (
            not keys.asked.done()
            and keys.marked == approval_choices(question(prefix="make"))[keys.approval.panel.marked].letter
        )
        keys.approval.enter()
        assert await keys.asked == Allow(scope)

    paced(use)


def test_another_mark_can_be_set_at_once():
    async def use(keys):
        keys.types("ap", 0.1)
        assert keys.marked == "p"

    paced(use)


def test_a_question_shows_which_keys_need_enter(terminal):
    ask(terminal).sees("a/p then Enter")


def test_going_back_from_the_reason_asks_again_as_if_nothing_was_typed(terminal):
    listening(ask(terminal)).type("n").sees("Enter to deny").type("\x1b").sees("Esc to deny and stop")
    listening(terminal).type("\x1b[A\r").logged("scope='once'")


def test_ctrl_c_at_a_question_interrupts_the_turn(terminal):
    ask(terminal).type("\x03").sees("Interrupted").misses("Allow bash?")
    assert "answer" not in terminal.log


def test_sigterm_at_a_question_leaves_cleanly(terminal):
    assert ask(terminal).signal(signal.SIGTERM).ends() == 143


def test_with_the_keys_of_vim_letters_answer_whatever_they_mean_in_the_input(tmp_path):
    with PtyTerminal(tmp_path, SCRIPTED_EDITING="vim") as terminal:
        terminal.ready().type("wait gate;ask\r").sees("Ctrl-C to interrupt").type("draft\x1b").sees("NORMAL")
        terminal.type("d").open_gate().sees("Allow bash?")
        terminal.again("n", lambda: "Enter to deny" in terminal.text)
        terminal.type("no way\r").logged("Deny(reason='no way'").sees("❯ draft", "NORMAL")
        terminal.type("ddipick fruits\r").sees("Which fruit?").type("ban").sees("search: ban").type("\r")
        terminal.logged("picked 'banana'")


def test_what_was_read_before_a_question_has_one_blank_row_below_it(terminal):
    terminal.type("reads 1;ask\r").sees("Allow bash?", "10 lines\n\n───")


def test_a_diff_is_shown_with_its_lines(terminal):
    ask(terminal, "ask diff").sees("2 -     return a - b", "2 +     return a + b")


def ask_long(terminal):
    command = r"\n".join(f"echo line {number}" for number in range(60))
    return terminal.type(f"ask {command}\r").sees("echo line 0", "of 60", "PgDn", "3 No, and tell makeroom")


def test_a_long_command_scrolls_and_can_be_printed_whole(terminal):
    ask_long(terminal)
    assert "  echo line 59" not in terminal.text
    terminal.again("\x1b[6~", lambda: "echo line 20\n" in terminal.text)
    terminal.again("\x0f", lambda: "  echo line 59" in terminal.everything)
    terminal.sees("Allow bash?").type("y").logged("scope='once'")


def test_a_command_cannot_be_approved_before_its_end_was_shown(terminal):
    ask_long(terminal)
    for keys in ("y", "\r", "\t"):
        terminal.again(keys, lambda: "Not approved yet" in terminal.text)
        terminal.sees("Allow bash?").drain(0.2)
    terminal.again("\x1b[F", lambda: "60  echo line 59" in terminal.text)
    assert "answer" not in terminal.log
    terminal.type("y").logged("scope='once'")


@pytest.mark.parametrize(("columns", "rows"), [(60, 15), (80, 24)])
@pytest.mark.parametrize(
    "preview",
    [
        Preview(diff="--- a\n+++ b\n@@ -1,0 +1,400 @@\n" + "+line\n" * 400),
        Preview(text="echo\n" * 400),
    ],
)
def test_nothing_is_approved_before_its_end_was_shown(preview: Preview, columns: int, rows: int) -> None:
    hints: list[str] = []

    async def answered() -> Allow | Deny:
        dialog = ApprovalDialog(lambda: None)
        dialog.say = hints.append
        question = PermissionQuestion("edit", "a.py", (), "", "edit", preview)
        answer = asyncio.ensure_future(dialog.ask(question))
        await asyncio.sleep(0)
        assert dialog.panel is not None
        for by, keys in ((0, "End before approving"), (200, "End before approving"), (1_000, "PgUp/PgDn")):
            assert not answer.done()
            dialog.scroll(by)
            assert keys in "".join(drawn_rows(dialog.panel, RenderContext(columns, Theme(False)), rows))
            dialog.press("y")
            await asyncio.sleep(0)
        return await asyncio.wait_for(answer, 1)

    assert asyncio.run(answered()) == Allow("once")
    assert len(hints) == 2


def test_a_command_that_was_not_read_can_be_denied(terminal):
    listening(ask_long(terminal)).type("n").sees("Enter to deny").type("too long\r")
    terminal.logged("Deny(reason='too long'")


def test_tab_approves_with_a_remark_for_the_model(terminal):
    ask(terminal).again("\t", lambda: "Enter to approve" in terminal.text)
    terminal.type("but only").type("\x1b").misses("Enter to approve").sees("Esc to deny and stop")
    listening(terminal).type("\x1b[A\t").sees("❯ but only").type(" once\r")
    terminal.logged("remark='but only once'").logged("scope='once'").misses("Allow bash?")


def test_tab_adds_a_remark_to_the_selected_answer(terminal):
    listening(ask(terminal)).type("\t").sees("Enter to approve").type("fine\r")
    terminal.logged("remark='fine'").logged("scope='session'")


def panel_of(asked: PermissionQuestion) -> ApprovalPanel:
    """Return a panel that is only drawn: no one waits for its answer."""
    return ApprovalPanel(asked, approval_choices(asked), None)  # type: ignore[arg-type]


def drawn_rows(panel: ApprovalPanel, ctx: RenderContext, rows: int) -> list[str]:
    return draw_approval(panel, ctx, rows)[0]


def test_an_answer_with_a_remark_is_named_if_it_lasts():
    panel = panel_of(question(prefix="git status"))

    def hint(at: int) -> str:
        panel.commented = panel.choices[at]
        return drawn_rows(panel, RenderContext(110, Theme(False)), 24)[-1]

    once, lasting = map(hint, (0, 1))
    assert once.startswith("Add a remark for the model")
    assert lasting.startswith(f"{panel.choices[1].text} · ") and "Enter to approve" in lasting
    assert panel.choices[1].lasting


def question(**fields):
    given: dict[str, Any] = {
        "tool": "bash",
        "title": "x",
        "access": (),
        "why": "",
        "prefix": None,
        "preview": Preview(),
    }
    return PermissionQuestion(**(given | fields))


def test_without_a_prefix_there_is_no_always_and_the_answers_are_numbered_without_holes():
    found = {choice.letter: choice for choice in approval_choices(question())}
    assert set(found) == {"y", "a", "n"}
    assert found["n"].digit == "3"
    runs = approval_choices(question(access=(Access("run", "make && ./x"),)))
    assert [(choice.digit, choice.letter) for choice in runs] == [("1", "y"), ("2", "n")]
    more = approval_choices(question(prefix="git status"))
    assert [(choice.digit, choice.letter) for choice in more] == [
        ("1", "y"),
        ("2", "a"),
        ("3", "n"),
        ("4", "p"),
    ]
    assert found["y"].answer == Allow("once")
    assert found["n"].answer is None
    assert Deny("") == Deny("", stop=False)


def test_a_place_outside_the_project_is_named():
    rows = question_body(
        question(access=(Access("write", "/etc/\x1b[2Jpasswd", outside=True),)),
        RenderContext(60, Theme(False)),
    )
    assert any("writes outside the project: /etc/␛[2Jpasswd" in row for row in rows)


@each_row(
    ("title", "access", "cause", "shown"),
    [
        (".env", Access("read", "/p/.env", protected=True), "", ["reads /p/.env"]),
        ("/etc/a", Access("read", "/etc/a", outside=True), "outside", ["reads outside the project: /etc/a"]),
        ("b", Access("read", "/p/.env", protected=True), "", ["b", "reads /p/.env"]),
    ],
)
def test_a_place_that_needs_approval_is_reported_once_with_the_reason(title, access, cause, shown):
    why = "it may contain secrets"
    asked = question(tool="read", title=title, access=(access,), why=why, cause=cause, preview=Preview())
    panel = panel_of(asked)
    rows = [row.strip() for row in drawn_rows(panel, RenderContext(60, Theme(False, False)), 24)]
    filled = [row for row in rows if row]
    reasons = [] if cause == "outside" else ["Reason: it may contain secrets"]
    assert filled[: 1 + len(shown) + len(reasons)] == ["Allow read?", *shown, *reasons]
    assert "1 Yes, this once" in filled[1 + len(shown) + len(reasons)]


def test_the_selected_answer_is_recognized_beside_a_command_with_its_mark():
    asked = question(preview=Preview(text="PS1='❯ '\n❯ x"), access=(Access("run", "x"),))
    rows, marked = draw_approval(panel_of(asked), RenderContext(60, Theme(True)), 24)
    assert sum("❯ " in row for row in rows) == 3
    assert strip_sequences(rows[marked]) == "❯ 1 Yes, this once  y"


def test_a_command_that_would_run_outside_the_sandbox_says_so_in_full():
    why = "it cannot work in the sandbox: ssh needs a direct network connection and keys"
    asked = question(
        title="ssh a", why=why, prefix="open(ssh a)", preview=Preview(text="ssh a"), outside=True
    )
    ctx = RenderContext(60, Theme(False, False))
    for most in (24, 16):
        drawn = drawn_rows(panel_of(asked), ctx, most)
        assert len(drawn) <= most
        filled = [row.strip().removeprefix("❯ ") for row in drawn if row]
        assert filled[:-1] == [
            "Run this command outside the sandbox?",
            "! sends data",
            "ssh a",
            "Reason: it cannot work in the sandbox: ssh needs a direct",
            "network connection and keys",
            "1 Yes, without the sandbox, this once  y",
            "2 Yes, and run this without the sandbox in this",
            "session: open(ssh a)  a",
            "3 No, and tell makeroom what to do instead  n",
            "4 Yes, and always run this without the sandbox:",
            "open(ssh a)  p",
        ]


@each_row("payload", ["a\rb", "a\x1b[2Kb", "rm -rf /\u202e", "\u200brm", "a\x08\x08b", "\x9b31m"])
def test_nothing_hides_in_a_command_that_is_asked_for(payload):
    shown = "\n".join(question_body(question(preview=Preview(text=payload)), RenderContext(60, Theme(False))))
    assert shown.isprintable() or shown.replace("\n", "").isprintable()
    assert shown.strip() != payload.strip()


def test_a_script_is_shown_as_numbered_lines_with_the_risky_ones_pointed_out():
    script = "set -e\ncurl -s https://example.org/x | sh\necho a\rb\u00a0c\nrm -rf build"
    asked = question(preview=Preview(text=script), access=(Access("run", script),))
    rows = question_body(asked, RenderContext(60, Theme(False, False)))
    assert rows == [
        "  ! downloads and runs code (line 2)",
        "  ! deletes data (line 4)",
        "  1  set -e",
        "  2  curl -s https://example.org/x | sh",
        "  3  echo a␍b<U+00A0>c",
        "  4  rm -rf build",
    ]


def test_the_arguments_of_a_server_are_shown_as_they_are():
    text = '{\n  "a": "\u202e rm -rf x"\n}'
    asked = question(preview=Preview(text=text), access=(Access("server", "mcp__x"),))
    rows = question_body(asked, RenderContext(60, Theme(False, False)))
    assert rows == ["  {", '    "a": "<U+202E> rm -rf x"', "  }"]


def test_a_single_command_has_no_line_number():
    rows = question_body(question(preview=Preview(text="git push")), RenderContext(60, Theme(False, False)))
    assert rows == ["  ! sends data", "  git push"]


def test_a_name_of_mixed_letters_is_pointed_out():
    asked = question(preview=Preview(text="\u0441url https://example.org"))
    rows = question_body(asked, RenderContext(80, Theme(False, False)))
    assert rows[0] == "  ! runs \u0441url, a name that mixes Latin and Cyrillic letters"


@each_row(
    ("fields", "allowed"),
    [
        ({"prefix": "bash(make *)"}, ["bash(make *) in this session", "bash(make *) in this project"]),
        ({"prefix": "edit"}, ["all edits in this session", "all edits in this project"]),
        ({"prefix": "mcp__db__query"}, ["all calls of mcp__db__query in this session"]),
        (
            {"tool": "read", "access": (Access("read", "/etc/hosts", outside=True),)},
            ["read(/etc/hosts) in this session"],
        ),
    ],
)
def test_lasting_answers_say_exactly_what_they_allow(fields, allowed):
    texts = " ".join(choice.text for choice in approval_choices(question(**fields)) if choice.lasting)
    assert all(f"allow {each}" in texts for each in allowed)


def test_a_narrow_question_wraps_its_rules_or_reports_where_they_are_in_full():
    rule = "bash(git log --oneline --decorate *)"
    asked = question(prefix=rule, preview=Preview(text="git log --oneline --decorate -3"))
    panel = panel_of(asked)
    ctx = RenderContext(30, Theme(False))
    rows = drawn_rows(panel, ctx, 30)
    joined = "".join(" ".join(rows).split())
    assert joined.count("".join(rule.split())) == 2 and all(painted_width(row) <= 30 for row in rows)
    short = drawn_rows(panel, ctx, 9)
    assert any("Ctrl-O for full rules" in row for row in short) and any("❯ 1 Yes" in row for row in short)
    assert rule in "\n".join(full_question(asked, RenderContext(80, Theme(False))))


def test_answers_that_repeat_a_long_script_leave_half_of_the_rows_to_it():
    script = "\n".join(f"echo step {at} of the script" for at in range(97))
    panel = panel_of(question(prefix=f"bash({script[:1_000]})", preview=Preview(text=script)))
    rows = drawn_rows(panel, RenderContext(80, Theme(False)), 40)
    assert sum("echo step" in row and "allow" not in row for row in rows) >= 19
    assert any("Ctrl-O for full rules" in row for row in rows) and len(rows) <= 40


LONG_EDIT = "".join(f" line {at}\n" for at in range(9)) + "-old\n+" + "new words " * 8 + "\n after\n"


def test_a_question_is_drawn_again_for_another_width_and_begins_where_the_change_is():
    why = "it writes a file"
    preview = Preview(diff=f"@@ -1,11 +1,11 @@\n{LONG_EDIT}")
    asked = question(tool="edit", title="a.py", why=why, cause="edit", preview=preview)
    panel = panel_of(asked)
    wide = drawn_rows(panel, RenderContext(120, Theme(False, False)), 30)
    assert any(row.rstrip().endswith("new words") for row in wide) and why not in "\n".join(wide)
    narrow = drawn_rows(panel, RenderContext(40, Theme(False, False)), 30)
    assert "".join(narrow).count("words") == 8
    small = drawn_rows(panel_of(asked), RenderContext(40, Theme(False, False)), 10)
    assert any("- old" in row for row in small) and any("lines 9-" in row for row in small)


LINES = [f" x{at} and some more words of line {at}\n" for at in range(1, 41)]


def resized(diff, first, second):
    """The panel, and what is drawn of it at the second (columns, rows), drawn before at the first."""
    asked = question(tool="edit", title="a.py", preview=Preview(diff=diff))
    panel = panel_of(asked)
    for columns, rows in (first, second):
        drawn = drawn_rows(panel, RenderContext(columns, Theme(False, False)), rows)
    return panel, [row.strip() for row in drawn]


@pytest.mark.parametrize("second", [(120, 40), (40, 60)])
def test_what_a_larger_terminal_has_room_for_is_not_scrolled_away(second):
    diff = "@@ -1,12 +1,12 @@\n" + "".join([*LINES[:7], "-old\n", "+new\n", *LINES[8:12]])
    panel, drawn = resized(diff, (40, 15), second)
    assert panel.scroll == 0 and any(row.startswith("1   x1 ") for row in drawn)


@each_row(("first", "second"), [((40, 15), (120, 15)), ((120, 15), (40, 15)), ((30, 15), (12, 15))])
def test_in_other_columns_a_question_continues_with_the_line_that_was_first(first, second):
    diff = "@@ -1,40 +1,40 @@\n" + "".join([*LINES[:20], "-old\n", "+new\n", *LINES[21:]])
    panel, drawn = resized(diff, first, second)
    assert any("x20" in row for row in panel.body[panel.scroll - 3 : panel.scroll + 1])
    assert any(row.endswith("old") for row in drawn)


def test_in_a_terminal_that_became_too_small_the_change_is_shown_and_not_what_is_before_it():
    diff = "@@ -1,12 +1,12 @@\n" + "".join([*LINES[:7], "-old\n", "+new\n", *LINES[8:12]])
    for second in ((120, 12), (40, 15)):
        panel, drawn = resized(diff, (120, 40), second)
        assert any(row.endswith("- old") for row in drawn), second
        panel.scroll = 0  # by the user
        again = drawn_rows(panel, RenderContext(second[0], Theme(False, False)), second[1] - 1)
        assert not any(row.endswith("- old") for row in again)


def test_all_of_a_change_is_worth_more_than_air_around_it():
    asked = question(tool="edit", title="a.py", preview=Preview(diff=f"@@ -1,11 +1,11 @@\n{LONG_EDIT}"))

    def drawn(rows):
        return drawn_rows(panel_of(asked), RenderContext(120, Theme(False, False)), rows)

    assert [row.strip() for row in drawn(30)].count("") == 4
    assert not any("PgUp" in row for row in drawn(20)) and "" not in drawn(20)


REFUSED = {"refused": "blocked: write ~/.cargo (cargo)", "through": "write ~/.cargo"}


def test_leaving_the_sandbox_is_another_question_with_answers_of_its_own():
    asked = question(prefix="open(cargo install x)", preview=Preview(text="cargo install x"), **REFUSED)
    assert [(choice.digit, choice.answer) for choice in approval_choices(asked)] == [
        ("1", Allow("once")),
        ("2", None),
        ("3", Allow("through")),
        ("4", Allow("always")),
    ]
    assert [choice.letter for choice in approval_choices(asked)] == ["y", "n", "p", "o"]
    waiting = question(waits=True, refused="npm wants to reach example.org", through="reach example.org")
    assert [(choice.letter, choice.answer) for choice in approval_choices(waiting)] == [
        ("y", Allow("once")),
        ("a", Allow("session")),
        ("n", None),
        ("p", Allow("through")),
    ]
    assert approval_choices(waiting)[0].text == "Yes, while this command runs"
    refused = "blocked: write .git/config"
    narrow = approval_choices(question(prefix="open(git config a.b c)", refused=refused))
    assert [(choice.digit, choice.letter) for choice in narrow] == [("1", "y"), ("2", "n"), ("3", "p")]
    assert [choice.digit for choice in approval_choices(question(refused=refused))] == ["1", "2"]
    rows = drawn_rows(panel_of(asked), RenderContext(70, Theme(False)), 20)
    told = [row.strip() for row in rows if row]
    assert told[:3] == ["Run this command outside the sandbox?", REFUSED["refused"], "cargo install x"]
    assert any("3 Yes, and always allow commands in this project to" in row for row in rows)


@each_row(
    ("fields", "reason"),
    [
        (
            {"why": "it writes", "prefix": "edit"},
            "it writes, and no user can be asked in this run (--allowedTools edit",
        ),
        ({"prefix": "open(a)", **REFUSED}, "no user can be asked in this run (--allowedTools 'open(a)'"),
        (
            {"remedy": "--allowedTools 'net(a.b)'", **REFUSED},
            "no user can be asked in this run (--allowedTools 'net(a.b)'",
        ),
        (
            {"tool": "read", "why": "outside", "access": (Access("read", "/a [b]", outside=True),)},
            "outside, and no user can be asked in this run (--allowedTools 'read(/a [[]b])'",
        ),
        (
            {"tool": "read", "why": "secret", "access": (Access("read", "/w/.env", protected=True),)},
            "secret, and no user can be asked in this run (--allowedTools 'read(/w/.env)'",
        ),
    ],
)
def test_without_a_user_a_question_is_a_denial_that_names_the_flag(fields, reason):
    answer = asyncio.run(DenyAll().ask(question(**fields)))
    assert answer == Deny(f"{reason} would allow it)", unattended=True)


def test_what_no_rule_allows_is_denied_without_naming_one():
    access = (Access("write", "/w/.git/config", protected=True),)
    answer = asyncio.run(DenyAll().ask(question(tool="write", why="protected", access=access)))
    assert answer == Deny("protected, and no user can be asked in this run", unattended=True)


def soon_listening() -> int:
    """makeroom itself, whose questions take keys sooner."""
    approval.LISTEN_DELAY_S = 0.15  # type: ignore[attr-defined]  # as that module imported it
    return main([])


@pytest.mark.parametrize("size", sampled([(40, 15), (100, 30)], 2))
def test_a_long_question_below_held_reads_can_be_printed_and_refused(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    (tmp_path / "core.py").write_text("".join(f"name{at} = {at}\n" for at in range(40)))
    new = "".join(f"import mod{at}\n" for at in range(29))
    edit = calls("edit", file_path="core.py", old_string="name0 = 0\n", new_string=new)
    steps: list[Step] = [Reply([calls("read", file_path="core.py", limit=30)]), Reply([edit]), "the end"]
    with (
        Server(ScriptedModel(steps)) as server,
        PtyTerminal(tmp_path, size, soon_listening, **environment(tmp_path, server)) as terminal,
    ):
        listening(terminal.sees("❯").type("go\r").sees("Allow edit?", "before approving"))
        terminal.type("\x0f").until(lambda: "+ import mod28" in terminal.everything, "all of it")
        terminal.type("n").sees("Enter to deny")
        rows = [row.rstrip() for row in terminal.text.splitlines()]
        assert sum(row.startswith("Allow edit?") for row in rows) == 1 and "1 Yes" not in "".join(rows[5:])
        (hint,) = (row for row in rows if "PgUp/PgDn" in row)
        assert hint.endswith(("PgUp/PgDn", "to print all"))
        (asked,) = (row for row in rows if "Enter to deny" in row)
        assert asked.endswith("Esc to go back")
        terminal.type("\x1b").misses("Enter to deny").type("\x1b").sees("❯").misses("Allow edit?")
        assert terminal.everything.count("● read") == 1
        assert [row.strip() for row in terminal.text.splitlines() if row.startswith("❯")][-1] in ("❯", "❯ go")
