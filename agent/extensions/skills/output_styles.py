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
        in_project = (self.folder / ".makeroom", self.folder / ".claude")
        of_user = (self.user_dir, claude_folder(self.environ))
        for source, top, folders in (("project", self.folder, in_project), ("user", None, of_user)):
            if self.sources is None or source in self.sources:
                found = (path for each in folders for path in sorted((each / _STYLES_FOLDER).glob("*.md")))
                yield from (StyleFile(path, top=top) for path in found)
        for plugin in self.plugins:
            for path in plugin.styles:
                yield StyleFile(path, plugin=plugin.name)


def style_in_use(system: Sequence[str]) -> str:
    """Return the name of the style in a system prompt."""
    heads = (text.partition("\n")[0] for text in system if text.startswith(STYLE_HEAD))
    return next((head.removeprefix(STYLE_HEAD).removesuffix("):") for head in heads), NO_STYLE)
