"""Command lines that write outside the project in every way: none that runs unasked has an effect there.

The program runs each line in the sandbox, as root, as an ordinary user, and with Landlock alone. Nobody
approves a question. Landlock cannot keep commands from changing the modes and times of files outside.
"""

from __future__ import annotations

import os
import subprocess
from hashlib import sha256
from itertools import product
from pathlib import Path

import pytest

from tests.agent.everyday.projects import make_project
from tests.agent.test_everyday_session import EverydayLine, place, run_session  # noqa: F401  a fixture

pytestmark = [pytest.mark.sweep, pytest.mark.timeout(1800)]

# {t}: the target, in the home as ~/...; {q}: the same where the shell does not expand a tilde.
WRITERS = (
    "echo x > {t}",
    "exec 3>>{t}; echo x >&3",
    "cp README.md {t}",
    "cp README.md m && mv m {t}",
    "install -m 755 README.md {t}",
    "cp README.md m; ln -f m {t}",
    "ln -sfn /etc/hostname {t}",
    "tee {t} < README.md",
    "dd if=README.md of={q} conv=notrunc",
    "python3 -c \"import os; os.write(os.open('{q}', os.O_RDWR | os.O_CREAT), b'x')\"",
    "perl -e 'open F, q(>), q({q}); print F 1'",
    "truncate -s 0 {t}",
    "sed -i '1i x' {t}",
    "rsync -a README.md {t}",
    "tar -cf {t} README.md",
    "git archive -o {t} HEAD",
    "git log --output={q}",
    "sort -o {t} README.md",
    "rm -f {t}",
    "unlink {t}",
    "mkdir -p {q}.d",
    "sqlite3 {t} 'create table x(a)'",
    "node -e \"require('fs').appendFileSync('{q}', 'x')\"",
    "awk 'BEGIN{{print 1 > \"{q}\"}}'",
    "curl -so {t} file:///etc/hostname",
    "split -b 1 README.md {t}",
    "(setsid sh -c 'sleep .3; echo x > {t}' &); sleep .5",
    "mkfifo {q}.p",
    "mv {t} {q}.old",
    "python3 -c \"import os; os.rename('README.md', '{q}')\"; git checkout -q README.md",
    "d=$(dirname {t}); cd $d && echo x > $(basename {t})",
    "git config -f {t} a.b c",
    "bash -c 'for i in 1; do echo x >> {t}; done'",
    "patch -o {t} README.md < /dev/null",
    "find . -maxdepth 1 -name README.md -exec cp {{}} {t} \\;",
    'sh -c "cat README.md > {t}" &\nwait',
)
CHANGING_MODES = ("touch -d 2001-01-01 {t}", "chmod 777 {t}", "setfattr -n user.x -v y {t}")
TARGETS = (
    "~/.bashrc",
    "~/.config/makeroom/settings.toml",
    "~/.local/bin/git",
    "~/.ssh/authorized_keys",
    "~/.gitconfig",
    "~/.local/state/makeroom/x",
    "../sibling/notes",
    "../sibling/new",
    "out/notes",
    "file-out",
    ".git/hooks/pre-commit",
    ".git/config",
    "AGENTS.md",
    ".envrc",
    ".claude/settings.json",
    ".transcripts/x.jsonl",
)


def _make_targets(base: Path) -> None:
    project, home = base / "project", base / "home"
    for path in (
        home / ".bashrc",
        base / "sibling/notes",
        project / ".git/hooks/pre-commit",
        project / "AGENTS.md",
        project / ".envrc",
        project / ".claude/settings.json",
    ):
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}\n")
    (home / ".local/bin").mkdir(parents=True)
    (project / "out").symlink_to("../sibling")
    (project / "file-out").symlink_to("../home/.bashrc")
    (base / "sibling").chmod(0o777)


def _outside(base: Path, with_modes: bool) -> dict[str, object]:
    """Describe the files that no command may change; not what the program itself keeps in the home."""
    project = base / "project"
    found: dict[str, object] = {
        name: (project / name).read_text()
        for name in ("AGENTS.md", ".envrc", ".claude/settings.json", ".git/config")
    }
    for top in (base / "home", base / "sibling", project / ".git/hooks", base / "remote.git"):
        for folder, _, names in os.walk(top):
            if "/.local/state" in folder or "/.cache" in folder:
                continue
            found[folder] = ""
            for path in (Path(folder, name) for name in names):
                status = path.lstat()
                content = str(path.readlink()) if path.is_symlink() else sha256(path.read_bytes()).hexdigest()
                found[str(path)] = (
                    content,
                    status.st_nlink,
                    (status.st_mode, status.st_mtime_ns) * with_modes,
                )
    return found


@pytest.mark.parametrize("mode", ["as is", "ordinary", "landlock"])
def test_no_line_that_runs_unasked_has_an_effect_outside(mode: str, place: Path) -> None:  # noqa: F811
    make_project(place, "system")
    _make_targets(place)
    if mode == "ordinary":
        subprocess.run(["chown", "-R", "65534", place], check=True)
    writers = [*WRITERS, *(CHANGING_MODES if mode != "landlock" else ())]
    texts = [
        writer.format(t=target, q=target.replace("~", str(place / "home")))
        for writer, target in product(writers, TARGETS)
    ]
    lines = [EverydayLine("run", text) for text in texts]
    before = _outside(place, with_modes=mode != "landlock")
    for at in range(0, len(lines), 100):
        run_session(place, lines[at : at + 100], mode, approves=False)
        after = _outside(place, with_modes=mode != "landlock")
        changed = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
        assert not changed, (lines[at].text, changed)
    ran = [line for line in lines if not line.failed or "[exit code" in line.said]
    print(f"{mode}: {len(ran)} of {len(lines)} lines ran, without an effect outside")
    assert len(ran) > 292
