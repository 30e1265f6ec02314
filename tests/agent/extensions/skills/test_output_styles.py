"""Output styles: found by name in the project and at home, part of the system prompt of a new session."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.extensions.skills.output_styles import StylePlaces, style_in_use, style_text
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
    assert style_text("terse", places) == style_text("brief", places)
    text = style_text("Terse", places)
    assert text.endswith("(output style Terse):\n\nBe terse.") and style_in_use(("x", text)) == "Terse"
    put(places.folder / ".claude", "terse.md", "Of the project.")
    assert "Of the project." in style_text("terse", places)
    assert "Be terse." in style_text("terse", replace(places, sources=("user",)))
    assert style_text("default", places) == style_text("", places) == "" and style_in_use(()) == "default"


def test_a_style_that_is_not_there_or_cannot_be_read_is_reported(places: StylePlaces, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown output style"):
        style_text("Explanatory", places)
    put(places.folder / ".claude", "big.md", "x" * 100_000)
    put(tmp_path / "config", "mine.md", "Mine.")
    with pytest.raises(ValueError, match=r"big.md: it is larger than"):
        style_text("big", places)
    with pytest.raises(ValueError, match="known styles are mine"):
        style_text("other", places)
    (tmp_path / "secret").write_text("secret")
    (places.folder / ".claude/output-styles/leak.md").symlink_to(tmp_path / "secret")
    with pytest.raises(ValueError, match="it is a link that leads out of the project"):
        style_text("leak", places)


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
