"""Commands within the wall, from the model's call to the result: what is asked, told and done."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from agent.app.session_factory import end_session, raise_wall
from agent.checkpoints.recorder import Checkpoints
from agent.errors import ConfigError
from agent.events import Notice, ToolCallFinished
from agent.loop.session_wall import SessionWall
from agent.permissions.permission_store import PermissionStore, stored_places, stored_rules
from agent.permissions.rule_syntax import OPENING, REACHING, Rule
from agent.permissions.rules import Mode, PermissionRules
from agent.permissions.sandbox_settings import SandboxSettings
from agent.ports import Allow, Deny
from agent.session.system_prompt import WALL_TEXT
from tests.strict_api.reply import Reply, calls
from tools.bash import TOOL
from tools.jobs import CommandRunner, command_runner
from tools.registry import definitions
from tools.wall import WallLevel

from .world import World, world

QUESTION = "walled off: write .git/config (git)"


def real_home() -> Path:
    """The person's home, whatever HOME says."""
    return Path(pwd.getpwuid(os.geteuid()).pw_dir).resolve()


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder that is neither in the project nor below a folder for temporary files."""
    home = real_home()
    if not os.access(home, os.W_OK) or str(home).startswith(("/tmp", "/var/tmp")):
        pytest.skip("there is no place to write outside of the project")
    folder = Path(tempfile.mkdtemp(prefix="makeroom-test-", dir=home))
    yield folder
    shutil.rmtree(folder)


@dataclass
class WalledWorld:
    """A repository in which a model runs command lines, one a turn; what was asked, told and done."""

    folder: Path
    mode: Mode = "manual"
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    allow: tuple[Rule, ...] = ()
    before_each: Callable[[], None] = lambda: None
    world: World = field(init=False)

    def __post_init__(self) -> None:
        for folder in (self.folder, self.folder.parent / "home"):
            folder.mkdir(parents=True)
        environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
        subprocess.run(["git", "init", "-q", self.folder], check=True, env=environ)

    def run(self, lines: list[str], *answers: Allow | Deny) -> WalledWorld:
        """Run a turn for each line; skips the test where there is no wall."""
        steps = [step for line in lines for step in (Reply((calls("bash", command=line),)), "done")]
        with world(steps, self.folder, *answers) as self.world:
            asyncio.run(self._run(len(lines)))
            assert list(self.world.server.refused) == []
        return self

    async def _run(self, turns: int) -> None:
        context, session = self.world.context, self.world.session
        context.tools = {"bash": TOOL}
        context.settings = replace(context.settings, tools=definitions([TOOL]))
        context.tool_context.journals = self.folder.parent / "state" / "journals"
        context.tool_context.environ = {"PATH": os.environ["PATH"], "HOME": str(real_home())}
        store = context.permissions = self.store
        context.checkpoints = Checkpoints(self.folder, "test", lambda: session.folded.last_seq)
        wall = context.wall = SessionWall(context.tool_context, store, real_home())
        try:
            await wall.warm()
            if wall.level == "none" and self.sandbox.mode != "off":
                pytest.skip(f"no wall here: {wall.why}")
            for _ in range(turns):
                self.before_each()
                await self.world.turn("go")
                await asyncio.gather(*(job.has_ended.wait() for job in self.runner.jobs.values()))
        finally:
            await end_session(session, context)
            await context.model.close()  # type: ignore[attr-defined]

    @property
    def store(self) -> PermissionStore:
        rules = PermissionRules(self.mode, self.allow, folder=str(self.folder))
        return PermissionStore(rules, self.granted, sandbox=self.sandbox)

    @property
    def granted(self) -> Path:
        """The file of what was granted for good."""
        return self.folder.parent / "granted.toml"

    @property
    def runner(self) -> CommandRunner:
        return command_runner(self.world.context.tool_context)

    @property
    def asked(self) -> list[str]:
        return [question.refused for question in self.world.approver.questions]

    @property
    def texts(self) -> str:
        return "\n".join(self.world.texts())

    @property
    def notes(self) -> list[str]:
        """What stood on the person's line of each call."""
        return [event.result.human["note"] for event in self.world.told(ToolCallFinished)]

    @property
    def config(self) -> str:
        return (self.folder / ".git" / "config").read_text()


@pytest.fixture
def shell(tmp_path: Path) -> WalledWorld:
    return WalledWorld(tmp_path.resolve() / "project")


def test_a_command_needs_no_question_and_what_it_changed_is_listed(shell: WalledWorld) -> None:
    for name in ("old", "away"):
        (shell.folder / name).write_text(name)
    shell.run(["echo a >new; mkdir d; echo b >'d/b c'; echo c >old; rm away; echo one"])
    assert shell.world.approver.questions == []
    assert "one" in shell.texts and "[files: changed old; new d/b c new; gone away]" in shell.texts
    assert shell.notes[0].endswith("changed old, new d/b c new, gone away")
    assert (shell.folder / "new").read_text() == "a\n"


def test_many_changed_files_are_counted_for_the_person_and_not_told_to_the_model(shell: WalledWorld) -> None:
    shell.run(["touch f{1..9}"])
    assert shell.notes[0].endswith("new f1 f2 and 7 more files") and "[files:" not in shell.texts


def test_what_was_refused_is_asked_about_once_and_a_no_leaves_it_so(shell: WalledWorld) -> None:
    before = shell.config
    shell.run(["git config a.b c"], Deny("use a file of your own"))
    assert shell.asked == [QUESTION]
    assert "the person said no, and: use a file of your own. Tell the person" in shell.texts
    assert shell.notes[0].endswith(shell.asked[0])
    assert shell.config == before
    assert [call["tool_name"] for call in shell.world.context.permissions.denied] == ["bash"]


def test_a_yes_runs_it_again_outside_the_wall_this_once(shell: WalledWorld) -> None:
    shell.run(["echo x >>ran; git config a.b c", "git config a.b d"], Allow("once"), Deny())
    assert "b = c" in shell.config and len(shell.asked) == 2
    assert "run again outside the wall, as the person allowed; its first run was walled off" in shell.texts
    assert (shell.folder / "ran").read_text() == "x\nx\n"


def test_a_line_that_is_always_let_out_is_so_exactly_as_it_stands(shell: WalledWorld) -> None:
    line = "git config a.b c"
    shell.run([line, line, "git config a.b d"], Allow("always"), Deny())
    assert stored_rules(shell.granted) == (Rule(OPENING, line),)
    assert len(shell.asked) == 2 and "b = c" in shell.config and "b = d" not in shell.config


def test_a_place_that_is_let_through_widens_the_wall_for_this_project(
    shell: WalledWorld, outside: Path
) -> None:
    shell.run([f"echo a >{outside}/a", f"echo b >{outside}/b"], Allow("through"))
    (question,) = shell.world.approver.questions
    assert question.through == f"write ~/{outside.name}"
    assert (outside / "a").read_text() == "a\n" and (outside / "b").read_text() == "b\n"
    assert stored_places(shell.granted) == {"write": (str(outside),)}
    assert any("/sandbox takes it back" in notice.text for notice in shell.world.told(Notice))
    assert "run again with that let through" in shell.texts


def test_each_thing_that_is_refused_is_asked_about_but_nothing_twice(
    shell: WalledWorld, outside: Path
) -> None:
    shell.run([f"touch {outside}/a && git config a.b c"], Allow("through"), Deny())
    assert [text.split(" (")[0] for text in shell.asked] == [
        f"walled off: write ~/{outside.name}/a",
        "walled off: write .git/config",
    ]


def test_a_host_that_is_let_through_is_kept_as_a_rule(shell: WalledWorld) -> None:
    line = "echo 'curl: (6) Could not resolve host: files.example' >&2; exit 6"
    shell.run([line], Allow("through"))
    (question,) = shell.world.approver.questions
    assert (question.refused, question.through) == (
        "walled off: reach files.example (curl)",
        "reach files.example",
    )
    assert stored_rules(shell.granted) == (Rule(REACHING, "files.example"),)
    assert shell.world.context.wall is not None
    assert shell.world.context.wall.hosts() == ("files.example",)


def test_esc_at_the_question_ends_the_turn_with_the_result_in_the_record(shell: WalledWorld) -> None:
    shell.run(["git config a.b c"], Deny("", stop=True))
    assert shell.world.session.folded.entries[-1].seq and "walled off" in shell.texts


@pytest.mark.parametrize("mode", ["dontAsk", "plan"])
def test_where_nothing_may_leave_nobody_is_asked(tmp_path: Path, mode: Mode) -> None:
    shell = WalledWorld(tmp_path / "project", mode).run(["git config a.b c"])
    assert shell.asked == [] and f"the mode is {mode}: nothing leaves the wall" in shell.texts


def test_in_plan_mode_commands_cannot_change_the_project(tmp_path: Path) -> None:
    shell = WalledWorld(tmp_path / "project", "plan").run(
        ["ls -a", "touch new; echo x >$TMPDIR/x && echo ok"]
    )
    assert not (shell.folder / "new").exists()
    assert "Read-only file system" in shell.texts and "ok" in shell.texts


def test_a_mode_that_changes_changes_the_wall_before_the_next_command(tmp_path: Path) -> None:
    shell = WalledWorld(tmp_path / "project", "plan")
    modes = iter(["plan", "manual", "plan"])
    shell.before_each = lambda: shell.world.context.permissions.set_mode(next(modes))  # type: ignore[arg-type]
    shell.run(["touch a", "touch b", "touch c"])
    assert sorted(path.name for path in shell.folder.glob("[abc]")) == ["b"]


def test_in_a_project_set_read_only_each_write_is_asked_about(tmp_path: Path) -> None:
    shell = WalledWorld(tmp_path / "project", sandbox=SandboxSettings(project="read-only"))
    shell.run(["touch a"], Allow("once"))
    assert shell.asked == ["walled off: write a (touch)"] and (shell.folder / "a").exists()


@pytest.mark.parametrize("mode", ["bypassPermissions", "manual"])
def test_what_runs_open_is_not_held(tmp_path: Path, mode: Mode) -> None:
    line = "git config a.b c"
    shell = WalledWorld(tmp_path / "project", mode, allow=(Rule(OPENING, line),)).run([line])
    assert "b = c" in shell.config and shell.world.approver.questions == []


def test_switched_off_a_command_is_asked_about_and_runs_open(tmp_path: Path) -> None:
    shell = WalledWorld(tmp_path / "project", sandbox=SandboxSettings("off"))
    shell.run(["git config a.b c"], Allow("once"))
    assert shell.asked == [""] and "b = c" in shell.config


def test_what_was_refused_to_a_background_command_is_told_with_its_end(shell: WalledWorld) -> None:
    def start(self: WalledWorld) -> None:
        steps = [Reply((calls("bash", command="git config a.b c", run_in_background=True),)), "done"]
        steps += [Reply((calls("bash", job="b1"),)), "done"]
        with world(steps, self.folder) as self.world:
            asyncio.run(self._run(2))

    start(shell)
    assert shell.asked == []
    assert f"[{QUESTION}: the wall holds" in shell.texts


def test_a_guarded_file_that_a_command_makes_is_reported(shell: WalledWorld) -> None:
    shell.run(["mkdir .vscode && echo {} >.vscode/tasks.json"])
    assert "a walled command made .vscode, which other programs act on: look at it" in shell.texts


def test_the_model_is_told_of_the_wall_where_there_is_one(shell: WalledWorld) -> None:
    told: list[tuple[str, ...]] = []

    def look() -> None:
        told.append(shell.world.context.settings.system)

    shell.before_each = look
    shell.run(["true"])
    wall = shell.world.context.wall
    assert wall is not None and wall.text == WALL_TEXT


class NoWall(CommandRunner):
    """Commands on a system that gives no wall."""

    async def wall(self) -> tuple[WallLevel, str]:
        await self.supervisor()
        return "none", "the kernel is too old"


@pytest.mark.parametrize("required", [False, True])
def test_without_a_wall_it_is_said_and_where_one_is_required_nothing_begins(
    tmp_path: Path, required: bool
) -> None:
    async def work(made: World) -> str:
        context = made.context
        context.tool_context.environ = {"PATH": os.environ["PATH"]}
        context.tool_context.jobs = NoWall(context.tool_context)
        sandbox = SandboxSettings("require" if required else "auto")
        context.permissions = PermissionStore(PermissionRules(), sandbox=sandbox)
        context.wall = SessionWall(context.tool_context, context.permissions, tmp_path)
        try:
            return await raise_wall(made.session, context)
        except ConfigError as error:
            return f"no start: {error}"
        finally:
            await end_session(made.session, context)
            await context.model.close()  # type: ignore[attr-defined]

    with world([], tmp_path) as made:
        said = asyncio.run(work(made))
    why = "(the kernel is too old)"
    assert why in said and said.startswith(
        "no start: sandbox is" if required else "Commands are not walled in"
    )
