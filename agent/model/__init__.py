"""Stream one typed request as neutral deltas. One package for each provider."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .answer_reader import *
    from .anthropic.catalog import *
    from .anthropic.client import *
    from .anthropic.clouds import *
    from .anthropic.messages import *
    from .anthropic.request import *
    from .chat_completions.chat_client import *
    from .chat_completions.chat_request import *
    from .error_mapping import *
    from .openai_http import *
    from .responses.client import *
    from .responses.request import *
    from .retry import *
    from .selection import *

__getattr__ = lazy_door(
    __name__,
    {
        "answer_reader": "proxy_for",
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
