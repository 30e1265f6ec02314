"""A port that a sandboxed command serves can be reached from this machine if the user publishes it."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tools.base import ToolCall
from tools.bash import PORTS_HINT, BashArguments, run_bash
from tools.processes.job_ports import listeners, new_listeners
from tools.processes.jobs import BackgroundJob, CommandRequest
from tools.processes.spool import Spool
from tools.sandbox.published_ports import PublishedPorts

from .bash_session import text
from .sandbox_session import SandboxedSession, sandboxed_session

# Answers each line that it is sent, to any number of clients, after it has printed its port.
SERVER = """\
import socketserver as s
class Answer(s.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(b"served " + line)
s.ThreadingTCPServer.address_family = s.socket.{family}
server = s.ThreadingTCPServer(("{host}", 0), Answer)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxedSession]:
    shell = sandboxed_session(tmp_path_factory.mktemp("used"))
    shell.require_sandbox("namespaces")
    yield shell
    shell.end()


def free_port() -> int:
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return int(any_socket.getsockname()[1])


async def serve(used: SandboxedSession, host: str = "127.0.0.1") -> tuple[BackgroundJob, int]:
    """A server in the sandbox, in the background, and its port there."""
    told: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    family = "AF_INET6" if ":" in host else "AF_INET"
    (used.folder / "server.py").write_text(SERVER.format(host=host, family=family))
    command, _ = await used.commands.start(
        "python3 server.py", used.folder, lambda data: told.set_result(int(data)), sandboxed=True
    )
    port = await told
    request, spool = CommandRequest("python3 server.py", sandboxed=True), Spool(used.folder / "out")
    return used.commands.add(request, command, spool), port


async def answer(port: int, words: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(words)
    writer.write_eof()
    said = await reader.read()
    writer.close()
    await writer.wait_closed()
    return said


def with_ports(used: SandboxedSession, work: Callable[[PublishedPorts], Awaitable[None]]) -> None:
    async def whole() -> None:
        ports = PublishedPorts(used.commands.supervisor)
        try:
            await work(ports)
        finally:
            await ports.close()
            await asyncio.gather(*(used.commands.stop(job) for job in used.commands.running))

    used.runner.run(whole())


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_published_port_leads_to_the_server_within_the_sandbox(used: SandboxedSession, host: str) -> None:
    async def work(ports: PublishedPorts) -> None:
        job, port = await serve(used, host)
        outside = free_port()
        with pytest.raises(ConnectionRefusedError):
            await answer(outside, b"")
        await ports.publish(port, outside)
        assert ports.ports == {port: outside}
        big = b"x" * 3_000_000 + b"\n"
        said = await asyncio.gather(answer(outside, b"one\n"), answer(outside, big))
        assert list(said) == [b"served one\n", b"served " + big]
        assert await job.ports() == [port]
        assert await listeners(used.commands) == {port: job}

    with_ports(used, work)


def test_a_wider_sandbox_changes_nothing_for_what_is_published(used: SandboxedSession) -> None:
    async def work(ports: PublishedPorts) -> None:
        _, port = await serve(used)
        await ports.publish(port, outside := free_port())
        assert used.commands.profile is not None
        await used.commands.use_profile(used.commands.profile)
        assert await answer(outside, b"two\n") == b"served two\n"

    with_ports(used, work)


def test_where_nothing_listens_the_connection_ends_and_a_server_that_comes_is_found(
    used: SandboxedSession,
) -> None:
    async def work(ports: PublishedPorts) -> None:
        job, port = await serve(used)
        await ports.publish(port, outside := free_port())
        await used.commands.stop(job)
        assert await answer(outside, b"") == b""
        again = f'python3 -c \'import socket as s; l = s.create_server(("127.0.0.1", {port}));'
        again += ' print(1, flush=True); l.accept()[0].send(b"again")\''
        up = asyncio.Event()
        await used.commands.start(again, used.folder, lambda data: up.set(), sandboxed=True)
        await up.wait()
        assert await answer(outside, b"") == b"again"

    with_ports(used, work)


def test_a_port_that_is_not_published_any_more_is_closed_with_its_connections(used: SandboxedSession) -> None:
    async def work(ports: PublishedPorts) -> None:
        _, port = await serve(used)
        await ports.publish(port, outside := free_port())
        reader, writer = await asyncio.open_connection("127.0.0.1", outside)
        writer.write(b"one\n")
        assert await reader.readline() == b"served one\n"
        assert await ports.withdraw(port)
        assert await reader.read() == b""
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await answer(outside, b"")
        assert not await ports.withdraw(port)

    with_ports(used, work)


def test_a_port_of_this_machine_that_is_taken_is_an_error_and_nothing_is_published(
    used: SandboxedSession,
) -> None:
    async def work(ports: PublishedPorts) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
            await ports.publish(80, taken.getsockname()[1])
        assert ports.ports == {}

    with_ports(used, work)


def test_each_new_port_is_given_once(used: SandboxedSession) -> None:
    async def work(ports: PublishedPorts) -> None:
        job, port = await serve(used)
        assert await new_listeners(used.commands) == {port: job}
        assert await new_listeners(used.commands) == {}
        _, other = await serve(used)
        used.commands.published = ports
        await ports.publish(other, free_port())
        assert await new_listeners(used.commands) == {}

    with_ports(used, work)


def test_the_model_is_informed_who_reaches_the_ports_of_a_background_command(used: SandboxedSession) -> None:
    line = 'python3 -c \'import socket as s, time as t; l = s.create_server(("127.0.0.1", 0));'
    line += " print(l.getsockname()[1], flush=True); t.sleep(300)'"

    async def work(ports: PublishedPorts) -> None:
        call = ToolCall(used.context, "served.0", sandboxed=True)
        begun = text(await run_bash(BashArguments(command=line, run_in_background=True), call))
        assert begun.endswith(PORTS_HINT)
        job = used.commands.running[-1]
        while not await job.ports():
            await asyncio.sleep(0)
        (port,) = await job.ports()
        told = text(await run_bash(BashArguments(job=job.id), call))
        assert (
            f"[listens on port {port}: commands can reach localhost:{port}, the user only after running"
            in told
        )
        await ports.publish(port, outside := free_port())
        used.commands.published = ports
        told = text(await run_bash(BashArguments(job=job.id), call))
        assert f"the user at http://localhost:{outside}]" in told

    with_ports(used, work)
