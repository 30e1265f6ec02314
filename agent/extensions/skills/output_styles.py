"""Output styles: texts of the user or the project that define how the model answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from agent.extensions.frontmatter import judged_path, read_markdown
from agent.settings_files import claude_folder

NO_STYLE = "default"
STYLE_HEAD = "How to answer, as the user has chosen (output style "
_STYLES_FOLDER = "output-styles"


class StyleFolder(NamedTuple):
    """A directory of styles, and whether it is part of the checkout."""

    path: Path
    from_project: bool


class StylePlaces(Struct, frozen=True):
    """The sources of styles. `sources`: the settings that are read, None for all."""

    folder: Path
    user_dir: Path
    environ: Mapping[str, str]
    sources: Sequence[str] | None = None

    def folders(self) -> Iterator[StyleFolder]:
        """Yield the directories in order of precedence."""
        if self.sources is None or "project" in self.sources:
            yield StyleFolder(self.folder / ".makeroom" / _STYLES_FOLDER, from_project=True)
            yield StyleFolder(self.folder / ".claude" / _STYLES_FOLDER, from_project=True)
        if self.sources is None or "user" in self.sources:
            yield StyleFolder(self.user_dir / _STYLES_FOLDER, from_project=False)
            yield StyleFolder(claude_folder(self.environ) / _STYLES_FOLDER, from_project=False)


def style_text(name: str, places: StylePlaces) -> str:
    """Return the text of a style for the system prompt; "" for none. Blocks on the disk.

    Raises ValueError, in one line.
    """
    if name.lower() in ("", NO_STYLE):
        return ""
    known = []
    for folder, from_project in places.folders():
        for path in sorted(folder.glob("*.md")):
            try:
                found = read_markdown(judged_path(path, places.folder if from_project else None))
            except (OSError, ValueError) as error:
                if path.stem.lower() == name.lower():
                    raise ValueError(f"the output style {path}: {error}") from error
                continue
            own = str(found.fields.get("name") or path.stem)
            if name.lower() in (own.lower(), path.stem.lower()):
                return f"{STYLE_HEAD}{own}):\n\n{found.body.strip()}"
            known.append(own)
    there = f"known styles are {', '.join(known)}" if known else f".claude/{_STYLES_FOLDER} contains none"
    raise ValueError(f"unknown output style {name!r}; {there}")


def style_in_use(system: Sequence[str]) -> str:
    """Return the name of the style in a system prompt."""
    heads = (text.partition("\n")[0] for text in system if text.startswith(STYLE_HEAD))
    return next((head.removeprefix(STYLE_HEAD).removesuffix("):") for head in heads), NO_STYLE)
