"""The composition root: the one place where implementations are chosen and joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agent.errors import ConfigError
from agent.events import Emit, Event, Notice, ToolCallStarted
from agent.extensions import mcp
from agent.model import (
    CATALOG,
    FORMAT,
    AnthropicModel,
    ModelFactsCache,
    ModelSelection,
    beta_header,
    cloud_of,
    encode_request,
)
from agent.model_port import Model, ModelRequest
from agent.ports import Approver, Chooser, ToolSource
from agent.session import SessionRepository
from agent.settings_files import claude_folder
from compact import TokenCounter
from tools.registry import BuiltinTools
from transcripts import RecordsGuard, SessionFiles

from .services import Services
from .setup import RunSetup
from .structured_output import structured_output

if TYPE_CHECKING:
    from agent.extensions.mcp import McpServers


def anthropic_model(setup: RunSetup) -> Model:
    """Return the model of the Anthropic API, a cloud or a compatible server.

    A local server needs no key but the SDK does, so it gets a dummy.
    """
    config = setup.config
    options = setup.options
    headers = {**config.custom_headers, **beta_header(config.custom_headers, options.betas)}
    passes = options.partial_messages
    cloud = cloud_of(setup.environ)
    prefix = cloud.prefix if cloud is not None else ""
    aliases = {**{alias: prefix + id for alias, id in CATALOG.aliases.items()}, **config.aliases}
    catalog = replace(CATALOG, default=aliases["sonnet"], aliases=aliases)
    if cloud is not None:
        wait = config.timeout
        return AnthropicModel(stall=wait, headers=headers, cloud=cloud, catalog=catalog, passes_events=passes)
    key = config.key
    if key is None and config.token is None and not config.official:
        key = "none"
    base_url = None if config.official else config.base_url
    return AnthropicModel(
        base_url,
        key=key,
        token=config.token,
        stall=config.timeout,
        headers=headers,
        catalog=catalog,
        passes_events=passes,
        cache_dir=config.cache_dir,
    )


def openai_model(setup: RunSetup) -> Model:
    """Return the model of OPENAI_BASE_URL, else of the base_url of a settings file, else of OpenAI.

    OpenAI itself accepts tool calls together with reasoning only in its Responses API; most other servers
    provide only chat completions.
    """
    config = setup.config
    own = None if config.origins.get("base_url") == "ANTHROPIC_BASE_URL" else config.base_url
    from agent.model import OPENAI_URL, ChatCompletionsModel, ResponsesModel  # saves other providers 5 ms

    url = config.openai_base_url or own or OPENAI_URL
    responds = config.provider == "openai-responses" or url.rstrip("/") == OPENAI_URL
    made = ResponsesModel if responds else ChatCompletionsModel
    return made(url, key=config.openai_key, stall=config.timeout)


def demo_model(setup: RunSetup) -> Model:
    """Return the rule-based model behind --offline."""
    from agent.demo.demo_model import WINDOW_TOKENS, DemoModel  # saves other providers 10 ms

    return DemoModel(setup.options.context_window or WINDOW_TOKENS)


PROVIDERS: Mapping[str, Callable[[RunSetup], Model]] = {
    "anthropic": anthropic_model,
    "openai": openai_model,
    "openai-responses": openai_model,
    "demo": demo_model,
}


@cache
def encoders() -> Mapping[str, Callable[[ModelRequest], bytes]]:
    """Return the functions that re-encode recorded requests, by the names of formats in the transcript."""
    from agent.demo.demo_model import ENCODING, encode_for_demo  # saves sessions 10 ms
    from agent.model import (  # 5 ms
        CHAT_FORMAT,
        OFFICIAL_CHAT_FORMAT,
        RESPONSES_FORMAT,
        encode_chat_request,
        encode_responses_request,
    )

    return {
        FORMAT: encode_request,
        CHAT_FORMAT: encode_chat_request,
        OFFICIAL_CHAT_FORMAT: partial(encode_chat_request, official=True),
        RESPONSES_FORMAT: encode_responses_request,
        ENCODING: encode_for_demo,
    }


TOOL_SOURCES: tuple[Callable[[], ToolSource], ...] = (BuiltinTools,)


def mcp_servers(services: Services) -> McpServers | None:
    """Return the MCP servers of the run except those inside a client; None if none are configured."""
    setup = services.setup
    options = setup.options
    config = setup.config
    reads = mcp.FILE_SCOPES if options.setting_sources is None else options.setting_sources
    files = mcp.ServerFiles(
        folder=setup.folder,
        user_dir=config.user_dir,
        given=options.mcp_config,
        strict=options.strict_mcp_config,
        reads=reads,
    )
    has_plugins = bool(options.plugin_dirs) or (claude_folder(setup.environ) / "plugins").is_dir()
    if not files.may_name_servers() and (not has_plugins or options.strict_mcp_config):
        return None
    streams = options.output_format == "stream-json"
    return mcp.McpServers(
        mcp.McpSetup(
            files=files,
            state_dir=config.state_dir,
            approved=lambda item: services.approvals.allows(item),
            waits=(streams and bool(options.mcp_config)) or config.tool_search == "on",
            attended=not options.headless,
            of_plugins=partial(_plugin_servers, services),
            mask=lambda text: services.setup.masks.all(text),
            tell=services.warn,
        )
    )


def _plugin_servers(services: Services) -> list[mcp.ServerEntry]:
    """Return the MCP servers of the active plugins."""
    if services.setup.options.strict_mcp_config:
        return []
    environ = services.setup.program_environ
    found = (
        mcp.plugin_entries(plugin.name, plugin.root, plugin.servers, environ, services.setup.folder)
        for plugin in services.active_plugins
    )
    return list(chain.from_iterable(found))


def _emit_and_begin(servers: McpServers, emit: Emit, event: Event) -> None:
    """Emit an event, and start the servers with the first call of any tool."""
    if isinstance(event, ToolCallStarted):
        servers.begin()
    emit(event)


def make_services(
    setup: RunSetup, emit: Emit, approver: Approver, chooser: Chooser | None = None
) -> Services:
    """Return the services of a run, with nothing slow loaded yet. Raises ConfigError and UsageError."""
    offline = setup.options.offline
    provider = "demo" if offline else setup.config.provider
    if provider not in PROVIDERS or (provider == "demo" and not offline):
        named = ", ".join(name for name in PROVIDERS if name != "demo")
        raise ConfigError(f"unknown provider {provider!r}: use one of {named}, or --offline for the demo")
    model = PROVIDERS[provider](setup)
    cache = None if offline else ModelFactsCache(setup.config.cache_dir / "models.json")
    selection = ModelSelection(model, name=setup.model_name, now=setup.clock.now, cache=cache)
    structured = structured_output(setup.options.json_schema)
    further = setup.sources if structured is None else (*setup.sources, structured)
    sources = (*(make() for make in TOOL_SOURCES), *further)
    counter = TokenCounter.load()
    keep = not setup.options.no_session

    def tell(text: str) -> None:
        emit(Notice(text, "warning"))

    files = setup.session_files if keep else SessionFiles()
    if keep:
        files.load_key(setup.config.state_dir, setup.folder, tell)
    repository = SessionRepository(
        setup.folder,
        keep=keep,
        tell=tell,
        counter=counter,
        now=setup.clock.now,
        masks=setup.masks,
        guard=RecordsGuard(setup.folder, places=setup.spare_places, tell=tell) if keep else None,
        first_sid=setup.options.session_id,
        files=files,
        state_dir=setup.config.state_dir,
    )
    services = Services(
        setup,
        emit=emit,
        approver=approver,
        selection=selection,
        repository=repository,
        counter=counter,
        sources=sources,
        structured=structured,
        chooser=chooser,
    )
    servers = mcp_servers(services)
    if servers is not None:
        services.mcp = servers
        services.sources = (*sources, servers)
        services.emit = partial(_emit_and_begin, servers, emit)
    return services
