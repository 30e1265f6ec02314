"""Start the program from a wheel, where this file is `makeroom/__main__.py` with the four packages beside it.

A checkout has them at its root. Installed there, `agent` or `tools` would be in the way of other projects.
"""

import sys

sys.path.insert(0, __file__.rpartition("/")[0])

from agent.__main__ import command

if __name__ == "__main__":
    command()
