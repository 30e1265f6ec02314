"""Images by paths that are pasted or dropped, and from the clipboard; nothing unchecked becomes one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.app.pasted_images import NoImage, clipboard_image, named_images

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c63f8cfc0f01f00050001ff56c7a2d80000000049454e44ae426082"
)


@pytest.fixture
def shot(tmp_path: Path) -> Path:
    path = tmp_path / "my shot.png"
    path.write_bytes(PIXEL)
    return path


def test_a_path_is_understood_as_terminals_give_it(shot: Path, tmp_path: Path) -> None:
    escaped = str(shot).replace(" ", "\\ ")
    for text in (str(shot), f"'{shot}' ", escaped, f"file://{str(shot).replace(' ', '%20')}\n"):
        assert [(image.path, image.size) for image in named_images(text)] == [(shot, "1x1")], text
    assert [image.path for image in named_images(f"{escaped} '{shot}'")] == [shot, shot]


def test_other_text_names_no_images(shot: Path, tmp_path: Path) -> None:
    quoted = tmp_path / 'a"b.png'
    quoted.write_bytes(PIXEL)
    none = tmp_path / "none.png"
    texts = (
        f"look at {shot}",
        "shot.png",
        str(none),
        "it's a.png",
        str(tmp_path),
        "",
        f"'{quoted}'",
        "file://[x",
    )
    mixed = (f"'{shot}' '{quoted}'", f"'{shot}' {none}", f"'{shot}' shot.png", f"'{shot}' " * 11)
    for text in (*texts, *mixed):
        assert named_images(text) == [], text
    assert len(named_images(f"'{shot}' " * 10)) == 10


def test_what_cannot_be_sent_is_reported(shot: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.png").write_bytes(PIXEL[:40])
    (tmp_path / "text.png").write_text("no image")
    for name, why in (("cut.png", ""), ("text.png", "not a PNG, JPEG, GIF or WebP image")):
        with pytest.raises(NoImage, match=f"^cannot send {name}: {why}"):
            named_images(str(tmp_path / name))


def test_the_clipboard_is_asked_by_the_program_of_the_desktop(shot: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "xclip"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$*" = "-selection clipboard -t image/png -o" ] && cat "{shot}"\n')
    program.chmod(0o755)
    environ = {"PATH": f"{program.parent}:{os.environ['PATH']}", "DISPLAY": ":9"}
    image = clipboard_image(environ, tmp_path / "state")
    assert image.size == "1x1" and image.path.read_bytes() == PIXEL
    assert image.path.stat().st_mode & 0o777 == 0o600
    program.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(NoImage, match="no image on the clipboard"):
        clipboard_image(environ, tmp_path / "state")
    with pytest.raises(NoImage, match="over SSH"):
        clipboard_image({**environ, "SSH_TTY": "/dev/pts/1"}, tmp_path / "state")
    without = {"PATH": "/nonexistent"}
    for display, told in (("WAYLAND_DISPLAY", "install wl-clipboard"), ("DISPLAY", "install xclip")):
        with pytest.raises(NoImage, match=told):
            clipboard_image({**without, display: ":9"}, tmp_path / "state")
    with pytest.raises(NoImage, match="without a display; give the path of an image instead"):
        clipboard_image(without, tmp_path / "state")
