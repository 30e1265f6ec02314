"""The header that names the beta features which a request uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

BETA_HEADER = "anthropic-beta"
COMPACTION_BETA = "compact-2026-09-04"


def beta_names(headers: Mapping[str, str]) -> tuple[str, ...]:
    """The names under which the header stands among the others, or its own where it does not."""
    return tuple(each for each in headers if each.lower() == BETA_HEADER) or (BETA_HEADER,)


def beta_header(headers: Mapping[str, str], betas: Sequence[str]) -> dict[str, str]:
    """The header that names beta features, with those that are named already; empty without any."""
    (name,) = beta_names(headers)[:1]
    return {name: ",".join(dict.fromkeys(filter(None, (headers.get(name), *betas))))} if betas else {}
