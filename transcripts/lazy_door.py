"""Load the modules behind a package's door when one of their names is first used (PEP 562).

`__all__` of a package contains the names that other packages may import. If importing all of them would slow
down start-up, it provides them one at a time. The type checker alone sees all names of their modules:

    # mypy: implicit-reexport
    if TYPE_CHECKING:
        from .catalog import *
    __getattr__ = lazy_door(__name__, {"catalog": "Catalog load_catalog"})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_door(package: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """Set the `__all__` of a package, and return its `__getattr__`.

    `names` maps each module to the names that it provides.
    """
    modules = {name: module for module, listed in names.items() for name in listed.split()}
    vars(sys.modules[package])["__all__"] = list(modules)

    def load(name: str) -> object:
        module = modules.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{package}.{module}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
