"""The screen uses prompt_toolkit by its public names, and what it relies on beyond their documentation holds.

One of these fails where a release changes that: the screen has then to be adapted before the pin is moved.
"""

import ast
import asyncio
import inspect
import re
import signal
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.search import SearchDirection, SearchState

from agent.ui import completion, frame_renderer, input_editor, paste_chips, prompt_history
from agent.ui.input_editor import DraftBuffer
from tests.agent.ui.pty_terminal import ROOT
from tests.tables import each_row

SUBCLASSES = (
    completion.CompletionSource,
    frame_renderer.FrameOutput,
    frame_renderer.FrameRenderer,
    input_editor.DraftBuffer,
    prompt_history.PromptHistory,
    paste_chips.ChipLabels,
)


def private_names(cls: type) -> set[str]:
    """The private names that a class's own code uses of itself."""
    return set(re.findall(r"\bself\.(_[a-z]\w*)", inspect.getsource(cls)))


def test_private_names_are_used_of_nothing_but_oneself():
    found = []
    for path in sorted((ROOT / "agent" / "ui").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Attribute) or not re.match(r"_[a-z]", node.attr):
                continue
            if ast.unparse(node.value) not in ("self", "cls"):
                found.append(f"{path.name}:{node.lineno} {ast.unparse(node)}")
    assert found == []


@each_row("ours", SUBCLASSES)
def test_a_subclass_shares_no_private_name_with_its_base(ours):
    theirs = [cls for cls in ours.__mro__ if cls.__module__.startswith("prompt_toolkit.")]
    assert theirs
    for base in theirs:
        assert private_names(ours) & private_names(base) == set()
        own = {name for name in vars(ours) if re.match(r"_[a-z]", name)} - {"_abc_impl"}
        assert own & set(vars(base)) == set()


def test_a_buffer_goes_through_its_history_by_setting_working_index():
    """DraftBuffer overrides the property to put chips for pastes into what is recalled."""

    async def texts():
        buffer = DraftBuffer(history=InMemoryHistory(["first", "second"]))
        buffer.recalled = str.upper
        buffer.load_history_if_not_yet_loaded()
        while buffer.working_index < 2:
            await asyncio.sleep(0)
        buffer.history_backward()
        yield buffer.text
        buffer.go_to_history(0)
        yield buffer.text
        buffer.apply_search(SearchState("SECOND", SearchDirection.FORWARD), include_current_position=False)
        yield buffer.text

    async def collected():
        return [text async for text in texts()]

    assert asyncio.run(collected()) == ["SECOND", "FIRST", "SECOND"]


def test_work_begins_behind_the_first_frame_and_the_handler_of_resizes():
    """Terminal.run then replaces the handler, and draws frames in the context of the application."""
    seen: list[Any] = []

    async def work(app):
        seen.append((app.context, app.render_counter))
        seen.append(asyncio.get_running_loop().remove_signal_handler(signal.SIGWINCH))
        app.exit()

    async def run():
        with create_pipe_input() as keys:
            app: Application[None] = Application(
                input=keys, output=DummyOutput(), terminal_size_polling_interval=None
            )

            def start_work() -> None:
                app.create_background_task(work(app))

            await app.run_async(pre_run=start_work)

    asyncio.run(run())
    (context, frames), had_handler = seen
    assert context is not None and frames == 1 and had_handler


def test_all_output_goes_through_write_raw_or_write():
    """FrameOutput overrides both to send a frame as one update."""
    writes = [name for name, method in vars(Vt100_Output).items() if "self._buffer" in _source(method)]
    assert sorted(writes) == ["__init__", "flush", "write", "write_raw"]


def _source(method: object) -> str:
    return inspect.getsource(method) if inspect.isfunction(method) else ""
