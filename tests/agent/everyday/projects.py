"""Fresh projects of several languages, and the servers that a developer has running beside them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

GUARD_S = 30.0  # for a server to listen

_MAIN_PY = 'def greet() -> str:\n    return "hello"\n\n\nif __name__ == "__main__":\n    print(greet())\n'
_TEST_PY = (
    "import unittest\n\n\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertTrue(True)\n"
)
_SERVER_JS = """\
require("http").createServer((_, answer) => answer.end("hello")).listen(3111)
"""
_PACKAGE_TESTS = """\
const test = require("node:test")
test("one", () => {})
"""
_MIGRATE = """\
import socket, sys
try:
    socket.create_connection(("localhost", int(sys.argv[1])), timeout=3).close()
except OSError as error:
    sys.exit(f"could not connect to server at localhost, port {sys.argv[1]}: {error}")
print("migrated")
"""
_MAKEFILE = "all: out.txt\n\nout.txt:\n\tdate > out.txt\n\ntest: all\n\ttest -s out.txt\n"

PROJECTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "python": {
            "src/app/__init__.py": "",
            "src/app/main.py": _MAIN_PY,
            "tests/test_main.py": _TEST_PY,
            "data.json": '{"b": 1, "a": [1, 2]}',
            "dist/app-0.1-py3-none-any.whl": "",
            ".gitignore": ".venv\n__pycache__\n",
        },
        "node": {
            "index.js": "module.exports = 1\n",
            "server.js": _SERVER_JS,
            "app.test.js": _PACKAGE_TESTS,
            "build.js": 'require("fs").writeFileSync("bundle.js", "built")\n',
            "package.json": '{"name": "app", "version": "1.0.0",'
            ' "scripts": {"test": "node --test", "build": "node build.js"}}\n',
            ".gitignore": "node_modules\n",
        },
        "go": {
            "main.go": 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println(double(2)) }\n\n'
            "func double(a int) int { return 2 * a }\n",
            "main_test.go": 'package main\n\nimport "testing"\n\nfunc TestDouble(t *testing.T) {\n'
            "\tif double(2) != 4 {\n\t\tt.Fatal()\n\t}\n}\n",
        },
        "rust": {
            "Cargo.toml": '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n',
            "src/main.rs": 'fn main() {\n    println!("{}", double(2));\n}\n\nfn double(a: i32) -> i32 {\n'
            "    2 * a\n}\n\n#[test]\nfn doubles() {\n    assert_eq!(double(2), 4);\n}\n",
            ".gitignore": "/target\n",
        },
        "docker": {
            "Dockerfile": "FROM alpine:3.19\nCOPY . /app\n",
            "docker-compose.yml": "services:\n  web:\n    build: .\n",
            "app.sh": "echo hello\n",
        },
        "database": {"schema.sql": "create table if not exists users (id int);\n", "migrate.py": _MIGRATE},
        "git": {"notes.txt": "a note\n"},
        "system": {
            "src/app/main.py": _MAIN_PY,
            "pyproject.toml": '[project]\nname = "app"\nversion = "1"\n',
            "data.csv": "b,2\na,1\n",
            "data.json": '{"name": "app"}',
            "Makefile": _MAKEFILE,
            "run.sh": "#!/bin/sh\necho running\n",
        },
    }
)


def make_project(place: Path, kind: str) -> Path:
    """Make a project of this kind, in a repository with a remote beside it, and a home of its own."""
    project = place / "project"
    files = {**PROJECTS[kind], "README.md": f"A project: {kind}\n"}
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, "utf-8")
    home = place / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "config").write_text("Host github\n")
    (home / ".profile").write_text("# mine\n")
    (home / ".gitconfig").write_text(
        "[user]\nname = A\nemail = a@example.org\n[init]\ndefaultBranch = main\n[pull]\nrebase = false\n"
    )
    _git(place, home, "init", "-q", "--bare", "remote.git")
    for words in (
        ("init", "-q"),
        ("add", "-A"),
        ("commit", "-qm", "one"),
        ("commit", "-qm", "2", "--allow-empty"),
    ):
        _git(project, home, *words)
    _git(project, home, "commit", "-qm", "three", "--allow-empty")
    _git(project, home, "remote", "add", "github", "git@github.com:example/app.git")
    _git(project, home, "remote", "add", "origin", str(place / "remote.git"))
    _git(project, home, "push", "-q", "-u", "origin", "main")
    return project


def _git(folder: Path, home: Path, *words: str) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *words], cwd=folder, env=environ, check=True, capture_output=True)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def servers(place: Path) -> Iterator[Mapping[str, int]]:
    """Run a web server, Postgres and redis on this machine; give the port of each that is installed."""
    ports: dict[str, int] = {}
    running: list[subprocess.Popen[bytes]] = []
    data = Path(tempfile.mkdtemp(prefix="postgres-"))  # pytest's directories are closed to other users
    try:
        ports["web"] = port = free_port()
        running.append(_start(["python3", "-m", "http.server", str(port), "--bind", "127.0.0.1"], place))
        if shutil.which("redis-server"):
            ports["redis"] = port = free_port()
            running.append(_start(["redis-server", "--port", str(port), "--save", ""], place))
        if shutil.which("postgres"):
            ports["postgres"] = port = free_port()
            running.append(_postgres(data, port))
        for name, port in ports.items():
            _wait_for(name, port)
        yield ports
    finally:
        for process in running:
            process.terminate()  # in the background of a script, SIGINT is ignored
            process.wait(10)
        shutil.rmtree(data)


def _start(words: Sequence[str | Path], cwd: Path, user: int | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, cwd=cwd, user=user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _postgres(data: Path, port: int) -> subprocess.Popen[bytes]:
    """Start Postgres, which does not run as root, in a new directory."""
    programs = Path(os.path.realpath(shutil.which("postgres") or "")).parent
    user = None
    if os.geteuid() == 0:
        user = 65534
        shutil.chown(data, user)
    words: list[str | Path] = [programs / "initdb", "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8"]
    subprocess.run(words, check=True, capture_output=True, user=user, cwd="/")
    words = [programs / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", data]
    return _start(words, Path("/"), user)


def _wait_for(name: str, port: int) -> None:
    limit = time.monotonic() + GUARD_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > limit:
                sys.exit(f"{name} does not listen on port {port}")
        time.sleep(0.05)
