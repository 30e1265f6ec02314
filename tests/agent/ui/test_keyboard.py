"""Pastes of any size and shape arrive unchanged, and send nothing by themselves."""

import ast
import base64

from agent.ui.paste_chips import PasteChips
from tests.tables import each_row

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
START, END = b"\x1b[200~", b"\x1b[201~"


def sent(terminal):
    """Send what is written; returns the prompt as the driver got it."""
    terminal.type("\r").logged("prompt ")
    terminal.until(lambda: "\n" in terminal.log)
    return ast.literal_eval(terminal.log.partition("prompt ")[2].split("\n")[0])


def test_a_small_paste_is_inserted_and_not_sent(terminal):
    terminal.type(START + b"two\r\nlines\tand a tab" + END).sees("❯ two\n  lines")
    assert terminal.log == ""
    assert sent(terminal) == "two\nlines\tand a tab"


def test_a_big_paste_is_a_chip_that_expands_to_the_same_text(terminal):
    text = "".join(f"line {number} é日本 \x00 👨\u200d👩\u200d👧\n" for number in range(200))
    terminal.type("see ").type(START + text.encode() + END).sees("❯ see [paste 1: 200 lines]").type(" ok")
    assert sent(terminal) == f"see {text} ok"
    terminal.until(
        lambda: "❯ see [paste 1: 200 lines] ok" in terminal.everything, "the chip in the scrollback"
    )


def test_backspace_removes_what_users_see_as_one_character(terminal):
    terminal.type("a👩\u200d👩\u200d👧e\u0301🇩🇪").type("\x7f\x7f\x7f").type("b\r").logged("prompt 'ab'")


def test_the_cursor_moves_over_what_users_see_as_one_character_and_delete_removes_it(terminal):
    family = "👩\u200d👩\u200d👧"
    terminal.type(f"a{family}b\x1b[D\x1b[Dx\x1b[C\x02\x06y\r").logged(f"prompt {f'ax{family}yb'!r}")
    terminal.type(f"a{family}e\u0301b\x01\x1b[C\x1b[3~\x04c\r").logged("prompt 'acb'")


def test_a_search_of_the_history_and_a_reason_lose_whole_characters_too(terminal):
    family = "👩\u200d👩\u200d👧"
    terminal.type("say first\r").sees("\nfirst").type(f"\x12fir{family}\x7f").sees("search: fir\n")
    terminal.type("\x07ask\r").sees("Allow bash?").again("n", lambda: "Enter to deny" in terminal.text)
    terminal.type(f"so{family}\x7f\r").logged("Deny(reason='so'")


def test_what_is_selected_is_seen(terminal):
    def reversed_text():
        return "".join(
            cell.data for row in terminal.screen.buffer.values() for cell in row.values() if cell.reverse
        )

    terminal.type("alpha beta\x1b[1;2D\x1b[1;2D").until(lambda: reversed_text() == "ta", "the selection")
    terminal.type("\x7f").sees("❯ alpha be\n").until(lambda: reversed_text() == "", "none")


def test_backspace_removes_a_whole_chip(terminal):
    terminal.type(START + b"x\n" * 50 + END).sees("[paste 1").type("\x7fshort").sees("❯ short").misses(
        "[paste"
    )
    assert sent(terminal) == "short"


def test_two_chips_keep_their_texts_and_order(terminal):
    first, second = b"a\n" * 20, b"b" * 3000
    terminal.type(START + first + END).type(" then ").type(START + second + END)
    terminal.sees("[paste 1: 20 lines] then [paste 2: 3,000 characters]")
    assert sent(terminal) == f"{first.decode()} then {second.decode()}"


def test_five_megabytes_arrive_whole(terminal):
    text = ("0123456789abcdef" * 4 + "\n") * (5 * 1024 * 1024 // 65)
    terminal.type(START + text.encode() + END).sees("[paste 1:")
    assert sent(terminal) == text


def test_a_paste_without_its_end_does_not_freeze_the_keyboard(terminal):
    terminal.type(START + b"lost end").sees("❯ lost end").type("!").sees("❯ lost end!")


def test_marks_and_characters_cut_by_reads_are_put_together(terminal):
    for piece in (b"\x1b[20", b"0~caf", b"\xc3", b"\xa9\xf0\x9f", b"\x99\x82\x1b[2", b"01~", b"after"):
        terminal.type(piece)
        terminal.until(lambda: True)
    terminal.sees("❯ café🙂after")


def test_a_paste_that_looks_like_a_command_or_keys_is_text(terminal):
    terminal.type(START + b"/exit\r\x03\x04" + END).sees("❯ [paste 1: 2 lines]")
    assert sent(terminal) == "/exit\n\x03\x04"


def test_what_is_not_a_key_types_nothing(terminal):
    answers = "\x1b[?1;2c", "\x1b[?997;1n", "\x1b[>41;390;0c", "\x1b[?62u", "\x1b[4;480;640t"
    codes = "\x1b[46;5u", "\x1b[57441;2u", "\x1b[97;1:3u", "\x1b[97;9u", "\x1b[0u", "\x1b[9999999u"
    mice = "\x1b[<0;10;5M", "\x1b[<0;10;5m", "\x1b[M !!", "\x1b[32;4;4M"
    for at, sequence in enumerate((*answers, *codes, *mice, "\x1b[1;1:3A", "\x1b[1;99Z", "\x1b[27;5;46~")):
        terminal.type(f"{at}<").type(sequence[:3]).until(lambda: True).type(f"{sequence[3:]}>")
    terminal.type("\r").logged(f"prompt {''.join(f'{at}<>' for at in range(18))!r}")


KEYS = {
    "a key as a character": ("\x1b[97u\x1b[98;2u\x1b[49:33;2u\x1b[228;129u", "aB!ä"),
    "the keypad": ("\x1b[57399u\x1b[57412;129u\x1b[57417uy", "0y-"),
    "the keypad of applications": (
        "".join(f"\x1bO{final}" for final in "pqrstuvwxyjklmnoX"),
        "0123456789*+,-./=",
    ),
    "a repeated key": ("\x1b[97;1:1u\x1b[97;1:2u\x1b[97;1:3u", "aa"),
    "Ctrl-A and the end": ("bc\x1b[97;5ua\x1b[57424ud", "abcd"),
    "Ctrl-A elsewhere": ("bc\x1b[27;5;97~a", "abc"),
    "Ctrl with a base": ("bc\x1b[1092::97;5ua", "abc"),
    "arrows with locks": ("ac\x1b[1;129Db\x1b[1;1:2C!", "abc!"),
    "Alt-B": ("one wo\x1b[98;3ut", "one two"),
    "Alt with Home and End": ("alt\x1b[1;3H\x1b[1;3F+home", "alt+home"),
    "Backspace and Delete": ("abx\x1b[127uy\x1b[D\x1b[3;1:1~", "ab"),
    "Shift-Enter": ("a\x1b[13;2u\x1b[13;2:3ub\x1b[27;2;13~c", "a\nb\nc"),
    "keys without a meaning": ("idle\x1b[5;5~\x1b[5;2~\x1b[1;5P\x1b[1;6A!", "idle!"),
    "letters at a mark": ("mark\x00ed", "marked"),
    "unknown Linux console": ("a\x1b[[Zb", "ab"),
}


def test_keys_that_come_as_codes_are_those_keys(terminal):
    for keys, text in KEYS.values():
        terminal.type(keys).type("\x1b[13u").logged(f"prompt {text!r}")
    terminal.type("a\x1b\x1bOMb\x1bOM").logged(r"prompt 'a\nb'")


def test_keys_that_a_slow_line_cuts_are_those_keys(terminal):
    terminal.type("ac").sees("❯ ac")
    for pieces in (("\x1b[", "D"), ("b\x1bO", "C"), ("d\x1b]11;rgb:0/", "0/0\x07"), ("e\x1b[20", "0~f", END)):
        for piece in pieces:
            terminal.type(piece).drain(0.08)  # longer than the timeout of a single ESC
    assert sent(terminal) == "abcdef"
    terminal.type("\x1b[").sees("❯ [\n", "Press Esc again to rewind").misses("Esc again to").type(
        "\x1bO"
    ).sees("❯ [O\n")


def test_codes_of_keys_interrupt_and_leave(terminal):
    terminal.type("wait never\r").logged("prompt").sees("Ctrl-C to interrupt").type("\x1b[99;5u")
    terminal.sees("Interrupted", "❯ wait never\nclaude").type("\x1b[27;5;99~").sees("❯\nclaude")
    terminal.type("\x1b[99;69:1u").sees("Press Ctrl-C again").type("\x1b[100;5u")
    assert terminal.ends() == 0


def test_sequences_within_a_paste_stay(terminal):
    terminal.type(b"a\x1b[46;5u" + START + b"x\x1b[99;5uy\x1b[?1;2c" + END + b"\x1b[46;5ub")
    assert sent(terminal) == "ax\x1b[99;5uy\x1b[?1;2cb"


def test_what_is_typed_behind_a_pasted_image_is_sent_behind_it(terminal, tmp_path):
    """Also if Enter is pressed before the image has been read."""
    (tmp_path / "shot.png").write_bytes(base64.b64decode(PNG))
    path = f"{tmp_path}/shot.png"
    terminal.type(b"see " + START + path.encode() + END + b"and say so\r")
    terminal.logged(f"prompt 'see @\"{path}\" and say so'").sees("❯ see [image 1: shot.png, 1x1] and say so")


def test_invalid_bytes_do_not_break_the_prompt(terminal):
    terminal.type(START + b"bad \xff\xfe bytes" + END).sees("bad").type("\r").logged("prompt 'bad")


def test_chips_in_memory_expand_byte_for_byte():
    chips = PasteChips()
    texts = ["x\n" * 9, "y" * 1001, "\u202e\x1b" * 600]
    whole = "".join(f"[{chips.paste(text)}]" for text in texts)
    assert len(whole) == 9
    assert chips.expand(whole) == "".join(f"[{text}]" for text in texts)
    assert chips.labelled(whole).count("[paste") == 3


def test_a_text_gets_its_chips_back_and_places_that_are_none_are_passed_over():
    chips = PasteChips()
    raw = f"see {chips.image('/a.png', 'a.png, 3x4')} {chips.paste('x' * 2000)}, {chips.paste('y' * 2000)}"
    text, pastes = chips.expand(raw), chips.pastes(raw)
    assert chips.labelled(chips.chipped(text, pastes)) == (
        'see @"/a.png" [paste 2: 2,000 characters], [paste 3: 2,000 characters]'
    )
    fresh = PasteChips()
    for places in (pastes, ((5, 3), (-1, 2), (0, 10**9), (2, 9), (4, 12))):
        assert fresh.expand(fresh.chipped(text, places)) == text


@each_row(
    ("text", "is_chip"),
    [
        ("x" * 1_000, False),
        ("x" * 1_001, True),
        ("x\n" * 7, False),
        ("x\n" * 8, True),
        ("/clear\n!ls", True),
        (" !ls\nrm x", True),
        ("/clear\n", False),
        ("see\n/clear", False),
    ],
)
def test_a_long_paste_and_lines_that_begin_like_commands_become_a_chip(text: str, is_chip: bool) -> None:
    chips = PasteChips()
    pasted = chips.paste(text)
    assert (pasted != text) is is_chip and chips.expand(pasted) == text


def test_line_ends_of_every_kind_become_newlines_once():
    chips = PasteChips()
    assert chips.paste("a\r\nb\rc\nd") == "a\nb\nc\nd"


def test_what_was_pasted_is_sent_between_tags_and_comes_back_as_a_chip() -> None:
    chips = PasteChips()
    texts = ("x </pasted >\n" * 20, "y <\\pasted>\n" * 20)
    raw = f"see {chips.image('/a.png', 'a.png, 3x4')} {chips.paste(texts[0])}, {chips.paste(texts[1])}!"
    marked = chips.marked(raw)
    assert marked.startswith('see @"/a.png" <pasted id=2>\nx <\\/pasted >\n')
    assert marked.count("</pasted>") == 2 and marked.endswith("\n</pasted>!")
    again = chips.unmarked(marked)
    assert chips.expand(again) == chips.expand(raw) and chips.labelled(again).count("[paste") == 2
    assert chips.marked("typed") == chips.unmarked("typed") == "typed"


def test_an_image_is_a_chip_that_stands_for_its_mention():
    chips = PasteChips()
    text = f"see {chips.image('/a b.png', 'a b.png, 3x4')} {chips.paste('x' * 2000)}"
    assert chips.labelled(text) == "see [image 1: a b.png, 3x4] [paste 2: 2,000 characters]"
    assert chips.expand(text) == f'see @"/a b.png" {"x" * 2000}'
    assert chips.typed(text) == 'see @"/a b.png"  '
