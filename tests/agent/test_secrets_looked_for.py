"""A model that looks for secrets wherever they are: one run of the whole program, and none gets anywhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from agent.cli.sessions_command import run_sessions
from tests.agent.ui.headless_run import run_headless
from tests.secret_samples import SECRETS
from tests.strict_api.reply import Reply, calls
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server
from transcripts.export import EXPORTERS

# Put together here so that no scanner takes this file for a leak.
IN_HEADER, IN_ADDRESS = "hdr-" + "9f8e7d6c5b", "proxy-" + "pa55w0rd"
# file of the home or the project -> (what is in it, the secret there)
FILES = {
    "home/.ssh/id_rsa": ("-----BEGIN " + "RSA PRIVATE KEY-----\n{}\n", "MIIEow8z"),
    "home/.aws/credentials": ("[default]\naws_secret_access_key = {}\n", "aws/" + "0a1b2c3d4e5f6a7b"),
    "home/.netrc": ("machine example.org login me password {}\n", "net-" + "4f5e6d7c"),
    "home/.git-credentials": ("https://me:{}@example.org\n", "git-" + "8a7b6c5d"),
    "home/.config/gh/hosts.yml": ("oauth_token: {}\n", "gh-" + "1a2b3c4d5e6f"),
    "home/.config/makeroom/settings.toml": ('base_url = "http://me:{}@localhost:1"\n', "own-" + "pa55w0rd-2"),
    "work/.env": ("STRIPE={}\n", "env-" + "7a8b9c0d1e2f"),
    "work/.env.local": ("DB=postgres://app:{}@db/app\n", "env-" + "2f1e0d9c8b7a"),
}
LOOKS = [
    "env; printenv; export -p; declare -p; set; compgen -v",
    "cat /proc/self/environ /proc/$PPID/environ /proc/1/environ | tr '\\0' '\\n'; cat /proc/*/environ",
    "ps eww; ps auxeww; strings /proc/*/environ; cat /proc/*/cmdline",
    "python3 -c 'import os; print(dict(os.environ))'; bash -lc env; sh -c env; env -0 | tr '\\0' ' '",
    "git config -l --show-origin; git credential fill </dev/null; git var -l",
    "cat .env .env.* ~/.ssh/* ~/.aws/* ~/.netrc ~/.git-credentials ~/.config/*/*",
    "grep -rsn . .env ~/.ssh ~/.aws ~/.config; find ~ . -type f -exec cat {} + 2>/dev/null",
    "tar cf - -C / proc/self/environ | strings; dd if=.env; xxd ~/.netrc; base64 .env | base64 -d",
    'printf \'%s\\n\' "$ANTHROPIC_API_KEY" "$GITHUB_TOKEN" "${!AWS_@}" "${SERVICE_J-no service}"',
    "cat .transcripts/* .task_outputs/*/* 2>/dev/null; ls -la ~ .",
]
READS = [".env", ".env.local", "/proc/self/environ", "/proc/1/environ", "~/.netrc", "~/.ssh/id_rsa", "log"]
READS += ["~/.aws/credentials", "~/.config/makeroom/settings.toml", "~/.config/gh/hosts.yml"]
STEPS = [
    *(Reply([calls("bash", command=line)]) for line in LOOKS),
    Reply([calls("read", file_path=name) for name in READS]),
    Reply([calls("bash", command=f"{LOOKS[0]}; sleep 0", run_in_background=True)]),
]


def made(folder: Path) -> Path:
    """A project and a home with the files; returns the project."""
    for name, (text, secret) in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.format(secret))
    return folder / "work"


def forms(secret: str) -> set[str]:
    """Return the secret as it appears in text, in JSON, and in HTML."""
    html = secret.replace("&", "&amp;").replace("<", "&lt;")
    return {secret, json.dumps(secret)[1:-1], html}


def leaks(text: str, secrets: list[str]) -> list[str]:
    return [secret for secret in secrets if any(form in text for form in forms(secret))]


def test_none_of_many_secrets_reaches_the_model_a_record_an_export_a_log_or_a_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = made(tmp_path)
    environ = {name: value for name, (value, _) in SECRETS.items()}
    secrets = [IN_HEADER, IN_ADDRESS, *(secret for _, secret in SECRETS.values())]
    with Server(ScriptedModel([*STEPS, "done"])) as server:
        environ |= {
            "HOME": str(tmp_path / "home"),
            "XDG_CONFIG_HOME": "",
            "ANTHROPIC_BASE_URL": server.base_url.replace("://", f"://me:{IN_ADDRESS}@"),
            "ANTHROPIC_CUSTOM_HEADERS": f"X-Gateway-Token: {IN_HEADER}",
        }
        argv = ["look", "--allowedTools", "bash", "read", "--debug-file", "log"]
        ended = run_headless(work, None, *argv, "--output-format", "stream-json", environ=environ)
        sent = [json.dumps(body, ensure_ascii=False) for body in server.requests]
        assert ended.returncode in (0, 4) and list(server.refused) == []
    if "cat: .env: Permission denied" in sent[-1]:  # elsewhere commands may read what the user may
        secrets += [secret for _, secret in FILES.values()]
    assert len(secrets) >= 35 and len(sent) == len(STEPS) + 1
    everything = "".join(sent)  # older results may be cleared in the last request
    assert "HOME=" in everything and 'no service"' in everything
    results = set(re.findall(r'"type": "tool_result", "tool_use_id": "(\w+)"', everything))
    assert len(results) == len(LOOKS) + len(READS) + 1
    assert leaks(everything, secrets) == []
    assert leaks(ended.stdout + ended.stderr, secrets) == []
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(work)
    (record,) = (work / ".transcripts").glob("*.jsonl")
    for suffix in EXPORTERS:
        assert run_sessions(["export", record.stem, f"out{suffix}"], work) == 0
    for argv in (["show", record.stem], ["export", record.stem, "-"], ["list"], ["search", "KEY"]):
        assert run_sessions(argv, work) == 0
    assert leaks(capsys.readouterr().out, secrets) == []
    planted = {tmp_path / name for name in FILES}
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path not in planted]
    assert {"log", record.name, *(f"out{suffix}" for suffix in EXPORTERS)} <= {path.name for path in files}
    found = {path.name: leaks(path.read_text(errors="replace"), secrets) for path in files}
    assert {name: held for name, held in found.items() if held} == {}
