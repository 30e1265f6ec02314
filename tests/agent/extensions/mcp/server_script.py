"""An MCP server of plain JSON-RPC for tests. Its words say how it misbehaves; without any it does not."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODES = sys.argv[1:]
TOOLS = [
    {
        "name": "echo",
        "description": "Says it again",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
    {"name": "env", "description": "Shows its environment", "inputSchema": {"type": "object"}},
    {"name": "wait", "description": "Never answers", "inputSchema": {"type": "object"}},
    {"name": "die", "description": "Ends the server", "inputSchema": {"type": "object"}},
    {"name": "big", "description": "Says a lot", "inputSchema": {"type": "object"}},
    {"name": "do.it", "description": "A dotted name", "inputSchema": {"type": "object"}},
    {"name": "ask", "description": "Asks the person", "inputSchema": {"type": "object"}},
    {"name": "burst", "description": "Changes its tools", "inputSchema": {"type": "object"}},
]
ODD_RESULTS = {
    "latin": '{"content": [{"type": "text", "text": "caf\xe9"}]}',
    "deep": "[" * 200_000 + "]" * 200_000,
    "cut": '{"content": ',
}
FEATURES = {"tools": {"listChanged": True}, "prompts": {}, "resources": {}}
asked: dict[str, object] = {}  # our request's id -> the id of the call that waits for its answer


def send(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def text(words: str) -> dict[str, object]:
    return {"content": [{"type": "text", "text": words}]}


def call(ident: object, name: str, given: dict[str, str]) -> object:
    if name == "echo":
        return text(f"echo: {given['text']}")
    if name == "env":
        return text("\n".join(f"{key}={value}" for key, value in sorted(os.environ.items())))
    if name == "big":
        return text("".join(f"line {n}\n" for n in range(20_000)))
    if name == "die":
        sys.stderr.write("fatal: as was asked\n")
        sys.stderr.flush()
        os._exit(3)
    if name in ODD_RESULTS:
        about = f'"jsonrpc": "2.0", "id": {ident}'
        result = f'"result": {ODD_RESULTS[name]}'
        line = f"{{{result}, {about}}}" if given else f"{{{about}, {result}}}"
        sys.stdout.buffer.write(line.encode("latin-1") + b"\n")
        sys.stdout.flush()
        return None
    if name == "ask":
        asked["q1"] = ident
        send({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": {"message": "name?"}})
        return None
    if name == "burst":
        TOOLS.append({"name": "late", "inputSchema": {"type": "object"}})
        for _ in range(100):
            send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        return text("changed")
    return None if name == "wait" else text("done")


def answer(message: dict[str, Any]) -> object:  # noqa: PLR0911  one case for each kind
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        if "silent" in MODES:
            return None
        time.sleep(0.3 if "slow" in MODES else 0)
        features = FEATURES if "elicitation" not in params["capabilities"] else {**FEATURES, "asks": {}}
        return {"protocolVersion": "2025-06-18", "capabilities": features, "serverInfo": {"name": "script"}}
    if method == "tools/list":
        if "loop" in MODES:
            return {"tools": TOOLS, "nextCursor": "again"}
        return {"tools": [{"name": "x" * 140}, {"nameless": 1}, 7] if "odd" in MODES else TOOLS}
    if method == "prompts/list":
        arguments = [{"name": "city", "required": True}, {"name": "state"}]
        return {"prompts": [{"name": "weather", "description": "Asks", "arguments": arguments}]}
    if method == "prompts/get":
        words = f"The weather in {params['arguments'].get('city')}?"
        if (forged := Path("forged.txt")).exists():
            words = forged.read_text("utf-8")
        return {"messages": [{"role": "user", "content": {"type": "text", "text": words}}]}
    if method == "resources/list":
        return {"resources": [{"uri": "note://one", "name": "one", "description": "A note"}]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": f"content of {params['uri']}"}]}
    if method == "tools/call":
        return call(message["id"], params["name"], params.get("arguments") or {})
    return {}


def misbehave() -> None:
    """The actions of the server besides its answers."""
    if "pings" in MODES:
        for number in range(20_000):
            send({"jsonrpc": "2.0", "id": f"p{number}", "method": "ping"})
    if "flood" in MODES:
        sys.stdout.write("junk that is no message\n" * 300_000)
        sys.stderr.write("a line of a log\n" * 300_000)
    if "notes" in MODES:
        for method in ("notifications/message", "notifications/progress", "notifications/tools/list_changed"):
            sys.stdout.write((json.dumps({"jsonrpc": "2.0", "method": method}) + "\n") * 20_000)
    if "deep" in MODES:
        sys.stdout.write("[" * 200_000 + "]" * 200_000 + "\n")
    if "bytes" in MODES:
        sys.stdout.buffer.write(bytes(range(256)) * 40 + b"\n")
    sys.stdout.flush()


def main() -> None:  # noqa: C901  one case for each kind
    if "exits" in MODES:
        sys.exit("cannot start: no such database")
    if "junk" in MODES:
        print("Welcome to the server!\n{not json\n[1, 2]\n42\n\x00\xff", flush=True)
    if "noise" in MODES:
        sys.stderr.write("x" * 79 * 1000 + "\n")
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message:
            if message["id"] not in asked:
                continue
            send(
                {
                    "jsonrpc": "2.0",
                    "id": asked.pop(message["id"]),
                    "result": text(json.dumps(message["result"])),
                }
            )
            continue
        if "parent" in MODES:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the child inherits it
            subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(3600)", *MODES], start_new_session=True
            )
        if "deaf" in MODES:
            time.sleep(3600)
        result = answer(message)
        if message["method"] == "tools/list":
            misbehave()
        if message["method"] == "tools/call":
            if "huge" in MODES:
                sys.stdout.write('{"jsonrpc": "2.0", "result": "' + "x" * 80_000_000)
            if "crash" in MODES:
                os._exit(9)
            if "half" in MODES:
                sys.stdout.write('{"jsonrpc": "2.0", "id": ')
                sys.stdout.flush()
                time.sleep(3600)
            if "wrong" in MODES:
                result = {
                    "content": [5, None, {"type": "image"}, {"type": "text", "text": 7}],
                    "isError": "yes",
                }
        if "id" in message and result is not None:
            if "ids" in MODES:
                send({"jsonrpc": "2.0", "id": 99_999, "result": {"tools": 5}})
                send({"jsonrpc": "2.0", "id": None, "error": "what?"})
            if "ends" in MODES and message["method"] == "tools/list":
                os._exit(0)
            if "error" in MODES and message["method"] == "tools/list":
                send(
                    {
                        "jsonrpc": "2.0",
                        "id": message["id"],
                        "error": {"code": -1, "message": "no tools today"},
                    }
                )
                continue
            send({"jsonrpc": "2.0", "id": message["id"], "result": [] if "types" in MODES else result})


main()
