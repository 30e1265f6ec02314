"""Commands and files are completed, and words that begin with a path are not a command."""

import subprocess
import time

from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from agent.ports import CommandSummary
from agent.typed_text import is_command
from agent.ui.completion import (
    CompletionSource,
    FileIndex,
    matching_paths,
    rank,
    word_before_cursor,
)
from tests.narrowing import present
from tests.tables import each_row

COMMANDS = [
    CommandSummary("help", "Show help"),
    CommandSummary("compact", "Make room"),
    CommandSummary("context", "Show the map"),
    CommandSummary("tokens", alias_of="context"),
]


@each_row(
    ("text", "command"),
    [
        ("/help", True),
        ("/compact keep the list", True),
        ("/usr/lib is slow", False),
        ("/tmp", False),
        ("/", False),
        ("/ x", False),
        ("help", False),
        ("/unknown", True),
        ("/compact keep\nthese lines", True),
        ("/two\nlines", False),
    ],
)
def test_what_is_a_command(text, command):
    assert is_command(text, exists={"/tmp", "/usr"}.__contains__) == command


@each_row(
    ("text", "words"),
    [
        ("/permissions ", ["mode", "allow"]),
        ("/permissions a", ["allow"]),
        ("/permissions allow", []),
        ("/permissions mode ", []),
        ("/allowed-tools m", ["mode"]),
        ("/help ", []),
        ("see /permissions ", []),
    ],
)
def test_the_first_word_behind_a_command_is_completed(tmp_path, text, words):
    rules = ("mode", "allow")
    named = [*COMMANDS, CommandSummary("permissions", words=rules)]
    named.append(CommandSummary("allowed-tools", alias_of="permissions", words=rules))
    source = CompletionSource(lambda: named, FileIndex(tmp_path))
    assert [each.text for each in source.get_completions(Document(text), CompleteEvent())] == words


def test_beginnings_rank_before_letters_in_order():
    assert rank("co", ["recode", "xcox", "compact", "context", "a-c-o"]) == [
        "compact",
        "context",
        "xcox",
        "recode",
        "a-c-o",
    ]
    assert rank("cmpct", ["compact", "context"]) == ["compact"]
    assert rank("zz", ["compact"]) == []


def test_the_name_of_a_file_counts_before_its_directories():
    assert rank("calc", ["recalculate/x", "src/calc.py", "calc/y"])[:2] == ["calc/y", "src/calc.py"]


def completed(words, text):
    return [item.text for item in words.get_completions(Document(text), CompleteEvent())]


def test_an_empty_slash_lists_commands_without_their_other_names(tmp_path):
    words = CompletionSource(lambda: COMMANDS, FileIndex(tmp_path))
    assert completed(words, "/") == ["/help", "/compact", "/context"]
    assert completed(words, "/to") == ["/tokens", "/context"] or completed(words, "/to") == ["/tokens"]
    assert completed(words, "/compact x") == []
    assert completed(words, "say /") == []


def test_files_are_listed_with_directories_and_without_ignored_ones(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").touch()
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "junk.js").touch()
    (tmp_path / "über maß.txt").touch()
    found = run(FileIndex(tmp_path).names())
    assert {"src/", "src/a.py", "über maß.txt"} <= set(found)
    assert not any("junk" in name for name in found)


def test_a_mention_runs_nothing_that_the_project_names(tmp_path):
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / "a.py").touch()
    spy = tmp_path / "spy"
    spy.write_text(f"#!/bin/sh\nenv > {tmp_path}/stolen\n")
    spy.chmod(0o755)
    with (repository / ".git" / "config").open("a") as config:
        config.write(f"[core]\n\tfsmonitor = {spy}\n")
    words = CompletionSource(lambda: COMMANDS, FileIndex(repository))

    async def complete():
        return [item.text async for item in words.get_completions_async(Document("see @a"), CompleteEvent())]

    assert run(complete()) == ["a.py "]
    assert not (tmp_path / "stolen").exists()


def test_a_mention_outside_of_the_project_is_completed_directory_by_directory(tmp_path):
    (tmp_path / "beside" / "notes").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    words = CompletionSource(lambda: COMMANDS, FileIndex(tmp_path / "project"))

    async def complete(text):
        return [item.text async for item in words.get_completions_async(Document(text), CompleteEvent())]

    assert run(complete("see @../be")) == ["../beside/"]
    assert run(complete(f"see @{tmp_path}/beside/n")) == [f"{tmp_path}/beside/notes/"]


def test_a_quoted_mention_is_completed_within_and_behind_its_quotes(tmp_path):
    (tmp_path / "odd names").mkdir()
    (tmp_path / "odd names" / "a b.txt").touch()
    (tmp_path / "odd names" / "plain.txt").touch()
    words = CompletionSource(lambda: COMMANDS, FileIndex(tmp_path))

    async def complete(text):
        asked = words.get_completions_async(Document(text), CompleteEvent())
        return [text[: len(text) + item.start_position] + item.text async for item in asked]

    assert run(complete("see @odd"))[0] == 'see @"odd names/"'
    for typed in ('see @"odd names/"a', 'see @"odd names/a', 'see @"odd names/a b.txt"'):
        assert run(complete(typed))[0] == 'see @"odd names/a b.txt" ', typed
    assert run(complete('see @"odd names/a b.txt" and')) == []


def test_names_that_users_cannot_see_are_not_offered(tmp_path):
    for name in ("note\n.txt", "no\x1b[31m.txt", "no\u202etxt.exe", "nose.txt"):
        (tmp_path / name).touch()
    assert [*run(FileIndex(tmp_path).names())] == ["nose.txt"]
    assert matching_paths("no", tmp_path, shell=True) == ["nose.txt"]


def test_tab_behind_a_long_line_answers_at_once(tmp_path):
    began = time.process_time()
    assert word_before_cursor("a" * 200_000 + " no") == "no"
    assert time.process_time() - began < 1  # 40 s where each letter is tried as the first of the word


def test_the_list_is_kept_for_a_while_and_then_created_again(tmp_path):
    now = [0.0]
    files = FileIndex(tmp_path, lambda: now[0])

    async def see():
        first = await files.names()
        (tmp_path / "new.txt").touch()
        second = await files.names()
        now[0] = 60.0
        await files.names()
        await present(files._task)
        return first, second, await files.names()

    first, second, third = run(see())
    assert [*first] == [*second] == []
    assert [*third] == ["new.txt"]


def run(awaitable):
    import asyncio

    async def main():
        return await awaitable

    return asyncio.run(main())


@each_row(
    ("line", "found"),
    [
        ("!cat no", ["notes.txt"]),
        ("!cat sub/", ["sub/a\\ b.py"]),
        ("!cat sub/a\\ b", ["sub/a\\ b.py"]),
        ("!cat ", ["notes.txt", "sub/"]),
        ("!no", ["notes.txt"]),
        ("!ls .h", [".hidden"]),
        ("see sub/a", ["sub/a b.py"]),
        ("see nowhere/x", []),
        ("see ", []),
    ],
)
def test_tab_completes_the_word_before_the_cursor_as_a_path(tmp_path, line, found):
    (tmp_path / "sub").mkdir()
    for name in ("notes.txt", ".hidden", "sub/a b.py"):
        (tmp_path / name).touch()
    words = CompletionSource(lambda: COMMANDS, FileIndex(tmp_path))

    async def complete(event):
        return [item.text async for item in words.get_completions_async(Document(line), event)]

    assert run(complete(CompleteEvent(completion_requested=True))) == found
    assert run(complete(CompleteEvent(text_inserted=True))) == []


def test_an_absolute_path_is_completed_too(tmp_path):
    (tmp_path / "deep").mkdir()
    assert matching_paths(f"{tmp_path}/de", tmp_path / "deep", shell=False) == [f"{tmp_path}/deep/"]
