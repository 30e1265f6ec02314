"""The face for editors: the Agent Client Protocol (ACP), spoken on standard input and output."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .serving import *

__getattr__ = lazy_door(__name__, {"serving": "SessionWish run_agent_server"})
