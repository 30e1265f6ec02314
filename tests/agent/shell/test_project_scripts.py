"""Command lines behind `make TARGET` and `npm run NAME`."""

import json
import os
import time
from pathlib import Path

import pytest

from agent.shell import Places, ProjectEnvironment, lines_behind

MAKEFILE = """
OUT := build
OUT += dist
VENV ?= .venv
DIRS = $(OUT) ${VENV}
.PHONY: all wipe
all: build/x ; echo all
build/x: x.c
	gcc -o $@ $<
wipe: tell
	@rm -rf \\
	$(DIRS)
	-$(RM) *.log $(wildcard *.o) $(UNDEFINED)
ifdef DEEP
	for d in a b; do rm -rf $$d; done
endif
tell:
	@echo wiping
	$(MAKE) -C sub clean
one two: ; rm $@
"""
JUSTFILE = """
out := "build"
export deep := 'a/b'
set shell := ["bash", "-c"]
alias w := wipe

default: tell

# wipes all
@wipe kind="all" *more: tell && after
    @rm -rf {{out}} {{ deep }} \\
        node_modules
    -git stash drop
after:
    #!/usr/bin/env bash
    rm -rf .venv
tell:
    echo telling
"""
RAKEFILE = """
task :default => [:tell]
desc 'wipes'
task :wipe, [:kind] => [:tell] do |t, args|
  rm_rf 'build', "node_modules"
  sh "git clean -fdx"
  # sh "no"
  `git stash drop`
end
namespace :db do
  task(tell: []) { sh('echo telling') }
end
multitask 'tell' do
  system "echo telling"
end
"""
SCRIPT = """#!/bin/bash
set -e
clean() {
  rm -rf node_modules
}
clean
"""
SCRIPTS = """{"scripts": {"clean": "rimraf node_modules dist", "preclean": "npm run tell", "tell": "echo",
"test": "jest", "last": "echo last", "postlast": "echo after", "loop": "npm run loop", "odd": 3}}"""
JUST = ["echo telling", "rm -rf build a/b          node_modules", "git stash drop", "rm -rf .venv"]
WIPING = ["echo wiping", "make -C sub clean", "rm -f *.log  ", "for d in a b; do rm -rf $d; done"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "other.mk").write_text("x:\n\techo other\n")
    (tmp_path / "rules.mk").write_text("NAME = deep\ninclude ./rules.mk $(NAME).mk missing.mk\n")
    (tmp_path / "deep.mk").write_text("deep: ; rm -rf .venv\n")
    (tmp_path / "including.mk").write_text("-include rules.mk # more\nall: deep\n")
    (tmp_path / "pattern.mk").write_text("include $(CURDIR) [d-o]*.mk sub/*.mk /etc/*.mk\n")
    (tmp_path / "justfile").write_text(JUSTFILE)
    (tmp_path / "Rakefile").write_text(RAKEFILE)
    (tmp_path / "clean.sh").write_text(SCRIPT)
    (tmp_path / "clean.py").write_text("#!/usr/bin/env python3\nimport shutil\n")
    (tmp_path / "plain").write_text("git stash drop\n")
    (tmp_path / "link.sh").symlink_to(tmp_path / "clean.sh")
    (tmp_path / "away.sh").symlink_to("/etc/profile")
    (tmp_path / "sub" / "makefile").write_text("clean:\n\trm -rf ../.git\n")
    (tmp_path / "sub" / "below.mk").write_text("below: ; rm -rf lib\n")
    (tmp_path / "package.json").write_text(SCRIPTS)
    return tmp_path.resolve()


def behind(root: Path, line: str) -> list[tuple[str, str]]:
    places = Places(folder=str(root), home="/home/u", cwd=str(root))
    files = ProjectEnvironment(str(root), {"PATH": os.environ["PATH"]})
    found = lines_behind(line, places, files)
    return sorted((text, os.path.relpath(each.cwd, root)) for text, each in found)


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("make", ["echo all", "gcc -o build/x "]),
        ("make -j 4 wipe", [*WIPING, "rm -rf  build dist .venv"]),
        ("make VENV=env wipe", [*WIPING, "rm -rf  build dist env"]),
        ("make two", ["rm two"]),
        ("make -f other.mk", ["echo other"]),
        ("make -f including.mk deep", ["rm -rf .venv"]),
        ("make -f including.mk all", ["rm -rf .venv"]),
        ("just", ["echo telling"]),
        ("just out=dist wipe", [*JUST[:1], "rm -rf dist a/b          node_modules", *JUST[2:]]),
        ("just w", JUST),
        ("cd sub && just tell", ["echo telling"]),
        ("rake", ["echo telling"]),
        (
            "rake wipe[all]",
            ["echo telling", "git clean -fdx", "git stash drop", "rm -rf build node_modules"],
        ),
        ("rake db:tell missing", []),
        ("sh clean.sh --all", [SCRIPT]),
        ("bash -e ./clean.sh", [SCRIPT]),
        ("./clean.sh", [SCRIPT]),
        ("source clean.sh; . plain", [SCRIPT, "git stash drop\n"]),
        ("./plain; sh plain", ["git stash drop\n"]),
        ("node ./plain; python3 -u ./clean.sh x; nodemon --exec 'ruby ./plain'", []),
        ("./clean.py; sh -c clean.sh; sh $FILE; ./away.sh; sh missing.sh", []),
        ("./link.sh", [SCRIPT]),
        ("make missing; ls", []),
        ("npm run clean", ["rimraf node_modules dist", "npm run tell", "echo"]),
        ("cd sub && yarn tell", ["echo"]),
        ("npm test", ["jest"]),
        ("npm run last", ["echo last", "echo after"]),
        ("npm ci", []),
        ("npm run odd; npm run missing; npm run", []),
        ("npm run loop", ["npm run loop"] * 3),
        ("make -f pattern.mk deep", ["rm -rf .venv"]),
        ("make -f pattern.mk x", ["echo other"]),
        ("make -f pattern.mk below", ["rm -rf lib"]),
        ("run-s clean", ["rimraf node_modules dist", "npm run tell", "echo"]),
        ("npm-run-all -p tell test; turbo run tell", ["echo", "jest"]),
        ("nx run-many -t tell,test", ["echo", "jest"]),
        ("node --run tell", ["echo"]),
        ("node tell", []),
        ("BASH_ENV=plain bash -c true; ENV=./plain sh -i", ["git stash drop\n"]),
        ("env BASH_ENV=plain bash -c true", ["git stash drop\n"]),
        ("export BASH_ENV=plain; bash -c true", ["git stash drop\n"]),
        ("bash -c 'make tell'", ["echo wiping", "make -C sub clean"]),
    ],
)
def test_the_lines_that_a_script_of_the_project_runs(root: Path, line: str, lines: list[str]) -> None:
    found = behind(root, line)
    assert sorted(text for text, folder in found if folder == ".") == sorted(lines)
    below = ["rm -rf ../.git"] if "make -C sub clean" in lines else []
    assert [text for text, folder in found if folder == "sub"] == below


@pytest.mark.parametrize("content", ["", "{", "[]", '{"scripts": 5}', '{"scripts": []}', "\0", "[" * 100_000])
def test_a_file_that_is_not_as_it_should_be_has_no_lines(root: Path, content: str) -> None:
    for name in ("package.json", "Makefile"):
        (root / name).write_text(content)
    assert behind(root, "make; npm run clean") == []


def test_scripts_that_grow_when_they_are_expanded_take_little_time(root: Path) -> None:
    variables = "".join(f"V{n} = " + f"$(V{n + 1})" * 20_000 + "\n" for n in range(9))
    (root / "Makefile").write_text(f"all:\n\techo $(V0)\n{variables}a{' ' * 50_000}b:\n{'$(V0): x' * 9}")
    (root / "package.json").write_text(json.dumps({"scripts": {"a": "npm run a; " * 50_000}}))
    start = time.process_time()
    assert all(len(text) <= 10_000 for text, _ in behind(root, "make; npm run a"))
    assert time.process_time() - start < 2


def test_a_file_outside_the_project_or_a_pipe_is_not_read(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "Makefile"
    outside.write_text("all:\n\techo secret\n")
    (root / "linked").symlink_to(outside)
    os.mkfifo(root / "pipe")
    assert behind(root, f"make -f linked; make -f pipe; make -f {outside}") == []
