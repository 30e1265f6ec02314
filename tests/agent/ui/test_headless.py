"""`-p` as scripts use it: what stands on standard output, on standard error, and in the exit code."""

import json
import os
import select
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from agent.ui.headless import NO_USER
from tests.strict_api.demo_bridge import demo_reply
from tests.strict_api.faults import Fault
from tests.strict_api.reply import Reply, calls, says
from tests.strict_api.scripted_model import ScriptedModel, Step
from tests.strict_api.server import Server, ServerOptions
from tests.strict_api.token_counting import TOOLS_OVERHEAD, count_block
from transcripts.load import KnownStart
from transcripts.load_cache import read_known_start
from transcripts.session_key import SessionKey

from .headless_run import RUN_DEADLINE_S, environment, run_headless, run_here, start_makeroom

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


@pytest.fixture
def here(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs the program within this process; see run_here."""
    return partial(run_here, tmp_path, capfd)


def pipe_with(text: str | bytes) -> int:
    """The reading end of a pipe that holds a text and then ends."""
    reading, writing = os.pipe()
    os.write(writing, text.encode() if isinstance(text, str) else text)
    os.close(writing)
    return reading


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_only_the_answer_is_on_standard_output(tmp_path: Path) -> None:
    with Server(ScriptedModel([Reply([calls("bash", command="echo hi")]), "the answer"])) as server:
        done = run_headless(tmp_path, server, "go", "--allowedTools", "bash")
    assert (done.stdout, done.returncode) == ("the answer\n", 0)
    assert "echo hi" in done.stderr


def test_each_call_says_on_standard_error_why_it_was_denied(here: Run) -> None:
    lines = ["rm -rf ~", "ls nothing", "touch /opt/x 2>&1 | tail -1"]
    made = [calls("read", file_path="/etc/shadow"), *(calls("bash", command=line) for line in lines)]
    steps = [Reply([call]) for call in made]
    with Server(ScriptedModel([*steps, "the answer"])) as server:
        done = here(server, "go")
    read, removal, failed, sandboxed = (line for line in done.stderr.splitlines() if line.startswith("● "))
    assert read.endswith(f"{NO_USER} (--allowedTools 'read(/etc/shadow)' would allow it))")
    assert removal.endswith(f"rm -rf ~  (denied: it removes a home directory, and {NO_USER})")
    assert failed.endswith("(failed)") or NO_USER in failed  # where no sandbox can be built
    assert sandboxed.endswith("(blocked: write /opt/x (touch))") or NO_USER in sandboxed


@pytest.mark.parametrize(
    ("command", "limit", "why"),
    [
        ("echo 'use make test' >&2; exit 2", 20, "(denied: a hook: use make test)"),
        ("sleep 60", 0.1, "(denied: a hook: the hook PreToolUse (sleep 60) took longer than 0.1 s)"),
        ("echo '{no'", 20, "(denied: a hook: the hook PreToolUse (echo '{no') answered with invalid JSON: "),
    ],
)
def test_a_call_that_a_hook_denied_or_failed_to_judge_is_shown_with_the_reason(
    here: Run, tmp_path: Path, command: str, limit: float, why: str
) -> None:
    hook = {"type": "command", "command": command, "timeout": limit}
    settings = json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}})
    with Server(ScriptedModel([Reply([calls("bash", command="pytest")]), "the answer"])) as server:
        done = here(server, "go", "--settings", settings)
    assert f"● bash  pytest  {why}" in done.stderr


def test_stream_json_has_the_lines_that_wrappers_know(here: Run) -> None:
    with Server(ScriptedModel([Reply([calls("bash", command="echo hi")]), "the\u2028answer"])) as server:
        done = here(server, "go", "--output-format", "stream-json", "--allowedTools", "bash")
    found = lines(done)
    assert [line["type"] for line in found] == ["system", "assistant", "user", "assistant", "result"]
    assert found[0]["subtype"] == "init" and "Bash" in found[0]["tools"]
    assert found[-1]["result"] == "the\u2028answer" and found[-1]["num_turns"] == 2
    assert len({line["session_id"] for line in found}) == 1
    assert len(done.stdout.splitlines()) == done.stdout.count("\n")


def test_the_prompt_comes_from_words_from_standard_input_or_from_both(here: Run) -> None:
    with Server(ScriptedModel(["one", "two", "three"])) as server:
        assert here(server, stdin=pipe_with("from a pipe")).stdout == "one\n"
        here(server, "words", stdin=pipe_with("and a pipe"))
        here(server, "words alone")
        said = [request["messages"][0]["content"][-1]["text"] for request in server.requests]
    assert said == ["from a pipe", "words\n\n<stdin>\nand a pipe\n</stdin>", "words alone"]


def test_standard_input_is_read_as_a_file_in_its_encoding_is_and_that_is_reported(here: Run) -> None:
    told = {
        "na\u00efve caf\u00e9".encode("cp1252"): "warning: reading standard input as cp1252, a guess\n",
        "na\u00efve caf\u00e9".encode("utf-16"): "",
        b"\xef\xbb\xbfna\xc3\xafve caf\xc3\xa9": "",
        b"na\xc3\xafve \xff caf\xc3\xa9": "warning: standard input is not valid UTF-8 (1 invalid byte)\n",
        b"\0na\xc3\xafve\0caf\xc3\xa9": "",
        b"\0na\xc3\xafve\xff\0caf\xc3\xa9": "warning: standard input is not text; some bytes were lost\n",
    }
    with Server(ScriptedModel(["ok"] * len(told))) as server:
        for data, line in told.items():
            assert here(server, stdin=pipe_with(data)).stderr == line
        said = [request["messages"][0]["content"][-1]["text"] for request in server.requests]
    assert [text.replace("\ufffd", "").replace("  ", " ").strip("\0") for text in said] == [
        *["na\u00efve caf\u00e9"] * 4,
        *["na\u00efve\0caf\u00e9"] * 2,
    ]


def test_an_inherited_pipe_that_says_nothing_does_not_hang(here: Run) -> None:
    read, write = os.pipe()
    with Server(ScriptedModel(["ok"])) as server:
        done = here(server, "go", stdin=read)
    os.close(write)
    assert done.stdout == "ok\n"


@pytest.mark.parametrize(
    ("argv", "code", "says_so"),
    [
        ([], 2, "needs a prompt"),
        ([" \n"], 2, "needs a prompt"),
        (["--allowedTools", "foo(bar)", "hi"], 2, "take all words after them as rules"),
        (["x", "--frobnicate"], 2, "unknown option"),
        (["x", "-r", "nowhere"], 2, "no session"),
        (["x", "-c"], 2, "no session to continue in this directory"),
        (["x", "-C", "/nonexistent"], 2, "cannot change to"),
        (["x", "--permission-mode", "whatever"], 2, "is not one of"),
        (["x", "--session-id", "mine"], 2, "not a UUID"),
        (["x", "--permission-prompt-tool", "mcp__a__b"], 2, "only stdio"),
        (["x", "--resume-session-at=a"], 2, "unknown option"),
        (["x", "--settings", '{"sandbox":{"enabled":true,"network":{}}}'], 2, "cannot be enforced"),
        (["x", "--settings", "nowhere.json"], 2, "nowhere.json"),
        (["x", "--add-dir", "nowhere"], 2, "no such directory"),
        (["x", "--add-dir", "~no such user/a"], 2, "no such directory"),
    ],
)
def test_wrong_use_is_exit_code_2_and_says_what_to_do(
    here: Run, argv: list[str], code: int, says_so: str
) -> None:
    with Server(demo_reply) as server:
        done = here(server, *argv)
    assert (done.returncode, done.stdout) == (code, "")
    assert says_so in done.stderr


def test_without_a_key_the_exit_code_is_5_and_an_empty_one_counts_as_missing(here: Run) -> None:
    other = {"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-x"}
    form = ("--output-format", "stream-json")
    done = here(None, "x", *form, ANTHROPIC_API_KEY="", ANTHROPIC_AUTH_TOKEN=" ", **other)
    (result,) = lines(done)
    assert (done.returncode, result["is_error"]) == (5, True), "a client waits for a result"
    assert "ANTHROPIC_API_KEY" in done.stderr and "--offline" in done.stderr
    assert "CLAUDE_CODE_OAUTH_TOKEN is ignored" in done.stderr
    assert max(map(len, done.stderr.partition("\n\n")[2].splitlines())) < 80, "what will do"


def test_an_empty_address_of_the_server_counts_as_unset(here: Run) -> None:
    variables = {"ANTHROPIC_API_KEY": "sk-ant-x", "HTTPS_PROXY": "http://127.0.0.1:9"}
    done = here(None, "hi", ANTHROPIC_BASE_URL=" ", CLAUDE_CODE_MAX_RETRIES="0", **variables)
    assert done.returncode == 75 and " for https://api.anthropic.com:" in done.stderr


def test_the_doctor_looks_also_where_the_key_is_what_is_missing(here: Run) -> None:
    done = here(None, "/doctor", ANTHROPIC_API_KEY="", HTTPS_PROXY="http://127.0.0.1:9")
    assert done.returncode == 1 and "!!  API key: missing" in done.stdout


def test_a_session_to_resume_that_is_not_there_has_a_result_that_says_so(here: Run) -> None:
    done = here(None, "x", "--output-format", "stream-json", "-r", "nowhere")
    (result,) = lines(done)
    assert (done.returncode, result["is_error"], result["num_turns"]) == (1, True, 0)
    assert "no session 'nowhere'" in result["errors"][0]


def test_the_id_of_a_session_can_be_given_once(here: Run) -> None:
    wanted = "0c7d4ad5-5f6d-4b3f-9a53-1c1f6c1c7a01"
    with Server(ScriptedModel(["one", "two", "three"])) as server:
        flags = ("--output-format", "json", "--session-id", wanted)
        assert json.loads(here(server, "x", *flags).stdout)["session_id"] == wanted
        assert "--resume" in here(server, "x", *flags).stderr
        resumed = here(server, "y", "--output-format", "json", f"--resume={wanted}")
        assert json.loads(resumed.stdout)["session_id"] == wanted
        forked = here(server, "z", "--output-format=json", "--resume", wanted, "--fork-session")
        assert UUID(json.loads(forked.stdout)["session_id"]) != UUID(wanted)


def test_the_system_prompt_and_the_tools_can_be_others(here: Run) -> None:
    with Server(ScriptedModel(["one", "two"])) as server:
        here(
            server,
            "x",
            "--system-prompt",
            "-Be a parrot",
            "--append-system-prompt=Loud.",
            "--tools",
            "Read,NotebookEdit",
        )
        here(server, "x", "--system-prompt", "", "--tools", "")
        first, second = server.requests
    texts = [block["text"] for block in first["system"]]
    assert texts[0].startswith("-Be a parrot\n\n# Tools") and texts[-2] == "Loud."
    assert [tool["name"] for tool in first["tools"]] == ["read"]
    assert second["system"][0]["text"].startswith("# Tools") and "tools" not in second


def test_another_system_prompt_for_a_resumed_session_has_no_effect_and_this_is_reported(here: Run) -> None:
    with Server(ScriptedModel(["one", "two", "three"])) as server:
        here(server, "x", "--append-system-prompt=Loud.")
        same = here(server, "y", "-c", "--append-system-prompt=Loud.")
        other = here(server, "z", "-c", "--append-system-prompt=Quiet.")
        assert len({str(request["system"]) for request in server.requests}) == 1
    assert "has no effect" not in same.stderr
    assert "--append-system-prompt has no effect: a resumed session keeps" in other.stderr


def test_a_small_window_has_fewer_tools_unless_they_are_named(here: Run) -> None:
    with Server(ScriptedModel(["one", "two", "three"])) as server:
        here(server, "x", "--context-window", "16384")
        here(server, "x", "--context-window", "16384", "--tools", "Read,Grep")
        here(server, "x", "--context-window", "16385")
        small, named, large = ({tool["name"] for tool in each["tools"]} for each in server.requests)
        prompts = [each["system"][0]["text"] for each in server.requests]
    assert small == large - {"grep", "glob", "todo", "task", "ask_user", "monitor", "web_fetch"}
    assert {"bash", "read", "write", "edit", "compact", "recall"} <= small and {"grep", "todo"} <= large
    assert named == {"read", "grep"}
    assert ["grep and glob" in prompt for prompt in prompts] == [False, False, True]


@pytest.mark.parametrize(("window", "most"), [("4096", 1_500), ("8192", 2_000)])
def test_in_a_very_small_window_the_prompt_is_short_and_the_tools_work(
    here: Run, tmp_path: Path, window: str, most: int
) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    steps: list[Step] = [
        Reply([calls("read", file_path="a.txt")]),
        Reply([calls("edit", file_path="a.txt", old_string="old", new_string="new")]),
        Reply([calls("write", file_path="b.txt", content="x", timeout=3)]),
        Reply([calls("write", file_path="b.txt", content="x")]),
        Reply([calls("bash", command="cat a.txt b.txt > c.txt", timeout=9_000)]),
        "done",
    ]
    with Server(ScriptedModel(steps)) as server:
        done = here(server, "x", "--context-window", window, "--permission-mode", "bypassPermissions")
        first = server.requests[0]
    assert (done.returncode, (tmp_path / "c.txt").read_text()) == (0, "new\nx"), done.stderr
    charged = [*first["system"], *first["tools"]]
    assert TOOLS_OVERHEAD + sum(map(count_block, charged)) <= most


def test_settings_and_directories_can_be_given(here: Run, tmp_path: Path) -> None:
    other = tmp_path.parent / f"{tmp_path.name}-other"
    other.mkdir()
    (tmp_path / ".makeroom").mkdir()
    (tmp_path / ".makeroom" / "settings.toml").write_text("[compact\n", "utf-8")  # is not read
    given = json.dumps({"permissions": {"allow": ["Write", "LSP"]}, "env": {"MAKEROOM_EFFORT": "low"}})
    steps: list[Step] = [
        Reply([calls("write", file_path=str(other / "made.txt"), content="x")]),
        Reply([calls("grep", pattern="x", path=str(other)), calls("glob", pattern="*", path=str(other))]),
        "done",
    ]
    with Server(ScriptedModel(steps)) as server:
        flags = ("--settings", given, "--setting-sources=", "--add-dir", str(other))
        done = here(server, "x", *flags)
        assert server.requests[0]["output_config"] == {"effort": "low"}
        found = server.requests[2]["messages"][-1]["content"]
    assert ["made.txt" in str(result) for result in found] == [True, True]
    assert (done.returncode, (other / "made.txt").read_text()) == (0, "x")
    assert "unknown tool in the rule 'LSP'" in done.stderr


def test_broken_settings_are_exit_code_6_with_file_and_line(here: Run, tmp_path: Path) -> None:
    (tmp_path / ".makeroom").mkdir()
    (tmp_path / ".makeroom" / "settings.toml").write_text("[compact\n", "utf-8")
    with Server(demo_reply) as server:
        done = here(server, "x")
    assert done.returncode == 6
    assert "settings.toml" in done.stderr and "line 1" in done.stderr


def test_a_spent_budget_is_exit_code_3_and_no_request_more(here: Run) -> None:
    flags = ("--max-budget-usd", "0.0001", "--allowedTools", "bash", "--output-format", "json")
    with Server(ScriptedModel([Reply([calls("bash", command="true")])] * 3)) as server:
        done = here(server, "x", *flags)
        assert len(server.requests) == 1
    result = json.loads(done.stdout)
    assert (done.returncode, result["subtype"]) == (3, "error_max_budget_usd")
    assert result["total_cost_usd"] >= 0.0001 and "--max-budget-usd" in result["errors"][0]


def test_a_session_that_is_continued_has_the_whole_budget_again(here: Run) -> None:
    with Server(demo_reply) as server:
        for more in ((), ("--continue",)):
            done = here(server, "hello", "--max-budget-usd", "0.0001", *more)
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("amount", ["0", "-1", "much", "nan", "inf"])
def test_a_budget_is_an_amount_above_nothing(here: Run, amount: str) -> None:
    assert here(None, "x", f"--max-budget-usd={amount}").returncode == 2


def test_max_turns_is_exit_code_3(here: Run) -> None:
    with Server(ScriptedModel([Reply([calls("bash", command="true")])] * 3)) as server:
        done = here(server, "x", "--max-turns", "2", "--allowedTools", "bash", "--output-format", "json")
    assert (done.returncode, json.loads(done.stdout)["subtype"]) == (3, "error_max_turns")


def test_a_refused_permission_that_ends_the_task_is_exit_code_4(here: Run, tmp_path: Path) -> None:
    with Server(ScriptedModel([Reply([calls("bash", command="make it so")]), "I may not"])) as server:
        done = here(server, "x", "--output-format", "json", "--sandbox", "off")
        server.responder = ScriptedModel([Reply([calls("bash", command="make it so")]), "I may not"])
        assert here(server, "x", "--sandbox", "off").returncode == 4
    result = json.loads(done.stdout)
    assert done.returncode == 0, "clients take any other code for a failure"
    assert result["permission_denials"][0]["tool_input"] == {"command": "make it so"}
    assert not list(tmp_path.glob("made*"))


def test_a_tool_that_is_denied_altogether_is_not_offered_and_nothing_is_said_about_commands(
    here: Run,
) -> None:
    with Server(ScriptedModel(["done"] * 2)) as server:
        here(server, "x", "--disallowedTools", "bash", "monitor", "edit(/src/**)", "-p")
        body = server.requests[0]
    offered = {tool["name"] for tool in body["tools"]}
    assert "edit" in offered and not offered & {"bash", "monitor"}
    assert "# Commands" not in str(body["system"])


def test_a_plan_is_the_result_where_no_one_can_approve_it_and_questions_are_not_offered(
    here: Run, tmp_path: Path
) -> None:
    options = [{"label": "a"}, {"label": "b"}]
    steps = [
        Reply([calls("ask_user", questions=[{"question": "Which?", "options": options}])]),
        Reply([calls("write", file_path="x.txt", content="x"), calls("bash", command="touch y.txt")]),
        Reply([says("Here it is."), calls("exit_plan", plan="# Plan\n\n1. Do it")]),
    ]
    with Server(ScriptedModel(steps)) as server:
        run = here(server, "plan it", "--permission-mode", "plan")
        assert (run.returncode, run.stdout) == (0, "# Plan\n\n1. Do it\n"), run.stderr
        sent = str(server.requests[-1]["messages"])
        offered = {tool["name"] for tool in server.requests[0]["tools"]}
    assert "exit_plan" in offered and "ask_user" not in offered
    assert "There is no tool named 'ask_user'" in sent or "There is no tool named \\'ask_user\\'" in sent
    refused = sent.count("plan mode is on, and it allows no changes")
    assert refused == 2 or (refused == 1 and "Read-only file system" in sent), "as there is a sandbox or not"
    assert not [*tmp_path.glob("*.txt")]


def test_an_error_of_the_service_has_its_code_and_a_result_line(here: Run) -> None:
    with Server(demo_reply) as server:
        server.faults.add(Fault("status", status=401, times=None, path="/v1/messages"))
        done = here(server, "x", "--output-format", "stream-json")
    assert (done.returncode, lines(done)[-1]["type"], lines(done)[-1]["is_error"]) == (5, "result", True)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_everything_and_still_writes_a_result(
    here: Run, tmp_path: Path, number: int, code: int
) -> None:
    os.mkfifo(tmp_path / "started")
    started = os.open(tmp_path / "started", os.O_RDONLY | os.O_NONBLOCK)
    command = calls("bash", command="echo > started; sleep 1000")
    with Server(ScriptedModel([Reply([command]), "never"])) as server:
        process = start_makeroom(
            tmp_path,
            environment(tmp_path, server),
            *("-p", "x", "--allowedTools", "bash", "--output-format", "json"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert select.select([started], [], [], RUN_DEADLINE_S)[0]
        process.send_signal(number)
        out, _ = process.communicate(timeout=RUN_DEADLINE_S)
    os.close(started)
    assert process.returncode == code
    assert json.loads(out)["type"] == "result"
    with Server(ScriptedModel(["back again"]), ServerOptions()) as server:
        assert here(server, "-c", "go on").stdout == "back again\n"
        assert "interrupted" in str(server.requests[0]["messages"])
        assert list(server.refused) == []


def test_no_session_leaves_nothing_behind(here: Run, tmp_path: Path) -> None:
    with Server(ScriptedModel([Reply([calls("bash", command="seq 100000")]), "ok"])) as server:
        here(server, "x", "--no-session", "--allowedTools", "bash")
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == []


def test_our_own_key_is_in_no_file_and_not_in_the_environment_of_commands(tmp_path: Path) -> None:
    steps: list[Step] = [Reply([calls("bash", command="env; cat /proc/$PPID/environ")]), "done"]
    with Server(ScriptedModel(steps)) as server:
        run_headless(tmp_path, server, "my key is test-key-123456, keep it", "--allowedTools", "bash")
        assert "test-key-123456" not in str(server.requests[1]["messages"][1:])
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"test-key-123456" not in path.read_bytes()


def test_a_command_that_makes_sense_in_a_script_runs_there_and_its_words_are_the_answer(here: Run) -> None:
    with Server(demo_reply) as server:
        here(server, "hello")
        asked = len(server.requests)
        done = here(server, "-c", "/context")
        assert done.returncode == 0 and "tokens" in done.stdout and "Largest blocks" in done.stdout
        assert done.stderr == ""
        told = json.loads(here(server, "-c", "/compact", "--output-format", "json").stdout)
        assert told["subtype"] == "success" and told["result"].startswith("not summarized: ")
        assert "nothing to compact yet" in here(server, "/compact").stdout
        assert len(server.requests) == asked
        for line, told in (
            ("/pin remove 7", "cannot remove pin '7': not found (usage: /pin [TEXT | remove N])"),
            ("/help bogus", "unknown command /bogus: use /help to list the commands"),
            ("/config zzzz", "unknown setting 'zzzz'; run /config to list the settings"),
            ("/status x", "/status takes no arguments, not 'x' (usage: /status)"),
        ):
            failed = here(server, "-c", line)
            assert (failed.returncode, failed.stdout, failed.stderr) == (2, "", f"error: {told}\n")
        failed = here(server, "-c", "/search")
        assert (failed.returncode, failed.stderr) == (2, "usage: /search WORDS\n")


def test_a_script_fails_if_the_doctor_finds_a_problem(here: Run) -> None:
    with Server(demo_reply) as server:
        assert here(server, "/doctor").returncode == 0
        server.close()
        done = here(server, "/doctor")
        # Without ripgrep, "1 recommendation" follows.
        assert done.returncode == 1 and done.stderr.startswith("error: 1 problem found")
        assert "!!  server: cannot connect" in done.stdout
        told = json.loads(here(server, "/doctor", "--output-format", "json").stdout)
        assert (
            told["is_error"]
            and "cannot connect" in told["result"]
            and told["errors"][0].startswith("1 problem found")
        )


def test_a_command_for_the_screen_is_refused_in_a_script_and_other_words_go_to_the_model(here: Run) -> None:
    with Server(ScriptedModel(["an answer", "an answer"])) as server:
        done = here(server, "/clear")
        assert done.returncode == 2 and "/clear needs an interactive session" in done.stderr
        for line, hint in (
            ("/compcat", "did you mean /compact?"),
            ("/unknown word", "use /help to list the commands"),
        ):
            done = here(server, line)
            assert (done.returncode, done.stdout) == (2, "") and hint in done.stderr
        done = here(server, "/compact\nand then read f1")
        assert (done.returncode, done.stdout) == (2, "")
        assert "with more lines below it" in done.stderr
        done = here(server, " \n/cost\n")
        assert (done.returncode, done.stderr) == (0, "") and done.stdout
        assert list(server.requests) == []
        assert here(server, "/etc/hosts: what is in it?").stdout == "an answer\n"
        assert here(server, "/tmp is full").stdout == "an answer\n"


def test_a_compaction_that_fails_in_a_script_fails_it_and_says_why_once(here: Run) -> None:
    reads = [Reply([calls("bash", command=f"seq {number} {number + 900}")]) for number in range(8)]
    with Server(ScriptedModel([*reads, "done"])) as server:
        assert here(server, "go", "--allowedTools", "bash").returncode == 0
        server.faults.add(Fault("status", status=402, text="no credit", times=None))
        done = here(server, "-c", "/compact")
        told = json.loads(here(server, "-c", "/compact", "--output-format", "json").stdout)
    assert done.returncode == 1 and "Freeing about" in done.stdout
    assert done.stderr.count("the conversation is unchanged: ") == done.stderr.count("no credit") == 1
    assert told["is_error"] and "the conversation is unchanged" in str(told)


def test_a_session_to_continue_is_read_and_checked_once(here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    checked: list[Path] = []
    is_from_elsewhere = SessionKey.is_from_elsewhere

    def read_and_count(path: Path, key: SessionKey) -> KnownStart | None:
        read.append(path)
        return read_known_start(path, key)

    def check_and_count(key: SessionKey, path: Path, start: int = 0) -> bool:
        checked.append(path)
        return is_from_elsewhere(key, path, start)

    monkeypatch.setattr("transcripts.session_files.read_known_start", read_and_count)
    monkeypatch.setattr(SessionKey, "is_from_elsewhere", check_and_count)
    with Server(ScriptedModel(["one", "two"])) as server:
        here(server, "go")
        assert here(server, "-c", "more").stdout == "two\n"
    assert len(read) == len(checked) == 1
