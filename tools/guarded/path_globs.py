"""Match paths with the globs of permission rules.

The `*` of a glob crosses slashes, and `/**/` also stands for no directory. Brackets are a set of characters
and themselves, since frameworks name directories `[slug]`. A glob is relative to the project, unless it is
absolute or begins with `*/`, which also stands for the directories above the project:

    *secret*        notes/secret.txt; nothing more in a project that is in a directory `my-secrets`
    conf/**/key     conf/key, conf/a/b/key
    app/[id]/**     app/i/x, app/[id]/x
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache
from itertools import product

from msgspec import Struct

_MAX_DOUBLE_STARS = 3  # `/**/` of a glob that are also read as no directory


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


def _forms(glob: str) -> Iterable[str]:
    """Yield a glob in the forms that `fnmatch` knows."""
    parts = glob.split("/**/", _MAX_DOUBLE_STARS)
    for joints in product(("/**/", "/"), repeat=len(parts) - 1):
        form = parts[0] + "".join(joint + part for joint, part in zip(joints, parts[1:], strict=True))
        yield form
        yield form.replace("[", "[[]")
