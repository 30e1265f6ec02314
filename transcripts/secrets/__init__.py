"""Recognize secrets, and mask them in text that is written."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .assignments import *
    from .masking import *
    from .secret_forms import *
    from .stream_redactor import *

__getattr__ = lazy_door(
    __name__,
    {
        "assignments": "holds_secret",
        "masking": "SecretMasks mask",
        "secret_forms": "is_withheld secret_values",
        "stream_redactor": "StreamRedactor",
    },
)
