"""A process that is confined by Landlock and tries things; for test_landlock.py.

`python confined_process.py` with a JSON object on stdin: a sandbox's `profile`, a user number `uid` (null: as
it is), and `tries`, name -> Python expression. On stdout: name -> what it gave, an errno's name, or "killed".
The expressions see what `surroundings` makes: servers of a process that is not confined, and its number.
"""

import ctypes
import errno
import fcntl
import json
import multiprocessing.synchronize
import os
import resource
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "sandbox"))
from supervisor import landlock  # type: ignore[import-not-found]
from supervisor.seccomp import deny_system_calls  # type: ignore[import-not-found]
from supervisor.system_calls import DUMPABLE, call  # type: ignore[import-not-found]

LIMIT_S = 10


def environment(outside: Path) -> dict[str, Any]:
    """Resources that must be out of reach: servers on this machine, other processes."""
    tcp = socket.create_server(("127.0.0.1", 0))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    stream, datagram, abstract = (
        socket.socket(socket.AF_UNIX, kind)
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_STREAM)
    )
    stream.bind(str(outside / "stream"))
    datagram.bind(str(outside / "datagram"))
    abstract.bind(f"\0makeroom-{os.getpid()}")
    for each in (stream, abstract):
        each.listen()
    for name in ("stream", "datagram"):
        (outside / name).chmod(0o777)
    held = (tcp, udp, stream, datagram, abstract)
    return {
        "_held": held,
        "tcp_port": tcp.getsockname()[1],
        "udp_port": udp.getsockname()[1],
        "stream": str(outside / "stream"),
        "datagram": str(outside / "datagram"),
        "abstract": abstract.getsockname(),
        "agent": os.getpid(),
    }


def sh(line: str) -> str:
    """Return the output of a command line, and its exit status."""
    ran = subprocess.run(["bash", "-c", line], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return f"{ran.stdout}{ran.stderr}[{ran.returncode}]"


def outcome(expression: str, names: dict[str, Any]) -> str:
    try:
        return str(eval(expression, names))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))


def attempt(expression: str, names: dict[str, Any]) -> str:
    """The outcome in a process of its own."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
        os.write(writer, outcome(expression, names).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        said = file.read()
    _, status = os.waitpid(pid, 0)
    return "killed" if os.WIFSIGNALED(status) else said.decode("utf-8", "replace")


def main() -> None:
    request = json.load(sys.stdin)
    profile = request["profile"]
    outside = Path(profile["private"]).parent / "outside"
    folders = {"project": Path(profile["folder"]), "scratch": Path(profile["scratch"]), "outside": outside}
    names = {**globals(), **folders, **environment(outside)}
    names |= {"profile": profile, "home": outside.parent / "home", "private": Path(profile["private"])}
    os.environ["TEST_SECRET"] = "only for the agent"
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        if request["uid"] is not None:
            os.setgroups([])
            os.setresgid(request["uid"], request["uid"], request["uid"])
            os.setresuid(request["uid"], request["uid"], request["uid"])
            call("prctl", DUMPABLE, 1, 0, 0, 0)  # as after the start of a program
        landlock.confine(profile)
        deny_system_calls()
        os.chdir(profile["folder"])
        os.environ |= landlock.private_places(profile)
        told = {name: attempt(expression, names) for name, expression in request["tries"].items()}
        with os.fdopen(writer, "wb") as out:
            out.write(json.dumps(told).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        sys.stdout.write(file.read().decode())
    assert os.waitpid(pid, 0)[1] == 0


if __name__ == "__main__":
    assert ctypes and fcntl and multiprocessing.synchronize and threading  # for the expressions
    main()
