"""Stream one typed request as neutral deltas. One package for each provider."""

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .anthropic.catalog import CATALOG
    from .anthropic.client import AnthropicModel
    from .anthropic.clouds import cloud_of
    from .anthropic.request import FORMAT, beta_header, encode_request, markable_part
    from .retry import MAX_TRIES, UNREADABLE_TRIES, wait_before
    from .selection import ModelFactsCache, ModelSelection

__all__ = [
    "CATALOG",
    "FORMAT",
    "MAX_TRIES",
    "UNREADABLE_TRIES",
    "AnthropicModel",
    "ModelFactsCache",
    "ModelSelection",
    "beta_header",
    "cloud_of",
    "encode_request",
    "markable_part",
    "wait_before",
]
__getattr__ = lazy_door(
    __name__,
    {
        "anthropic.catalog": "CATALOG",
        "anthropic.client": "AnthropicModel",
        "anthropic.clouds": "cloud_of",
        "anthropic.request": "FORMAT beta_header encode_request markable_part",
        "retry": "MAX_TRIES UNREADABLE_TRIES wait_before",
        "selection": "ModelFactsCache ModelSelection",
    },
)
