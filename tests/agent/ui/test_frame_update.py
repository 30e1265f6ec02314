"""Frames drawn one after the other: a terminal shows what it should, finished rows once, for few bytes."""

import asyncio
import random

import pyte
import pytest
from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import DummyInput

from agent.ui import terminal
from agent.ui.frame_renderer import FrameOutput, FrameRenderer
from agent.ui.frame_update import Frame, frame_update, row_change
from agent.ui.terminal_text import painted_width
from tests.narrowing import narrow
from tests.sampling import scaled

WORDS = (
    "one", "zwei", "日本語", "\x1b[1mbold\x1b[m", "\x1b[31mred\x1b[m", "\x1b[36;1mhe\x1b[32mre\x1b[m",
    "naïve", "", "👩‍💻", "…", "  ", "é", "────", "x" * 7,
)  # fmt: skip
COLUMNS = 24


def random_row(rng):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(4)))


def random_frame(rng, rows, old):
    """Some rows of the old frame, changed at some places, never more than `rows`."""
    new = list(old)
    for _ in range(rng.randrange(6)):
        at = rng.randrange(len(new) + 1)
        kind = rng.randrange(3)
        if kind == 0:
            new[at:at] = [random_row(rng) for _ in range(rng.randrange(4))]
        elif kind == 1:
            del new[at : at + rng.randrange(4)]
        elif at < len(new):
            new[at] = (new[at] + rng.choice(WORDS)) if rng.random() < 0.6 else random_row(rng)
    new = [row if painted_width(row) < COLUMNS else "" for row in new][-rows:] or [""]
    return Frame(tuple(new), (rng.randrange(len(new)), rng.randrange(COLUMNS)))


def lines_of(screen):
    """Return what scrolled away and the screen, with attributes: each line up to its last character."""
    lines = [*screen.history.top, *(screen.buffer[y] for y in range(screen.lines))]
    shown = []
    for line in lines:
        cells = [(line[x].data, line[x].fg, line[x].bold) for x in range(COLUMNS)]
        while cells and cells[-1] == (" ", "default", False):
            cells.pop()
        shown.append(cells)
    while shown and not shown[-1]:
        shown.pop()
    return shown


def fed(lines, height, above):
    screen = pyte.HistoryScreen(COLUMNS, height, history=5000, ratio=0.1)
    stream = pyte.Stream(screen)
    stream.feed("\r\n".join([*above, *lines]))
    return screen


@pytest.mark.parametrize("seeds", scaled(range(4), range(4, 150)))
def test_the_terminal_shows_each_frame_and_what_was_printed_above(seeds: range) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        height = rng.randrange(4, 12)
        above = ["started"] * rng.randrange(15)
        screen = pyte.HistoryScreen(COLUMNS, height, history=5000, ratio=0.1)
        stream = pyte.Stream(screen)
        stream.feed("".join(f"{line}\r\n" for line in above) + "\x1b[?7l")
        frame = Frame()
        printed: list[str] = []
        for _ in range(12):
            new = random_frame(rng, height - rng.randrange(2), frame.rows)
            more = [*frame.rows[: rng.randrange(4)], *map(random_row, [rng] * rng.choice((0, 0, 1, 3, 25)))]
            more = [row for row in more if painted_width(row) < COLUMNS] if rng.random() < 0.5 else []
            stream.feed(frame_update(frame, new, printed=more, height=height))
            frame, printed = new, [*printed, *more]
            wanted = fed([*printed, *new.rows], height, above)
            assert lines_of(screen) == lines_of(wanted), f"seed {seed}"
            below = len(new.rows) - 1 - new.cursor[0]
            assert screen.cursor.x == new.cursor[1], f"seed {seed}"
            assert (
                screen.display[screen.cursor.y + below].rstrip() == wanted.display[wanted.cursor.y].rstrip()
            )


def test_a_frame_that_fills_the_screen_stays_whole_below_what_is_printed() -> None:
    for height in (5, 8, 10):
        frame = Frame(tuple(f"row number {at}" for at in range(height)), (2, 0))
        for count in (1, 2, height, 30):
            screen = fed(frame.rows, height, [])
            screen.cursor.y, screen.cursor.x = 2, 0
            printed = [f"printed {at}" for at in range(count)]
            pyte.Stream(screen).feed(frame_update(frame, frame, printed=printed, height=height))
            assert lines_of(screen) == lines_of(fed([*printed, *frame.rows], height, [])), (height, count)


def test_nothing_is_written_where_nothing_changed() -> None:
    frame = Frame(("one", "two"), (1, 2))
    assert frame_update(frame, frame, printed=(), height=24) == ""


def test_of_a_row_only_what_differs_is_written() -> None:
    assert row_change("one two", "one two three") == (7, " three")
    spinner = "\x1b[36m{} Answering\x1b[m… Ctrl-C"
    assert row_change(spinner.format("⠙"), spinner.format("⠹")) == (0, "\x1b[36m⠹\x1b[m")
    assert row_change("one two three", "one two") == (0, "\x1b[Kone two")
    assert row_change("\x1b[1mone\x1b[m", "\x1b[1mone two\x1b[m") == (3, "\x1b[1m two\x1b[m")


def test_what_terminals_measure_differently_is_written_from_the_start_of_its_row() -> None:
    assert row_change("👩‍💻 one", "👩‍💻 one two") == (0, "\x1b[K👩‍💻 one two")


def test_the_rows_below_what_grows_are_moved_and_not_written_again() -> None:
    foot = ("", "─" * 20, "❯ ", "status of the session")
    old, new = Frame(("tail", *foot), (3, 2)), Frame(("and a new tail", *foot), (3, 2))
    update = frame_update(old, new, printed=["tail", "of which more came", "and more"], height=24)
    assert "status" not in update and "─" not in update
    assert len(update) < 80


class TmuxScreen(pyte.Screen):
    """A screen that counts the cells of a row like tmux: erasing its end leaves as many as there were."""

    def erase_in_line(self, how=0, private=False):
        assert how == 0
        line = self.buffer[self.cursor.y]
        if self.cursor.x == 0:
            line.clear()
        for column in [column for column in line if column >= self.cursor.x]:
            line[column] = self.cursor.attrs

    def widths(self):
        return [max(self.buffer[y], default=-1) + 1 for y in range(self.lines)]


def test_no_row_is_longer_than_its_text_for_a_terminal_that_breaks_rows_after_a_resize() -> None:
    """A queued prompt is shown where the line above the prompt was; rows are inserted and removed."""
    foot = ("-" * COLUMNS, "> ", "a status of many words")
    queued = ("> one", "  queued", "")
    for before, after in (
        (("", "working", "", *foot), ("", "working", *queued, *foot)),
        (("", "working", *queued, *foot), ("", "working", "", *foot)),
        (foot, (*foot[:2], "a status")),
        (("one two three",), ("one",)),
    ):
        screen = TmuxScreen(COLUMNS, len(after) + 2)
        stream = pyte.Stream(screen)
        frame = Frame()
        for rows in (before, after):
            screen.widths()  # makes all rows: pyte leaves a deleted one in place if the next was never made
            stream.feed(frame_update(frame, Frame(rows, (0, 0)), printed=(), height=screen.lines))
            frame = Frame(rows, (0, 0))
        assert screen.widths()[: len(after)] == [*map(len, after)]


def written(size, path, draw):
    """Return what a renderer writes to a terminal of this size."""
    with path.open("w") as file:
        draw(FrameRenderer(FrameOutput(file, lambda: size, term="xterm")))
    return path.read_bytes().decode()


def test_a_frame_is_blanked_whole_and_alone_where_the_terminal_dropped_rows_below_the_cursor(
    tmp_path,
) -> None:
    """tmux does so when it gets lower; a cursor that goes down stops at the last row then."""
    above, frame = ["first", "second", "third"], ["----", "> one", "  two", "  three", "status"]
    for dropped in range(4):
        height = len(above) + len(frame) - dropped
        screen = fed([*above, *frame][:height], height, [])
        screen.cursor.y = len(above) + 1  # in the row of `> one`

        def blank(renderer):
            renderer.frame = Frame(tuple(frame), (1, 2))
            renderer.blank()
            renderer.output.flush()

        pyte.Stream(screen).feed(written(Size(height, COLUMNS), tmp_path / "codes", blank))
        assert [row.rstrip() for row in screen.display if row.strip()] == above
        assert screen.cursor.y == len(above)


def test_rows_that_a_narrower_terminal_broke_are_blanked_also_below_the_cursor(tmp_path, monkeypatch) -> None:
    """Each row of a frame that fills the screen was broken into two; the cursor is in the first one."""
    monkeypatch.delenv("XTERM_VERSION", raising=False)
    monkeypatch.setenv("TERM", "tmux-256color")
    frame = ["> one", *(f"row {number} {'x' * COLUMNS}" for number in range(5))]
    broken = [part for row in frame for part in (row[:COLUMNS], row[COLUMNS:]) if part]
    screen = fed(broken, len(broken), [])
    screen.cursor.y = 0

    def resize(renderer):
        renderer.frame = Frame(tuple(frame), (0, 2))
        renderer.forget_size()
        renderer.output.flush()

    # tmux moves the screen into its history if the last code erases anything at its start
    codes = written(Size(len(broken), COLUMNS), tmp_path / "codes", resize)
    pyte.Stream(screen).feed(codes.rpartition("\x1b[J")[0])
    assert not any(row.strip() for row in screen.display)


def test_in_tmux_nothing_is_drawn_until_the_size_stays(tmp_path, monkeypatch) -> None:
    """A terminal that reports a second change of its size a while after it was made."""
    monkeypatch.setattr(terminal, "SIZE_SETTLE_S", 0.001)
    monkeypatch.setenv("TMUX", "/tmp/tmux,1,0")

    async def resized_twice(file):
        sizes = iter([Size(24, 80), Size(24, 80), Size(24, 20), *[Size(15, 40)] * 9])
        output = FrameOutput(file, lambda: next(sizes), term="xterm")
        screen = terminal.LiveScreen(Application(input=DummyInput(), output=output), output)
        renderer = narrow(screen.app.renderer, FrameRenderer)
        renderer.is_shown = True
        forgotten: list[bool] = []
        monkeypatch.setattr(renderer, "forget_size", lambda: forgotten.append(renderer.waits))
        screen.resize()
        assert (renderer.waits, forgotten) == (True, [])
        while renderer.waits:
            await asyncio.sleep(0)
        assert forgotten == [False]
        return [*sizes]

    with (tmp_path / "codes").open("w") as file:
        assert len(asyncio.run(resized_twice(file))) < 9  # it looked until two were alike
