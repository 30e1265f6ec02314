"""Destructive command lines in manual mode, in the sandbox: each loss is undone by /rewind or asked about."""

from __future__ import annotations

import asyncio
import os
import subprocess
from functools import partial
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

import pytest
from msgspec.structs import replace

from agent.checkpoints import differences, plan_rewind, restore_rewind
from agent.checkpoints.snapshot import SnapshotLimits
from agent.permissions import Mode
from agent.ports import Allow, Deny
from tests.agent.checkpoints.project import tree
from tools.search import run_git_script
from transcripts import RecordsGuard

from .test_sandbox import SandboxedWorld

LARGE = 3 << 20
SKIPPED = ("node_modules", ".venv", ".git", "__pycache__", ".cache")
ENVIRON = {
    **os.environ,
    **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": "/dev/null",
}
PREPARED = """
git init -q .; mkdir -p src/deep docs data node_modules/pkg own/node_modules/@a/b
mkdir -p .venv/lib tools/venv sub empty __pycache__ many
echo 'print(1)' >src/a.py; echo b >src/deep/b.py; echo doc >docs/d.md
echo '{"dependencies": {"pkg": "1"}}' >package.json
echo x >node_modules/pkg/index.js; echo '{}' >node_modules/pkg/package.json; echo '{}' >own/package.json
echo x >own/node_modules/@a/b/notes; echo x >.venv/lib/site.py; echo x >tools/venv/own.py
ln -s src/a.py link; ln -s src dirlink; chmod 750 src/a.py; echo c >__pycache__/a.pyc
printf '%s\\n' .venv node_modules '*.sqlite' >.gitignore
for n in 1 2 3 4 5 6 7 8 9; do echo $n >many/$n.txt; done
printf 'clean:\\n\\trm -rf src docs\\nwipe: clean\\n\\t@rm -rf .venv\\n' >Makefile
git init -q sub; git -C sub commit -q --allow-empty -m sub; echo s >sub/s
echo '.transcripts' >.git/info/exclude
git add src docs Makefile .gitignore; git commit -qm one; echo two >src/a.py; git commit -qam two
git checkout -qb topic; echo t >topic.txt; git add topic.txt; git commit -qm topic; git checkout -q -
git tag light; git tag -am heavy heavy topic
echo w >>docs/d.md; git stash -q; echo w2 >>docs/d.md; git stash -q
git worktree add -q tree topic 2>/dev/null; echo staged >staged; git add staged; echo later >staged
"""
Outcome = Literal["restored", "asked", "rebuilt"]

LINES: dict[str, Outcome] = {
    # Files, small and large, one and many.
    "rm src/a.py": "restored",
    "rm -rf src docs": "restored",
    "rm data/db.sqlite": "restored",
    "rm -f data/*": "restored",
    ": >data/db.sqlite": "restored",
    "truncate -s 10 data/db.sqlite": "restored",
    "dd if=/dev/zero of=data/db.sqlite bs=1 count=9 conv=notrunc": "restored",
    "python3 -c \"open('data/db.sqlite', 'r+b').write(b'xx')\"": "restored",
    "sed -i s/1/2/ many/*.txt": "restored",
    "find many -name '*.txt' -delete": "restored",
    "find many -type f -exec rm {} +": "restored",
    "ls many/*.txt | xargs -n1 unlink": "asked",
    "for n in 1 2 3; do rm many/$n.txt; done": "restored",
    "mv src/a.py src/deep/b.py": "restored",
    "cp package.json src/a.py": "restored",
    "cat package.json >docs/d.md": "restored",
    "tar cf docs/d.md src": "restored",
    "make clean": "restored",
    "make wipe": "asked",
    "gzip data/db.sqlite": "restored",
    "mv data elsewhere; rm -r elsewhere": "restored",
    "python3 -c \"import shutil; shutil.rmtree('src')\"": "restored",
    ": >huge.img": "asked",
    "python3 -c \"open('huge.img', 'w')\"": "asked",
    "cp /dev/null data/db.sqlite": "restored",
    "sed -i.bak 's/./X/' many/*.txt && rm many/*.bak": "restored",
    "find docs src -type f -exec sh -c ': >\"$1\"' _ {} \\;": "restored",
    "mkdir -p t/src; echo x >t/src/a.py; tar cf t.tar -C t src; tar xf t.tar": "restored",
    "mv -f many/1.txt many/2.txt; mv many src": "restored",
    "split -b 1M data/db.sqlite data/part && rm data/db.sqlite": "restored",
    "sort -o src/a.py package.json": "restored",
    "cat package.json | tee src/a.py docs/d.md >many/1.txt": "restored",
    "while read f; do rm $f; done < <(ls many/*)": "asked",
    "find . -path ./.git -prune -o -name '*.md' -exec rm {} +": "asked",
    # Permissions, links and directories.
    "ln -f package.json docs/d.md": "restored",
    "chmod -R 000 docs src many": "restored",
    "chmod -R u+x,go-rwx .": "asked",
    "chmod 400 src/a.py": "restored",
    "chmod -R a-w docs src": "restored",
    "rm link dirlink": "restored",
    "ln -sfn docs dirlink": "restored",
    "rm link; echo file >link": "restored",
    "rmdir empty": "restored",
    "rmdir empty; echo x >empty": "restored",
    # git.
    "git clean -fd docs many": "restored",
    "git checkout -q HEAD~1 -- src": "restored",
    "git checkout -f HEAD~1": "asked",
    "git checkout -q other": "restored",
    "git -C tree switch -q --orphan empty": "restored",
    "git reset -q --hard": "restored",
    "git reset -q --hard HEAD~1": "restored",
    "git stash drop": "restored",
    "git stash clear": "restored",
    "git stash -q && git stash drop -q": "restored",
    "git branch -D other": "restored",
    "git tag -d light heavy": "restored",
    "git -c user.name=a -c user.email=a@b commit -q --amend -m changed": "restored",
    "git update-ref -d refs/heads/other": "restored",
    "git reflog expire --expire=now --all && git gc -q --prune=now": "restored",
    "git branch -D other; git stash clear; git reflog expire --expire=now --all; git gc -q --prune=now": (
        "restored"
    ),
    "git for-each-ref --format='delete %(refname)' | git update-ref --stdin": "restored",
    "git for-each-ref --format='delete %(refname)' | git update-ref --stdin; git gc -q --prune=now": "asked",
    "git rm -rfq src": "restored",
    "git -C sub branch -D topic": "restored",
    "git -C tree reset -q --hard HEAD~1": "restored",
    "rm -f tree/*": "restored",
    "git worktree remove --force tree": "asked",
    "git clean -fdxq": "asked",
    "git clean -ffdxq": "asked",
    "rm -rf sub": "asked",
    "rm -rf tree": "asked",
    "rm tree/.git": "asked",
    "rm .git/index": "asked",
    "rm -rf .git/logs/refs": "asked",
    "find . -name main -delete": "asked",
    "git update-ref -d HEAD": "restored",
    "git symbolic-ref HEAD refs/heads/none": "restored",
    "git checkout -q --orphan fresh && git rm -rfq .": "restored",
    "git reflog delete HEAD@{0}; git reflog delete stash@{0}": "restored",
    "git stash -q -u && git stash drop -q": "asked",
    "git stash -q --all": "asked",
    "rm -f .git/objects/*/*": "asked",
    # Directories of packages, and caches.
    "rm -rf node_modules": "rebuilt",
    "rm -rf __pycache__ && find . -name '*.pyc' -delete": "rebuilt",
    "rm -rf .venv": "asked",
    "rm -rf own/node_modules": "asked",
    "cd own && npm ci": "asked",
    "npm --prefix=own prune": "asked",
    "python3 -m venv --clear .venv": "asked",
    "rm node_modules/pkg/index.js": "asked",
    "echo y >node_modules/pkg/index.js": "asked",
    "sed -i s/x/y/ node_modules/pkg/*.js": "asked",
    "grep -rl x . | xargs sed -i s/x/y/": "asked",
    "find . -name '*.js' -exec truncate -s 0 {} +": "asked",
    "tar cf a.tar src; tar xf a.tar -C .venv": "asked",
    "curl -so node_modules/pkg/index.js file:///etc/hostname": "asked",
    "awk '{print >\"node_modules/pkg/index.js\"}' package.json": "asked",
    "rm -rf tools": "asked",
    "mv node_modules modules": "asked",
    "find . -name '*.js' -delete": "asked",
    "python3 -c \"import shutil; shutil.rmtree('.venv')\"": "asked",
    "chmod -R 000 .venv": "asked",
}


class Template(NamedTuple):
    """A prepared project that each test copies, and its state."""

    folder: Path
    state: tuple[dict[str, tuple[object, ...]], str]

    def lacks_something(self, folder: Path) -> bool:
        """Return whether a copy has lost anything; git is asked only where the files are the same."""
        return files_in(folder) != self.state[0] or state(folder) != self.state


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    folder = tmp_path_factory.mktemp("template").resolve() / "project"
    folder.mkdir()
    subprocess.run(["bash", "-c", PREPARED], cwd=folder, env=ENVIRON, check=True, capture_output=True)
    for line in ("git branch other HEAD~1", "git -C sub branch topic"):
        subprocess.run(line.split(), cwd=folder, env=ENVIRON, check=True)
    (folder / "data/db.sqlite").write_bytes(Random(1).randbytes(LARGE))
    return Template(folder, state(folder))


# Lines that run in sweeps: each destroys the same kind of thing as one that always runs, but with another
# program, in another number, or without what that one destroys besides.
ALIKE = {
    "cp /dev/null data/db.sqlite",
    "sed -i.bak 's/./X/' many/*.txt && rm many/*.bak",
    "find docs src -type f -exec sh -c ': >\"$1\"' _ {} \\;",
    "mkdir -p t/src; echo x >t/src/a.py; tar cf t.tar -C t src; tar xf t.tar",
    "mv -f many/1.txt many/2.txt; mv many src",
    "split -b 1M data/db.sqlite data/part && rm data/db.sqlite",
    "sort -o src/a.py package.json",
    "cat package.json | tee src/a.py docs/d.md >many/1.txt",
    "ln -f package.json docs/d.md",
    "git symbolic-ref HEAD refs/heads/none",
    "git checkout -q --orphan fresh && git rm -rfq .",
    "make clean",
    "git branch -D other; git stash clear; git reflog expire --expire=now --all; git gc -q --prune=now",
    "sed -i s/1/2/ many/*.txt",
    "rmdir empty; echo x >empty",
    "git clean -fd docs many",
    "git stash -q && git stash drop -q",
    "git -C tree reset -q --hard HEAD~1",
    "rm src/a.py",
    "rm data/db.sqlite",
    "rm -f data/*",
    ": >data/db.sqlite",
    "dd if=/dev/zero of=data/db.sqlite bs=1 count=9 conv=notrunc",
    "python3 -c \"open('data/db.sqlite', 'r+b').write(b'xx')\"",
    "find many -name '*.txt' -delete",
    "find many -type f -exec rm {} +",
    "for n in 1 2 3; do rm many/$n.txt; done",
    "mv src/a.py src/deep/b.py",
    "cp package.json src/a.py",
    "cat package.json >docs/d.md",
    "tar cf docs/d.md src",
    "gzip data/db.sqlite",
    "mv data elsewhere; rm -r elsewhere",
    "python3 -c \"import shutil; shutil.rmtree('src')\"",
    "python3 -c \"open('huge.img', 'w')\"",
    "chmod -R a-w docs src",
    "rm link dirlink",
    "rmdir empty",
    "git checkout -q HEAD~1 -- src",
    "git reset -q --hard",
    "git reset -q --hard HEAD~1",
    "git stash drop",
    "git stash clear",
    "git branch -D other",
    "git tag -d light heavy",
    "git rm -rfq src",
    "git update-ref -d refs/heads/other",
    "git reflog expire --expire=now --all && git gc -q --prune=now",
    "rm -f tree/*",
    "git clean -fdxq",
    "find . -name main -delete",
    "echo y >node_modules/pkg/index.js",
    "sed -i s/x/y/ node_modules/pkg/*.js",
    "curl -so node_modules/pkg/index.js file:///etc/hostname",
    "awk '{print >\"node_modules/pkg/index.js\"}' package.json",
    "find . -name '*.js' -delete",
    "python3 -c \"import shutil; shutil.rmtree('.venv')\"",
}


def copied(template: Template, folder: Path, **environ: str) -> SandboxedWorld:
    limits = SnapshotLimits(max_large_file_bytes=2 * LARGE)
    shell = SandboxedWorld(folder, checkpoint_limits=limits, environ=environ, template=template.folder)
    # A worktree and its repository name each other by absolute paths.
    (folder / "tree/.git").write_text(f"gitdir: {folder}/.git/worktrees/tree\n")
    (folder / ".git/worktrees/tree/gitdir").write_text(f"{folder}/tree/.git\n")
    return shell


def files_in(folder: Path) -> dict[str, tuple[object, ...]]:
    """All files but those that snapshots leave out."""
    return {
        name: value for name, value in tree(folder).items() if not set(name.split("/")) & {*SKIPPED, "venv"}
    }


def state(folder: Path) -> tuple[dict[str, tuple[object, ...]], str]:
    """All files but those that snapshots leave out, and all that git can lose."""
    refs = "git -C $r for-each-ref --format='%(objectname) %(refname)' refs/heads refs/tags"
    line = (
        f"for r in . sub tree; do {refs};"
        " git -C $r ls-files -s; git -C $r symbolic-ref HEAD; git -C $r fsck --no-dangling; done;"
        " git reflog show --format='%H %gs' refs/stash --; cat node_modules/pkg/* .venv/lib/* tools/venv/*"
    )
    done = subprocess.run(["bash", "-c", line], cwd=folder, env=ENVIRON, capture_output=True)
    return files_in(folder), done.stdout.decode()


def rewound(shell: SandboxedWorld, with_changed: bool = False) -> list[str]:
    """Rewind files and refs; returns the reasons for what was not restored."""
    context = shell.world.context
    assert context.checkpoints is not None
    checkpoints = context.checkpoints

    async def rewind() -> list[str]:
        git = partial(run_git_script, context.tool_context)
        plan = await plan_rewind(checkpoints, 0, git)
        failed = await restore_rewind(checkpoints, plan, with_changed, git)
        await shell.runner.close()
        return list(failed.values())

    return asyncio.run(rewind())


def test_what_a_command_destroys_in_the_background_is_kept(tmp_path: Path, template: Template) -> None:
    """Others may have destroyed it as well, so it is restored only if the user wants that."""
    shell = copied(template, tmp_path.resolve() / "project")
    lost = (
        "rm -r many; : >src/a.py; git branch -D other; git stash clear; git reflog expire --expire=now --all"
    )
    shell.run([f"(sleep 0.7; {lost}; git gc --prune=now) >/dev/null 2>&1 &", "echo new >docs/d.md"])
    assert shell.world.approver.questions == []
    left = rewound(shell)
    kept = {f"kept, since it {may} changed outside this session" for may in ("was", "may have been")}
    assert {*left} == kept
    assert (shell.folder / "docs/d.md").read_bytes() == (template.folder / "docs/d.md").read_bytes()
    assert not (shell.folder / "many").exists()
    assert rewound(shell, with_changed=True) == [] and state(shell.folder) == template.state


def test_edits_beside_a_command_in_the_background_stay_the_session_s_own(tmp_path: Path) -> None:
    shell = SandboxedWorld(tmp_path.resolve() / "project")
    edited = shell.folder / "edited"
    edited.write_text("before\n")

    def edit() -> None:
        checkpoints = shell.world.context.checkpoints
        if checkpoints is not None and checkpoints.recording.unsure:
            checkpoints.announce(edited)
            edited.write_text("after\n")
            checkpoints.finish()
            (shell.folder / "by the user").touch()

    shell.before_each = edit
    shell.run(["sleep 0.5 >/dev/null 2>&1 &", "true"])
    checkpoints = shell.world.context.checkpoints
    assert checkpoints is not None and edited.read_text() == "after\n"
    shown = {one.path: one.how for one in differences(checkpoints)}
    assert (shown["by the user"], shown["edited"]) == ("theirs", "changed")
    assert len(rewound(shell)) == 1 and edited.read_text() == "before\n"


def lines_that_are(outcome: Outcome) -> list[str]:
    return [line for line, found in LINES.items() if found == outcome]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=pytest.mark.sweep) if line in ALIKE else line
        for line in lines_that_are("restored")
    ],
)
def test_a_destructive_line_is_undone(tmp_path: Path, template: Template, line: str) -> None:
    shell = copied(template, tmp_path.resolve() / "project")
    shell.run([line])
    assert shell.world.approver.questions == []
    assert template.lacks_something(shell.folder), "the line destroyed something"
    assert rewound(shell) == [] and state(shell.folder) == template.state


@pytest.mark.parametrize("swept", [False, pytest.param(True, marks=pytest.mark.sweep)])
def test_what_could_not_be_undone_is_asked_about_and_not_done(
    tmp_path: Path, template: Template, swept: bool
) -> None:
    """One session runs all lines, as each of them is denied."""
    lines = [line for line in lines_that_are("asked") if (line in ALIKE) == swept]
    shell = copied(template, tmp_path.resolve() / "project")
    (shell.folder / "huge.img").write_bytes(b"\0" * (2 * LARGE + 1))
    before = (files_in(shell.folder), template.state[1])
    shell.run(lines, *[Deny("")] * len(lines))
    questions = shell.world.approver.questions
    assert [question.title for question in questions] == lines
    before_they_ran = [question.why for question in questions if not question.refused]
    assert [why for why in before_they_ran if not why.startswith("/rewind could not ")] == []
    assert len(before_they_ran) >= len(lines) - 1  # the sandbox holds the .git file of a worktree
    assert state(shell.folder) == before


@pytest.mark.parametrize("mode", ["acceptEdits", "dontAsk"])
def test_where_edits_are_accepted_or_nothing_is_asked_only_lasting_losses_need_approval(
    tmp_path: Path, template: Template, mode: Mode
) -> None:
    shell = copied(template, tmp_path.resolve() / "project")
    shell.mode = mode
    (shell.folder / "huge.img").write_bytes(b"\0" * (2 * LARGE + 1))
    before = (files_in(shell.folder), template.state[1])
    lines = ["rm -rf .venv", ": >huge.img", "git stash -q -u && git stash drop -q", "rm .git/index"]
    answers = [Deny("")] * len(lines) if mode == "acceptEdits" else []
    shell.run(["rm data/db.sqlite", *lines], *answers)
    asked = lines if mode == "acceptEdits" else []
    assert [question.title for question in shell.world.approver.questions] == asked
    assert not (shell.folder / "data/db.sqlite").exists()
    assert rewound(shell) == [] and state(shell.folder) == before


@pytest.mark.parametrize("environ", [{}, {"MAKEROOM_NAMESPACE": "off"}])
def test_a_file_over_the_limits_that_a_command_deletes_is_restored(
    tmp_path: Path, template: Template, environ: dict[str, str]
) -> None:
    """Also if no word of the line names it, so that nobody could be asked."""
    shell = copied(template, tmp_path.resolve() / "project", **environ)
    (shell.folder / "tidy.py").write_text("import os\nos.remove('huge.img')\n")
    for name in ("huge.img", "other.img"):
        (shell.folder / name).write_bytes(name.encode() * LARGE)
    before = (files_in(shell.folder), template.state[1])
    shell.run(["python3 tidy.py", "rm -f *.img"])
    assert shell.world.approver.questions == []
    assert not {"huge.img", "other.img"} & files_in(shell.folder).keys()
    assert rewound(shell) == [] and state(shell.folder) == before


def test_a_repository_of_which_the_sandbox_holds_a_part_is_removed_after_one_question(
    tmp_path: Path, template: Template
) -> None:
    """In the sandbox its hooks and settings would be left, and a second question would follow."""
    shell = copied(template, tmp_path.resolve() / "project")
    shell.run(["rm -rf sub"], Allow("once"))
    (question,) = shell.world.approver.questions
    assert question.outside and question.why == "/rewind could not restore sub/.git"
    assert not (shell.folder / "sub").exists()


def test_what_is_made_again_is_not_asked_about(tmp_path: Path, template: Template) -> None:
    shell = copied(template, tmp_path.resolve() / "project")
    shell.run(lines_that_are("rebuilt"))
    assert shell.world.approver.questions == []
    assert not {"node_modules", "__pycache__"} & {path.name for path in shell.folder.iterdir()}


@pytest.mark.parametrize(("line", "kept"), [("rm -rf .venv", False), ("git worktree remove -f tree", True)])
def test_refs_are_kept_before_a_question_only_if_the_line_may_change_them(
    tmp_path: Path, template: Template, line: str, kept: bool
) -> None:
    shell = copied(template, tmp_path.resolve() / "project")
    shell.run([line], Deny(""))
    refs = ["git", "for-each-ref", "refs/makeroom/keep"]
    found = subprocess.run(refs, cwd=shell.folder, env=ENVIRON, check=True, capture_output=True)
    assert bool(found.stdout) == kept


def test_landlock_loses_nothing_either(tmp_path: Path, template: Template) -> None:
    line = (
        "rm data/db.sqlite; git tag -d heavy; git branch -D other; git stash clear;"
        " git reflog expire --expire=now --all; git gc -q --prune=now"
    )
    shell = copied(template, tmp_path.resolve() / "project", MAKEROOM_NAMESPACE="off")
    shell.run([line])
    if (sandbox := shell.world.context.sandbox) is None or sandbox.level != "landlock":
        pytest.skip("the sandbox here is not Landlock")
    assert shell.world.approver.questions == [] and template.lacks_something(shell.folder)
    assert rewound(shell) == [] and state(shell.folder) == template.state


def test_deleting_the_checkpoints_is_asked_about_where_the_sandbox_cannot_hide_them(
    tmp_path: Path, template: Template
) -> None:
    shell = copied(template, tmp_path.resolve() / "project", MAKEROOM_NAMESPACE="off")
    shell.run(["true >made", "rm -rf .transcripts"], Deny(""))
    if (sandbox := shell.world.context.sandbox) is None or sandbox.level != "landlock":
        pytest.skip("the sandbox here is not Landlock")
    (question,) = shell.world.approver.questions
    assert question.why == "/rewind could not restore .transcripts"


def test_checkpoints_that_a_script_deletes_together_with_files_are_restored(
    tmp_path: Path, template: Template
) -> None:
    """Landlock cannot except a part of a project: the guard of our transcripts has copies and links."""
    shell = copied(template, tmp_path.resolve() / "project", MAKEROOM_NAMESPACE="off")
    gone = ("src/a.py", "data/db.sqlite", "huge.img")
    script = f"import os, shutil\nshutil.rmtree('.trans' + 'cripts')\nfor name in {gone}: os.remove(name)\n"
    (shell.folder / "wipe.py").write_text(script)
    (shell.folder / "huge.img").write_bytes(b"huge" * LARGE)
    before = (files_in(shell.folder), template.state[1])
    guard = RecordsGuard(shell.folder, (tmp_path / "spare",), tell=lambda line: None)
    shell.before_each = lambda: setattr(shell.world.context.tool_context, "records", guard)
    shell.run(["python3 wipe.py"])
    if (sandbox := shell.world.context.sandbox) is None or sandbox.level != "landlock":
        pytest.skip("the sandbox here is not Landlock")
    assert shell.world.approver.questions == [] and not set(gone) & files_in(shell.folder).keys()
    assert rewound(shell) == [] and state(shell.folder) == before


WRECKS = {
    "objects": "for f in glob.glob('.git/objects/*/*'): os.remove(f)",
    "sub": "for f in glob.glob('sub/.git/objects/*/*'): os.remove(f)",
    "overwritten": "for f in glob.glob('.git/objects/??/*'): os.remove(f); open(f, 'w')",
    "in place": "for f in glob.glob('.git/objects/??/*'): os.chmod(f, 0o644); open(f, 'w')",
    "packed": "os.system('git pack-refs --all'); open('.git/packed-refs', 'w').write('text\\n')",
    "no refs": "os.system('git pack-refs --all'); open('.git/packed-refs', 'w')",
    "empty": "for f in ['.git/HEAD', '.git/refs/heads/topic', '.git/worktrees/tree/HEAD']: open(f, 'w')",
    "refs": "shutil.rmtree('.git/refs'); shutil.rmtree('.git/logs'); os.remove('.git/index')",
    "HEAD": "os.remove('.git/HEAD')",
    "all": "shutil.rmtree('.git', ignore_errors=True)",
    "worktrees": "shutil.rmtree('.git/worktrees', ignore_errors=True)",
    "sub all": "shutil.rmtree('sub/.git', ignore_errors=True)",
    "sub tree": "shutil.rmtree('sub', ignore_errors=True)",
}


# Scripts that run in sweeps: each wrecks another repository like one that always runs, or removes what that
# one empties.
ALIKE_WRECKS = {"sub", "no refs", "HEAD", "sub all"}
# In the gate each script runs in one of the two kinds of sandbox.
IN_SANDBOXES = [
    pytest.param(
        script,
        ("namespace", "landlock")[(place + turn) % 2],
        marks=pytest.mark.sweep if turn or name in ALIKE_WRECKS else (),
    )
    for place, (name, script) in enumerate(WRECKS.items())
    for turn in range(2)
]


@pytest.mark.parametrize(("script", "level"), IN_SANDBOXES)
def test_a_script_that_wrecks_a_repository_is_undone(
    tmp_path: Path, template: Template, script: str, level: str
) -> None:
    environ = {"MAKEROOM_NAMESPACE": "off"} if level == "landlock" else {}
    shell = copied(template, tmp_path.resolve() / "project", **environ)
    (shell.folder / "wreck.py").write_text(f"import glob, os, shutil\n{script}\n")
    before = (files_in(shell.folder), template.state[1])  # git does not know the script
    shell.run(["python3 wreck.py"])
    assert shell.world.approver.questions == []
    assert rewound(shell) == [] and state(shell.folder) == before


def test_commits_survive_that_all_refs_are_deleted_and_pruned_later(
    tmp_path: Path, template: Template
) -> None:
    """The ref of makeroom is made again, so that the last line does not prune what the first one dropped."""
    shell = copied(template, tmp_path.resolve() / "project")
    # Its directory stays, as another session has a ref there.
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    other = "git update-ref refs/makeroom/keep/other HEAD"
    subprocess.run(other.split(), cwd=shell.folder, env=environ, check=True)
    own = "git for-each-ref --format='%(refname)' refs/makeroom/keep/test | xargs git update-ref -d"
    lost = "git branch -D other; git stash clear; git reflog expire --expire=now --all"
    shell.run([lost, own, "git gc -q --prune=now"])
    assert shell.world.approver.questions == []
    assert rewound(shell) == [] and state(shell.folder) == template.state


def test_pruning_objects_that_nothing_names_is_asked_about(tmp_path: Path, template: Template) -> None:
    """Such as a stash entry that the user has dropped: `git fsck --lost-found` still finds it."""
    shell = copied(template, tmp_path.resolve() / "project")
    subprocess.run("git stash drop -q", shell=True, cwd=shell.folder, env=ENVIRON, check=True)
    shell.run(["git gc -q --prune=now"], Deny(""))
    (question,) = shell.world.approver.questions
    assert question.why == "/rewind could not restore unreachable objects of the repository"


def test_who_is_asked_about_every_command_is_told_of_losses(tmp_path: Path, template: Template) -> None:
    shell = copied(template, tmp_path.resolve() / "project")

    def ask_about_every_command() -> None:
        permissions = shell.world.context.permissions
        permissions.rules = replace(permissions.rules, asks_sandboxed=True)

    shell.before_each = ask_about_every_command
    subprocess.run("git stash drop -q", shell=True, cwd=shell.folder, env=ENVIRON, check=True)
    shell.run(["git gc -q --prune=now", "rm -r docs"], Deny(""), Deny(""))
    gc, removal = shell.world.approver.questions
    assert gc.why.endswith("read-only; /rewind could not restore unreachable objects of the repository")
    assert "/rewind" not in removal.why


def test_a_hook_that_the_sandbox_protects_is_asked_about_once(tmp_path: Path, template: Template) -> None:
    shell = copied(template, tmp_path.resolve() / "project")
    hook = shell.folder / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("true")
    shell.run(["echo false >.git/hooks/pre-commit"], Allow("once"))
    assert len(shell.world.approver.questions) == 1
    assert hook.read_text() == "false\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read any directory")
@pytest.mark.parametrize("mode", [0, 0o444])
def test_the_contents_of_locked_directories_are_asked_about(
    tmp_path: Path, template: Template, mode: int
) -> None:
    shell = copied(template, tmp_path.resolve() / "project")
    (shell.folder / "docs").chmod(mode)
    shell.run(["chmod 700 docs && rm -rf docs"], Deny(""))
    (shell.folder / "docs").chmod(0o700)  # so that pytest can remove it
    (question,) = shell.world.approver.questions
    assert question.why == "/rewind could not restore docs"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read any directory")
def test_a_project_that_a_command_locks_is_no_internal_error(tmp_path: Path, template: Template) -> None:
    shell = copied(template, tmp_path.resolve() / "project")
    shell.run(["chmod 000 .; echo locked"])
    shell.folder.chmod(0o700)
    assert "locked" in shell.texts and "internal error" not in shell.texts


def test_there_are_a_hundred_lines_of_which_two_fifths_always_run() -> None:
    assert len(LINES) >= 100 and LINES.keys() > ALIKE
    assert len(ALIKE) <= len(LINES) * 0.6
