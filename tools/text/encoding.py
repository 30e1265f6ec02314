"""Decode the bytes of a file as text, and encode it again without losing a byte.

`decode_text` detects the encoding. `TextForm` describes a file's encoding, byte order mark and line endings.
Bytes that are not text become lone surrogates (surrogateescape), and the same bytes again when encoded.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from transcripts.patterns import lazy_bytes_pattern, lazy_pattern
from transcripts.wording import pluralize

_BYTE_ORDER_MARKS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF8, "utf-8", "surrogateescape"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "surrogatepass"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "surrogatepass"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "surrogatepass"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "surrogatepass"),
)
_STRAY_BYTE = lazy_pattern("[\udc80-\udcff]")
_LONE_SURROGATE = lazy_pattern("[\ud800-\udfff]")
_JAPANESE = lazy_pattern("[\u3040-\u30ff\u4e00-\u9fff\uff61-\uff9f\u3000-\u303f\uff01-\uff5e]")
_KANA = lazy_pattern("[\u3040-\u30ff]")
_NEWLINE = lazy_pattern("\r\n|\n|\r")
_CONTROL_BYTE = lazy_bytes_pattern(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")
_BINARY_CHAR = lazy_pattern(r"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f\ufffd]")
_ASCII_BYTES = bytes(range(128))
_SAMPLE_CHARS = 64 * 1024  # sufficient to guess an encoding
_JOINING = frozenset("’‘–—·…\u00a0")  # characters that may occur between two letters
_SIGNS = _JOINING | frozenset("“”„‚€£¢¥§°«»¿¡©®™±²³´µ¶ºª¼½¾×÷†•、。「」・ー，！？：；（）")
_SIGN_IN_WORD = lazy_pattern(rf"(?<=[^\W\d_])[{''.join(sorted(_SIGNS - _JOINING))}](?=[^\W\d_])")
_HIGH_AFTER_HIGH = lazy_bytes_pattern(rb"(?<=[\x80-\xff])[\x80-\xff]")
_MAX_LATIN_SHARE = 0.4  # of the bytes beyond ASCII that follow another one: accents are rarely adjacent
_MAX_GUESSED_BYTES = 4_096  # of non-ASCII lines
_MIN_WORD_SHARE = 0.8  # of the characters beyond ASCII that have to be letters or punctuation
_MAX_MISFITS_SHARE = 0.03  # of the letters, such as those in names from another language
_MIN_FIT = 0.4  # of a language's letters that have to occur to recognize the language
_MIN_LATIN_BYTES = 8  # beyond ASCII that make one of several possible encodings certain
_MIN_SCRIPT_BYTES = 14
_MIN_FREQUENT_SHARE = 0.5
# The letters beyond ASCII of languages, by their likely encodings, the likeliest first.
_CENTRAL = "ąćęłńóśźż áčďéěíňóřšťúůýž áäčďéíľňóôšťúýž áéíóöőúüű ăâîşţ čćđšž"
_LATIN_CODECS = {
    "cp1252": "àâæçéèêëîïôœùûüÿ äöüß áéíñóúü àçéèíïóòúü áâãàçéêíóôõúü àèéìíòóùú äåéö æøåéó éëïóöü áéíóúýþæöð",
    "cp1250": _CENTRAL,
    "iso8859_2": _CENTRAL,
    "cp1254": "çğıöşü",
    "cp1257": "ąčęėįšųūž āčēģīķļņšūž äõöüšž",
}
_LETTER_CODECS = ("cp1251", "koi8_r", "cp866", "iso8859_5", "cp1253", "cp1255", "cp1256", "cp874")
_IDEOGRAM_CODECS = ("gb18030", "big5", "euc_kr", "euc_jp")
# More than half of the letters of texts in Russian, Greek, Hebrew, Arabic, Thai and Korean are among these.
_FREQUENT_LETTERS = frozenset(
    "оеаинтсрвлікпαοιετσνηυρκίάόέיוהלארמתבשاليمونترةبدانรากเอมง่ยลด้สวท"
    "다이니을지수에습는를없로하시자가일스의정파용합서기음사할리트인한은어않션오터있문위대그드아제만으값보름상함실옵해치패입작부표력프데모식형전된"
)
_ODD_CATEGORIES = frozenset(("Cc", "Cn", "Co", "Cs"))
BINARY_HEAD_BYTES = 8_000  # in which a binary file contains a NUL, as for git
_MIN_LATIN_NULS = 0.4  # of the bytes of Latin text in UTF-16
_MAX_WIDE_WORD_CHARS = 200  # between spaces or line endings in UTF-16, on average
_HAN_OR_KANA = lazy_pattern("[\u3040-\u30ff\u4e00-\u9fff]")


class TextForm(Struct, frozen=True):
    """The form of a file's text. `newline` is the most frequent line ending, "" if there is none."""

    codec: str = "utf-8"
    errors: str = "surrogateescape"
    mark: bytes = b""
    newline: str = ""
    strays: int = 0  # bytes that are not valid in the encoding
    nuls: int = 0  # far from the beginning, else the file would be binary
    guessed: bool = False  # the encoding is only for display, since another one is as likely

    @property
    def note(self) -> str:
        """A line or two about the encoding for the reader; "" for valid UTF-8."""
        nuls = f"[{pluralize(self.nuls, 'NUL character')} shown as \ufffd; edits elsewhere keep them]"
        return "\n".join(filter(None, (nuls if self.nuls else "", self._encoding_note)))

    @property
    def _encoding_note(self) -> str:
        if self.strays:
            return f"[{self.strays:,} bytes are not valid UTF-8 (shown as \ufffd); edits elsewhere keep them]"
        if self.guessed:
            return f"[unknown encoding, decoded as {self.codec} (a guess); edits elsewhere keep the bytes]"
        return "" if self.codec == "utf-8" else f"[decoded as {self.codec}]"

    @property
    def has_odd_bytes(self) -> bool:
        """Return whether U+FFFD stands for some bytes in the text as shown."""
        return bool(self.strays or self.nuls)

    @property
    def hint(self) -> str:
        """The hint with which `decode_text` finds the same form again; "" if the bytes are sufficient."""
        if self.mark or not (self.strays or self.codec != "utf-8"):
            return ""
        return f"{self.codec}?" if self.guessed else self.codec

    def encode(self, text: str) -> bytes:
        """Return the text as bytes of this form, without the mark. Raises UnicodeEncodeError."""
        return text.encode(self.codec, self.errors)

    def decode(self, data: bytes) -> str:
        return data.decode(self.codec, self.errors)

    def body(self, data: bytes) -> bytes:
        """Return the bytes after the mark, without an incomplete code unit at the end of UTF-16 or 32."""
        size = len(data) - len(self.mark)
        return data[len(self.mark) : len(self.mark) + size // self.unit * self.unit]

    @property
    def unit(self) -> int:
        """The number of bytes of a code unit."""
        return {"utf-16": 2, "utf-32": 4}.get(self.codec[:6], 1)


def decode_text(data: bytes, hint: str = "") -> tuple[str, TextForm] | None:
    """Return the text without its byte order mark, and its form; None if the bytes are binary.

    `hint` is the TextForm.hint of an earlier state of the file, which is used if the bytes allow it.
    """
    for mark, codec, errors in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            form = TextForm(codec, errors=errors, mark=mark)
            try:
                text = form.decode(form.body(data))
            except UnicodeDecodeError:
                return None
            strays = len(_STRAY_BYTE.findall(text)) if codec == "utf-8" else 0
            form = TextForm(codec, errors=errors, mark=mark, newline=common_newline(text), strays=strays)
            return None if codec == "utf-8" and has_early_nul(data) else _with_nuls(text, form)
    if b"\0" in data:
        if (wide := _unmarked_utf16(data)) is not None:
            return wide
        if has_early_nul(data):
            return None
    return _with_nuls(*_of_bytes(data, hint))


def has_early_nul(data: bytes) -> bool:
    """Return whether the bytes of a file that is not UTF-16 are binary, by the rule of git."""
    return b"\0" in data[:BINARY_HEAD_BYTES]


def _with_nuls(text: str, form: TextForm) -> tuple[str, TextForm]:
    """Return the text, and its form with the number of its NULs."""
    return text, replace(form, nuls=text.count("\0")) if "\0" in text else form


def _of_bytes(data: bytes, hint: str) -> tuple[str, TextForm]:
    """Return the text of bytes without a mark, in an encoding of single bytes, and its form."""
    if b"\x1b$" in data and (japanese := _iso_2022_jp(data)) is not None:
        return japanese
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _not_utf8(data, hint)
    if text.isascii() and hint not in ("", "utf-8") and not hint.startswith("utf-16") and hint[-1] != "?":
        return text, TextForm(hint, "strict", newline=common_newline(text))
    return text, TextForm(newline=common_newline(text))


def _unmarked_utf16(data: bytes) -> tuple[str, TextForm] | None:
    """Return the text of UTF-16 without a byte order mark; None for binary data.

    In the wrong order of bytes, "a b" is a Chinese letter, U+2000 and another letter. So the order with more
    ASCII is right. Bytes that would be plain text without a few NULs are binary: as UTF-16, those of Latin
    text are NULs by almost half, and those of other text contain control characters.
    """
    sample = data[:_SAMPLE_CHARS]
    if sample.count(0) < _MIN_LATIN_NULS * len(sample) and not _CONTROL_BYTE.search(
        sample.replace(b"\0", b"")
    ):
        return None
    readings: list[tuple[int, str, str]] = []
    for codec in ("utf-16-le", "utf-16-be"):
        with suppress(UnicodeDecodeError):
            text = data.decode(codec)
            if _is_plain_text(text[:_SAMPLE_CHARS]):
                readings.append((sum(map(str.isascii, text[:_SAMPLE_CHARS])), codec, text))
    if not readings:
        return None
    _, codec, text = max(readings)
    return text, TextForm(codec, "strict", newline=common_newline(text))


def _is_plain_text(text: str) -> bool:
    """Return whether a text has spaces or line endings, but no other character that texts do not contain.

    A word alone is a text if it is ASCII, in which every other byte is a NUL.
    """
    counts = Counter(text)
    spaces = counts[" "] + counts["\n"] or int(len(text) > 1 and text.isascii())
    if spaces * _MAX_WIDE_WORD_CHARS < len(text):
        return False
    return not any(unicodedata.category(char) in _ODD_CATEGORIES for char in counts.keys() - set("\t\n\r\f"))


def _iso_2022_jp(data: bytes) -> tuple[str, TextForm] | None:
    """Return Japanese text in seven bits, whose escape sequences switch between character sets."""
    with suppress(UnicodeError):
        text = data.decode("iso2022_jp")
        if _JAPANESE.search(text) and text.encode("iso2022_jp") == data:
            return text, TextForm("iso2022_jp", "strict", newline=common_newline(text))
    return None


def common_newline(text: str) -> str:
    """Return the most frequent line ending, the first of equally frequent ones, "" if there is none."""
    if "\r" not in text:
        return "\n" if "\n" in text else ""
    both = text.count("\r\n")
    counts = {"\r\n": both, "\n": text.count("\n") - both, "\r": text.count("\r") - both}
    most = max(counts.values())
    best = {end for end, count in counts.items() if count == most}
    return next(found[0] for found in _NEWLINE.finditer(text) if found[0] in best)


def unify_newlines(text: str) -> str:
    """Return the text with every line ending as \\n. Form feeds, U+2028 and the like are not line endings."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def mark_stray_bytes(text: str) -> str:
    """Return the text with U+FFFD for each byte that is not text, for display and not for storage."""
    text = text.replace("\0", "\ufffd")
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def has_surrogate(text: str) -> bool:
    """Return whether the text contains a lone surrogate, which neither files nor requests can contain."""
    return not text.isascii() and _LONE_SURROGATE.search(text) is not None


def seems_binary(text: str) -> bool:
    """Return whether more than a tenth of the beginning is control characters or not UTF-8."""
    sample = text[:8_000]  # characters
    return len(_BINARY_CHAR.findall(sample)) > len(sample) / 10


def _not_utf8(data: bytes, hint: str) -> tuple[str, TextForm]:
    """Return the text in a legacy encoding (the given one first), or as UTF-8 with stray bytes."""
    text = data.decode("utf-8", "surrogateescape")
    strays = len(_STRAY_BYTE.findall(text))
    is_legacy = len(data.translate(None, _ASCII_BYTES)) < 2 * strays  # most of it is not valid UTF-8
    for codec, sure in _likely_codecs(data, hint, is_legacy):
        with suppress(UnicodeError, LookupError):
            legacy = data.decode(codec)
            if legacy.encode(codec) == data:
                return legacy, TextForm(codec, "strict", newline=common_newline(legacy), guessed=not sure)
    guessed = hint.endswith("?") if hint.startswith("utf-8") else is_legacy
    return text, TextForm(newline=common_newline(text), strays=strays, guessed=guessed)


def _likely_codecs(data: bytes, hint: str, is_legacy: bool) -> Iterator[tuple[str, bool]]:
    """Yield (legacy encoding, whether it is certain), the likely ones first."""
    if hint.startswith("utf-8"):
        return
    if hint:
        yield hint.removesuffix("?"), not hint.endswith("?")
    if is_legacy:
        yield guess_codec(data.replace(b"\0", b""))


def guess_codec(data: bytes) -> tuple[str, bool]:
    """Return the legacy encoding in which bytes that are not UTF-8 read as words, and whether it is certain.

    Only non-ASCII lines count, regardless of the code between them. "" if none is likely.
    """
    sample = _foreign_lines(data)
    high = sum(byte > 0x7F for byte in sample)
    if not high or _CONTROL_BYTE.search(data):
        return "", False
    with suppress(UnicodeError):
        text = data.decode("cp932")
        if _reads_as_words(text) and _looks_japanese(text):
            return "cp932", high >= _MIN_LATIN_BYTES
    if len(_HIGH_AFTER_HIGH.findall(sample)) <= high * _MAX_LATIN_SHARE:
        return _guess_latin(sample, high)
    return _guess_script(sample, high)


def _foreign_lines(data: bytes) -> bytes:
    """Return the first non-ASCII lines."""
    sample = list[bytes]()
    size = 0
    for line in data.split(b"\n"):
        if not line.isascii() and size < _MAX_GUESSED_BYTES:
            sample.append(line[:_MAX_GUESSED_BYTES])
            size += len(line)
    return b"\n".join(sample)


def _guess_latin(sample: bytes, high: int) -> tuple[str, bool]:
    """Return the encoding of a Latin text: the one in which all accented letters belong to one language.

    If two encodings fit and read differently, the most frequent one is certain with enough letters that fit
    it best. Another one has to be recognized by most letters of a language.
    """
    fits = ((codec, _language_fit(sample, codec)) for codec in _LATIN_CODECS)
    found = [(codec, *fit) for codec, fit in fits if fit is not None]
    if not found:
        with suppress(UnicodeError):
            return ("cp1252", False) if _reads_as_words(sample.decode("cp1252")) else ("", False)
        return "", False
    first, text, share = found[0]
    best = max(found, key=lambda each: each[2])
    if first == "cp1252" and all(other == text for _, other, _ in found):
        return first, True
    if first == "cp1252" and share == best[2] and high >= _MIN_LATIN_BYTES:
        return first, True
    return (best[0], high >= _MIN_LATIN_BYTES) if best[2] >= _MIN_FIT else (first, False)


def _language_fit(sample: bytes, codec: str) -> tuple[str, float] | None:
    """Return the text in a codec, and the largest share of a language's letters in it; None if none fits."""
    try:
        text = sample.decode(codec)
    except UnicodeDecodeError:
        return None
    foreign = [char for char in text if char > "\x7f" and char not in _SIGNS]
    letters = Counter("".join(foreign + _SIGN_IN_WORD.findall(text)).lower().replace("i\u0307", "ı"))
    most = letters.total() * _MAX_MISFITS_SHARE
    fits = [
        len(letters.keys() & set(own)) / len(own)
        for own in _LATIN_CODECS[codec].split()
        if sum(count for char, count in letters.items() if char not in own) <= most
    ]
    return (text, max(fits)) if fits else None


def _guess_script(sample: bytes, high: int) -> tuple[str, bool]:
    """Return charset-normalizer's guess for other scripts, which is certain if most letters are frequent.

    If more letters would be frequent in another single-byte encoding, that is the better guess.
    """
    from charset_normalizer import from_bytes  # 30 ms, for the few files and outputs that need it

    best = from_bytes(sample, cp_isolation=[*_LETTER_CODECS, *_IDEOGRAM_CODECS]).best()
    thought = best.encoding if best is not None else ""
    likely = max(_LETTER_CODECS, key=lambda codec: _frequent_share(sample, codec))
    codec = thought if thought in _IDEOGRAM_CODECS else likely
    share = _frequent_share(sample, codec)
    sure = codec == thought and high >= _MIN_SCRIPT_BYTES and share >= _MIN_FREQUENT_SHARE
    return (codec, sure) if share else ("", False)


def _frequent_share(sample: bytes, codec: str) -> float:
    """Return the share of frequent letters among those beyond ASCII; 0 if the bytes do not read as words."""
    text = sample.decode(codec, "replace")
    if "\ufffd" in text or not _reads_as_words(text):
        return 0
    letters = [char for char in text if char > "\x7f" and unicodedata.category(char)[0] in "LM"]
    frequent = sum(char in _FREQUENT_LETTERS for char in letters)
    frequent += len(_HAN_OR_KANA.findall(text)) if codec in _IDEOGRAM_CODECS and codec != "euc_kr" else 0
    return frequent / max(1, len(letters))


def _reads_as_words(text: str) -> bool:
    foreign = [char for char in text[:_SAMPLE_CHARS] if char > "\x7f"]
    read = sum(char in _SIGNS or unicodedata.category(char)[0] in "LM" for char in foreign)
    return read >= len(foreign) * _MIN_WORD_SHARE


def _looks_japanese(text: str) -> bool:
    """Return whether a text contains kana, unlike Western bytes, which often decode as Shift-JIS too."""
    foreign = [char for char in text[:_SAMPLE_CHARS] if char > "\x7f"]
    japanese = sum(1 for char in foreign if _JAPANESE.match(char))
    kana = sum(1 for char in foreign if _KANA.match(char))
    return bool(foreign) and japanese * 10 >= len(foreign) * 9 and kana * 5 >= len(foreign)
