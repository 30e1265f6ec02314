"""/sandbox and /doctor: what commands run in, and what is missing here."""

import asyncio
import socket
import urllib.request
from pathlib import Path

import pytest

from agent.app.config import load_config
from agent.errors import ConfigError
from agent.events import Notice
from agent.loop.session_sandbox import SessionSandbox
from agent.permissions import Rule, stored_places, stored_rules
from agent.session.environment import END_OF_PLAN_TEXT, OPEN_TEXT, PLANNING
from agent.session.system_prompts import SANDBOX_TEXT
from agent.settings_files import permissions_path
from tests.tables import each_row
from tools.processes.jobs import CommandRequest
from tools.processes.runner import command_runner
from tools.processes.spool import Spool

from .controller_run import ControllerRun, run_controller


def sandbox_of(run: ControllerRun) -> SessionSandbox:
    sandbox = run.controller.in_use[1].sandbox
    assert sandbox is not None
    return sandbox


def test_sandbox_shows_what_is_allowed_and_changes_it(tmp_path: Path) -> None:
    kept = permissions_path(tmp_path / "home" / "config", tmp_path)
    (tmp_path / "store").mkdir()

    async def work(run: ControllerRun) -> None:
        assert "setting  auto" in await run.do("/sandbox")
        text = await run.do("/sandbox write store", "/sandbox read store", "/sandbox reach Files.Example")
        assert "commands may always reach Files.Example in this project" in text
        assert stored_places(kept) == dict.fromkeys(("write", "read"), (str(tmp_path / "store"),))
        assert stored_rules(kept) == (Rule("net", "files.example"),)
        if sandbox_of(run).level != "none":
            assert "hosts    files.example" in text and "also store" in text
            assert ", other users' home directories, and sockets" in text
        text = await run.do("/sandbox forget store", "/sandbox forget files.example")
        assert "files.example is no longer allowed" in text
        assert stored_rules(kept) == () and not any(stored_places(kept).values())
        assert "cannot forget store: it is not allowed" in await run.do("/sandbox forget store")
        assert "project  read-only\n" in await run.do("/sandbox project read-only") or (
            sandbox_of(run).level == "none"
        )

    run_controller(tmp_path, work)


def test_the_model_is_informed_of_a_sandbox_that_is_switched_off_and_of_plan_mode(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("hello")
        sandboxed = sandbox_of(run).level != "none"
        context = run.controller.in_use[1]
        assert (SANDBOX_TEXT in context.settings.system) is sandboxed
        assert "sandbox  none: switched off" in await run.do("/sandbox off")
        assert not context.permissions.rules.sandboxed
        await run.do("go on", "and on")
        assert b"".join(run.bodies()).count(OPEN_TEXT.split("\n")[-1].encode()) == int(sandboxed)
        if sandboxed:
            await run.do("/sandbox auto", "once more")
            assert b"".join(run.bodies()).count(SANDBOX_TEXT.split("\n")[0].encode()) == 2
        await run.do("/permissions mode plan", "a plan, please", "a better one")
        assert b"".join(run.bodies()).count(PLANNING.split("\n")[1].encode()) == 2
        await run.do("/permissions mode manual", "do it", "go on")
        assert b"".join(run.bodies()).count(END_OF_PLAN_TEXT.split("\n")[1].encode()) == 1

    run_controller(tmp_path, work, sandbox_known=False)


def test_status_config_and_doctor_report_on_the_sandbox_and_mistakes_are_explained(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        told = await run.do("/doctor")
        line = sandbox_of(run).line
        assert f"sandbox: {line}" in told
        status = await run.do("/status")
        assert f"sandbox     {line}" in status and "mode        manual: asks before edits" in status
        await run.do("/doctor")
        assert "ok  bash: /" in run.text()
        await run.do("/sandbox project read-only", "/config")
        assert "auto, project read-only  (/sandbox)" in run.text()
        for line, told in {
            "/sandbox maybe": "usage: /sandbox [auto | require | off",
            "/sandbox write": "name a path: /sandbox write PATH",
            "/sandbox write absent": "cannot allow absent: it does not exist",
            "/sandbox write no such place": "cannot allow no such place: it does not exist",
            "/sandbox write /": "would cover too much",
            "/sandbox project closed": "project must be one of writable, read-only",
            "/sandbox reach 10.0.0.1": "addresses are not allowed",
            "/sandbox reach https://user@a.example/": "a host with a user name is not allowed",
            "/sandbox reach https://a.example:8443/x": "only the ports 80 and 443 of a host can be allowed",
            "/sandbox reach ssh://a.example": "only hosts of http and https URLs can be allowed",
        }.items():
            assert told in await run.do(line)

    run_controller(tmp_path, work)


def home(root: Path, project: str, own: str = "") -> Path:
    for path, text in ((root / ".makeroom", project), (root / "home" / ".config" / "makeroom", own)):
        path.mkdir(parents=True)
        (path / "settings.toml").write_text(text)
    return root / "home"


@each_row(
    ("own", "project", "mode", "access", "ignored"),
    [
        ("", "sandbox = 'off'", "auto", "writable", "mode"),
        ("sandbox = 'require'", "sandbox = 'auto'", "require", "writable", "mode"),
        ("sandbox = 'off'", "sandbox = 'require'", "require", "writable", ""),
        ("", "sandbox.project = 'read-only'", "auto", "read-only", ""),
        ("sandbox.project = 'read-only'", "[sandbox]\nproject = 'writable'", "auto", "read-only", "project"),
        (
            "[sandbox]\nwrite = ['~/x']",
            "[sandbox]\nwrite = ['~/y']\nread = ['~/.ssh']",
            "auto",
            "writable",
            "write, read",
        ),
    ],
)
def test_a_project_can_only_tighten_the_sandbox(
    tmp_path: Path, own: str, project: str, mode: str, access: str, ignored: str
) -> None:
    config = load_config({}, tmp_path, home(tmp_path, project, own))
    assert (config.sandbox.mode, config.sandbox.project) == (mode, access)
    assert config.sandbox.write == (("~/x",) if "write" in own else ()) and config.sandbox.read == ()
    expected = [f"a project can only tighten the sandbox: {ignored} (ignored)"] if ignored else []
    assert [warning.partition(": ")[2] for warning in config.warnings] == expected


def test_a_project_lets_no_host_through(tmp_path: Path) -> None:
    config = load_config({}, tmp_path, home(tmp_path, "allow = ['net(evil.example)']"))
    assert config.allow == () and len(config.warnings) == 1


@each_row(
    "text",
    ["sandbox = 'of'", "sandbox = true", "[sandbox]\nmodes = 'off'", "[sandbox]\nwrite = '~/x'",
     "[sandbox]\nwrite = ['x']", "[sandbox]\nwrite = ['~/../..']", "[sandbox]\nread = ['/']"],
)  # fmt: skip
def test_a_mistake_in_the_setting_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"settings\.toml: sandbox:? "):
        load_config({}, tmp_path, home(tmp_path, "", text))


def test_the_variable_sets_the_sandbox_and_the_words_are_checked(tmp_path: Path) -> None:
    empty = home(tmp_path, "", "")
    assert load_config({"MAKEROOM_SANDBOX": "require"}, tmp_path, empty).sandbox.mode == "require"
    with pytest.raises(ConfigError, match="MAKEROOM_SANDBOX='x'"):
        load_config({"MAKEROOM_SANDBOX": "x"}, tmp_path, empty)


def test_without_a_sandbox_the_start_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(self: object) -> tuple[str, str]:
        return "none", "the kernel is too old"

    monkeypatch.setattr("tools.processes.runner.CommandRunner.sandbox", none)

    async def work(run: ControllerRun) -> None:
        await run.controller.prompt("hello")  # the sandbox is known by then
        told = [event.text for event in run.emitted(Notice)]
        assert any("not sandboxed here (the kernel is too old)" in text for text in told)
        assert "sandbox     none: the kernel is too old" in await run.do("/status")
        assert "!   sandbox: none" in await run.do("/doctor")

    run_controller(tmp_path, work, sandbox_known=False)


SERVER = """python3 -c 'from http.server import *
s = HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
print(s.server_address[1], flush=True); s.serve_forever()'"""


async def serve(run: ControllerRun) -> int:
    """A server in the background, in the sandbox; its port there."""
    runner = command_runner(run.controller.in_use[1].tool_context)
    told: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    folder, outputs = runner.context.folder, runner.context.outputs
    command, _ = await runner.start(SERVER, folder, lambda data: told.set_result(int(data)), sandboxed=True)
    port = await told
    runner.add(CommandRequest(SERVER, sandboxed=True), command, Spool(outputs / "served.txt"))
    return port


def fetched(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
        return int(answer.status)


def test_publish_lets_this_machine_reach_what_a_sandboxed_command_serves(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        outside = taken.getsockname()[1]

    async def work(run: ControllerRun) -> None:
        ports = await run.do("hello", "/publish")  # which sets up the sandbox
        if sandbox_of(run).level != "namespaces":
            pytest.skip("the sandbox has no network of its own here")
        assert ports == "no background command listens on a port of the sandbox"
        port = await serve(run)
        assert f"listens on port {port} (see /publish)" in await run.do("/tasks")
        assert f"{port:>5}  not published  b1  python3 -c" in await run.do("/publish")
        assert f"b1 listens on port {port} in the sandbox; run /publish {port} to" in await run.do("hello")
        told = await run.do(f"/publish {port} as {outside}")
        assert told == f"http://localhost:{outside} now leads to port {port} of the sandbox"
        assert await asyncio.to_thread(fetched, outside) == 200
        assert f"{port:>5}  http://localhost:{outside}  b1" in await run.do("/publish")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            told = await run.do(f"/publish 9999 as {(other := taken.getsockname()[1])}")
            assert told.startswith(
                f"cannot open port {other} of this machine: it is in use; choose another with /publish"
            )
        assert await run.do(f"/publish stop {port}") == f"port {port} is no longer published"
        with pytest.raises(OSError, match="refused"):
            await asyncio.to_thread(fetched, outside)
        assert "is not published; run /publish to list" in await run.do(f"/publish stop {port}")
        for line in ("/publish 0", "/publish 65536", "/publish eight", "/publish 80 to 81", "/publish stop"):
            assert "usage: /publish [PORT | PORT as OTHER | stop PORT]" in await run.do(line)
        assert "nothing" not in await run.do(f"/publish {port} as {outside}")

    run_controller(tmp_path, work)
    with pytest.raises(OSError, match="refused"):
        fetched(outside)


@pytest.mark.parametrize(
    ("level", "told"),
    [("none", "no need to publish a port"), ("landlock", "gives commands no network")],
)
def test_without_a_network_of_its_own_publish_says_what_becomes_of_ports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str, told: str
) -> None:
    async def sandbox(self: object) -> tuple[str, str]:
        return level, ""

    monkeypatch.setattr("tools.processes.runner.CommandRunner.sandbox", sandbox)

    async def work(run: ControllerRun) -> None:
        assert told in await run.do("/publish 8000")
        if level == "landlock":
            assert "but the current sandbox has no network" in await run.do("/sandbox reach a.example")
            assert "hosts    none (this sandbox has no network)" in run.text()

    run_controller(tmp_path, work)
