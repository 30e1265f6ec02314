"""A session on a small machine of its own, whose sandboxed commands try to get out of their project.

`sandbox_process.py root|guest|ordinary [KIND]` lays out a home, a project and a directory outside of both in
a file system in memory, which no other process sees, and prints two lines of JSON: what each attempt of
sandbox_escapes.py met, and what was found afterwards. An exit with 77 says on stderr why it cannot be tried
here. A guest is root on a project of someone else; started by root, an ordinary user is `nobody`. With a KIND
of restricted_process.py the system refuses what it says there.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import uuid
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.narrowing import narrow
from tests.tools.bash_session import survivors
from tests.tools.restricted_process import restrict
from tools.base import ToolContext
from tools.processes.runner import DRAIN_LIMIT_S, command_runner
from tools.sandbox.own_program import own_program
from tools.sandbox.supervisor.system_calls import NEW_MOUNTS, NEW_USER, PRIVATE, RECURSIVE, call, mount

ESCAPES = Path(__file__).with_name("sandbox_escapes.py")
NOBODY = 65534
PLACE = Path("/mnt")
CANNOT = 77
MARK = f"mark-{uuid.uuid4().hex}"


def become(who: str) -> None:
    """Take on the user, on a machine whose /mnt is empty and theirs."""
    if os.geteuid() == 0:
        call("unshare", NEW_MOUNTS)
        user = NOBODY if who == "ordinary" else 0
    elif who != "ordinary":
        raise OSError(0, "this is an ordinary user")
    else:
        user = os.geteuid()
        group = os.getegid()
        call("unshare", NEW_MOUNTS | NEW_USER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    mount(None, "/", None, PRIVATE | RECURSIVE)
    mount(
        "tmpfs", str(PLACE), "tmpfs", 0, "mode=0755" + (f",uid={user},gid={user}" if user == NOBODY else "")
    )
    # Read while the interpreter, which may be in root's home, can still be read; so are the modules that the
    # first command loads.
    own_program(())
    import_module("tools.sandbox.guards.project_guard")
    if os.geteuid() == 0 and user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    # Commands do not reach an interpreter in root's home, or one in /tmp, of which they have their own.
    if not os.access(sys.executable, os.X_OK) or sys.executable.startswith("/tmp/"):
        sys.executable = "/usr/bin/python3"
    for needed in (sys.executable, str(ESCAPES)):
        if not os.access(needed, os.R_OK):
            raise OSError(0, f"{needed} is not for others")


def git(folder: Path, *words: str) -> None:
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *author, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def lay_out(place: Path) -> None:
    """A home with secrets and caches, a library, a project that uses it, and an unrelated directory."""
    files = {
        "home/.ssh/id_rsa": "key",
        "home/.netrc": "token",
        "home/.config/makeroom/settings.toml": "",
        "home/.config/systemd/user/a": "",
        "home/.cache/built": "old",
        "home/.bashrc": "",
        "outside/kept": "kept",
        "library/file": "",
        "project/file": "",
        "project/.env": "SECRET=1",
        "project/build/apps/web/api/prod.env": "SECRET=1",
        "project/AGENTS.md": "",
        "project/.makeroom/settings.toml": "",
        "project/.vscode/tasks.json": "",
        "project/.github/workflows/ci.yml": "",
        "project/.gitignore": ".transcripts\n.env\n",
        "project/.transcripts/1.jsonl": "record",
    }
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    (place / "project/leads-out").symlink_to(place / "outside/kept")
    for name in ("library", "project"):
        git(place / name, "init", "-q")
        git(place / name, "add", "-A")
        git(place / name, "commit", "-qm", "one")
    git(place / "project", "submodule", "--quiet", "add", str(place / "library"), "lib")
    git(place / "library", "worktree", "add", "-q", str(place / "project/worktree"))


def listening(address: str, family: socket.AddressFamily = socket.AF_UNIX) -> socket.socket:
    server = socket.socket(family)
    server.bind(("127.0.0.1", 0) if family == socket.AF_INET else address)
    server.listen()
    return server


async def output(runner: Any, line: str, folder: Path) -> str:
    pieces: list[bytes] = []
    command, _ = await runner.start(line, folder, pieces.append, sandboxed=True)
    await asyncio.wait({command.exited})
    await asyncio.wait({command.closed}, timeout=DRAIN_LIMIT_S)
    command.close()
    return b"".join(pieces).decode("utf-8", "replace")


async def main(who: str, kind: str = "") -> None:
    """Try everything in one session."""
    become(who)
    if kind:
        restrict(kind)
    home, project = PLACE / "home", PLACE / "project"
    os.environ["HOME"] = str(home)
    # The sandbox hides the homes of other users, except those with programs on the path. The interpreter that
    # makes the attempts may be in one of them: pyenv and uv install it there.
    os.environ["PATH"] += f":{Path(sys.executable).resolve().parent}"
    for name in [name for name in os.environ if name.startswith(("XDG_", "GIT_"))]:
        del os.environ[name]
    lay_out(PLACE)
    if who == "guest":
        subprocess.run(["chown", "-R", "12345:12345", str(PLACE / "project")], check=True)
        (home / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
    temporary = Path(tempfile.mkdtemp(dir="/tmp")) / "socket"
    servers = [
        listening(str(PLACE / "outside/socket")),
        listening(str(temporary)),
        listening(f"\0{temporary}"),
    ]
    servers.append(listening("", socket.AF_INET))
    environ = {
        **os.environ,
        "SSH_AUTH_SOCK": str(PLACE / "outside/socket"),
        "WSL_INTEROP": "/run/WSL/1_interop",
    }
    context = ToolContext(project, project, project / ".task_outputs", PLACE / "journals", environ=environ)
    runner = command_runner(context)
    level, why = await runner.sandbox()
    if level != "namespaces":
        await runner.close()
        raise OSError(0, f"no wall of namespaces: {why}")
    opened, _ = await runner.start("exec sleep 300", project, lambda data: None)
    at = {
        "project": str(project),
        "home": str(home),
        "outside": str(PLACE / "outside"),
        "socket": str(PLACE / "outside/socket"),
        "temporary_socket": str(temporary),
        "abstract_socket": str(temporary),
        "port": servers[-1].getsockname()[1],
        "open_pid": 1000 + narrow(opened.pid.result(), int),
        "agent_pid": os.getpid(),
        "scratch": str((await runner.supervisor()).scratch),
        "record_inode": (project / ".transcripts/1.jsonl").stat().st_ino,
        "disks": [path.name for path in Path("/sys/block").iterdir()],
    }
    (project / "at.json").write_text(json.dumps(at))
    escapes = PLACE / ESCAPES.name  # where it can be read in any case
    escapes.write_bytes(ESCAPES.read_bytes())
    before = sorted((path, path.lstat().st_mtime_ns) for path in (PLACE / "outside").rglob("*"))
    said = await output(runner, f'exec {sys.executable} -I -S {escapes} "$(cat at.json)"', project)
    await output(runner, "kill -9 -1; kill -9 1", project)
    alive = await output(runner, "echo alive; setsid -f sh -c 'setsid -f sleep 300' 2>&1 >/dev/null", project)
    after = sorted((path, path.lstat().st_mtime_ns) for path in (PLACE / "outside").rglob("*"))
    await runner.close()
    print(said.strip())
    print(
        json.dumps(
            {
                "alive": alive.strip(),
                "unchanged": before == after,
                "cache": (home / ".cache/built").read_text()
                + " ".join(path.name for path in (home / ".cache").iterdir()),
                "survivors": survivors(MARK),
                "record": (project / ".transcripts/1.jsonl").read_text(),
            }
        )
    )
    temporary.unlink()
    temporary.parent.rmdir()


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(CANNOT)
