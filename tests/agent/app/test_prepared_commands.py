"""A large repository is looked at when a session begins, and its first command waits for less."""

import asyncio
import subprocess
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from agent.app.controller import prepare_for_commands
from agent.checkpoints import Checkpoints
from agent.loop import SessionSandbox
from tests.agent.commands.controller_run import ControllerRun, run_controller
from tests.agent.ui.headless_run import run_here
from tests.narrowing import present
from tests.strict_api.reply import Body, Reply, says
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server
from tools.processes import command_runner
from tools.sandbox.guards.project_guard import ProjectGuard
from tools.sandbox.supervisor import process_table
from tools.search import GitFailed, GitIndex, TrackedFiles

COMMIT = """
git init -q .; git config user.name me; git config user.email me@x; git config commit.gpgsign false
echo home >.gitignore; for n in 1 2 3; do echo $n >file$n; git add .; git commit -qm $n; done
"""


def repository(folder: Path) -> Path:
    folder.mkdir()
    subprocess.run(["bash", "-ec", COMMIT], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize(("smallest", "is_prepared"), [(0, True), (1_000_000, False)])
def test_a_large_repository_is_looked_at_before_the_first_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smallest: int, is_prepared: bool
) -> None:
    monkeypatch.setattr("tools.search.git_index._MIN_INDEX_BYTES", smallest)

    async def work(run: ControllerRun) -> None:
        _, context = run.controller.in_use
        checkpoints = present(context.checkpoints)
        preparing = present(run.controller._preparing)
        await preparing
        assert (checkpoints.recording.unread is not None) is is_prepared
        is_kept = context.permissions.rules.sandboxed and is_prepared
        guard = command_runner(context.tool_context).guard
        assert any(backup.objects.has_links for backup in guard._backups.values()) is is_kept
        await run.do("hello")
        assert run.controller._preparing is preparing, "it is done once"

    run_controller(
        repository(tmp_path / "project"), work, respond=lambda body: Reply([says("yes")]), verified=False
    )


def test_the_first_command_waits_for_what_is_not_backed_up_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.sandbox.guards.git_backup._MAX_MORE_LINKS", 1)
    project = repository(tmp_path / "project")
    objects = len(list(project.glob(".git/objects/??/*")))

    async def linked(wait: bool) -> list[int]:
        guard = ProjectGuard(project, tmp_path / "state")
        found = list[int]()
        preparing = asyncio.ensure_future(guard.prepare())
        while not guard._backups and not preparing.done():
            await asyncio.sleep(0)
        if wait:
            await preparing
        for step in (asyncio.sleep(0), guard.begin()):
            await step
            (backup,) = guard._backups.values()
            found.append(len(list(backup.kept.glob("objects/??/*"))))
        await preparing
        await guard.end()
        await guard.close()
        return found

    some, whole = asyncio.run(linked(wait=False))
    assert some < objects == whole
    assert asyncio.run(linked(wait=True)) == [objects, objects]


def test_a_session_that_ends_while_the_sandbox_is_tried_leaves_no_work_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.search.git_index._MIN_INDEX_BYTES", 0)
    tried = asyncio.Event()

    async def check(sandbox: SessionSandbox) -> None:
        tried.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(SessionSandbox, "check", check)

    async def work(run: ControllerRun) -> None:
        preparing = asyncio.ensure_future(prepare_for_commands(run.controller.in_use[1]))
        await tried.wait()
        preparing.cancel()
        await asyncio.wait([preparing])  # a coroutine that was never awaited would be an error here

    run_controller(repository(tmp_path / "project"), work)


def test_what_was_backed_up_before_the_first_command_is_updated_and_restored(tmp_path: Path) -> None:
    project = repository(tmp_path / "project")
    guard = ProjectGuard(project, tmp_path / "state")

    async def whole() -> list[str]:
        await guard.prepare()
        (backup,) = guard._backups.values()
        assert backup.objects.has_links
        subprocess.run(["git", "gc", "-q"], cwd=project, check=True)  # by the user: nothing comes back
        await guard.begin()
        assert list(guard._backups.values()) == [backup]
        subprocess.run(["bash", "-c", "rm -rf .git/objects/pack/*"], cwd=project, check=True)
        await guard.end()
        return await guard.settle()

    (told,) = asyncio.run(whole())
    assert "damaged" in told
    fsck = subprocess.run(["git", "fsck", "--full"], cwd=project, capture_output=True, text=True)
    assert fsck.returncode == 0, fsck.stderr
    assert not list((project / ".git/objects").glob("??/*")), "the loose objects that git packed stay away"


class EndingGit(GitIndex):
    """A git that was to read the index when the session ended."""

    is_large = True
    asked: threading.Event
    reading: Future[TrackedFiles]

    def start_reading(self) -> Future[TrackedFiles]:
        self.reading = Future[TrackedFiles]()
        self.asked.set()
        return self.reading


def test_a_session_that_ends_without_a_command_does_not_copy_the_files_that_git_has_no_time_for(
    tmp_path: Path,
) -> None:
    project = repository(tmp_path / "project")
    checkpoints = Checkpoints(project, sid="s", seq=lambda: 1)
    git = checkpoints.scanner.index = object.__new__(EndingGit)
    git.asked = threading.Event()
    preparing = threading.Thread(target=checkpoints.prepare)
    preparing.start()
    git.asked.wait()
    checkpoints.abandon()
    git.reading.set_exception(GitFailed("its sandbox has ended"))
    preparing.join()
    assert not list(project.glob(".transcripts/checkpoints/objects/*/*"))
    assert checkpoints.recording.unread is None and checkpoints.uncovered() == []


def test_the_supervisor_that_git_needs_before_a_first_prompt_starts_before_the_session(
    tmp_path: Path,
) -> None:
    async def work(run: ControllerRun) -> None:
        runner = command_runner(run.controller.in_use.context.tool_context)
        begun = present(runner.begun)
        await run.do("hello")
        assert runner.begun is None and await runner.supervisor() is begun.result()

    def answer(body: Body) -> Reply:
        return Reply([says("yes")])

    run_controller(repository(tmp_path / "project"), work, headless=True, respond=answer, verified=False)


@pytest.mark.parametrize("is_headless", [True, False])
def test_no_supervisor_starts_before_a_session_whose_first_prompt_does_not_wait_for_git(
    tmp_path: Path, is_headless: bool
) -> None:
    """Without a repository git is not asked; and while a user types, there is time."""
    folder = tmp_path / "project"
    folder.mkdir() if is_headless else repository(folder)

    async def work(run: ControllerRun) -> None:
        assert command_runner(run.controller.in_use.context.tool_context).begun is None

    run_controller(folder, work, headless=is_headless, verified=False)


@pytest.mark.parametrize("has_started", [True, False])
def test_a_supervisor_that_was_started_for_nothing_is_ended(tmp_path: Path, has_started: bool) -> None:
    ended = []

    async def work(run: ControllerRun) -> None:
        begun = present(command_runner(run.controller.in_use.context.tool_context).begun)
        if has_started:
            ended.append(await begun)

    others = process_table.children()
    run_controller(repository(tmp_path / "project"), work, headless=True, verified=False)
    assert process_table.children() == others
    assert len(ended) == has_started and not any(each.private.exists() for each in ended)


def test_a_supervisor_of_a_session_that_could_not_begin_is_ended(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    project = repository(tmp_path / "project")
    others = process_table.children()
    with Server(ScriptedModel([])) as server:
        ended = run_here(project, capfd, server, "hello", "--max-budget-usd", "1", "-m", "unheard-of")
    assert ended.returncode and "unheard-of" in ended.stderr
    assert process_table.children() == others
