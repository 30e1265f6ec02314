"""The demo's answers to requests, results and denials."""

import time
from typing import Any

from agent.demo.answers import HELP
from agent.demo.reading_run import find_run
from agent.demo.request_rules import plan_steps
from tests.strict_api.demo_bridge import demo_reply
from tests.strict_api.reply import Reply
from tests.strict_api.token_counting import count_text
from tests.tables import each_row

TOOLS = [{"name": name} for name in ("bash", "read", "write", "edit", "grep", "glob", "compact", "recall")]


def user(*texts: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def called(name: str, result: str, failed: bool = False, **given: Any) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": "t1", "name": name, "input": given}
    answer = {"type": "tool_result", "tool_use_id": "t1", "content": result, "is_error": failed}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]


def replied(*messages: dict[str, Any], tools: Any = TOOLS) -> Reply:
    return demo_reply({"messages": list(messages), "tools": tools})


def told(*messages: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in replied(*messages).blocks if block["type"] == "text")


def made(*messages: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    blocks = replied(*messages).blocks
    return [(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]


UNDERSTOOD = {
    "read README.md": [("read", {"file_path": "README.md"})],
    "Please show me src/x.py.": [("read", {"file_path": "src/x.py"})],
    "Could you read `a.py` and b.py, please?": [
        ("read", {"file_path": "a.py"}),
        ("read", {"file_path": "b.py"}),
    ],
    "show me lines 10 to 20 of src/x.py": [("read", {"file_path": "src/x.py", "offset": 10, "limit": 11})],
    "list the files in docs": [("bash", {"command": "ls -la docs"})],
    "ls": [("bash", {"command": "ls -la ."})],
    "what files are here?": [("bash", {"command": "ls -la ."})],
    "find TODO in .": [("bash", {"command": "grep -rnI --exclude-dir=.git -- TODO . | head -n 50"})],
    "find TODO in src": [("bash", {"command": "grep -rnI --exclude-dir=.git -- TODO src | head -n 50"})],
    "grep for 'a b'": [("bash", {"command": "grep -rnI --exclude-dir=.git -- 'a b' . | head -n 50"})],
    "run `pytest -q`": [("bash", {"command": "pytest -q"})],
    "run `make serve` in the background": [("bash", {"command": "make serve", "run_in_background": True})],
    "run the tests": [("bash", {"command": "python -m pytest -q"})],
    "run the command: git log | head -3": [("bash", {"command": "git log | head -3"})],
    "create hello.py with print('hi')": [("write", {"file_path": "hello.py", "content": "print('hi')\n"})],
    "Create a new file notes.txt containing: one line": [
        ("write", {"file_path": "notes.txt", "content": "one line\n"})
    ],
    "write 'x = 1' to a.py": [("write", {"file_path": "a.py", "content": "x = 1\n"})],
    "replace 'hi' by 'hello' in hello.py": [("read", {"file_path": "hello.py"})],
    "use the compact tool": [("compact", {})],
    "compact the conversation, focus on the parser": [("compact", {"focus": "the parser"})],
    "recall r12": [("recall", {"id": "r12"})],
    "recall the build error": [("recall", {"query": "the build error"})],
}


@each_row("text", UNDERSTOOD)
def test_understands(text: str) -> None:
    assert made(user(text)) == UNDERSTOOD[text]


@each_row("text", ["", "hello", "help", "what is the meaning of life?", "write a poem", "continue"])
def test_says_what_it_understands_when_there_is_nothing_to_do(text: str) -> None:
    assert HELP in told(user(text or "?"))


def test_quotes_and_code_keep_a_then_within_them() -> None:
    steps, _ = plan_steps("create a.txt with 'first then last' then run `echo a then b`")
    assert [call.name for step in steps for call in step] == ["write", "bash"]
    assert steps[0][0].input["content"] == "first then last\n"


@each_row(
    ("text", "where", "pattern"),
    [
        ("Read every Python file in the src directory one by one", "src", "*.py"),
        ("Keep reading files until compression triggers automatically", ".", "*"),
        ("go on reading the source files in lib", "lib", "*"),
        ("read all *.md files in docs", "docs", "*.md"),
        ("please read every .ts file under web/app, one by one.", "web/app", "*.ts"),
        ("Read all files in `a b/c`.", "a b/c", "*"),
        ("read every python file one by one", ".", "*.py"),
        ("read each of the markdown files in this directory", ".", "*.md"),
    ],
)
def test_understands_runs_of_reading(text: str, where: str, pattern: str) -> None:
    run = find_run(text)
    assert run is not None and (run.where, run.pattern) == (where, pattern)


def test_reports_facts_of_what_it_read() -> None:
    result = "     1\timport os\n     2\t\n     3\tdef first():\n     4\t    pass\n     5\tclass Second:"
    said = told(user("read a.py"), *called("read", result, file_path="a.py"))
    assert "`first`, `Second`" in said and "import os" in said


def test_paths_are_marked_as_code_so_that_underscores_stay() -> None:
    assert "I will read `src/__init__.py`." in told(user("read src/__init__.py"))
    result = "The file ./src/__init__.py has been updated. The lines around the change:\n     1\tx"
    request = user("replace a by b in src/__init__.py")
    first = called("read", "a", file_path="src/__init__.py")
    said = told(request, *first, *called("edit", result, file_path="src/__init__.py"))
    assert said.endswith("Done: The file `./src/__init__.py` has been updated.")
    listed = called("bash", "./__init__.py\n./__main__.py\n2", command=listing())
    said = told(user("read every python file one by one"), *listed)
    assert "Reading file 1 of 2: `./__init__.py`\n\nUp next (2-2):\n- `./__main__.py`" in said


def listing() -> str:
    run = find_run("read every python file one by one")
    assert run is not None
    return run.page(1)


def test_reports_an_error_plainly_and_stops() -> None:
    said = told(
        user("read a.py then run `ls`"), *called("read", "File does not exist.", True, file_path="a.py")
    )
    assert "File does not exist." in said and "Not done: run `ls`" in said


@each_row(
    "result",
    [
        "The user denied this call",
        "Permission denied: rule bash(rm:*).",
        "A hook denied this call: no",
    ],
)
def test_a_refused_permission_ends_the_turn(result: str) -> None:
    for request in ("run `rm -rf x`", "read every python file in src"):
        reply = replied(user(request), *called("bash", result, True, command="rm -rf x"))
        assert reply.stop == "end_turn" and "was denied" in reply.blocks[-1]["text"]


def test_says_so_when_a_tool_is_missing() -> None:
    reply = replied(user("read a.py"), tools=[{"name": "bash"}])
    assert reply.stop == "end_turn" and "without these tools: read" in reply.blocks[-1]["text"]


def test_the_environment_are_not_the_request() -> None:
    around = "<surroundings>\n(added by makeroom)\nDate: today\n</surroundings>"
    assert made(user(around, "read a.py")) == [("read", {"file_path": "a.py"})]
    assert made(user(f"{around}\n\nread a.py")) == [("read", {"file_path": "a.py"})]


SUMMARISE = "Text only. Write <analysis>...</analysis> and then <summary>...</summary> with nine sections."


def test_a_summary_has_nine_sections_and_quotes_the_user() -> None:
    history = [
        user("never touch main.py. read a.py"),
        *called("read", "x = 1", file_path="a.py"),
        {"role": "assistant", "content": [{"type": "text", "text": "a.py has one line."}]},
    ]
    reply = replied(*history, user(SUMMARISE))
    said = reply.blocks[-1]["text"]
    assert [block["type"] for block in reply.blocks] == ["text"]
    assert all(f"\n{number}. " in said.replace("<summary>", "") for number in range(1, 10))
    assert "never touch main.py. read a.py" in said and "Read: a.py" in said


def test_a_summary_carries_an_earlier_one_and_stays_small() -> None:
    history = [user("read a.py"), *called("read", "x", file_path="a.py")]
    for number in range(60):
        said = told(*history, user(SUMMARISE)).split("<summary>")[1]
        history = [user(f"<summary>{said}", f"list the files in dir{number} {'because ' * 30}")]
    assert count_text(said) < 3_000
    assert "Read: a.py" in said


def test_every_answer_begins_with_a_thought() -> None:
    for text in ("hello", "read a.py", "read every python file"):
        assert replied(user(text)).blocks[0]["type"] == "thinking"


@each_row("text", ["<br> then 'x " * 300_000, "replace a by b to c with " * 190, "[x\n" * 100_000])
def test_a_huge_or_odd_paste_is_answered_at_once(text: str) -> None:
    began = time.process_time()
    assert replied(user(text)).stop == "end_turn"
    assert time.process_time() - began < 5


WHAT_IS_THIS = "what does this project do?"


def test_what_a_project_does_is_reported_by_the_first_lines_of_its_readme() -> None:
    assert made(user(WHAT_IS_THIS)) == [("read", {"file_path": "README.md"})]
    readme = "     1\t# Seed\n     2\tIt grows."
    assert "# Seed\nIt grows." in told(user(WHAT_IS_THIS), *called("read", readme, file_path="README.md"))


def test_a_project_without_a_readme_is_reported_by_its_files() -> None:
    missing = called("read", "File does not exist.", True, file_path="README.md")
    assert made(user(WHAT_IS_THIS), *missing) == [("bash", {"command": "ls -la"})]
    listed = called("bash", "a.py\nb.py", command="ls -la")
    listed[0]["content"][0]["id"] = listed[1]["content"][0]["tool_use_id"] = "t2"
    assert "a.py\nb.py" in told(user(WHAT_IS_THIS), *missing, *listed)
    by_name = told(user("read README.md"), *missing)
    assert "read failed" in by_name


def test_a_failing_test_is_run_and_reported_but_not_repaired() -> None:
    request = user("fix the failing test")
    ((tool, given),) = made(request)
    assert (tool, given) == ("bash", {"command": "python -m pytest -q"})
    lines = [f"line {number}" for number in range(50)]
    output = "\n".join([*lines, "FAILED test_a.py::test_a - assert 1 == 2", "[exit code 1]"])
    said = told(request, *called("bash", output, True, **given))
    assert "The demo cannot fix arbitrary code" in said
    assert "FAILED test_a.py::test_a" in said and "line 3\n" not in said
    assert "printed 1 line" in told(request, *called("bash", "5 passed", **given))


UNCHANGED = "File unchanged since r16 above. That result is still current and in this conversation."


def test_the_sample_is_fixed_if_its_module_was_read_in_an_earlier_turn() -> None:
    failure = called("bash", "temperature.py:8: ZeroDivisionError", True, command="python -m pytest -q")
    read = called("read", UNCHANGED, file_path="temperature.py")
    read[0]["content"][0]["id"] = read[1]["content"][0]["tool_use_id"] = "t2"
    ((tool, given),) = made(user("fix the failing test"), *failure, *read)
    assert (tool, given["file_path"]) == ("edit", "temperature.py")


def test_a_file_that_is_unchanged_is_reported_as_such() -> None:
    assert told(user("read a_b.py"), *called("read", UNCHANGED, file_path="a_b.py")) == (
        "`a_b.py` is unchanged since I last read it."
    )


def test_a_prompt_that_is_only_a_paste_does_not_repeat_the_previous_answer() -> None:
    earlier = [user("read a.py"), *called("read", "     1\tx", file_path="a.py"), said_only("I read 1 line.")]
    assert told(*earlier, user("<pasted id=1>\nline 1\nline 2\n</pasted>")).startswith("I do not understand")


def said_only(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def test_a_step_that_was_announced_and_cut_before_its_call_is_made_after_all() -> None:
    request = user("read a.py then run `ls`")
    begun = [request, *called("read", "x", file_path="a.py"), said_only("Step 2 of 2: run `ls`.")]
    assert made(*begun, user("continue")) == [("bash", {"command": "ls"})]


def test_a_file_that_was_announced_and_cut_before_its_call_is_read_after_all() -> None:
    listed = called("bash", "./a.py\n./b.py\n2", command=listing())
    read = called("read", "x", file_path="./a.py")
    read[0]["content"][0]["id"] = read[1]["content"][0]["tool_use_id"] = "t2"
    read[0]["content"].insert(0, {"type": "text", "text": "Reading file 1 of 2: `./a.py`"})
    begun = [user("read every python file one by one"), *listed, *read]
    cut = [*begun, said_only("Reading file 2 of 2: `./b.py`")]
    assert made(*cut, user("continue")) == [("read", {"file_path": "./b.py"})]


def test_long_words_of_the_user_are_a_request_whatever_they_speak_of() -> None:
    text = f"read a.py, which has the summary of what was folded {'and more ' * 60}"
    assert made(user(text)) == [("read", {"file_path": "a.py"})]


def test_a_reply_that_was_cut_is_continued() -> None:
    begun = [user("read a.py"), said_only("I read")]
    assert made(*begun, user("Your reply was cut off at the output limit. Go on.")) == [
        ("read", {"file_path": "a.py"})
    ]
