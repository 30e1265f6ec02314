"""Find characters that are invisible and not ordinary at their place: they can hide text from the user."""

from __future__ import annotations

import re
from functools import cache

# As in a character class of `re`: the joiners, direction marks and selectors that emoji and scripts need.
JOINERS = "\u180b-\u180d\u180f\u200c-\u200f\ufe0e\ufe0f"
# All characters that draw nothing: the joiners, fillers, format characters, variation selectors and tags.
INVISIBLE = (
    JOINERS + "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_FOREIGN = f"[^\x00-\x9f\\s\ud800-\udfff{INVISIBLE}]"  # visible and not ASCII
_EMOJI = "[\u00a9\u00ae\u203c\u2049\u2100-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
_IDEOGRAPH = "[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
# The flags of England, Scotland and Wales are spelled with tag characters.
_TAG_FLAGS = [
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(char)) for char in f"gb{land}\x7f")
    for land in ("eng", "sct", "wls")
]
_EVERYDAY = (
    f"(?:(?<={_FOREIGN})[\u200c\u200d]"  # within a word or emoji, or at the end of a word
    f"|(?<={_EMOJI})[\ufe0e\ufe0f]"
    "|(?<=[\u1820-\u18aa])[\u180b-\u180d\u180f]"  # after Mongolian letters
    # No ideograph has more variants. The other selectors could encode the letters of a hidden text.
    f"|(?<={_IDEOGRAPH})[\U000e0100-\U000e012f])(?![{INVISIBLE}])"
    f"|(?<=[!-~])\u200c(?={_FOREIGN})"  # between an English word and its Persian ending
    f"|(?<={_EMOJI})\ufe0f(?=\u200d{_EMOJI})|(?<={_EMOJI}\ufe0f)\u200d(?={_EMOJI})"
    "|(?<=[0-9#*])\ufe0f(?=\u20e3)|"  # in a keycap emoji
    + "|".join(f"(?<={flag[:at]}){flag[at:]}" for flag in _TAG_FLAGS for at in range(1, len(flag)))
)


def is_harmless(found: re.Match[str]) -> bool:
    """Return whether an invisible character that was found is ordinary at its place.

    A single joiner or variation selector after a character that it shapes is harmless, as are the letters of
    a flag. Runs of them, isolated ones and direction marks are not: they can hide text from the user.
    """
    return _harmless().match(found.string, found.start()) is not None


@cache
def _harmless() -> re.Pattern[str]:
    return re.compile(_EVERYDAY)  # takes 4 ms, spent only in a session with such characters
