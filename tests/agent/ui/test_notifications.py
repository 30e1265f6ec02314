"""A user who looks elsewhere is notified when a long turn ends or a question waits."""

from agent.ui.notifications import MIN_TURN_S, Notifications, wants_notifications
from tests.tables import each_row
from transcripts.secrets import SecretMasks

from .pty_terminal import PtyTerminal, forked_makeroom


def sent(environ, *, focused, seconds=MIN_TURN_S):
    """Return what the end of a turn sends, without titles."""
    codes: list[str] = []
    told = Notifications(codes.append, environ, "proj")
    told.focused = focused
    told.turn_ended(seconds)
    return "".join(code for code in codes if not code.startswith("\x1b]0;"))


@each_row(
    ("environ", "code"),
    [
        ({"TERM": "xterm-kitty"}, "\x1b]99;;The turn is finished (proj)\x1b\\"),
        ({"TERM_PROGRAM": "WezTerm"}, "\x1b]9;The turn is finished (proj)\x07"),
        ({"VTE_VERSION": "7600"}, "\x1b]777;notify;makeroom;The turn is finished (proj)\x07"),
        ({"TERM": "xterm-kitty", "TMUX": "x"}, ""),
        ({"TERM": "xterm"}, ""),
    ],
)
def test_the_end_of_a_long_turn_is_announced_as_the_terminal_knows_it(environ, code):
    assert sent(environ, focused=False) == f"\x07{code}"
    assert sent(environ, focused=True) == ""
    assert sent(environ, focused=False, seconds=MIN_TURN_S - 1) == ""


def test_a_name_cannot_send_codes_of_its_own():
    codes: list[str] = []
    told = Notifications(codes.append, {"TERM": "xterm-kitty"}, "p\x1b]52;c;x\x07;q")
    told.focused = False
    told.question_waits("Allow bash?")
    assert all("\x1b]52" not in code and "␛]52" in code for code in codes)


@each_row(
    ("setting", "environ"),
    [
        (False, {"TERM": "xterm"}),
        (True, {"TERM": "dumb"}),
        (True, {}),
        (True, {"TERM": "xterm", "CI": "true"}),
    ],
)
def test_nothing_is_sent_where_no_one_wants_or_would_see_it(setting, environ):
    assert not wants_notifications(setting, environ)
    assert wants_notifications(True, {"TERM": "xterm-256color"})


def test_the_title_follows_the_session_and_a_question_rings_where_the_focus_is_elsewhere(tmp_path):
    with PtyTerminal(tmp_path, VTE_VERSION="7600") as terminal:
        terminal.ready().until(lambda: b"\x1b[?1004h" in terminal.raw, "focus events")
        terminal.type("\x1b[Osay one;ask\r").sees("Allow bash?", "one")
        assert b"\x07\x1b]777;notify;makeroom;Allow bash? (" in terminal.raw
        assert b"\x1b]0;\xe2\x80\xa6 makeroom: " in terminal.raw and b"\x1b]0;? makeroom: " in terminal.raw
        rung = terminal.raw.count(b"\x1b]777")
        terminal.type("\x03").misses("Allow bash?").type("\x1b[Iask\r").sees("Allow bash?")
        assert terminal.raw.count(b"\x1b]777") == rung
        terminal.type("\x03").misses("Allow bash?").type("\x15/exit\r").ends()
        assert b"\x1b[?1004l" in terminal.raw


def test_the_title_names_the_session_by_its_first_prompt_or_its_name(tmp_path):
    with PtyTerminal(tmp_path, (80, 24), forked_makeroom("--offline")) as terminal:
        terminal.sees("❯").type("hello you\r")
        terminal.until(lambda: titled("… ", tmp_path, "hello you") in terminal.raw, "its first prompt")
        terminal.until(lambda: titled("", tmp_path, "hello you") in terminal.raw, "its first prompt, idle")
        terminal.type("/rename the beginning\r").until(
            lambda: titled("", tmp_path, "the beginning") in terminal.raw, "its name"
        )
        terminal.type("\x04").ends()
    with PtyTerminal(tmp_path, (80, 24), forked_makeroom("--offline -c")) as terminal:
        terminal.until(lambda: titled("", tmp_path, "the beginning") in terminal.raw, "its name")
        terminal.type("\x04").ends()


def test_the_title_shows_emoji_and_scripts_unchanged_and_what_hides_text_by_number():
    codes: list[str] = []
    told = Notifications(codes.append, {"TERM": "xterm"}, "proj")
    told.start()
    told.show_session("Team 👨\u200d👩\u200d👧 می\u200cخواهم ⚠\ufe0f a\u200db")
    shown = "Team 👨\u200d👩\u200d👧 می\u200cخواهم ⚠\ufe0f a<U+200D>b"
    assert codes[-1] == f"\x1b]0;makeroom: proj: {shown}\x07"


def test_titles_and_notifications_contain_no_secrets():
    codes: list[str] = []
    masks = SecretMasks(("a secret value",)).all
    told = Notifications(codes.append, {"TERM": "xterm-kitty"}, "proj", masks)
    told.start()
    told.focused = False
    key = "gh" + "p_" + "a1B2" * 9
    told.show_session(f"push with {key} and a secret value")
    told.question_waits(f"Is {key} right?")
    assert codes[1] == "\x1b]0;makeroom: proj: push with [GitHub token masked] and ****\x07"
    assert not any(key in code for code in codes) and "Is [GitHub token masked] right?" in codes[-1]


def titled(mark, folder, session):
    return f"\x1b]0;{mark}makeroom: {folder.name}: {session}\x07".encode()
