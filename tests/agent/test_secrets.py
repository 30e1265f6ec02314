"""Own credentials are in no file that we write; exports and logs show no secret of known shape or name."""

import json
import logging
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.app.config import Config, load_config
from agent.cli.arguments import parse
from agent.cli.launch import MaskedFormatter, begin_debug_log, run
from agent.cli.sessions_command import run_sessions
from agent.errors import UsageError
from agent.model_port import IncomingReply as Reply
from agent.session.session import Session
from agent.ui.prompt_history import PromptHistory
from agent.ui.unsent_input import UnsentInput
from compact.tokens import TokenCounter
from tests.agent.loop.world import Memory, TestClock
from tests.agent.ui.headless_run import ROOT, credentials
from tests.narrowing import narrow
from tests.secret_samples import SECRETS, WITHHELD
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.reply import calls
from tests.strict_api.scripted_model import ScriptedModel, Step
from tests.strict_api.server import Server
from tests.tables import each_row
from transcripts import Display, facts
from transcripts.export import EXPORTERS, export_pieces
from transcripts.folding import Folded
from transcripts.load import read_transcript
from transcripts.messages import TextBlock, ThinkingBlock, ToolUseBlock, UnknownBlock
from transcripts.secrets.masking import SecretMasks
from transcripts.secrets.secret_forms import secret_values
from transcripts.store import Store

# Put together here so that no scanner takes this file for a leak.
KEY = "sk-" + "ant-api03-" + "Ab1_" * 10
CLOUD = "AKIA" + "ABCDEFGHIJ234567"
OWN = (KEY, "hunter2-secret", "header-secret-1")
NAMED = "hush-hush-value"
# Prints each line in two pieces: no mask may depend on where an output is cut.
IN_HALVES = """while read -r c; do printf %s "${c:0:9}"; printf '%s\\n' "${c:9}"; done <f.txt"""
PASSED = SECRETS["DEPLOY_PAT"][0]


SHOWN_NOWHERE = (*OWN, NAMED, *(secret for _, secret in SECRETS.values()))


def project(folder: Path) -> tuple[Path, dict[str, str]]:
    """A project with secrets in a file, and the environment to work in it, with secrets of every kind."""
    work = folder / "work"
    work.mkdir()
    (work / "f.txt").write_text("\n".join([*SHOWN_NOWHERE, ""]))
    (work / "long.txt").write_text("\n".join([*SHOWN_NOWHERE, *map(str, range(4000))]))
    settings = folder / "home" / ".config" / "makeroom" / "settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        'pass_env = ["DEPLOY_PAT"]\n[hooks]\npost_tool = "env >>hooked"\n[compact]\nbudget_chars = 20000\n'
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")}
    own = {"HOME": str(folder / "home"), "ANTHROPIC_API_KEY": KEY, "MY_TOKEN": NAMED, "PYTHONPATH": str(ROOT)}
    given = {name: value for name, (value, _) in SECRETS.items() if name != "ANTHROPIC_API_KEY"}
    return work, {**kept, **given, **own, "ANTHROPIC_CUSTOM_HEADERS": "X-Auth-Token: Bearer header-secret-1"}


def test_no_secret_of_the_environment_is_in_any_file_or_on_any_screen_wherever_it_turns_up(
    tmp_path: Path,
) -> None:
    work, environ = project(tmp_path)
    (work / "AGENTS.md").write_text(f"The key is {KEY}.")
    steps: list[Step] = [
        Answer([calls("read", file_path="f.txt"), calls("bash", command="env; cat /proc/*/environ")]),
        Answer([calls("bash", command="cat f.txt; seq 30000; cat f.txt")]),
        Answer([calls("bash", command=f"echo {KEY} >&2; false")]),
        Answer([calls("bash", command=IN_HALVES)]),
        Answer([calls("bash", command="env; cat f.txt", run_in_background=True)]),
        Answer([calls("read", file_path="long.txt"), calls("read", file_path="long.txt", offset=2)]),
        Answer([calls(f"no-{KEY[:20]}-tool", x=KEY)]),
        Answer([calls("read", file_path=KEY, **{KEY: 1})]),
        f"done, {KEY}",
    ]
    argv = ["-p", f"go {KEY}", "--allowedTools", "bash", "--debug-file", str(work / "log")]
    with Server(ScriptedModel(steps)) as server:
        environ["ANTHROPIC_BASE_URL"] = server.base_url.replace("://", "://me:hunter2-secret@")
        done = subprocess.run(
            [sys.executable, "-m", "agent", *argv],
            cwd=work,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        results = [str(said) for said in tool_results(server.requests[-1]["messages"])][1:6]  # of bash
    for secret in SHOWN_NOWHERE:
        assert secret not in done.stdout + done.stderr
        assert [result for result in results if secret in result] == []
    assert "DEPLOY_PAT=****" in results[0] and "SENTRY_DSN" not in results[0]
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    encoded = [(secret.encode(), json.dumps(secret)[1:-1].encode()) for secret in SHOWN_NOWHERE]
    holds = {path.name for path, data in files.items() if any(a in data or b in data for a, b in encoded)}
    assert holds == {"f.txt", "long.txt", "AGENTS.md", "hooked"}
    assert not any(secret in files[work / "hooked"].decode() for secret in SHOWN_NOWHERE if secret != PASSED)
    assert len([path for path in files if path.parent.name == "tool-results"]) > 2
    log = files[work / "log"].decode()
    assert "Request options" in log and "HTTP Request" in log
    assert not re.search("authorization.{0,9}(Bearer|Basic)", log, re.I)
    assert stat.S_IMODE((work / "log").stat().st_mode) == 0o600


def test_what_is_run_and_written_is_never_masked_and_what_is_recorded_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("lmstudio", "t0ken-9f8e", "kept"):
        (tmp_path / "cache" / name).mkdir(parents=True)
    text = "backend = lmstudio\ntoken = t0ken-9f8e\n"
    steps: list[Step] = [
        Answer([calls("bash", command="rm -rf cache/lmstudio cache/t0ken-9f8e")]),
        Answer([calls("write", file_path="a.toml", content=text)]),
        "done",
    ]
    monkeypatch.chdir(tmp_path)
    with Server(ScriptedModel(steps)) as server:
        environ = {"ANTHROPIC_AUTH_TOKEN": "lmstudio", "MY_TOKEN": "t0ken-9f8e"}
        for name, value in (credentials(tmp_path, server) | environ).items():
            monkeypatch.setenv(name, value)
        assert run(parse(["-p", "go", "--allowedTools", "bash", "write"])) == 0
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["kept"]
    assert (tmp_path / "a.toml").read_text() == text
    (record,) = (tmp_path / ".transcripts").glob("*.jsonl")
    assert "rm -rf cache/lmstudio cache/****" in record.read_text()
    assert read_transcript(record).damaged == ()


@each_row(("name", "value"), WITHHELD)
def test_a_record_is_whole_whatever_stands_for_a_credential(tmp_path: Path, name: str, value: str) -> None:
    store = Store.create(tmp_path, "20261121-093012-aaaa", pytest.fail)
    own = load_config({name: value}, tmp_path, tmp_path).secrets
    store.hide(SecretMasks((*own, *secret_values({name: value}))))
    session = Session("s", store, Folded(), TokenCounter.load(), TestClock().now)
    session.user((TextBlock(value),))
    session.compacted("summary", "auto", (), {"reason": value})
    assert read_transcript(store.path).facts == session.folded.facts
    session.close()


def test_an_error_at_the_start_shows_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "ftp://me:hunter2-secret@example.org")
    assert run(parse(["-p", "go"])) == 6
    told = capsys.readouterr().err
    assert "ANTHROPIC_BASE_URL" in told and "hunter2" not in told


def tool_results(messages: list[dict[str, Any]]) -> Iterator[Any]:
    """Yield the results that the model was sent, in order."""
    for message in messages:
        yield from (block["content"] for block in message["content"] if block["type"] == "tool_result")


def test_every_kind_of_fact_is_recorded_without_own_credentials_and_stays_unchanged(tmp_path: Path) -> None:
    store = Store.create(tmp_path, "20261121-093012-aaaa", pytest.fail)
    store.hide(SecretMasks((KEY,)))
    session = Session("s", store, Folded(), TokenCounter.load(), TestClock().now)
    session.open((f"system {KEY}",), (), model=KEY, window=1, folder="/w")
    session.user((TextBlock(f"a {KEY}", {"citations": [KEY]}), UnknownBlock({"type": "new", "data": [KEY]})))
    reply = Reply(
        blocks=[ToolUseBlock("t", f"no {KEY}", {KEY: KEY, "x": [{"y": KEY}]})], complete=True, stop="tool_use"
    )
    of = session.reply(reply, 1).seq
    session.result(of, 0, (TextBlock(KEY),), human=Display(text=KEY, diff=f"+{KEY}"), about={"path": KEY})
    session.add_metadata("pin", {"text": KEY})
    session.failed("summary", f"no: {KEY}", {"said": KEY})
    session.compacted("summary", "auto", (), {"reason": KEY})
    assert all(KEY in str(fact) for fact in session.folded.facts)
    session.close()
    lines = store.path.read_bytes().splitlines()
    assert len(lines) == 9
    for line in lines:
        assert KEY.encode() not in line and (b"****" in line or b'"closed"' in line), line
    assert read_transcript(store.path).damaged == ()


def test_thinking_is_recorded_unchanged_because_its_signature_covers_it(tmp_path: Path) -> None:
    store = Store.create(tmp_path, "20261121-093012-aaaa", pytest.fail)
    store.hide(SecretMasks((KEY,)))
    session = Session("s", store, Folded(), TokenCounter.load(), TestClock().now)
    thinking = ThinkingBlock(f"the key is {KEY}", "signed")
    session.user((TextBlock("hi"),))
    session.reply(Reply(blocks=[thinking, TextBlock(KEY)], complete=True, stop="end_turn"), 1)
    session.close()
    reply = read_transcript(store.path).facts[1]
    assert narrow(reply, facts.Reply).blocks == (thinking, TextBlock("****"))


@each_row("suffix", EXPORTERS)
def test_an_export_shows_neither_known_shapes_nor_what_secret_variables_hold(suffix: str) -> None:
    session = Session("s", Memory(), Folded(), TokenCounter.load(), TestClock().now)
    session.open((NAMED,), (), model="m", window=1, folder="/w")
    session.user((TextBlock(f"{NAMED} & {CLOUD} <{KEY}>"),))
    reply = Reply(
        blocks=[ToolUseBlock("t", "bash", {"command": f"echo {NAMED}'\"&<"})], complete=True, stop="tool_use"
    )
    of = session.reply(reply, 1).seq
    # At the place where long outputs are cut, a half of a secret must not be left over.
    long = "x" * 9_995 + f" {NAMED} " + "y" * 9_995 + f" {CLOUD}"
    session.result(of, 0, (TextBlock(long),), human=Display(diff=f"@@ -1 +1 @@\n-{NAMED}\n+{CLOUD}"))
    odd = 'pa"ss\\w&<rd'
    session.user((TextBlock(f"and {odd}"),))
    text = "".join(export_pieces(session.folded, "s", suffix, masks=SecretMasks((NAMED, odd))))
    for secret in (NAMED, CLOUD, KEY, NAMED[:6], CLOUD[:9], "pa&quot;ss", 'pa\\"ss', odd):
        assert secret not in text, secret
    assert text.count("****") >= 4 and "AWS key id masked" in text


def test_the_sessions_command_shows_no_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from transcripts.store import Store

    monkeypatch.setenv("MY_TOKEN", NAMED)
    session = Session(
        "s1", Store.create(tmp_path, "s1", print), Folded(), TokenCounter.load(), TestClock().now
    )
    session.open((), (), model="m", window=1, folder=str(tmp_path))
    session.user((TextBlock(f"words {NAMED} and {CLOUD}"),))
    session.close()
    for argv in (
        ["list"],
        ["show", "s1"],
        ["search", "words"],
        ["export", "s1", "-"],
        ["export", "s1", "-", "--format", "claude-code"],
        ["export", "s1", "a.html"],
    ):
        assert run_sessions(argv, tmp_path) == 0
        told = capsys.readouterr().out
        assert NAMED not in told and CLOUD not in told
        assert argv[-1] == "a.html" or "****" in told
    assert NAMED not in (tmp_path / "a.html").read_text()


def test_the_history_and_the_draft_are_kept_without_own_credentials(tmp_path: Path) -> None:
    PromptHistory(tmp_path / "history", SecretMasks((KEY,)).text).store_string(f"use {KEY}")
    draft = UnsentInput(tmp_path, Path("/a"), SecretMasks((KEY,)).text)
    draft.save(f"and {KEY}")
    kept = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(kept) == 2 and all(KEY not in text and "****" in text for text in kept)


def test_the_credentials_that_are_hidden_are_keys_passwords_of_addresses_and_signing_headers(
    tmp_path: Path,
) -> None:
    def secrets(**environ: str) -> set[str]:
        config: Config = load_config(environ, tmp_path, tmp_path)
        return set(config.secrets)

    assert secrets(ANTHROPIC_API_KEY=KEY, ANTHROPIC_AUTH_TOKEN="t0ken-t0ken") == {KEY, "t0ken-t0ken"}
    assert secrets(ANTHROPIC_BASE_URL="https://me:p%40ssw0rd@h") == {"p%40ssw0rd", "p@ssw0rd"}
    headers = "Authorization: Bearer header-secret\nX-Team: platform-team\nCookie: a=b; session=c"
    assert secrets(ANTHROPIC_CUSTOM_HEADERS=headers) >= {"Bearer header-secret", "header-secret"}
    assert "platform-team" not in secrets(ANTHROPIC_CUSTOM_HEADERS=headers)


def test_a_traceback_in_the_debug_log_is_masked_too(tmp_path: Path) -> None:
    masked = MaskedFormatter(SecretMasks((KEY,)))
    try:
        raise ValueError(f"it was {KEY} and {CLOUD}")
    except ValueError:
        record = logging.LogRecord("a", 10, "f", 1, "said %s", (KEY,), sys.exc_info())
    line = masked.format(record)
    assert KEY not in line and CLOUD not in line and "said ****" in line and "ValueError" in line


def test_a_debug_log_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"debug log .*nowhere"):
        begin_debug_log(str(tmp_path / "nowhere" / "log"), SecretMasks())
