"""The socket of a spawner, without the spawner."""

import asyncio
import json
import os
import signal
import socket
import subprocess

import pytest

from tests.tools.bash_session import GUARD_S
from tools.sandbox.command_socket import CommandSocket, SupervisorLost


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))  # noqa: PTH208 - only the number


def test_a_program_that_cannot_be_started_leaves_no_descriptor_open() -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        spawner = CommandSocket(ours)
        spawner.socket.close()
        theirs.close()
        before = open_descriptors()
        with pytest.raises(SupervisorLost) as refused:
            spawner.talk(lambda data: None, path="/bin/cat", argv=["cat"], env={}, cwd="/")
        assert open_descriptors() == before, refused

    asyncio.run(run())


@pytest.mark.parametrize("lost", [True, False])
def test_commands_are_killed_if_the_spawner_is_lost_and_otherwise_left_to_it(lost: bool) -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        spawner = CommandSocket(ours)
        with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, start_new_session=True) as child, theirs:
            command = spawner.run(lambda data: None, path="/bin/cat", argv=["cat"], env={}, cwd="/")
            for message in ({"hello": "subreaper"}, {"n": 1, "pid": child.pid}):
                theirs.sendall(json.dumps(message).encode() + b"\n")
            await command.pid
            if lost:
                theirs.close()
                await command.over
                assert child.wait() == -signal.SIGKILL
            else:
                assert spawner.close() == [child.pid]
                assert command.over.done()
            child.communicate()
            assert child.returncode == (-signal.SIGKILL if lost else 0)

    asyncio.run(run())


@pytest.mark.parametrize("end", [{"n": 1, "status": 0, "strays": 0}, {"n": 1, "over": True}, None])
def test_a_command_that_ends_while_it_is_looked_at_has_no_processes_and_ports(
    end: dict[str, object] | None,
) -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        spawner = CommandSocket(ours)
        with theirs:
            command = spawner.run(lambda data: None, path="/bin/true", argv=["true"], env={}, cwd="/")
            looks = (command.left_processes, command.listening_ports, command.listening_ports)
            answers = asyncio.gather(*(look() for look in looks))
            await asyncio.sleep(0)  # they ask
            if end is None:
                theirs.close()
            else:
                theirs.sendall(json.dumps(end).encode() + b"\n")
            assert await asyncio.wait_for(answers, GUARD_S) == [[], [], []]
            assert not await command.left_processes() and not await command.listening_ports()
        spawner.close()

    asyncio.run(run())


def test_two_who_ask_for_the_ports_of_a_command_get_the_same_answer() -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        spawner = CommandSocket(ours)
        with theirs:
            command = spawner.run(lambda data: None, path="/bin/cat", argv=["cat"], env={}, cwd="/")
            tasks = [asyncio.ensure_future(command.listening_ports()) for _ in range(3)]
            await asyncio.sleep(0)  # they ask
            tasks[0].cancel()
            await asyncio.sleep(0)
            theirs.sendall(b'{"n": 1, "ports": [80]}\n')
            assert await asyncio.wait_for(asyncio.gather(*tasks[1:]), GUARD_S) == [[80], [80]]
        spawner.close()

    asyncio.run(run())
