"""Doors of the extensions: other packages import through them alone, and each name exists."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DOORS = ("agent.extensions", *(f"agent.extensions.{room}" for room in ("agents", "hooks", "mcp", "skills")))


@pytest.mark.parametrize("door", DOORS)
def test_every_name_of_a_door_is_there_and_is_not_a_module(door: str) -> None:
    package = import_module(door)
    folder = Path(package.__path__[0])
    modules = {path.stem for path in folder.iterdir()}
    assert list(package.__all__) == sorted(package.__all__, key=lambda name: (not name.isupper(), name))
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert name not in modules, "importing the module would put it in the place of the name"


def test_other_packages_import_by_the_doors_alone() -> None:
    others = [
        path
        for package in ("agent", "tools", "compact", "transcripts")
        for path in (ROOT / package).rglob("*.py")
        if "extensions" not in path.parts
    ]
    inside = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in others
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("agent.extensions")
        and node.module not in DOORS
    ]
    assert len(others) > 100 and inside == []
