"""The history and the drafts hold with several sessions at once and with damaged files."""

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

from agent.ui.prompt_history import MAX_ENTRY_CHARS, MAX_HISTORY_BYTES, PromptHistory
from agent.ui.unsent_input import UnsentInput
from tests.agent.ui.pty_terminal import PtyTerminal

ROOT = Path(__file__).parents[3]
WRITER = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from agent.ui.prompt_history import PromptHistory
history = PromptHistory(Path({path!r}))
for number in range(200):
    history.store_string(f"writer {{sys.argv[1]}} entry {{number}} " + "x" * 300 + "\\nsecond line")
"""


def test_what_is_stored_comes_back_newest_first(tmp_path):
    history = PromptHistory(tmp_path / "deep" / "history")
    for text in ("one", "two\nlines \ud800", "two\nlines \ud800", "три"):
        history.store_string(text)
    assert list(PromptHistory(tmp_path / "deep" / "history").load_history_strings()) == [
        "три",
        "two\nlines ?",
        "one",
    ]
    assert (tmp_path / "deep" / "history").stat().st_mode & 0o777 == 0o600


def test_places_of_pastes_are_kept_unless_they_are_damaged_or_something_in_the_text_is_hidden(tmp_path):
    path = tmp_path / "history"
    history = PromptHistory(path, lambda text: text.replace("key", "***"))
    history.pastes |= {"ab": ((0, 1), (1, 2)), "a key": ((0, 1),)}
    for text in ("ab", "a key", "plain"):
        history.store_string(text)
    with path.open("a") as file:
        file.write('{"text": "x", "pastes": [1]}\n{"text": "y", "pastes": [["a", 2]]}\n')
    again = PromptHistory(path)
    assert [*again.load_history_strings()] == ["y", "x", "plain", "a ***", "ab"] and not again.trouble
    assert again.pastes == {"ab": ((0, 1), (1, 2))}


def test_several_processes_lose_and_mix_nothing(tmp_path):
    path = tmp_path / "history"
    code = WRITER.format(root=str(ROOT), path=str(path))
    writers = [subprocess.Popen([sys.executable, "-c", code, str(number)]) for number in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    entries = [json.loads(line)["text"] for line in path.read_bytes().split(b"\n") if line]
    assert len(entries) == 800
    for number in range(4):
        mine = [text for text in entries if text.startswith(f"writer {number} ")]
        assert [text.split()[3] for text in mine] == [str(entry) for entry in range(200)]


def test_damaged_lines_are_passed_over(tmp_path):
    path = tmp_path / "history"
    path.write_bytes(b'{"t": 1, "text": "good"}\n\xff\xfe\n{"t": 2, "te\n[]\n{"text": "also"}\n')
    history = PromptHistory(path)
    assert list(history.load_history_strings()) == ["also", "good"]
    assert history.trouble == f"skipped 3 damaged lines of the prompt history ({path})"
    again = PromptHistory(path)
    again.store_string("newest")
    assert list(again.load_history_strings()) == ["newest", "also", "good"] and not again.trouble
    with path.open("ab") as file:
        file.write(b"torn again\n")
    third = PromptHistory(path)
    assert (
        list(third.load_history_strings()) == ["newest", "also", "good"]
        and "skipped 1 damaged line" in third.trouble
    )


def test_the_history_file_is_shortened_to_what_is_read(tmp_path):
    target = tmp_path / "shared"
    path = tmp_path / "history"
    path.symlink_to(target)
    history = PromptHistory(path)
    for number in range(60):
        history.store_string(f"{number} " + "x" * 200_000)
    kept = list(PromptHistory(path).load_history_strings())
    assert path.is_symlink() and target.stat().st_size <= MAX_HISTORY_BYTES
    assert list(PromptHistory(path).load_history_strings()) == kept
    assert [text.split()[0] for text in kept] == [str(number) for number in range(59, 39, -1)]


def test_a_damaged_history_is_reported_once_and_the_rest_of_it_is_there(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "history").write_bytes(b'{"t": 1, "text": "good"}\n\xff\xfe\n')
    with PtyTerminal(tmp_path) as terminal:
        terminal.ready().sees("skipped 1 damaged line").type("\x1b[A").sees("❯ good")
        terminal.type("\x03\x04").ends()
        assert terminal.everything.count("skipped 1 damaged line") == 1


def test_an_entry_behind_a_torn_one_is_kept(tmp_path):
    path = tmp_path / "history"
    path.write_bytes(b'{"t": 1, "text": "good"}\n{"t": 2, "te')
    for text in ("next", "last"):
        PromptHistory(path).store_string(text)
    assert list(PromptHistory(path).load_history_strings()) == ["last", "next", "good"]


def test_an_entry_that_is_far_too_long_is_not_kept(tmp_path):
    history = PromptHistory(tmp_path / "history")
    history.store_string("x" * (MAX_ENTRY_CHARS + 1))
    assert not (tmp_path / "history").exists()


def test_a_draft_of_a_living_process_or_of_another_place_is_not_taken(tmp_path):
    mine, other = UnsentInput(tmp_path, Path("/a")), UnsentInput(tmp_path, Path("/b"))
    mine.save("half")
    assert mine.take_orphan() == ""
    (left,) = (tmp_path / "drafts").glob("*.txt")
    mark = left.name.partition("-")[0]
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (tmp_path / "drafts" / f"{mark}-{dead.pid}.txt").write_text("of the dead")
    (tmp_path / "drafts" / f"{mark}-{1 << 80}.txt").write_text("of no process")
    assert other.take_orphan() == ""
    taken = {UnsentInput(tmp_path, Path("/a")).take_orphan() for _ in range(2)}
    assert taken == {"of the dead", "of no process"}
    assert UnsentInput(tmp_path, Path("/a")).take_orphan() == ""


def test_keys_do_not_wait_for_the_disk_of_a_draft(tmp_path, monkeypatch):
    """The newest text is written once the disk responds, even if a thread with an older one comes later."""
    asked, goes_on = threading.Event(), threading.Event()
    went_on = []

    def mask(text):
        asked.set()
        went_on.append(goes_on.wait(10))
        return text

    draft = UnsentInput(tmp_path, Path("/a"), mask)
    monkeypatch.setattr("agent.ui.unsent_input.AUTOSAVE_DELAY_S", 0.0)

    async def work():
        draft.save_soon(lambda: "first")
        assert await asyncio.to_thread(asked.wait, 10)
        goes_on.set()

    asyncio.run(work())
    draft.save("second")
    (file,) = (tmp_path / "drafts").iterdir()
    assert file.read_text() == "second" and all(went_on)


def test_an_emptied_draft_leaves_no_file(tmp_path):
    draft = UnsentInput(tmp_path, Path("/a"))
    draft.save("x")
    draft.save("")
    assert list((tmp_path / "drafts").iterdir()) == []
