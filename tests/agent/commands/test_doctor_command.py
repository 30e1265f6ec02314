"""/doctor and /add-dir: what is wrong has a remedy, and another directory is worked in at once."""

import shutil
import socket
from pathlib import Path

import pytest

from agent.commands.doctor import Finding, probe_server
from agent.events import CommandOutput, Notice

from .controller_run import ControllerRun, run_controller


def test_the_doctor_reports_what_is_wrong_with_its_remedy(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        told = await run.do("/doctor")
        assert "ok  makeroom: " in told and "ok  API key: set" in told
        assert f"ok  server: {run.server.base_url}" in told
        assert "B free" in told
        assert "!   rg: not on PATH\n      install ripgrep" in told and "!!  bash: not on PATH" in told
        assert "!   terminal: dumb" in told and "set TERM to" in told
        assert run.events[-1] == Notice("1 problem found, 3 recommendations", "error")

    run_controller(tmp_path, work, environ={"PATH": "/nowhere", "TERM": "dumb"})


def test_the_doctor_reports_a_full_disk_and_the_colours_of_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    free = [190_000_000, 210_000_000]
    monkeypatch.setattr("shutil.disk_usage", lambda place: usage._replace(free=free[0]))

    async def work(run: ControllerRun) -> None:
        told = await run.do("/doctor")
        assert "MB free\n      free some disk space for transcripts" in told and "256 colours" in told
        free.pop(0)
        assert "free some disk space" not in await run.do("/doctor")

    run_controller(tmp_path, work, environ={"TERM": "xterm-256color"})


def test_an_mcp_server_that_failed_is_explained_and_can_be_switched(tmp_path: Path) -> None:
    configured = '{"mcpServers": {"foo": {"command": "no-such-program"}}}'
    usage = "usage: /mcp [reconnect NAME | off NAME | on NAME | login NAME]"
    failed = "foo (stdio, flag): failed: the program 'no-such-program' was not found; install it"

    async def work(run: ControllerRun) -> None:
        assert failed in await run.do("/mcp")
        told = await run.do("/doctor")
        assert "!!  MCP server foo: " in told and "no-such-program" in told and "/mcp reconnect" in told
        lines = {
            "/mcp start foo": f"unknown argument 'start' ({usage})",
            "/mcp on": usage,
            "/mcp off bar": "unknown MCP server 'bar'; configured: foo",
            "/mcp login foo": "/mcp: cannot log in to foo: it is a local program",
            "/mcp off foo": "foo (stdio, flag): disabled: it is disabled; /mcp on foo starts it",
            "/mcp": "foo (stdio, flag): disabled: it is disabled; /mcp on foo starts it",
            "/mcp on foo": failed,
            "/mcp reconnect foo": failed,
        }
        said = {line: await run.do(line) for line in lines}
        assert {line: text for line, text in said.items() if not text.startswith(lines[line])} == {}

    run_controller(tmp_path, work, mcp_config=(configured,))


def test_a_file_without_servers_is_called_so(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        for line in ("/mcp", "/mcp on foo"):
            assert (await run.do(line)).startswith("no MCP servers are configured; add one with ")

    run_controller(tmp_path, work, mcp_config=('{"mcpServers": {}}',))


def test_a_server_without_its_variable_needs_a_restart(tmp_path: Path) -> None:
    """Neither the environment nor an entry is read again before."""
    configured = '{"mcpServers": {"foo": {"command": "x", "env": {"KEY": "${NOT_SET}"}}}}'

    async def work(run: ControllerRun) -> None:
        told = f"{run.text()}{await run.do('/doctor')}"
        assert "NOT_SET, which is not set; restart makeroom after you correct this" in told
        assert "/mcp reconnect" not in told and "takes effect when makeroom is restarted" in told

    run_controller(tmp_path, work, mcp_config=(configured,))


def test_problems_of_extensions_are_told_once_and_listed_by_the_doctor(tmp_path: Path) -> None:
    folder = tmp_path / ".claude"
    (folder / "agents").mkdir(parents=True)
    (folder / "agents/one.md").write_text("---\nname: one\ndescription: d\nmaxTurns: x\n---\nDo it.")

    async def work(run: ControllerRun) -> None:
        await run.do("/trust all")
        assert run.text().count("maxTurns must be a number") == 1
        assert "maxTurns" not in await run.do("/plugin")
        assert "!!  settings: the agent in " in await run.do("/doctor")

    run_controller(tmp_path, work)


def test_commands_that_cannot_be_called_are_named_at_the_start_and_by_the_doctor(tmp_path: Path) -> None:
    (tmp_path / ".claude" / "commands").mkdir(parents=True)
    (tmp_path / ".claude" / "commands" / "cost.md").write_text("Count the cost.")

    async def work(run: ControllerRun) -> None:
        assert f"without effect: /cost in {tmp_path}/.claude/commands/cost.md (see /doctor)" in run.text()
        assert "/cost (makeroom has a command of this name)" in await run.do("/doctor")

    run_controller(tmp_path, work)


def test_files_that_are_ignored_for_the_same_reason_are_named_together(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "agents" / "memory"
    (folder / "old").mkdir(parents=True)
    for name in ("a.md", "b.md", "c.md", "old/d.md"):
        (folder / name).write_text("Notes.")
        (folder / name.replace(".md", "2.md")).write_text("---\nname: x\n---\nNo description.")

    async def work(run: ControllerRun) -> None:
        assert f"text in 4 files in {folder}; agent in 4 files in {folder}" in run.text()
        told = await run.do("/doctor")
        assert f"ok  4 files in {folder}: without effect: text (it does not define an agent)" in told
        assert f"ok  4 files in {folder}: without effect: agent (it has no description)" in told
        assert "a.md" not in told and "d.md" not in told

    run_controller(tmp_path, work)


def test_skills_that_cannot_be_used_are_one_line_at_the_start_and_all_are_listed(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "skills"
    folder.mkdir(parents=True)
    for number in range(30):
        (folder / f"gone{number}").symlink_to("nowhere")
    (folder / "flat.md").write_text("Do it.")

    async def work(run: ControllerRun) -> None:
        (line,) = (each for each in run.text().splitlines() if str(folder) in each)
        assert f"without effect: skill in 30 files in {folder}; text in {folder}/flat.md" in line
        told = await run.do("/doctor")
        assert f"ok  30 files in {folder}: without effect: skill (broken link)" in told
        assert (await run.do("/skills")).count("(broken link)") == 30

    run_controller(tmp_path, work)


def test_a_report_of_a_fault_is_written_without_secrets_and_sent_nowhere(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("help")
        session, _ = run.controller.in_use
        session.failed("summary", "the key test-key-12345 is odd")
        asked = len(run.server.requests)
        told = await run.do("/bug it froze")
        (path,) = (tmp_path / "home" / "state" / "reports").iterdir()
        assert f"wrote {path}; nothing was sent" in told and len(run.server.requests) == asked
        text = path.read_text("utf-8")
        assert path.stat().st_mode & 0o777 == 0o600 and "test-key" not in text
        parts = ("it froze", "makeroom: ", "\nkey ", "summary: the key ")
        assert [part for part in parts if part not in text] == [] and "  set  (" in text
        assert f"{tmp_path}/.transcripts/{session.sid}.jsonl" in text

    run_controller(tmp_path, work)


def test_a_server_that_cannot_be_reached_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        assert probe_server(address) == Finding("server", address)
        monkeypatch.setenv("HTTP_PROXY", "http://proxy:3128")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert probe_server(address) == Finding("server", address)
    found = probe_server(address)
    assert "base_url in /config" in found.remedy and f"cannot connect to {address}: " in found.found
    monkeypatch.delenv("NO_PROXY")
    by_proxy = Finding("server", f"{address}, not checked because of the proxy http://proxy:3128")
    assert probe_server(address) == by_proxy
    monkeypatch.delenv("HTTP_PROXY")
    monkeypatch.setenv("ALL_PROXY", "proxy:3128")
    assert probe_server(address) == by_proxy


def test_another_directory_can_be_worked_in(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "other").mkdir()
    other = tmp_path / "other"

    async def work(run: ControllerRun) -> None:
        assert "no such directory" in await run.do("/add-dir ../nothing")
        assert f"added directory {other}" not in await run.do("help", "/diff")
        said = await run.do("/add-dir ../other")
        assert f"added {other} until this session ends; /diff and /rewind do not cover" in said
        for line in ("/diff", "/rewind 1 files yes"):
            assert f"not covered: changes in the added directory {other}" in await run.do(line), line
        assert "already" in await run.do("/add-dir ../other")
        (listed,) = run.emitted(CommandOutput) if await run.do("/add-dir") else []
        assert listed.text.split("\n") == [str(tmp_path / "project"), str(other)]
        told = await run.do(f"!echo hi > {other}/made && cat {other}/made")
        assert "hi" in told and (other / "made").read_text() == "hi\n"

    run_controller(tmp_path / "project", work)
