"""The header that names the beta features which a request uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

BETA_HEADER = "anthropic-beta"
COMPACTION_BETA = "compact-2026-09-04"


def beta_header(headers: Mapping[str, str], betas: Sequence[str]) -> dict[str, str]:
    """The header that names beta features, with those that are named already; empty without any."""
    name = next((each for each in headers if each.lower() == BETA_HEADER), BETA_HEADER)
    return {name: ",".join(dict.fromkeys(filter(None, (headers.get(name), *betas))))} if betas else {}
