"""Variables that hold secrets of every kind, and variables that only sound like it; all made up.

Values are put together here so that no scanner takes this file for a leak.
"""

from __future__ import annotations

# name -> (value, what of it must be shown nowhere)
SECRETS: dict[str, tuple[str, str]] = {
    name: (value, part or value)
    for name, value, part in (
        ("ANTHROPIC_API_KEY", "sk-" + "ant-api03-" + "Ab1_" * 10, ""),
        ("OPENAI_API_KEY", "sk-" + "proj-" + "Zy9x8W7v" * 4, ""),
        ("AWS_SECRET_ACCESS_KEY", "wJalr/" + "XUtnFEMI/K7MDENG+bPxRfi" + "CY", ""),
        ("AWS_ACCESS_KEY_ID", "AKIA" + "ABCDEFGHIJ234567", ""),
        ("GITHUB_TOKEN", "gh" + "p_" + "a1B2" * 9, ""),
        ("DEPLOY_PAT", "fj39dk2Lq0Xz81", ""),
        ("STRIPE_KEY", "Qw8" + "erTy7uiOp6asDf5gh", ""),
        ("BASIC_AUTH", "deploy:h0rse-battery", ""),
        ("ROOTPW", "Tr0ub4dor&3", ""),
        ("MYSQL_PWD", "pl4in-but-secret", ""),
        ("SMTP_PASS", "mail/pa55 with blanks", ""),
        ("PGPASSWORD", "hush-hush-value", ""),
        ("CI_JWT", "ey" + "JhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxIn0." + "c2lnbmF0dXJl", ""),
        ("SESSION_COOKIE", "sid=9f8a7b6c5d4e3f2a1b", ""),
        ("SLACK_WEBHOOK_URL", "https://hooks.slack.com/services/T0" + "ABC/B0DEF/" + "x1Y2z3W4v5", ""),
        ("SENTRY_DSN", "https://0123456789abcdef0123456789abcdef@o1.ingest.example/1", ""),
        ("DATABASE_URL", "postgres://app:p4ss%2Fw0rd@db:5432/app", "p4ss%2Fw0rd"),
        ("HTTP_PROXY_AGENT", "http://me:pr0xy/p@ssw0rd@proxy:3128", "pr0xy/p@ssw0rd"),
        (
            "DEPLOY_SSH",
            "-----BEGIN " + "PRIVATE KEY-----\nMIIEow9x\nabC1+/=\n-----END " + "PRIVATE KEY-----",
            "",
        ),
        ("GIT_CONFIG_VALUE_4", "AUTHORIZATION: " + "basic eDpnaHBfYWJjZGVm", "eDpnaHBfYWJjZGVm"),
        ("OTLP_HEADERS", "x-team=blue,api-key=0a1b2c3d4e5f", "0a1b2c3d4e5f"),
        ("STORAGE_CONNECTION_STRING", "Name=x;AccountKey=" + "Ab3/" * 12 + "==", ""),
        ("INNOCENT_NAME", "see gl" + "pat-" + "x1Y2z3" * 4, "gl" + "pat-" + "x1Y2z3" * 4),
        # One of each other form, under a neutral name.
        ("SERVICE_A", "gs" + "k_" + "x1Y2z3" * 6, ""),
        ("SERVICE_B", "github" + "_pat_" + "11ABC_" * 8, ""),
        ("SERVICE_C", "xo" + "xb-" + "1234567890-abcdef", ""),
        ("SERVICE_D", "AI" + "za" + "Sy" + "a1" * 16 + "b", ""),
        ("SERVICE_E", "sk" + "_live_" + "Zy9x8W7v" * 4, ""),
        ("SERVICE_F", "h" + "f_" + "x1Y2z3" * 5, ""),
        ("SERVICE_G", "np" + "m_" + "x1Y2z3" * 6, ""),
        ("SERVICE_H", "S" + "G." + "x1Y2z3" * 3 + "." + "x1Y2z3" * 3, ""),
        ("SERVICE_I", "do" + "p_v1_" + "0a1b2c3d" * 8, ""),
        ("SERVICE_J", "hv" + "s." + "x1Y2z3" * 4, ""),
    )
}
# Withheld from commands, but no value to look for: it is a word, a place, a placeholder, or too short.
WITHHELD: tuple[tuple[str, str], ...] = (
    ("ANTHROPIC_AUTH_TOKEN", "lmstudio"),
    ("ANTHROPIC_AUTH_TOKEN", "ollama"),
    ("ANTHROPIC_AUTH_TOKEN", "compacted"),
    ("ANTHROPIC_API_KEY", "dummy-key"),
    ("ANTHROPIC_API_KEY", "sk-no-key-required"),
    ("ANTHROPIC_API_KEY", "test"),
    ("ANTHROPIC_API_KEY", "xxxxxxxxxxxxxxxx"),
    ("API_TOKEN", "<your token here>"),
    ("MY_TOKEN", "tool_use"),
    ("DB_PASSWORD", "p4ss"),
    ("DB_PASSWORD", "20261121"),
    ("CACHE_KEY", "v1-linux-deps"),
    ("SORT_KEY", "created_at"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/.config/gcloud/key-1a2B3c.json"),
    ("AWS_PROFILE", "prod-admin-01"),
    ("aws_region", "eu-central-1"),
)
INNOCENT: tuple[tuple[str, str], ...] = (
    ("TOKENIZERS_PARALLELISM", "false"),
    ("MAKEROOM_MAX_TOKENS", "32000"),
    ("GIT_AUTHOR_NAME", "Ada Lovelace 1815"),
    ("GIT_AUTHOR_EMAIL", "ada1815@example.org"),
    ("MONKEY", "a1B2c3D4e5F6g7"),
    ("GIT_CONFIG_KEY_4", "http.https://example.org/x1y2z3.extraHeader"),
    ("KEYBOARD", "us-altgr-intl-2"),
    ("KEYMAP", "de-latin1-nodeadkeys"),
    ("SSH_AUTH_SOCK", "/tmp/ssh-Abc123XyZ/agent.42"),
    ("XAUTHORITY", "/run/user/1000/.mutter-Xwaylandauth.A1B2C3"),
    ("SSL_KEY_FILE", "/etc/ssl/private/key1.pem"),
    ("SSH_KEY", "/home/me/.ssh/id_ed25519"),
    ("TOKEN_URL", "https://login.example.org/oauth2/token"),
    ("SECRET_NAME", "prod/db-Main-01"),
    ("COOKIE_DOMAIN", "app01.Example.org"),
    ("PUBLIC_KEY", "a1B2c3D4e5F6g7H8"),
    ("COMPASS", "north-NorthWest-7"),
    ("OLDPWD", "/home/me/project-1A"),
    ("NO_AUTH", "1"),
    ("HTTPS_PROXY", "http://proxy.example.org:3128"),
    ("DATABASE_URL", "postgres://postgres:postgres@localhost:5432/test"),
    ("npm_config_registry", "https://registry.example.org/@me/2Fast"),
    ("LS_COLORS", "*.sig=00;32:*.pass=01"),
)
