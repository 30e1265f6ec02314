"""Commands in the sandbox, from the model's call to the result: questions, notices and effects."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socketserver
import subprocess
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from agent.app.session_factory import describe_sandbox, end_session, warn_without_sandbox
from agent.checkpoints.recorder import Checkpoints
from agent.checkpoints.snapshot import SnapshotLimits
from agent.errors import ConfigError
from agent.events import Notice, ToolCallFinished, TurnFinished
from agent.loop.call_permission import remark_note
from agent.loop.session_sandbox import SessionSandbox
from agent.loop.tool_executor import SAID_ABOUT_LEAVING
from agent.loop.uncovered_files import UNCOVERED
from agent.permissions import (
    OPENING,
    REACHING,
    Mode,
    PermissionRules,
    PermissionStore,
    Rule,
    SandboxSettings,
    stored_openings,
    stored_places,
    stored_rules,
)
from agent.permissions.rules import REPLACED
from agent.ports import Allow, Deny, PermissionQuestion
from agent.session.memory_files import MemoryPlaces
from agent.shell import KnownPrograms, ProjectEnvironment
from agent.shell.program_names import own_programs_of
from agent.ui.approval import question_body, question_head
from agent.ui.approval_answers import DENIAL, approval_choices
from agent.ui.terminal_text import RenderContext, Theme
from tests.agent.checkpoints.project import copy_tree
from tests.narrowing import present
from tests.open_files import open_files
from tests.real_home import real_home
from tests.strict_api.reply import Reply, calls
from tests.strict_api.scripted_model import Step
from tests.tools.bash_session import BashSession
from tools.bash import TOOL
from tools.guarded import secret_search
from tools.processes.runner import CommandRunner, command_runner
from tools.registry import definitions
from tools.sandbox.profile import SandboxLevel, SandboxProfile
from tools.sandbox.project_profile import sandbox_profile
from transcripts.facts import Result

from .world import Answers, World, world

QUESTION = "blocked: write .git/config (git)"


@dataclass
class SandboxedWorld:
    """A repository in which a model runs command lines, one per turn; keeps questions and notices."""

    folder: Path
    chosen: SandboxSettings = field(default_factory=SandboxSettings)
    environ: dict[str, str] = field(default_factory=dict)
    checkpoint_limits: SnapshotLimits = field(default_factory=SnapshotLimits)
    before_each: Callable[[], None] = lambda: None
    mode: Mode = "manual"
    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    template: Path | None = None  # copied in place of an empty repository
    world: World = field(init=False)

    def __post_init__(self) -> None:
        for folder in (self.folder, self.folder.parent / "home"):
            folder.mkdir(parents=True)
        if self.template is not None:
            copy_tree(self.template, self.folder)
            return
        environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
        subprocess.run(["git", "init", "-q", self.folder], check=True, env=environ)

    def run(self, lines: list[str], *answers: Allow | Deny) -> SandboxedWorld:
        """Run a turn for each line; skips the test where there is no sandbox."""
        steps = [step for line in lines for step in (Reply((calls("bash", command=line),)), "done")]
        return self.play(steps, len(lines), *answers)

    def play(self, steps: Iterable[Step], turns: int, *answers: Allow | Deny) -> SandboxedWorld:
        with world(steps, self.folder, *answers) as self.world:
            asyncio.run(self._run(turns))
            assert list(self.world.server.refused) == []
        return self

    async def _run(self, turns: int) -> None:
        context, session = self.world.context, self.world.session
        context.tools = {"bash": TOOL}
        context.settings = replace(context.settings, tools=definitions([TOOL]))
        context.tool_context.journals = self.folder.parent / "state" / "journals"
        places = {"HOME": str(real_home()), "XDG_STATE_HOME": str(self.folder.parent / "state")}
        context.tool_context.environ = {"PATH": os.environ["PATH"], **places, **self.environ}
        store = context.permissions = self.store
        context.checkpoints = Checkpoints(
            self.folder, "test", lambda: session.folded.last_seq, self.checkpoint_limits
        )
        sandbox = context.sandbox = SessionSandbox(context.tool_context, store, real_home())
        try:
            await sandbox.warm()
            if sandbox.level == "none" and self.chosen.mode != "off":
                pytest.skip(f"no wall here: {sandbox.why}")
            for _ in range(turns):
                self.before_each()
                await self.world.turn("go")
                await asyncio.gather(*(job.has_ended.wait() for job in self.runner.jobs.values()))
        finally:
            await end_session(session, context)
            await context.model.close()

    @property
    def store(self) -> PermissionStore:
        reading = ProjectEnvironment(str(self.folder), {"PATH": os.environ["PATH"]})
        rules = PermissionRules(
            folder=str(self.folder), reading=lambda: reading, mode=self.mode, deny=self.deny, ask=self.ask
        )
        return PermissionStore(rules, self.granted, sandbox=self.chosen)

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
        """The notes on the user's line of each call."""
        return [event.result.human.note for event in self.world.told(ToolCallFinished)]

    @property
    def config(self) -> str:
        return (self.folder / ".git" / "config").read_text()


@pytest.fixture
def shell(tmp_path: Path) -> SandboxedWorld:
    return SandboxedWorld(tmp_path.resolve() / "project")


def test_commands_cannot_read_or_write_what_rules_withhold_from_the_file_tools(tmp_path: Path) -> None:
    deny = (Rule("read", "secrets/**"), Rule("edit", "docs/*"), Rule("read", "absent"), Rule("read", "*.x"))
    shell = SandboxedWorld(tmp_path.resolve() / "project", deny=deny, ask=(Rule("read", "notes"),))
    for name in ("secrets/key", "docs/page", "notes", "plain"):
        (shell.folder / name).parent.mkdir(exist_ok=True)
        (shell.folder / name).write_text(f"text of {name}")
    lines = ["cat secrets/key", "sh -c 'cat s*/k*'", "echo x >>docs/page", "cat notes", "cat plain"]
    shell.run(lines, Deny())
    if (sandbox := shell.world.context.sandbox) is None or sandbox.level == "landlock":
        pytest.skip("Landlock hides nothing within a project")
    assert "text of secrets" not in shell.texts and "text of notes" not in shell.texts
    assert "text of plain" in shell.texts and (shell.folder / "docs/page").read_text() == "text of docs/page"
    assert "the rule read(secrets/**) denies this" in shell.texts
    assert "the rule edit(docs/*) denies this" in shell.texts
    (question,) = shell.world.approver.questions
    assert question.refused.startswith("blocked: read notes") and not question.through


def test_with_landlock_a_line_that_names_a_file_with_secrets_needs_approval(tmp_path: Path) -> None:
    """Landlock cannot hide it. Other sandboxes do, and ask when a command was refused it."""
    off = {"MAKEROOM_NAMESPACE": "off"}
    shell = SandboxedWorld(tmp_path.resolve() / "project", environ=off)
    (shell.folder / "web").mkdir()
    (shell.folder / "web/.env").write_text("PLAIN=value of it\n")
    (shell.folder / "a.txt").write_text("text of a\n")
    reading = ["cat web/.env", "cd web && sort < .env", "cat web/.e*"]
    shell.run([*reading, "test -f web/.env", "cat a.txt; touch b"], *[Deny()] * 3)
    if (sandbox := shell.world.context.sandbox) is None or sandbox.level != "landlock":
        pytest.skip("the sandbox here hides files of the project")
    why = "it names web/.env, which may contain secrets"
    assert [(each.title, each.why) for each in shell.world.approver.questions] == [
        (line, why) for line in reading
    ]
    assert "value of it" not in shell.texts and "text of a" in shell.texts


def test_with_landlock_a_line_that_names_a_denied_file_is_denied(tmp_path: Path) -> None:
    """The user is told once that programs can still read it."""
    off = {"MAKEROOM_NAMESPACE": "off"}
    shell = SandboxedWorld(tmp_path.resolve() / "project", deny=(Rule("read", "*.pem"),), environ=off)
    for name in ("a.pem", "plain"):
        (shell.folder / name).write_text(f"text of {name}")
    shell.run(["cat plain", "cat a.pem", "grep -r text .", "cat plain"], Deny())
    if (sandbox := shell.world.context.sandbox) is None or sandbox.level != "landlock":
        pytest.skip("the sandbox here hides files of the project")
    assert "text of plain" in shell.texts and "text of a.pem" not in shell.texts
    assert "the rule read(*.pem) denies this" in shell.texts
    (question,) = shell.world.approver.questions
    assert question.why == "it may read a.pem, which the rule read(*.pem) denies"
    warnings = [notice.text for notice in shell.world.told(Notice) if notice.level == "warning"]
    assert [text.partition(":")[0] for text in warnings] == ["Landlock cannot withhold files of the project"]


def test_the_user_is_told_once_that_rules_match_too_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_search, "MAX_MATCHING", 2)
    shell = SandboxedWorld(tmp_path.resolve() / "project", deny=(Rule("read", "*.pem"),))
    for name in "abc":
        (shell.folder / f"{name}.pem").touch()
    shell.run(["true", "true"])
    (warning,) = (notice.text for notice in shell.world.told(Notice) if notice.level == "warning")
    assert warning.startswith("deny and ask rules with wildcards match too many paths")


def test_a_directory_above_a_file_that_must_not_be_edited_is_moved_back(tmp_path: Path) -> None:
    """Programs can rename files between such directories, so they are no mounts of their own."""
    deny = (Rule("edit", "db/*/schema.rb"), Rule("edit", "conf/main.yml"))
    shell = SandboxedWorld(tmp_path.resolve() / "project", deny=deny)
    for name in ("db/1/schema.rb", "db/1/other", "conf/main.yml", "lib/a"):
        (shell.folder / name).parent.mkdir(exist_ok=True, parents=True)
        (shell.folder / name).write_text(f"text of {name}")
    lines = [
        "mv db/1 x && mkdir db/1 && cp x/schema.rb db/1 && echo evil >>db/1/schema.rb",
        "mv db lib/away",
        "echo evil >>lib/away/1/schema.rb; mv lib/away db",
        "mv conf z && mkdir conf && mv z conf/z; echo evil >conf/main.yml",
        'python3 -c \'import os; os.rename("db/1/other", "conf/other")\'',
    ]
    shell.run(lines, *[Deny()] * 5)
    if (sandbox := shell.world.context.sandbox) is None or sandbox.level == "landlock":
        pytest.skip("Landlock makes nothing read-only within a project")
    for name in ("db/1/schema.rb", "conf/main.yml"):
        assert (shell.folder / name).read_text() == f"text of {name}"
    assert (shell.folder / "conf/other").read_text() == "text of db/1/other"
    assert "moved db/1, which leads to protected files: moved back" in shell.texts
    assert "moved conf, which leads to protected files: moved back; what was in" in shell.texts
    assert not (shell.folder / "lib/away").exists() and len(list((shell.folder / "db").iterdir())) == 2


def test_commands_cannot_read_or_write_what_rules_with_wildcards_withhold(tmp_path: Path) -> None:
    deny = (*map(Rule, ["read"] * 3, ["*.pem", "conf/*.yml", "*/private/**"]), Rule("edit", "db/*/schema*"))
    shell = SandboxedWorld(tmp_path.resolve() / "project", deny=deny, ask=(Rule("read", "*.note"),))
    hidden = ("a.pem", "src/deep/b.pem", "conf/c.yml", "src/private/d")
    for name in (*hidden, "conf/e.txt", "src/f.yml", "g.note", "db/1/schema.rb", "node_modules/h/i.pem"):
        (shell.folder / name).parent.mkdir(exist_ok=True, parents=True)
        (shell.folder / name).write_text(f"text of {name}")
    lines = [f"cat {name}" for name in (*hidden, "conf/e.txt src/f.yml")]
    lines += [
        "sh -c 'cat *.p*m'",
        "echo x >>db/1/schema.rb",
        "cat g.note",
        "cp conf/e.txt new.pem",
        "cat new.pem",
    ]
    shell.run(lines, Deny())
    if (sandbox := shell.world.context.sandbox) is None or sandbox.level == "landlock":
        pytest.skip("Landlock hides nothing within a project")
    for name in (*hidden, "g.note"):
        assert f"text of {name}" not in shell.texts
    assert (
        "text of conf/e.txttext of src/f.yml" in shell.texts and shell.texts.count("text of conf/e.txt") == 1
    )
    assert (shell.folder / "db/1/schema.rb").read_text() == "text of db/1/schema.rb"
    assert "the rule read(*.pem) denies this" in shell.texts
    assert "the rule edit(db/*/schema*) denies this" in shell.texts
    (question,) = shell.world.approver.questions
    assert question.refused.startswith("blocked: read g.note") and not question.through


def test_the_rules_of_another_session_in_the_project_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = BashSession(tmp_path.resolve())
    folder = session.folder
    (folder / "a.pem").write_text("")

    def profile_of(*deny: Rule) -> SandboxProfile:
        store = PermissionStore(PermissionRules(folder=str(folder), deny=deny))
        return SessionSandbox(session.context, store, folder)._inspect()[0]

    other = threading.Thread(target=profile_of)

    def interrupted(*args: Any) -> SandboxProfile:
        profile = sandbox_profile(*args)
        if threading.current_thread() is not other:
            other.start()
            other.join()
        return profile

    monkeypatch.setattr("tools.sandbox.sandbox_profile", interrupted)
    profile = profile_of(Rule("read", "*.pem"))
    other.join()
    session.close()
    session.runner.close()
    assert folder / "a.pem" in profile.hidden


def test_commands_cannot_rename_a_directory_to_get_around_a_rule(tmp_path: Path) -> None:
    deny = (Rule("read", "conf/*.yml"), Rule("read", "a/secrets/**"), Rule("read", "*.pem"))
    shell = SandboxedWorld(tmp_path.resolve() / "project", deny=deny)
    for name in ("conf/c.yml", "a/secrets/d", "src/e.pem"):
        (shell.folder / name).parent.mkdir(parents=True)
        (shell.folder / name).write_text(f"text of {name}")
    shell.run(["mv conf x", "cat x/c.yml", "mv a y", "cat y/secrets/d", "mv src z", "cat z/e.pem"])
    if (sandbox := shell.world.context.sandbox) is None or sandbox.level == "landlock":
        pytest.skip("Landlock hides nothing within a project")
    assert "text of" not in shell.texts
    assert "blocked: write conf (mv): the rule read(conf/*.yml) denies this" in shell.texts
    assert "blocked: write a (mv): the rule read(a/secrets/**) denies this" in shell.texts
    assert {"a", "conf", "z"} < {path.name for path in shell.folder.iterdir()}


def test_a_command_needs_no_question_and_what_it_changed_is_listed(shell: SandboxedWorld) -> None:
    """Many files are counted for the user but not reported to the model; guarded ones are reported."""
    for name in ("old", "away"):
        (shell.folder / name).write_text(name)
    many, guarded = "touch f{1..9}", "mkdir .vscode && echo {} >.vscode/tasks.json"
    shell.run(["echo a >new; mkdir d; echo b >'d/b c'; echo c >old; rm away; echo one", many, guarded])
    assert shell.world.approver.questions == []
    assert "one" in shell.texts and "[files: changed old; new d/b c new; deleted away]" in shell.texts
    assert shell.notes[0].endswith("changed old, new d/b c new, deleted away")
    (first, *_) = (fact for fact in shell.world.record.facts if isinstance(fact, Result))
    assert first.about["changed"] == {"old": "changed", "new": "new", "d/b c": "new", "away": "gone"}
    assert (shell.folder / "new").read_text() == "a\n"
    assert shell.notes[1].endswith("new f1 f2 and 7 more files") and "f1" not in shell.texts
    assert (
        "check .vscode: a sandboxed command or another process created it, and other programs act on it"
        in shell.texts
    )


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        (SnapshotLimits(max_reading_seconds=-1), ["rm a", "echo new >b"]),
        (SnapshotLimits(max_files=1), ["rm a", "touch c", "echo new >b"]),
    ],
)
def test_where_no_checkpoint_covers_the_project_the_question_comes_back(
    tmp_path: Path, limits: SnapshotLimits, asked: list[str]
) -> None:
    """If only contents are missing, only lines that delete or overwrite matter; the user is warned once."""
    shell = SandboxedWorld(tmp_path / "project", checkpoint_limits=limits)
    for name in "ab":
        (shell.folder / name).write_text(name)
    shell.run(["ls", "rm a", "touch c", "echo new >b"], *[Deny() for _ in asked])
    questions = shell.world.approver.questions
    assert [question.title for question in questions] == asked
    named = {"rm a": "/rewind could not restore a", "echo new >b": "/rewind could not restore b"}
    for question in questions:
        assert question.why == (named[question.title] if len(asked) == 2 else UNCOVERED)
    assert (shell.folder / "a").exists() and (shell.folder / "b").read_text() == "b"
    warned = [notice for notice in shell.world.told(Notice) if "project is" in notice.text]
    assert len(warned) <= 1 and (len(asked) == 3 or "are not in the checkpoint yet" in warned[0].text)


def test_a_question_says_whether_the_line_would_run_outside_the_sandbox(tmp_path: Path) -> None:
    shell = SandboxedWorld(tmp_path / "project", ask=(Rule("bash", "touch"),))
    shell.run(["git push git@example.org:a", "touch a"], Deny(), Deny())
    asked = {question.title: question.outside for question in shell.world.approver.questions}
    assert asked == {"git push git@example.org:a": True, "touch a": False}


def test_where_edits_are_accepted_no_question_is_in_for_a_checkpoint(tmp_path: Path) -> None:
    limits = SnapshotLimits(max_files=1)
    shell = SandboxedWorld(tmp_path / "project", checkpoint_limits=limits, mode="acceptEdits")
    (shell.folder / "a").write_text("a")
    shell.run(["rm a"])
    assert shell.world.approver.questions == []
    assert not (shell.folder / "a").exists()


def test_a_project_that_is_moved_away_is_not_created_again_and_the_model_is_informed(
    shell: SandboxedWorld,
) -> None:
    away = shell.folder.with_name("away")

    def move() -> None:
        if "b1" in shell.runner.jobs:
            shell.folder.rename(away)

    shell.before_each = move
    background = Reply((calls("bash", command="seq 100000", run_in_background=True),))
    shell.play([background, "done", Reply((calls("bash", command="echo a > new; seq 100000"),)), "done"], 2)
    assert (
        f"The project's directory {shell.folder} does not exist" in shell.texts
        and "[files:" not in shell.texts
    )
    assert not shell.folder.exists() and not (away / "new").exists()
    assert shell.world.approver.questions == [] and shell.world.told(Notice) == []
    found = MemoryPlaces(shell.folder, away).files()
    assert found == [], "a session that begins now is told the same, and no fault"


def test_a_blocked_access_needs_approval_once_and_a_denial_keeps_it_blocked(shell: SandboxedWorld) -> None:
    before = shell.config
    shell.run(["git config a.b c", "git config a.b c"], Deny("use a file of your own"), Deny("", stop=True))
    assert shell.asked == [QUESTION, QUESTION]
    assert "the user declined. Say what you need" in shell.texts
    assert f"{SAID_ABOUT_LEAVING} use a file of your own" in shell.texts
    assert all(note.endswith(QUESTION) for note in shell.notes)
    results = (fact for fact in shell.world.record.facts if isinstance(fact, Result))
    assert [result.remarks for result in results] == [(("", "use a file of your own"),), ()]
    assert shell.config == before
    assert [call.name for call in shell.world.context.permissions.denied] == ["bash", "bash"]
    assert [turn.reason for turn in shell.world.told(TurnFinished)] == ["done", "denied"]


def test_a_yes_runs_it_again_outside_the_sandbox_and_always_means_exactly_this_line(
    shell: SandboxedWorld,
) -> None:
    line = "git config a.b c; echo x >>ran"
    lines = [f"{line} && exit 4", "git config a.b d", "git config a.b d", "git config a.b e"]
    shell.run(lines, Allow("once"), Allow("always"), Deny())
    assert len(shell.asked) == 3 and "b = d" in shell.config
    assert "the user approved a rerun outside the sandbox; first run: blocked" in shell.texts
    assert (shell.folder / "ran").read_text() == "x\nx\n"
    assert stored_rules(shell.granted) == (Rule(OPENING, "git config a.b d"),)


def test_a_program_of_the_project_that_was_replaced_does_not_run_open_unasked(shell: SandboxedWorld) -> None:
    """The approval was for the program as it was then; another session knows it too."""
    tool = shell.folder / ".venv/bin/tool"
    tool.parent.mkdir(parents=True)
    tool.symlink_to("/usr/bin/true")
    line, plant = ".venv/bin/tool; git config a.b c", "ln -sf /usr/bin/env .venv/bin/tool"
    shell.run([line, line, plant, line, line], Allow("always"), Allow("once"), Deny(), Allow("always"))
    first, _, denied, again = shell.world.approver.questions
    assert (first.refused, first.prefix) == (QUESTION, f"open({line})")
    assert (denied.refused, denied.why, denied.prefix) == ("", REPLACED, f"open({line})")
    assert again.why == REPLACED and "b = c" in shell.config
    assert shell.texts.count("The user denied this call") == 1
    rules = shell.store.rules
    assert rules.reading is not None
    programs = own_programs_of(line, rules.folder, rules.reading())
    assert stored_openings(shell.granted) == {line: KnownPrograms(programs)}


def test_a_rewritten_makefile_is_not_run_outside_by_an_earlier_answer(shell: SandboxedWorld) -> None:
    """A sandboxed command cannot use the rule for `make install` to leave the sandbox."""
    (shell.folder / "Makefile").write_text("install:\n\tgit config a.b c\n")
    evil = "printf 'install:\\n\\tgit config a.b evil\\n' >Makefile"
    shell.run(["make install", "make install", evil, "make install"], Allow("always"), Deny())
    first, again = shell.world.approver.questions
    assert first.prefix == again.prefix == "open(make install)" and again.refused == ""
    assert again.why == "Makefile has changed since you allowed this line outside the sandbox"
    assert "b = c" in shell.config and "evil" not in shell.config


@pytest.mark.parametrize("line", ["make install", "make install; ssh nowhere.invalid true"])
def test_a_makefile_that_changes_while_the_question_is_open_is_asked_about_again(
    shell: SandboxedWorld, line: str
) -> None:
    """Whether the question comes before the command or after it was blocked."""
    makefile = shell.folder / "Makefile"
    makefile.write_text("install:\n\tgit config a.b c\n")

    class Rewriting(Answers):
        async def ask(self, question: PermissionQuestion) -> Allow | Deny:
            if not self.questions:  # and back, as a command in the background may do again and again
                makefile.write_text("install:\n\tgit config a.b evil\n")
                makefile.write_text("install:\n\tgit config a.b c\n")
            return await super().ask(question)

    def rewrite() -> None:
        shell.world.context.approver = shell.world.approver = Rewriting(Allow("once"), Deny())

    shell.before_each = rewrite
    shell.run([line])
    first, again = shell.world.approver.questions
    assert "Makefile" not in first.why
    assert again.why == "Makefile was changed while the question was open"
    assert "b = c" not in shell.config


@pytest.mark.skipif(shutil.which("ssh") is None, reason="there is no ssh here")
def test_a_program_that_cannot_work_inside_is_asked_about_before_it_runs(shell: SandboxedWorld) -> None:
    """Nothing of a denied line runs; an approved line runs outside, once."""
    line = "git config a.b c; ssh -F /dev/null -p 1 -o BatchMode=yes 127.0.0.1 true"
    shell.run([f"touch denied; {line}", line], Deny(), Allow("once"))
    denied, question = shell.world.approver.questions
    assert "ssh needs a direct network connection" in denied.why
    assert (question.refused, question.prefix) == ("", f"open({line})")
    assert not (shell.folder / "denied").exists() and "b = c" in shell.config
    assert "Connection refused" in shell.texts
    choices = [choice.text for choice in approval_choices(question)]
    assert choices[0] == "Yes, without the sandbox, this once" and f"open({line})" in choices[-1]


def test_a_place_that_is_allowed_widens_the_sandbox_for_this_project(
    shell: SandboxedWorld, outside: Path
) -> None:
    """You are asked once about each blocked access of a call."""
    lines = [f"echo a >{outside}/a && git config a.b c", f"echo b >{outside}/b"]
    shell.run(lines, Allow("through", remark="for the cache"), Deny())
    assert remark_note("for the cache") in shell.texts
    question = shell.world.approver.questions[0]
    assert question.through == f"write {outside}"
    assert shell.asked == [f"blocked: write {outside}/a (bash)", QUESTION]
    assert (outside / "a").read_text() == "a\n" and (outside / "b").read_text() == "b\n"
    assert stored_places(shell.granted) == {"write": (str(outside),)}
    assert any("revoke with /sandbox" in notice.text for notice in shell.world.told(Notice))


def repository(folder: Path) -> Path:
    """A repository with a commit, and what makes more of them possible."""
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    subprocess.run(["git", "init", "-q", folder], check=True, env=environ)
    commands = ("config user.name A", "config user.email a@example.org", "commit -qm one --allow-empty")
    for command in commands:
        subprocess.run(["git", "-C", folder, *command.split()], check=True, env=environ)
    return folder


@pytest.mark.parametrize("place", ["other", "other/.git"])
def test_in_what_else_may_be_written_nothing_that_steers_programs_is_changed(
    tmp_path: Path, place: str
) -> None:
    """Neither in a directory that is worked in too, nor in the git directory above a package."""
    other = repository(tmp_path.resolve() / "other")
    subprocess.run(["git", "-C", other, "worktree", "add", "-q", other.parent / "tree"], check=True)
    (other / ".claude").mkdir()
    before = (other / ".git/config").read_text()
    plant = f"cd {other}; echo evil >.git/hooks/pre-commit; echo evil >.claude/settings.json"
    steer = f"cd {other}; git config core.fsmonitor evil; echo evil >.git/worktrees/tree/commondir"
    move = f"cd {other}; mv .git/hooks .git/h; mv .git/worktrees w; mv .git g"
    commit = f"git -C {other} commit -qm two --allow-empty && git -C {other} log --format=%s"
    new = f"mkdir {other}/.git/info/; echo x >{other}/.git/info/attributes"
    shell = SandboxedWorld(
        tmp_path.resolve() / "project", SandboxSettings(write=(f"{other.parent}/{place}",))
    )
    shell.run([plant, steer, move, commit, new], *[Deny()] * 3)
    assert (other / ".git/config").read_text() == before
    assert not (other / ".git/hooks/pre-commit").exists() and not any((other / ".claude").iterdir())
    assert "evil" not in (other / ".git/worktrees/tree/commondir").read_text()
    assert "two\none" in shell.texts
    assert f"created {other}/.git/info/attributes, which controls git: " in shell.texts


def test_what_the_user_replaces_stays_kept_though_the_system_gives_a_number_again(
    tmp_path: Path, outside: Path
) -> None:
    """A mount goes with the file that it was over: git puts a new one in its place each time."""
    shell = SandboxedWorld(outside / "project")
    steering = shell.folder / ".git/config"

    def configure() -> None:
        before = steering.stat().st_ino
        for value in range(40):
            subprocess.run(["git", "-C", shell.folder, "config", "a.b", str(value)], check=True)
            if value and steering.stat().st_ino == before:
                break

    shell.before_each = configure
    shell.run([*["true"] * 4, "git config a.b c"], Deny())
    assert "b = c" not in shell.config and shell.asked == [QUESTION]


@pytest.mark.parametrize("how", ["removed", "replaced", "made anew"])
def test_what_is_worked_in_too_is_what_stands_there_when_a_command_begins(
    tmp_path: Path, outside: Path, how: str
) -> None:
    """Not the directory that was moved away meanwhile, nor one that is no more."""
    other = outside / "other"
    other.mkdir()

    def replace_it() -> None:
        if (other / "a").exists():
            other.rename(outside / "old") if how == "replaced" else shutil.rmtree(other)
            if how != "removed":
                other.mkdir()

    shell = SandboxedWorld(tmp_path.resolve() / "project", SandboxSettings(write=(str(other),)))
    shell.before_each = replace_it
    shell.run([f"touch {other}/{name}" for name in "cab"], Deny())
    assert not (outside / "old/b").exists()
    if how == "removed":
        assert f"{other}/b': No such file" in shell.texts
    else:
        assert (other / "b").exists()


def test_secrets_of_another_directory_are_as_those_of_the_project(tmp_path: Path, outside: Path) -> None:
    """Except one that the user allowed itself."""
    for name in (".env", "own/.env", "shown"):
        (outside / name).parent.mkdir(exist_ok=True)
        (outside / name).write_text(f"{name} is read")
    places = (str(outside), str(outside / "own/.env"))
    shell = SandboxedWorld(tmp_path.resolve() / "project", SandboxSettings(write=places))
    shell.run([f"cat {outside}/.env {outside}/own/.env {outside}/shown"], Deny())
    assert "own/.env is read" in shell.texts and "shown is read" in shell.texts
    if shell.world.context.sandbox is not None and shell.world.context.sandbox.level == "namespaces":
        assert ".env is read" not in shell.texts.replace("own/.env is read", "")
        assert shell.asked == [f"blocked: read {outside}/.env (cat)"]


@pytest.fixture
def worktree(tmp_path: Path) -> SandboxedWorld:
    """A project that is a worktree of the repository `main` beside it."""
    shell = SandboxedWorld(tmp_path.resolve() / "project")
    shutil.rmtree(shell.folder)
    main = repository(shell.folder.parent / "main")
    subprocess.run(["git", "-C", main, "worktree", "add", "-q", shell.folder], check=True)
    return shell


def test_what_a_commit_in_a_worktree_needs_is_allowed_by_one_answer(worktree: SandboxedWorld) -> None:
    """Files that steer the other checkouts of the repository stay unchanged."""
    git = worktree.folder.parent / "main/.git"
    names = ("config", "HEAD", "worktrees/project/commondir")
    kept = {name: (git / name).read_bytes() for name in names}
    commit = "echo {0} >f && git add f && git commit -qm {0} && git log --format=%s"
    steer = f"echo evil >{git}/hooks/pre-commit; git config core.fsmonitor evil"
    others = "HEAD info/attributes config.worktree commondir worktrees/x worktrees/project/commondir"
    plant = f"for f in {others}; do echo x >{git}/$f; done"
    lines = [commit.format("two"), commit.format("three"), steer, plant]
    worktree.run([*lines, "echo x >.git"], Allow("through"), *[Deny()] * 3)
    questions = worktree.world.approver.questions
    assert questions[0].through == f"write {git} (objects, refs, logs, worktrees/project)"
    assert "three\ntwo\none" in worktree.texts
    assert [question.through for question in questions[1:]] == ["", f"write {git}", ""]
    assert {name: (git / name).read_bytes() for name in names} == kept
    assert not any((git / name).exists() for name in ("hooks/pre-commit", "info/attributes", "commondir"))
    assert (worktree.folder / ".git").read_text() == f"gitdir: {git}/worktrees/project\n"


def test_one_answer_suffices_in_a_worktree_of_a_bare_repository(tmp_path: Path) -> None:
    """Which has no logs before the first commit there."""
    shell = SandboxedWorld(tmp_path.resolve() / "project")
    shutil.rmtree(shell.folder)
    bare = tmp_path.resolve() / "bare"
    subprocess.run(["git", "clone", "-q", "--bare", repository(tmp_path / "main"), bare], check=True)
    for name in ("user.name", "user.email"):  # which git does not guess on every machine
        subprocess.run(["git", "-C", bare, "config", name, "a"], check=True)
    subprocess.run(["git", "-C", bare, "worktree", "add", "-q", shell.folder], check=True)
    shell.run(["git commit -qm two --allow-empty && git log --format=%s"], Allow("through"))
    (question,) = shell.world.approver.questions
    assert question.through == f"write {bare} (objects, refs, logs, worktrees/project)"
    assert "two\none" in shell.texts
    assert (bare / "logs/refs/heads/project").exists()


def test_a_repository_that_was_allowed_and_emptied_is_put_back(tmp_path: Path) -> None:
    """Of the package's repository only the git directory was, of the other one all."""
    shell = SandboxedWorld(tmp_path.resolve() / "main/package")
    shutil.rmtree(shell.folder / ".git")
    whole = [repository(tmp_path.resolve() / name) for name in ("main", "other")]
    main, other = whole
    shell.chosen = SandboxSettings(write=(f"{main}/.git", str(other)))
    shell.run([f"rm -rf {main}/.git/* {other}/.git/*; ls {other}/.git"], Allow("once"))
    for top in whole:
        assert f"emptied {top}/.git: HEAD, " in shell.texts
        done = subprocess.run(["git", "-C", top, "log", "--format=%s"], capture_output=True, text=True)
        assert done.stdout == "one\n"


def test_emptied_repositories_within_the_project_are_put_back(tmp_path: Path) -> None:
    """A submodule's, and that of a checkout beside it."""
    shell = SandboxedWorld(tmp_path.resolve() / "project")
    library = str(repository(tmp_path / "lib"))
    add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library]
    subprocess.run(["git", "-C", shell.folder, *add, "lib"], check=True, capture_output=True)
    repository(shell.folder / "api")
    wipe = "import os\nos.system('rm -rf .git/modules/lib/* api; echo a >api/new')"
    (shell.folder / "wipe.py").write_text(wipe)  # nobody is asked, as no word of the line names them
    shell.run(["python3 wipe.py"])
    for git in (".git/modules/lib", "api/.git"):
        assert f"emptied {git}: HEAD, " in shell.texts
    for checkout in ("lib", "api"):
        look: list[str | Path] = ["git", "-C", shell.folder / checkout, "log", "--format=%s"]
        assert subprocess.run(look, capture_output=True, text=True).stdout == "one\n"


def test_an_emptied_repository_of_a_worktree_is_put_back(worktree: SandboxedWorld) -> None:
    """Of which only parts can be written."""
    git = worktree.folder.parent / "main/.git"
    wipe = f"rm -rf {git}/objects/* {git}/refs/* {git}/worktrees/project/*"
    lines = ["git commit -qm two --allow-empty", f"{wipe}; ls {git}/objects"]
    worktree.run(lines, Allow("through"), Allow("once"))
    assert f"emptied {git}: objects, refs, worktrees were restored" in worktree.texts
    look: list[str | Path] = ["git", "-C", worktree.folder, "log", "--format=%s"]
    assert subprocess.run(look, capture_output=True, text=True).stdout == "two\none\n"


def test_an_access_that_git_reports_without_a_path_needs_approval_too(worktree: SandboxedWorld) -> None:
    """The worktree's own directory was allowed alone, as older versions offered it."""
    git = worktree.folder.parent / "main/.git"
    worktree.chosen = SandboxSettings(write=(f"{git}/worktrees/project",))
    worktree.run(["echo two >f && git add f && git commit -qm two && git log --format=%s"], Allow("through"))
    assert worktree.asked == [f"blocked: write {git}/objects (git)"]
    assert "two\none" in worktree.texts


def test_what_a_package_commits_to_a_repository_for_temporary_files_is_not_lost(tmp_path: Path) -> None:
    """/tmp is private in the sandbox, except the git directory that the project belongs to."""
    shell = SandboxedWorld(tmp_path.resolve() / "main" / "package")
    shutil.rmtree(shell.folder / ".git")
    main = repository(tmp_path.resolve() / "main")
    shell.run(["git commit -qm two --allow-empty && git log --format=%s"], Allow("through"))
    assert shell.asked == [f"blocked: write {main}/.git/index.lock (git)"]
    assert "two\none" in shell.texts
    assert (main / ".git/COMMIT_EDITMSG").read_text() == "two\n"


def test_a_checkout_that_names_a_secret_as_its_git_directory_does_not_show_it(tmp_path: Path) -> None:
    """Neither where it lies below /tmp."""
    shell = SandboxedWorld(tmp_path.resolve() / "project")
    secret = repository(tmp_path.resolve() / "home/.ssh")
    sandbox = {"HOME": str(secret.parent)}
    profile = sandbox_profile(shell.folder, secret.parent, sandbox)
    shutil.rmtree(shell.folder / ".git")
    for shown in (secret, shell.folder.parent / "main"):
        git = shown / ".git" if shown == secret else repository(shown) / ".git"
        (shell.folder / ".git").write_text(f"gitdir: {git}\n")
        profile = sandbox_profile(shell.folder, secret.parent, sandbox)
        assert profile.shown == (() if shown == secret else (git,))


def connects_to(host: str, then: str = "head -1 <&3") -> str:
    """Return a line that requests a page through the proxy, and shows the first line of the answer."""
    request = f"GET http://{host}/ HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n"
    return f"exec 3<>/dev/tcp/127.0.0.1/${{http_proxy##*:}}; printf '{request}' >&3; {then}"


def test_a_connection_waits_for_the_answer_and_goes_on_after_a_yes(shell: SandboxedWorld) -> None:
    line = f"echo ran >>runs; {connects_to('files.example')} | tee answer; grep -v 403 answer"
    shell.run([line], Allow("through"))
    (question,) = shell.world.approver.questions
    assert question.waits and question.refused == "waiting to reach files.example (bash)"
    assert question.through == "reach files.example" and question.prefix is None
    assert stored_rules(shell.granted) == (Rule(REACHING, "files.example"),)
    assert "502" in (shell.folder / "answer").read_text()  # allowed, but there is no such host
    assert "[no connection: files.example " in shell.texts and "; the host is allowed]" in shell.texts
    assert (shell.folder / "runs").read_text() == "ran\n"


def test_a_host_is_asked_about_once_while_a_command_runs(shell: SandboxedWorld) -> None:
    twice = f"{connects_to('files.example')} | tee -a answer"
    shell.run([f"({twice}); ({twice}); ! grep 403 answer", twice], Allow("once"), Deny("no network, please"))
    assert shell.asked == ["waiting to reach files.example (bash)"] * 2
    assert (shell.folder / "answer").read_text().count("502") == 2
    assert stored_rules(shell.granted) == ()


def test_a_denied_host_is_not_asked_about_again_when_the_command_has_failed(shell: SandboxedWorld) -> None:
    shell.run([f"{connects_to('files.example')} | grep -v 403"], Deny("use the mirror"))
    assert shell.asked == ["waiting to reach files.example (bash)"]
    assert "[blocked: reach files.example: the user declined." in shell.texts
    assert "use the mirror" in shell.texts


def test_a_question_about_a_host_names_the_program_that_connects(shell: SandboxedWorld) -> None:
    """Not the first program of the line, and a name that a command made up is only shown if it is plain."""
    line = connects_to("files.example").replace("exec 3<>", "echo; exec 3<>")
    script = shell.folder / "fetch.sh"
    script.write_text(line)
    shutil.copy(shutil.which("bash") or "", shell.folder / "npm")
    odd = "a\tb), which you allowed.sh"
    lines = ["ls; bash fetch.sh; true", "./npm fetch.sh; true", f"cp fetch.sh '{odd}'; bash '{odd}'; true"]
    shell.run(lines, Deny(), Deny(), Deny())
    level = shell.world.context.sandbox.level if shell.world.context.sandbox is not None else ""
    named = ["bash fetch.sh", "npm", "bash"] if level == "namespaces" else []
    assert shell.asked == [f"waiting to reach files.example ({name})" for name in named]


def background(line: str) -> Reply:
    return Reply((calls("bash", command=line, run_in_background=True),))


def test_a_background_command_asks_about_its_own_hosts(shell: SandboxedWorld) -> None:
    """While another one runs in the foreground, which did not ask for that host."""
    waits = "until [ -e go ]; do sleep 0.01; done"
    job = background(f"{waits}; {connects_to('files.example', 'head -1 <&3 >answer')}; touch end")
    other = Reply((calls("bash", command="touch go; until [ -e end ]; do sleep 0.01; done; false"),))
    shell.play([job, other, "done"], 1, Deny("use the mirror"))
    (question,) = shell.world.approver.questions
    assert question.refused == "waiting to reach files.example (bash, background command b1)"
    assert question.title.startswith("until [ -e go ]")
    assert "403" in (shell.folder / "answer").read_text()
    assert "[blocked: reach files.example" not in shell.texts  # which the command in the foreground was not
    told = str(shell.world.context.tool_context.inbox.waiting) + shell.texts
    assert "b1: blocked: reach files.example: the user declined: use the mirror" in told


def test_an_answer_for_one_command_is_none_for_another_that_runs(shell: SandboxedWorld) -> None:
    fetch = connects_to("files.example", "head -1 <&3")
    waits = "until [ -e go ]; do sleep 0.01; done"
    job = background(f"{waits}; ({fetch}) >job; touch end")
    line = f"({fetch}) >own; touch go; until [ -e end ]; do sleep 0.01; done"
    shell.play([job, Reply((calls("bash", command=line),)), "done"], 1, Allow("once"), Deny())
    assert [question.refused for question in shell.world.approver.questions] == [
        "waiting to reach files.example (bash)",
        "waiting to reach files.example (bash, background command b1)",
    ]
    assert "502" in (shell.folder / "own").read_text() and "403" in (shell.folder / "job").read_text()


def without_address(question: str) -> str:
    """Return a question about a host without its private address, which it may have on this machine."""
    return re.sub(r", which has the private address [\d.:a-f]+,?", "", question)


@pytest.mark.parametrize("scope", ["once", "session", "through"])
def test_an_index_and_its_files_are_one_question(
    shell: SandboxedWorld, scope: Literal["once", "session", "through"]
) -> None:
    both = [connects_to(host, "head -1 <&3") for host in ("pypi.org", "files.pythonhosted.org")]
    shell.run([f"({both[0]}); ({both[1]}); true"], Allow(scope), Deny(), Deny())
    (first,) = shell.world.approver.questions  # also where the index is a mirror in a private network
    assert without_address(first.refused) == "waiting to reach pypi.org and files.pythonhosted.org (bash)"
    assert first.through == "reach pypi.org and files.pythonhosted.org"
    kept = stored_rules(shell.granted)
    hosts = ("pypi.org", "files.pythonhosted.org")
    assert kept == (tuple(Rule(REACHING, host) for host in hosts) if scope == "through" else ())


def test_a_denied_host_is_not_allowed_with_its_index(shell: SandboxedWorld) -> None:
    shell.deny = (Rule(REACHING, "files.pythonhosted.org"),)
    both = [connects_to(host, "head -1 <&3") for host in ("pypi.org", "files.pythonhosted.org")]
    shell.run([f"({both[0]}); ({both[1]} >answer); true"], Allow("session"), Deny(), Deny())
    assert without_address(shell.asked[0]) == "waiting to reach pypi.org (bash)"
    assert not any("files" in each for each in shell.asked)
    assert "403" in (shell.folder / "answer").read_text()


def test_a_host_can_be_allowed_for_the_session(shell: SandboxedWorld) -> None:
    fetch = f"({connects_to('files.example', 'head -1 <&3')})"
    other = f"({connects_to('other.example', 'head -1 <&3')})"
    shell.run([f"{fetch}; true", f"{fetch}; {other}; true"], Allow("session"), Deny())
    first, second = shell.world.approver.questions
    offered = [choice.text for choice in approval_choices(first)]
    assert "Yes, and let commands reach files.example in this session" in offered
    assert "other.example" in second.refused and stored_rules(shell.granted) == ()


@pytest.mark.parametrize("in_background", [False, True])
def test_escape_at_a_waiting_connection_denies_it_and_stops(
    shell: SandboxedWorld, in_background: bool
) -> None:
    """Also a program that would connect again and again."""
    line = f"while true; do ({connects_to('files.example', 'head -1 <&3')}) >>answers; sleep 0.02; done"
    call = background(line) if in_background else Reply((calls("bash", command=line),))
    shell.play([call, "done"], 1, Deny(stop=True))
    assert len(shell.asked) == 1
    if in_background:
        told = str(shell.world.context.tool_context.inbox.waiting) + shell.texts
        assert "b1: blocked: reach files.example: the user declined" in told
    else:
        assert "[blocked: reach files.example: the user declined." in shell.texts
        assert len(shell.world.server.requests) == 1  # the turn ends


def test_a_denied_host_of_a_rule_is_refused_without_a_question(shell: SandboxedWorld) -> None:
    def deny() -> None:
        store = shell.world.context.permissions
        store.rules = replace(store.rules, deny=(Rule(REACHING, "files.example"),))

    shell.before_each = deny
    shell.run([f"{connects_to('files.example')} | grep -v 403; true"])
    assert shell.asked == []


def test_a_host_of_an_ask_rule_is_asked_about_for_each_command_and_never_kept(shell: SandboxedWorld) -> None:
    def ask() -> None:
        store = shell.world.context.permissions
        store.rules = replace(store.rules, ask=(Rule(REACHING, "files.example"),))

    shell.before_each = ask
    shell.run([f"{connects_to('files.example')}; true"] * 2, Allow("once"), Allow("once"))
    assert shell.asked == ["waiting to reach files.example (bash)"] * 2
    for question in shell.world.approver.questions:
        assert question.through == ""
        first = next(iter(approval_choices(question)))
        assert first.text == "Yes, while this command runs"


@pytest.mark.parametrize("scope", ["session", "through"])
def test_a_port_of_this_machine_is_reached_once_the_user_allows_it(
    shell: SandboxedWorld, scope: Literal["session", "through"]
) -> None:
    class Greeting(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(b"welcome " + self.request.recv(100))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Greeting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        ask = f"(exec 3<>/dev/tcp/127.0.0.1/{port} && echo $0 >&3 && head -1 <&3)"
        ask = f"{ask} || (echo localhost:{port}: connection refused && false)"  # as clients report it
        other = f"(exec 3<>/dev/tcp/127.0.0.1/{port + 1}) 2>&1 | grep -c refused"
        shell.run([ask, ask, other], Allow(scope))
        server.shutdown()
    if (sandbox := shell.world.context.sandbox) is None or not sandbox.has_network:
        pytest.skip("Landlock allows no network")
    (question,) = shell.world.approver.questions
    assert question.refused.startswith(f"blocked: reach localhost:{port}")
    assert question_head(question) == f"Let commands connect to localhost:{port}?"
    assert [choice.text for choice in approval_choices(question)] == [
        "Yes, in this session, and rerun the command",
        DENIAL,
        f"Yes, and always allow commands in this project to reach localhost:{port}",
    ]
    rules = (Rule(REACHING, f"localhost:{port}"),)
    assert stored_rules(shell.granted) == (rules if scope == "through" else ())
    assert shell.texts.count("welcome ") == 2


def test_git_clean_leaves_our_own_files_alone_without_a_question(shell: SandboxedWorld) -> None:
    shell.run(["mkdir junk; touch junk/a", "git clean -fd"])
    assert shell.asked == []
    assert "Removing junk" in shell.texts and "busy" not in shell.texts


def test_what_was_blocked_in_a_line_that_succeeded_is_reported_without_a_question(
    shell: SandboxedWorld, outside: Path
) -> None:
    shell.run([f"touch {outside}/a 2>&1 | tail -3"])
    assert shell.asked == []
    told = f"[blocked: write {outside}/a (touch), although the command exited with code 0."
    assert told in shell.texts
    (finished,) = shell.world.told(ToolCallFinished)
    assert not finished.result.error and "blocked: write" in finished.result.human.note


def test_what_was_blocked_in_a_line_that_timed_out_is_reported(shell: SandboxedWorld, outside: Path) -> None:
    """A client may try again until its time is over."""
    line = f"touch {outside}/a; sleep 30"
    shell.play([Reply((calls("bash", command=line, timeout=300),)), "done"], 1)
    assert shell.asked == []
    assert (
        f"[blocked: write {outside}/a (touch). If that matters" in shell.texts and "timed out" in shell.texts
    )


def test_the_question_shows_what_the_command_said(shell: SandboxedWorld, outside: Path) -> None:
    shell.run([f"echo one; touch {outside}/a; echo package.json is missing; false"], Deny())
    (question,) = shell.world.approver.questions
    assert question.preview.output.startswith("one\ntouch: ")
    assert question.preview.output.endswith("\npackage.json is missing")
    assert "package.json is missing" in "\n".join(question_body(question, RenderContext(80, Theme(False))))


def test_where_the_sandbox_has_no_network_no_host_is_offered(tmp_path: Path) -> None:
    shell = SandboxedWorld(tmp_path / "project", environ={"MAKEROOM_NAMESPACE": "off"})
    fails = "echo 'curl: (6) Could not resolve host: files.example' >&2; exit 6"
    local = "echo 'fetching http://localhost/: Network is unreachable' >&2; exit 7"
    shell.run([fails, local], Deny(), Deny())
    if (sandbox := shell.world.context.sandbox) is None or sandbox.level != "landlock":
        pytest.skip("the wall here is another one")
    assert shell.asked == ["blocked: reach files.example (curl)", "blocked: reach localhost"]
    assert [question.through for question in shell.world.approver.questions] == ["", ""]
    assert shell.world.approver.questions[0].prefix == f"open({fails})"


def test_each_mode_has_its_sandbox_before_the_next_command(tmp_path: Path) -> None:
    """If no command may leave the sandbox, there is no question; commands outside it are not restricted."""
    shell = SandboxedWorld(tmp_path / "project")
    modes: list[Mode] = ["plan", "manual", "dontAsk", "bypassPermissions", "plan"]
    each = iter(modes)
    shell.before_each = lambda: shell.world.context.permissions.set_mode(next(each))
    lines = [
        "touch a",
        "touch b",
        "git config a.b c",
        "git config a.b d",
        "touch c",
    ]
    shell.run(lines)
    assert shell.asked == [] and sorted(path.name for path in shell.folder.glob("[abc]")) == ["b"]
    assert shell.texts.count("the mode is plan: access outside the sandbox is denied") == 2
    assert "the mode is dontAsk: access outside the sandbox is denied" in shell.texts
    assert "b = d" in shell.config


def test_in_a_project_set_read_only_each_write_needs_approval(tmp_path: Path) -> None:
    shell = SandboxedWorld(tmp_path / "project", chosen=SandboxSettings(project="read-only"))
    shell.run(["touch a"], Allow("once"))
    assert shell.asked == ["blocked: write a (touch)"] and (shell.folder / "a").exists()


def test_where_commands_can_only_read_files_are_kept_for_rewind_once_one_may_write(tmp_path: Path) -> None:
    """A home directory is read-only at first. Its files are neither compared nor copied for nothing."""
    chosen = SandboxSettings(project="read-only")
    shell = SandboxedWorld(tmp_path / "project", chosen=chosen)
    (shell.folder / "b").write_text("old")
    seen: list[bool] = []

    def look() -> None:
        checkpoints = shell.world.context.checkpoints
        assert checkpoints is not None
        seen.append(bool(checkpoints.scanner.store.digests()))

    shell.before_each = look
    shell.run(["bash -c true", "touch a", "bash -c true"], Allow("once"))
    assert shell.asked == ["blocked: write a (touch)"] and seen == [False, False, True]
    checkpoints = shell.world.context.checkpoints
    assert checkpoints is not None and [change.path for change in checkpoints.log.changes] == ["a"]
    small = SnapshotLimits(max_files=1)
    large = SandboxedWorld(tmp_path / "large" / "project", chosen=chosen, checkpoint_limits=small)
    for name in ("b", "c", "d"):
        (large.folder / name).write_text("old")
    large.run(["bash -c true"])
    assert large.asked == []


def test_with_the_sandbox_off_a_command_needs_approval_and_runs_without_one(tmp_path: Path) -> None:
    shell = SandboxedWorld(tmp_path / "project", chosen=SandboxSettings("off"))
    shell.run(["git config a.b c"], Allow("once"))
    assert shell.asked == [""] and "b = c" in shell.config


def test_what_was_blocked_in_a_background_command_is_reported_with_its_end(shell: SandboxedWorld) -> None:
    steps: list[Step] = [Reply((calls("bash", command="git config a.b c", run_in_background=True),)), "done"]
    steps += [Reply((calls("bash", job="b1"),)), "done"]
    shell.play(steps, 2)
    assert shell.asked == []
    assert f"[{QUESTION}: access cannot be changed" in shell.texts


def test_a_sandbox_that_is_lost_is_reported_and_commands_need_approval(shell: SandboxedWorld) -> None:
    async def none() -> tuple[SandboxLevel, str]:
        return "none", "it broke"

    each = iter([lambda: None, lambda: setattr(shell.runner, "sandbox", none)])
    shell.before_each = lambda: next(each)()
    shell.run(["true", "touch a"], Deny())
    (notice,) = [notice for notice in shell.world.told(Notice) if "sandbox" in notice.text]
    assert notice == Notice("the sandbox for commands has changed to none: it broke", "warning")
    assert shell.asked == [""] and not (shell.folder / "a").exists()
    assert "sandbox" not in present(shell.world.context.sandbox).text


class NoSandbox(CommandRunner):
    """Commands on a system that gives no sandbox."""

    looks = 0

    async def sandbox(self) -> tuple[SandboxLevel, str]:
        self.looks += 1
        await self.supervisor()
        return "none", "the kernel is too old"


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are listed in /proc")
def test_an_interrupted_look_at_the_sandbox_leaves_no_directory_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = threading.Event()
    goes_on = threading.Event()

    def look(*given: object) -> list[tuple[int, int, int]]:
        looks.set()
        assert goes_on.wait(30)
        return []

    async def work(made: World) -> None:
        sandbox = SessionSandbox(made.context.tool_context, PermissionStore(PermissionRules()), tmp_path)
        asked = asyncio.create_task(sandbox.first_profile())
        await asyncio.to_thread(looks.wait, 30)
        assert str(made.context.tool_context.folder) in {place for _, place in open_files()}
        asked.cancel()
        await asyncio.wait([asked])
        goes_on.set()
        while str(made.context.tool_context.folder) in {place for _, place in open_files()}:
            await asyncio.sleep(0.01)  # until the thread is done; for ever where they are left open
        await sandbox.close()

    monkeypatch.setattr("agent.loop.session_sandbox._identities", look)
    with world([], tmp_path) as made:
        asyncio.run(asyncio.wait_for(work(made), 30))


def test_the_kind_of_sandbox_is_found_out_once(tmp_path: Path) -> None:
    async def work(made: World) -> None:
        runner = made.context.tool_context.jobs = NoSandbox(made.context.tool_context)
        sandbox = SessionSandbox(made.context.tool_context, PermissionStore(PermissionRules()), tmp_path)
        try:
            assert (sandbox.is_known, runner.looks) == (False, 0)
            for _ in range(2):
                await sandbox.check()
                assert (sandbox.is_known, runner.looks) == (True, 1)
        finally:
            await runner.close()
            await made.context.model.close()

    with world([], tmp_path) as made:
        asyncio.run(work(made))


@pytest.mark.parametrize("required", [False, True])
def test_without_a_sandbox_it_is_said_and_where_one_is_required_nothing_begins(
    tmp_path: Path, required: bool
) -> None:
    async def work(made: World) -> None:
        context = made.context
        context.tool_context.environ = {"PATH": os.environ["PATH"]}
        context.tool_context.jobs = NoSandbox(context.tool_context)
        sandbox = SandboxSettings("require" if required else "auto")
        context.permissions = PermissionStore(PermissionRules(), sandbox=sandbox)
        context.sandbox = SessionSandbox(context.tool_context, context.permissions, tmp_path)
        try:
            await describe_sandbox(made.session, context)
            await warn_without_sandbox(context, made.events.append)
        except ConfigError as error:
            made.events.append(Notice(f"no start: {error}"))
        finally:
            await end_session(made.session, context)
            await context.model.close()

    with world([], tmp_path) as made:
        asyncio.run(work(made))
    (notice,) = made.told(Notice)
    assert "(the kernel is too old)" in notice.text
    assert notice.text.startswith("no start: sandbox is" if required else "commands are not sandboxed here")
