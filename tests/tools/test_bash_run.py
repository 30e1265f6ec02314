"""Output of a command is bounded, complete where it is kept, harmless and exact."""

import asyncio
import codecs
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.narrowing import present
from tests.sampling import UNICODE, sampled, scaled
from tests.tables import each_row
from tools.base import ToolError
from tools.bash import BashArguments, required_access
from tools.processes import (
    CommandLimits,
    CommandRequest,
    HostQuestions,
    OwnCommandEnd,
    ProgressThrottle,
    Spool,
    command_runner,
    run_foreground,
    run_own_command,
)
from tools.processes.foreground import CommandEnd
from tools.processes.host_questions import program_name
from tools.sandbox import BlockedAccess, UnblockDecision
from transcripts import Display

from .bash_session import GUARD_S, BashSession, text

BASH_PROCESS = Path(__file__).with_name("bash_process.py")


FLOODS = {
    "ten gigabytes on one line": "head -c 10G /dev/zero | tr '\\0' x",
    "yes": "yes",
    "zeros": "cat /dev/zero",
    "random": "base64 /dev/urandom",
}


@pytest.mark.parametrize("limit", scaled(8 << 20, 50 << 20))
@pytest.mark.parametrize("command", sampled(FLOODS.values(), 4), ids=FLOODS)
def test_a_flood_is_stopped_at_the_limit_and_memory_stays_small(
    tmp_path: Path, command: str, limit: int
) -> None:
    argv = [sys.executable, str(BASH_PROCESS), str(tmp_path), "namespace", "60000", command]
    done = subprocess.run(
        argv,
        env={**os.environ, "OUTPUT_BYTES": str(limit)},
        capture_output=True,
        text=True,
        timeout=2 * GUARD_S,
        check=True,
    )
    line = json.loads(done.stdout.splitlines()[1])
    assert f"[killed at the output limit of {limit:,} bytes." in line["text"]
    assert len(line["text"]) <= 30_000
    assert line["grown"] * 1024 < limit
    assert (tmp_path / ".task_outputs" / "session-0.0.txt").stat().st_size == limit


def test_a_long_output_keeps_its_head_and_tail_and_the_file_has_all_of_it(shell: BashSession) -> None:
    result = shell.run("seq 100000")
    said = text(result)
    assert said.startswith("1\n2\n3\n")
    assert said.endswith("\n99999\n100000")
    assert len(said) <= 30_000
    stored = result.stored
    assert stored is not None
    assert f"all of it (100,000 lines, {stored.size:,} bytes) is in {stored.path}" in said
    kept = (shell.folder / stored.path).read_bytes()
    assert kept == b"".join(b"%d\n" % number for number in range(1, 100_001))
    assert stored.sha256 == hashlib.sha256(kept).hexdigest()
    assert (shell.folder / stored.path).stat().st_mode & 0o777 == 0o600
    assert (shell.folder / ".task_outputs").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("command", "last"), [("seq 20000", 20_000), ("seq 100000; printf end", 100_001)])
def test_a_user_gets_whole_lines_and_the_number_of_hidden_lines_above(
    shell: BashSession, command: str, last: int
) -> None:
    result = shell.run(command)
    assert result.stored is not None
    output = present(result.human.text)
    shown = output.splitlines()
    assert len(output) <= 10_000 and int(shown[0]) == last - len(shown) + 1
    assert result.human.above == last - len(shown) and result.human.file == result.stored.path


def test_what_has_no_file_is_whole_for_a_user_too(shell: BashSession) -> None:
    result = shell.run("seq 5000")
    assert result.stored is None and result.human == Display(text=f"{text(result)}\n")
    one_line = shell.run("head -c 40000 /dev/zero | tr '\\0' x").human
    assert one_line.text == "…" + "x" * 10_000 and one_line.above == 0 and one_line.file


def test_how_much_of_an_output_is_shown_may_be_set_as_for_claude_code(shell: BashSession) -> None:
    shell.context.environ = {**shell.context.environ, "BASH_MAX_OUTPUT_LENGTH": "40000"}
    assert len(shell.say("seq 8000")) == 38_892
    shell.context.environ = {**shell.context.environ, "BASH_MAX_OUTPUT_LENGTH": "1000"}
    said = shell.say("seq 8000")
    assert len(said) < 1_200 and "the middle is omitted" in said
    shell.context.environ = {**shell.context.environ, "BASH_MAX_OUTPUT_LENGTH": "many"}
    assert len(shell.say("seq 8000")) < 30_000


@pytest.mark.parametrize("size", [29_999, 30_000, 30_001, 131_072, 131_073, 400_000, 600_000])
def test_sizes_around_every_limit_lose_nothing_of_the_file(shell: BashSession, size: int) -> None:
    result = shell.run(f"head -c {size} /dev/zero | tr '\\0' x")
    if size <= 30_000:
        assert text(result) == "x" * size
        assert result.stored is None
        assert not (shell.folder / ".task_outputs").exists()
    else:
        assert result.stored is not None
        assert (shell.folder / result.stored.path).read_bytes() == b"x" * size
        assert len(text(result)) <= 30_000


def test_colours_do_not_count_and_leave_no_file(shell: BashSession) -> None:
    bar = "for i in {1..3000}; do printf '\\033[31m%s\\033[0m%0100d\\r' $i 0; done"
    result = shell.run(f"{bar}; seq 20000 | tr -d '0-9\\n'")
    assert len(text(result)) < 200
    assert result.stored is None
    assert not list((shell.folder / ".task_outputs").glob("*.txt"))


def test_an_output_that_cannot_be_kept_is_still_shown(shell: BashSession) -> None:
    (shell.folder / ".task_outputs").write_text("in the way")
    result = shell.run("seq 100000")
    assert text(result).endswith("\n100000")
    assert "no file could be kept: File exists" in text(result)
    assert result.stored is None


def test_no_result_of_another_call_is_overwritten(shell: BashSession) -> None:
    first = shell.run("seq 10000")
    shell.count = 0
    second = shell.run("seq 10001 20000")
    assert first.stored and second.stored
    assert first.stored.path != second.stored.path
    assert (shell.folder / first.stored.path).read_bytes().startswith(b"1\n")


def test_binary_output_is_named_not_shown(shell: BashSession) -> None:
    few = shell.run("head -c 9 /dev/zero; printf 'PNG\\n\\x89'")
    assert few.stored is not None
    shown = "\\x00" * 9 + "PNG\n\\x89"
    assert text(few) == f"{shown}\n[binary output, 14 bytes, kept in {few.stored.path}]"
    for size in (2_000, 40_000, 200_000):
        # The same bytes in each run: now and then others look like a secret, which is masked.
        (shell.folder / "data").write_bytes(Random(1).randbytes(size))
        large = shell.run("cat data")
        assert large.stored is not None
        assert text(large) == f"[binary output, {size:,} bytes, kept in {large.stored.path}]"
        assert (shell.folder / large.stored.path).stat().st_size == size


def test_names_between_nul_bytes_are_not_binary(shell: BashSession) -> None:
    shell.run("touch 'a file' 'another file'")
    assert shell.say("find . -type f -print0 | sort -z") == "./a file\u2400./another file\u2400"


@pytest.mark.parametrize("offset", range(4))
@pytest.mark.parametrize("size", sampled([65_536, 4096, 262_144], 3))
def test_characters_that_lie_across_a_boundary_stay_whole(shell: BashSession, size: int, offset: int) -> None:
    (shell.folder / "wide").write_text("x" * (size - offset) + "\U0001f600\u20ac\u00e9" * 8)
    said = shell.say("cat wide")
    assert said.endswith("\U0001f600\u20ac\u00e9" * 8)
    assert "\ufffd" not in said


def test_bytes_that_are_not_text_are_replaced_and_the_result_is_valid_json(shell: BashSession) -> None:
    said = shell.say(
        "printf 'caf\\xe9 \\xed\\xa0\\x80 \\x81 ok and more text to be mostly text here and there'"
    )
    assert said.startswith(r"caf\xe9 \xed\xa0\x80 \x81 ok and more text to be mostly text here and there")
    assert "shown as \\xNN (unknown encoding), kept in .task_outputs/" in said
    assert json.loads(json.dumps(said).encode("utf-8")) == said


LEGACY = {
    "cp1252": "Größe geändert: à côté\n",
    "cp1251": "ошибка: файл не найден\n",
    "cp932": "ファイルが見つかりません\n",
    "gb18030": "系统找不到指定的文件。\n",
    "": "",
}


@pytest.mark.parametrize("codec", LEGACY)
def test_output_in_a_legacy_encoding_is_read_or_escaped_and_its_bytes_are_kept(
    shell: BashSession, codec: str
) -> None:
    data = LEGACY[codec].encode(codec) if codec else b"caf\xe9\n"
    (shell.folder / "f").write_bytes(data)
    result = shell.run("cat f")
    assert result.stored is not None and (shell.folder / result.stored.path).read_bytes() == data
    said = text(result)
    assert said.startswith(LEGACY[codec].strip() if codec else "caf\\xe9\n")
    assert (f"decoded as {codec} (a guess)" if codec else "[binary output, 5 bytes") in said
    assert "�" not in present(result.human.text)


def test_a_time_limit_over_the_maximum_is_reported_to_be_cut(shell: BashSession) -> None:
    assert shell.say("echo a", timeout=900_000).startswith("a\n[timeout was reduced to 600000, the maximum;")
    assert shell.say("echo a", timeout=600_000) == "a"
    assert "timeout is ignored for background commands" in shell.say(
        "true", timeout=900_000, run_in_background=True
    )


def test_live_output_never_shows_half_a_character() -> None:
    shown: list[str] = []
    data = "\U0001f600 \u20ac \u00e9 ".encode() * 3000

    async def feed() -> None:
        show = ProgressThrottle(shown.append)
        for start in range(0, len(data), 7):
            show.take(data[start : start + 7])
            if start % 49 == 0:
                show._flush()
        show._flush()
        show.stop()

    asyncio.run(feed())
    assert "".join(shown) == data.decode()


def test_live_output_is_shown_while_the_command_runs_and_is_bounded(shell: BashSession) -> None:
    """The command ends once its last line was shown; were it not, the wait would end at the limit."""

    class Watched(list[str]):
        def append(self, shown: str) -> None:
            super().append(shown)
            if "tick" in shown:
                (shell.folder / "seen").touch()

    shell.shown = Watched()
    result = shell.run(
        "yes 0123456789 | head -c 6M; echo tick; while [ ! -e seen ]; do sleep 0.02; done", timeout=60_000
    )
    assert dict(result.about) == {"exit": 0}
    assert max(map(len, shell.shown)) <= 8192
    assert sum(map(len, shell.shown)) < 6 * 1024**2 / 4


ATTACKS = [
    "\\033[31mred\\033[0m",
    "\\033]0;title\\007",
    "\\033]52;c;aGk=\\007",
    "\\033]8;;http://evil\\033\\\\link\\033]8;;\\033\\\\",
    "\\033P1$r\\033\\\\",
    "\\007\\007",
    "\\x9b31m",
    "\\033[2J\\033[H",
]


def unsafe(code: int) -> bool:
    return (code < 32 and chr(code) not in "\n\t") or 127 <= code < 160


@pytest.mark.parametrize("attack", ATTACKS)
def test_control_sequences_reach_neither_the_model_nor_the_terminal(shell: BashSession, attack: str) -> None:
    result = shell.run(f"printf 'before {attack} after\\n'")
    assert text(result).startswith("before ")
    assert text(result).partition("\n[some bytes")[0].endswith(" after")
    for shown in (text(result), present(result.human.text)):
        assert "␛" not in shown
        assert not [char for char in shown if unsafe(ord(char))]


def test_users_see_colours_and_links_of_an_output_as_plain_text_and_what_is_hidden_by_name(
    shell: BashSession,
) -> None:
    line = "printf '\\e[1;31mred\\e[0m \\e]8;;http://x\\e\\\\link\\e]8;;\\e\\\\ N\\bNA\\bA \\u202e\\a'"
    assert shell.run(line).human.text == "red link NA U+202E␇"


def test_a_progress_bar_is_left_in_its_final_state(shell: BashSession) -> None:
    result = shell.run("for i in 10 50 100; do printf '\\rdone %3d%%' $i; done; echo")
    assert (text(result), result.human.text) == ("done 100%", "done 100%\n")
    long = shell.run("for i in {1..90000}; do printf '\\rdone %6d' $i; done; echo; echo ok")
    assert long.human.text == "done  90000\nok\n" and long.human.file, "its beginning is not in memory"


def test_stdout_and_stderr_come_in_the_order_they_were_written(shell: BashSession) -> None:
    said = shell.say("for i in {1..500}; do echo out $i; echo err $i >&2; done")
    assert said.split("\n") == [f"{name} {number}" for number in range(1, 501) for name in ("out", "err")]


def test_a_flood_on_stderr_is_bounded_too(shell: BashSession) -> None:
    shell.limit(output_bytes=1_000_000)
    assert "[killed at the output limit of 1,000,000 bytes" in shell.say("yes >&2")


def test_a_reader_that_leaves_early_ends_its_writer(shell: BashSession) -> None:
    assert shell.say("yes | head -n 2; echo ${PIPESTATUS[@]}") == "y\ny\n141 0"


def test_variables_functions_and_options_do_not_outlive_a_command(shell: BashSession) -> None:
    shell.run("export LEFT=1 PATH=/nowhere; f() { :; }; alias g=ls; set -f; umask 000")
    assert (
        shell.say('echo "${LEFT-gone}$(type -t f g)"; ls / >/dev/null && echo found; echo *')
        == "gone\nfound\n*"
    )


def test_disk_that_a_command_uses_up_is_reported(shell: BashSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a separate disk, since writes of other processes must not count."""

    def free_bytes(folder: Path, unknown: int = 0) -> int:
        return 10**12 - sum(path.stat().st_size for path in folder.iterdir() if path.is_file())

    monkeypatch.setattr("tools.processes.foreground._free_bytes", free_bytes)
    assert "[free disk space shrank by 2.1 GB during this command]" in shell.say("truncate -s 2G big")
    assert "less disk" not in shell.say("truncate -s 1000M other")
    assert "less disk" not in shell.say("rm big")


def test_every_exit_code_is_exact(shell: BashSession) -> None:
    async def all_codes() -> None:
        for code in range(256):
            result = await shell.arun(f"exit {code}")
            assert dict(result.about) == {"exit": code}
            assert result.error == (code != 0)
            assert text(result) == (f"[exit code {code}]" if code else "[no output]")

    shell.runner.run(all_codes())


STOPPING = {"SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU"}


def reset_signals() -> None:
    """Reset signals that the shell which started the tests may have disabled, as for a background job."""
    for sign in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(sign, signal.SIG_DFL)


def test_every_signal_is_reported_as_a_bare_bash_would_end(shell: BashSession) -> None:
    for sign in signal.Signals:
        if sign.name in STOPPING:
            continue
        command = f"ulimit -c 0; kill -{sign.value} $$"
        bare = subprocess.run(["bash", "-c", command], cwd=shell.folder, preexec_fn=reset_signals).returncode
        result = shell.run(command)
        if bare < 0:
            assert result.about == {"exit": 128 + sign.value, "signal": sign.name}
            assert text(result) == f"[exit code {128 + sign.value}: killed by {sign.name}]"
        else:
            assert result.about == {"exit": bare}


def test_not_found_not_executable_and_a_killed_child_are_as_bash_says(shell: BashSession) -> None:
    assert shell.say("no-such-command") == "bash: line 1: no-such-command: command not found\n[exit code 127]"
    assert shell.run("touch f; ./f").about == {"exit": 126}
    assert shell.run("bash -c 'kill -9 $$'").about == {"exit": 137}
    assert shell.run("if").about == {"exit": 2}


def test_without_bash_the_error_names_what_to_do(shell: BashSession) -> None:
    programs = shell.folder.parent / f"{shell.folder.name}-bin"
    programs.mkdir()
    shell.context.environ = {**shell.context.environ, "PATH": str(programs)}
    if Path("/bin/bash").exists():
        (programs / "bash").write_text("#!/no/such/interpreter\n")
        (programs / "bash").chmod(0o755)
    with pytest.raises(ToolError, match="install it"):
        shell.run("true")


def test_no_bash_of_the_project_runs_a_command(shell: BashSession) -> None:
    """A sandboxed command may have written it, and approved commands run outside."""
    planted = shell.folder / ".venv" / "bin" / "bash"
    planted.parent.mkdir(parents=True)
    planted.write_text(f"#!/bin/sh\ntouch {shell.folder}/ran\n")
    planted.chmod(0o755)
    shell.context.environ = {**shell.context.environ, "PATH": f"{planted.parent}:{os.environ['PATH']}"}
    assert text(shell.run("echo fine; type -P bash")) == f"fine\n{planted}"

    async def own() -> OwnCommandEnd:
        runner = command_runner(shell.context)
        try:
            return await run_own_command(runner, "echo fine", "", variables={}, sandboxed=False)
        finally:
            await runner.close()

    assert asyncio.run(own()) == OwnCommandEnd(0, out="fine\n", err="")
    assert not (shell.folder / "ran").exists()


@pytest.mark.parametrize(
    ("command", "fine"),
    [
        ("grep -q x /dev/null", True),
        ("true | grep x", True),
        ("LC_ALL=C egrep x /dev/null", True),
        ("cd . && diff <(echo a) <(echo b)", True),
        ("test 1 = 2", True),
        ("[ 1 = 2 ]", True),
        ("[[ 1 = 2 ]]", True),
        ("cmp -s /dev/null /etc/passwd", True),
        ("git grep -q x 2>/dev/null; false", False),
        ("grep x /dev/null; false", False),
        ("grep x /no/such/file", False),
        ("false", False),
        ("echo 'x | grep y'; false", False),
    ],
)
def test_a_status_that_is_an_answer_is_not_an_error(shell: BashSession, command: str, fine: bool) -> None:
    result = shell.run(command)
    assert result.error is not fine
    assert f"[exit code {result.about['exit']}]" in text(result)


def test_a_nul_byte_is_refused_before_anything_runs(shell: BashSession) -> None:
    for ask in (
        lambda: shell.run("touch f\0"),
        lambda: required_access(BashArguments(command="a\0"), shell.context),
    ):
        with pytest.raises(ToolError, match="NUL"):
            ask()
    assert not (shell.folder / "f").exists()


def test_half_a_surrogate_pair_is_refused(shell: BashSession) -> None:
    with pytest.raises(ToolError, match="surrogate"):
        shell.run("echo \ud800")


@pytest.mark.parametrize("size", [90_000, 100_000, 131_071, 131_072, 200_000, 3_000_000])
def test_a_command_of_any_length_runs(shell: BashSession, size: int) -> None:
    head = "printf %s '"
    tail = "' | wc -c; cd sub; exit 7"
    shell.run("mkdir sub")
    result = shell.run(head + "x" * (size - len(head) - len(tail)) + tail)
    assert text(result) == f"{size - len(head) - len(tail)}\n[exit code 7]\n[cwd: sub]"
    assert shell.context.cwd == shell.folder / "sub"


def test_line_ends_of_another_world_are_normalised_before_the_check_and_the_run(shell: BashSession) -> None:
    command = "echo one\r\ncat <<EOF\r\ntwo\r\nEOF\r\n"
    (access,) = required_access(BashArguments(command=command), shell.context)
    assert (access.kind, access.target) == ("run", "echo one\ncat <<EOF\ntwo\nEOF\n")
    assert shell.say(command) == "one\ntwo"


@pytest.mark.parametrize("examples", [10, pytest.param(400, marks=pytest.mark.sweep)])
def test_the_string_that_is_judged_is_the_string_that_runs(shell: BashSession, examples: int) -> None:
    """bash is asked for the command it was given; it exits before it comes to the rest."""

    @given(st.text(UNICODE.filter(lambda each: each != "\0"), max_size=400))
    @settings(max_examples=examples, deadline=None)
    def the_judged_string_runs(rest: str) -> None:
        command = f'printf %s "$BASH_EXECUTION_STRING" >ran; exit\n{rest}'
        (access,) = required_access(BashArguments(command=command), shell.context)
        shell.run(command)
        assert (shell.folder / "ran").read_bytes() == access.target.encode()

    the_judged_string_runs()


def test_commands_have_the_usual_signals_though_python_ignores_some(shell: BashSession) -> None:
    assert shell.say("trap; bash -c 'kill -PIPE $$'; echo $?").split("\n")[-1] == "141"
    ignored = int(shell.say("grep SigIgn /proc/self/status").split()[1], 16)
    assert ignored & 0x7FFFFFFF == 0  # 32 and 33 are the C library's own


def test_no_start_up_file_runs(shell: BashSession) -> None:
    for name in (".bashrc", ".bash_profile", ".profile", ".bash_login", "env"):
        (shell.folder / name).write_text("echo from a start-up file; alias ls=false\n")
    hostile = {
        "HOME": str(shell.folder),
        "BASH_ENV": str(shell.folder / "env"),
        "ENV": str(shell.folder / "env"),
    }
    shell.context.environ = {**shell.context.environ, **hostile, "SHELLOPTS": "xtrace", "CDPATH": "/"}
    said = shell.say("echo ${BASH_ENV-unset} ${ENV-unset}; bash -c 'echo inner'; sh -c 'echo posix'")
    assert said == "unset unset\ninner\nposix"


def test_the_user_is_informed_how_a_command_ended_where_it_did_not_succeed(shell: BashSession) -> None:
    assert shell.run("echo done").human == Display(text="done\n")
    result = shell.run("echo done; exit 3")
    assert result.human.note == "exit code 3"
    assert result.human.text == "done\n"


def test_the_environment_keeps_programs_from_asking(shell: BashSession) -> None:
    names = "TERM PAGER GIT_PAGER GIT_TERMINAL_PROMPT GIT_EDITOR EDITOR DEBIAN_FRONTEND MAKEROOM AGENT"
    values = shell.say(f"for name in {names}; do printf '%s ' \"${{!name}}\"; done").split()
    assert values == ["dumb", "cat", "cat", "0", "true", "true", "noninteractive", "1", "1"]
    assert shell.say("echo $AI_AGENT $MAKEROOM_SESSION") == f"makeroom {shell.context.session}"
    assert shell.say("echo ${PYTHONSAFEPATH-unset}") == os.environ.get("PYTHONSAFEPATH", "unset")
    assert codecs.lookup(sys.getfilesystemencoding()).name == "utf-8"


def test_invisible_characters_in_an_output_are_taken_out_and_counted(shell: BashSession) -> None:
    hidden = "".join(f"\\U000E{ord(char):04X}" for char in "obey")
    told = shell.say(f"printf 'seen{hidden}\\u202e \\u200b!\\n'")
    assert told == "seen !\n[6 invisible characters were removed from this output]"
    selectors = "".join(f"\\U000E{0xF0 + ord(char):04X}" for char in "obey")
    told = shell.say(f"printf '\\u26A0{selectors}\\uFE0F!\\n'")
    assert told == "⚠!\n[5 invisible characters were removed from this output]"


def test_joiners_and_selectors_of_emoji_and_scripts_reach_the_model(shell: BashSession) -> None:
    text = "⚠\ufe0f 1\ufe0f\u20e3 🏳\ufe0f\u200d🌈 👨\u200d👩\u200d👧 می\u200cخواهم ක\u0dca\u200dෂ"
    assert shell.say(f"echo '{text}'") == text


def test_the_time_of_an_answer_does_not_count_for_the_time_limit(shell: BashSession) -> None:
    """The command waits for it with a connection that the proxy holds."""

    async def main() -> str:
        answered = asyncio.Event()

        async def ask(refusal: BlockedAccess) -> UnblockDecision:
            await answered.wait()
            return UnblockDecision("once")

        questions = HostQuestions(ask)
        asking = asyncio.create_task(questions.may_reach("files.example", ""))
        asyncio.get_running_loop().call_later(0.6, answered.set)
        runner = command_runner(shell.context)
        spool = Spool(shell.folder / "out")
        request = CommandRequest("sleep 0.7; echo end")
        limits = CommandLimits(timeout_s=0.3)
        end = await run_foreground(
            runner, request, spool, limits, ProgressThrottle(lambda text: None), questions.waited_s
        )
        assert await asking and questions.denied("files.example") is None
        assert (end.why, end.code) == ("", 0) and end.took_s < 0.6
        return spool.tail(100).decode()

    assert shell.runner.run(main()) == "end\n"


def test_a_command_that_ends_while_makeroom_is_stopped_has_not_timed_out(shell: BashSession) -> None:
    """As by Ctrl-Z, its time is up when the wait for events is interrupted, and they are read too late."""

    def stop(number: int, frame: object) -> None:
        subprocess.run(["sleep", "1.2"], check=True)

    async def main() -> CommandEnd:
        runner = command_runner(shell.context)
        await runner.supervisor()
        soon = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))

        def begin(shown: str) -> None:
            if soon.ident is None:
                soon.start()

        request = CommandRequest("echo begun; sleep 0.4")
        spool = Spool(shell.folder / "out")
        limits = CommandLimits(timeout_s=1.0)
        return await run_foreground(runner, request, spool, limits, ProgressThrottle(begin))

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        end = shell.runner.run(main())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (end.why, end.code) == ("", 0) and end.took_s > 1.0


@each_row(
    ("words", "name"),
    [
        (("/usr/bin/curl", "-s", "a.example"), "curl"),
        (("/usr/bin/python3.11", "/p/src/setup.py", "install"), "python3.11 setup.py"),
        (("/usr/bin/python3", "-m", "pip", "install"), "python3 -m pip"),
        (("/usr/bin/node", "-e", "1"), "node"),
        (("/p/bin/curl",), "bin/curl"),
        (("/tmp/curl",), "/tmp/curl"),
        (("/var/tmp/a/curl",), "/var/tmp/a/curl"),
        (("/dev/shm/curl",), "/dev/shm/curl"),
        (("/bin/sh", "a\x1b[2Jb"), "sh"),
        ((), ""),
    ],
)
def test_a_program_that_connects_has_a_short_name(words: tuple[str, ...], name: str) -> None:
    assert program_name(words, "/p") == name
