"""The version, a literal so that `--version` reads no package metadata, and the program's command."""

import sys

__version__ = "0.2.0"


def program_name() -> str:
    """Return the command that started the program: `makeroom`, or `python -m agent` from a checkout."""
    is_checkout = sys.argv[0].replace("\\", "/").endswith("agent/__main__.py")
    return "python -m agent" if is_checkout else "makeroom"
