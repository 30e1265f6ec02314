"""Stream one typed request as neutral deltas. One package for each provider."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .anthropic.catalog import CATALOG
    from .anthropic.client import AnthropicModel
    from .anthropic.clouds import cloud_of
    from .anthropic.messages import FORMAT, markable_part
    from .anthropic.request import beta_header, encode_request
    from .chat_completions.chat_client import ChatCompletionsModel
    from .chat_completions.chat_request import CHAT_FORMAT, OFFICIAL_CHAT_FORMAT, encode_chat_request
    from .error_mapping import ended_early
    from .openai_http import OPENAI_URL
    from .responses.client import ResponsesModel
    from .responses.request import RESPONSES_FORMAT, encode_responses_request
    from .retry import MAX_TRIES, Failures
    from .selection import ModelFactsCache, ModelSelection

__getattr__ = lazy_door(
    __name__,
    {
        "anthropic.catalog": "CATALOG",
        "anthropic.client": "AnthropicModel",
        "anthropic.clouds": "cloud_of",
        "anthropic.messages": "FORMAT markable_part",
        "anthropic.request": "beta_header encode_request",
        "chat_completions.chat_client": "ChatCompletionsModel",
        "chat_completions.chat_request": "CHAT_FORMAT OFFICIAL_CHAT_FORMAT encode_chat_request",
        "error_mapping": "ended_early",
        "openai_http": "OPENAI_URL",
        "responses.client": "ResponsesModel",
        "responses.request": "RESPONSES_FORMAT encode_responses_request",
        "retry": "MAX_TRIES Failures",
        "selection": "ModelFactsCache ModelSelection",
    },
)
