"""Requirements of the API for a single content block: its fields, its text, its image."""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator
from typing import Any

ID = re.compile(r"[a-zA-Z0-9_-]+")
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
MAX_IMAGE_CHARS = 5 * 1024 * 1024  # of base64

_FIELDS = {
    "text": {"type", "text", "cache_control", "citations"},
    "tool_use": {"type", "id", "name", "input", "cache_control", "caller", "toolset_name"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "image": {"type", "source", "cache_control"},
    "document": {"type", "source", "title", "context", "citations", "cache_control"},
}
_USER = ("text", "tool_result", "image", "document")
_ASSISTANT = ("text", "tool_use", "thinking", "redacted_thinking")
_ALLOWED = {"user": _USER, "system": ("text",)}
_IN_RESULT = ("text", "image", "document")
_MAGIC = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}


def block_violations(path: str, role: str, block: Any) -> Iterator[str]:
    """Everything that is wrong with one block of a message of `role`."""
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        yield f"{path}: Input should be a valid dictionary with a `type`"
        return
    kind = block["type"]
    allowed = _ALLOWED.get(role, _ASSISTANT)
    if kind not in allowed:
        if role != "assistant" or kind in _FIELDS:
            yield f"{path}: Input tag '{kind}' does not match any of the expected tags: {allowed}"
        return  # an assistant message may hold kinds unknown here: a model produced them
    for name in block.keys() - _FIELDS[kind]:
        yield f"{path}.{kind}.{name}: Extra inputs are not permitted"
    yield from mark_violations(f"{path}.{kind}", block)
    yield from _CHECKS[kind](f"{path}.{kind}", block)
    if kind == "text" and role == "user" and block.get("citations"):
        yield f"{path}.text.citations: citations are not permitted in user messages"


def mark_violations(path: str, block: dict[str, Any]) -> Iterator[str]:
    """Yield the errors in the block's `cache_control`."""
    mark = block.get("cache_control")
    if mark is None:
        return
    if not isinstance(mark, dict) or mark.get("type") != "ephemeral":
        yield f"{path}.cache_control: Input should be {{'type': 'ephemeral'}}"
    elif mark.get("ttl", "5m") not in ("5m", "1h"):
        yield f"{path}.cache_control.ephemeral.ttl: Input should be '5m' or '1h'"
    elif mark.keys() - {"type", "ttl"}:
        yield f"{path}.cache_control.ephemeral: Extra inputs are not permitted"
    elif block.get("type") == "text" and not block.get("text"):
        yield f"{path}: cache_control cannot be set for empty text blocks"


def _text_violations(path: str, block: dict[str, Any]) -> Iterator[str]:
    text = block.get("text")
    if not isinstance(text, str):
        yield f"{path}.text: Input should be a valid string"
    elif not text:
        yield f"{path}: text content blocks must be non-empty"
    elif text.isspace():
        yield f"{path}: text content blocks must contain non-whitespace text"


def _tool_use_violations(path: str, block: dict[str, Any]) -> Iterator[str]:
    if not _matches(ID, block.get("id")):
        yield f"{path}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if not _matches(TOOL_NAME, block.get("name")):
        yield f"{path}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
    if not isinstance(block.get("input"), dict):
        yield f"{path}.input: Input should be a valid dictionary"


def _tool_result_violations(path: str, block: dict[str, Any]) -> Iterator[str]:
    if not _matches(ID, block.get("tool_use_id")):
        yield f"{path}.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if not isinstance(block.get("is_error", False), bool | None):
        yield f"{path}.is_error: Input should be a valid boolean"
    content = block.get("content")
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list):
        yield f"{path}.content: Input should be a valid list"
        return
    for place, part in enumerate(content):
        at = f"{path}.content.{place}"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in _IN_RESULT:
            yield f"{at}: Input tag '{kind}' does not match any of the expected tags: {_IN_RESULT}"
            continue
        yield from block_violations(at, "user", part)
        if block.get("is_error") and kind != "text":
            yield f'{path}: all content must be type "text" if "is_error" is true'


def _thinking_violations(path: str, block: dict[str, Any]) -> Iterator[str]:
    for name in ("thinking", "signature"):
        if name not in block:
            yield f"{path}.{name}: Field required"
        elif not isinstance(block[name], str):
            yield f"{path}.{name}: Input should be a valid string"


def _redacted_violations(path: str, block: dict[str, Any]) -> Iterator[str]:
    if not isinstance(block.get("data"), str) or not block["data"]:
        yield f"{path}.data: Field required"


def _image_violations(path: str, block: dict[str, Any]) -> Iterator[str]:
    source = block.get("source")
    if not isinstance(source, dict):
        yield f"{path}.source: Field required"
        return
    kind, media = source.get("type"), source.get("media_type")
    if kind in ("url", "file"):
        return
    if kind != "base64":
        yield f"{path}.source: Input tag '{kind}' does not match the expected tags: 'base64', 'url', 'file'"
    elif media not in _MAGIC:
        yield f"{path}.source.base64.media_type: Input should be one of {', '.join(map(repr, _MAGIC))}"
    elif isinstance(data := source.get("data"), str) and len(data) > MAX_IMAGE_CHARS:
        yield f"{path}.source.base64: image exceeds 5 MB maximum: {len(data)} bytes > {MAX_IMAGE_CHARS} bytes"
    else:
        yield from _image_bytes_violations(f"{path}.source.base64", media, source.get("data"))


def _image_bytes_violations(path: str, media: str, data: Any) -> Iterator[str]:
    head = _decoded_head(data) if isinstance(data, str) else None
    if head is None:
        yield f"{path}.data: Input should be valid base64"
        return
    seen = next((name for name, magic in _MAGIC.items() if head.startswith(magic)), None)
    if seen is None:
        yield f"{path}: Could not process image"
    elif seen != media:
        yield (
            f"{path}: The image was specified using the {media} media type, but the image appears to be a "
            f"{seen} image"
        )


_heads: dict[bytes, bytes | None] = {}


def _decoded_head(data: str) -> bytes | None:
    """The first bytes of an image, None if it is not base64. Remembered: requests repeat their images."""
    if not data.isascii():
        return None
    key = hashlib.blake2b(data.encode("ascii"), digest_size=16).digest()
    if key not in _heads:
        if len(_heads) > 512:
            _heads.clear()
        try:
            _heads[key] = base64.b64decode(data, validate=True)[:16] or None
        except binascii.Error:
            _heads[key] = None
    return _heads[key]


def _no_violations(_path: str, _block: dict[str, Any]) -> Iterator[str]:
    return iter(())


def _matches(pattern: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


_CHECKS = {
    "text": _text_violations,
    "tool_use": _tool_use_violations,
    "tool_result": _tool_result_violations,
    "thinking": _thinking_violations,
    "redacted_thinking": _redacted_violations,
    "image": _image_violations,
    "document": _no_violations,
}
