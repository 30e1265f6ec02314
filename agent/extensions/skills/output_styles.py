"""Output styles: texts of the user or the project that define how the model answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from agent.extensions.frontmatter import judged_path, read_markdown
from agent.extensions.plugins import Plugin
from agent.settings_files import claude_folder

NO_STYLE = "default"
STYLE_HEAD = "How to answer, as the user has chosen (output style "
_STYLES_FOLDER = "output-styles"


class StyleFolder(NamedTuple):
    """A directory of styles, and whether it is part of the checkout."""

    path: Path
    from_project: bool


class StyleFile(NamedTuple):
    """A file that may contain a style.

    top     the top of the checkout that contains it, None for the user's own
    plugin  the name of the plugin that it is part of
    """

    path: Path
    top: Path | None = None
    plugin: str = ""


class StylePlaces(Struct, frozen=True):
    """The sources of styles.

    sources  the settings that are read, None for all
    plugins  approved plugins
    """

    folder: Path
    user_dir: Path
    environ: Mapping[str, str]
    sources: Sequence[str] | None = None
    plugins: Sequence[Plugin] = ()

    def text(self, name: str) -> str:
        """Return the text of a style for the system prompt; "" for none. Blocks on the disk.

        Raises ValueError, in one line.
        """
        if name.lower() in ("", NO_STYLE):
            return ""
        names = []
        for path, top, plugin in self._files():
            try:
                found = read_markdown(judged_path(path, top))
            except (OSError, ValueError) as error:
                if path.stem.lower() == name.lower():
                    raise ValueError(f"the output style {path}: {error}") from error
                continue
            own = str(found.fields.get("name") or path.stem)
            full_name = f"{plugin}:{own}" if plugin else own
            if name.lower() in (full_name.lower(), own.lower(), path.stem.lower()):
                return f"{STYLE_HEAD}{full_name}):\n\n{found.body.strip()}"
            names.append(full_name)
        hint = f"known styles are {', '.join(names)}" if names else f".claude/{_STYLES_FOLDER} contains none"
        raise ValueError(f"unknown output style {name!r}; {hint}")

    def _files(self) -> Iterator[StyleFile]:
        """Yield the files in order of precedence."""
        for folder, from_project in self._folders():
            for path in sorted(folder.glob("*.md")):
                yield StyleFile(path, top=self.folder if from_project else None)
        for plugin in self.plugins:
            for path in plugin.styles:
                yield StyleFile(path, plugin=plugin.name)

    def _folders(self) -> Iterator[StyleFolder]:
        if self.sources is None or "project" in self.sources:
            yield StyleFolder(self.folder / ".makeroom" / _STYLES_FOLDER, from_project=True)
            yield StyleFolder(self.folder / ".claude" / _STYLES_FOLDER, from_project=True)
        if self.sources is None or "user" in self.sources:
            yield StyleFolder(self.user_dir / _STYLES_FOLDER, from_project=False)
            yield StyleFolder(claude_folder(self.environ) / _STYLES_FOLDER, from_project=False)


def style_in_use(system: Sequence[str]) -> str:
    """Return the name of the style in a system prompt."""
    heads = (text.partition("\n")[0] for text in system if text.startswith(STYLE_HEAD))
    return next((head.removeprefix(STYLE_HEAD).removesuffix("):") for head in heads), NO_STYLE)
