"""A rule that runs a line outside the sandbox asks again when a file that steers its program changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.permissions import PermissionRules, PermissionStore, judge_call, parse_rules, stored_openings
from agent.shell import KnownPrograms, ProjectEnvironment
from tools.base import Access

_FILES = {
    "Makefile": "include mk/*.mk\ninstall:\n\t@./scripts/install.sh\n",
    "scripts/install.sh": "#!/bin/sh\n. scripts/lib.sh\nbin/release\n",
    "scripts/lib.sh": "python3 tool.py\n",
    "bin/release": "#!/usr/bin/env python3\nimport helper.py\n",
    "bin/helper.py": "\n",
    "ops/Makefile": "all:\n\tcd web && npm run x\n\tpython3 -m ops.release\n\tsh -e bin/go\n",
    "ops/web/package.json": '{"scripts": {"x": "make all"}}',
    "ops/web/Makefile": "all:\n",
    "ops/ops/release.py": "\n",
    "ops/bin/go": "echo\n",
    "tests/conftest.py": "\n",
    "tests/unit/test_a.py": "\n",
    "tests/unit/conftest.py": "\n",
    "packages/a/package.json": "{}",
    "node_modules/b/package.json": "{}",
    "crates/x/build.rs": "fn main() {}\n",
    "app/Dockerfile.dev": "FROM scratch\n",
    "web.env": "A=1\n",
    "docs/Taskfile.yml": "version: 3\n",
    "more.just": "x:\n",
    "q.sql": "select 1;\n",
    ".envrc": "export A=1\n",
    "fly.toml": "\n",
    "mk/deploy.mk": "include $(NAMES)/names $(A)/$(B)/$(C)/none\ndeploy:\n\t$(MAKE) -C infra all\n",
    "mk/names": "A = 1\n",
    "infra/Makefile": "all:\n\t./run.sh\n",
    "infra/run.sh": "\n",
    "package.json": '{"main": "dist/index.js", "scripts": {"e2e": "node e2e/run.mjs"}}',
    "e2e/run.mjs": "run()\n",
    "dist/index.js": "1\n",
    "conftest.py": "\n",
    "pyproject.toml": "[project]\n",
    "compose.yaml": "services: {}\n",
    "ops/compose.yaml": "services: {}\n",
    "Cargo.toml": "[package]\n",
    "build.rs": "fn main() {}\n",
    "justfile": "deploy:\n",
    "deploy.py": "print()\n",
    ".husky/pre-push": "npm test\n",
    "sub/Makefile": "all:\n",
    "sub/.git/config": "[core]\n",
    ".git/config": "[core]\n",
    "notes.txt": "a\n",
    "src/main.rs": "fn main() {}\n",
    "vite.config.ts": "\n",
    "main.tf": "\n",
    "gradle/wrapper/gradle-wrapper.properties": "distributionUrl=https://example.org/g.zip\n",
    "tools/deploy.py": "print()\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in _FILES.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return (tmp_path / "project").resolve()


def allowing(line: str, folder: Path) -> PermissionStore:
    """The permissions after the user has allowed a line outside the sandbox for good."""
    reading = ProjectEnvironment(str(folder), {"PATH": "/usr/bin:/bin"})
    rules = PermissionRules(folder=str(folder), sandboxed=True, reading=lambda: reading)
    store = PermissionStore(rules, folder.parent / "granted.toml")
    store.allow_always(parse_rules(f"open({line})")[0], str(folder))
    return store


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("make install", "Makefile"),
        ("make install", "scripts/install.sh"),
        ("make install", "scripts/lib.sh"),
        ("make install", "bin/release"),
        ("make install", "mk/deploy.mk"),
        ("make install", "mk/names"),
        ("make install", "infra/Makefile"),
        ("make install", "infra/run.sh"),
        ("./scripts/install.sh", "scripts/lib.sh"),
        ("make -C sub", "sub/Makefile"),
        ("cd sub && make", "sub/Makefile"),
        ("timeout 60 make install", "Makefile"),
        ("npm run e2e", "package.json"),
        ("npm run e2e", "e2e/run.mjs"),
        ("pytest tests", "conftest.py"),
        ("pytest tests", "pyproject.toml"),
        ("docker compose up -d", "compose.yaml"),
        ("docker compose up -d", ".env"),
        ("docker compose -f ops/compose.yaml up", "ops/compose.yaml"),
        ("cargo publish", "build.rs"),
        ("just deploy", "justfile"),
        ("python deploy.py", "deploy.py"),
        ("npm run e2e", "vite.config.ts"),
        ("terraform apply", "main.tf"),
        ("gradle deploy", "gradle/wrapper/gradle-wrapper.properties"),
        ("python3 -m tools.deploy", "tools/deploy.py"),
        ("ssh host bash < scripts/lib.sh", "scripts/lib.sh"),
        ("cat scripts/lib.sh | ssh host sh", "scripts/lib.sh"),
        ("helm upgrade x ./chart --post-renderer bin/release", "bin/release"),
        ("env $(cat .env) bin/release", "bin/release"),
        ("kubectl apply -f ops/compose.yaml", "ops/compose.yaml"),
        ("git push", ".husky/pre-push"),
        ("git -C sub push", "sub/.git/config"),
        ("cd sub && git push", "sub/.git/config"),
        ("make -C ops", "ops/web/package.json"),
        ("make -C ops", "ops/web/Makefile"),
        ("make -C ops", "ops/ops/release.py"),
        ("make -C ops", "ops/bin/go"),
        ("cd infra && ./run.sh", "infra/run.sh"),
        ("pytest", "tests/unit/conftest.py"),
        ("pytest tests/unit/test_a.py::test_b", "tests/conftest.py"),
        ("yarn workspace a build", "packages/a/package.json"),
        ("cargo publish -p x", "crates/x/build.rs"),
        ("docker compose up -d", "app/Dockerfile.dev"),
        ("docker compose up -d", "web.env"),
        ("task deploy", "docs/Taskfile.yml"),
        ("just deploy", "more.just"),
        ("psql -f q.sql", "q.sql"),
        ("direnv exec . docker ps", ".envrc"),
        ("fly deploy", "fly.toml"),
    ],
)
def test_a_changed_file_that_steers_the_program_is_named(folder: Path, line: str, changed: str) -> None:
    store = allowing(line, folder)
    access = Access("run", line, cwd=str(folder))
    assert store.rules.runs_open(access)
    (folder / changed).write_text("other")
    verdict = judge_call("bash", [access], store.rules)
    assert (verdict.answer, str(verdict.prefix), verdict.binding) == ("ask", f"open({line})", True)
    assert verdict.why == f"{changed} has changed since you allowed this line outside the sandbox"
    assert not store.rules.runs_open(access)
    store.allow_always(parse_rules(f"open({line})")[0], str(folder))
    assert store.rules.runs_open(access)


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("npm run e2e", "dist/index.js"),
        ("npm run e2e", "node_modules/b/package.json"),
        ("make install", "notes.txt"),
        ("make install", "bin/helper.py"),  # a module
        ("scp notes.txt host:", "notes.txt"),
        ("scp dist/index.js host:", "dist/index.js"),  # which each build makes
        ("cargo run", "src/main.rs"),  # the code that it runs
        ("ssh host uptime", "Makefile"),
        ("git push", "package.json"),
        ("git push", ".git/config"),  # which commands cannot change
    ],
)
def test_other_files_may_change(folder: Path, line: str, changed: str) -> None:
    store = allowing(line, folder)
    (folder / changed).write_text("other")
    assert store.rules.runs_open(Access("run", line, cwd=str(folder)))


def test_a_file_that_was_added_counts_as_changed(folder: Path) -> None:
    store = allowing("make install", folder)
    (folder / "GNUmakefile").write_text("install:\n")
    assert judge_call("bash", [Access("run", "make install", cwd=str(folder))], store.rules).why.startswith(
        "GNUmakefile has changed"
    )


def test_what_was_known_is_stored_and_older_files_are_read(folder: Path) -> None:
    """An older file contains no digests of files, so the user is asked once more."""
    store = allowing("make install", folder)
    path = folder.parent / "granted.toml"
    assert stored_openings(path) == store.rules.opened
    assert {"Makefile", "scripts/install.sh"} <= set(stored_openings(path)["make install"].files)
    path.with_suffix(".opened").write_text(json.dumps({"make install": ""}))
    assert stored_openings(path) == {"make install": KnownPrograms()}
    path.with_suffix(".opened").write_text("[1]")
    assert stored_openings(path) == {}
