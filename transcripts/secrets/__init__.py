"""Recognize secrets, and mask them in text that is written."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .assignments import holds_secret
    from .masking import SecretMasks, mask
    from .secret_forms import is_withheld, secret_texts, secret_values
    from .stream_redactor import StreamRedactor

__getattr__ = lazy_door(
    __name__,
    {
        "assignments": "holds_secret",
        "masking": "SecretMasks mask",
        "secret_forms": "is_withheld secret_texts secret_values",
        "stream_redactor": "StreamRedactor",
    },
)
