"""What the bytes of a file mean as text, and back, without losing a byte on the way.

`decode_text` finds the encoding; a `TextForm` says how a file is written: encoding, byte order mark, line
ends. Bytes that are not text become lone surrogates (surrogateescape), and the same bytes again when encoded.
"""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from dataclasses import dataclass

_BYTE_ORDER_MARKS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF8, "utf-8", "surrogateescape"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "surrogatepass"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "surrogatepass"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "surrogatepass"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "surrogatepass"),
)
_STRAY_BYTE = re.compile("[\udc80-\udcff]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_JAPANESE = re.compile("[\u3040-\u30ff\u4e00-\u9fff\uff61-\uff9f\u3000-\u303f\uff01-\uff5e]")
_KANA = re.compile("[\u3040-\u30ff]")
_NEWLINE = re.compile("\r\n|\n|\r")
_CONTROL_BYTE = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")
_BINARY_CHAR = re.compile(r"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f\ufffd]")
_BINARY_SAMPLE_CHARS = 8_000
_ASCII_LETTER = re.compile(rb"[A-Za-z]")
_TYPOGRAPHIC = frozenset("“”„‘’‚–—…€£§°«»¿¡·\u00a0、。「」・ー，！？：；（）")
_MIN_GUESSED_BYTES = 4  # beyond ASCII; fewer say nothing about an encoding
_MAX_GUESSED_BYTES = 4_096  # of lines that are not ASCII
_MAX_WESTERN_SHARE = 0.4
_MIN_WORD_SHARE = 0.8  # of the characters beyond ASCII, which have to be letters or typographic
_SCRIPT_CODECS = (  # the likely ones first: of equals the first is taken
    "cp1251", "koi8_r", "cp866", "cp1253", "cp1255", "cp1256", "gb18030", "big5", "euc_kr", "euc_jp",
)  # fmt: skip
_SAMPLE_CHARS = 64 * 1024  # enough to guess an encoding by


def pluralize(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 line`, `2,000 lines`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural or noun + 's'}"


def word_set(text: str) -> frozenset[str]:
    """The words of a table that is written as one text."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class TextForm:
    """How a file's text is written. `newline` is the most frequent line end, "" where there is none."""

    codec: str = "utf-8"
    errors: str = "surrogateescape"
    mark: bytes = b""
    newline: str = ""
    strays: int = 0  # bytes that are not valid in the encoding

    @property
    def note(self) -> str:
        """One line about the encoding for the reader; "" for valid UTF-8."""
        if self.strays:
            return f"[{self.strays:,} bytes are not valid UTF-8, shown as \ufffd; edits elsewhere keep them]"
        return "" if self.codec == "utf-8" else f"[decoded as {self.codec}]"

    def encode(self, text: str) -> bytes:
        """The text as bytes of this form, without the mark. Raises UnicodeEncodeError."""
        return text.encode(self.codec, self.errors)

    def decode(self, data: bytes) -> str:
        return data.decode(self.codec, self.errors)

    def body(self, data: bytes) -> bytes:
        """What follows the mark, without an incomplete code unit at the end of UTF-16 or 32."""
        size = len(data) - len(self.mark)
        return data[len(self.mark) : len(self.mark) + size // self.unit * self.unit]

    @property
    def unit(self) -> int:
        """Bytes of a code unit."""
        return {"utf-16": 2, "utf-32": 4}.get(self.codec[:6], 1)


def decode_text(data: bytes) -> tuple[str, TextForm] | None:
    """The text without its byte order mark, and its form; None where the bytes are binary."""
    for mark, codec, errors in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            form = TextForm(codec, errors, mark)
            try:
                text = form.decode(form.body(data))
            except UnicodeDecodeError:
                return None
            strays = len(_STRAY_BYTE.findall(text)) if codec == "utf-8" else 0
            form = TextForm(codec, errors, mark, common_newline(text), strays)
            return None if codec == "utf-8" and "\0" in text else (text, form)
    if b"\0" in data:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _guess(data)
    return text, TextForm(newline=common_newline(text))


def common_newline(text: str) -> str:
    """The most frequent line end; of equally frequent ones the first in the text; "" where there is none."""
    if "\r" not in text:
        return "\n" if "\n" in text else ""
    both = text.count("\r\n")
    counts = {"\r\n": both, "\n": text.count("\n") - both, "\r": text.count("\r") - both}
    most = max(counts.values())
    best = {end for end, count in counts.items() if count == most}
    return next(found[0] for found in _NEWLINE.finditer(text) if found[0] in best)


def unify_newlines(text: str) -> str:
    """The text with every line end as \\n. Form feeds, U+2028 and the like are not line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def mark_stray_bytes(text: str) -> str:
    """The text with U+FFFD for each byte that is not text: to be shown, never to be stored."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def has_surrogate(text: str) -> bool:
    """Whether the text holds half of a surrogate pair, which neither a file nor a request can carry."""
    return not text.isascii() and _LONE_SURROGATE.search(text) is not None


def seems_binary(text: str) -> bool:
    """Whether more than a tenth of the beginning is control characters, or bytes that are not UTF-8."""
    sample = text[:_BINARY_SAMPLE_CHARS]
    return len(_BINARY_CHAR.findall(sample)) > len(sample) / 10


def _guess(data: bytes) -> tuple[str, TextForm]:
    """Text that is not valid UTF-8: mostly so, or in a legacy encoding."""
    text = data.decode("utf-8", "surrogateescape")
    strays = len(_STRAY_BYTE.findall(text))
    valid = sum(1 for char in text[:_SAMPLE_CHARS] if char > "\x7f" and not "\udc80" <= char <= "\udcff")
    if valid < strays:
        for codec in filter(None, (guess_codec(data), "cp1252" if strays < _MIN_GUESSED_BYTES else "")):
            with suppress(UnicodeError):
                legacy = data.decode(codec)
                if legacy.encode(codec) == data:
                    return legacy, TextForm(codec, "strict", newline=common_newline(legacy))
    return text, TextForm(newline=common_newline(text), strays=strays)


def guess_codec(data: bytes) -> str:
    """The legacy encoding in which bytes that are not UTF-8 read as words; "" where none is likely.

    Up to a third of the letters of Western texts have accents; with more of them it is another script.
    """
    high = sum(byte > 0x7F for byte in data)
    if high < _MIN_GUESSED_BYTES or _CONTROL_BYTE.search(data):
        return ""
    western = high <= (high + len(_ASCII_LETTER.findall(data))) * _MAX_WESTERN_SHARE
    for codec in ("cp932", "cp1252" if western else _other_script(data)):
        with suppress(UnicodeError, LookupError):
            text = data.decode(codec)
            words = text.encode(codec) == data and _reads_as_words(text)
            if words and (codec != "cp932" or _looks_japanese(text)):
                return codec
    return ""


def _other_script(data: bytes) -> str:
    """What charset-normalizer thinks of the lines that are not ASCII; "" for nothing."""
    from charset_normalizer import from_bytes  # 30 ms, for the few files and outputs that need it

    sample, size = list[bytes](), 0
    for line in data.split(b"\n"):
        if not line.isascii() and size < _MAX_GUESSED_BYTES:
            sample.append(line[:_MAX_GUESSED_BYTES])
            size += len(line)
    best = from_bytes(b"\n".join(sample), cp_isolation=[*_SCRIPT_CODECS]).best()
    return best.encoding if best is not None else ""


def _reads_as_words(text: str) -> bool:
    foreign = [char for char in text[:_SAMPLE_CHARS] if char > "\x7f"]
    return sum(char.isalpha() or char in _TYPOGRAPHIC for char in foreign) >= len(foreign) * _MIN_WORD_SHARE


def _looks_japanese(text: str) -> bool:
    """Western bytes often decode as Shift-JIS too, but into characters with no kana among them."""
    foreign = [char for char in text[:_SAMPLE_CHARS] if char > "\x7f"]
    japanese = sum(1 for char in foreign if _JAPANESE.match(char))
    kana = sum(1 for char in foreign if _KANA.match(char))
    return bool(foreign) and japanese * 10 >= len(foreign) * 9 and kana * 5 >= len(foreign)
