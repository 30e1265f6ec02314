"""Find secrets in the usual outputs and command lines: cookies, options, YAML, properties, XML.

Unlike the forms of their issuers (secret_forms.py), these are secrets only because of their context. Each has
a place for the secret, `s`, and only that place is masked:

    Set-Cookie: session=9f8e7d6c5b4a3928; Path=/     the value of each cookie that looks random
    mysql -u root -ps3cret app                       the value of an option that is a password
    password: hunter2x9                              the value of a line in YAML, if it is not a plain word
    <password>S3cretPw99</password>

Text that is not masked: `password: string`, `password = other_password`, `token: ${TOKEN}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from transcripts.patterns import lazy_pattern

from .assignments import lines_with
from .secret_forms import (
    could_be_masked,
    is_attribute,
    is_placeholder,
    is_plain_path,
    is_surely_named,
    looks_random,
)

_NAMES = r"(?:[\w.-]{0,60}[\w.-])?(?:passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key)"
_QUERY_NAMES = (
    r"(?:access|auth|id|refresh)_?token|api_?key|client_?secret|passw(?:or)?d|pwd|secret|sig|signature|token"
)


class _PrintedForm(Struct, frozen=True):
    """A form with its secret in the group `s`. A text without any of `hints`, in lower case, has none.

    is_password  the value is a password whatever it looks like, unless it is a variable or a placeholder
    """

    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    is_password: bool = False


def _form(hints: str, pattern: str) -> _PrintedForm:
    return _PrintedForm(_hints(hints), lazy_pattern(pattern))


def _hints(table: str) -> tuple[str, ...]:
    """Return the hints of a table; of two words that are joined by `~`, the first."""
    return tuple(hint.partition("~")[0] for hint in table.split())


def _option(hints: str, before: str) -> _PrintedForm:
    return _PrintedForm(_hints(hints), lazy_pattern(f"{before}{_VALUE}"), is_password=True)


_ARGUMENTS = r"(?:[^\n|;&]{0,200}?[ \t])?"
_MYSQL = r"\b(?:mysql|mariadb)(?:dump|admin|import|show|-dump|-admin)?"
_LOGIN = r"\b(?:docker|podman|helm|oc|az|npm|skopeo|buildah)\s[^\n|;&]{0,60}?\blogin"
# The value of an option.
_VALUE = r"(?P<q>[\"']?)(?P<s>[^\s\"'$<{(\[`-][^\s\"'`]{3,200})(?P=q)(?=[\s;|&)\"'`]|\Z)"
# A value in a sentence: not the name of an algorithm, such as SHA256-hashed.
_PROSE_VALUE = (
    r"(?!(?i:sha|md|base|aes|utf|rsa|hmac|ed|v|x|http)-?\d)(?P<q>[\"'`]?)(?=[^\s]{0,60}?\d)"
    r"(?P<s>[^\s\"'`<>(){}\[\],|]{7,200}[^\s\"'`<>(){}\[\],|.:;!?])(?P=q)(?=[\s.,;:!?)|]|\Z)"
)
_BASE64 = r"[A-Za-z0-9+/]{12,}={0,2}"
_FORMS = (
    _option("mysql mariadb", rf"{_MYSQL}\s{_ARGUMENTS}-p"),
    _option("sshpass", r"\bsshpass\s+(?:-\w\s+)?-p\s?"),
    _option("login", rf"{_LOGIN}\s{_ARGUMENTS}-p\s"),
    _option("mongo", rf"\bmongo(?:sh|dump|restore|export|import)?\s{_ARGUMENTS}-p\s"),
    _option("redis-cli", rf"\bredis-cli\s{_ARGUMENTS}-a\s"),
    _option("openssl", rf"\bopenssl\s{_ARGUMENTS}-pass(?:in|out)?\s+pass:"),
    _option("openssl", rf"\bopenssl\s+enc\s{_ARGUMENTS}-k\s"),
    _option("htpasswd", r"\bhtpasswd\s+-\w*b\w*\s+\S{1,200}\s+\S{1,100}\s"),
    _option("sudo", r"\b(?:echo|printf)\s+(?=[^\n|]{1,200}\|\s{0,4}sudo\s+-S\b)"),
    _option("from-literal", r"--from-literal[= ][\w.-]{1,80}="),
    _option(
        "net~use",
        rf"(?i:\bnet)[ \t]+(?i:use)[ \t]{_ARGUMENTS}?(?:\\\\\S{{1,200}}|/user:\S{{1,100}})[ \t]+(?![/\\])",
    ),
    _option("net~user", r"(?i:\bnet)[ \t]+(?i:user)[ \t]+[\w.-]{1,80}[ \t]+(?!/)"),
    _option(
        "cmdkey wmic freerdp schtasks mstsc",
        r"(?i:\b(?:cmdkey|wmic|xfreerdp|wfreerdp|schtasks|mstsc)\b[^\n|;&]{0,200}?\s/(?:p|rp|pass|password):)",
    ),
    _option(
        "psexec twine cqlsh couchbase-cli rdesktop useradd usermod",
        rf"\b(?:psexec|twine|cqlsh|couchbase-cli|rdesktop|useradd|usermod)(?:\.exe)?[ \t]{_ARGUMENTS}-p[ \t]",
    ),
    _option("sqlcmd ipmitool zip~-", rf"\b(?:sqlcmd|ipmitool|(?:un)?zip)[ \t]{_ARGUMENTS}-P[ \t]"),
    _option("7z~a 7za 7zr 7z~x", rf"\b7z[arz]?[ \t]{_ARGUMENTS}-p"),
    _option(
        "ldapsearch ldapadd ldapmodify ldapdelete ldapcompare ldappasswd ldapwhoami",
        rf"\bldap(?:add|compare|delete|modify|passwd|search|whoami)[ \t]{_ARGUMENTS}-w[ \t]",
    ),
    _option("snmp", rf"\bsnmp[a-z]{{2,9}}[ \t]{_ARGUMENTS}-[AX][ \t]"),
    _option(
        "smb rpcclient", rf"\b(?:smb(?:client|get|map)|rpcclient)[ \t]{_ARGUMENTS}-U[ \t]?[\w.\\/-]{{1,80}}%"
    ),
    _option("lftp", rf"\blftp[ \t]{_ARGUMENTS}-u[ \t][^\s,]{{1,80}},"),
    _option("sqlplus", rf"\bsqlplus[ \t]{_ARGUMENTS}[\w$#]{{1,60}}/"),
    _option("nmcli mysqladmin", rf"\b(?:nmcli|mysqladmin)[ \t]{_ARGUMENTS}password[ \t]+"),
    _option("wpa_passphrase", r"\bwpa_passphrase[ \t]+\S{1,60}[ \t]+"),
    _option("rclone", r"\brclone[ \t]+obscure[ \t]+"),
    _option("kinit", r"\bkinit\s[^\n|]{0,80}<<<\s?"),
    _option("security~add-", rf"\bsecurity[ \t]+add-\S+[ \t]{_ARGUMENTS}-w[ \t]"),
    _form(
        "-pass storepass keypass",
        r"(?<=\s)--?(?:[a-z]{2,20}-){0,3}(?:src|dest|new)?(?:store|key)?(?:pass|passwd|password|passphrase)"
        rf"(?:[ \t]|=)(?!-){_VALUE}",
    ),
    _option("mount~ mount.cifs", rf"\bmount(?:\.cifs)?[ \t]{_ARGUMENTS}\S{{0,200}}\bpass(?:word)?="),
    _option("ansible_", r"\bansible_(?:ssh_|become_|sudo_)?pass(?:word)?="),
    _option(
        "chpasswd",
        r"\b(?:echo|printf)[ \t]+(?:-\w[ \t]+)?[\"']?[\w.-]{1,60}:"
        r"(?=[^\n|]{1,200}\|\s{0,4}(?:sudo[ \t]+)?chpasswd)",
    ),
    _form(
        "pass: pass= passwd: passwd= password: password= pass~: password~:",
        r"(?i:\b(?:user(?:[ _]?name)?|login|e-?mail|account)\b[ \t]{0,3}[:=][ \t]{0,3}[^\s,;/|]{1,80}"
        r"[ \t]{0,3}[,;/|]?[ \t]{1,3}"
        rf"(?:and[ \t]+)?pass(?:word|wd)?[ \t]{{0,3}}[:=][ \t]{{0,3}}){_PROSE_VALUE}",
    ),
    _form(
        "password: passphrase: password~is passphrase~is password~for passphrase~for password~of",
        r"(?i:\bpass(?:word|phrase)\b(?:[ \t]+is[ \t]+generated)?(?:[ \t]+(?:for|of)[ \t]+[^\n:]{1,60}?)?"
        rf"(?:[ \t]+is)?(?:[ \t]{{0,3}}:|(?<=[ \t]is))[ \t]{{1,3}}){_PROSE_VALUE}",
    ),
    _option("requirepass masterauth", r"(?m:^)[ \t]*(?:requirepass|masterauth)[ \t]+"),
    _form(
        "token= key= pwd= passwd= password= secret= sig= signature=",
        rf"(?i:[?&;](?:{_QUERY_NAMES})=)(?P<s>[^\s&;\"'<>$(){{}}]{{8,400}})",
    ),
    _form("</", rf"<(?i:{_NAMES})>[ \t]{{0,8}}(?P<s>[^<>\s${{}}]{{6,400}})[ \t]{{0,8}}</"),
    _form('value="', rf"(?i:\b(?:key|name)=\"{_NAMES}\"\s{{1,8}}value=\")(?P<s>[^\"\s$]{{8,400}})\""),
    _form("auth", rf"\"auth\"[ \t]{{0,4}}:[ \t]{{0,4}}\"(?P<s>{_BASE64})\""),
    _form(
        "_auth _password", rf"(?<![\w$])_(?:auth|password)[ \t]{{0,4}}=[ \t]{{0,4}}(?P<s>{_BASE64})(?=\s|\Z)"
    ),
)
_COOKIES = lazy_pattern(
    r"(?i:(?<![\w-])(?:set-)?cookie)[\"']?[ \t]{0,3}:[ \t]{0,3}[\"']?([^\r\n\"']{8,8000})"
)
_COOKIE = lazy_pattern(r"([\w.$!%*+-]{1,100})=([^;\s]{8,4000})")
# A whole line of YAML, properties or a Dockerfile, maybe found by grep: `conf/my.cnf:3:password=...`.
_LINE = lazy_pattern(
    r"^(?:(?:[^\s:]{1,300}[:-])?\d{1,9}[:-]|(?=[^\s:]{0,300}[./])[^\s:]{1,300}:)?[ \t+-]{0,80}"
    r"(?:(?:ENV|ARG)[ \t]+)?(?P<name>[A-Za-z_][\w.-]{0,80})(?P<sign>:[ \t]+|=|[ \t]+)"
    r"(?P<s>[^\s\"',;#<>(){}\[\]`|&]{6,400})[ \t]{0,80}(?:#.*)?\r?$",
    re.MULTILINE,
)
_LINE_HINTS = ("pass", "secret", "token", "key", "pwd")
_NO_VALUE = lazy_pattern(
    r"[$%<{*!@]|\[|(?:process|os|import\.meta)\.|(?i:env[:.(]|ref:|vault:|op://|arn:|file:|https?://)"
)


_FORM_OF_HINT = tuple((hint, form) for form in _FORMS for hint in form.hints)
PRINTED_HINTS = ("cookie", *_LINE_HINTS, *(hint for hint, _ in _FORM_OF_HINT))


def printed_secrets(text: str, hinting: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each secret in a text.

    hinting: the words of the text, in lower case, in which any of PRINTED_HINTS is
    """
    for form in dict.fromkeys([form for hint, form in _FORM_OF_HINT if hint in hinting]):
        for found in form.pattern.finditer(text):
            if _may_be_secret(found["s"], form.is_password):
                yield found.span("s")
    if "cookie" in hinting:
        yield from _cookies(text)
    if any(map(hinting.__contains__, _LINE_HINTS)):
        yield from _lines(text)


def _may_be_secret(value: str, is_password: bool) -> bool:
    if _NO_VALUE.match(value) or is_plain_path(value) or "..." in value:
        return False
    return is_password or (_is_mixed(value) and not is_placeholder(value))


def _is_mixed(value: str) -> bool:
    """Return whether a value has both letters and digits or signs, as no plain word does."""
    has_letter = re.search("[A-Za-z]", value) is not None
    return has_letter and re.search(r"\d|[!@#$%^&*?~+]", value) is not None and could_be_masked(value)


def _cookies(text: str) -> Iterator[tuple[int, int]]:
    for header in _COOKIES.finditer(text):
        for cookie in _COOKIE.finditer(text, *header.span(1)):
            value = cookie[2]
            if cookie[1].lower() not in ("expires", "path", "domain") and looks_random(value):
                yield cookie.span(2)


MIN_PRINTED_CHARS = 8  # of a value that is a secret only by its name


def _lines(text: str) -> Iterator[tuple[int, int]]:
    folded = text.casefold()
    if len(folded) != len(text):  # a few letters become two
        folded = text
    starts = {folded.rfind("\n", 0, at) + 1 for hint in _LINE_HINTS for at in lines_with(hint, folded)}
    for start in sorted(starts):
        found = _LINE.match(text, start)
        if found is None:
            continue
        name = found["name"]
        value = found["s"]
        is_docker = not found["sign"].strip()
        if is_docker and not re.match(r"[ \t]*(?:ENV|ARG)[ \t]", found[0]):
            continue
        if len(value) < MIN_PRINTED_CHARS or _NO_VALUE.match(value) or "${" in value or "..." in value:
            continue
        if (
            _is_mixed(value)
            and not is_attribute(value)
            and is_surely_named(name, r"(?:_?(?:\d+|KEY_?BASE|VALUE))*")
        ):
            yield found.span("s")
