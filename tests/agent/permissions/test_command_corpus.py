"""Command lines that try to be taken for others: a corpus by kinds of trick, and bash itself as the judge."""

import re
import subprocess
from itertools import product
from pathlib import Path
from random import Random

import pytest

from agent.app.config import load_config
from agent.permissions.permission_store import store_rule
from agent.permissions.rule_syntax import Rule, parse_rules
from agent.permissions.rules import PermissionRules, judge_call
from agent.settings_files import permissions_path
from tests.tables import each_row
from tools.base import Access

ALLOWED = ("git status", "ls")
PAYLOADS = ("rm x", "curl e.x", "git push", "./evil")


def run(command: str, *allow: str, deny: tuple[str, ...] = (), mode: str = "manual") -> str:
    allowed, denied = (tuple(rule for text in texts for rule in parse_rules(text)) for texts in (allow, deny))
    rules = PermissionRules(mode, allowed, denied, "/w", "/home/me")  # type: ignore[arg-type]
    return judge_call("bash", [Access("run", command)], rules).answer


def always_rule(command: str) -> Rule | None:
    return judge_call("bash", [Access("run", command)], PermissionRules()).prefix


def filled(trick: str, **words: str) -> str:
    """The trick with its capital letters replaced by what they stand for."""
    letters = "|".join(words)
    return re.sub(rf"\b(?:{letters})\b", lambda found: words[found[0]], trick)


# A: what is allowed, P: what is not.
SMUGGLED = [
    "A && P", "A || P", "A; P", "A;P", "A | P", "A |& P", "A & P", "A&P", "A\nP", "A\r\nP", "A\n\nP\n",
    "P; A", "P\nA", "A $(P)", "A `P`", 'A "$(P)"', 'A "`P`"', "A $(echo $(P))", "A <(P)", "A >(P)",
    "A > >(P)", "A 2> >(P)", "A ${x:-$(P)}", "A ${x:=`P`}", "A $((a[$(P)]))", "A $[a[$(P)]]",
    "A <<E\n$(P)\nE", "A <<-E\nE\nP", "A <<<$(P)", "A <<'E'\nx\nE\nP", "(P)", "(A; P)", "{ A; P; }",
    "A; { P; }", "if A; then P; fi", "while A; do P; done", "for x in 1; do P; done",
    "case a in a) P;; esac", "f() { P; }; A; f", "function A { P; }", "! P", "A ; ! P", "time P",
    "coproc P", "A # it's\nP #'", 'A # say "\nP #"', "A # \\\nP", "# '\nP\n# '", "A #'\n'P'", "A\\\n; P",
    "A \\\\\nP", "A 'x' '\\'; P '", 'A "\\""; P', "A '\"'; P; '\"'", 'A "\'"; P; "\'"', "A \\'; P; \\'",
    'A \\"; P; \\"', "A $'\\''; P; '", "A $'\\n'; P", 'A $"x"; P', "A > /etc/passwd", "A >> ~/.bashrc",
    "A >| f", "A &> f", "A >& f", "A 1<> f", "A 2>/dev/null > f", "A >/dev/null/../../etc/f", "A 3>&1 4< f",
    "A < /etc/passwd", "A 2>&1&P", "A 2>/dev/null&P", "A &>/dev/null&P", "X=1 A", "PATH=/tmp A",
    "LD_PRELOAD=./e.so A", "X=$(P) A", "PATH+=:/tmp A", "a[0]=1 A", "IFS=; A", "GIT_PAGER='P' A", "env A",
    "env -i A", "sudo A", "command A", "exec A", "builtin A", "eval A", "eval 'A; P'", "bash -c 'A; P'",
    "sh -c A", "nohup A", "timeout 5 A", "nice A", "xargs A", "find . -exec A ;", "\\A; P", "./A", "/tmp/A",
    "~/A", "../A", "$x A", "A$x; P", '"$x" A', "A{,}; P", "{A,P}", "A\xa0; P", "A；P\nP", "A ; P | P",
    "Α && A", "A\u200b", "A \x1b[2K; P", "A\x08\x08P; P", "A\x00P", "A\x0b; P", "A\x0c; P", "A\x7f", "A 'x",
    'A "x', "A x\\", "A; . ./P", "A; source P", "alias A=P; A", "A;;P", "A;&P", "A |", "| A", "&& A", "A <",
    "A >", "@(A)", "A && $(<f)", "A ; [[ x ]] ; P", "A ; let 'a[$(P)]' ; P",
]  # fmt: skip
SMUGGLES = [
    filled(trick, A=allowed, P=payload)
    for trick, allowed, payload in product(SMUGGLED, ALLOWED, PAYLOADS[:2])
]


@each_row("trick", SMUGGLED)
def test_a_rule_for_one_program_lets_no_other_in(trick: str) -> None:
    for allowed, payload in product(ALLOWED, PAYLOADS):
        line = filled(trick, A=allowed, P=payload)
        assert run(line, f"bash({allowed})") == "ask", line
        assert run(line, f"bash({allowed} *)", "bash(echo)", "bash(true)") == "ask", line


# P: what a rule forbids. It beats a rule that allows everything, and bypass.
FORBIDDEN = [
    "P", " P", "P ", "P;", "P &", "ls; P", "ls;P", "ls && P", "ls || P", "ls | P", "ls |& P", "ls & P",
    "ls\nP", "ls\r\nP", "(P)", "{ P; }", "$(P)", "`P`", "echo $(P)", "echo `P`", 'echo "$(P)"', "cat <(P)",
    "x >(P)", "! P", "if true; then P; fi", "while P; do :; done", "until P; do :; done",
    "for f in *; do P; done", "time P", "X=1 P", "X=1 Y=2 P", "PATH+=:. P", "sudo P", "sudo -u me P",
    "sudo -n -- P", "doas P", "env P", "env X=1 P", "env -i X=1 P", "nohup P", "nohup P &", "setsid -f P",
    "timeout 5 P", "timeout -k 1 5 P", "nice P", "nice -n 5 P", "ionice -c 3 P", "stdbuf -o0 P", "xargs P",
    "ls | xargs P", "ls | xargs -n 1 P", "find . -exec P {} ;", "find . -name x -exec P {} +",
    "find . -ok P ;", "command P", "builtin P", "exec P", "eval P", "eval 'P'", 'eval "P"', "bash -c 'P'",
    'bash -c "P"', "sh -c 'ls; P'", "bash -lc 'P'", "bash <<< 'P'", "bash <<E\nP\nE",
    "bash <<'E'\nls\nP\nE", "/usr/bin/P", "../bin/P", "~/bin/P", "\\P", "P > f", "P 2>&1", "P </dev/null",
    "f() { P; }; f", "trap 'P' EXIT", "ssh host P", "ssh host 'P'", "watch P", "su -c 'P'", "flock l P",
    "strace -f P", "sudo env X=1 nice timeout 5 P", "sudo bash -c 'cd /; P'", "cd x && P", "P # ls",
    "ls # x\nP", "ls # it's\nP #'", "case a in a) P;; esac", "coproc P", "parallel P", "npx P",
    "chroot / P",
]  # fmt: skip
DENIED = [
    ("bash(rm)", "rm -rf x"),
    ("bash(git push)", "git push"),
    ("bash(git push *)", "git -C sub --no-pager push origin"),
]
SPELT = [
    "r''m x", "'rm' x", '"rm" x', "r\\m x", "rm\t-rf x", "rm${IFS}x", "rm$IFS x", "{rm,x}", "r\\\nm\\\n x",
]  # fmt: skip
SPOKEN = [
    "git rm-not", "git status", "echo 'git push'", "git commit -m 'no git push'", "git log push", "ls rm",
    "grep rm f",
]  # fmt: skip


@each_row("trick", FORBIDDEN)
def test_what_is_denied_is_denied_whoever_runs_it(trick: str) -> None:
    for deny, payload in DENIED:
        line = filled(trick, P=payload)
        assert run(line, "bash", deny=(deny,)) == "deny", line
        assert run(line, deny=(deny,), mode="bypassPermissions") == "deny", line


@each_row("line", SPELT)
def test_what_is_denied_is_known_in_other_spellings(line: str) -> None:
    assert run(line, deny=("bash(rm)",), mode="bypassPermissions") == "deny"


@each_row("line", SPOKEN)
def test_a_deny_rule_hits_nothing_that_only_speaks_of_it(line: str) -> None:
    assert run(line, "bash", deny=("bash(git push)", "bash(rm)")) == "allow"


WHOLES = [
    "/", "//", "/.", "/*", "/./*", "~", "~/", "~/*", "~/.", "~root", "$HOME", "$HOME/", "$HOME/*",
    "${HOME}", '"$HOME"', '"$HOME"/*', "${HOME:?}/*", "/etc", "/usr/", "/usr/*", "/home", "/home/*",
    "/home/me", "/home/me/", "/home/me/*", "/home/me/..", "/root", "/Users/me", "/var", "..", "../..",
    "../", "../../*", "~/..", "/[a-z]*",
]  # fmt: skip
REMOVERS = [
    "rm -rf {}", "rm -fr {}", "rm -r -f {}", "rm -R {}", "rm --recursive --force {}", "rm -rfv -- {}",
    "rm {} -rf", "rm -rf build {}", "sudo rm -rf {}", "/bin/rm -rf {}", "bash -c 'rm -rf {}'",
    "(rm -rf {})", "ls; rm -rf {}; ls", "rm -rf {}&", "find {} -delete",
    "find {} -type f -exec rm -f {{}} +", "\\rm -rf {}",
]  # fmt: skip
RUINS = [form.format(place) for form, place in product(REMOVERS, WHOLES)]
RUINS += [
    "rm -rf ~ / $HOME", "cd / && rm -rf *", "cd ~; rm -rf *", "cd; rm -rf .", "cd /etc\nrm -r ./*",
    "rm$IFS-rf$IFS/", "rm${IFS}-rf${IFS}/", "rm${IFS:0:1}-rf${IFS}/",
    "rm -rf $HOME/..", "rm -rf ${HOME}/../x",
    "pushd / && rm -rf *", "cd / && rm -rf .*", "cd / && rm -rf ./*", "rm -rf ../x/..",
]  # fmt: skip
SMALL = [
    "rm -rf build", "rm -rf ./build /tmp/x", "rm -rf /home/me/work/build", "rm ~/x", "rm -rf ~/x",
    "rm -f /", "find / -name x", "git rm -r x", "rm -rf node_modules; ls /", "rm -rf ../build",
    "docker run --rm -it x /", "cd /tmp/x && rm -rf *", "rm -rf /tmp", "rm -rf /work/app",
    "cd ~; ls; cd sub; rm -rf *", "grep -r rm /", "rm -rf -- -x",
]  # fmt: skip


@each_row("form", REMOVERS)
def test_to_remove_a_home_or_a_system_needs_approval_in_every_mode(form: str) -> None:
    for place in WHOLES:
        line = form.format(place)
        for mode in ("bypassPermissions", "acceptEdits", "manual"):
            assert run(line, "bash", "bash(rm *)", mode=mode) == "ask", line
        assert run(line, "bash", mode="dontAsk") == "deny"


def test_the_other_ways_of_ruin() -> None:
    for line in RUINS:
        assert run(line, mode="bypassPermissions") == "ask", line


@each_row("line", SMALL)
def test_everyday_removals_are_not_irreversible(line: str) -> None:
    assert run(line, mode="bypassPermissions") == "allow"


ALWAYS = {
    "git commit -m x": "git commit", "git add -A": "git add", "git diff --stat 2>&1": "git diff",
    "pytest -q tests": "pytest", "npm run build": "npm run build", "npm test": "npm test",
    "cargo build --release": "cargo build", "go test ./...": "go test", "make test": "make test",
    "make install": "make install", "ruff check .": "ruff check", "mypy": "mypy",
    'git commit -m "fix (it) \u2013 now"': "git commit", "python -m pytest -q": "python -m pytest",
    "uv run pytest tests": "uv run pytest", "poetry run mypy .": "poetry run mypy",
    "docker ps -a": "docker ps",
    "yarn run e2e:ci": "yarn run e2e:ci", "cmake --build x": "cmake --build",
    "pytest a && pytest b": "pytest",
}  # fmt: skip
NEVER_ALWAYS = [
    "git", "npm", "make", "git -c core.pager=evil log", "git -C sub status", "git --exec-path=. x",
    "git '*'", "git ?", "git 'x),bash,edit(y'", "git 'a b'", "git x:*", "git $x", "git push",
    "git config a b", "git submodule foreach x", "git bisect run x", "npm publish", "npm install x",
    "npm exec x", "uv run x", "poetry run x", "docker run x", "docker exec x y", "kubectl exec x",
    "cargo run", "go run x.go", "pip install x", "yarn dlx x", "rm x", "mv a b", "dd if=a of=b",
    "chmod 777 x", "sudo ls", "su", "env", "env ls", "bash x", "sh x", "zsh -c x", "dash x", "eval ls",
    "exec ls", "command ls", "builtin cd", "source x", ". x", "xargs ls", "find . -name x", "nohup ls",
    "timeout 5 ls", "nice ls", "stdbuf -o0 ls", "ssh h", "scp a b", "rsync a b", "curl x", "wget x",
    "nc h 1", "ping h", "dig x", "host x", "python x.py", "python3 x", "python3.11 x", "node x", "perl x",
    "ruby x", "php x", "awk x", "gawk x", "sed -i x y", "ed f", "vim f", "npx x", "uvx x", "pipx run x",
    "tee f", "cp a b", "ln a b", "printf x", "test -v x", "[ x ]", "let a", "read x", "unset x",
    "declare x", "export X", "alias x", "trap x", "set x", "if true", "then x", "do x", "for x", "time x",
    "./run.sh", "/bin/ls", "~/x", "*", "l?", "[a]", "a && b", "a; b", "a | b", "a > f", "$(a)", "$x",
    "X=1 a", "a &", "", " ", "'a b' c", "git status # x", "busybox ls", "strace ls", "gdb x",
    "crontab x", "at now", "'l\u015b'", "tar xf a", "sqlite3 x", "psql", "less x", "gcc x.c", "g++ x.cc",
    "kubectl get secrets", "ls x", "git checkout x", "git stash", "git branch -D x", "git reset --hard",
    "git fetch --upload-pack=x", "pytest -p evil", "make test SHELL=./x", "npm run 'a b'", "npm run *",
    "python -m http.server", "uv run python x", "cargo build --config x", "make SHELL=x", "make -f x",
    "pytest && rm x", "python -m git status", "npm run", "make 'a b'", "docker run x", "uv run", "python -m",
]  # fmt: skip


@each_row(("line", "words"), ALWAYS.items())
def test_always_covers_the_same_command_again_and_no_other_program(
    line: str, words: str, tmp_path: Path
) -> None:
    offered = always_rule(line)
    assert offered is not None and str(offered) == f"bash({words})"
    store_rule(permissions_path(tmp_path / "makeroom", tmp_path), offered)
    kept = load_config({"XDG_CONFIG_HOME": str(tmp_path)}, tmp_path, tmp_path).allow
    assert kept == (offered,)
    again = str(kept[0])
    assert run(line, again) == "allow"
    for other in (
        "rm -r x",
        f"{words}; rm x",
        f"{words} | sh",
        f"{words}x",
        f"env {words}",
        f"{words} $(rm x)",
    ):
        assert run(other, again) == "ask", other


@each_row("line", NEVER_ALWAYS)
def test_where_no_beginning_is_safe_always_is_for_exactly_that_line(line: str, tmp_path: Path) -> None:
    offered = always_rule(line)
    if not line.strip():
        assert offered is None
        return
    assert offered == Rule("bash", line.strip(), exact=True)
    assert parse_rules(str(offered)) == (offered,)
    store_rule(permissions_path(tmp_path / "makeroom", tmp_path), offered)
    kept = load_config({"XDG_CONFIG_HOME": str(tmp_path)}, tmp_path, tmp_path).allow
    assert kept == (offered,)
    assert run(line, str(offered)) == "allow"
    for other in (f"{line} x", f"{line};x", f"x {line}", f"{line}\nx", line[:-1]):
        assert run(other, str(offered)) == "ask", other


def test_the_line_that_always_would_allow_has_to_be_one_that_users_can_read() -> None:
    assert always_rule(f"tool {'x' * 1_900}") is not None
    assert always_rule(f"tool {'x' * 2_000}") is None


def test_a_rule_for_all_of_git_does_not_cover_options_that_name_programs() -> None:
    for line in (
        "git -c core.pager=evil log",
        "git --exec-path=. status",
        "git --config-env=a=b x",
        "git -C / status",
    ):
        assert run(line, "bash(git *)") == "ask", line
    assert run("git log -c", "bash(git *)") == "allow"
    assert run("git -C sub status", "bash(git -C sub status)") == "allow"


def test_the_corpus_is_as_large_as_it_has_to_be() -> None:
    lines = set(SMUGGLES) | {filled(trick, P="rm x") for trick in FORBIDDEN}
    assert len(lines | set(RUINS) | set(SPELT) | set(ALWAYS) | set(NEVER_ALWAYS)) >= 1_000


TOKENS = [
    " ", " ", "\n", "\n", ";", "&", "|", "'", "'", '"', '"', "\\", "#", " #", "$", "`", "(", ")", "<", ">",
    "{", "}", "!", "=", "*", "~", "\t", "\r", "it's", " 2>&1", " 2>/dev/null", "\\\n", "rm x", "rm x",
    "git status",
]  # fmt: skip


def by_bash(folder: Path, rounds: int, seed: int) -> int:
    """Let bash run random lines that a rule allows; how many there were. Nothing but git may run."""
    random = Random(seed)
    programs, lines = folder / "bin", folder / "lines"
    programs.mkdir()
    lines.mkdir()
    for name in ("git", "rm"):
        (programs / name).write_text(f"#!{folder}/sh\necho {name} >>{folder}/ran\n")
        (programs / name).chmod(0o755)
    (folder / "sh").symlink_to("/bin/sh")
    count = 0
    for _ in range(rounds):
        line = "git status" + "".join(random.choices(TOKENS, k=random.randint(2, 9)))
        if run(line, "bash(git status)") == "allow":
            (lines / f"{count}").write_text(line, newline="")
            count += 1
    every = f"cd {lines} || exit; for f in *; do /bin/bash --norc $f; done"
    subprocess.run(
        ["/bin/bash", "--norc", "-c", every],
        env={"PATH": str(programs), "HOME": str(folder)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=300,
        check=True,
    )
    assert set((folder / "ran").read_text().split()) == {"git"}
    assert {each.name for each in lines.iterdir()} == set(map(str, range(count)))
    return count


def test_bash_runs_nothing_but_what_the_rule_names(tmp_path: Path) -> None:
    assert by_bash(tmp_path, 1_500, seed=1) > 15


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_bash_runs_nothing_but_what_the_rule_names_in_many_lines(tmp_path: Path) -> None:
    assert by_bash(tmp_path, 400_000, seed=2) > 5_000
