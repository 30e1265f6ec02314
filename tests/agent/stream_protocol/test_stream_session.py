"""Lines in, lines out, without an SDK: what a client may send at any time, and how a session ends."""

from __future__ import annotations

import base64
import io
import json
import os
import random
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from PIL import Image

from agent.stream_protocol.client_channel import read_lines
from tests.agent.model.chat_server import MODEL, ChatServer
from tests.agent.ui.headless_run import RUN_DEADLINE_S, environment, start_makeroom
from tests.strict_api.reply import Reply, calls
from tests.strict_api.scripted_model import ScriptedModel, Step
from tests.strict_api.server import Server
from tests.tables import each_row

FLAGS = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json")


class Process:
    """The program under a client of our own."""

    def __init__(self, folder: Path, server: Server | None, *flags: str, **environ: str) -> None:
        self._process = start_makeroom(
            folder,
            environment(folder, server, **environ),
            *FLAGS,
            *flags,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self.stdin, self._stdout = self._process.stdin, self._process.stdout

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *failure: object) -> None:
        self._process.kill()
        self._process.__exit__(None, None, None)

    def close_input(self) -> None:
        self.stdin.close()
        self._process.stdin = None  # or it would be flushed again

    def send(self, *frames: dict[str, Any] | str) -> None:
        for frame in frames:
            self.stdin.write(frame if isinstance(frame, str) else json.dumps(frame))
            self.stdin.write("\n")
        self.stdin.flush()

    def until(self, kind: str) -> dict[str, Any]:
        """The next line of that type; those before it are passed over."""
        return next(line for line in self.lines() if line["type"] == kind)

    def lines(self) -> Iterator[dict[str, Any]]:
        for line in self._stdout:
            assert len(line) <= 1024 * 1024
            yield json.loads(line)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def ends(self) -> tuple[int, list[dict[str, Any]], str]:
        """Exit code, the lines that were left, standard error."""
        out, err = self._process.communicate(timeout=RUN_DEADLINE_S)
        return self._process.returncode, [json.loads(line) for line in out.splitlines()], err


def prompt(*content: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": list(content)}}


def words(text: str) -> dict[str, Any]:
    return prompt({"type": "text", "text": text})


def control(ident: str, subtype: str, **more: Any) -> dict[str, Any]:
    return {"type": "control_request", "request_id": ident, "request": {"subtype": subtype, **more}}


def large_image() -> str:
    """A PNG of more than 9 MB, which is 12 MB in base64."""
    made = Image.frombytes("RGB", (1800, 1800), random.Random(1).randbytes(1800 * 1800 * 3))
    out = io.BytesIO()
    made.save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


def test_nothing_that_a_client_sends_ends_a_session_but_a_signal_does(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "started")
    sleeping = calls("bash", command="echo > started; sleep 1000")
    steps: list[Step] = [
        "seen",
        Reply([calls("bash", command="seq 100000; seq 100000")]),
        "much",
        Reply([sleeping]),
    ]
    with Server(ScriptedModel(steps)) as server, ExitStack() as stack:
        flags = ("--permission-mode", "bypassPermissions", "--replay-user-messages")
        process = Process(tmp_path, server, *flags, CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS="1")
        client = stack.enter_context(process)
        client.send(
            "{",
            control("1", "initialize", hooks=None, sdkMcpServers=5),
            control("2", "teleport"),
            {"type": "keep_alive"},
        )
        answers = [client.until("control_response")["response"] for _ in range(2)]
        assert [(each["request_id"], each["subtype"]) for each in answers] == [
            ("1", "success"),
            ("2", "error"),
        ]
        source = {"type": "base64", "media_type": "image/png", "data": large_image()}
        broken = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
        client.send(prompt({"type": "image", "source": source}, {"type": "image", "source": broken}))
        told = []
        for line in client.lines():
            told.append((line["type"], line.get("subtype") or line.get("isReplay")))
            if told[-1] == ("system", "session_state_changed") and line["state"] == "idle":
                break
        assert told == [
            ("system", "session_state_changed"), ("system", "init"), ("user", True), ("assistant", None),
            ("result", "success"), ("system", "session_state_changed"),
        ]  # fmt: skip
        image, note = server.requests[0]["messages"][-1]["content"][-2:]
        assert image["type"] == "image" and len(image["source"]["data"]) < 6_000_000
        assert "image omitted" in note["text"]
        client.send(words("much"))
        assert client.until("result")["result"] == "much"
        started = os.open(tmp_path / "started", os.O_RDONLY | os.O_NONBLOCK)
        ident = "8b1f2c1e-0d0f-4a2b-9a53-1c1f6c1c7a01"
        client.send({**words("sleep"), "uuid": ident}, words("never begun"))
        assert select.select([started], [], [], RUN_DEADLINE_S)[0]
        client.send(control("3", "rewind_files", user_message_id=ident, dry_run=True))
        assert client.until("control_response")["response"]["response"]["canRewind"]  # before its turn ends
        client.signal(signal.SIGTERM)
        code, left, err = client.ends()
    os.close(started)
    assert (code, left[-1]["subtype"], left[-1]["is_error"]) == (143, "error_during_execution", True)
    assert "not valid JSON" in err


def test_an_interruption_right_behind_a_prompt_stops_its_turn_and_no_other(tmp_path: Path) -> None:
    """Also where the session has not begun; one that stands before a prompt stops nothing."""
    with Server(ScriptedModel(["two", "four", "four"])) as server, Process(tmp_path, server) as client:
        client.send(control("1", "interrupt"), words("two"), control("2", "get_context_usage"))
        assert client.until("result")["result"] == "two"
        client.send(words("three"), control("3", "interrupt"), words("four"))
        client.close_input()
        code, lines, _ = client.ends()
    results = [line for line in lines if line["type"] == "result"]
    assert [line["subtype"] for line in results] == ["error_during_execution", "success"]
    assert (code, results[1]["result"]) == (0, "four")
    with Server(ScriptedModel(["two", "two"])) as server, Process(tmp_path, server) as client:
        client.send(words("one"), control("1", "interrupt"), words("two"))
        client.close_input()
        code, lines, _ = client.ends()
    results = [line for line in lines if line["type"] == "result"]
    assert [line["subtype"] for line in results] == ["error_during_execution", "success"]
    answers = [line["response"] for line in lines if line["type"] == "control_response"]
    assert len(answers) == 1 and answers[0]["subtype"] == "success"


def test_an_interruption_stops_the_prompt_before_it_however_soon_that_comes_after_a_result(
    tmp_path: Path,
) -> None:
    """Two of them arrive while a result is reported: the finished turn is not the one to stop.

    On a loaded machine the request of a prompt may be under way when it is stopped.
    """
    with Server(ScriptedModel(["said"] * 13)) as server, Process(tmp_path, server) as client:
        for at in range(12):
            client.send(words(f"prompt {at}"), control(str(at), "interrupt"))
            assert client.until("result")["subtype"] == "error_during_execution", at
        client.send(words("four"))
        client.close_input()
        code, lines, _ = client.ends()
        assert (code, lines[-1]["subtype"], lines[-1]["result"]) == (0, "success", "said")
        assert "four" in json.dumps(server.requests[-1]["messages"][-1])


def test_the_end_of_the_input_is_not_an_interruption(tmp_path: Path) -> None:
    steps: list[Step] = [Reply([calls("bash", command="echo done > made")]), "one", "two"]
    bypassing = ("--permission-mode", "bypassPermissions")
    with Server(ScriptedModel(steps)) as server, Process(tmp_path, server, *bypassing) as client:
        client.send(words("first"), {**words("wait"), "shouldQuery": False}, words("second"))
        client.close_input()
        code, lines, _ = client.ends()
        said = [block["text"] for block in server.requests[-1]["messages"][-1]["content"]]
    results = [line["result"] for line in lines if line["type"] == "result"]
    assert (code, results, (tmp_path / "made").read_text()) == (0, ["one", "two"], "done\n")
    assert said == ["wait", "second"]


@each_row("sizes", [(1,), (3, 5), (1 << 20,)])
def test_lines_are_found_however_they_arrive(sizes: tuple[int, ...]) -> None:
    lines = [b"", b"a", b"x" * 1000, "é\u2028".encode(), b"last"]
    data = b"\n".join(lines)
    reading, writing = os.pipe()
    at = 0
    found = read_lines(reading)
    while at < len(data):
        for size in sizes:
            os.write(writing, data[at : at + size])
            at += size
    os.close(writing)
    assert list(found) == lines
    os.close(reading)


def test_a_model_that_there_is_not_is_refused_at_once(tmp_path: Path) -> None:
    with ChatServer() as server:
        environ = {"MAKEROOM_PROVIDER": "openai", "OPENAI_BASE_URL": f"{server.base_url}/v1"}
        with Process(tmp_path, None, "-m", MODEL, **environ) as client:
            client.send(control("1", "set_model", model="unheard-of"), control("2", "set_model", model=MODEL))
            answers = [client.until("control_response")["response"] for _ in range(2)]
            client.close_input()
            code, _, err = client.ends()
    assert answers[0]["subtype"] == "error" and "unheard-of" in answers[0]["error"]
    assert answers[1]["subtype"] == "success" and answers[1]["response"] == {"model": MODEL}
    assert (code, err) == (0, "")
