"""Secrets out of sight: known shapes for exports and logs, exact values of our own credentials for facts.

The record itself keeps the bytes as they were, but for the exact values: what the model was shown must
stay what it was. Thinking is never touched, since its signature covers every byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .messages import Block, TextBlock, ToolResultBlock, ToolUseBlock, UnknownBlock

HIDDEN = "****"
SHORTEST = 8  # characters; a shorter value would be found in innocent text
# At the end of a word of a name: MY_TOKENS, DB_PASSWORD_2; not TOKENIZERS, GIT_AUTHOR_NAME, MONKEY.
_NAMES = re.compile(
    r"(?:(?:^|_|API|ACCESS|SECRET|PRIVATE)KEY|(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTH))S?(?:_|\d|$)",
    re.IGNORECASE,
)
_PLACES = re.compile(r"_(?:SOCK|FILE|PATH|DIR|URL|HOST|NAME|USER|TYPE)$", re.IGNORECASE)

# The beginning of a word, also right behind an escaped line end or tab, as JSON and logs have it.
_START = r"(?:\b|(?<=\\[tnrfv]))"
# (what it is, strings of which one must be there at all, the shape). Shapes as their issuers document them.
_SHAPES: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (name, hints, re.compile(shape))
    for name, hints, shape in (
        ("private key", ("-----BEGIN",), r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
         r"(?:[\s\S]{0,20000}?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|(?:[A-Za-z0-9+/=\s]|\\[rn])*)"),
        ("Anthropic key", ("sk-ant-",), _START + r"sk-ant-[A-Za-z0-9_-]{8,}"),
        ("AWS key id", ("AKIA", "ASIA"), _START + r"(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
        ("GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _START + r"gh[pousr]_[A-Za-z0-9]{20,}"),
        ("GitHub token", ("github_pat_",), _START + r"github_pat_[A-Za-z0-9_]{20,}"),
        ("GitLab token", ("gl",),
         _START + r"gl(?:pat|oas|dt|rtr?|cbt|ptt|ft|imt|agent|soat|ffct)-[\w.-]{16,}"),
        ("Slack token", ("xox",), _START + r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}"),
        ("Google key", ("AIza",), _START + r"AIza[A-Za-z0-9_-]{35}"),
        ("web token", ("eyJ",), _START + r"eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"),
        ("password", ("://",), r"(?<=://)[^\s/@:\"'<>]{0,200}:[^\s/@\"'<>]{1,400}(?=@)"),
    )
)  # fmt: skip


def mask(text: str) -> str:
    """The text with every known shape of a secret replaced by what it was, in brackets."""
    for name, hints, shape in _SHAPES:
        if any(hint in text for hint in hints):
            text = shape.sub(f"[{name} masked]", text)
    return text


def mask_json(value: Any, mask: Callable[[str], str] = mask) -> Any:
    """The mask on every string within a JSON value; keys stay."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {key: mask_json(item, mask) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mask_json(item, mask) for item in value]
    return value


def secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of the variables whose names speak of secrets, and not of where one is."""
    return tuple(value for name, value in environ.items() if _NAMES.search(name) and not _PLACES.search(name))


@dataclass(frozen=True, slots=True)
class SecretMasks:
    """Exact values that must not stand in the record. Those under 8 characters are not looked for."""

    values: tuple[str, ...] = ()

    def text(self, text: str) -> str:
        """The text with each value shown as asterisks, the longest first."""
        for value in sorted(self.values, key=len, reverse=True):
            if len(value) >= SHORTEST and value in text:
                text = text.replace(value, HIDDEN)
        return text

    def json(self, value: Any) -> Any:
        """`text`, for every string within a JSON value, and for the keys, which the model may have chosen."""
        if isinstance(value, Mapping):
            return {self.text(key): self.json(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.json(item) for item in value]
        return self.text(value) if isinstance(value, str) else value

    def all(self, text: str) -> str:
        """The text without these values and without any known shape of a secret: for exports and logs."""
        return mask(self.text(text))

    def block(self, block: Block) -> Block:
        """The block without the values; the same object where it holds none. Thinking stays as it is."""
        made = block
        match block:
            case TextBlock():
                made = replace(block, text=self.text(block.text), extra=self.json(block.extra))
            case ToolUseBlock():
                name, arguments = self.text(block.name), self.json(block.input)
                made = replace(block, name=name, input=arguments, extra=self.json(block.extra))
            case ToolResultBlock():
                made = replace(block, content=tuple(self.block(part) for part in block.content))
            case UnknownBlock():
                made = replace(block, raw=self.json(block.raw))
        return block if made == block else made
