"""Programs that cannot work in the sandbox are asked about before they run, and no others."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.permissions import Mode, PermissionRules, Rule, Verdict, judge_call, parse_rules
from agent.permissions.explanation import explain_line
from agent.shell import ProjectEnvironment
from tests.tables import each_row
from tools.base import Access

_PROGRAMS = (
    "ssh scp rsync sudo docker gh gpg systemctl crontab journalctl ssh-add ssh-keygen npm cargo twine psql"
    " redis-cli apt-get dig ping kubectl aws security secret-tool sftp autossh mosh sshfs ssh-copy-id"
    " ssh-keyscan nslookup traceroute tracepath mtr telnet whois doas su pkexec docker-compose podman"
    " podman-compose nerdctl buildah hub loginctl busctl systemd-run hostnamectl keyring pass"
    " kwallet-query gcloud gsutil az pnpm yarn poetry uv hatch gem open xdg-open notify-send osascript code"
    " xclip xsel wl-copy wl-paste pbcopy pbpaste timedatectl"
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

    def judge(
        self,
        line: str,
        mode: Mode = "manual",
        allow: tuple[Rule, ...] = (),
        git_settings_held: bool = False,
        ask: tuple[Rule, ...] = (),
        cwd: str = "",
    ) -> Verdict:
        access = Access("run", line, cwd=str(self.folder / cwd))
        return judge_call("bash", (access,), self.rules(mode, allow, git_settings_held, ask))

    def rules(
        self,
        mode: Mode = "manual",
        allow: tuple[Rule, ...] = (),
        git_settings_held: bool = False,
        ask: tuple[Rule, ...] = (),
    ) -> PermissionRules:
        return PermissionRules(
            mode=mode,
            allow=allow,
            ask=ask,
            folder=str(self.folder),
            home=str(self.home),
            sandboxed=True,
            git_settings_held=git_settings_held,
            reading=lambda: ProjectEnvironment(str(self.folder), self.environ),
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path.resolve())


# Programs that do their work without arguments.
BARE = {
    "su": "privileges", "systemctl > log": "D-Bus", "loginctl": "D-Bus", "journalctl > log": "journal",
    "timedatectl": "D-Bus", "pass": "keychain",
}  # fmt: skip


@each_row(
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
        ("git remote prune origin", "SSH keys"),
        ("git remote update", "SSH keys"),
        ("git fetch daemon", "direct network connection"),
        ("git commit -S -m x", "signing key"),
        ("git -c commit.gpgsign=true commit -m x", "signing key"),
        ("git tag -s v1 -m v1", "signing key"),
        ("git -c tag.gpgsign=true tag v1", "signing key"),
        ("gpg --clearsign a", "GnuPG"),
        ("sudo apt-get update", "privileges"),
        ("ls; sudo ls; docker ps", "privileges"),
        ("docker build .", "container engine"),
        ("docker info | tee log", "container engine"),
        ("timeout 60 docker compose up -d", "container engine"),
        ("gh pr create --fill", "login"),
        ("systemctl --user restart x", "D-Bus"),
        ("journalctl --vacuum-size=1M", "journal"),
        ("ssh-add -l", "SSH agent"),
        ("npm whoami", "registry credentials"),
        ("npm publish", "registry credentials"),
        ("cargo publish", "registry credentials"),
        ("secret-tool lookup a b", "keychain"),
        ("psql -h db.example.org -c 'select 1'", "direct network connection"),
        ("psql postgresql://u@db.example.org/x", "direct network connection"),
        ("psql -hdb.example.org", "direct network connection"),
        ("redis-cli -h cache.example.org ping", "direct network connection"),
        ("kubectl delete pods --all", "credentials"),
        ("dig example.org", "direct network connection"),
        *((f"{name} host", "SSH keys") for name in ["sftp", "autossh", "mosh", "sshfs", "ssh-copy-id"]),
        *((f"{name} host", "network connection") for name in ["ssh-keyscan", "nslookup", "traceroute"]),
        *((f"{name} host", "network connection") for name in ["tracepath", "mtr", "telnet", "whois"]),
        *((f"{name} ls", "privileges") for name in ("doas", "su", "pkexec")),
        *((f"{name} up", "container engine") for name in ["docker-compose", "podman", "podman-compose"]),
        *((f"{name} build", "container engine") for name in ("nerdctl", "buildah")),
        ("hub pr", "login"),
        *((f"{name} x", "D-Bus") for name in ["loginctl", "busctl", "systemd-run", "hostnamectl"]),
        *BARE.items(),
        *((f"{name} get a b", "keychain") for name in ("keyring", "pass", "kwallet-query")),
        *((f"{name} get a b", "credentials") for name in ("gcloud", "gsutil", "az", "aws")),
        *((f"{name} publish", "registry") for name in ["pnpm", "yarn", "poetry", "uv", "hatch"]),
        *((f"gem {name}", "registry") for name in ["push", "yank", "signin", "owner"]),
        *((f"cargo {name}", "registry") for name in ["login", "logout", "yank", "owner"]),
        ("twine upload x", "registry"),
        *((f"{name} x", "your desktop") for name in ["open", "xdg-open", "notify-send", "osascript", "code"]),
        *((f"date | {name}", "your desktop") for name in ["xclip", "xsel", "wl-copy", "pbcopy"]),
        *((f"{name} > x", "your desktop") for name in ["wl-paste", "pbpaste"]),
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


READING = [
    *("docker ps", "docker ps -aq --no-trunc", "docker info | tail -3", "docker images && docker ps"),
    *("docker container ls --format '{{.ID}}'", "docker logs --tail 50 web", "docker ps && docker images"),
    *("systemctl status", "systemctl --user status", "systemctl is-active nginx.service"),
    *(
        "systemctl list-units --failed --no-pager",
        "journalctl -n 20",
        "journalctl -u nginx --since today -p err",
    ),
    *("journalctl --user -b --no-pager | grep error | head", "crontab -l"),
    *("kubectl get pods", "kubectl get po,svc -n app -o wide", "kubectl get pods -A -l app=web"),
    *("kubectl get deployment/web", "kubectl get nodes web-1 --show-labels"),
]


@each_row("line", READING)
def test_what_only_reads_outside_the_sandbox_runs_there_unasked(project: Project, line: str) -> None:
    verdict = project.judge(line)
    assert (verdict.answer, verdict.sandboxed) == ("allow", False)
    assert project.judge(line, "dontAsk").answer == "deny"
    told = explain_line("bash", Access("run", line, cwd=str(project.folder)), project.rules())
    assert all(row.endswith("it is read-only") and "not known" not in row for row in told)


@each_row(
    "line",
    [
        # another machine, file, plugin or command
        *("docker -H tcp://evil:2375 ps", "docker --config . ps", "docker --context evil ps"),
        *("systemctl -H evil status", "systemctl -M x status", "journalctl -D .", "journalctl --file x"),
        *(
            "journalctl --root=/evil",
            "kubectl --kubeconfig x get pods",
            "kubectl get pods --server=http://evil",
        ),
        *("kubectl get pods --as admin", "kubectl get -f evil.yaml", "kubectl get pods --raw /api"),
        *("kubectl get pods -o go-template-file=x", "crontab x", "crontab -r", "crontab -u root -l"),
        # effects
        *("docker rm web", "docker ps; docker rm web", "docker run alpine", "docker exec web ls"),
        *("docker system prune", "docker logs -f web", "systemctl stop x", "systemctl --user daemon-reload"),
        *("systemctl edit x", "systemctl set-environment A=b", "journalctl --rotate", "journalctl --flush"),
        *("journalctl --vacuum-time=1s", "journalctl -f", "kubectl apply -f x", "kubectl delete pods x"),
        *("kubectl exec web -- ls", "kubectl get pods -w", "docker image rm x", "docker network rm x"),
        # what they print is secret, or is read from the project
        *("kubectl get secrets", "kubectl get pods,secrets", "kubectl get all", "kubectl get cm"),
        *("kubectl get pods -o yaml", "kubectl get secret/x", "kubectl describe pods", "kubectl config view"),
        *("docker inspect web", "docker compose ps", "docker compose logs web", "systemctl show x"),
        *("docker ps | head a.py", "docker ps | wc -l a.py"),
        *("systemctl cat x", "systemctl show-environment", "kubectl get pods -o jsonpath='{.spec}'"),
        # other commands of the line, and words that are not certain
        *("docker ps > list", "docker ps | tee list", "docker ps | sh", "docker ps && ./run.sh"),
        *("docker ps $(id)", "docker ps $X", "docker ps *", "docker logs $(cat name)", "X=1 docker ps"),
        *("cat .env && docker ps", "cat ~/.ssh/id_rsa | docker ps", "docker ps & rm x", "env docker ps"),
        *("PATH=. docker ps", "./docker ps", "DOCKER_HOST=tcp://evil docker ps", "sudo docker ps"),
        *("docker ps --format '{{.ID}}' | xargs docker rm", "kubectl get pods | xargs kubectl delete"),
        *(
            "docker p?",
            "journalctl --un*",
            "kubectl get pods ; kubectl get secrets",
            "alias docker=x; docker ps",
        ),
    ],
)
def test_what_may_do_more_outside_the_sandbox_is_asked_about(project: Project, line: str) -> None:
    (project.folder / ".env").write_text("A=b\n")
    verdict = project.judge(line)
    assert verdict.answer == "ask" or verdict.sandboxed


def test_what_a_repository_below_the_project_makes_git_run_is_shown(project: Project) -> None:
    """A sandboxed command may have made it; those of the project's own repository are protected."""
    made = project.folder / "lib"
    subprocess.run(["git", "init", "-q", made], check=True, env=project.environ)
    config = made / ".git/config"
    plain = config.read_text() + '[remote "origin"]\n\turl = git@example.org:a/b\n'
    config.write_text(plain)
    assert "acts on" not in project.judge("git -C lib push").why
    (made / "more").write_text("[core]\n\tsshCommand = ./steal\n")
    config.write_text(f"{plain}[include]\n\tpath = {made}/more\n")
    shown = "it acts on what commands may have written to lib/.git: core.sshcommand"
    assert project.judge("cd lib && git fetch").why.endswith(shown)
    hook = made / ".git/hooks/pre-push"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    (made / ".git").rename(project.folder / "store")
    (made / ".git").write_text("gitdir: ../store\n")
    for line in (
        "git -C lib push origin HEAD",
        "git push git@e.org:a && git -C lib gc",
        "cd lib && gh pr list",
    ):
        assert f"{shown}, hooks/pre-push" in project.judge(line).why
    why = project.judge("git --git-dir=store push git@e.org:a").why
    assert "written to store/.git: core.sshcommand, hooks/pre-push" in why
    with (project.folder / ".git/config").open("a") as file:
        file.write("[core]\n\tsshCommand = ssh -4\n")
    subprocess.run(
        ["git", "worktree", "add", "-q", "--orphan", "tree"], cwd=project.folder, env=project.environ
    )
    assert "acts on" not in project.judge("git fetch git@example.org:a/b").why
    assert "acts on" not in project.judge("git -C tree fetch git@example.org:a/b").why


@each_row(
    "setting",
    [
        *("alias.up = !x", "gpg.ssh.defaultKeyCommand = x", "gpg.program = x", "merge.m.driver = x"),
        *("sequence.editor = x", "core.worktree = ../..", "remote.o.uploadpack = x", "core.hooksPath = hk"),
        *("url.ext::x.insteadOf = git@", "submodule.m.update = !x", "credential.https://a.helper = !x"),
    ],
)
def test_each_setting_that_makes_git_run_or_write_something_is_shown(project: Project, setting: str) -> None:
    made = project.folder / "lib"
    subprocess.run(["git", "init", "-q", made], check=True, env=project.environ)
    name, _, value = setting.partition(" = ")
    (made / ".git/config").write_text("")
    subprocess.run(["git", "-C", made, "config", name, value], check=True, env=project.environ)
    assert f"lib/.git: {name.lower()}" in project.judge("git -C lib commit -S -m x").why.lower()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("docker ps", "DOCKER_CONFIG"),
        ("docker info", "DOCKER_CLI_PLUGIN_EXTRA_DIRS"),
        ("kubectl get pods", "KUBECONFIG"),
        ("kubectl get pods", "KUBERC"),
    ],
)
def test_settings_that_a_variable_names_may_be_those_of_a_command(
    project: Project, line: str, name: str
) -> None:
    """They name programs that the reader runs, and a sandboxed command may have written them."""
    assert project.judge(line).answer == "allow"
    project.environ[name] = str(project.folder)
    assert project.judge(line).answer == "ask"


@each_row(
    "line",
    [
        "git config user.email a@example.org",
        "git config --local user.name 'A B' && git config user.email a@example.org",
        *("git config pull.rebase true", "git config merge.conflictStyle zdiff3"),
    ],
)
def test_a_first_plain_value_of_a_git_setting_needs_no_question(project: Project, line: str) -> None:
    verdict = project.judge(line, git_settings_held=True)
    assert (verdict.answer, verdict.sandboxed) == ("allow", False)
    assert project.judge(line, "plan", git_settings_held=True).answer == "deny"
    assert project.judge(line, "dontAsk", git_settings_held=True).sandboxed
    assert project.judge(line).sandboxed, "where the settings are not protected"
    rule = Rule("bash", "git config *")
    assert project.judge(line, git_settings_held=True, ask=(rule,)).answer == "ask"
    for written, inside in (("notes", False), ("", True), ("../bin", True), ("../bin/git", True)):
        place = os.path.normpath(project.home / written)
        rules = replace(project.rules(git_settings_held=True), written=(place,))
        access = Access("run", line, cwd=str(project.folder))
        assert judge_call("bash", (access,), rules).sandboxed is inside, place
    (project.folder / "sub/.git").mkdir(parents=True, exist_ok=True)
    assert project.judge(line, git_settings_held=True, cwd="sub").sandboxed


@each_row(
    "line",
    [
        *("git config core.hooksPath hooks", "git config core.fsmonitor true", "git config alias.st status"),
        *(
            "git config user.signingKey x",
            "git config commit.gpgsign false",
            "git config push.default simple",
        ),
        *("git config --global user.email a@b.c", "git config -f x user.email a@b.c"),
        *(
            "git -C . config user.email a@b.c",
            "git -c a.b=c config user.email a@b.c",
            "git config user.email",
        ),
        *("git config --add user.email a@b.c", "git config user.email a@b.c extra"),
        *("git config user.email '!x'", "git config user.name 'a\nb'", "git config pull.rebase interactive"),
        *("git config user.email $X", "git config user.email a@b.c > x", "A=b git config user.email a@b.c"),
        *(
            "git config user.email a@b.c; touch x",
            "git config user.email a@b.c &",
            "git config user.em* a@b.c",
        ),
        *(
            "git config user.name A; git config user.name B",
            "(git config user.name A)",
            "./git config color.ui no",
        ),
        *("git config user.email a@b.c && git status", "cd sub && git config user.email a@b.c"),
        *("git config remote.origin.url x", "git config core.bare false", "git config color.ui a"),
    ],
)
def test_any_other_git_setting_stays_in_the_sandbox(project: Project, line: str) -> None:
    assert project.judge(line, git_settings_held=True).sandboxed


def test_a_git_setting_that_has_a_value_is_not_replaced_without_a_question(project: Project) -> None:
    line = "git config user.email a@example.org"
    with (project.folder / ".git/config").open("a") as file:
        file.write("[User]\n\tEmail = b@example.org\n")
    assert project.judge(line, git_settings_held=True).sandboxed
    assert not project.judge("git config user.name A", git_settings_held=True).sandboxed
    project.environ["GIT_DIR"] = "/x"
    assert project.judge("git config user.name A", git_settings_held=True).sandboxed


@pytest.mark.parametrize("line", ["echo hi > /etc/yy", "make && cp a /etc/yy", "printf x | tee /etc/yy"])
def test_a_system_file_is_asked_about_once_for_a_run_outside(project: Project, line: str) -> None:
    """In the sandbox an approved line could only fail, and need another approval."""
    rules = PermissionRules(
        folder=str(project.folder),
        home=str(project.home),
        sandboxed=True,
        reading=lambda: Writable(str(project.folder), project.environ),
    )

    def judged(changed: PermissionRules) -> Verdict:
        return judge_call("bash", (Access("run", line, cwd=str(project.folder)),), changed)

    why = "it writes the system file /etc/yy"
    outside = f"{why}, and runs outside the sandbox: the sandbox blocks writes to /etc/yy"
    assert judged(rules) == Verdict("ask", outside, binding=True, cause="irreversible")
    inside = Verdict("ask", why, sandboxed=True, binding=True, cause="irreversible")
    assert judged(replace(rules, written=("/x",))) == inside  # the sandbox may write there
    unprivileged = Unwritable(str(project.folder), project.environ)
    assert judged(replace(rules, reading=lambda: unprivileged)) == inside  # it fails everywhere
    assert judged(replace(rules, mode="dontAsk")).answer == "deny"


class Writable(ProjectEnvironment):
    """The environment of a user who may write system directories."""

    def may_write(self, path: str) -> bool:
        return True


class Unwritable(ProjectEnvironment):
    """The environment of a user who may not."""

    def may_write(self, path: str) -> bool:
        return False


def test_nothing_is_read_outside_unasked_where_commands_may_write_its_settings(project: Project) -> None:
    """As in a home directory that is the project, and in directories that the user allowed."""
    rules = PermissionRules(
        folder=str(project.folder),
        home=str(project.home),
        sandboxed=True,
        reading=lambda: ProjectEnvironment(str(project.folder), project.environ),
    )
    call = (Access("run", "docker ps", cwd=str(project.folder)),)
    assert judge_call("bash", call, rules).answer == "allow"
    for changed in (
        replace(rules, written=("/x",)),
        replace(rules, home=str(project.folder)),
        replace(rules, home=f"{project.folder}/home"),
        replace(rules, home=""),
        replace(rules, reading=None),
        replace(rules, ask=parse_rules("bash(docker)")),
    ):
        assert judge_call("bash", call, changed).answer == "ask" or changed.reading is None
    path = project.environ["PATH"]
    for own in (f"{project.folder}/bin:{path}", f"{path}:", f".:{path}", f"{path}:{project.folder}"):
        project.environ["PATH"] = own  # a command may put a program there at any time
        assert project.judge("docker ps").answer == "ask"


@each_row(
    "line",
    [
        *("ssh -V", "ssh -G host", "ssh-keygen -f key -N ''", "rsync -a a/ b/", "rsync --version"),
        *("git push near", "git push ../near.git", "git fetch mirror", "git clone https://example.org/a"),
        *("git clone ./a:b", "git commit -m 'ssh host'", "git tag", "git tag v1", "git tag -l 's*'"),
        *("git -c commit.gpgsign=false commit -m x", "git remote -v", "git remote add x git@e.org:x"),
        *("git submodule status", "git log origin/main", "git status"),
        *("command -v docker", "which ssh sudo", "echo ssh host", "grep -r sudo .", "docker --version"),
        *(
            "docker compose version",
            "docker compose config",
            "docker-compose config -q",
            "gh --version",
            "gh help pr",
            "gpg --version",
            "gpg --dearmor <a",
        ),
        *("npm test", "npm run publish", "npm install", "cargo build", "cargo publish-less"),
        *("psql -h localhost -c x", "psql -h 127.0.0.1", "psql postgresql://u:p@localhost:5432/x", "psql"),
        *("redis-cli ping", "ping -c 1 localhost", "kubectl --help", "absent-gh pr", "glab mr list"),
        *("psql -hlocalhost", "aws configure list", "code --version", "open --help"),
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


def test_nothing_is_asked_about_what_a_missing_sudo_would_run(project: Project) -> None:
    """Containers often have none, and approving the question would not help."""
    programs = project.folder.parent / "bin"
    (programs / "sudo").unlink()
    project.environ["PATH"] = str(programs)
    assert project.judge("sudo -E systemctl start postgresql").sandboxed
    assert "docker needs" in project.judge("sudo docker ps; docker run x").why


def test_a_program_of_the_project_is_not_taken_for_one_of_the_same_name(project: Project) -> None:
    (project.folder / "ssh").write_text("#!/bin/sh\n")
    (project.folder / "ssh").chmod(0o755)
    assert project.judge("./ssh host").sandboxed


def test_a_program_of_the_project_that_path_finds_first_is_named(project: Project) -> None:
    """A sandboxed command can put it there, under the name of an installed one."""
    make = project.folder / ".venv/bin/make"
    make.parent.mkdir(parents=True)
    make.write_text("#!/bin/sh\n")
    make.chmod(0o755)
    project.environ["PATH"] = f"{make.parent}:{project.environ['PATH']}"
    words = "it cannot work in the sandbox: docker needs the socket of the container engine"
    assert project.judge("docker ps -a && ls && docker run x").why == words
    assert project.judge("docker run x && make").why == f"{words}, and it runs .venv/bin/make of the project"


def test_modes_that_cannot_ask_give_the_reason(project: Project) -> None:
    verdict = project.judge("docker ps", mode="dontAsk")
    assert verdict.answer == "deny" and "docker needs the socket of the container engine" in verdict.why


@each_row(
    "line, asked",
    [
        ("git branch -M master trunk", True),
        ("git branch --move --force a b", True),
        ("git -C . branch -fC a b && make", True),
        ("git add -A; git branch -mq new", True),
        ("git sparse-checkout set src", True),
        ("git sparse-checkout disable", True),
        ("git sparse-checkout list", False),
        ("git branch -D a", False),
        ("git branch --merged", False),
        ("git branch -r --contains main", False),
        ("git -C sub branch -M main", False),
        ("cd sub && git branch -M main", False),
        ("git init -q x && cd x && git branch -M main", False),
        ("cd web && git branch -M main", True),
        ("git -C ./web/src/.. branch -m new", True),
        ("cd web && git init && git branch -M main", False),
        ("cd other/src && git branch -M main", False),
        ("git -C ../home branch -M main", False),
    ],
)
def test_a_branch_is_renamed_only_after_a_question(tmp_path: Path, line: str, asked: bool) -> None:
    """git renames the branch, and then cannot change the settings of the repository in the sandbox."""
    project = Project(tmp_path.resolve())
    subprocess.run(["git", "init", "-q", project.folder / "other"], check=True, env=project.environ)
    for folder in ("web/src", "other/src"):
        (project.folder / folder).mkdir(parents=True)
        (project.folder / folder / "a").touch()
    verdict = project.judge(line, git_settings_held=True)
    assert verdict.answer == ("ask" if asked else "allow")
    assert (" has to change .git/config" in verdict.why) == asked
    assert project.judge(line).answer == "allow"


@each_row(
    ("line", "asked"),
    [
        ("git checkout feature", True),
        ("git switch feature && make", True),
        ("cd src && git switch deep/two", True),
        ("git checkout -b mine origin/feature", True),
        ("git switch -c mine origin/packed", True),
        ("git branch mine origin/feature", True),
        ("git checkout --track -b mine main", True),
        ("git push -u elsewhere main", True),
        ("git push -q -u elsewhere main", True),
        ("git push -q elsewhere main", False),
        ("git checkout packed", True),
        ("git checkout main", False),
        ("git checkout both", False),
        ("git checkout src", False),
        ("git checkout v1", False),
        ("git checkout unknown", False),
        ("git checkout origin/feature", False),
        ("git checkout --no-guess feature", False),
        ("git checkout -- feature", False),
        ("git checkout feature -- src", False),
        ("git checkout --no-track -b mine origin/feature", False),
        ("git checkout -b mine", False),
        ("git checkout -b mine main", False),
        ("git checkout feature src/a", False),
        ("git branch -D feature", False),
        ("git branch --merged origin/feature", False),
    ],
)
def test_a_branch_that_tracks_another_is_made_only_after_a_question(
    tmp_path: Path, line: str, asked: bool
) -> None:
    """git makes the branch, and then cannot store in the sandbox what it tracks."""
    project = Project(tmp_path.resolve())
    commit = "1" * 40
    git = project.folder / ".git"
    loose = ("heads/main", "tags/v1", "remotes/origin/feature", "remotes/origin/deep/two")
    for name in (*loose, "remotes/origin/both", "remotes/other/both"):
        (git / "refs" / name).parent.mkdir(parents=True, exist_ok=True)
        (git / "refs" / name).write_text(f"{commit}\n")
    (git / "packed-refs").write_text(f"# pack-refs with: peeled\n{commit} refs/remotes/origin/packed\n")
    (project.folder / "src").mkdir(exist_ok=True)
    (project.folder / "src/a").touch()
    verdict = project.judge(line, git_settings_held=True)
    assert verdict.answer == ("ask" if asked else "allow")
    assert ("has to change .git/config" in verdict.why) == asked
    assert project.judge(line).answer == "allow" or "push" in line


def test_an_irreversible_command_that_needs_to_run_outside_is_asked_about_once(project: Project) -> None:
    verdict = project.judge("sudo reboot")
    assert verdict.answer == "ask" and not verdict.sandboxed and verdict.prefix is None
    assert "sudo needs more privileges" in verdict.why
