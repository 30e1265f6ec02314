"""Secrets out of sight: known shapes for exports and logs, exact values of our own credentials for facts.

The record itself keeps the bytes as they were, but for the exact values: what the model was shown must
stay what it was. Thinking is never touched, since its signature covers every byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .messages import Block, Text, ToolResult, ToolUse

SHORTEST = 8  # characters; a shorter value would be found in innocent text
_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH", re.IGNORECASE)

# (what it is, strings of which one must be there at all, the shape). Shapes as their issuers document them.
_SHAPES: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (name, hints, re.compile(shape))
    for name, hints, shape in (
        ("private key", ("-----BEGIN",), r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
         r"(?:[\s\S]{0,20000}?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|(?:[A-Za-z0-9+/=\s]|\\[rn])*)"),
        ("Anthropic key", ("sk-ant-",), r"\bsk-ant-[A-Za-z0-9_-]{8,}"),
        ("AWS key id", ("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
        ("GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\bgh[pousr]_[A-Za-z0-9]{20,}"),
        ("GitHub token", ("github_pat_",), r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
        ("GitLab token", ("gl",), r"\bgl(?:pat|oas|dt|rtr?|cbt|ptt|ft|imt|agent|soat|ffct)-[\w.-]{16,}"),
        ("Slack token", ("xox",), r"\bxox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}"),
        ("Google key", ("AIza",), r"\bAIza[A-Za-z0-9_-]{35}"),
        ("web token", ("eyJ",), r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"),
        ("password", ("://",), r"(?<=://)[^\s/@:\"'<>]{0,200}:[^\s/@\"'<>]{1,400}(?=@)"),
    )
)  # fmt: skip


def mask(text: str) -> str:
    """The text with every known shape of a secret replaced by what it was, in brackets."""
    for name, hints, shape in _SHAPES:
        if any(hint in text for hint in hints):
            text = shape.sub(f"[{name} masked]", text)
    return text


def mask_json(value: Any) -> Any:
    """`mask`, for every string within a JSON value; keys stay."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {key: mask_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mask_json(item) for item in value]
    return value


def secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of the variables whose names speak of secrets."""
    return tuple(value for name, value in environ.items() if _NAMES.search(name))


@dataclass(frozen=True, slots=True)
class Masks:
    """Exact values that must not stand in the record. Those under 8 characters are not looked for."""

    values: tuple[str, ...] = ()

    def text(self, text: str) -> str:
        """The text with each value shown as asterisks, the longest first."""
        for value in sorted(self.values, key=len, reverse=True):
            if len(value) >= SHORTEST and value in text:
                text = text.replace(value, "****")
        return text

    def block(self, block: Block) -> Block:
        """The block without the values; the same object where it holds none. Thinking stays as it is."""
        match block:
            case Text(text=text):
                masked = self.text(text)
                return block if masked == text else replace(block, text=masked)
            case ToolUse():
                arguments = self._json(block.input)
                return block if arguments == block.input else replace(block, input=arguments)
            case ToolResult():
                content = tuple(self.block(part) for part in block.content)
                return block if content == block.content else replace(block, content=content)
        return block

    def _json(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self._json(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._json(item) for item in value]
        return value
