"""Everyday work continues in the sandbox: tests, builds, commits, servers, processes of all kinds."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_home import real_home

from .sandbox_session import SandboxedSession, git, sandboxed_session

PROCESSES = """
import multiprocessing, os, pty, signal, socket, tempfile
from multiprocessing import shared_memory
def double(number):
    return 2 * number
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        assert pool.map(double, [1, 2]) == [2, 4]
    memory = shared_memory.SharedMemory(create=True, size=10)
    memory.close()
    memory.unlink()
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind("socket")
        server.listen()
        client.connect("socket")
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"a")
    child, terminal = pty.fork()
    if not child:
        os.execvp("tty", ["tty"])
    assert b"/dev/pts/" in os.read(terminal, 100)
    os.waitpid(child, 0)
    child = os.fork()
    if not child:
        signal.pause()
    os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)
    print("all well")
"""
NODE_TEST = """
const test = require('node:test'), http = require('http')
test('server', (t, done) => {
  const server = http.createServer((q, r) => r.end('ok')).listen(0, () =>
    http.get({port: server.address().port}, r => { r.resume(); server.close(); done() }))
})
"""
GO_TEST = """package x
import ("net/http"; "net/http/httptest"; "testing")
func TestServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	if _, err := http.Get(server.URL); err != nil { t.Fatal(err) }
}
"""
# Program that is needed -> the files of a project, a command line, and what it says.
PROJECTS = {
    "npm": (
        {"package.json": '{"scripts": {"test": "node --test"}}', "a.test.js": NODE_TEST},
        "npm test",
        "pass 1",
    ),
    "pytest": (
        {"test_a.py": "def test_a(tmp_path):\n    (tmp_path / 'a').write_text('a')\n"},
        "python3 -m pytest -q -p no:cacheprovider -p no:xdist",
        "1 passed",
    ),
    "cargo": (
        {
            "Cargo.toml": '[package]\nname = "x"\nversion = "0.1.0"\n',
            "src/main.rs": '#[test]\nfn one() {}\nfn main() { println!("built") }\n',
        },
        "cargo build --offline && cargo test --offline && target/debug/x",
        "built",
    ),
    "go": ({"go.mod": "module x\n\ngo 1.18\n", "a_test.go": GO_TEST}, "go test ./...", "ok"),
    "make": ({"Makefile": "all:\n\techo made >out\n\tcat out\n"}, "make", "made"),
}


@pytest.fixture
def sandboxed(tmp_path: Path) -> Iterator[SandboxedSession]:
    shell = sandboxed_session(tmp_path)
    yield shell
    shell.end()


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no shared memory has a path here")
def test_a_project_in_shared_memory_is_where_it_was_and_the_rest_of_it_is_private() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        shell = sandboxed_session(Path(folder))
        (shell.folder / ".envrc").write_text("secret")
        try:
            shell.require_sandbox("namespaces")
            assert shell.prints("echo a >new && cat new; ls ..; pwd") == f"a\nproject\n{shell.folder}"
            assert "Permission denied" in shell.prints("cat .envrc")
            assert (shell.folder / "new").read_text() == "a\n"
            shell.prints("echo c >../beside")
        finally:
            shell.end()
        assert not Path(folder, "beside").exists()


def put(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_processes_of_all_kinds_run_within_the_sandbox(sandboxed: SandboxedSession) -> None:
    sandboxed.require_sandbox("namespaces")
    put(sandboxed.folder, {"processes.py": PROCESSES})
    assert sandboxed.prints("python3 processes.py") == "all well"


def test_a_repository_is_worked_with_within_the_sandbox(sandboxed: SandboxedSession) -> None:
    git(sandboxed.folder, "init", "-q", "-b", "main")
    sandboxed.require_sandbox()
    work = (
        "git config --get user.name; export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org"
        " GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org; echo a >a; git add a; git commit -qm one;"
        "git checkout -qb topic; echo b >>a; git commit -qam two; git checkout -q main; git merge -q topic;"
        "echo c >>a; git stash -q; git stash pop -q; git tag v1; git gc -q; git status --short;"
        "git log --format=%s"
    )
    assert sandboxed.prints(work).split() == ["M", "a", "two", "one"]


def test_guarded_links_and_what_they_lead_to_are_not_replaced_unseen(sandboxed: SandboxedSession) -> None:
    git(sandboxed.folder, "init", "-q")
    put(sandboxed.folder, {"scripts/hook.sh": "hook", "AGENTS.md": "agents", "team/.vscode/tasks.json": "{}"})
    (sandboxed.folder / ".git/hooks/pre-commit").symlink_to("../../tools/hook.sh")
    for name, target in {"tools": "scripts", "CLAUDE.md": "AGENTS.md"}.items():
        (sandboxed.folder / name).symlink_to(target)
    sandboxed.require_sandbox()
    for line in (
        "echo evil >scripts/hook.sh; rm tools CLAUDE.md; echo evil >CLAUDE.md; ln -sfn . tools",
        "echo evil >x; mv x CLAUDE.md; mv tools t; echo evil >.git/hooks/pre-commit",
    ):
        sandboxed.told(line)
    assert (sandboxed.folder / "tools").readlink() == Path("scripts")
    assert (sandboxed.folder / "CLAUDE.md").readlink() == Path("AGENTS.md")
    assert (sandboxed.folder / "scripts/hook.sh").read_text() == "hook"
    sandboxed.told("echo b >scripts/other.sh")
    assert (sandboxed.folder / "scripts/other.sh").read_text() == "b\n", "what is linked is one file of it"
    told = sandboxed.told("mv team t; cp -r t team; echo evil >team/.vscode/tasks.json")
    assert any("team/.vscode/tasks.json: " in line for line in told)
    told = sandboxed.told("rm -r team; mkdir -p build; mv t build/; ln -s build/t team")
    assert any("team: " in line for line in told)


def test_a_repository_that_the_next_status_looks_into_is_reported(sandboxed: SandboxedSession) -> None:
    git(sandboxed.folder, "init", "-q")
    sandboxed.require_sandbox()
    plant = (
        "mkdir -p vendor/x; git init -q vendor/x; cd vendor/x; git config core.fsmonitor .git/evil; cd ../..;"
        " git -C vendor/x -c user.name=a -c user.email=a@b commit -qm one --allow-empty"
    )
    assert sandboxed.told(plant) == []
    assert any("check vendor/x/.git/config: " in line for line in sandboxed.told("git add vendor/x"))


@pytest.mark.sweep
@pytest.mark.parametrize("program", PROJECTS)
def test_real_projects_are_built_and_tested_within_the_sandbox(
    sandboxed: SandboxedSession, program: str
) -> None:
    if not shutil.which(program):
        pytest.skip(f"there is no {program} here")
    files, line, said = PROJECTS[program]
    put(sandboxed.folder, files)
    assert isinstance(sandboxed.context.environ, dict)
    sandboxed.context.environ["HOME"] = str(real_home())  # where toolchains are
    sandboxed.require_sandbox()
    assert said in sandboxed.prints(line)
