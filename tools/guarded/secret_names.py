"""Recognize files that contain secrets: by name alone, or by a name that suggests it and the content.

There are three kinds of names, in their plain form:

    prod.env, .dev.vars, terraform.tfstate    secret, whatever the content
    deploy.key, service-account.json          secret if the file contains a private key
    database.yml, wp-config.php, app.tfvars   secret if it contains a known form of key or a literal password

Other source code is never secret, since programs could not run without it.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata

from tools.text import word_set
from transcripts.patterns import lazy_bytes_pattern, lazy_pattern
from transcripts.secrets import holds_secret

_EXAMPLE = r"(?!(?:.*[-_.])?(?:example|sample|template|tmpl|dist|defaults?|schema)s?(?:\.env|\.vars)?\Z)"
# Values for the environment of a program, but not their examples.
_ENV_FORM = (
    rf"{_EXAMPLE}(?:\.env(?:[^a-z].*|(?:dev|local|prod|stag|test)[a-z]*)?|.+\.env|\.dev\.vars(?:\..+)?)"
)
ENV_FILE = lazy_pattern(_ENV_FORM, re.DOTALL)
SECRET_FILES = word_set(
    ".netrc _netrc .git-credentials .npmrc .pypirc id_rsa id_ed25519 id_ecdsa id_dsa id_ecdsa_sk"
    " id_ed25519_sk .envrc .pgpass .my.cnf .mylogin.cnf .htpasswd .vault-token .s3cfg .boto"
    " .dockercfg .databrickscfg .dockerconfigjson application_default_credentials.json"
    " credentials.tfrc.json local.settings.json msal_token_cache.json kaggle.json"
)
# Key stores, and files named after their contents.
_NAMED_FORM = (
    r"\.?vault[-_]?pass(?:word)?(?:\.txt)?|(?:.+[-_.])?(?:credentials|accesskeys|rootkey)\.csv|"
    r".+\.(?:p12|pfx|ppk|kdbx|agekey|jks)|(?!debug\.).+\.keystore"
    r"|(?:.+[-_.])?client_secrets?(?:[-_.].+)?\.json|(?:.+)?\.tfstate(?:\..+)?"
    r"|(?:secrets?|credentials?|.+[-_.]credentials)\.(?:ya?ml|json|toml)"
    r"|secrets?(?:\.auto)?\.(?:ini|properties|tfvars|txt)"
)
SECRET_FORM = lazy_pattern(_NAMED_FORM, re.DOTALL)
# Files that contain a private key, or public data: certificates, Keynote slides.
_KEY_FORM = (
    r".+\.(?:pem|key|p8)|.*(?:service[-_]?account|adminsdk|gcp|gcloud|google).*\.json"
    r"|(?:.+[-_.])?(?:sa|svc|keys?|keyfile|creds?)\.json|.+-[0-9a-f]{12}\.json"  # as Google names downloads
)
_MAYBE_KEY = lazy_pattern(_KEY_FORM, re.DOTALL)
# Settings that may contain a password, those named after it first.
_TELLING_SETTINGS = (
    r"(?:.+[-_.])?(?:secrets?|credentials?|creds|passwords?|tokens?)(?:[-_.][\w-]+)*"
    r"\.(?:ya?ml|json|toml|ini|cfg|conf|properties|xml|txt)|database\.yml|wp-config\.php"
    r"|.+\.tfvars(?:\.json)?|.*kubeconfig(?:\.ya?ml)?"
)
_SETTINGS = (
    r"(?:.+[-_.])?(?:appsettings|application|auth|aws|azure|config|database|db|dev|development|env|environment"
    r"|firebase|keys?|local|mail|mongoid|parameters|prod|production|settings|smtp|staging|storage|vault)(?:[-_.][\w-]+)*"
    r"\.(?:ya?ml|json|toml|ini|cfg|conf|properties|xml)|settings(?:\.local)?\.php"
    r"|gradle\.properties|\.sentryclirc"
)
_SETTINGS_EXAMPLE = r"(?!(?:.*[-_.])?(?:example|sample|template|tmpl|dist|schema)s?(?:\.\w+)?\Z)"
_SETTINGS_FORM = rf"{_SETTINGS_EXAMPLE}(?:{_TELLING_SETTINGS}|{_SETTINGS})"
_MAYBE_SETTINGS = lazy_pattern(_SETTINGS_FORM, re.DOTALL)
_POSSIBLE = lazy_pattern(rf"{_ENV_FORM}|{_NAMED_FORM}|{_KEY_FORM}|{_SETTINGS_FORM}", re.DOTALL)
_TELLING = lazy_pattern(rf"{_SETTINGS_EXAMPLE}(?:{_TELLING_SETTINGS})", re.DOTALL)
# The endings of all these names: they decide for most of possibly thousands of names.
_SECRET_ENDINGS = word_set(
    "p12 pfx ppk kdbx agekey jks keystore pem key p8 json yaml yml toml ini cfg conf properties xml txt php"
    " env tfvars vars sentryclirc csv"
)
_SAID_PUBLIC = lazy_pattern(r"cert|chain|bundle|pub|(?<![a-z])(?:ca|crt|root|dh|dhparams?)(?![a-z])")
# A key as text or in DER, and a file that consists of one long word.
_HELD_KEY = lazy_bytes_pattern(rb"BEGIN [A-Z0-9 ]*PRIVATE KEY|\A0[\x81\x82]|\A[!-~]{16,512}\s*\Z")
# Programs need these files even if they contain no token. They are only secret if they contain one.
MAYBE_TOKEN_FILES = (".npmrc", ".yarnrc", ".yarnrc.yml", "pip.conf")
_HELD_TOKEN = lazy_bytes_pattern(
    rb"(?:_auth\w*|_password|npmAuth\w+)[ \t]*[=:][ \t]*[\"']?(?!\$\{)[^\s\"']|://[^\s/:@$]+:[^\s/@$]+@",
    re.IGNORECASE,
)
_MAX_LOOKED_AT_BYTES = 64 * 1024


def is_secret_file(path: str, name: str) -> bool:
    """Return whether a file with this plain name is secret, by its content if the name leaves that open."""
    if not may_be_secret(name):
        return False
    return is_secret_by_name(name) or holds_key(path) or holds_password(path)


def is_secret_by_name(name: str) -> bool:
    """Return whether a plain name is that of a secret, whatever the content."""
    return name in SECRET_FILES or any(form.fullmatch(name) for form in (ENV_FILE, SECRET_FORM))


def may_be_secret(name: str) -> bool:
    """Return whether a plain name may be that of a secret, regardless of its directory."""
    if name.rpartition(".")[2] not in _SECRET_ENDINGS and not (
        name.startswith((".env", ".dev.vars", ".vault", "vault"))
        or ".tfstate" in name
        or name.endswith("kubeconfig")
    ):
        return name in SECRET_FILES
    return name in SECRET_FILES or _POSSIBLE.fullmatch(name) is not None


def holds_key(path: str) -> bool:
    """Return whether a file is named like a private key, and contains one."""
    if not _MAYBE_KEY.fullmatch(plain_name(path.rpartition("/")[2])):
        return False
    return _HELD_KEY.search(beginning(path)) is not None


def holds_password(path: str) -> bool:
    """Return whether a file is named like one of settings, and contains a key or a literal password."""
    if not _MAYBE_SETTINGS.fullmatch(plain_name(path.rpartition("/")[2])):
        return False
    return holds_secret(beginning(path).decode("utf-8", "replace"))


def holds_token(path: str) -> bool:
    """Return whether a settings file contains a credential, and not only the name of a variable for one."""
    return _HELD_TOKEN.search(beginning(path)) is not None


def sounds_secret(name: str) -> bool:
    """Return whether a file that cannot be read, as in another commit, may be a secret by its name."""
    found = plain_name(name)
    if is_secret_by_name(found) or _TELLING.fullmatch(found):
        return True
    return _MAYBE_KEY.fullmatch(found) is not None and not _SAID_PUBLIC.search(found)


def beginning(path: str, max_bytes: int = _MAX_LOOKED_AT_BYTES) -> bytes:
    """Return the first bytes of a file, as many as are checked; b"" if it is not a regular file."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        return os.read(opened, max_bytes) if stat.S_ISREG(os.fstat(opened).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(opened)


def plain_name(name: str) -> str:
    """Return a name as the most tolerant file system treats it: case, width, ignorables, trailing dots."""
    if name.isascii():
        return name.lower().rstrip(". ") or name
    folded = unicodedata.normalize("NFKC", name).casefold()
    seen = "".join(char for char in folded if unicodedata.category(char) != "Cf")
    return seen.rstrip(". ") or name
