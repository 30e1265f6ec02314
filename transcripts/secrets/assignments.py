"""Find secrets that a text assigns to a name: `DB_PASSWORD=...`, `password: ...`, `"apiKey": "..."`.

The name must be one of a secret (secret_forms.py), and the value must be a literal, not a variable, a call, a
path or a placeholder. In a settings file each such value counts. In other text, which may be source code, a
value must also look like a secret, unless the text has the form of an environment variable:

    DB_PASSWORD=swordfish      a secret: a variable of the environment
    password = swordfish       none: it may be the name of a variable
    password: "x7Kp-22Lq9z"    a secret: a literal that is not made of words
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from transcripts.patterns import lazy_pattern

from .secret_forms import (
    SECRET_FORMS,
    could_be_masked,
    is_attribute,
    is_placeholder,
    is_plain_path,
    is_secret,
    is_surely_named,
    looks_random,
)

# A line without any of these words, in lower case, assigns no secret.
ASSIGNED_HINTS = (
    "token",
    "secret",
    "pass",
    "pw",
    "key",
    "cred",
    "jwt",
    "dsn",
    "bearer",
    "mnemonic",
    "conn",
    "salt",
    "jaas",
)
_ASSIGNED = lazy_pattern(
    r"(?<![\w.-])(?P<name>[A-Za-z_][\w.-]{0,80})['\"]?(?P<sign>[ \t]{0,8}(?:=>|:=|[:=,])[ \t]{0,8})"
    r"(?=(?P<value>\"(?:[^\"\\\n]|\\.){1,400}\"|'(?:[^'\\\n]|\\.){1,400}'"
    r"|[^\s\"',;#<>(){}\[\]`|&]{1,400}(?=[\s\"',;#}|&]|\]|\Z)))"
)  # the value is only looked at, since in "a.env:12:PASSWORD=..." it contains an assignment

_NAME_TAIL = r"(?:_?(?:\d+|B(?:ASE)?64|HEX|OLD|NEW|VALUE))*"


def assigned_secrets(text: str, *, in_settings: bool = False) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each secret value that a text assigns, without its quotes.

    in_settings: the text is that of a settings file, in which unquoted words are literals
    """
    for found in _assignments(text):
        value = found["value"]
        quoted = value[0] in "\"'"
        start, end = found.span("value")
        if quoted:
            value = value[1:-1]
            start += 1
            end -= 1
        name = found["name"]
        sign = found["sign"]
        if "," in sign and not re.search(
            r"(?i)\bdefine\(\s{0,8}['\"]\Z", text[max(0, found.start() - 20) : found.start()]
        ):
            continue  # in PHP: define('DB_PASSWORD', '...')
        if not (is_surely_named(name, _NAME_TAIL) and is_secret(name, value) and is_literal(value)):
            continue
        # `${DB_PASSWORD:-postgres}` names a variable, whose default is for development.
        is_default = text.endswith("${", 0, found.start())
        is_variable = sign == "=" and re.fullmatch(r"[A-Z][A-Z0-9_]+", name) is not None
        if (
            (in_settings and not is_default and _may_be_password(name, value))
            or is_variable
            or _looks_secret(name, value, quoted=quoted)
        ):
            yield start, end


def _assignments(text: str) -> Iterator[re.Match[str]]:
    """Yield the assignments in lines that may assign a secret; all lines would take five times as long."""
    folded = text.casefold()
    if len(folded) != len(text):  # a few letters become two
        yield from _ASSIGNED.finditer(text)
        return
    starts = {folded.rfind("\n", 0, at) + 1 for hint in ASSIGNED_HINTS for at in lines_with(hint, folded)}
    for start in sorted(starts):
        end = text.find("\n", start)
        yield from _ASSIGNED.finditer(text, start, len(text) if end < 0 else end)


def lines_with(hint: str, text: str) -> Iterator[int]:
    """Yield the offset of the first `hint` in each line that contains it."""
    at = text.find(hint)
    while at >= 0:
        yield at
        end = text.find("\n", at)
        at = text.find(hint, end) if end >= 0 else -1


def holds_secret(text: str) -> bool:
    """Return whether the text of a settings file contains a known form of a secret, or a literal password."""
    for form in SECRET_FORMS:
        for found in form.finditer(text):
            if form.kind != "password" or is_literal(form.secret_of(found[0])):
                return True
    return any(True for _ in assigned_secrets(text, in_settings=True))


def _may_be_password(name: str, value: str) -> bool:
    """Return whether a value of a settings file is neither a text for users nor the name of a variable.

    A password may be a plain word, a key or token may not.
    """
    if re.search(r"\s", value) or re.fullmatch(r"[A-Z][a-z]+[.:!?]?|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+", value):
        return False
    return re.search("pass|pwd?", name, re.IGNORECASE) is not None or could_be_masked(value)


_NO_LITERAL = r"[$%<{*!@]|\[|(?:process|os|import\.meta)\.|(?i:env[:.(\[]|ref:|vault:|op://|arn:|file:|https?://[^@]*\Z)"


def is_literal(value: str) -> bool:
    """Return whether a value may be a secret itself, not a variable, a path or a placeholder."""
    # Shorter values are too common.
    if len(value) < 4 or re.match(_NO_LITERAL, value) or is_plain_path(value):
        return False
    return "${" not in value and "..." not in value and not is_placeholder(value)


MIN_CHANGES = 3  # between letters and digits in an unquoted value, which sha256 or base64url does not have


def _looks_secret(name: str, value: str, *, quoted: bool) -> bool:
    if not could_be_masked(value) or " " in value:
        return False
    if quoted:
        is_password = re.search("pass|pwd?", name, re.IGNORECASE) is not None
        return looks_random(value) or (is_password and re.search(r"\d", value) is not None)
    if is_attribute(value):
        return False
    # A long unquoted value with letters of both cases.
    if len(value) >= 36 and len(re.findall("[A-Z]", value)) > 2 and len(re.findall("[a-z]", value)) > 2:
        return looks_random(value)
    changes = re.findall(r"[A-Za-z](?=\d)|\d(?=[A-Za-z])", value)
    return looks_random(value) and len(changes) >= MIN_CHANGES
