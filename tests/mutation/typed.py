"""Check a mutant with mypy, which is part of the gate as the tests are."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from .targets import ROOT

_LINE = re.compile(r":\d+(?=: error: )")


class TypeChecker:
    """Runs mypy on mutants of the modules of a tree, which stays as it is."""

    def __init__(self, tree: Path, cache_of: Path = ROOT) -> None:
        self._tree = tree
        self._shadow = tree.parent / "mutant.py"
        self._cache = tree.parent / "mypy"
        if (found := cache_of / ".mypy_cache").is_dir():  # without it, the first run takes a minute
            shutil.copytree(found, self._cache, dirs_exist_ok=True)
        self._known = cache(self._errors_without_a_fault)

    def rejects(self, module: str, text: str) -> bool:
        """Return whether mypy finds an error in another text of a module that is not in its own text."""
        return not self._errors(module, text) <= self._known(module)

    def _errors_without_a_fault(self, module: str) -> frozenset[str]:
        """Return the errors in the text of a module without its comments, such as `type: ignore`."""
        return self._errors(module, ast.unparse(ast.parse((self._tree / module).read_text("utf-8"))))

    def _errors(self, module: str, text: str) -> frozenset[str]:
        self._shadow.write_text(text, "utf-8")
        command = [sys.executable, "-m", "mypy", "--num-workers", "0", "--cache-dir", str(self._cache)]
        command += ["--shadow-file", module, str(self._shadow), module]
        done = subprocess.run(command, cwd=self._tree, capture_output=True, text=True, check=False)
        return frozenset(_LINE.sub("", line) for line in done.stdout.splitlines() if ": error: " in line)
