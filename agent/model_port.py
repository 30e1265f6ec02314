"""The Model port: a provider-neutral request, and the reply as it arrives. One adapter per provider.

An adapter turns a `ModelRequest` into whatever its service takes, and what comes back into an
`IncomingReply`. Bytes, headers, signatures, cache fields and event streams are its own business.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeGuard

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from transcripts import Block, Message, TextBlock, Usage, is_server_tool

from .errors import Feature
from .events import Event

MIN_OUTPUT_TOKENS = 1024  # asked for, however small the window
BELIEVED_LIMITS_TOKENS = (256, 100_000_000)  # what a server may say of a window or an output
MAX_OUTPUT_SHARE = 0.25  # of the window: a reply has to fit beside its prompt


class RequestSettings(Struct, frozen=True):
    """The settings that all requests of a session share.

    system      the texts of the system prompt, in order
    tools       definitions in order; a model sees their "name", "description" and "input_schema", other
                keys are for the record; those with a "type" are run by the service, and sent as they are
    thinking    whether the model may think before it answers, with a summary that can be shown
    silent_thinking  without that summary
    effort      how hard it thinks: "low" to "max"; None leaves that to the model
    cache       how long the provider should keep the prefix: "5m", "1h"; None for not at all
    eager       whether the inputs of tools should stream before they are validated
    rejected    features that the server did not take; they are off
    """

    model: str
    max_tokens: int
    system: tuple[str, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    thinking: bool = False
    silent_thinking: bool = False
    effort: str | None = None
    cache: Literal["5m", "1h"] | None = "5m"
    eager: bool = False
    rejected: frozenset[Feature] = frozenset()

    def without(self, *features: Feature) -> RequestSettings:
        """The settings for a server that does not take some features: these are off, and remembered."""
        return replace(
            self,
            thinking=self.thinking and "thinking" not in features,
            tools=self.tools if "web tools" not in features else _without_server_tools(self.tools),
            effort=None if "effort" in features else self.effort,
            cache=None if "cache" in features else self.cache,
            eager=self.eager and "eager tool input" not in features,
            rejected=self.rejected | set(features),
        )


def _without_server_tools(tools: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
    return tuple(tool for tool in tools if not is_server_tool(tool))


def is_believable(tokens: Any) -> TypeGuard[int]:
    """Return whether what a server says of the window or the longest output of a model makes sense."""
    return isinstance(tokens, int) and BELIEVED_LIMITS_TOKENS[0] <= tokens <= BELIEVED_LIMITS_TOKENS[1]


def output_room(window: int) -> int:
    """The most output tokens to ask for in a window of so many tokens."""
    return max(MIN_OUTPUT_TOKENS, int(window * MAX_OUTPUT_SHARE))


RECORDED_SETTINGS = ("max_tokens", "thinking", "silent_thinking", "effort", "cache", "eager", "rejected")
"""The settings of a request that stand in its own fact; the others stand in the `Opened` before it."""


class ModelRequest(Struct, frozen=True):
    """One request: the view, and where the provider's cache should be able to stop.

    `messages` alternate, begin with the user's, and hold thinking only where its signature may be sent back.
    `cache_marks` are indices of messages; the last message is always one more. `instruction` is one more user
    message at the end, behind the last mark; with `compacts` it is for the service's own compaction where the
    provider has one, whose block is then the whole reply. `encoded` keeps the body that adapters made, by the
    name of their encoding.
    """

    settings: RequestSettings
    messages: Sequence[Message]
    cache_marks: tuple[int, ...] = ()
    instruction: str = ""
    compacts: bool = False
    encoded: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        force_setattr(self, "encoded", {})  # of this request: a changed copy has a body of its own


class PendingBlock(Struct):
    """A content block that has begun and not ended; `pieces` are the texts that came of it so far."""

    kind: Literal["text", "thinking", "tool input", "other"]
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class IncomingReply(Struct):
    """A reply as it arrives. An adapter fills it, the loop reads it, also after a failure half-way.

    blocks    finished blocks, in order: no tool may run from any other
    pending   blocks under way, by index
    stop      "end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "pause_turn" or
              "model_context_window_exceeded"; other words of a provider as they are; None: not known yet
    complete  the stream ended as it should: a stop reason is known and no block is pending
    """

    blocks: list[Block] = field(default_factory=list)
    pending: dict[int, PendingBlock] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    stop: str | None = None
    complete: bool = False
    model: str = ""
    request_id: str = ""
    ident: str = ""  # of the message, where the service gives one

    @property
    def started(self) -> bool:
        return bool(self.blocks or self.pending or self.model)

    @property
    def unfinished(self) -> str:
        """The texts of the blocks that never ended, for the record."""
        return "".join(block.text for block in self.pending.values())

    @property
    def text(self) -> str:
        """All text so far, finished or not."""
        done = "".join(block.text for block in self.blocks if isinstance(block, TextBlock))
        return done + "".join(block.text for block in self.pending.values() if block.kind == "text")

    def kept(self) -> tuple[Block, ...]:
        """The blocks for the record: the finished ones, and text that was cut short."""
        cut = [TextBlock(block.text) for block in self.pending.values() if block.kind == "text"]
        return (*self.blocks, *(block for block in cut if block.text.strip()))


class ModelFacts(Struct, frozen=True):
    """The facts about a model; a feature may be used where it is True.

    window      input tokens; max_output: tokens
    binds       thinking is bound to the prefix that it was produced on (taken for granted where unknown)
    known       a table or the server knows the model
    window_source   in words, what told the window; "" where it is a guess
    cuts_silently   the server cuts a prompt that is too long, and answers what is left (Ollama)
    """

    id: str
    window: int = 200_000
    max_output: int = 32_000
    thinking: bool = False
    binds: bool = True
    effort: bool = False
    cache: bool = False
    eager: bool = False
    known: bool = True
    window_source: str = ""
    cuts_silently: bool = False


class ModelCatalog(Struct, frozen=True):
    """The models that are known without asking a server. `aliases` maps short names to ids."""

    default: str
    aliases: Mapping[str, str] = field(default_factory=dict)
    models: tuple[ModelFacts, ...] = ()

    def resolve(self, name: str) -> str:
        """The model id that a name or an alias stands for; the default for an empty name."""
        return self.aliases.get(name.strip().lower(), name.strip()) or self.default

    def suggest(self, name: str, listed: Sequence[str] = ()) -> str:
        """The known model or alias that a name most resembles, "" where none does.

        `listed` are those that the server has, where it tells them.
        """
        aliases = [alias for alias, id in self.aliases.items() if not listed or id in listed]
        known = [*aliases, *(listed or (facts.id for facts in self.models))]
        wanted = name.strip().lower()
        begun = (each for each in known if wanted and each.startswith(wanted))
        return next(iter((*begun, *difflib.get_close_matches(wanted, known, 1, 0.7))), "")


class Model(Protocol):
    """A service that answers requests.

    The loop calls `stream` alone; the rest is for the composition root.
    """

    @property
    def server(self) -> str:
        """The base URL of the requests, by which the server is shown and its facts are remembered."""

    @property
    def catalog(self) -> ModelCatalog: ...

    @property
    def encoding(self) -> str:
        """The name of what `encode` does, by which it is found when a record is verified."""

    def encode(self, request: ModelRequest) -> bytes:
        """The body that `stream` sends: always the same for the same request. b"" where there is none."""

    def connect(self) -> None:
        """Load the slow parts (imports, a client); callable on any thread. Raises AuthenticationError."""

    async def stream(
        self, request: ModelRequest, reply: IncomingReply, emit: Callable[[Event], None]
    ) -> None:
        """Send one request and fill `reply`, emitting TextDelta, ThinkingDelta and ToolCallDelta meanwhile.

        Returns when the stream is over, whether or not it ended well: `reply.complete` tells. Raises one
        of agent.errors.ModelError. Cancellation closes the connection at once. In every case `reply`
        holds what had come.
        """

    def known_facts(self, model: str) -> ModelFacts:
        """Return the facts about a model that are known without asking the server."""

    async def describe(self, model: str) -> ModelFacts:
        """Return the server's facts about the model, on top of those known.

        Raises ModelError; ModelNotFound only where the server is the authority on which models there are.
        """

    async def count_tokens(self, model: str, blocks: Sequence[Block]) -> int | None:
        """The tokens of a prompt of these blocks, where the server counts without a charge; None elsewhere.

        Raises nothing: who asks has an estimate of their own.
        """

    async def close(self) -> None: ...
