"""Expected behaviour of the keys, at a real terminal."""

import random
import signal
import string
from functools import partial

import pytest

from . import scripted_driver
from .pty_terminal import PtyTerminal


def test_a_prompt_is_echoed_answered_and_the_status_line_stays(terminal):
    terminal.type("say hello there\r").sees(
        "❯ say hello there", "\nhello there\n", "23% of 200k", "asks before edits"
    )
    assert terminal.everything.count("❯ say hello there") == 1


NEWLINES = {
    "Ctrl-J": "\n",
    "Alt-Enter": "\x1b\r",
    "backslash": "\\\r",
    "Shift-Enter CSI-u": "\x1b[13;2u",
    "Shift-Enter modifyOtherKeys": "\x1b[27;2;13~",
}


def test_every_newline_key_makes_a_new_line(terminal):
    for name, newline in NEWLINES.items():
        terminal.type(f"{name}{newline}two").sees(f"❯ {name}\n  two").type("\r")
        terminal.logged(rf"prompt '{name}\ntwo'")


def test_ctrl_c_clears_what_is_written_and_up_restores_it(terminal):
    terminal.type("precious").sees("❯ precious").type("\x03").misses("precious")
    terminal.type("\x1b[A").sees("❯ precious")


def test_ctrl_c_twice_on_an_empty_line_leaves_after_a_hint(terminal):
    terminal.ready().type("\x03").sees("Press Ctrl-C again to exit")
    last = terminal.text.splitlines()[-1]
    assert last.endswith("asks before edits · Press Ctrl-C again to exit")
    terminal.type("\x03")
    assert terminal.ends() == 0
    assert "closed" in terminal.log


def test_a_hint_replaces_the_status_in_a_narrow_window(terminal):
    terminal.ready().resize(36, 24).type("\x03").sees("\nPress Ctrl-C again to exit").type("\x03")
    assert terminal.ends() == 0


def test_ctrl_d_deletes_forward_in_text_and_leaves_on_an_empty_line(terminal):
    terminal.type("ab\x01\x04").sees("❯ b").type("\x04").misses("❯ b").type("\x04")
    assert terminal.ends() == 0


@pytest.mark.parametrize("word", ["exit", "quit", ":q", "/exit"])
def test_words_that_leave(terminal, word):
    terminal.type(f"{word}\r")
    assert terminal.ends() == 0


def test_ctrl_c_interrupts_and_a_prompt_without_an_answer_comes_back(terminal):
    terminal.type("wait never\r").logged("prompt").sees("Ctrl-C to interrupt").type("\x03")
    terminal.sees("Interrupted").logged("interrupted 'wait never'").until(
        lambda: terminal.text.rstrip().split("\n")[-2] == "❯ wait never", "the prompt in the input"
    )
    terminal.type("\x03").misses("\n❯ wait never\nclaude").type("\x1b[A").sees("❯ wait never")
    terminal.type("\x1b[A").sees("❯ wait never")  # once in the history: there is nothing before it


def test_an_interrupt_after_an_answer_leaves_the_input_empty(terminal):
    terminal.type("say this;wait never\r").sees("Ctrl-C to interrupt")
    terminal.until(lambda: "this" in terminal.text.splitlines(), "the answer").type("\x1b")
    terminal.sees("Interrupted").misses("Ctrl-C to interrupt")
    assert terminal.text.rstrip().split("\n")[-2].rstrip() == "❯"


def test_an_interrupt_during_a_call_and_a_retry_ends_them(terminal):
    terminal.type("retry\r").sees("overloaded; retrying in 7 s (2 of 10)").type("\x03").sees("Interrupted")
    terminal.misses("overloaded; try")
    terminal.type("\x15run never\r").sees("compiling").type("\x03").misses("compiling")


def test_the_signal_interrupts_like_the_key(terminal):
    terminal.type("say x;wait never\r").sees("Ctrl-C to interrupt").signal(signal.SIGINT).sees("Interrupted")


def test_lines_typed_during_a_turn_wait_are_shown_and_follow_in_order(terminal):
    terminal.type("wait\r").sees("Ctrl-C to interrupt").type("say first\r").sees("1 queued", "❯ say first")
    terminal.type("say second\r").sees("2 queued").type("half a dr").open_gate().logged("prompt 'say second'")
    terminal.misses("queued").sees("\nsecond\n", "❯ half a dr").type("aft\r").logged("prompt 'half a draft'")
    order = [terminal.log.index(f"prompt '{text}'") for text in ("wait", "say first", "say second")]
    assert order == sorted(order)


def test_prompts_go_with_the_next_request_of_the_turn_and_commands_wait_for_its_end(terminal):
    terminal.type("say one;wait;requests;say two\r").sees("Ctrl-C to interrupt")
    terminal.type("use tabs\r").sees("1 queued").type("!ls\r").sees("2 queued")
    terminal.type("last\r").sees("3 queued")
    terminal.open_gate().logged("prompt 'last'").misses("queued").sees("one", "❯ use tabs", "two", "ran ls")
    done = ("taken 'use tabs'", "command '!ls'", "prompt 'last'")
    assert [terminal.log.index(each) for each in done] == sorted(terminal.log.index(each) for each in done)
    assert "taken 'last'" not in terminal.log
    rows = terminal.everything
    assert rows.index("\none") < rows.rindex("❯ use tabs") < rows.index("\ntwo") < rows.rindex("❯ !ls")


def test_a_prompt_that_did_not_get_in_before_the_turn_was_stopped_comes_back(terminal):
    terminal.type("say one;wait;requests\r").sees("Ctrl-C to interrupt").type("held\r").sees("1 queued")
    terminal.open_gate().logged("taken 'held'").type("\x03").sees("Interrupted", "asks before edits")
    terminal.sees("\n❯ held\n")


def test_what_was_cleared_is_yanked_back_also_after_another_prompt(terminal):
    rows = "\n".join(f"row {number}" for number in range(40))
    terminal.type(f"\x1b[200~{rows}\x1b[201~ and more").sees("40 lines] and more").type("\x03")
    terminal.misses("and more").type("first\r").logged("prompt 'first'").sees("You said: first")
    terminal.type("\x19").sees("40 lines] and more").type("\x1b").sees("Press Esc again to clear").type(
        "\x1b"
    )
    terminal.misses("and more").type("\x19!\r").logged("row 39 and more!'")


@pytest.mark.parametrize(("lines", "first"), [(2, "!be it"), (40, "!x"), (2, "/clear it"), (40, "/init")])
def test_several_pasted_lines_are_a_prompt_whatever_they_begin_with(terminal, lines, first):
    pasted = first + "\ntouch ran" * (lines - 1)
    terminal.type(f"\x1b[200~{pasted}\x1b[201~").sees(f"[paste 1: {lines} lines]")
    terminal.type("\r").logged(f"prompt {pasted!r}")
    terminal.type("\x1b[200~!ls\x1b[201~\r").logged("command '!ls'").type("!echo a\nb\r")
    terminal.logged("command '!echo a\\nb'")


@pytest.mark.parametrize(("up", "down"), [("\x1b[A", "\x1b[B"), ("\x10", "\x0e")])
def test_up_and_down_move_by_rows_before_they_leave_what_is_written(tmp_path, up, down):
    rows = "❯ say one two three\n  four five six sev\n  eight nine ten\n"
    with PtyTerminal(tmp_path, (22, 24)) as terminal:
        terminal.sees("23%").type("say before\r").logged("before").type(rows[2:-1].replace("\n  ", " "))
        terminal.sees(rows).type(f"{up * 3}").sees("❯ say before\n").type(down).sees(rows)
        terminal.type(f"{up}1").sees("six 1sev\n").type(f"{up}2").sees("two thr2ee\n")
        terminal.type(f"{down}3{down}4\r")
        terminal.logged("prompt 'say one two thr2ee four five six 1s3ev eight nine ten4'")


def test_rows_of_wide_characters_and_short_ones_keep_the_column(tmp_path):
    up, down = "\x1b[A", "\x1b[B"
    with PtyTerminal(tmp_path, (22, 24)) as terminal:
        text = f"{'日本' * 6}\nx\n{'a' * 15}"
        terminal.sees("23%").type(f"{text}{up * 3}1{down * 3}2\r")
        terminal.logged("prompt '日本日本日本日1本日本日本\\nx\\naaaaaaaaaaaaaaa2'")


def test_up_takes_a_queued_line_back_before_what_is_written(terminal):
    terminal.type("wait\r").sees("Ctrl-C to interrupt").type("say frist\r").sees("1 queued").type("and more")
    terminal.sees("❯ and more\n").type("\x1b[A").misses("queued").sees("❯ say frist\n  and more\n")


def test_up_takes_a_queued_line_back_for_editing(terminal):
    terminal.type("wait\r").sees("Ctrl-C to interrupt").type("say frist\r").sees("1 queued").type("\x1b[A")
    terminal.misses("queued").type("\x15say fixed\r").sees("1 queued").open_gate().logged(
        "prompt 'say fixed'"
    )
    assert "frist" not in terminal.log


def test_commands_among_what_is_given_back_stay_lines_of_their_own(terminal):
    terminal.type("say x;wait never\r").sees("Ctrl-C to interrupt").type("/compact a\r").sees("1 queued")
    terminal.type("say later\r").sees("2 queued").type("/compact b\r").sees("3 queued").type("\x1b")
    terminal.sees("Interrupted", "not run: /compact a, /compact b (press ↑ to edit)", "❯ say later\n")
    terminal.type("\x15\x1b[A").sees("❯ /compact b\n").type("\r").logged("command '/compact b'")
    assert "command '/compact a" not in terminal.log and "/compact a\n" not in terminal.log


def test_esc_interrupts_and_gives_the_queue_back(terminal):
    terminal.type("say x;wait never\r").sees("Ctrl-C to interrupt").type("later\r").sees("1 queued").type(
        "more"
    )
    terminal.type("\x1b").sees("Interrupted").sees("❯ later\n  more")
    assert "prompt 'later'" not in terminal.log


def test_the_hint_of_a_key_goes_when_the_key_has_done_what_it_said(terminal):
    terminal.type("words").sees("❯ words").type("\x1b").sees("Press Esc again to clear")
    terminal.type("\x1b").misses("words")
    assert "Press Esc again to clear" not in terminal.text


def test_esc_esc_on_an_empty_line_rewinds_and_on_text_clears(terminal):
    terminal.type("text\x1b").sees("Press Esc again to clear").type("\x1b").misses("❯ text")
    terminal.misses("Esc again to").type("\x1b").sees("Press Esc again to rewind").type("\x1b").logged(
        "command '/rewind'"
    )


def test_shift_tab_cycles_the_permission_mode(terminal):
    terminal.type("\x1b[Z").sees("accepts edits").type("\x1b[Z").sees("denies instead of asking").type(
        "\x1b[Z"
    )
    terminal.sees("23%")


def test_ctrl_o_shows_whole_outputs(terminal):
    terminal.type("bash pytest -q\r").sees("4 lines above", "12 passed\n     2.3 s")
    assert "test_0 passed" not in terminal.text
    terminal.type("\x0f").sees("In full:", "test_0 passed", "Full output is on; 1 output printed again")
    terminal.type("\x0f").sees("Full output is off for later outputs")
    terminal.type("\x0f").sees("Full output is on for later outputs; /search finds earlier ones")
    assert terminal.everything.count("In full:") == 1


def test_ctrl_o_prints_each_output_of_the_turn_whole_once(terminal):
    terminal.type("bash first;output short;bash second\r").sees("● bash  second").misses(
        "Ctrl-C to interrupt"
    )
    terminal.type("\x0f").sees("2 outputs printed again").type("\x0f").sees("Full output is off")
    terminal.type("\x0f").sees("Full output is on")
    terminal.until(
        lambda: [terminal.everything.count(f"● bash  {name}") for name in ("first", "second")] == [2, 2]
    )


def test_a_long_menu_reports_that_there_is_more(terminal):
    terminal.type("/").sees("1-6 of 9 · ↑ ↓ to select, or keep typing")
    terminal.type("\x1b[B" * 8).sees("4-9 of 9").type("\x15")
    terminal.type("/co").sees("/cost").misses(" of 9")


def test_the_menu_completes_with_tab_and_runs_with_enter(terminal):
    terminal.type("/co").sees("/compact", "/context", "Make room in the context now").type("\x1b[B\x1b[B\t")
    terminal.sees("❯ /context").type("\x15/cont\r").logged("command '/context'").sees("Context  39k of 200k")


def test_enter_completes_what_several_commands_begin_with_and_runs_none(terminal):
    terminal.type("/co\r").sees("❯ /compact\n").type("\r").logged("command '/compact'")
    terminal.type("/tok\r").logged("command '/tokens'")
    assert terminal.log.count("command") == 2


def test_esc_closes_the_menu_and_keeps_the_text(terminal):
    terminal.type("/co").sees("/compact").type("\x1b").misses("/compact").sees("❯ /co")


def test_a_typo_is_a_key_away_and_not_in_the_way_of_the_next_line(terminal):
    terminal.type("/contxet\r").sees("unknown command /contxet", "Press ↑ to edit the line", "❯\n")
    terminal.type("/context\r").logged("command '/context'").sees("Context  39k")
    terminal.type("/contxet\r").type("\x1b[A").sees("❯ /contxet\n")


def test_words_that_begin_with_a_path_are_a_prompt(terminal):
    terminal.type("/usr/lib is slow\r").logged("prompt '/usr/lib is slow'")
    terminal.type("/tmp?\x7f\r").logged("prompt '/tmp'")


def test_a_bang_goes_to_the_driver_as_a_command(terminal):
    terminal.type("!ls -l\r").logged("command '!ls -l'").sees("ran ls -l")


def test_a_command_that_runs_is_not_shown_as_waiting(terminal):
    terminal.type("!gate\r").sees("❯ !gate", "Ctrl-C to interrupt").misses("queued")
    terminal.type("next\r").sees("❯ next", "1 queued").open_gate()
    terminal.logged("prompt 'next'").misses("queued")


def test_a_looking_command_runs_beside_a_turn(terminal):
    terminal.type("wait never\r").sees("Ctrl-C to interrupt").type("/context\r").sees("Context  39k")
    terminal.sees("Ctrl-C to interrupt")


def test_a_question_mark_shows_the_keys_and_is_not_swallowed(terminal):
    terminal.type("?").sees("Ctrl-R search").type(" why").misses("Ctrl-R search").sees("❯ ? why")


def test_a_command_of_the_history_opens_no_menu_and_is_passed_by(terminal):
    for line in ("say first", "/compact", "/cost"):
        terminal.type(f"{line}\r").logged(line)
    terminal.again("\x1b[A", lambda: "❯ /cost\nclaude" in terminal.text)
    terminal.type("\x1b[A").sees("❯ /compact\nclaude").type("\x1b[A").sees("❯ say first\nclaude")
    terminal.type("\x1b[B").sees("❯ /compact\nclaude").type("\r")
    terminal.until(lambda: terminal.log.count("command '/compact'") == 2, "it again").sees("❯\nclaude")
    terminal.again("\x1b[A", lambda: "❯ /compact\nclaude" in terminal.text)
    terminal.type("\x7f").sees("❯ /compac\n", "Make room in")  # what is typed from there on opens it


def test_a_paste_comes_back_from_the_history_as_drawn(tmp_path):
    pasted, shown = "".join(f"line {at}\n" for at in range(60)), "❯ look [paste 1: 60 lines] well\nclaude"
    with PtyTerminal(tmp_path) as first:
        first.ready().type("say before\r").logged("before").type(f"look \x1b[200~{pasted}\x1b[201~ well\r")
        first.logged("line 59").again("\x1b[A", lambda: shown in first.text)
        first.type("\x1b[A").sees("❯ say before\nclaude").type("\x03\x04").ends()
    with PtyTerminal(tmp_path) as second:
        second.ready().again("\x1b[A", lambda: shown in second.text)
        wanted = f"prompt {f'look {pasted} well'!r}"
        second.type("\r").until(lambda: second.log.count(wanted) == 2, "it again")


def test_ctrl_r_searches_the_history_of_earlier_sessions(tmp_path):
    with PtyTerminal(tmp_path) as first:
        first.ready().type("say alpha one\r").logged("prompt").type("say beta two\r").logged("beta").type(
            "\x04"
        ).ends()
    with PtyTerminal(tmp_path) as second:
        second.ready().type("\x12alpha").sees("❯ say alpha one", "search: alpha").type("\r").misses("search:")
        second.type("\r").until(lambda: second.log.count("say alpha one") == 2, "the prompt again")


def test_ctrl_g_edits_in_the_editor(tmp_path):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf " and edited" >> "$1"; [ "$1" != "${1#"$TMPDIR"}" ]\n')
    editor.chmod(0o755)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    with PtyTerminal(tmp_path, EDITOR=str(editor), TMPDIR=str(temporary)) as terminal:
        terminal.ready().type("typed\x07").sees("❯ typed and edited").type("\x03\x04").ends()
    assert list(temporary.iterdir()) == []


def test_an_interrupted_command_of_the_user_asks_for_no_other_task(terminal):
    terminal.ready().type("!gate\r").logged("command '!gate'").type("\x1b").sees("! interrupted\n")
    terminal.misses("What should makeroom do instead")


def test_a_resize_in_the_editor_is_drawn_when_it_has_ended(tmp_path):
    editor = tmp_path / "editor"
    editor.write_text(
        f"#!/bin/sh\nprintf 'its own screen'\nuntil [ -e {tmp_path}/resized ]; do sleep 0.05; done\n"
    )
    editor.chmod(0o755)
    with PtyTerminal(tmp_path, EDITOR=str(editor), SCRIPTED_EDITING="vim") as terminal:
        terminal.ready().type("typed\x07").sees("its own screen")
        before = len(terminal.raw)
        terminal.resize(60, 20)
        assert not terminal.writes_within(0.3)
        assert b"\x1b[6 q" not in terminal.raw[before:]
        (tmp_path / "resized").touch()
        terminal.sees("❯ typed", "─" * 60)
        assert b"\x1b[6 q" in terminal.raw[before:], "the cursor of vim's insert mode is back"
        terminal.type("\x03\x04").ends()  # a killed program leaves the file of the editor behind


def test_ctrl_l_redraws_and_keeps_conversation_and_input(terminal):
    terminal.type("say stays\r").sees("\nstays").type("draft\x0c\x0c").type("!").sees("❯ draft!", "\nstays")


def test_keys_typed_before_the_agent_is_ready_are_kept(tmp_path):
    with PtyTerminal(tmp_path, SCRIPTED_SLOW="1") as terminal:
        terminal.sees("❯").type("say early\rsay next\rdra").sees("❯ dra")
        assert "prompt" not in terminal.log
        terminal.open_gate("ready").logged("prompt 'say early'").logged("prompt 'say next'").sees("❯ dra")


def test_a_prompt_is_drawn_as_sent_and_commands_work_while_the_session_is_loaded(tmp_path):
    with PtyTerminal(tmp_path, SCRIPTED_SLOW="1") as terminal:
        terminal.sees("❯").type("/help\r").sees("output of /help").type("say early\r")
        terminal.sees("❯ say early", "Ctrl-C to interrupt").type("/help me\r").sees("output of /help me")
        assert "prompt" not in terminal.log
        terminal.type("\x1b").sees("Interrupted").until(lambda: terminal.text.count("say early") == 2)
        terminal.type("\r").open_gate("ready").logged("prompt 'say early'").sees("\nearly")


def test_files_complete_after_an_at_sign(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "calculator.py").touch()
    (tmp_path / "two words.txt").touch()
    with PtyTerminal(tmp_path) as terminal:
        terminal.ready().type("look at @calc").sees("src/calculator.py").type("\t").sees(
            "look at @src/calculator.py"
        )
        terminal.type("and @two").sees("two words.txt").type("\t\r").logged('@"two words.txt"')


def test_a_thousand_keys_typed_while_a_turn_prints_are_kept_in_order(terminal):
    chance = random.Random(7)
    keys = "x" + "".join(
        chance.choice(string.ascii_letters + string.digits + " .,;[]!?@/#'\n") for _ in range(999)
    )
    terminal.type("paragraphs 400;wait\r").sees("Ctrl-C to interrupt")
    for at in range(0, len(keys), 20):
        terminal.type(keys[at : at + 20])
        terminal.until(lambda: True)
    terminal.open_gate().misses("Ctrl-C to interrupt").type("\r").logged(f"prompt {keys!r}")


def test_tab_completes_a_path_as_a_shell_does(terminal):
    (terminal.folder / "readings").mkdir()
    (terminal.folder / "readings" / "first.txt").touch()
    (terminal.folder / "readings" / "second.txt").touch()
    terminal.type("!cat readi\t").sees("❯ !cat readings/").type("\t").sees("first.txt", "second.txt")
    terminal.type("sec\t").sees("readings/second.txt").type("\r").logged("'!cat readings/second.txt'")


def test_ctrl_s_puts_the_draft_away_until_the_next_prompt_is_sent(terminal):
    terminal.type("a long thought\x13").sees("Draft stashed").misses("a long thought")
    terminal.type("say first\r").sees("\nfirst", "❯ a long thought")
    terminal.type("\x13").misses("❯ a long thought").type("\x13").sees("❯ a long thought", "Draft restored")


def test_a_draft_that_was_put_away_outlives_a_crash(tmp_path):
    with PtyTerminal(tmp_path) as terminal:
        terminal.ready().type("a long thought\x13").sees("Draft stashed").type("more").sees("❯ more")
        terminal.signal(signal.SIGTERM).ends()
    with PtyTerminal(tmp_path, argv=partial(scripted_driver.main, ["", str(tmp_path), "-c"])) as terminal:
        terminal.sees("ended before this was sent: 'a long thought ⏎ more'")


def test_a_draft_that_is_still_away_at_the_end_is_in_the_history(tmp_path):
    with PtyTerminal(tmp_path) as terminal:
        terminal.ready().type("a long thought\x13").sees("Draft stashed").type("\x04").ends()
    with PtyTerminal(tmp_path) as terminal:
        terminal.ready().again("\x1b[A", lambda: "❯ a long thought" in terminal.text)


def test_ctrl_t_shows_the_background_commands(terminal):
    terminal.type("draft\x14").logged("command '/tasks'").sees("❯ draft")
