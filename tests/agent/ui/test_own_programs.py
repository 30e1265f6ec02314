"""The user's editor is no program of the project, in which sandboxed commands may write."""

import os
from pathlib import Path

from tests.agent.ui.pty_terminal import PtyTerminal, forked_makeroom


def test_the_editor_is_not_taken_from_the_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    folders = (project / ".venv" / "bin", tmp_path / "bin")
    for folder, words in zip(folders, ("planted", "edited"), strict=True):
        folder.mkdir(parents=True)
        (folder / "myedit").write_text(f'#!/bin/sh\necho "{words} words" > "$1"\n')
        (folder / "myedit").chmod(0o755)
    path = os.pathsep.join((*map(str, folders), os.environ["PATH"]))
    with PtyTerminal(project, (80, 24), forked_makeroom("--offline"), EDITOR="myedit", PATH=path) as terminal:
        terminal.sees("/help").type("\x07").sees("edited words")
