"""The server over a real socket: headers, streams, faults, recording, and the real SDK."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from tests.strict_api.faults import KINDS, parse_fault
from tests.strict_api.reply import Reply, calls, says, thinks
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Fault, Server, ServerOptions

HEADERS = {"anthropic-version": "2026-10-21", "authorization": "Bearer x", "content-type": "application/json"}
BODY: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "hi"}],
    "thinking": {"type": "adaptive", "display": "summarized"},
}
REPLY = Reply([thinks("Hm."), says("Grüße, 世界 " * 5), calls("bash", command="ls -la", timeout=5)])


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(lambda body: REPLY, ServerOptions(window=50_000)) as server:
        yield server


def post(server: Server, body: Any = BODY, path: str = "/v1/messages", **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(server.base_url.removeprefix("http://"), timeout=10)
    with contextlib.closing(connection):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, raw, {**HEADERS, **headers})
        response = connection.getresponse()
        return response.status, response.read()


def streamed(server: Server, **more: Any) -> bytes:
    status, raw = post(server, {**BODY, "stream": True, **more})
    assert status == 200
    return raw


def error(raw: bytes) -> tuple[str, str]:
    body = json.loads(raw)
    assert body["type"] == "error"
    return body["error"]["type"], body["error"]["message"]


def test_the_sdk_streams_a_turn_sends_it_back_and_reads_the_models(server: Server) -> None:
    client = [sys.executable, "-m", "tests.strict_api.sdk_client", server.base_url, json.dumps(BODY)]
    done = subprocess.run(client, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert server.refused == [] and len(server.requests) == 3
    assert server.headers[0]["anthropic-version"]


def test_a_credential_and_a_version_are_required(server: Server) -> None:
    assert error(post(server, authorization="")[1])[0] == "authentication_error"
    assert post(server, **{"authorization": "", "x-api-key": "k"})[0] == 200
    assert "anthropic-version" in error(post(server, **{"anthropic-version": ""})[1])[1]
    assert "not a valid version" in error(post(server, **{"anthropic-version": "2025-01-01"})[1])[1]


def test_only_betas_that_exist_may_be_named(server: Server) -> None:
    known = {"anthropic-beta": "thinking-display-updates-2026-08-18"}
    assert post(server, **known)[0] == 200
    assert "`novel-2027`" in error(post(server, **{"anthropic-beta": "novel-2027"})[1])[1]


@pytest.mark.parametrize(
    "raw", [b"{", b'{"a": NaN}', b"\xff", b'{"messages": "\\ud800"}', b"[" * 100_000], ids=range(5)
)
def test_only_strict_json_in_utf8_is_read(server: Server, raw: bytes) -> None:
    status, answer = post(server, raw)
    assert status == 400 and "not valid JSON" in error(answer)[1]
    assert server.refused


@pytest.mark.parametrize("sent", [0, 1, 40])
def test_a_client_that_dies_while_it_sends_has_asked_nothing(server: Server, sent: int) -> None:
    raw = json.dumps(BODY).encode()
    head = [f"{name}: {value}" for name, value in {**HEADERS, "content-length": len(raw)}.items()]
    said = "\r\n".join(["POST /v1/messages HTTP/1.1", "host: x", *head, "", ""]).encode()
    address = urlsplit(server.base_url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as half:
        half.sendall(said + raw[:sent])
        half.shutdown(socket.SHUT_WR)
        assert half.recv(1) == b""
    assert server.refused == [] and server.requests == []


def test_a_pair_of_surrogates_is_fine(server: Server) -> None:
    body = json.dumps({**BODY, "messages": [{"role": "user", "content": "\U0001f600"}]}).encode()
    assert b"\\ud83d" in body and post(server, body)[0] == 200


def test_a_body_over_32_mb_is_too_large(server: Server) -> None:
    status, answer = post(server, b" " * (32 * 1024 * 1024 + 1))
    assert status == 413 and error(answer)[0] == "request_too_large"


def test_what_is_refused_is_recorded_and_the_connection_continues(server: Server) -> None:
    connection = http.client.HTTPConnection(server.base_url.removeprefix("http://"), timeout=10)
    with contextlib.closing(connection):
        for body, status in (({**BODY, "temperature": 1}, 400), (BODY, 200)):
            connection.request("POST", "/v1/messages", json.dumps(body), HEADERS)
            response = connection.getresponse()
            response.read()
            assert response.status == status
    assert server.refused == ["temperature: Extra inputs are not permitted"]


def test_nothing_is_kept_where_that_is_asked() -> None:
    with Server(ScriptedModel(["a"]), ServerOptions(keep_requests=False)) as server:
        assert post(server)[0] == 200
        assert server.requests == [] and server.arrived(1)


def test_a_script_at_its_end_is_an_error_that_the_test_sees() -> None:
    with Server(ScriptedModel(["one"])) as server:
        assert post(server)[0] == 200
        status, answer = post(server)
        assert status == 500 and "asked for one more" in error(answer)[1]
        assert "ScriptExhausted" in server.refused[0]


def test_every_fault_by_name_leaves_a_server_that_answers(server: Server) -> None:
    for kind in sorted(KINDS - {"stall", "pings"}):
        server.faults.add(Fault(kind, at=40, status=503))
        with contextlib.suppress(OSError, http.client.HTTPException):
            post(server, {**BODY, "stream": True})
        server.faults.clear()
        assert post(server)[0] == 200, kind
    assert not server.refused


def test_a_stream_is_cut_cleanly_at_any_byte() -> None:
    with Server(ScriptedModel([], lambda body: Reply([says("Grüße")]))) as server:
        whole = streamed(server)
        for at in range(0, len(whole), 40):
            server.faults.add(Fault("truncate", at=at))
            assert len(streamed(server)) == at


def test_a_stream_in_pieces_is_the_same_stream(server: Server) -> None:
    whole = streamed(server)
    for kind in ("bytewise", "split_utf8"):
        server.faults.add(Fault(kind))
        assert len(streamed(server)) == len(whole)


@pytest.mark.parametrize("at", [None, 0, 100])
def test_a_reset_and_a_drop_break_the_connection(server: Server, at: int | None) -> None:
    server.faults.add(Fault("reset", at=at), Fault("drop", at=at))
    for _ in range(2):
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            post(server, {**BODY, "stream": True})


@pytest.mark.parametrize("at", [None, 0, 100])
def test_a_stall_lasts_until_it_is_released(server: Server, at: int | None) -> None:
    fault = Fault("stall", at=at)
    server.faults.add(fault)
    answers: list[bytes] = []
    thread = threading.Thread(target=lambda: answers.append(streamed(server)))
    thread.start()
    assert server.arrived(1) and not answers
    fault.release.set()
    thread.join(10)
    assert answers[0].endswith(b'{"type":"message_stop"}\n\n')


def test_pings_continue_until_released(server: Server) -> None:
    fault = Fault("pings")
    server.faults.add(fault)
    request = Request(
        f"{server.base_url}/v1/messages", json.dumps({**BODY, "stream": True}).encode(), HEADERS
    )
    with urlopen(request, timeout=30) as answer:
        pings = (line for line in answer if line.startswith(b"event: ping"))
        assert [next(pings) for _ in range(5)]
        fault.release.set()
        assert b"message_stop" in answer.read()


def test_closing_ends_what_is_held() -> None:
    def ask(server: Server) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            post(server, {**BODY, "stream": True})

    with Server(ScriptedModel(["a"])) as server:
        server.faults.add(Fault("stall", at=10))
        thread = threading.Thread(target=ask, args=(server,))
        thread.start()
        server.arrived(1)
    thread.join(10)
    assert not thread.is_alive()


def test_errors_carry_their_status_type_and_headers(server: Server) -> None:
    server.faults.add(parse_fault("429:1:7"), parse_fault("529"), parse_fault("502html"))
    connection = http.client.HTTPConnection(server.base_url.removeprefix("http://"), timeout=10)
    seen = []
    with contextlib.closing(connection):
        for _ in range(3):
            connection.request("POST", "/v1/messages", json.dumps(BODY), HEADERS)
            response = connection.getresponse()
            seen.append((response.status, response.getheader("retry-after"), response.read()[:5]))
    assert seen == [(429, "7", b'{"typ'), (529, None, b'{"typ'), (502, None, b"<html")]


def test_a_gateway_rejects_a_field_only_where_it_stands(server: Server) -> None:
    server.faults.add(Fault("rejects", text="thinking", times=None))
    plain = {name: value for name, value in BODY.items() if name != "thinking"}
    assert post(server, plain)[0] == 200
    assert error(post(server)[1])[1].startswith("thinking: Extra inputs")
    marked = {**plain, "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]}
    server.faults.add(Fault("rejects", text="cache_control"))
    assert "cache_control" in error(post(server, marked)[1])[1]


def test_faults_wait_for_the_request_that_they_are_for(server: Server) -> None:
    server.faults.add(Fault("no_count_tokens"), Fault("no_models"))
    server.faults.add(Fault("status", status=500, when=lambda body: bool(body.get("stream"))))
    assert post(server)[0] == 200
    assert post(server, {**BODY, "stream": True})[0] == 500
    counted = {name: BODY[name] for name in ("model", "messages")}
    assert post(server, counted, "/v1/messages/count_tokens")[0] == 404
    assert post(server, counted, "/v1/messages/count_tokens")[0] == 200


def test_a_lone_surrogate_comes_as_a_json_escape(server: Server) -> None:
    server.faults.add(Fault("lone_surrogate"))
    assert b"\\ud83d" in streamed(server)


def test_an_unknown_fault_is_named() -> None:
    with pytest.raises(ValueError, match="no fault 'nonsense'"):
        Fault("nonsense")


def test_it_runs_as_a_process_and_ends_with_its_input_or_a_signal() -> None:
    for ending in ("input", "signal"):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.strict_api", "--window", "60000", "--fault", "529:1"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin and process.stdout
        with process:
            assert process.stdout.readline().startswith("http://127.0.0.1:")
            if ending == "input":
                process.stdin.close()
            else:
                os.kill(process.pid, signal.SIGTERM)
            assert process.wait(10) == 0


def test_only_the_standard_library_is_imported() -> None:
    code = "import sys, tests.strict_api.server, tests.strict_api.scripted_model; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = {name.split(".")[0] for name in done.stdout.split()}
    assert not names & {"anthropic", "pydantic", "tiktoken", "tools", "compact", "transcripts", "asyncio"}
