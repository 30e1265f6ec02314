"""Signatures of thinking blocks: stateless proof of the text and of everything that stood before it."""

import base64
import hashlib

from msgspec import Struct

_KEY = b"makeroom offline model"
_DIGEST_BYTES = 16


class SignatureProof(Struct, frozen=True):
    """The content of a signature: the block's place among the thinking of its turn, and two digests."""

    place: int
    text: bytes
    prefix: bytes


def sign(text: str, prefix: bytes, place: int) -> str:
    """The signature of a thinking text that follows the conversation whose digest is `prefix`."""
    number = place.to_bytes(2, "big")
    raw = number + _text_digest(text, number) + _prefix_digest(text, prefix)
    return "mk" + base64.b64encode(raw).decode("ascii")


def read_proof(signature: str, text: str) -> SignatureProof | None:
    """The proof in a signature that `sign` made for this text, or None."""
    try:
        raw = base64.b64decode(signature.removeprefix("mk"), validate=True)
    except ValueError:
        return None
    found = SignatureProof(
        int.from_bytes(raw[:2], "big"), raw[2 : 2 + _DIGEST_BYTES], raw[2 + _DIGEST_BYTES :]
    )
    return found if found.text == _text_digest(text, raw[:2]) else None


def is_bound_to(found: SignatureProof, text: str, prefix: bytes) -> bool:
    """Return whether the block still follows the conversation that it was made for."""
    return found.prefix == _prefix_digest(text, prefix)


def _text_digest(text: str, number: bytes) -> bytes:
    return hashlib.blake2b(number + text.encode(), key=_KEY, digest_size=_DIGEST_BYTES).digest()


def _prefix_digest(text: str, prefix: bytes) -> bytes:
    return hashlib.blake2b(prefix + text.encode(), key=_KEY, digest_size=_DIGEST_BYTES).digest()
