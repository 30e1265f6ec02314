"""Convert an HTML page to Markdown, as a separate program.

It is run by its path and imports none of our modules. It is a separate process since a hostile page can make
a parser slow, and Python cannot interrupt it.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

_MAX_MEMORY_BYTES = 1 << 30
# Elements without text for a reader.
_DROPPED = (
    "script, style, template, noscript, iframe, svg, canvas, nav, button, select, input, textarea, dialog,"
    " a.headerlink, img[src^='data:'], img:not([alt]), img[alt='']"
)
_KEPT_ATTRIBUTES = {"*": {"href", "alt", "src", "colspan", "rowspan"}}
# Elements that the converter would join with their neighbours.
_BLOCKS = {"dt": "p", "dd": "div", "summary": "p", "details": "div", "section": "div", "figcaption": "p"}


def main(libraries: str, page: str, charset: str) -> int:
    """Print the title of the page in a line, then its text: that of the main element, if it has only one.

    `libraries` is the directory that contains the parser.
    """
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    sys.path.append(libraries)
    from justhtml import AllowlistAttrs, Drop, Edit, JustHTML, Unwrap

    def rename(node: Any) -> None:
        node.name = _BLOCKS[node.name]

    document = JustHTML(
        Path(page).read_bytes(),
        encoding=charset or None,
        sanitize=False,  # no browser shows the result
        transforms=[
            Drop(_DROPPED),
            Unwrap("a[href^='#'], a[href^='javascript:']"),
            AllowlistAttrs("*", allowed_attributes=_KEPT_ATTRIBUTES),
            Edit(", ".join(_BLOCKS), rename),
        ],
    )
    title = next((each.to_text() for each in document.query("title")), "")
    mains = document.query("main")
    text = mains[0].to_markdown() if len(mains) == 1 else document.to_markdown()
    sys.stdout.buffer.write(f"{' '.join(title.split())}\n{text}".encode("utf-8", "replace"))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
