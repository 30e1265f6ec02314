"""Images in the input: pasted or dropped files, the image on the clipboard, and images of a client.

Each file is checked completely before it can be sent. An image from the clipboard is saved in a private file,
so that the prompt can name it.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from tools.files import MAX_IMAGE_FILE_BYTES, BadImage, FileError, load_file, load_image, media_type
from tools.processes import filter_environment
from transcripts import Block, ImageBlock, TextBlock
from transcripts.storage import expand_home, make_private_folders, replace_file
from transcripts.wording import cause_of

IMAGES_FOLDER = "images"  # for images from the clipboard, in the state directory


class NoImage(Exception):
    """An image cannot be used; the text gives the reason."""


class PastedImage(Struct, frozen=True):
    """An image file, and its size in pixels as text."""

    path: Path
    size: str


def named_images(text: str) -> list[PastedImage]:
    """Return the images that a text names, if it names nothing else; [] for any other text. Blocking.

    Terminals insert dropped files as paths, quoted or with backslashes, or as file: URLs. Raises NoImage for
    a file that is not an image of a supported format.
    """
    try:
        paths = list(_paths(text.strip()))
    except ValueError:  # a text such as file://[x
        return []
    if not 0 < len(paths) <= 10 or not all(path.is_absolute() for path in paths):
        return []
    if not all(path.is_file() for path in paths) or any('"' in str(path) for path in paths):
        return []
    return [PastedImage(path, checked_size(path)) for path in paths]


def _paths(text: str) -> Iterator[Path]:
    words = [text]
    if not Path(text).is_absolute() or not Path(text).exists():
        with suppress(ValueError):  # an unclosed quote
            words = shlex.split(text)
    for word in words:
        if word.startswith("file://"):
            yield Path(unquote(urlsplit(word).path))
        else:
            yield expand_home(word)


def checked_size(path: Path) -> str:
    """Return the size of an image in pixels as text. Raises NoImage if it cannot be sent."""
    try:
        data = load_file(str(path.resolve()), MAX_IMAGE_FILE_BYTES).data
        return load_image(data)[1]
    except (BadImage, FileError, OSError) as error:
        raise NoImage(f"cannot send {path.name}: {str(error).partition(chr(10))[0]}") from error


def clipboard_image(environ: Mapping[str, str], state_dir: Path) -> PastedImage:
    """Return the image on the desktop's clipboard, saved as a file. Blocking. Raises NoImage."""
    if environ.get("SSH_TTY") or environ.get("SSH_CONNECTION"):
        raise NoImage("cannot read the clipboard over SSH; give the path of an image instead")
    commands = list(_clipboard_commands(environ))
    if not commands and (package := _clipboard_package(environ)):
        raise NoImage(f"cannot read images from the clipboard; install {package}")
    if not commands:
        raise NoImage("cannot read the clipboard without a display; give the path of an image instead")
    for command in commands:
        data = _output_of(command, environ)
        if data and media_type(data[:16]) is not None:
            path = _kept(data, state_dir.resolve() / IMAGES_FOLDER)
            return PastedImage(path, checked_size(path))
    raise NoImage("no image on the clipboard")


def _clipboard_commands(environ: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    programs = (
        (environ.get("WAYLAND_DISPLAY"), "wl-paste", "--no-newline", "--type", "image/png"),
        (environ.get("DISPLAY"), "xclip", "-selection", "clipboard", "-t", "image/png", "-o"),
        (sys.platform == "darwin", "pngpaste", "-"),
        (sys.platform == "darwin", "osascript", "-e", "get the clipboard as «class PNGf»"),
    )
    for usable, name, *options in programs:
        path = shutil.which(name, path=environ.get("PATH", "")) if usable else None
        if path is not None and path.startswith("/"):  # not a program in the current directory
            yield (path, *options)


def _clipboard_package(environ: Mapping[str, str]) -> str:
    """Return the package with the clipboard program of the desktop, "" without a desktop."""
    if sys.platform == "darwin":
        return "pngpaste"
    if environ.get("WAYLAND_DISPLAY"):
        return "wl-clipboard"
    return "xclip" if environ.get("DISPLAY") else ""


def _output_of(command: tuple[str, ...], environ: Mapping[str, str]) -> bytes:
    """Return the image that a clipboard program prints; b"" if there is none."""
    harmless = filter_environment(environ)
    try:
        done = subprocess.run(
            command,
            env=harmless,
            timeout=3.0,
            capture_output=True,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return b""
    _, mac, digits = done.stdout.partition("«data PNGf".encode())
    if not mac:
        return done.stdout
    with suppress(ValueError):
        return bytes.fromhex(digits.partition("»".encode())[0].decode("ascii", "replace"))
    return b""


def _kept(data: bytes, folder: Path) -> Path:
    """Save bytes in a file and return its path. Raises NoImage."""
    path = folder / f"clipboard-{hashlib.sha256(data).hexdigest()[:12]}.png"
    try:
        make_private_folders(folder)
        replace_file(path, data)
    except OSError as error:
        raise NoImage(f"cannot write to {folder}: {cause_of(error)}") from error
    return path


def usable_content(content: tuple[Block, ...]) -> tuple[Block, ...]:
    """Return a prompt's blocks with usable images, since a broken one would make every request fail."""
    return tuple(_usable_image(block) if isinstance(block, ImageBlock) else block for block in content)


def _usable_image(block: ImageBlock) -> Block:
    try:
        return load_image(base64.b64decode(block.data, validate=True))[0]
    except (BadImage, ValueError) as error:
        return TextBlock(f"[image omitted: {error}]")
