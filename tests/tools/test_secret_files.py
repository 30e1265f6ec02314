"""Secrets of a project are hidden in any directory and under any usual name, and ordinary files are not."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest

from tools.guarded.index_paths import paths_in_index
from tools.guarded.names import is_protected
from tools.guarded.secret_search import SecretSearch, secrets_beside

from .sandbox_session import git, sandboxed_session

# Put together here so that no scanner takes this file for a leak.
KEY = "AKIA" + "ABCDEFGHIJ234567"
PRIVATE = "-----BEGIN " + "PRIVATE KEY-----\nMIIE\n"
SECRETS: dict[str, str] = {
    "apps/web/server/.env": "",
    "a/b/c/d/e/f/g/.env.production": "",
    "build/.env": "",
    "dist/server/.env.local": "",
    "deploy/prod.env": "",
    "docker/.env-staging": "",
    ".streamlit/secrets.toml": "",
    "workers/edge/.dev.vars": "",
    "workers/edge/.dev.vars.production": "",
    "func/local.settings.json": "{}",
    "infra/terraform.tfstate": "{}",
    "infra/live/eu/terraform.tfstate.backup": "{}",
    "infra/live/eu/prod.tfvars": 'db_password = "hunter2hunter"\n',
    "infra/live/us/secrets.auto.tfvars": "",
    "app/config/parameters.yml": "parameters:\n  database_password: hunter2hunter\n",
    "public/wp-config.php": "<?php\ndefine( 'DB_PASSWORD', 'hunter2' );\n",
    "config/database.yml": "production:\n  username: app\n  password: hunter2\n",
    "services/api/config/appsettings.Production.json": '{"Db": "Server=x;AccountKey=' + "a1B2" * 12 + '"}',
    "services/api/src/main/resources/application.properties": "spring.datasource.password=Tr0ub4dor\n",
    "services/api/src/main/resources/application-prod.yml": "db:\n  url: postgres://app:hunter2@db/app\n",
    "k8s/base/app-secrets.yaml": "stringData:\n  apiKey: hunter2x\n",
    "k8s/admin.kubeconfig": "users:\n- user:\n    token: abcdefgh1\n",
    "functions/src/keys/service-account.json": PRIVATE,
    "certs/live/example.org/privkey.pem": PRIVATE,
    "deploy/sa.json": PRIVATE,
    "deploy/my-project-0a1b2c3d4e5f.json": PRIVATE,
    "android/app/release.keystore": "x",
    "android/upload.jks": "x",
    "ops/ansible/.vault_pass": "x",
    "ops/ansible/group_vars/vault_pass.txt": "x",
    "ops/vault-password": "x",
    "notebooks/kaggle.json": '{"username": "u", "key": "0123456789abcdef"}',
    "infra/dev_accessKeys.csv": "Access key ID,Secret access key\n",
    "ops/home/.aws/credentials": "",
    "ops/a/b/c/id_ed25519": "",
    "packages/ui/client/.npmrc": "//registry.example/:_authToken=npm_abc\n",
    "packages/ui/client/settings.toml": f'aws = "{KEY}"\n',
    "legacy/app/auth.json": '{"http-basic": {"repo.example": {"username": "a", "password": "hunter2"}}}',
    "vendor/company/sdk/secrets.properties": "",
}
# Paths of public repositories, most of them close to a secret, with the content that they have there.
ORDINARY_TEXTS: dict[str, str] = {
    "config/database.yml": 'production:\n  password: <%= ENV["APP_DATABASE_PASSWORD"] %>\n',
    "docker-compose.dev.yml": "environment:\n  DB_PASSWORD: ${DB_PASSWORD:-clickhouse}\n",
    "config/db/database.yml": "default:\n  username: postgres\n  password: postgres\n",
    "config/storage.yml": "amazon:\n  access_key_id: <%= Rails.application.credentials.dig(:aws, :id) %>\n",
    "wp/wp-config.php": "<?php\ndefine( 'DB_PASSWORD', getenv('DB_PASSWORD') );\n",
    "wp/wp-config-sample.php": "<?php\ndefine( 'DB_PASSWORD', 'password_here' );\n",
    "src/main/resources/application.properties": "spring.datasource.password=${DB_PASSWORD}\nport=1\n",
    "src/main/resources/application.yml": "spring:\n  security:\n    user:\n      password: secret\n",
    "src/appsettings.json": '{"Logging": {"LogLevel": {"Default": "Information"}}, "ApiKey": ""}',
    "src/Properties/launchSettings.json": '{"profiles": {"http": {"launchBrowser": true}}}',
    "infra/variables.tfvars": 'region = "eu-central-1"\n',
    "infra/prod.auto.tfvars.json": '{"instance_type": "t3.micro"}',
    "lang/en/auth.json": '{"password": "Password", "token": "This token is invalid."}',
    "lang/de/passwords.json": '{"token": "Der Link ist abgelaufen.", "password": "Passwort"}',
    "tokens.json": '{"color": {"primary": {"value": "#336699"}}}',
    "design/tokens.json": '{"token": "large", "space": 4}',
    "tokenizer_config.json": '{"bos_token": "<s>", "pad_token": "[PAD]", "max_tokens": 4096}',
    "config.json": '{"model_type": "llama", "eos_token_id": 2, "pad_token_id": 0}',
    "gradle.properties": "org.gradle.jvmargs=-Xmx2g\nsigning.keyFile=../release.jks\n",
    "k8s/secret.example.yaml": "stringData:\n  password: hunter2\n",
    "k8s/sealed-secrets.yaml": "spec:\n  encryptedData: {}\n",
    "k8s/external_secrets.yml": "spec:\n  secretStoreRef:\n    name: vault\n",
    "site/config.toml": 'baseURL = "https://example.org/"\n[params]\n  algolia_key = ""\n',
    "hugo/config/_default/config.toml": 'title = "Docs"\n',
    "firebase.json": '{"hosting": {"public": "dist"}}',
    "config/default.json": '{"auth": {"tokenExpiry": "1h", "passwordMinLength": 12}}',
    "config/custom-environment-variables.json": '{"db": {"password": "DB_PASSWORD"}}',
    "tox.ini": "[testenv]\npassenv = API_TOKEN\n",
    "setup.cfg": "[metadata]\nname = x\n",
    "ansible/group_vars/prod.yml": 'db_password: "{{ vault_db_password }}"\n',
    "certs/ca-certificates.pem": "-----BEGIN CERTIFICATE-----\nMIIE\n",
    "docs/public.key": "-----BEGIN PGP PUBLIC KEY BLOCK-----\n",
    "talk.key": "PK\x03\x04 slides",
    "packages/a/.npmrc": "registry=https://registry.example/\nsave-exact=true\n",
    "packages/a/.yarnrc.yml": 'npmAuthToken: "${NPM_TOKEN}"\n',
    "tests/fixtures/prod.env": "PASSWORD=hunter2\n",
    "testdata/key.pem": PRIVATE,
    "src/settings.py": 'SECRET_KEY = "django-insecure-0a1b2c3d4e5f6g7h"\n',
    "src/secrets.py": "import hmac\n",
    "lib/secrets.js": "export const mask = 1\n",
    "docs/secrets.md": "PASSWORD=hunter2\n",
}
ORDINARY_NAMES = """
    .env.example .env.sample .env.template .env.dist .env.defaults .env.prod.example .env.local.sample
    example.env sample.env template.env default.env apps/web/.env.example env.d.ts vite-env.d.ts
    next-env.d.ts environment.yml environment.prod.ts environments/production.rb
    config/environments/test.rb env.py alembic/env.py env.sh src/env.mjs src/env.ts .envoy.yaml
    .dev.vars.example .environment dev.vars.ts terraform.tf terraform.lock.hcl .terraform.lock.hcl
    main.tf variables.tf outputs.tf backend.tf versions.tf terraform.tfvars.example prod.tfvars.example
    tfstate.go state.py statefile_test.go secrets.go secrets_test.go secret.rs secret.tsx secrets.ts
    Secrets.swift secretsmanager.tf secrets.rst secret-scanning.md credentials.py credentials.go
    credentials.ts credentials_test.rb credentials.yml.enc master.key.example token.py token.go
    tokens.rs tokenizer.json tokenize.ts password.rb password_reset.html.erb passwords_controller.rb
    passwd.c auth.py auth.ts auth.go oauth.py oauth2.yaml keys.go keymap.json keyboard.yml key.rs
    keywords.txt vault.hcl vault.go database.rb database.go database.sqlite.md database.php db.py
    settings.gradle settings.gradle.kts settings.xml.template settings.json.j2 settings.go config.go
    config.ts config.js config.rb webpack.config.js jest.config.ts tailwind.config.cjs next.config.mjs
    vite.config.ts babel.config.js metro.config.js eslint.config.mjs postcss.config.js rollup.config.js
    playwright.config.ts tsconfig.json jsconfig.json package.json package-lock.json yarn.lock
    pnpm-lock.yaml composer.json composer.lock Gemfile Gemfile.lock Cargo.toml Cargo.lock go.mod go.sum
    pyproject.toml poetry.lock uv.lock requirements.txt Pipfile Makefile Dockerfile docker-compose.yml
    docker-compose.override.yml compose.yaml .dockerignore .gitignore .gitattributes Chart.yaml
    values.yaml values-prod.yaml kustomization.yaml deployment.yaml serviceaccount.yaml
    service_account.go service-account.yaml rbac.yaml ingress.yaml configmap.yaml id_rsa.pub
    keys.json debug.keystore
    id_ed25519.pub known_hosts.md README.md CHANGELOG.md LICENSE SECURITY.md CONTRIBUTING.md mkdocs.yml
    openapi.yaml swagger.json schema.prisma schema.sql schema.graphql structure.sql seeds.rb manage.py
    wsgi.py urls.py models.py admin.py apps.py conftest.py tests.py routes.rb puma.rb cable.yml i18n.js
    locales.go web.config.transform App.config.md app.json app.yaml appveyor.md local.py local.go
    production.py staging.tf development.rb dev.sh prod.sh vercel.json netlify.toml fly.toml
    wrangler.toml renovate.json lerna.json nx.json turbo.json angular.json ionic.config.json
    capacitor.config.ts google.go googletest.cmake gcp.tf gcloud.sh cloudbuild.yaml service.yaml.tmpl
    AndroidManifest.xml Info.plist strings.xml styles.xml pom.xml build.gradle log4j2.xml logback.xml
    phpunit.xml checkstyle.xml .editorconfig .prettierrc .eslintrc.json
"""


def laid_out(project: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    return project


def found(project: Path, budget_s: float = 60) -> set[str]:
    return {os.path.relpath(path, project) for path in SecretSearch(str(project)).find(budget_s)}


def test_each_secret_is_found_at_any_depth_and_asked_about_by_file_tools(tmp_path: Path) -> None:
    project = laid_out(tmp_path.resolve(), SECRETS)
    assert set(SECRETS) - found(project) == set()
    assert [name for name in SECRETS if not is_protected(f"{project}/{name}", "read")] == []


def test_ordinary_files_of_public_projects_are_not_hidden(tmp_path: Path) -> None:
    ordinary = {**dict.fromkeys(ORDINARY_NAMES.split(), "key = value\n"), **ORDINARY_TEXTS}
    assert len(ordinary) >= 200
    assert found(laid_out(tmp_path.resolve(), ordinary)) == set()


def test_a_command_in_the_sandbox_reads_none_of_them(tmp_path: Path) -> None:
    sandboxed = sandboxed_session(tmp_path)
    laid_out(sandboxed.folder, {name: f"{text}\nmarked-content\n" for name, text in SECRETS.items()})
    sandboxed.require_sandbox("namespaces")
    assert "marked-content" not in sandboxed.prints("grep -rah marked . ; cat $(find . -type f) 2>/dev/null")
    sandboxed.end()


def test_secrets_of_the_directories_beside_a_project_are_hidden_too(tmp_path: Path) -> None:
    """Deeper ones are not searched for, nor those of hidden directories."""
    sandboxed = sandboxed_session(tmp_path)
    beside = {"other/.env": "A=marked-1\n", "other/config.txt": "plain\n", "prod.env": "A=marked-2\n"}
    laid_out(sandboxed.folder.parent, {**beside, "other/deep/.env": "", ".hidden/.env": ""})
    project = str(sandboxed.folder)
    found = {os.path.relpath(path, tmp_path.resolve()) for path in secrets_beside(project)}
    assert found == {"other/.env", "prod.env"}
    assert secrets_beside("/srv") == []
    sandboxed.require_sandbox("namespaces", "landlock")
    assert "marked" not in sandboxed.prints("cat ../other/.env; grep -r marked ../other ../prod.env")
    assert sandboxed.prints("cat ../other/config.txt") == "plain"
    sandboxed.end()


def test_mounts_beside_a_project_are_not_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose server is down would hang."""
    place = laid_out(tmp_path.resolve(), {"a b/.env": "", "other/.env": "", "mounts": ""})
    monkeypatch.setattr("tools.guarded.secret_search._MOUNTS", str(place / "mounts"))
    rows = f"36 35 0:40 / {place}/a\\040b rw - nfs4 server:/x rw\n37 35 0:41 / / rw - ext4 /dev/x rw\n"
    (place / "mounts").write_text(rows)
    assert secrets_beside(f"{place}/project") == [f"{place}/other/.env"]


def test_links_with_names_of_secrets_hide_no_program_and_no_directory(tmp_path: Path) -> None:
    """A clone with such a link would let no command start."""
    sandboxed = sandboxed_session(tmp_path)
    bash = os.path.realpath("/bin/bash")
    library = next((str(path) for path in Path("/usr/lib").glob("*/libc.so.6")), "/usr/lib")
    targets = {"prod.env": bash, ".env": "/", "dev.env": library, "test.env": str(sandboxed.folder)}
    for name, target in targets.items():
        (sandboxed.folder / name).symlink_to(target)
    (sandboxed.home / "values").write_text("marked")
    (sandboxed.folder / "local.env").symlink_to("../home/values")
    sandboxed.require_sandbox("namespaces", "landlock")
    assert sandboxed.prints("echo started") == "started"
    assert "marked" not in sandboxed.prints("cat local.env ../home/values")
    sandboxed.end()


def test_a_walk_without_time_finds_tracked_secrets_in_the_index_and_continues_later(tmp_path: Path) -> None:
    project = laid_out(tmp_path.resolve(), {"a/b/.env": "", "a/c/prod.env": "", "a/c/x.py": "", "n/.env": ""})
    git(project, "init", "-q")
    git(project, "add", "a/c", "a/b")
    search = SecretSearch(str(project))
    tracked = {f"{project}/a/b/.env", f"{project}/a/c/prod.env"}
    assert set(search.find(-1)) == tracked, "not what is untracked"
    assert set(search.find(60)) == {*tracked, f"{project}/n/.env"}
    (project / ".git/index").unlink()
    assert len(search.find(-1)) == 3, "what is known needs no time"


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_all_paths_of_an_index_are_read(tmp_path: Path, version: str) -> None:
    names = ["a/b/c.py", "a/b/cd.py", "a/" + "long" * 50, "z"]
    laid_out(tmp_path, dict.fromkeys(names, ""))
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "update-index", "--index-version", version)
    data = (tmp_path / ".git/index").read_bytes()
    assert [os.fsdecode(path) for path, _ in paths_in_index(data, 20)] == sorted(names)


def test_a_secret_that_comes_goes_or_changes_is_seen(tmp_path: Path) -> None:
    project = laid_out(tmp_path.resolve(), {"deep/er/config/database.yml": "password: <%= x %>\n"})
    search = SecretSearch(str(project))
    assert search.find() == []
    (project / "deep/er/config/database.yml").write_text("password: hunter2\n")
    laid_out(project, {"deep/er/still/.env": ""})
    assert len(search.find()) == 2
    (project / "deep/er/still/.env").unlink()
    assert search.find() == [f"{project}/deep/er/config/database.yml"]


def test_hard_links_to_a_secret_are_secrets_too(tmp_path: Path) -> None:
    project = laid_out(tmp_path.resolve(), {".env": "PASSWORD=hunter2\n", "deep/notes.txt": ""})
    (project / "deep/copy.txt").hardlink_to(project / ".env")
    assert found(project) == {".env", "deep/copy.txt"}


def test_hard_links_that_come_and_go_are_seen_and_other_directories_are_not_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = laid_out(tmp_path.resolve(), {".env": "A=b\n", "deep/notes.txt": "", "other/x": ""})
    monkeypatch.setattr("tools.guarded.secret_search._SETTLED_NS", 0)
    search = SecretSearch(str(project))
    copy = project / "deep/copy.txt"
    assert search.find() == [f"{project}/.env"]
    copy.hardlink_to(project / ".env")
    assert search.find() == [f"{project}/.env", str(copy)]
    listed = list[str]()
    scandir = os.scandir

    def noting(folder: str) -> object:
        listed.append(folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", noting)
    assert search.find() == [f"{project}/.env", str(copy)] and listed == []
    copy.rename(project / "other/copy.txt")
    assert search.find() == [f"{project}/.env", f"{project}/other/copy.txt"]
    (project / "other/copy.txt").unlink()
    assert search.find() == [f"{project}/.env"]


def test_a_pipe_a_link_or_a_loop_holds_nothing_up(tmp_path: Path) -> None:
    project = tmp_path.resolve()
    os.mkfifo(project / "database.yml")
    (project / "loop").symlink_to(".")
    (project / "settings.json").symlink_to("nowhere")
    (project / "prod.env").symlink_to("/etc/hostname")
    assert found(project) == {"prod.env"}


def test_a_busy_machine_hides_no_fewer_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between any two looks at the clock, other programs run for a tenth of a second."""
    project = laid_out(tmp_path.resolve(), {f"part{number}/.env": "" for number in range(30)})
    ticks = count()
    monkeypatch.setattr("time.monotonic", lambda: next(ticks) / 10)
    assert len(found(project, budget_s=1)) == 30


def test_paths_that_match_globs_are_found_wherever_the_walk_has_got(tmp_path: Path) -> None:
    files = ("a/k.pem", "a/b/k.pem", "a/b/c.yml", "n/k.pem", "node_modules/x/k.pem")
    project = laid_out(tmp_path.resolve(), dict.fromkeys(files, ""))
    git(project, "init", "-q")
    git(project, "add", "a")
    search = SecretSearch(str(project))
    some = frozenset({"*.pem", f"{project}/a/*.yml"})

    def matching(budget_s: float, globs: frozenset[str] = some) -> list[str]:
        search.look_for(globs)
        assert search.find(budget_s) == []
        return sorted(os.path.relpath(path, project) for path in search.matching(globs))

    assert matching(-1) == ["a/b/c.yml", "a/b/k.pem", "a/k.pem"], "tracked ones are in the index"
    assert matching(60) == ["a/b/c.yml", "a/b/k.pem", "a/k.pem", "n/k.pem"]
    (project / "a/k.pem").unlink()
    assert matching(60) == ["a/b/c.yml", "a/b/k.pem", "n/k.pem"]
    assert matching(60, frozenset({"n"})) == ["n"]
    above = frozenset({"*/b"})
    assert matching(-1, above) == matching(60, above) == ["a/b"], "a directory of tracked files"
    assert matching(60, frozenset()) == []
    assert matching(-1) == ["a/b/c.yml", "a/b/k.pem", "n/k.pem"], "what another session has found stays"
