"""Themes, what the terminal says of its background, and the keys of vim, on a real terminal."""

import os
from pathlib import Path

from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress

from agent.ui.keyboard import GroundParser, PasteParser
from tests.agent.ui.pty_terminal import PtyTerminal, forked_makeroom


class Typed:
    """Stands where keys continue to: keeps what is typed."""

    pasting, held = False, ""

    def __init__(self) -> None:
        self.text = ""

    def feed(self, data: str) -> str:
        self.text += data
        return ""

    def flush(self) -> None:
        self.text += "|"


def test_what_the_terminal_says_of_its_background_is_not_typing() -> None:
    typed = Typed()
    grounds: list[bool] = []
    parser = GroundParser(typed, grounds.append, [].append)  # type: ignore[arg-type]
    answers = "a\x1b]11;rgb:ffff/ffff/f0f0\x07b", "\x1b]11;rg", "b:1e1e/1e/1e1e\x1b\\c"
    for piece in (*answers, "\x1b]", "\x1b[A"):
        parser.feed(piece)
    parser.feed("\x1b]")
    parser.flush()
    assert typed.text == "abc\x1b]\x1b[A\x1b]|"
    assert grounds == [True, False]


def test_what_the_terminal_answers_to_others_is_not_typing() -> None:
    typed = Typed()
    parser = GroundParser(typed, [].append, [].append)  # type: ignore[arg-type]
    answers = "\x1b]4;1;rgb:11/22/33\x07", "\x1bP>|xterm(388)\x1b\\", "\x1bP1$r0m\x1b\\", "\x1b_Gi=1;OK\x1b\\"
    for answer in answers:
        for cut in range(1, len(answer)):
            parser.feed(f"<{answer[:cut]}")
            parser.feed(f"{answer[cut:]}>{answer}")
    for key in ("\x1bP", "\x1b_", "\x1b", "\x1bPa\x1b\\", "\x1b]0;" + "x" * 300, "\x1b]1;a\rb"):
        parser.feed(key)
        parser.flush()
    keys = "\x1bP|\x1b_|\x1b|\x1bPa\x1b\\|\x1b]0;" + "x" * 300 + "|\x1b]1;a\rb|"
    assert typed.text == "<>" * sum(len(answer) - 1 for answer in answers) + keys


def test_what_looks_like_an_answer_within_a_paste_stays(tmp_path: Path) -> None:
    with PtyTerminal(tmp_path) as terminal:
        terminal.ready().type("a\x1b]4;1;x\x07\x1b[200~b\x1b]4;1;y\x07c\x1b[201~d").type("\r")
        terminal.logged(r"prompt 'ab\x1b]4;1;y\x07cd'")


def test_an_answer_behind_a_paste_that_an_earlier_read_began_is_not_typing() -> None:
    answer, keys, grounds = "\x1b]11;rgb:ffff/ffff/ffff\x07", list[KeyPress](), list[bool]()
    pastes = PasteParser(Vt100Parser(keys.append), keys.append)
    parser = GroundParser(pastes, grounds.append, list[float]().append)
    text = f"a\x1b[200~b{answer}c\x1b[201~{answer}d\x1b[200~e\x1b[201~{answer}{answer}f"
    for cut in range(len(text)):
        for piece in (text[:cut], text[cut:]):
            parser.feed(piece)
        assert "".join(key.data for key in keys) == f"ab{answer}cdef", cut
        assert grounds == [True] * 3
        keys.clear()
        grounds.clear()


def grounds_of(terminal: PtyTerminal) -> set[str]:
    return {cell.bg for row in terminal.screen.buffer.values() for cell in row.values()}


def test_a_diff_follows_the_background_and_the_theme_and_vim_has_its_keys(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    prompt = "read a.txt, then replace 'two' by 'three' in a.txt\r"
    words = "--offline --permission-mode acceptEdits"
    with PtyTerminal(tmp_path, (90, 30), forked_makeroom(words), COLORTERM="truecolor") as terminal:
        terminal.sees("❯", "% of").type("\x1b]11;rgb:ffff/ffff/ffff\x07").type(prompt).sees("2 + three")
        assert "dcf5e2" in grounds_of(terminal)
        terminal.type("/theme light-blue\r").sees("unknown theme")
        terminal.type("/theme dark\r").sees("theme: dark").type("/diff\r").sees("1 file")
        assert "12301c" in grounds_of(terminal)
        terminal.type("/vim\r").sees("editing: vim", "INSERT")
        terminal.type("alpha beta\x1b").sees("NORMAL").type("bdw").sees("❯ alpha").misses("beta")
        terminal.type("0iX").sees("❯ Xalpha", "INSERT").type("\x1b").sees("NORMAL").type("ddi/vim off\r")
        terminal.sees("editing: emacs").misses("NORMAL")


def test_esc_leaves_each_of_the_modes_of_vim(tmp_path: Path) -> None:
    with PtyTerminal(tmp_path, (90, 30), forked_makeroom("--offline")) as terminal:
        terminal.sees("❯", "% of").type("/vim on\r").sees("INSERT").type("one two three\x1b").sees("NORMAL")
        for keys, mode in (("v", "VISUAL ·"), ("V", "VISUAL LINE"), ("\x16", "VISUAL BLOCK")):
            terminal.type(keys).sees(mode).type("\x1b").sees("NORMAL")
        terminal.type("Vx").misses("one two").type("u").sees("❯ one two three")
        terminal.type("0V").sees("VISUAL LINE").type("\x1b").sees("NORMAL").type("x").sees("❯ ne two three")
        terminal.type("R").sees("REPLACE").type("NE\x1b").sees("❯ NE two three", "NORMAL")
        terminal.type("0r\x1b[27ux").sees("❯ E two three")
        terminal.type("d\x1b[27uwiX").sees("❯ E Xtwo three", "INSERT")
        terminal.type("\x1b").sees("NORMAL").type("d\x1b[C").sees("❯ E two three")
        terminal.type("\x1b").sees("Press Esc again to clear").type("\x1b").misses("two three")


def test_keys_of_vim_go_by_lines_or_rows_and_go_back_to_what_waits_and_was_sent(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    with PtyTerminal(tmp_path, (60, 24), forked_makeroom("--offline")) as terminal:
        terminal.sees("❯", "% of").type("/vim on\r").sees("INSERT").type("!cat gate\r").sees("running")
        terminal.type("later\r").sees("1 queued").type(f"{'a' * 58}{'b' * 9}\x0ac\x1b").sees("NORMAL")
        terminal.type("gkix\x1b").sees("\n  xbbb").type("gki1\x1b").sees("❯ 1aaa")
        terminal.type("jix\x1b").sees("\n  xc").type("k").sees("1 queued").type("k")
        terminal.sees("❯ later\n  1aaa").misses("queued").type("\x03").sees("! interrupted")
        terminal.type("\x03").misses("1aaa").type("/gate\r").sees("\n❯ !cat gate\nNORMAL")
