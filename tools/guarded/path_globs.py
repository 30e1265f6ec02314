"""Match paths with the globs of permission rules.

The `*` of a glob crosses slashes, and `/**/` also stands for no directory. Brackets are a set of characters
and themselves, since frameworks name directories `[slug]`. Braces are alternatives and themselves. A glob is
relative to the project, unless it is absolute or begins with `*/` or `**/`, which also stands for the
directories above the project:

    *secret*        notes/secret.txt; nothing more in a project that is in a directory `my-secrets`
    conf/**/key     conf/key, conf/a/b/key
    app/[id]/**     app/i/x, app/[id]/x
    *.{pem,key}     a.pem, b/c.key, and the file `x.{pem,key}`
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache
from itertools import product

from msgspec import Struct

from transcripts.patterns import lazy_pattern

_BRACES = lazy_pattern(r"\{([^{}]*,[^{}]*)\}")  # the innermost
_MAX_ALTERNATIVES = 500  # globs that one with braces stands for


class PathGlobs(Struct, frozen=True):
    """Globs over the absolute paths in the directory `folder`, and over others."""

    folder: str
    texts: frozenset[str] = frozenset()

    def match(self, path: str) -> bool:
        """Return whether a path matches one of the globs."""
        if not self.texts:
            return False
        everywhere, relative = _expressions(self.texts)
        return everywhere.match(path) is not None or (
            relative.match(path.removeprefix(self.folder.rstrip("/") + "/")) is not None
        )


@lru_cache(maxsize=256)
def _expressions(globs: frozenset[str]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the expression over absolute paths and the one over relative paths."""
    everywhere = [glob for glob in globs if glob.startswith(("/", "*/", "**/"))]
    return _expression(everywhere), _expression(globs)


def _expression(globs: Iterable[str]) -> re.Pattern[str]:
    forms = sorted({translate(form) for glob in globs for form in _forms(glob)})
    return re.compile("|".join(forms) if forms else r"(?!)")


def alternatives(glob: str) -> list[str]:
    """Return the globs that one with braces stands for, first itself. Raises ValueError for too many."""
    found = {glob: None}
    waiting = [glob]
    for each in waiting:
        braces = _BRACES.search(each)
        if braces is None:
            continue
        for part in braces[1].split(","):
            form = f"{each[: braces.start()]}{part}{each[braces.end() :]}"
            if form and form not in found:
                found[form] = None
                waiting.append(form)
        if len(found) > _MAX_ALTERNATIVES:
            raise ValueError(f"its braces stand for more than {_MAX_ALTERNATIVES} paths")
    return list(found)


def _forms(glob: str) -> Iterable[str]:
    """Yield a glob in the forms that `fnmatch` knows."""
    for each in alternatives(glob):
        yield from _forms_of_stars(each)


def _forms_of_stars(glob: str) -> Iterable[str]:
    # The first of them are also read as no directory; each doubles the forms.
    parts = glob.split("/**/", 3)
    for joints in product(("/**/", "/"), repeat=len(parts) - 1):
        form = parts[0] + "".join(joint + part for joint, part in zip(joints, parts[1:], strict=True))
        yield form
        yield form.replace("[", "[[]")
