"""The lines that a session begins with."""

from pathlib import Path

from tests.agent.commands.controller_run import ControllerRun, run_controller


def test_a_session_begins_with_what_it_works_with_the_last_one_and_what_to_try(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/feature\n")

    async def begin(run: ControllerRun) -> None:
        first, *rest = run.text().splitlines()
        assert "with claude-sonnet-5-5 in " in first and first.endswith(f"{tmp_path.name} (feature)")
        assert rest == [
            'Try "what does this project do?", or name a file with @; /help lists commands and keys'
        ]
        await run.do("say hello to all of them, in every language that there is")

    async def begin_again(run: ControllerRun) -> None:
        _, last, _ = run.text().splitlines()
        assert last == (
            "Last session, just now: 'say hello to all of them, in every lang…'; makeroom -c goes on with it"
        )

    run_controller(tmp_path, begin)
    run_controller(tmp_path, begin_again, verified=False)
