"""Doors of the extensions: each name exists."""

from importlib import import_module
from pathlib import Path

from tests.tables import each_row

DOORS = ("agent.extensions", *(f"agent.extensions.{room}" for room in ("agents", "hooks", "mcp", "skills")))


@each_row("door", DOORS)
def test_every_name_of_a_door_is_there_and_is_not_a_module(door: str) -> None:
    package = import_module(door)
    folder = Path(package.__path__[0])
    modules = {path.stem for path in folder.iterdir()}
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert name not in modules, "importing the module would put it in the place of the name"
