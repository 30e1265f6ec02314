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
        ("SERVICE_K", "fig" + "d_" + "x1Y2z3" * 5, ""),
        ("SERVICE_L", "da" + "pi" + "0a1b2c3d" * 4, ""),
        ("SERVICE_M", "nv" + "api-" + "x1Y2z3" * 8, ""),
        ("SERVICE_N", "vercel" + "_blob_rw_" + "x1Y2z3" * 7, ""),
        ("SERVICE_O", "Fly" + "V1 fm2_" + "x1Y2z3" * 12, ""),
        ("SERVICE_P", "re" + "_x1Y2z3A4_" + "x1Y2z3" * 4, ""),
        ("HEADER_K", "X-Api-" + "Key: " + "x1Y2z3" * 4, "x1Y2z3" * 4),
        ("TOOL_OPTIONS", "--verbose --" + "token=x1Y2z3x1 -q", "x1Y2z3x1"),
        ("FETCH", "curl -fsS -u me:" + "p4ss-w0rd https://a.example", "p4ss-w0rd"),
        ("LINE_OF_FILE", "machine a.example login me pass" + "word p4ss-w0rd-2", "p4ss-w0rd-2"),
        ("SETTINGS", '{"user": "me", "pass' + 'word": "p4ss-w0rd-3"}', "p4ss-w0rd-3"),
        # Names without "key" or "token", values that name their parts, and keys under any name.
        ("BASIC_CREDS", "admin:pw-9f8e", ""),
        ("COOKIE_SIGNING", "keyboard-cat-77", ""),
        ("ENCRYPTION_SALT", "NaCl-and-more-1", ""),
        ("PASSWORD_PEPPER", "hot-and-spicy-2", ""),
        ("OAUTH_REFRESH", "1//0g-refresh-Ab12", ""),
        ("HEROKU_API", "01234567-89ab-cdef-0123-456789abcdef", ""),
        ("SENDGRID", "x1Y2z3x1Y2z3x1Y2z3", ""),
        ("PLAID", "5f2b9c01d3e4a5b6c7d8e9f0", ""),
        ("TWILIO_SID", "A" + "C" + "0a1b2c3d" * 4, ""),
        ("KAFKA_SASL_JAAS", 'Module required username="u" password="kafka-pw-1";', "kafka-pw-1"),
        ("SPRING_DB", "Server=db;User Id=app;Password=c0nn-string-pw;", "c0nn-string-pw"),
        ("MYSQL_ARGS", "--user=app --password=0pti0n-pw", "0pti0n-pw"),
        ("CALLBACK", "https://x.example/in?token=qu3ry-t0ken&x=1", "qu3ry-t0ken"),
        ("BLOB_SAS", "sv=2024-01-01&sig=aB3%2FdE5fG7", "aB3%2FdE5fG7"),
        ("PROXY_AUTHORIZATION", "Negotiate YIIabc123", "YIIabc123"),
        ("WALLET_RECOVERY_PHRASE", "twelve words that open it", ""),
        ("MYSTERY", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9v", ""),
        ("DJANGO_SEED", "q8w7e6r5t4y3u2i1", ""),
        ("STRIPE_API_V2", "x1Y2z3x1Y2z3x1Y2", ""),
        # Names of few ordinary words, and keys that are shorter than those of services.
        ("RAILS_MASTER", "8f3a9c1e7b5d2f4a" + "6c8e0b1d3f5a7c9e", ""),
        ("LDAP_BIND", "S3rv1ceBind" + "!pw", ""),
        ("PROD_DB", "k8Jq2mZx" + "91Lp", ""),
        ("GRAFANA_ADMIN", "gr4f4n4-" + "Adm1n", ""),
        ("JENKINS", "11a2b3c4d5e6" + "f7a8b9c0d1e2f3", ""),
        # Joined names, logins, hooks, and cookies as objects.
        ("WANDB", "9c1185a5c5e9fc546128" + "08977ee8f548b2258d31", ""),
        ("HONEYCOMB_WRITEKEY", "4be1d0a9c27f4635" + "8e9b0c1d2e3f4a5b", ""),
        ("SIGNINGPASS", "q8w7e6r5t4y3", ""),
        ("MEETING_PASSCODE", "k8Jq2m-91", ""),
        ("ORACLE_CONN", "scott/" + "T1ger-9x@db01:1521/ORCLPDB1", "T1ger-9x"),
        ("BUNDLE_GEMS__EXAMPLE__COM", "deadb33f:" + "c0ffee77", "c0ffee77"),
        ("BUILD_HOOK", "https://api.example.com/build_hooks/5f2b9c01d3e4a5b6c7d8e9f0", ""),
        ("DEPLOYER_PK", "0x" + "4be1d0a9c27f46358e9b0c1d2e3f4a5b" * 2, ""),
        ("FASTLANE_SESSION", "- !ruby/object:HTTP::Cookie\n  value: DAWTKNV2a1b2" + "c3d4e5f60718", ""),
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
    ("UNLOCK_CODE", "A9X2-77QZ" + "-11PK"),
    ("DIRENV_DIFF", "eJzsvWmT27iSNfxXFPr"),
    ("MINIO_ROOT", "r00tpw99"),
    ("PKCS11_PIN", "64821907"),
    ("APPLEIDPASS", "abcd-efgh-ijkl-mnop"),
    ("SNMP_COMMUNITY", "r34d-0nly-x9"),
    ("UNITY_SERIAL", "SC-7K2M-94QX-PL3Z-8WVN-T6YB"),
)
# What shells, desktops, CI systems and programs usually set, none of it secret.
_EVERYDAY: tuple[tuple[str, str], ...] = tuple(
    (name, value)
    for name, _, value in (
        line.strip().partition("=")
        for line in """
            SHELL=/bin/zsh
            LANG=en_US.UTF-8
            LC_ALL=C.UTF-8
            TZ=Europe/Berlin
            DISPLAY=:0
            WAYLAND_DISPLAY=wayland-0
            XDG_RUNTIME_DIR=/run/user/1000
            XDG_SESSION_ID=c2
            XDG_SESSION_TYPE=wayland
            XDG_CURRENT_DESKTOP=GNOME
            DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus,guid=0a1b2c3d4e5f60718293a4b5c6d7e8f9
            INVOCATION_ID=0a1b2c3d4e5f60718293a4b5c6d7e8f9
            JOURNAL_STREAM=8:123456
            TERM_PROGRAM=iTerm.app
            TERM_PROGRAM_VERSION=3.5.0beta12
            TERM_SESSION_ID=w0t1p0:3C0F7E5A-1B2C-4D3E-8F90-A1B2C3D4E5F6
            ITERM_SESSION_ID=w0t1p0:3C0F7E5A-1B2C-4D3E-8F90-A1B2C3D4E5F6
            COLORTERM=truecolor
            VTE_VERSION=7203
            WINDOWID=62914567
            SSH_CONNECTION=10.0.0.2 51234 10.0.0.3 22
            SSH_CLIENT=10.0.0.2 51234 22
            SSH_TTY=/dev/pts/3
            STARSHIP_SESSION_KEY_ID=1234567890123456
            TMUX=/tmp/tmux-1000/default,1234,0
            SHLVL=2
            HISTSIZE=10000
            LESS=-R --mouse
            PS1=%F{green}%n@%m%f:%~$
            MANPATH=/usr/share/man:/usr/local/share/man
            INFOPATH=/opt/homebrew/share/info
            HOMEBREW_PREFIX=/opt/homebrew
            HOMEBREW_CELLAR=/opt/homebrew/Cellar
            NVM_DIR=/home/me/.nvm
            NVM_BIN=/home/me/.nvm/versions/node/v20.11.1/bin
            NODE_ENV=production
            NODE_OPTIONS=--max-old-space-size=4096
            NODE_VERSION=20.11.1
            PYENV_ROOT=/home/me/.pyenv
            PYTHONPATH=src:lib
            PYTHONHASHSEED=0
            PYTHON_VERSION=3.12.1
            VIRTUAL_ENV=/home/me/project/.venv
            VIRTUAL_ENV_PROMPT=project-3.12
            CONDA_DEFAULT_ENV=base
            CONDA_PREFIX=/opt/miniconda3
            POETRY_ACTIVE=1
            JAVA_HOME=/usr/lib/jvm/java-21-openjdk-amd64
            JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStorePassword=changeit
            MAVEN_OPTS=-Xmx2g -XX:+UseG1GC
            GRADLE_OPTS=-Dorg.gradle.daemon=false
            ANDROID_HOME=/home/me/Android/Sdk
            GOROOT=/usr/local/go
            GOFLAGS=-mod=readonly
            GOPROXY=https://proxy.golang.org,direct
            GOPRIVATE=github.com/example/*
            CARGO_HOME=/home/me/.cargo
            RUSTFLAGS=-C target-cpu=native
            RUST_BACKTRACE=1
            RUST_LOG=info,hyper=warn
            CC=clang-17
            CFLAGS=-O2 -march=x86-64-v3
            LDFLAGS=-L/opt/homebrew/lib
            MAKEFLAGS=-j8
            CMAKE_BUILD_PARALLEL_LEVEL=8
            DOCKER_HOST=unix:///run/user/1000/docker.sock
            DOCKER_IMAGE=registry.example.org/team/app@sha256:0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d
            COMPOSE_PROJECT_NAME=shop2026
            KUBECONFIG=/home/me/.kube/config
            KUBERNETES_SERVICE_HOST=10.96.0.1
            KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443
            POD_NAME=web-7d9f8b6c5d-x2x4z
            HOSTNAME=web-7d9f8b6c5d-x2x4z
            CI=true
            GITHUB_ACTIONS=true
            GITHUB_SHA=0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d
            GITHUB_REF=refs/heads/feature/JIRA-1234-New-Login
            GITHUB_RUN_ID=1234567890
            GITHUB_WORKFLOW_REF=octo/app/.github/workflows/ci.yml@refs/heads/main
            GITHUB_API_URL=https://api.github.com
            RUNNER_NAME=GitHub Actions 12
            CI_COMMIT_SHA=0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d
            CI_COMMIT_REF_SLUG=feature-jira-1234-new-login
            CI_PIPELINE_ID=123456
            BUILD_TAG=jenkins-App-Deploy-1234
            BUILDKITE_JOB_ID=01890a5d-ac96-774b-bcce-b302099a8057
            VERCEL_GIT_COMMIT_SHA=0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d
            NEXT_PUBLIC_API=https://api.example.org/v2
            REACT_APP_API=http://localhost:8080/api
            API_VERSION=2024-10-01
            CODE_SIGNING=YES
            AUTO_REFRESH=30
            SALT_MASTER=salt01.example.org
            SENTRY_ENVIRONMENT=production
            SENTRY_RELEASE=app@2.14.0+build77
            DD_SERVICE=checkout-api-2
            DD_TRACE_ENABLED=true
            STRIPE_API_VERSION=2024-06-20
            LOG_LEVEL=debug
            PORT=3000
            DATABASE_HOST=db-01.internal
            REDIS_URL=redis://localhost:6379/0
            NIX_PATH=nixpkgs=/nix/store/0a1b2c3d4e5f6g7h8i9j0k1l2m3n4p5q-source
            NIX_PROFILES=/nix/var/nix/profiles/default /home/me/.nix-profile
            npm_config_user_agent=npm/10.2.4 node/v20.11.1 linux x64 workspaces/false
            npm_package_integrity=sha512-aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vaB3dE5fG7hJ9kL1mN3pQ5rS7tU9vaB3dE5fG7==
            GPG_TTY=/dev/pts/3
            OLLAMA_HOST=127.0.0.1:11434
            QT_QPA_PLATFORM=wayland;xcb
            GTK_MODULES=gail:atk-bridge
        """.strip().splitlines()
    )
)
INNOCENT: tuple[tuple[str, str], ...] = (
    ("TOKENIZERS_PARALLELISM", "false"),
    ("MAKEROOM_MAX_TOKENS", "32000"),
    ("GIT_AUTHOR_NAME", "Ada Lovelace 1815"),
    ("GIT_AUTHOR_EMAIL", "ada1815@example.org"),
    ("MONKEY", "curious-george-1941"),
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
    ("PW_TEST_HTML_REPORT_OPEN", "on-failure"),  # of Playwright
    ("PW_TEST_CONNECT_WS_ENDPOINT", "ws://localhost:3000/"),
    ("OLDPWD", "/home/me/project-1A"),
    ("NO_AUTH", "1"),
    ("HTTPS_PROXY", "http://proxy.example.org:3128"),
    ("DATABASE_URL", "postgres://postgres:postgres@localhost:5432/test"),
    ("npm_config_registry", "https://registry.example.org/@me/2Fast"),
    ("LS_COLORS", "*.sig=00;32:*.pass=01"),
    ("GPG_KEY", "E3FF2839C048B25C084DEBE9B26995E310250568"),
    ("WT_SESSION", "7bd4b2c3-1f2e-4a5b-9c6d-0e1f2a3b4c5d"),
    ("CUDA_VISIBLE_DEVICES", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"),
    ("NEXT_PUBLIC_MAP", "aB3dE5fG7hJ9"),
    ("VERCEL_DEPLOYMENT_ID", "dpl_7Gw5ZMBpQA8h9GF832KGp7nwbuh3"),
    ("RENDER_INSTANCE", "srv-c8k2m9qp1dv3f7-abcde"),
    ("CI_RUNNER_VERSION", "17.0.0~pre.88.g761ae5dd"),
    ("GIT_DESCRIBE", "v2.45.1-123-g66030fa033"),
    ("IMAGE_DIGEST", "sha256:8f3a9c1e7b5d2f4a6c8e0b1d3f5a7c9e8f3a9c1e7b5d2f4a6c8e0b1d3f5a7c9e"),
    ("DEVICE", "iPhone15Pro2"),
    ("GPU", "RTX4090Ti-24GB"),
    ("MODEL", "Qwen2.5-Coder-7B-Instruct-Q4_K_M"),
    ("DB_ENCRYPTION", "aes-256-gcm"),
    ("SSL_CIPHER", "TLS_AES_256_GCM_SHA384"),
    ("K8S_MASTER", "ip-10-0-3-122.ec2.internal"),
    ("KEYCLOAK_ADMIN", "ada1815@example.org"),
    ("DB_LOGIN", "svc_app01"),
    ("HTTP_CLIENT", "okhttp3"),
    ("SSH_ASKPASS", "/usr/bin/ksshaskpass"),
    ("COMPASS", "north-by-north-west"),
    ("ATUIN_SESSION", "018e0a5dac96774bbcceb302099a8057"),
    ("LED_PIN", "13"),
    ("GIT_HOOK", "pre-push-2"),
    ("PREVIEW_HOOK", "https://ci.example.org/hooks/build"),
    ("DB_CONN", "tcp://10.0.0.3:5432"),
    ("OWNER_LOGIN", "octocat"),
    ("ACTION", "octo/app1@v4"),
    ("BUNDLE_BUILD__NOKOGIRI", "--use-system-libraries"),
    ("PRODUCT", "PROJ-TEAM-PROD-EAST-0001"),
    ("SOCKET_RENDER", "/private/tmp/com.apple.launchd.uXq8zM4nLk/Render"),
    *_EVERYDAY,
)
