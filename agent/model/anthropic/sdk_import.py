"""Import the official SDK without the parts that this program never uses: a quarter of the time and memory.

Nearly all of `import anthropic` (1.6 s and more) is some 3,000 generated modules of types and resources. This
program posts bytes and reads raw events, for which the client, its errors and its streams are enough. While
the SDK is imported, those modules are replaced by empty ones. Where the SDK is of an unknown version, or
lacks anything that is used here, it is imported whole; MAKEROOM_FULL_SDK=1 asks for that.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

log = logging.getLogger(__name__)
SDK = "anthropic"
KNOWN_VERSIONS = ("2.11.", "2.12.")  # on which the slim import was tried
_UNUSED_PARTS = tuple(
    f"{SDK}.{name}"
    for name in (
        "types",
        "resources",
        "lib.vertex",
        "lib.bedrock",
        "lib.aws",
        "lib.foundry",
        "lib.tools",
        "lib.streaming",
    )
)
# What the client module uses of the SDK.
_USED = (
    "AsyncAnthropic",
    "DefaultAsyncHttpxClient",
    "AnthropicError",
    "APIStatusError",
    "APITimeoutError",
    "APIConnectionError",
    "CredentialsError",
)


class _EmptyModule(ModuleType):
    """A module in which every name is a class without content: enough for annotations and base classes."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


class _EmptyModules(MetaPathFinder, Loader):
    """Finds an empty module for each that is left out."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if any(fullname == name or fullname.startswith(f"{name}.") for name in _UNUSED_PARTS):
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _EmptyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


def import_sdk(whole: bool = False) -> ModuleType:
    """The SDK, slim where that is known to work and `whole` is not wanted.

    Raises ImportError where it is not installed.
    """
    is_whole_wanted = whole or os.environ.get("MAKEROOM_FULL_SDK", "") not in ("", "0")
    if SDK in sys.modules or is_whole_wanted or not _is_known_version():
        return import_module(SDK)
    finder = _EmptyModules()
    sys.meta_path.insert(0, finder)  # and it stays there: the SDK imports some of them when it needs them
    try:
        sdk = import_module(SDK)
        if _is_usable(sdk):
            return sdk
    except Exception:  # border: an empty module may fail the SDK in any way, and the whole one is there
        log.info("the slim import of the SDK failed", exc_info=True)
    sys.meta_path.remove(finder)
    for name in [name for name in sys.modules if name == SDK or name.startswith(f"{SDK}.")]:
        del sys.modules[name]
    return import_module(SDK)


def _is_known_version() -> bool:
    """Return whether the installed version was tried.

    It is read from its file, as importing is what may fail.
    """
    spec = find_spec(SDK)
    folders = spec.submodule_search_locations if spec is not None else None
    try:
        text = Path(next(iter(folders or ()), ""), "_version.py").read_text("utf-8")
    except OSError:
        return False
    return any(f'__version__ = "{version}' in text for version in KNOWN_VERSIONS)


def _is_usable(sdk: ModuleType) -> bool:
    """Return whether everything used is there."""
    return all(isinstance(getattr(sdk, name, None), type) for name in _USED)
