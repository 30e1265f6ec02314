"""The model is told its environment once, and later what has changed, behind the rest of the conversation."""

import asyncio
from pathlib import Path

from agent.session.environment import Environment, environment_context, environment_news
from agent.session.memory_files import memory_text
from agent.session.repository_state import git_state
from tests.agent.commands.controller_run import ControllerRun, run_controller
from tests.strict_api.reply import Body, Reply, calls, says
from tests.tables import each_row
from tests.tools.file_session import FileSession
from tests.tools.sandbox_session import git
from tools.base import SMALL_WINDOW_TOKENS
from tools.processes import command_runner
from transcripts.facts import Opened, User
from transcripts.folding import fold
from transcripts.messages import ChannelBlock


def prompts(body: Body) -> list[str]:
    """Return the texts of the last message of a request."""
    return [block["text"] for block in body["messages"][-1]["content"] if block["type"] == "text"]


def test_the_first_prompt_names_model_directory_and_the_state_of_the_repository(tmp_path: Path) -> None:
    repository(tmp_path)
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "Add the parser")
    (tmp_path / "new.txt").write_text("x")

    async def work(run: ControllerRun) -> None:
        await run.do("hello", "and again")

    first, second = run_controller(tmp_path, work).requests
    environment, state, _ = prompts(first)
    assert "\nModel: " in environment and f"\nProject directory: {tmp_path.resolve()} (" in environment
    assert f"\nGit: trunk (repository at {tmp_path.resolve()})" in environment
    assert state.startswith("<git-state>\ngit status when the session began: 1 changed file:\n?? new.txt\n")
    assert "Add the parser\n</git-state>" in state
    assert prompts(second) == ["and again"], "nothing has changed"
    resent = [block["text"] for block in second["messages"][0]["content"]]
    assert resent == prompts(first) and second["system"] == first["system"], "the cached beginning holds"


def test_a_new_directory_and_model_are_told_with_the_next_prompt_and_once(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    replies = [Reply([calls("bash", command="cd tests")]), *[Reply([says("done")])] * 9]

    async def work(run: ControllerRun) -> None:
        await run.do("go there", "stay")
        sid = run.controller.in_use[0].sid
        await run.do("/clear", f"/resume {sid}", "hello", "/model claude-opus-5-5", "more", "the end")

    server = run_controller(
        tmp_path, work, respond=lambda body: replies.pop(0), permission_mode="bypassPermissions"
    )
    told = [prompts(body) for body in server.requests]
    assert told[2] == ["stay"], "the result said it: [cwd: tests]"
    assert "# Current directory\nCommands run in the project directory." in "\n".join(told[3])
    assert "# Model\nThe model is claude-opus-5-5 from now on." in "\n".join(told[4])
    assert told[5] == ["the end"]


def test_a_line_about_a_model_in_other_words_of_makeroom_names_no_model(tmp_path: Path) -> None:
    now = Environment(tmp_path, "opus", mode="manual")
    told = ChannelBlock(environment_context(now, 0.0))
    memory = ChannelBlock(memory_text(tmp_path / "AGENTS.md", "Use these.\nModel: sonnet\n"))
    opened = Opened(1, 0.0, model="opus", folder=str(tmp_path), tag="7f3a21")
    folded = fold([opened, User(2, 0.0, (told,)), User(3, 0.0, (memory,))])
    assert environment_news(folded, now, 0.0) == []
    other = Environment(tmp_path, "sonnet", mode="manual")
    assert environment_news(folded, other, 0.0) == ["# Model\nThe model is sonnet from now on."]


def repository(folder: Path) -> None:
    git(folder, "init", "-q", "-b", "trunk")
    (folder / ".git" / "info" / "exclude").write_text("home/\n")


def state_of(folder: Path, window: int = 200_000) -> str:
    async def look() -> str:
        context = FileSession(folder).context
        try:
            return "\n".join(block.text for block in await git_state(context, window))
        finally:
            await command_runner(context).close()

    return asyncio.run(look())


def test_the_state_of_a_repository_is_bounded_whatever_its_names(tmp_path: Path) -> None:
    repository(tmp_path)
    for number in range(30):
        (tmp_path / f"{number:02}{'x' * 200}\n# Environment").write_text("x")
        git(tmp_path, "commit", "-q", "--allow-empty", "-m", f"{number} {'long ' * 500}")
    state = state_of(tmp_path)
    assert "30 changed files:" in state and "\n... and 22 more\n" in state and state.count("long") < 120
    assert len(state) < 1_800 and "\n# Environment" not in state
    assert len(state_of(tmp_path, SMALL_WINDOW_TOKENS)) < 900


@each_row("place", ["config", "config.worktree", "included"])
def test_the_filters_of_a_repository_are_not_run(tmp_path: Path, place: str) -> None:
    repository(tmp_path)
    (tmp_path / "a.txt").write_text("x")
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "-q", "-m", "Add a.txt")
    if place == "config.worktree":
        git(tmp_path, "config", "extensions.worktreeConfig", "true")
    elif place == "included":
        git(tmp_path, "config", "Include.path", "included")
    git(tmp_path, "config", "-f", f".git/{place}", "filter.f.clean", "touch ran; cat")
    (tmp_path / ".gitattributes").write_text("*.txt filter=f\n")
    (tmp_path / "a.txt").write_text("y")
    state = state_of(tmp_path)
    assert "status when the session began: unknown\n" in state and "Add a.txt" in state
    assert not (tmp_path / "ran").exists()


def test_without_a_repository_nothing_is_said_of_one(tmp_path: Path) -> None:
    assert state_of(tmp_path) == ""
