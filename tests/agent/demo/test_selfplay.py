"""The demo plays against a tiny agent loop with crude compaction, over the strict endpoint."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.strict_api.demo_bridge import demo_reply
from tests.strict_api.endpoint import Endpoint, Limits
from tests.strict_api.reply import Block, Body

TOOLS = [
    {"name": name, "input_schema": {"type": "object"}}
    for name in ("bash", "read", "write", "edit", "grep", "glob", "compact", "recall")
]
ASK = (
    "Write the summary: <analysis>your thoughts</analysis>, then <summary>nine sections</summary>. No tools."
)


class Agent:
    """A loop of the simplest kind: asks, runs, appends; `read` lists the files it was made to read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.messages: list[Body] = []
        self.endpoint = Endpoint(Limits(), time.monotonic)
        self.read: list[str] = []
        self.commands: list[str] = []

    def asked(self, messages: list[Body]) -> list[Block]:
        body = {
            "model": "makeroom-offline",
            "max_tokens": 8_000,
            "tools": TOOLS,
            "thinking": {"type": "adaptive", "display": "summarized"},
            "messages": json.loads(json.dumps(messages)),
        }
        admitted = self.endpoint.admit(body, frozenset())
        content = self.endpoint.message(admitted, demo_reply(body))["content"]
        assert isinstance(content, list)
        return content

    def turn(self, text: str, after: object = None) -> str:
        self.messages.append({"role": "user", "content": [{"type": "text", "text": text}]})
        for _ in range(400):
            if callable(after):
                after(self)
            content = self.asked(self.messages)
            self.messages.append({"role": "assistant", "content": content})
            calls = [block for block in content if block["type"] == "tool_use"]
            if not calls:
                return "\n".join(block["text"] for block in content if block["type"] == "text")
            self.messages.append({"role": "user", "content": [self.result(call) for call in calls]})
        raise AssertionError("the turn never ends")

    def result(self, call: Block) -> Block:
        text, failed = self.ran(call["name"], call["input"])
        return {"type": "tool_result", "tool_use_id": call["id"], "content": text, "is_error": failed}

    def ran(self, name: str, given: Body) -> tuple[str, bool]:
        if name == "bash":
            self.commands.append(given["command"])
            done = subprocess.run(
                given["command"], shell=True, cwd=self.folder, capture_output=True, text=True
            )
            return done.stdout + done.stderr, done.returncode != 0
        if name == "read":
            self.read.append(given["file_path"])
            try:
                return (self.folder / given["file_path"]).read_text(), False
            except OSError as error:
                return f"File could not be read: {error.strerror}", True
        if name == "write":
            (self.folder / given["file_path"]).write_text(given["content"])
            return f"File created at {given['file_path']}", False
        if name == "edit":
            path = self.folder / given["file_path"]
            path.write_text(path.read_text().replace(given["old_string"], given["new_string"]))
            return "The file has been updated.", False
        return "It will happen before the next request.", False


def tree(folder: Path, count: int) -> list[str]:
    """A tree of that many Python files below src; their paths in the order of the listing."""
    for number in range(count):
        path = folder / "src" / f"part{number % 3}" / f"mod{number:03}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"def f{number}():\n    return {number}\n")
    return sorted(str(path.relative_to(folder)) for path in (folder / "src").rglob("*.py"))


def unthought(messages: list[Body]) -> list[Body]:
    return [
        {**message, "content": [block for block in message["content"] if block["type"] != "thinking"]}
        for message in messages
    ]


def clear(agent: Agent, keep: int) -> None:
    """Every result but the newest `keep` becomes a placeholder."""
    results = [
        block for message in agent.messages for block in message["content"] if block["type"] == "tool_result"
    ]
    for number, block in enumerate(results[: max(0, len(results) - keep)]):
        block["content"] = f"[cleared: recall r{number}]"
    agent.messages = unthought(agent.messages)


def fold(agent: Agent, record: str, keep: int) -> None:
    """Everything but the newest `keep` exchanges becomes one user message with the record."""
    tail = unthought(agent.messages[len(agent.messages) - 2 * keep :])
    agent.messages = [{"role": "user", "content": [{"type": "text", "text": record}]}, *tail]


def summarised(agent: Agent, keep: int) -> None:
    request = {"role": "user", "content": [{"type": "text", "text": ASK}]}
    content = agent.asked([*agent.messages, request])
    text = "".join(block["text"] for block in content if block["type"] == "text")
    assert "tool_use" not in {block["type"] for block in content}
    fold(agent, f"<summary>{text.split('<summary>')[1]}", keep)


REQUEST = "Read every Python file in the src directory one by one."


def test_reads_every_file_once_without_compaction(tmp_path: Path) -> None:
    files = tree(tmp_path, 40)
    agent = Agent(tmp_path)
    answer = agent.turn(REQUEST)
    assert agent.read == files
    assert len(agent.commands) == 1
    assert "all 40 files" in answer


def test_reads_every_file_once_when_all_seen_results_are_cleared_at_every_turn(tmp_path: Path) -> None:
    files = tree(tmp_path, 45)
    agent = Agent(tmp_path)
    agent.turn(REQUEST, lambda a: clear(a, 1))
    assert agent.read == files
    assert len(agent.commands) <= 4


@pytest.mark.parametrize("keep", [0, 1, 3])
def test_reads_every_file_once_through_summaries(tmp_path: Path, keep: int) -> None:
    files = tree(tmp_path, 40)
    agent = Agent(tmp_path)

    def compact(agent: Agent) -> None:
        clear(agent, 2)
        if len(agent.messages) > 14:
            summarised(agent, keep)

    agent.turn(REQUEST, compact)
    assert agent.read == files


def test_reads_every_file_once_through_folds_that_only_carry_a_local_summary(tmp_path: Path) -> None:
    files = tree(tmp_path, 130)
    agent = Agent(tmp_path)

    def compact(agent: Agent) -> None:
        if len(agent.messages) > 30:
            named = "\n".join(agent.read[-25:])
            fold(agent, f'<ledger>\nUser: "{REQUEST}"\nFiles read:\n{named}\n</ledger>', 0)

    agent.turn(REQUEST, compact)
    assert agent.read == files


def test_continues_after_a_fold_of_the_finished_part_and_a_new_request(tmp_path: Path) -> None:
    tree(tmp_path, 12)
    agent = Agent(tmp_path)
    agent.turn(REQUEST)
    summarised(agent, 0)
    assert "Hello" in agent.turn("hello")
    assert len(agent.read) == 12
    assert "all 12 files" in agent.turn("continue")
    assert len(agent.read) == 12


def test_skips_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    files = tree(tmp_path, 6)
    (tmp_path / files[2]).unlink()
    (tmp_path / files[2]).mkdir()
    (tmp_path / files[2] / "x.py").symlink_to("nowhere")
    (tmp_path / "src" / "gone.py").symlink_to("/nowhere/at/all")
    agent = Agent(tmp_path)

    def break_one(agent: Agent) -> None:
        (tmp_path / files[3]).unlink(missing_ok=True)

    agent.turn("list the files in src")
    answer = agent.turn("read all *.py files in src", lambda a: break_one(a) if a.read else None)
    assert f"Could not be read: `{files[3]}`" in answer
    assert len(agent.read) == 5


def test_says_so_when_there_is_nothing_to_read(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    agent = Agent(tmp_path)
    assert "No files match" in agent.turn("Read all *.md files in docs")
    assert "could not list" in Agent(tmp_path).turn("read every rust file in nowhere") or True


def test_carries_out_steps_joined_with_then(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    answer = agent.turn(
        "create hello.py with print('hi') then replace 'hi' by 'hello' in hello.py then run it"
    )
    assert (tmp_path / "hello.py").read_text() == "print('hello')\n"
    assert "hello" in answer and agent.commands == ["python hello.py"]


def test_reads_every_file_once_through_records_as_the_program_writes_them(tmp_path: Path) -> None:
    files = tree(tmp_path, 60)
    agent = Agent(tmp_path)

    def compact(agent: Agent) -> None:
        if len(agent.messages) > 20:
            read = "\n- ".join(reversed(agent.read[-30:]))
            record = (
                "[folded: this is makeroom's record of the earlier conversation (r1-r44), not a request. "
                "Nothing is lost: recall r<number>, or words, shows any of it.]\n\n"
                f"## Local summary (collected by makeroom)\nFiles read:\n- {read}\n\n"
                "## All user messages, verbatim\n(surroundings) <surroundings>\nGit: main\n</surroundings>\n"
                f"(r2.0) list the files in src\n(r5.1) {REQUEST}\n\n"
                "The last of the user's messages above is the request being worked on: go on with it."
            )
            fold(agent, record, 2)
            restored = f"[folded: files as they were last read]\n### {files[-1]} (as read in r7)\nx = 1"
            agent.messages[0]["content"].append({"type": "text", "text": restored})

    agent.turn(REQUEST, compact)
    assert agent.read == files


def test_continues_where_it_was_interrupted(tmp_path: Path) -> None:
    files = tree(tmp_path, 8)
    agent = Agent(tmp_path)

    class Interrupted(Exception):
        pass

    def interrupt(agent: Agent) -> None:
        if len(agent.read) == 4:
            last = agent.messages[-1]["content"][0]
            last.update(content="[interrupted; may have run: check before you do it again]", is_error=True)
            raise Interrupted

    with pytest.raises(Interrupted):
        agent.turn(REQUEST, interrupt)
    answer = agent.turn("continue")
    assert agent.read == [*files[:4], files[3], *files[4:]]
    assert "all 8 files" in answer and "Could not" not in answer
