"""Run a session for a program: JSON lines in and out, a turn for each prompt."""

from __future__ import annotations

import asyncio
import sys

from agent.app import RunSetup
from agent.exit_signals import ExitSignal, run_until_signal
from agent.ui import RunOutput

from .client_channel import start_reading
from .stream_input import MakeController, StreamInput


def run_stream(setup: RunSetup, make_controller: MakeController) -> int:
    """Run the session to its end. The exit code is 0 if the last turn succeeded.

    The end of the input does not interrupt anything: all prompts and requests are handled first.
    """
    return asyncio.run(_run(setup, make_controller))


async def _run(setup: RunSetup, make_controller: MakeController) -> int:
    """Return the exit code. The first signal of a kind ends the session, the second has its usual effect."""
    ending = ExitSignal()
    output = RunOutput("stream-json", setup.masks.text, setup.options.partial_messages)
    client = StreamInput(setup, output)
    start_reading(sys.stdin.fileno(), client.take)
    return await run_until_signal(_conduct(client, make_controller, ending), ending)


async def _conduct(client: StreamInput, make_controller: MakeController, ending: ExitSignal) -> int:
    await client.begun.wait()
    from .stream_session import conduct  # 700 ms: not before initialize is answered

    return await conduct(client, make_controller, ending)
