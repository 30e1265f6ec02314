"""Output styles: found by name in the project and at home, part of the system prompt of a new session."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.extensions.skills.output_styles import StylePlaces, style_in_use
from tests.agent.commands.controller_run import ControllerRun, run_controller


def put(folder: Path, name: str, text: str) -> None:
    (folder / "output-styles").mkdir(parents=True, exist_ok=True)
    (folder / "output-styles" / name).write_text(text)


@pytest.fixture
def places(tmp_path: Path) -> StylePlaces:
    (tmp_path / "project").mkdir()
    return StylePlaces(tmp_path / "project", tmp_path / "config", {"HOME": str(tmp_path)})


def test_a_style_is_found_by_the_name_in_its_file_or_the_files_own(places: StylePlaces) -> None:
    put(places.folder.parent / ".claude", "brief.md", "---\nname: Terse\ndescription: d\n---\nBe terse.\n")
    assert places.text("terse") == places.text("brief")
    text = places.text("Terse")
    assert text.endswith("(output style Terse):\n\nBe terse.") and style_in_use(("x", text)) == "Terse"
    put(places.folder / ".claude", "terse.md", "Of the project.")
    assert "Of the project." in places.text("terse")
    assert "Be terse." in replace(places, sources=("user",)).text("terse")
    assert places.text("default") == places.text("") == "" and style_in_use(()) == "default"


def test_a_style_that_is_not_there_or_cannot_be_read_is_reported(places: StylePlaces, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown output style"):
        places.text("Explanatory")
    put(places.folder / ".claude", "big.md", "x" * 100_000)
    put(tmp_path / "config", "mine.md", "Mine.")
    with pytest.raises(ValueError, match=r"big.md: it is larger than"):
        places.text("big")
    with pytest.raises(ValueError, match="known styles are mine"):
        places.text("other")
    (tmp_path / "secret").write_text("secret")
    (places.folder / ".claude/output-styles/leak.md").symlink_to(tmp_path / "secret")
    with pytest.raises(ValueError, match="it is a link that leads out of the project"):
        places.text("leak")


def test_a_session_begins_with_the_style_and_keeps_it(tmp_path: Path) -> None:
    put(tmp_path / ".claude", "pirate.md", "Talk like a pirate.")
    (tmp_path / ".claude/settings.local.json").write_text('{"outputStyle": "pirate"}')

    async def work(run: ControllerRun) -> None:
        await run.do("hello")
        put(tmp_path / ".claude", "pirate.md", "Talk like a poet.")
        await run.do("again", "/clear", "hello")

    server = run_controller(tmp_path, work)
    said = ["pirate" in str(request["system"]) for request in server.requests]
    assert said[0] and "Talk like a pirate." in str(server.requests[1]["system"])
    assert "Talk like a poet." in str(server.requests[2]["system"])
