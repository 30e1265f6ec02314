"""Recognize secrets among environment variables by name and form, and the forms of secrets in any text.

Two modules use these tables: tools' env_filter.py withholds every variable that is a secret from commands,
and masking.py masks the forms and the texts of `secret_values`. A variable is a secret because of its name,
because of a form that only secrets have, or because it repeats another secret.

More is withheld than masked: a value is masked only if that does not damage innocent text. It must have at
least MIN_SECRET_CHARS characters. It must not be a plain word (letters of one case, possibly joined by `_`),
a number, a path, a placeholder such as `no-key-required`, or part of the user's name or home directory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from urllib.parse import unquote

from msgspec import Struct

MIN_SECRET_CHARS = 8  # a shorter value would occur in innocent text
MIN_RANDOM_CHARS = 12  # of a value whose name is also used for other things, such as SORT_KEY
MAX_WORD_CHARS = 19  # of a plain word
MIN_ADDRESS_KEY_CHARS = 16  # of a key instead of a user name: https://KEY@host

# Patterns are strings: `re` compiles them on first use, which saves 5 ms at start-up.
_BEGIN = r"(?<![A-Za-z])"
_END = r"(?![A-Za-z])"  # of a word in a name; `_`, digits and other characters separate words
_SURE_NAME = (
    r"(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASSCODE|CREDENTIAL"
    r"|(?:ACCESS|ACCOUNT|ADMIN|API|APP|AUTH|CLIENT|CONSUMER|DEPLOY|ENCRYPTION|HMAC|LICENSE|MASTER|PRIVATE|SECRET"
    rf"|SERVICE|SHARED|SIGNING|SUBSCRIPTION)_?KEY)S?{_END}"
    rf"|{_BEGIN}(?:JWT|DSN|BEARER|MNEMONIC|CREDS?|JAAS|CONN(?:ECTION)?_?STR(?:ING)?)S?{_END}"
    rf"|{_BEGIN}(?:SALT|PEPPER|SIGNING|SAS|(?:O?AUTH|JWT|SESSION)_?REFRESH|(?:SEED|RECOVERY)_?(?:PHRASE|CODES?))$"
    rf"|(?<!^)PW{_END}|^PW$|(?<=_)PWD{_END}|SSHPASS{_END}|{_BEGIN}PASS_?\d*$"
)
# Names that are also used for other things: the value decides as well.
_LIKELY_NAME = (
    rf"{_BEGIN}(?:KEY|PAT|AUTH|COOKIE|OTP|TOTP)S?"
    r"(?:_?(?:\d+|B(?:ASE)?64|PEM|HEX|DATA|VALUE|CONFIG|OLD|NEW|HEADER))*$"
    r"|(?<!BY)(?<!ASK)(?<!COM)(?<!LOW)(?<!SUR)(?<!BAND)(?<!HIGH)(?<!OVER)(?<!TRES)(?<!MULTI)(?<!UNDER)PASS$"
)
# Names of services, and of things that are secret if the value looks random.
_DOUBTFUL_NAME = (
    rf"{_BEGIN}(?:API|SID|SEED|HMAC|OTP|PIN|SESSION|LICENSE)$|[A-Z](?<!HOT)KEYS?$"
    r"|^(?:ADYEN|AIRTABLE|ALGOLIA|AUTH0|BRAINTREE|BUGSNAG|CLOUDFLARE|CODECOV|DATADOG|DD|DIGITALOCEAN|DOCKER_?HUB"
    r"|FASTLY|GITEA|GITLAB|GRAFANA|HCLOUD|HEROKU|HONEYCOMB|HUBSPOT|INTERCOM|JENKINS|JIRA|LINEAR|LINODE|MAILCHIMP"
    r"|MAILGUN|MIXPANEL|NEW_?RELIC|NOTION|NPM|OKTA"
    r"|OPSGENIE|PAGERDUTY|PAYPAL|PLAID|POSTMARK|PYPI|ROLLBAR|SEGMENT|SENDGRID|SENTRY|SHOPIFY|SNYK|SONAR|SQUARE"
    r"|STRIPE|SUPABASE|TELEGRAM|TWILIO|WANDB|ZENDESK)(?:_(?:API|APP|BOT|LIVE|PROD|TEST|SID|V\d))*$"
)
# Names of things that only a few may do or read: secret if the value is opaque.
_WEAK_NAME = (
    rf"{_BEGIN}(?:ACCESS|ADMIN|BIND|CIPHER|CLIENT|COMMUNITY|CRYPTO?|ENCRYPT(?:ION)?|HASHIDS?|HOOK|LOGIN|MASTER|NEXT_?AUTH"
    r"|PK|PRIVATE|PSK|RCON|ROOT|SIGN|SIGNATURE|SIGNER|UNLOCK|UNSEAL|VAULT|WALLET|WPA"
    r"|(?:ACTIVATION|BACKUP|INVITE|PAIRING|UNLOCK)_?CODE)S?(?:_?\d+)?$"
)
# Names of facts about a secret: its location, its kind, a limit.
_NO_SECRET_NAME = (
    r"_(?:SOCK|SOCKET|FILE|FILENAME|PATH|DIR|FOLDER|STORE|URI?|URL|ENDPOINT|HOST|PORT|NAME|USER|USERNAME|EMAIL"
    r"|(?<!ACCESS_KEY_)ID|TYPE|KIND|MODE|METHOD|ALGORITHM|SCOPE|SCOPES|DOMAIN|PREFIX|TTL|EXPIRY|EXPIRES|AGE"
    r"|TIMEOUT|LENGTH|SIZE|COUNT|LIMIT|BUDGET|ENABLED|DISABLED|REQUIRED|HELPER|COMMAND|PROVIDER|PARALLELISM)$"
    rf"|{_BEGIN}(?:MAX|MIN|NUM|COUNT|BUDGET)\w*TOKENS?{_END}|{_BEGIN}PUBLI(?:C|SHABLE)_?KEY|^GIT_CONFIG_KEY_"
    r"|^GPG_KEYS?$|^(?:ATUIN_SESSION|WT_SESSION|STARSHIP_SESSION_KEY)$"  # fingerprints, and ids of terminals
)
# A password within a value: of a login module, a connection string, an option or the query of a URL.
_HELD_PASSWORD = (
    r"(?i)(?<![\w.])(?:access_?token|api_?key|auth_?token|client_?secret|passw(?:or)?d|pwd|secret|sig|token)"
    r"(?:[ \t]{0,3}=|[\"'][ \t]{0,3}:)[ \t]{0,3}[\"']?([^\s\"';&,]+)"
)
MIN_ENTROPY_CHARS = 24  # of a value that is secret whatever its name
MIN_DISORDER_CHARS = 10  # of one in which no four letters follow each other
# What browsers get from a build is no secret.
_SHIPPED_NAME = r"^(?:EXPO_PUBLIC|GATSBY|NEXT_PUBLIC|NUXT_PUBLIC|PUBLIC|REACT_APP|VITE|VUE_APP)_"
# The URL itself is the secret.
_WEBHOOK_NAME = rf"{_BEGIN}WEBHOOKS?(?:_?(?:\d+|UR[IL]|ENDPOINT|ADDRESS))*$"
_SECRET_HEADER = (
    r"(?:^|[\n,])[ \t]*[\w-]*(?:auth|key|token|secret|cookie|pass|sign)[\w-]*[ \t]*[:=][ \t]*([^\n,]+)"
)
# One of other hooks is, if it looks random.
_HOOK_NAME = r"HOOKS?(?:_?(?:\d+|UR[IL]|ENDPOINT|ADDRESS))*$"
_PIN_NAME = rf"{_BEGIN}PIN(?:_?CODE)?$"  # also that of a connector, which has a short number
# A user and a password, as in `scott/tiger@db:1521/orcl`. bundler has them under the name of a host.
_LOGIN_NAME = rf"{_BEGIN}(?:CONN(?:ECT(?:ION)?)?|LOGIN|LOGON|USER_?ID)$|^BUNDLE_\w+__\w+$"
_LOGIN = r"[\w.$#]+(?::([^\s:/@]{4,})|/([^\s:/@]{4,})@\S+)"
_LICENSE = r"[A-Z0-9]{2,6}(?:-[A-Z0-9]{4,6}){4,}"
# Variables of services that give access to the user's account, secret or not, and credential files.
# DIRENV_DIFF encodes all variables that direnv has set.
_WITHHELD_NAME = r"^(?:ANTHROPIC|AWS|AZURE|OPENAI)_|^PGPASSFILE$|^DIRENV_DIFF$"
_SWITCHES = frozenset(["0", "1", "true", "false", "yes", "no", "on", "off", "none", "null", "auto"])

# The beginning of a word, also after an escaped newline or tab, as in JSON and logs.
_WORD_START = r"(?:\b|(?<=\\[tnrfv]))"


class SecretForm(Struct, frozen=True):
    """A form that only secrets of this kind have; a text without any of `hints` contains none."""

    kind: str
    hints: tuple[str, ...]
    pattern: str

    @property
    def is_word(self) -> bool:
        """Whether no secret of this form contains white space."""
        return not any(map(self.pattern.__contains__, (" ", r"\s", r"\S", r"\t", "[^")))

    def is_in(self, text: str) -> bool:
        """Return whether a text contains such a secret."""
        return next(self.finditer(text), None) is not None

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Return the matches in a text."""
        return re.finditer(self.pattern, text) if self.may_be_in(text) else iter(())

    def sub(self, replacement: str | Callable[[re.Match[str]], str], text: str) -> str:
        """Return a text with every match replaced."""
        return re.sub(self.pattern, replacement, text) if self.may_be_in(text) else text

    def secret_of(self, found: str) -> str:
        """Return the secret in a match, without the user before a password or the name of an option."""
        if self.kind == "password":
            return found.partition(":")[2]
        match self.kind:
            case "authorization" | "login":
                return found.split()[-1]
            case "header" | "option":
                return re.split(r"[\s:=\"']+", found, maxsplit=1)[-1]
            case "user":
                return found.rpartition(":")[2]
        return found

    def may_be_in(self, text: str) -> bool:
        """Return whether a text contains any of the hints."""
        return any(map(text.__contains__, self.hints))


_UUID = "[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}"


def _form(kind: str, hints: str, pattern: str) -> SecretForm:
    return SecretForm(kind, hints=tuple(hints.split()), pattern=pattern)


# The forms as documented by their issuers.
SECRET_FORMS: tuple[SecretForm, ...] = (
    _form("private key", "-----BEGIN", r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
          r"(?:[\s\S]{0,20000}?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|(?:[A-Za-z0-9+/=\s]|\\[rn])*)"),
    _form("Anthropic key", "sk-ant-", _WORD_START + r"sk-ant-[A-Za-z0-9_-]{8,}"),
    _form("API key", "sk-",
          _WORD_START + r"sk-(?:(?:proj|svcacct|admin|live|or)-[\w-]{16,}|[A-Za-z0-9]{32,})"),
    _form("API key", "gsk_ xai- r8_ pplx-", _WORD_START + r"(?:gsk_|xai-|r8_|pplx-)[A-Za-z0-9]{30,}"),
    _form("AWS key id", "AKIA ASIA", _WORD_START + r"(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    _form("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", _WORD_START + r"gh[pousr]_[A-Za-z0-9]{20,}"),
    _form("GitHub token", "github_pat_", _WORD_START + r"github_pat_[A-Za-z0-9_]{20,}"),
    _form("GitLab token",
          "glpat- gloas- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- glsoat- glffct-",
          _WORD_START + r"gl(?:pat|oas|dt|rtr?|cbt|ptt|ft|imt|agent|soat|ffct)-[\w.-]{16,}"),
    _form("Slack token", "xox", _WORD_START + r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}"),
    _form("webhook", "hooks.slack.com/ /api/webhooks/",
          r"(?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks)/[\w/-]{16,}"),
    _form("Google key", "AIza ya29. GOCSPX-",
          _WORD_START + r"(?:AIza[A-Za-z0-9_-]{35}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,})"),
    _form("Stripe key", "_live_ _test_ whsec_",
          _WORD_START + r"(?:[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{16,})"),
    _form("Hugging Face token", "hf_", _WORD_START + r"hf_[A-Za-z0-9]{20,}"),
    _form("package registry token", "npm_ pypi-", _WORD_START + r"(?:npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,})"),
    _form("SendGrid key", "SG.", _WORD_START + r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    _form("DigitalOcean token", "_v1_", _WORD_START + r"do[opr]_v1_[a-f0-9]{64}"),
    _form("Vault token", "hvs. hvb.", _WORD_START + r"hv[sb]\.[\w-]{20,}"),
    _form("storage key", "AccountKey= SharedAccessKey=",
          r"(?:AccountKey|SharedAccessKey)=[A-Za-z0-9+/=]{40,}"),
    _form("service token",
          "lin_api_ lin_oauth_ figd_ figu_ ntn_ shpat_ shpca_ shppa_ shpss_ dckr_ sbp_ sbr_ gla_ glsa_ "
          "rubygems_ sntrys_ sntryu_ pscale_ aio_ tfp_ fo1_ pul-",
          _WORD_START + r"(?:lin_(?:api|oauth)_\w{32,}|fig[du]_[\w-]{24,}|ntn_[A-Za-z0-9]{40,}"
          r"|shp(?:at|ca|pa|ss)_[a-f0-9]{32}|dckr_(?:pat|oat)_[\w-]{24,}|sb[pr]_[a-f0-9]{40}"
          r"|gls?a_[A-Za-z0-9]{28,}_[a-f0-9]{8}|rubygems_[a-f0-9]{48}|sntry[su]_[\w=+/-]{24,}"
          r"|pscale_(?:tkn|pw|oauth)_[\w.-]{24,}|aio_[A-Za-z0-9]{28}|tfp_\w{24,}|fo1_[\w-]{40,}"
          r"|pul-[a-f0-9]{40})"),
    _form("service token", "dapi PMAK- LTAI tskey- NRAK- dp. atlasv1. ATATT3 ATCTT3 AGE-SECRET-KEY-1 :AA",
          _WORD_START + r"(?:dapi[a-f0-9]{32}(?:-\d)?|PMAK-[a-f0-9]{24}-[a-f0-9]{34}|LTAI[A-Za-z0-9]{16,26}"
          r"|NRAK-[A-Z0-9]{27}|tskey-[a-z]{3,10}-[\w-]{16,}|dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.]{40,}"
          r"|[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,}|AT[AC]TT3[\w=-]{40,}|AGE-SECRET-KEY-1[A-Z0-9]{40,}"
          r"|\d{8,10}:AA[\w-]{32,33})(?![\w-])"),
    _form("API key",
          "csk- tgp_v1_ nvapi- lsv2_ tvly- pcsk_ jina_ sk_prod_ sgp_ e2b_ bb_live_ rpa_ wandb_v1_ KGAT_",
          _WORD_START + r"(?:(?:csk-|tgp_v1_|nvapi-|pcsk_|jina_|wandb_v1_)[\w-]{32,}|sk_prod_[\w-]{40,}"
          r"|lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}|tvly-(?:dev-|prod-)?[\w-]{24,}|KGAT_[a-f0-9]{32}"
          r"|sgp_(?:[a-f0-9]{16}_)?[a-f0-9]{40}|e2b_[a-f0-9]{40}|bb_live_[\w-]{24,}"
          r"|rpa_[A-Za-z0-9]{40,})(?![\w-])"),
    _form("service key",
          "vercel_blob_rw_ vcp_ vci_ vca_ vcr_ vck_ sb_secret_ napi_ sib- phx_ HRKU- rnd_ nfp_ nfc_ nfo_ nfu_"
          " CCIP bkua_ squ_ sqp_ sqa_ CFPAT- shippo_live_ duffel_live_ pnu_ pnb_ rdme_ polar_ unkey_ signkey-"
          " tr_prod_ tr_dev_ secret-live- fio-u- mdb_sa_sk_ sq0csp- sq0atp- glc_eyJ ops_eyJ sk.eyJ",
          _WORD_START + r"(?:vercel_blob_rw_[A-Za-z0-9]{16}_?[A-Za-z0-9]{16,}|vc[pciark]_[A-Za-z0-9]{24,}"
          r"|sb_secret_[\w-]{24,}|napi_[A-Za-z0-9]{40,}|x(?:key|smtp)sib-[a-f0-9]{64}-[A-Za-z0-9]{16}"
          r"|phx_[A-Za-z0-9]{40,}|HRKU-[\w-]{36,}|rnd_[A-Za-z0-9]{24,}|nf[pcou]_[A-Za-z0-9]{36}"
          r"|CCIP(?:AT|RJ)_[A-Za-z0-9]{22}_[a-f0-9]{40}|(?:bkua|sq[upa])_[a-f0-9]{40}|CFPAT-[\w-]{43}"
          r"|shippo_live_[a-f0-9]{40}|duffel_live_[\w-]{40,}|pn[ub]_[A-Za-z0-9]{36}|rdme_[a-z0-9]{60,}"
          r"|polar_(?:oat|pat|rst)_[\w-]{32,}|unkey_[A-Za-z0-9]{20,}|signkey-[a-z]{3,10}-[a-f0-9]{32,}"
          r"|tr_(?:prod|dev)_[A-Za-z0-9]{20,}|secret-live-[\w-]{32,}|fio-u-[\w-]{50,}|mdb_sa_sk_[\w-]{32,}"
          r"|sq0(?:csp|atp)-[\w-]{22,43}|(?:glc|ops)_eyJ[\w+/=-]{30,}"
          r"|sk\.eyJ[\w-]{8,}\.[\w-]{20,})(?![\w-])"),
    _form("service key",
          "FlyV1 fm1_ fm2_ ABSK bedrock-api-key- AQ.Ab8 1//0 AQVN EAAA access_token$ access-pro access-dev"
          " xapp- IGQ sl.u. dt0c01. EZAK ATBB AKCp cmVmdGtuOj AAAAAAAAAAAAAAAAAAAA :APA91b SSWS pat-na"
          " pat-eu",
          _WORD_START + r"(?:FlyV1[ \t]+\S{40,}|fm[12]_[\w+/=,-]{60,}|ABSK[A-Za-z0-9+/]{60,}={0,2}"
          r"|bedrock-api-key-[A-Za-z0-9+/]{40,}|AQ\.Ab8[\w-]{40,}|1//0[\w-]{40,}|AQVN[\w-]{35,38}|EAAA[\w-]{58,}"
          r"|access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}|IGQ[\w-]{60,}|sl\.u\.[\w-]{60,}"
          rf"|(?:access-(?:production|development)|pat-[a-z]{{2}}\d)-{_UUID}|ATBB[A-Za-z0-9]{{28,}}"
          r"|xapp-\d-[A-Z0-9]{8,}-\d{10,}-[a-f0-9]{32,}|dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}|EZAK[A-Za-z0-9]{50,}"
          r"|AKCp[A-Za-z0-9]{60,}|cmVmdGtuOj[A-Za-z0-9+/]{40,}={0,2}|A{20}[\w%]{60,}"
          r"|[\w-]{8,20}:APA91b[\w-]{60,}|SSWS[ \t]+00[\w-]{38,})(?![\w-])"),
    # Those that begin as many other words do share one search.
    _form("service key", "sk_ re_ fw_ fc- pa- key- sdk- api- secret_ pat cio A3- v1.0- 00D M N O",
          _WORD_START + r"(?:sk_[a-f0-9]{48}|re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}|fw_[A-Za-z0-9]{24}"
          rf"|fc-[a-f0-9]{{32}}|pa-[\w-]{{43}}|key-[a-f0-9]{{32}}|(?:sdk|api)-{_UUID}|secret_[A-Za-z0-9]{{43}}"
          r"|pat[A-Za-z0-9]{14}\.[a-f0-9]{64}|cio[A-Za-z0-9]{32}|00D[A-Za-z0-9]{12,15}![\w.]{60,}"
          r"|A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}"
          r"|v1\.0-[a-f0-9]{24}-[a-f0-9]{128,}|[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40})(?![\w-])"),
    _form("Twilio id", "AC SK", _WORD_START + r"(?:AC|SK)[0-9a-f]{32}\b"),
    _form("web token", "eyJ", _WORD_START + r"eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"),
    _form("authorization", "uthorization UTHORIZATION",
          r"(?i:authorization)[\"']?\s{0,9}[:=]\s{0,9}[\"']?(?i:basic|bearer|token)\s{1,9}[\w+/=.~-]{8,}"),
    _form("header", "-key -Key -KEY -token -Token -TOKEN",
          r"(?i:(?<![\w-])(?:x(?:-[a-z]{1,20}){0,3}-(?:key|token)|(?:private|job|deploy)-token))"
          r"[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?=[^\s\"']{0,400}\d)[\w+/=.~-]{16,}"),
    _form("option", "--pass --token --secret --api --auth --access --client",
          r"--(?:password|passwd|pass|token|secret|(?:api|auth|access|client)-(?:key|token|secret))"
          r"(?:[ \t]{1,3}|=)[\"']?(?=[^\s\"']{0,400}\d)(?=[^\s\"']{0,400}[A-Za-z])"
          r"[^\s\"'$<{(-][^\s\"']{7,}"),
    _form("user", "curl",
          r"(?<=curl )(?:[^\n|;&]{0,300}?\s)?(?:-u ?|--user[ =])[\"']?[^\s:\"'$]{1,100}"
          r":[^\s\"'$<{][^\s\"']{3,}"),
    _form("login", "machine",
          r"\bmachine\s{1,9}\S{1,255}\s{1,9}login\s{1,9}\S{1,255}\s{1,9}password\s{1,9}(?=\S{0,200}\d)\S{6,}"),
    _form("password", "://", r"(?<=://)[^\s/@:\"'<>]{0,200}:[^\s/@\"'<>]{1,400}(?=@)"),
)  # fmt: skip
# User and password of a value that is a URL; the password may contain unescaped `/` and `@`.
_ADDRESS = r"[A-Za-z][\w+.-]*://([^\s/:@]*)(?::(?!\d{1,5}(?:/|$))(\S*))?@[^\s@]*"
_PLAIN_PATH = (
    r"(?:~|\.\.?)/.*"
    r"|/(?:home|Users|root|etc|usr|var|opt|tmp|run|mnt|srv|private|Library|Volumes|nix|dev)(?:/.*)?"
)
_WORD = rf"(?:[A-Z]?[a-z]{{1,{MAX_WORD_CHARS}}}|[A-Z]{{1,{MAX_WORD_CHARS}}})"
_PLAIN_WORDS = rf"{_WORD}(?:_{_WORD})*|\d{{1,15}}"
_PLACEHOLDER_WORDS = """
    a access admin an any anything api app auth aws bar baz changeit changeme cpp default demo dev
    development dummy empty example fake foo guest here ignore ignored insert is key less lite llama llm lm
    local localhost me mine minio minioadmin mock model my na needed no none not null ollama openai or
    password placeholder postgres prod production proxy put real redacted replace replaceme required root
    sample secret set sk some staging str string studio test testing the this to todo token unset unused
    user value vllm with x xx xxx xxxx your
"""
_PLACEHOLDERS = frozenset(_PLACEHOLDER_WORDS.split())
_USER = ("HOME", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER", "HOSTNAME")  # their values are common


@lru_cache(maxsize=512)
def is_secret(name: str, value: str = "") -> bool:
    """Return whether a variable contains a secret."""
    if any(map(str.strip, _parts(name, value))):
        return True
    if value.strip().lower() in _SWITCHES:
        return False
    if _is_hook(name, value):
        return True
    if _is_named(_NO_SECRET_NAME, name):
        return False
    is_shipped = _is_named(_SHIPPED_NAME, name)
    if _is_named(_SURE_NAME, name) or _is_key(value) or (_is_disordered(value) and not is_shipped):
        return True
    return _is_secret_here(name, value)


def _is_secret_here(name: str, value: str) -> bool:
    """Return whether a variable is a secret whose name is also used for other things."""
    if _is_named(_WEAK_NAME, name):
        return _is_opaque(value)
    if _is_named(_PIN_NAME, name) and re.fullmatch(r"\d{4,12}", value):
        return True
    if _is_named(_DOUBTFUL_NAME, name):
        is_one = ":" not in value or "cookie" in value.lower()
        return looks_random(value) and is_one and not is_plain_path(value)
    return _is_named(_LIKELY_NAME, name) and not is_plain_path(value)


@lru_cache(maxsize=512)
def is_withheld(name: str, value: str = "") -> bool:
    """Return whether commands must not get a variable: it is a secret, or gives access to an account."""
    return is_secret(name, value) or _is_named(_WITHHELD_NAME, name)


@lru_cache(maxsize=512)
def secret_texts(name: str, value: str) -> tuple[str, ...]:
    """Return the texts within a variable that are masked everywhere; () if it contains no secret."""
    if not is_secret(name, value):
        return ()
    whole = value.strip()
    is_likely = not (_is_named(_SURE_NAME, name) or _is_hook(name, value))
    found = [*_parts(name, value)]
    if not (is_likely and (found or not looks_random(whole))):
        found += [value, whole, json.dumps(whole, ensure_ascii=False)[1:-1]]
        found += [line for line in whole.splitlines() if "\n" in whole and looks_random(line)]
    return tuple(dict.fromkeys(text for text in found if could_be_masked(text)))


def secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the texts in the environment that are masked everywhere, longest first."""
    commonplace = "\n".join(environ.get(name, "") for name in _USER)
    found = {text for name, value in environ.items() for text in secret_texts(name, value)}
    return tuple(
        sorted((text for text in found if text not in commonplace), key=lambda text: (-len(text), text))
    )


def is_surely_named(name: str, tail: str) -> bool:
    """Return whether a name ends like that of a secret, possibly with a `tail`, whatever its value."""
    return _is_named(f"(?:{_SURE_NAME}){tail}$", name)


def is_attribute(text: str) -> bool:
    """Return whether an unquoted text looks like a name in source code: `settings.token2`."""
    return len(text) <= 40 and re.fullmatch(r"[A-Za-z_]\w*\.[A-Za-z_]\w*", text) is not None


def is_plain_path(text: str) -> bool:
    """Return whether a text is a path in the form of a usual directory."""
    return re.fullmatch(_PLAIN_PATH, text) is not None


def _is_named(pattern: str, name: str) -> bool:
    """Return whether a pattern in capitals fits a name in any. With IGNORECASE, compiling takes 8 ms more."""
    return re.search(pattern, name.upper()) is not None


def _parts(name: str, value: str) -> Iterator[str]:
    """Yield the parts of a value that are secret because of their form, whatever the variable's name."""
    for form in SECRET_FORMS:
        if form.kind != "password":
            yield from (form.secret_of(found[0]) for found in form.finditer(value))
    if "://" in value and (address := re.fullmatch(_ADDRESS, value.strip())) is not None:
        user = address[1]
        password = address[2] or ""
        if password and password != user and not is_placeholder(password):
            yield from (password, unquote(password))
        elif len(user) >= MIN_ADDRESS_KEY_CHARS and looks_random(user):
            yield user
    if (header := re.fullmatch(r"(?i)\s*(?:basic|bearer|negotiate)\s+(\S{8,})\s*", value)) is not None:
        yield header[1]
    for password in re.findall(_HELD_PASSWORD, value) if "=" in value or ":" in value else ():
        if password[0] not in "$%<{" and not is_placeholder(password) and not is_plain_path(password):
            yield password
    yield from _named_parts(name, value)


def _named_parts(name: str, value: str) -> Iterator[str]:
    """Yield the secret parts of a value whose name says that it has some: a login, or headers."""
    if _is_named(_LOGIN_NAME, name) and (login := re.fullmatch(_LOGIN, value)) is not None:
        password = login[1] or login[2]
        if login[2] or _is_opaque(password):
            yield password
    if _is_named(r"HEADERS?(?:_|$)", name):
        for header in re.findall(_SECRET_HEADER, value, re.IGNORECASE):
            yield from (header.strip(), header.strip().partition(" ")[2])  # after "Bearer"


def _is_hook(name: str, value: str) -> bool:
    if _is_named(_WEBHOOK_NAME, name):
        return True
    return "://" in value and _is_named(_HOOK_NAME, name) and looks_random(value.partition("://")[2])


def _is_key(value: str) -> bool:
    """Return whether a value has the entropy of a key: letters of both cases and digits in disorder."""
    if re.fullmatch(_LICENSE, value):
        mixed = (re.search(r"[A-Z]", group) and re.search(r"\d", group) for group in value.split("-"))
        return sum(map(bool, mixed)) >= 2
    value = re.sub(_UUID, "", value)  # an id, such as that of a graphics card
    if (
        len(value) < MIN_ENTROPY_CHARS
        or not re.fullmatch(r"[A-Za-z0-9+/_-]+={0,2}", value)
        or is_plain_path(value)
    ):
        return False
    counts = [
        len(re.findall(kind, value)) for kind in ("[A-Z]", "[a-z]", r"\d", r"[A-Za-z](?=\d)|\d(?=[A-Za-z])")
    ]
    return min(counts) >= 3 and not re.match(r"sha\d+-", value)


def _is_disordered(value: str) -> bool:
    """Return whether a value is a short key: letters of both cases and digits that change all the time."""
    if len(value) < MIN_DISORDER_CHARS or not re.fullmatch(r"[A-Za-z0-9+/_.-]+={0,2}", value):
        return False
    stretch = max(re.findall(r"[A-Za-z0-9]+", value), key=len, default="")
    counts = (len(re.findall(kind, stretch)) for kind in ("[A-Z]", "[a-z]", r"\d"))
    changes = re.findall(r"[A-Za-z](?=\d)|\d(?=[A-Za-z])", stretch)
    is_mixed = min(counts) >= 2 and len(changes) >= 4
    if not is_mixed or len(stretch) < MIN_DISORDER_CHARS or re.search("[A-Za-z]{5}", stretch):
        return False
    return not is_plain_path(value) and re.match(r"sha\d+-", value) is None


def _is_opaque(value: str) -> bool:
    """Return whether a value is one word that is not made of words, numbers and versions."""
    if not 8 <= len(value) <= 128 or re.search(r"[\s/:,=<>(){}\[\]|&;\\]|\$\{", value.rstrip("=")):
        return False
    if re.fullmatch(r"[^@]+@[\w-]+(?:\.[\w-]+)+", value):  # an address
        return False
    parts = re.split(r"[-_.+]", value)
    ordinary = r"v?\d*|[A-Za-z]+\d{0,4}|\d+[A-Za-z]{1,2}|x86|x64"
    return any(not re.fullmatch(ordinary, part) for part in parts) and not is_placeholder(value)


def could_be_masked(text: str) -> bool:
    """Return whether masking a text everywhere would damage no innocent text."""
    if len(text) < MIN_SECRET_CHARS or re.fullmatch(_PLAIN_WORDS, text) or re.fullmatch(_PLAIN_PATH, text):
        return False
    return not is_placeholder(text)


def is_placeholder(text: str) -> bool:
    """Return whether a text is a placeholder for a secret: `dummy-key`, `xxxxxxxx`, `<your token>`."""
    words = [word for word in re.split(r"[\W_]+", text.lower()) if word]
    return len(set(text)) < 4 or all(word in _PLACEHOLDERS for word in words)


def looks_random(text: str) -> bool:
    """Return whether a text looks random rather than like words joined by punctuation.

    It has a run of letters mixed with digits, or a very long run of letters of both cases.
    """
    stretches = re.findall(r"[A-Za-z0-9]{5,}", text)  # h0rse, not v1 or x2
    return len(text) >= MIN_RANDOM_CHARS and any(
        (re.search("[A-Za-z]", stretch) and re.search("[0-9]", stretch))
        or (len(stretch) > MAX_WORD_CHARS and not stretch.islower() and not stretch.isupper())
        for stretch in stretches
    )
