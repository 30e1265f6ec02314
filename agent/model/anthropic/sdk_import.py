"""Import the official SDK without the parts that are never used, in a quarter of the time and memory.

Nearly all of `import anthropic` (1.6 s and more) is some 3,000 generated modules of types and resources. This
program posts bytes and reads raw events, for which the client, its errors and its streams are enough. While
the SDK is imported, those modules are replaced by empty ones. If that fails, the full SDK is imported, and a
file in the cache directory makes later starts with this version do so immediately, as MAKEROOM_FULL_SDK=1
does.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

log = logging.getLogger(__name__)
SDK = "anthropic"
_UNUSED_PARTS = tuple(
    f"{SDK}.{name}"
    for name in (
        "types",
        "resources",
        "lib.vertex",
        "lib.bedrock",
        "lib.aws",
        "lib.foundry",
        "lib.google_cloud",
        "lib.middleware",
        "lib.tools",
        "lib.streaming",
    )
)
# The names of the SDK that the client module uses.
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
    """A module in which every name is an empty class, which is enough for annotations and base classes."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


class _EmptyModules(MetaPathFinder, Loader):
    """A finder that returns an empty module for each module that is left out."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if any(fullname == name or fullname.startswith(f"{name}.") for name in _UNUSED_PARTS):
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _EmptyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: there is nothing to run."""


MAJOR_VERSION = "2."  # the slim import depends on its layout


def import_sdk(whole: bool = False, failures: Path | None = None) -> ModuleType:
    """Return the SDK, without unused parts if that works and `whole` is not set.

    `failures` is the directory with the versions on which the slim import has failed. Raises ImportError if
    the SDK is not installed.
    """
    is_whole_wanted = whole or os.environ.get("MAKEROOM_FULL_SDK", "") not in ("", "0")
    version = "" if SDK in sys.modules or is_whole_wanted else installed_version()
    failed = failures / f"slim-sdk-{version}.failed" if failures is not None and version else None
    if not version.startswith(MAJOR_VERSION) or (failed is not None and failed.exists()):
        return import_module(SDK)
    finder = _EmptyModules()
    sys.meta_path.insert(0, finder)  # it stays there, as the SDK imports some of these modules later
    try:
        sdk = import_module(SDK)
        if _is_usable(sdk):
            return sdk
    except Exception:  # border: an empty module may fail the SDK in any way, and the full SDK replaces it
        log.info("the slim import of the SDK %s failed", version, exc_info=True)
    sys.meta_path.remove(finder)
    for name in [name for name in sys.modules if name == SDK or name.startswith(f"{SDK}.")]:
        del sys.modules[name]
    if failed is not None:
        with suppress(OSError):  # otherwise the next start tries again
            failed.parent.mkdir(parents=True, exist_ok=True)
            failed.touch()
    return import_module(SDK)


def installed_version() -> str:
    """Return the version of the installed SDK from its file, since importing may fail; "" if unknown."""
    spec = find_spec(SDK)
    folders = spec.submodule_search_locations if spec is not None else None
    try:
        text = Path(next(iter(folders or ()), ""), "_version.py").read_text("utf-8")
    except OSError:
        return ""
    found = re.search(r'__version__ = "([\w.+-]+)"', text)
    return found[1] if found else ""


def _is_usable(sdk: ModuleType) -> bool:
    """Return whether the SDK has all names that are used."""
    return all(isinstance(getattr(sdk, name, None), type) for name in _USED)
