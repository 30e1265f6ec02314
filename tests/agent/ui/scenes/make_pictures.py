"""Paint the scenes: `python -m tests.agent.ui.scenes.make_pictures [--out FOLDER] [--sheet] [NAME ...]`.

Each scene is played by the real program in a pseudo-terminal against the strict server, at three widths on a
dark and on a light ground. Users look at the pictures; nothing is compared.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyte

from tests.agent.ui.pty_terminal import ROOT, PtyTerminal, forked_makeroom
from tests.agent.ui.scenes.picture import DimScreen, paint, sheet
from tests.agent.ui.scenes.scene_list import CALC, SCENES, Scene, Steps
from tests.strict_api.reply import Body, Reply, says
from tests.strict_api.server import Server, ServerOptions

SIZES = {"narrow": (44, 22), "usual": (80, 28), "wide": (120, 36)}
GROUND_VARIABLES = {"dark": "15;0", "light": "0;15"}


class Script:
    """Answers requests with the steps of a scene, one after the other; summaries are short."""

    def __init__(self, steps: Steps) -> None:
        self._steps = list(steps)

    def __call__(self, body: Body) -> Reply:
        words = str(body["messages"][-1]["content"])
        if "End your answer with <summary>" in words:
            return Reply([says("<analysis>short</analysis><summary>\n## Goal\nThe rules.\n</summary>")])
        return Reply(self._steps.pop(0) if self._steps else [says("Done.")])


@contextmanager
def project() -> Iterator[Path]:
    """A small project for a scene to play in."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve() / "shop"
        (folder / "src").mkdir(parents=True)
        (folder / "README.md").write_text("# Shop\n\nRules for prices.\n")
        (folder / "calc.py").write_text(CALC)
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(folder)]
        for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "Begin"]):
            subprocess.run([*git, *words], check=True)
        yield folder


def environment(folder: Path, server: Server) -> dict[str, str]:
    """Return the environment of the program; its own files stay next to the project."""
    return {
        "ANTHROPIC_BASE_URL": server.base_url,
        "ANTHROPIC_API_KEY": "sk-ant-test-0000",
        "HOME": str(folder.parent),
        "TMPDIR": str(folder.parent),
        "LANG": "C.UTF-8",
        "COLORTERM": "truecolor",
    }


def run_headless(folder: Path, prompt: str, steps: Steps) -> None:
    """A session that is over."""
    with Server(Script(steps)) as server:
        environ = {**environment(folder, server), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-P", "-m", "agent", "-p", prompt]
        subprocess.run(command, cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL)


def play(scene: Scene, size: tuple[int, int], ground: str) -> pyte.Screen:
    """The screen at the moment of the picture."""
    with project() as folder, Server(Script(scene.replies), ServerOptions(delay=scene.delay)) as server:
        scene.prepare(folder)
        server.faults.add(*scene.faults)
        environ = {**environment(folder, server), "COLORFGBG": GROUND_VARIABLES[ground]}
        with PtyTerminal(folder, size, forked_makeroom(scene.words), **environ) as terminal:
            terminal.screen = DimScreen(*size, history=2_000, ratio=0.1)
            terminal._stream = pyte.ByteStream(terminal.screen)
            terminal.sees("❯", "% of")
            scene.act(terminal)
            terminal.drain(0.4)
            return terminal.screen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenes (all)")
    parser.add_argument("--out", type=Path, default=Path("/tmp/scenes"))
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--grounds", default=",".join(GROUND_VARIABLES))
    parser.add_argument("--sheet", action="store_true", help="one picture with all of them too")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    failed, painted = [], []
    for scene in SCENES:
        if given.names and scene.name not in given.names:
            continue
        for size in given.sizes.split(","):
            for ground in given.grounds.split(","):
                name = f"{scene.name}_{size}_{ground}"
                try:
                    picture = paint(play(scene, SIZES[size], ground), ground)
                except AssertionError as error:
                    failed.append(name)
                    print(f"{name}: {error}", file=sys.stderr)
                    continue
                picture.save(given.out / f"{name}.png")
                painted.append((name, picture))
    if given.sheet and painted:
        sheet(painted, 3).save(given.out / "sheet.png")
    print(f"{len(painted)} pictures in {given.out}; not played: {', '.join(failed) or 'none'}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
