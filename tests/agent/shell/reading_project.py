"""A project to look at: a real repository, secrets, links and programs of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from agent.permissions.rule_syntax import parse_rules
from agent.permissions.rules import PermissionRules, Verdict, judge_call
from agent.shell.project_environment import ProjectEnvironment
from tools.base import Access
from tools.processes.env_filter import filter_environment

HERE = Path(__file__).parent
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
# Programs of the judged lines that not every machine has. The lines are judged and not run: it is enough that
# there is an executable file of that name.
OPTIONAL_PROGRAMS = ("column", "file", "ps", "rev", "rg", "xxd")


def lines_of(name: str) -> list[str]:
    """The command lines in a file: one a line, those with odd characters as JSON; `#` begins a heading."""
    lines = (HERE / name).read_text("utf-8").splitlines()
    return [json.loads(line) if line.startswith('"') else line for line in lines if not line.startswith("#")]


@dataclass
class ReadingProject:
    """A directory `work/project` with files, next to an unrelated one."""

    place: Path
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.place = self.place.resolve()
        home = self.place / "home"
        for folder in (self.root / "src/deep", home / ".ssh", self.place / "other"):
            folder.mkdir(parents=True)
        (home / ".ssh/id_rsa").write_text("a key\n")
        (self.place / "other/notes").write_text("somebody else's\n")
        for name in ("README.md", "a.py", "src/b.py", "src/deep/c.py", "data.json"):
            (self.root / name).write_text('{"x": 1}\n')
        programs = self.place / "programs"
        programs.mkdir()
        for name in OPTIONAL_PROGRAMS:
            if shutil.which(name, path=SYSTEM_PATH) is None:
                shutil.copy("/bin/true", programs / name)
        self.environ = {
            "PATH": f"{SYSTEM_PATH}:{programs}",
            "HOME": str(home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "LC_ALL": "C.UTF-8",
        } | self.environ

    @property
    def root(self) -> Path:
        return self.place / "project"

    def git(self, *arguments: str, folder: str = "") -> str:
        """Run git without hardening, as the one who made the project did; what it printed."""
        identity = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.root / folder,
            env=self.environ | identity,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        return done.stdout

    def commit(self) -> None:
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-qm", "first")

    def rules(self, *allow: str, **more: object) -> PermissionRules:
        """The rules in force with the given ones for bash."""
        given = tuple(rule for text in allow for rule in parse_rules(f"bash({text})"))
        judge = ProjectEnvironment(str(self.root), filter_environment(self.environ))
        return PermissionRules(allow=given, folder=str(self.root), reading=lambda: judge, **more)  # type: ignore[arg-type]

    def verdict(self, line: str, *allow: str, folder: str = "", **more: object) -> Verdict:
        cwd = os.path.normpath(self.root / folder)
        return judge_call("bash", [Access("run", line, cwd=cwd)], self.rules(*allow, **more))

    def runs(self, line: str, *allow: str, folder: str = "") -> bool:
        """Return whether the line runs without a question."""
        return self.verdict(line, *allow, folder=folder).answer == "allow"
