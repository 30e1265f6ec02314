"""Select the server-side web tools that the rules allow, and the hosts for them.

Pages are fetched by our own tool, which works with every provider, can ask for approval, and reaches ports of
this machine. The setting `web_fetch = "service"` replaces it by the tool of the service.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agent.model import cloud_of
from agent.permissions import WEB_TOOLS, PermissionRules

from .setup import RunSetup

VERSIONS = {"web_search": "web_search_20260318", "web_fetch": "web_fetch_20260318"}


def serves_web_tools(setup: RunSetup) -> bool:
    """Return whether requests go to the Anthropic API itself, which runs these tools."""
    config = setup.config
    elsewhere = setup.options.offline or config.provider != "anthropic" or cloud_of(setup.environ) is not None
    return config.official and not elsewhere


def fetches_by_service(setup: RunSetup) -> bool:
    """Return whether the service's tool replaces our own."""
    return setup.config.web_fetch == "service" and serves_web_tools(setup)


def served_web_tools(setup: RunSetup) -> tuple[str, ...]:
    """Return the names of the service's tools that may be offered."""
    if not serves_web_tools(setup):
        return ()
    return WEB_TOOLS if fetches_by_service(setup) else ("web_search",)


def web_tools(names: Iterable[str], rules: PermissionRules) -> Iterator[dict[str, Any]]:
    """Yield the definitions to send. A tool is off without an allow rule, or if a rule denies all hosts.

    Server-side tools cannot ask for approval, so a host is allowed in advance or not at all, and hosts of ask
    rules are not. The API takes either hosts to allow or hosts to block: if the rules allow hosts, the denied
    ones are removed from these.
    """
    for name in names:
        allowed = [rule.pattern for rule in rules.allow if rule.tool == name]
        denied = [rule.pattern for rule in (*rules.deny, *rules.ask) if rule.tool == name]
        if not allowed or None in denied:
            continue
        blocked = sorted(host for host in set(denied) if host is not None)
        hosts = [] if None in allowed else sorted({host for host in allowed if host} - set(blocked))
        if None not in allowed and not hosts:
            continue
        limits = {"allowed_domains": hosts, "blocked_domains": [] if hosts else blocked}
        yield {
            "type": VERSIONS[name],
            "name": name,
            "max_uses": 8,
            "allowed_callers": ["direct"],
            # The same limit as for an attached file.
            **({"max_content_tokens": 25_000} if name == "web_fetch" else {}),
            **{name: places for name, places in limits.items() if places},
        }
