"""What in directories of dependencies belongs to the user."""

import json
import os
import tracemalloc
from pathlib import Path

import pytest

from agent.checkpoints.package_folders import own_files


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")


@pytest.mark.parametrize("is_listed", [False, True])
def test_modules_that_npm_does_not_know(tmp_path: Path, is_listed: bool) -> None:
    folder = tmp_path / "node_modules"
    (tmp_path / "package.json").write_text('{"devDependencies": {"a": "1"}}')
    make(folder, ".bin/tsc", "a/package.json", "@s/b/package.json", "@s/own/notes", "mine/x.js", "todo.txt")
    (folder / "linked").symlink_to(tmp_path)
    known: dict[str, dict[str, object]] = {"packages": {"node_modules/a": {}, "node_modules/@s/b": {}}}
    if is_listed:
        (folder / ".package-lock.json").write_text(json.dumps(known))
        make(folder, "copied/package.json")
    assert own_files(folder) == ["@s/own", *(["copied"] if is_listed else []), "mine", "todo.txt"]


def test_without_a_list_no_module_is_known_where_nothing_is_needed(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"dependencies": {}}')
    make(tmp_path / "node_modules", "a/package.json")
    assert own_files(tmp_path / "node_modules") == ["a"]


def test_files_that_were_edited_in_a_package_are_the_user_s(tmp_path: Path) -> None:
    """Not those that its scripts build after it was unpacked, nor a package in it that is installed later."""
    (tmp_path / "package.json").write_text('{"dependencies": {"a": "1"}}')
    modules = tmp_path / "node_modules"
    inner = "a/node_modules/b"
    make(
        modules, "a/package.json", "a/build/a.node", "a/edited.js", "a/.cache/x", "a/__pycache__/y", "a/z.js"
    )
    make(modules, f"{inner}/package.json", f"{inner}/index.js", f"{inner}/deep/edited.js")
    packages = "lib/python3.12/site-packages"
    environment = tmp_path / ".venv"
    make(environment, f"{packages}/pkg/x.py", f"{packages}/pkg/edited.py", f"{packages}/pkg/x.pyc")
    make(environment, f"{packages}/pkg-1.dist-info/RECORD")
    record = (
        "pkg-1.dist-info/RECORD,,\npkg/x.py,,\npkg/edited.py,,\npkg/x.pyc,,\n../../../bin/tool,,\n/etc/x,,\n"
    )
    (environment / packages / "pkg-1.dist-info/RECORD").write_text(record)
    ages = {"a/build/a.node": 500, "a/edited.js": 5_000, "a/.cache/x": 5_000, "a/__pycache__/y": 5_000}
    ages |= {f"{inner}/package.json": 5_000, f"{inner}/index.js": 5_000, f"{inner}/deep/edited.js": 9_000}
    base = 1_700_000_000
    for folder in (modules, environment):
        for path in folder.rglob("*"):
            os.utime(path, (base, base + ages.get(path.relative_to(folder).as_posix(), 0)))
    for name in ("pkg/edited.py", "pkg/x.pyc"):
        os.utime(environment / packages / name, (base, base + 5_000))
    assert own_files(modules) == ["a/edited.js", f"{inner}/deep/edited.js"]
    assert own_files(environment) == [f"{packages}/pkg/edited.py"]


def test_files_of_an_environment_that_no_package_lists(tmp_path: Path) -> None:
    folder = tmp_path / ".venv"
    packages = "lib/python3.12/site-packages"
    make(folder, "pyvenv.cfg", ".gitignore", "bin/python3.12", "bin/activate.fish", "bin/tool", "bin/mine.sh")
    make(folder, f"{packages}/pkg/x.py", f"{packages}/old.egg-info", f"{packages}/own.pth", "notes/todo")
    make(folder, f"{packages}/pkg-1.dist-info/RECORD", f"{packages}/__pycache__/one.pyc")
    record = "pkg/x.py,sha256=a,1\npkg-1.dist-info/RECORD,,\n../../../bin/tool,sha256=b,2\n"
    (folder / packages / "pkg-1.dist-info/RECORD").write_text(record)
    assert own_files(folder) == ["bin/mine.sh", f"{packages}/own.pth", "notes"]
    assert own_files(tmp_path / "missing") == []


def test_lists_without_an_end_are_not_all_read(tmp_path: Path) -> None:
    """A command can make many of them that take no space on the disk."""
    packages = tmp_path / ".venv/lib/python3.12/site-packages"
    for number in range(8):
        path = packages / f"p{number}.dist-info/RECORD"
        path.parent.mkdir(parents=True)
        path.touch()
        os.truncate(path, 15 << 20)
    tracemalloc.start()
    try:
        assert len(own_files(tmp_path / ".venv")) == 8
        assert tracemalloc.get_traced_memory()[1] < 128 << 20  # of 120 MB and as much text
    finally:
        tracemalloc.stop()
