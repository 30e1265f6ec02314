"""If the system denies us namespaces, commands are still sandboxed: through bwrap, or by Landlock."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.sandbox.supervisor.bubblewrap import bwrap_arguments
from tools.sandbox.supervisor.landlock import LEAST_ABI, landlock_abi
from tools.sandbox.supervisor.profile_message import ProfileMessage

from .profile_messages import NAMES_NOTHING
from .sandbox_escapes import ESCAPES

LINUX = sys.platform == "linux" and os.uname().machine in ("x86_64", "aarch64")
pytestmark = pytest.mark.skipif(not LINUX, reason="these are systems of Linux, on machines that we know")
SECRET = Path("/etc/shadow")


def session(folder: Path, kind: str, *lines: str) -> tuple[list[str], list[tuple[str, int]]]:
    """Return the sandbox, and the output and exit status of sandboxed commands, on a system of that kind."""
    process = [sys.executable, str(Path(__file__).with_name("restricted_process.py")), str(folder), kind]
    ran = subprocess.run([*process, *lines], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    return told["wall"], [(output, code) for output, code in told["told"]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    (folder / ".git/hooks").mkdir(parents=True)
    (folder / ".git/config").write_text("[core]\n")
    (folder / ".env").write_text("KEY=1")
    (folder / ".transcripts").mkdir()
    (folder / ".transcripts/s.jsonl").write_text("record")
    return folder


@pytest.mark.skipif(landlock_abi() < LEAST_ABI, reason="Landlock is too old here")
def test_in_a_container_of_docker_the_sandbox_is_landlock(project: Path) -> None:
    (level, why), told = session(
        project,
        "docker",
        "echo x > new && cat new",
        f"echo x > {project.parent}/out",
        "unshare -Ur true; id -u",
    )
    assert level == "landlock"
    assert why.startswith("the system does not allow namespaces; ") and "bwrap" in why
    assert told[0] == ("x\n", 0)
    assert told[1] == (f"bash: line 1: {project.parent}/out: Permission denied\n", 1)
    assert "Operation not permitted" in told[2][0]


@pytest.mark.skipif(landlock_abi() < LEAST_ABI, reason="Landlock is too old here")
def test_where_namespaces_may_be_made_but_proc_not_mounted_the_sandbox_is_landlock(project: Path) -> None:
    (level, why), told = session(
        project, "podman", "echo x > new && cat new", f"echo x > {project.parent}/out"
    )
    assert level == "landlock"
    assert why.startswith("the system does not allow namespaces; ")
    assert told == [("x\n", 0), (f"bash: line 1: {project.parent}/out: Permission denied\n", 1)]


# bwrap's sandbox has a /tmp of its own, so that an interpreter that lies there cannot be started in it.
BWRAP = (
    not sys.prefix.startswith("/tmp/")
    and shutil.which("bwrap") is not None
    and (
        subprocess.run(
            ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"], capture_output=True
        ).returncode
        == 0
    )
)


@pytest.mark.skipif(not BWRAP, reason="bwrap is not installed, or may make no namespaces either")
def test_where_only_bwrap_may_make_namespaces_it_builds_the_sandbox(project: Path) -> None:
    refused = {
        f"echo x > {project.parent}/out; echo private": "private",  # /tmp is its own
        "echo x > /etc/out": "Read-only file system",
        "echo evil > .git/config": "Read-only file system",
        "echo evil > .git/hooks/pre-commit": "Read-only file system",
        "mv .git other": "busy",
        "cat .env": "Permission denied",
        "rm -r .env": "busy",
        "cat .transcripts/s.jsonl": "No such file",
        "ls /run": "Permission denied",
        "echo core > /proc/sys/kernel/core_pattern": "Read-only file system",
        "cat /proc/1/environ": "Permission denied",
        "mount -t tmpfs x /mnt": "denied|must be superuser",
        "unshare -Ur true": "Operation not permitted",
        "kill -9 1 && kill -0 1 && echo not permitted": "not permitted",
        "exec 3<> /dev/tcp/192.0.2.1/80": "unreachable",
    }  # fmt: skip
    work = [
        "echo x > new && cat new && mkdir a && mv new a && rm -r a",
        "t=$(mktemp) && echo $t > /tmp/x && cat /tmp/x && touch /var/tmp/x /dev/shm/x",
        "ps ax | wc -l; grep CapEff /proc/self/status",
        "setsid -f sleep 300 >/dev/null 2>&1; exec 3<> /dev/tcp/127.0.0.1/9",
        'script -qc "echo terminal" /dev/null',
    ]
    (level, why), told = session(project, "apparmor", *refused, *work)
    assert (level, why) == ("namespaces", "the system does not allow namespaces")
    wrong = {
        line: output
        for (line, words), (output, _) in zip(refused.items(), told, strict=False)
        if not any(word in output for word in words.split("|"))
    }
    assert wrong == {}
    files, temporary, seen, loopback, terminal = (output for output, _ in told[len(refused) :])
    assert files == "x\n"
    assert temporary.startswith("/tmp/")
    assert int(seen.split()[0]) < 9  # its title, PID 1, bash, ps, wc and one more bash
    assert seen.split()[-1] == "0000000000000000"
    assert "Connection refused" in loopback
    assert terminal == "terminal\r\n"
    assert not (project.parent / "out").exists()
    assert (project / ".git/config").read_text() == "[core]\n"
    assert (project / ".transcripts/s.jsonl").read_text() == "record"


@pytest.mark.skipif(not BWRAP, reason="bwrap is not installed, or may make no namespaces either")
def test_links_among_what_is_guarded_leave_the_sandbox_of_bwrap_whole(project: Path) -> None:
    """To nowhere, from the root, and out of the project."""
    (project / "rules.md").write_text("rules\n")
    (project / "settings").mkdir()
    links = {"CLAUDE.md": "nowhere", ".env.local": "gone", ".envrc": "/etc/hostname"}
    links |= {"AGENTS.md": f"{project}/rules.md", ".vscode": f"{project}/settings"}
    links |= {".git/config.worktree": "nowhere", ".git/info": f"{project}/settings"}
    for name, target in links.items():
        (project / name).symlink_to(target)
    lines = ["echo evil >>AGENTS.md", "echo evil >.vscode/tasks.json", "echo x >f && cat f"]
    (level, _), told = session(project, "apparmor", *lines)
    assert level == "namespaces"
    assert ["Read-only file system" in output for output, _ in told] == [True, True, False]
    assert told[-1] == ("x\n", 0)
    assert (project / "rules.md").read_text() == "rules\n"


@pytest.mark.sweep
@pytest.mark.skipif(not BWRAP, reason="bwrap is not installed, or may make no namespaces either")
@pytest.mark.parametrize("who", ["root", "ordinary"])
def test_every_way_out_of_the_sandbox_of_bwrap_is_refused(who: str) -> None:
    argv = [sys.executable, str(Path(__file__).with_name("sandbox_process.py")), who, "apparmor"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    if done.returncode == 77:
        pytest.skip(f"no wall can be tried here as {who}: {done.stderr.strip()}")
    met, found = map(json.loads, done.stdout.splitlines())
    got_out = {name: met[name] for name, (right, _) in ESCAPES.items() if met[name] not in right.split("|")}
    # Without layers over caches there is nothing in one to be led astray.
    assert {name for name, how in got_out.items() if "layer" not in name or how != "EROFS"} == set()
    kept = {"alive": "alive", "unchanged": True, "cache": "oldbuilt", "record": "record", "survivors": []}
    assert found == kept


def test_the_options_for_bwrap_are_in_an_order_in_which_the_last_one_lies_above(project: Path) -> None:
    home = project.parent / "home"
    (home / ".ssh").mkdir(parents=True)
    profile: ProfileMessage = {
        **NAMES_NOTHING,
        "folder": str(project), "private": str(home), "scratch": str(home),
        "hidden": [str(home / ".ssh"), str(project / ".env"), str(project.parent), str(project / "gone")],
        "read_only": [str(project / ".git/config")], "records": [str(project / ".transcripts")],
        "project_writable": True,
    }  # fmt: skip
    words = bwrap_arguments(profile, "/secret")

    def at(*wanted: str) -> int:
        places = range(len(words) - len(wanted) + 1)
        return next(place for place in places if words[place : place + len(wanted)] == list(wanted))

    above = str(project.parent)
    order = [
        at("--ro-bind", "/", "/"),
        at("--perms", "0755", "--tmpfs", above),
        at("--bind", str(project), str(project)),
        at("--bind", f"{project}/.git", f"{project}/.git"),
        at("--ro-bind", f"{project}/.git/config", f"{project}/.git/config"),
        at("--ro-bind", "/secret", f"{project}/.env"),
        at("--perms", "0555", "--tmpfs", f"{project}/.transcripts"),
        at("--remount-ro", above),
    ]
    assert order == sorted(order)
    assert not any("gone" in word for word in words)
    fixed = bwrap_arguments({**profile, "project_writable": False}, "/secret")
    assert f"--bind {project}" not in " ".join(fixed)
