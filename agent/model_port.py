"""The Model port: a provider-neutral request, and the reply as it arrives. One adapter per provider.

An adapter converts a `ModelRequest` to the form of its API, and the response to an `IncomingReply`. Bytes,
headers, signatures, cache fields and event streams are internal to the adapter.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeGuard

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from transcripts import Block, CacheMiss, Message, TextBlock, Usage, is_deferred_tool, is_server_tool

from .errors import Feature
from .events import Event

MIN_OUTPUT_TOKENS = 1024  # requested even in a small window
BELIEVED_LIMITS_TOKENS = (256, 100_000_000)  # a size outside of these is not a window or an output limit


class RequestSettings(Struct, frozen=True):
    """The settings that all requests of a session share.

    system      the texts of the system prompt, in order
    tools       definitions in order; a model sees their "name", "description" and "input_schema", other
                keys are for the transcript; those with a "type" run on the server, and are sent unchanged
    thinking    the model may think before it answers, with a summary that can be shown
    silent_thinking  thinking has no such summary
    effort      "low" to "max"; None leaves the effort to the model
    cache       the lifetime of the cached prefix: "5m", "1h"; None: no caching
    eager       the inputs of tools stream before they are validated
    diagnoses   the API is asked why a cached prefix was not reused
    rejected    features that the server rejected; they are off
    system_role  the model supports messages of role "system", which carry makeroom's own words
    tag         the suffix of the tags around these words elsewhere, see transcripts/channel.py
    encoded     what adapters have made of these settings, by the name of the encoding
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
    diagnoses: bool = False
    rejected: frozenset[Feature] = frozenset()
    system_role: bool = False
    tag: str = ""
    encoded: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        force_setattr(self, "encoded", {})  # a changed copy is encoded differently

    def without(self, *features: Feature) -> RequestSettings:
        """Return the settings with some features off, which the server rejects and `rejected` lists."""
        return replace(
            self,
            thinking=self.thinking and "thinking" not in features,
            tools=_without_rejected(self.tools, features),
            effort=None if "effort" in features else self.effort,
            cache=None if "cache" in features else self.cache,
            eager=self.eager and "eager tool input" not in features,
            diagnoses=self.diagnoses and "cache diagnostics" not in features,
            system_role=self.system_role and "system messages" not in features,
            rejected=self.rejected | set(features),
        )


def searches_tools(definition: Mapping[str, Any]) -> bool:
    """Return whether a definition is that of the API's search for deferred tools."""
    return is_server_tool(definition) and str(definition["type"]).startswith("tool_search_tool")


def _without_rejected(
    tools: tuple[Mapping[str, Any], ...], features: Sequence[Feature]
) -> tuple[Mapping[str, Any], ...]:
    """Return the tools without those that need one of the features."""
    if "web tools" in features:
        tools = tuple(tool for tool in tools if not is_server_tool(tool) or searches_tools(tool))
    if "tool search" in features:
        tools = tuple(tool for tool in tools if not (searches_tools(tool) or is_deferred_tool(tool)))
    return tools


def is_believable(tokens: object) -> TypeGuard[int]:
    """Return whether a server's value can be the context window or the output limit of a model."""
    return isinstance(tokens, int) and BELIEVED_LIMITS_TOKENS[0] <= tokens <= BELIEVED_LIMITS_TOKENS[1]


def output_room(window: int) -> int:
    """Return the most output tokens to request in a window of `window` tokens."""
    return max(MIN_OUTPUT_TOKENS, int(window * 0.25))  # a reply has to fit alongside its prompt


# The settings of a request that its own fact contains; the others are in the `Opened` before it.
RECORDED_SETTINGS = (
    "max_tokens", "thinking", "silent_thinking", "effort", "cache", "eager", "rejected", "system_role"
)  # fmt: skip


class ModelRequest(Struct, frozen=True):
    """One request: the view, and the places where a cached prefix may end.

    messages     alternate, begin with the user's, and contain thinking only where its signature can be sent
                 back
    cache_marks  indices of messages; the last message is always one more
    instruction  one more user message at the end, after the last mark
    compacts     the instruction is for the API's own compaction, if the provider has one; its block is then
                 the whole reply
    previous     the id of the reply to the previous request, "" for the first one, to be told why the cached
                 prefix was not reused; None: not asked
    encoded      the bodies that adapters have made, by the name of the encoding
    """

    settings: RequestSettings
    messages: Sequence[Message]
    cache_marks: tuple[int, ...] = ()
    instruction: str = ""
    compacts: bool = False
    previous: str | None = None
    encoded: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        force_setattr(self, "encoded", {})  # a changed copy has a different body

    def recorded(self) -> dict[str, Any]:
        """Return the settings for the fact of this request, without those in the `Opened` before it."""
        settings = {name: on for name in RECORDED_SETTINGS if (on := getattr(self.settings, name))}
        if self.compacts:
            settings["compacts"] = True
        if self.previous is not None:
            settings["previous"] = self.previous
        return settings


class PendingBlock(Struct):
    """A content block that has begun but not ended; `pieces` are its texts received so far."""

    kind: Literal["text", "thinking", "tool input", "other"]
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class IncomingReply(Struct):
    """A reply as it arrives. An adapter fills it, and the loop reads it, also after a failure half-way.

    blocks    finished blocks, in order; tools run only from these
    pending   unfinished blocks, by index
    stop      "end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "pause_turn",
              "model_context_window_exceeded" or another value of a provider; None: not known yet
    complete  the stream ended properly: a stop reason is known and no block is pending
    ident     the id of the message, if the API gives one
    cache_miss  the API's reason why the cached prefix was not reused, if it names one
    """

    blocks: list[Block] = field(default_factory=list)
    pending: dict[int, PendingBlock] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    stop: str | None = None
    complete: bool = False
    model: str = ""
    request_id: str = ""
    ident: str = ""
    cache_miss: CacheMiss | None = None

    @property
    def started(self) -> bool:
        return bool(self.blocks or self.pending or self.model)

    @property
    def unfinished(self) -> str:
        """The texts of the blocks that never ended, for the transcript."""
        return "".join(block.text for block in self.pending.values())

    @property
    def text(self) -> str:
        """All text so far, finished or not."""
        done = "".join(block.text for block in self.blocks if isinstance(block, TextBlock))
        return done + "".join(block.text for block in self.pending.values() if block.kind == "text")

    def kept(self) -> tuple[Block, ...]:
        """Return the blocks for the transcript: the finished ones, and text that was cut off."""
        cut = [TextBlock(block.text) for block in self.pending.values() if block.kind == "text"]
        return (*self.blocks, *(block for block in cut if block.text.strip()))


class ModelFacts(Struct, frozen=True):
    """The facts about a model; a feature may be used where it is True.

    window          the context window in tokens
    max_output      the output limit in tokens
    binds           thinking is bound to the prefix that it was produced on (assumed if unknown)
    known           a table or the server lists the model
    window_source   the source of the window size in words; "": it is a guess
    cuts_silently   the server truncates a prompt that is too long, and answers the rest (Ollama)
    system_role     the model supports messages of role "system" among the others
    diagnoses       the API tells why a cached prefix was not reused
    retires_on      the date of the model's scheduled retirement as YYYY-MM-DD; "" if there is none
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
    system_role: bool = False
    diagnoses: bool = False
    retires_on: str = ""


class ModelCatalog(Struct, frozen=True):
    """The models that are known without asking a server. `aliases` maps short names to ids."""

    default: str
    aliases: Mapping[str, str] = field(default_factory=dict)
    models: tuple[ModelFacts, ...] = ()

    def resolve(self, name: str) -> str:
        """Return the model id for a name or an alias; the default for an empty name."""
        return self.aliases.get(name.strip().lower(), name.strip()) or self.default

    def suggest(self, name: str, listed: Sequence[str] = ()) -> str:
        """Return the known model or alias most similar to a name, "" if none is.

        `listed` are the models that the server reports, if it does.
        """
        aliases = [alias for alias, id in self.aliases.items() if not listed or id in listed]
        known = [*aliases, *(listed or (facts.id for facts in self.models))]
        wanted = name.strip().lower()
        begun = (each for each in known if wanted and each.startswith(wanted))
        return next(iter((*begun, *difflib.get_close_matches(wanted, known, 1, 0.7))), "")


class Model(Protocol):
    """A service that answers requests.

    The loop calls `stream`, `encode` and `count_tokens`; the rest is for the composition root.
    """

    @property
    def server(self) -> str:
        """The base URL of the requests: shown to the user, and the key of the server's stored facts."""

    @property
    def catalog(self) -> ModelCatalog: ...

    @property
    def encoding(self) -> str:
        """The name of the encoding, with which `verify` finds it again."""

    def encode(self, request: ModelRequest) -> bytes:
        """Return the body that `stream` sends, always the same for the same request; b"" if there is none."""

    def connect(self) -> None:
        """Load the slow parts (imports, a client); callable on any thread. Raises AuthenticationError."""

    async def stream(
        self, request: ModelRequest, reply: IncomingReply, emit: Callable[[Event], None]
    ) -> None:
        """Send one request and fill `reply`, emitting TextDelta, ThinkingDelta and ToolCallDelta.

        Returns when the stream is over; `reply.complete` shows whether it ended properly. Raises one of
        agent.errors.ModelError. Cancellation closes the connection immediately. In every case `reply`
        contains everything received.
        """

    def known_facts(self, model: str) -> ModelFacts:
        """Return the facts about a model that are known without asking the server."""

    async def describe(self, model: str) -> ModelFacts:
        """Return the server's facts about the model, added to the known ones.

        Raises ModelError, and ModelNotFound only if the server's list of models is authoritative.
        """

    async def list_models(self) -> Sequence[str]:
        """Return the models that a compatible server has; () for the service itself: see the catalog.

        Raises ModelError.
        """

    async def count_tokens(self, model: str, blocks: Sequence[Block]) -> int | None:
        """Return the tokens of a prompt of these blocks if the server counts them for free, else None.

        Raises nothing, as the caller has its own estimate.
        """

    async def close(self) -> None: ...
