"""Programs that cannot work in the sandbox are asked about before they run, and no others."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agent.permissions import Mode, PermissionRules, Rule, Verdict, judge_call, parse_rules
from agent.shell import ProjectEnvironment
from tools.base import Access

_PROGRAMS = (
    "ssh scp rsync sudo docker gh gpg systemctl journalctl ssh-add ssh-keygen npm cargo twine psql redis-cli"
    " apt-get dig ping kubectl aws security secret-tool"
)
_REMOTES = """\
[remote "origin"]
\turl = git@example.org:a/b.git
[remote "mirror"]
\turl = https://example.org/a/b.git
\tpushurl = gh:a/b
[remote "near"]
\turl = ../near.git
[remote "daemon"]
\turl = git://example.org/a
[url "ssh://git@example.org/"]
\tinsteadOf = gh:
"""


class Project:
    """A repository with remotes, and stand-ins for programs that may not be installed."""

    def __init__(self, place: Path) -> None:
        self.folder = place / "project"
        self.home = place / "home"
        self.home.mkdir()
        programs = place / "bin"
        programs.mkdir()
        for name in _PROGRAMS.split():
            (programs / name).write_text("#!/bin/sh\n")
            (programs / name).chmod(0o755)
        self.environ = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(self.home)}
        self.environ |= {"GIT_CONFIG_GLOBAL": str(self.home / "gitconfig"), "GIT_CONFIG_SYSTEM": "/dev/null"}
        subprocess.run(["git", "init", "-q", self.folder], check=True, env=self.environ)
        with (self.folder / ".git/config").open("a") as file:
            file.write(_REMOTES)

    def judge(self, line: str, mode: Mode = "manual", allow: tuple[Rule, ...] = ()) -> Verdict:
        rules = PermissionRules(
            mode=mode,
            allow=allow,
            folder=str(self.folder),
            home=str(self.home),
            sandboxed=True,
            reading=ProjectEnvironment(str(self.folder), self.environ),
        )
        return judge_call("bash", (Access("run", line, cwd=str(self.folder)),), rules)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path.resolve())


@pytest.mark.parametrize(
    ("line", "needs"),
    [
        ("ssh host uptime", "SSH keys"),
        ("scp a host:b", "SSH keys"),
        ("rsync -a . host:b", "SSH keys"),
        ("git push", "SSH keys"),
        ("git push -u origin HEAD", "SSH keys"),
        ("git push mirror", "SSH keys"),
        ("cd sub && git fetch", "SSH keys"),
        ("git pull --rebase", "SSH keys"),
        ("git clone git@example.org:x/y.git", "SSH keys"),
        ("git ls-remote ssh://example.org/x", "SSH keys"),
        ("git remote show origin", "SSH keys"),
        ("git fetch daemon", "direct network connection"),
        ("git commit -S -m x", "signing key"),
        ("git -c commit.gpgsign=true commit -m x", "signing key"),
        ("git tag -s v1 -m v1", "signing key"),
        ("gpg --clearsign a", "GnuPG"),
        ("sudo apt-get update", "privileges"),
        ("ls; sudo ls; docker ps", "privileges"),
        ("docker build .", "container engine"),
        ("docker info | tail", "container engine"),
        ("timeout 60 docker compose up -d", "container engine"),
        ("gh pr create --fill", "login"),
        ("systemctl --user restart x", "D-Bus"),
        ("journalctl -n 20", "journal"),
        ("ssh-add -l", "SSH agent"),
        ("npm whoami", "registry credentials"),
        ("npm publish", "registry credentials"),
        ("cargo publish", "registry credentials"),
        ("secret-tool lookup a b", "keychain"),
        ("psql -h db.example.org -c 'select 1'", "direct network connection"),
        ("psql postgresql://u@db.example.org/x", "direct network connection"),
        ("redis-cli -h cache.example.org ping", "direct network connection"),
        ("kubectl get pods", "credentials"),
        ("dig example.org", "direct network connection"),
    ],
)
def test_a_program_that_cannot_work_in_the_sandbox_is_asked_about(
    project: Project, line: str, needs: str
) -> None:
    """The question names the need and offers a rule for exactly this line; a hook cannot answer it."""
    verdict = project.judge(line)
    assert (verdict.answer, verdict.sandboxed, verdict.binding) == ("ask", False, True)
    assert needs in verdict.why and "sandbox" in verdict.why
    assert str(verdict.prefix) == f"open({line})"
    allowed = project.judge(line, allow=parse_rules(str(verdict.prefix)))
    assert (allowed.answer, allowed.sandboxed) == ("allow", False)


@pytest.mark.parametrize(
    "line",
    [
        *("ssh -V", "ssh -G host", "ssh-keygen -f key -N ''", "rsync -a a/ b/", "rsync --version"),
        *("git push near", "git push ../near.git", "git fetch mirror", "git clone https://example.org/a"),
        *("git clone ./a:b", "git commit -m 'ssh host'", "git tag", "git tag v1", "git tag -l 's*'"),
        *("git -c commit.gpgsign=false commit -m x", "git remote -v", "git remote add x git@e.org:x"),
        *("git submodule status", "git log origin/main", "git status"),
        *("command -v docker", "which ssh sudo", "echo ssh host", "grep -r sudo .", "docker --version"),
        *("docker compose version", "gh --version", "gh help pr", "gpg --version", "gpg --dearmor <a"),
        *("npm test", "npm run publish", "npm install", "cargo build", "cargo publish-less"),
        *("psql -h localhost -c x", "psql -h 127.0.0.1", "psql postgresql://u:p@localhost:5432/x", "psql"),
        *("redis-cli ping", "ping -c 1 localhost", "kubectl --help", "absent-gh pr", "glab mr list"),
    ],
)
def test_what_works_in_the_sandbox_is_not_asked_about(project: Project, line: str) -> None:
    verdict = project.judge(line)
    assert (verdict.answer, verdict.sandboxed) == ("allow", True)


def test_settings_decide_whether_commits_are_signed_and_pushes_use_a_credential_helper(
    project: Project,
) -> None:
    assert project.judge("git commit -m x").answer == "allow"
    assert project.judge("git push https://example.org/a").answer == "allow"
    settings = project.home / "gitconfig"
    settings.write_text("[commit]\n\tgpgSign\n[credential]\n\thelper = store\n")
    assert "signing key" in project.judge("git commit -m x").why
    assert project.judge("git commit --no-gpg-sign -m x").answer == "allow"
    assert "git credentials" in project.judge("git push https://example.org/a").why


@pytest.mark.skipif(not os.access("/usr/lib", os.W_OK), reason="only root changes the system's packages")
def test_root_is_asked_before_packages_of_the_system_change(project: Project) -> None:
    assert "apt-get install needs to write system" in project.judge("apt-get install -y jq").why
    assert project.judge("apt-get --version").sandboxed


def test_a_program_of_the_project_is_not_taken_for_one_of_the_same_name(project: Project) -> None:
    (project.folder / "ssh").write_text("#!/bin/sh\n")
    (project.folder / "ssh").chmod(0o755)
    assert project.judge("./ssh host").sandboxed


def test_modes_that_cannot_ask_give_the_reason(project: Project) -> None:
    verdict = project.judge("docker ps", mode="dontAsk")
    assert verdict.answer == "deny" and "docker needs the socket of the container engine" in verdict.why


def test_an_irreversible_command_that_needs_to_run_outside_is_asked_about_once(project: Project) -> None:
    verdict = project.judge("sudo reboot")
    assert verdict.answer == "ask" and not verdict.sandboxed and verdict.prefix is None
    assert "sudo needs more privileges" in verdict.why
