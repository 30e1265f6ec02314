"""Claude through Bedrock, Vertex and Foundry: what each needs, and that nothing goes anywhere else."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import struct
import subprocess
import sys
import zlib
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from agent.errors import AuthenticationError
from agent.model.anthropic.catalog import facts_from_catalog
from agent.model.anthropic.client import lacks_credentials
from agent.model.anthropic.clouds import OLD_BEDROCK_VERSION, Cloud, cloud_body, cloud_of, listed_name
from tests.strict_api.reply import Reply, says
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server
from tests.tables import each_row

from .raw_server import raw

ROOT = Path(__file__).resolve().parents[3]

RUN_DEADLINE_S = 60
FOUNDRY = {"CLAUDE_CODE_USE_FOUNDRY": "1", "ANTHROPIC_FOUNDRY_API_KEY": "azure-key-12345"}
BEDROCK = {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-west-1"}
VERTEX = {"CLAUDE_CODE_USE_VERTEX": "1", "CLOUD_ML_REGION": "us-east5", "ANTHROPIC_VERTEX_PROJECT_ID": "p"}


@each_row(
    ("environ", "words"),
    [
        ({"CLAUDE_CODE_USE_BEDROCK": "1"}, "AWS_REGION"),
        ({"CLAUDE_CODE_USE_VERTEX": "1", "ANTHROPIC_VERTEX_PROJECT_ID": "p"}, "CLOUD_ML_REGION"),
        ({"CLAUDE_CODE_USE_VERTEX": "1", "CLOUD_ML_REGION": "global"}, "ANTHROPIC_VERTEX_PROJECT_ID"),
        ({"CLAUDE_CODE_USE_FOUNDRY": "1", "ANTHROPIC_FOUNDRY_RESOURCE": "r"}, "ANTHROPIC_FOUNDRY_API_KEY"),
        (FOUNDRY, "ANTHROPIC_FOUNDRY_RESOURCE"),
        ({**FOUNDRY, "ANTHROPIC_FOUNDRY_RESOURCE": "r", "ANTHROPIC_FOUNDRY_BASE_URL": "u"}, "set either"),
        ({**FOUNDRY, **BEDROCK}, "set only one"),
        ({"CLAUDE_CODE_USE_MANTLE": "1"}, "MANTLE is not supported"),
        ({"CLAUDE_CODE_USE_ANTHROPIC_AWS": "1"}, "ANTHROPIC_AWS is not supported"),
        ({"CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD": "1"}, "is not supported"),
        ({"CLAUDE_CODE_USE_GATEWAY": "1"}, "GATEWAY is not supported"),
    ],
)
def test_a_cloud_that_lacks_something_is_refused_naming_it(environ: dict[str, str], words: str) -> None:
    with pytest.raises(AuthenticationError, match=words) as raised:
        cloud_of(environ)
    assert raised.value.code == 5


@pytest.mark.parametrize(("environ", "library"), [(BEDROCK, "boto3"), (VERTEX, "google-auth")])
def test_a_missing_extra_is_named(environ: dict[str, str], library: str) -> None:
    name = "bedrock" if library == "boto3" else "vertex"
    if library_is_there("google.auth" if name == "vertex" else library):
        found = cloud_of(environ)
        assert found is not None and found.name == name
        return
    with pytest.raises(
        AuthenticationError, match=rf"^{name.capitalize()} needs {library}.*makeroom\[{name}\]"
    ):
        cloud_of(environ)


def test_bedrock_is_given_a_region_and_either_a_profile_or_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "boto3.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    profile = {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_PROFILE": "work"}
    token = {"AWS_BEARER_TOKEN_BEDROCK": "bedrock-token-12345"}
    found = [cloud_of(environ) for environ in (profile, BEDROCK | profile, BEDROCK | profile | token)]
    assert [dict(cloud.arguments) for cloud in found if cloud is not None] == [
        {"aws_profile": "work"},
        {"aws_region": "eu-west-1", "aws_profile": "work"},
        {"aws_region": "eu-west-1"},
    ]


# In a process of its own: where the SDK was imported without its clouds, the class is a stand-in.
RAISED_BY_THE_SDK = """
from anthropic.lib.vertex._client import BaseVertexClient

from agent.model.anthropic.client import lacks_credentials

try:
    BaseVertexClient.__new__(BaseVertexClient).region
except RuntimeError as error:
    print(lacks_credentials(error))
"""


@pytest.mark.sweep  # importing all of the SDK takes two seconds
def test_a_runtime_error_is_about_credentials_when_the_sdk_raised_it() -> None:
    command = [sys.executable, "-c", RAISED_BY_THE_SDK]
    assert subprocess.check_output(command, cwd=ROOT, text=True) == "True\n"


def test_a_runtime_error_of_ours_is_not_about_credentials() -> None:
    with pytest.raises(RuntimeError) as of_ours:
        raise RuntimeError
    assert not lacks_credentials(of_ours.value)


def library_is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_switches_that_are_off_ask_for_no_cloud() -> None:
    assert cloud_of({"CLAUDE_CODE_USE_BEDROCK": "0", "CLAUDE_CODE_USE_GATEWAY": "false", "PATH": "x"}) is None


@each_row(
    "id",
    [
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "claude-sonnet-4-5@20250929",
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ],
)
def test_models_are_known_however_a_cloud_writes_them(id: str) -> None:
    assert listed_name(id) == "claude-sonnet-4-5"
    facts = facts_from_catalog(id, official=True)
    assert (facts.id, facts.max_output, facts.known) == (id, 64_000, True)
    assert listed_name("us.anthropic.claude-sonnet-5-5") == "claude-sonnet-5-5"
    assert listed_name("my-deployment") == "my-deployment"


def test_older_models_on_bedrock_get_the_version_that_they_know() -> None:
    bedrock = Cloud("bedrock", "AsyncAnthropicBedrock")
    for model, version in (
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", OLD_BEDROCK_VERSION),
        ("us.anthropic.claude-opus-4-6", OLD_BEDROCK_VERSION),
        ("anthropic.claude-3-5-sonnet-20241022-v2:0", OLD_BEDROCK_VERSION),
        ("us.anthropic.claude-opus-4-7", None),
        ("us.anthropic.claude-sonnet-5-5", None),
    ):
        body = json.dumps({"model": model}).encode()
        assert cloud_body(bedrock, body).get("anthropic_version") == version
        assert "anthropic_version" not in cloud_body(Cloud("vertex", ""), body)


def run(project: Path, *argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own, as the SDK is loaded whole there."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "agent", "-p", "hello", "--no-session", "-C", str(project), *argv],
        cwd=Path(__file__).resolve().parents[3],
        env={**kept, "HOME": str(project), **environ},
        capture_output=True,
        text=True,
        timeout=RUN_DEADLINE_S,
        check=False,
    )


def test_foundry_answers_a_prompt_and_nothing_goes_to_the_other_url(tmp_path: Path) -> None:
    def trap(connection: socket.socket) -> None:
        raise AssertionError("a request fell through")

    with Server(ScriptedModel([Reply([says("Hello from the cloud.")])])) as server, raw(trap) as other:
        environ = {**FOUNDRY, "ANTHROPIC_FOUNDRY_BASE_URL": server.base_url, "ANTHROPIC_BASE_URL": other}
        done = run(tmp_path, "--model", "claude-sonnet-5-5", **environ, ANTHROPIC_API_KEY="sk-ant-other-1234")
        assert (done.returncode, done.stdout.strip()) == (0, "Hello from the cloud."), done.stderr
        assert server.refused == [] and len(server.requests) == 1
        assert "azure-key-12345" in str(server.headers[0]) and "sk-ant-other" not in str(server.headers[0])


def test_the_program_ends_with_what_a_cloud_lacks(tmp_path: Path) -> None:
    done = run(tmp_path, CLAUDE_CODE_USE_FOUNDRY="1", ANTHROPIC_API_KEY="sk-ant-other-1234")
    assert done.returncode == 5 and "ANTHROPIC_FOUNDRY_API_KEY" in done.stderr


def frame(event: dict[str, Any]) -> bytes:
    """An event of a message as Bedrock frames it: two lengths, headers, a payload, and their checksums."""
    kinds = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    headers = b""
    for name, value in kinds.items():
        size = struct.pack(">H", len(value))
        headers += bytes([len(name)]) + name.encode() + b"\x07" + size + value.encode()
    payload = json.dumps({"bytes": b64encode(json.dumps(event).encode()).decode()}).encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    whole = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return whole + struct.pack(">I", zlib.crc32(whole))


@pytest.mark.skipif(not library_is_there("boto3"), reason="the extra bedrock is not installed")
def test_bedrock_answers_a_prompt_in_frames_of_its_own(tmp_path: Path) -> None:
    sent: list[bytes] = []
    events = (
        {"type": "message_start", "message": {"model": "claude", "usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "Hello, AWS."},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    )
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\nconnection: close\r\n\r\n"

    def answer(connection: socket.socket, body: bytes) -> None:
        sent.append(body)
        connection.sendall(head + b"".join(frame(event) for event in events))

    with raw(answer) as url:
        token = {"AWS_BEARER_TOKEN_BEDROCK": "bedrock-token-12345", "ANTHROPIC_BEDROCK_BASE_URL": url}
        done = run(tmp_path, "--model", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", **BEDROCK, **token)
    assert (done.returncode, done.stdout.strip()) == (0, "Hello, AWS."), done.stderr
    assert json.loads(sent[0])["anthropic_version"] == OLD_BEDROCK_VERSION
