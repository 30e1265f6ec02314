"""grep and glob see what git does not ignore, page what they find, and end whatever the pattern does."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.sampling import sampled
from tests.tables import each_row
from tools import glob, grep, read
from tools.base import Access, Tool, ToolCall, ToolError, ToolResult
from tools.files import FileError
from tools.processes import command_runner
from tools.search import engine, regex_search
from tools.search.found_lines import FoundReader

from .bash_session import BashSession, text

FILES = {
    "src/app.py": "import os\n\ndef run():\n    return 'needle'\n",
    "src/deep/util.ts": "export const needle = 1\r\n// Needle\r\n",
    "docs/guide.md": "# Guide\nno such thing\n",
    "build/out.py": "needle\n",
    ".github/ci.yml": "run: needle\n",
    ".env": "KEY=needle\n",
    ".transcripts/s.jsonl": "needle\n",
    ".task_outputs/o.txt": "needle\n",
    "data.bin": "\0needle\n",
    "caf\u00e9.txt": "needle\n",
    ".gitignore": "build/\n",
    ".git/config": "needle\n",
}
ENGINES = ("ripgrep", "python") if shutil.which("rg") else ("python",)


@pytest.fixture
def project(shell: BashSession, monkeypatch: pytest.MonkeyPatch) -> BashSession:
    monkeypatch.setattr("tools.search.program.OWN_PROGRAMS", str(shell.folder))
    for name, content in FILES.items():
        path = shell.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
        os.utime(path, (1_000_000_000, 1_000_000_000 + len(content)))
    return shell


@pytest.fixture(params=sampled(ENGINES, 2))
def searched(project: BashSession, request: pytest.FixtureRequest) -> BashSession:
    """The project, searched by either engine; only one test compares both in the gate."""
    if request.param == "python":
        hide_ripgrep(project)
    return project


def hide_ripgrep(project: BashSession) -> None:
    project.context.environ = {**project.context.environ, "PATH": str(project.folder)}


def do(session: BashSession, tool: Tool, **given: Any) -> ToolResult:
    """Judge and run one call, as the executor does."""
    arguments = tool.parse(given)
    tool.access(arguments, session.context)
    return run_parsed(session, tool, arguments)


def run_parsed(session: BashSession, tool: Tool, arguments: Any) -> ToolResult:
    async def running() -> ToolResult:
        return await tool.run(arguments, ToolCall(session.context))

    return session.runner.run(running())


def found(session: BashSession, pattern: str, **given: Any) -> list[str]:
    return text(do(session, grep.TOOL, pattern=pattern, **given)).splitlines()


def globbed(session: BashSession, pattern: str, **given: Any) -> list[str]:
    return text(do(session, glob.TOOL, pattern=pattern, **given)).splitlines()


@pytest.mark.skipif(len(ENGINES) == 1, reason="there is no ripgrep here")
def test_a_file_that_becomes_a_link_to_a_secret_is_not_searched(
    project: BashSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A command in the background may exchange it after it was listed, as this ripgrep does."""
    home = tmp_path_factory.mktemp("home").resolve()
    key, exchanging = home / ".ssh/id_rsa", home / "bin/rg"
    for file in (key, exchanging):
        file.parent.mkdir()
    key.write_text("needle of the key\n")
    exchanging.write_text(f'#!/bin/sh\nln -sf {key} README\nexec {shutil.which("rg")} "$@"\n')
    exchanging.chmod(0o755)
    (project.folder / "README").write_text("needle\n")
    path = f"{exchanging.parent}:{os.environ['PATH']}"
    project.context.environ = {**project.context.environ, "HOME": str(home), "PATH": path}
    level, _ = project.runner.run(command_runner(project.context).sandbox())
    if level == "none":
        pytest.skip("there is no sandbox here")
    shown = found(project, "needle", path="README", output_mode="content")
    assert "of the key" not in str(shown)
    assert (project.folder / "README").is_symlink()


def test_a_directory_that_becomes_a_link_after_it_was_judged_is_not_listed(
    project: BashSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    hide_ripgrep(project)  # and git, which lists from within the sandbox
    outside = tmp_path_factory.mktemp("outside")
    (outside / "key.txt").touch()
    listed = project.folder / "listed"
    for tool, given in (
        (read.TOOL, {"file_path": "listed"}),
        (glob.TOOL, {"path": "listed", "pattern": "*"}),
    ):
        listed.mkdir()
        arguments = tool.parse(given)
        assert not tool.access(arguments, project.context)[0].outside
        listed.rmdir()
        listed.symlink_to(outside)
        with suppress(FileError, ToolError):
            assert "key.txt" not in text(run_parsed(project, tool, arguments))
        listed.unlink()


@pytest.mark.skipif(len(ENGINES) == 1, reason="there is no ripgrep here")
def test_both_engines_find_the_same(project: BashSession) -> None:
    (project.folder / "old.txt").write_bytes("caf\u00e9 needle\n".encode("cp1252"))
    (project.folder / "wide.txt").write_bytes("a needle\n".encode("utf-16"))
    searches: list[dict[str, Any]] = [
        {"pattern": "needle"},
        {"pattern": "NEEDLE", "-i": True, "output_mode": "content", "-C": 1},
        {"pattern": "needle", "output_mode": "count"},
        {"pattern": r"run\(\):\s+return", "multiline": True, "output_mode": "content"},
        {"pattern": "needle", "glob": "*.ts", "output_mode": "content"},
        {"pattern": "caf\u00e9", "output_mode": "content"},
    ]
    by_ripgrep = [sorted(found(project, **given)) for given in searches]
    hide_ripgrep(project)
    assert [sorted(found(project, **given)) for given in searches] == by_ripgrep


def test_the_files_that_match_are_named_and_nothing_ignored_or_secret(searched: BashSession) -> None:
    names = {"src/app.py", "src/deep/util.ts", ".github/ci.yml", "café.txt"}
    result = do(searched, grep.TOOL, pattern="needle")
    assert set(text(result).splitlines()) == names
    assert (result.about, result.human.note) == ({"files": 4}, "4 files")
    (searched.folder / "build/.gitignore").write_text("*")
    assert found(searched, "needle", path="build") == ["build/out.py"]
    assert found(searched, "needle", path=".env") == [".env"]
    assert found(searched, "needle", path=".task_outputs/o.txt") == [".task_outputs/o.txt"]


def test_hard_links_to_files_with_secrets_are_left_out_unless_they_are_named(project: BashSession) -> None:
    for name, linked in ((".env", "notes.log"), ("plain.log", "twin.log")):
        (project.folder / name).write_text("rare\n")
        (project.folder / linked).hardlink_to(project.folder / name)
    ordinary = ["plain.log", "twin.log"]
    assert sorted(globbed(project, "*.log")) == ordinary
    assert sorted(found(project, "rare")) == sorted(found(project, "rare", glob="*.log")) == ordinary
    assert found(project, "rare", path="notes.log") == ["notes.log"]
    (judged,) = grep.TOOL.access(grep.TOOL.parse({"pattern": "x", "path": "notes.log"}), project.context)
    assert judged.protected


def test_lines_come_with_number_context_and_in_any_letter_case(searched: BashSession) -> None:
    shown = found(searched, "needle", output_mode="content", glob="*.{py,ts}", **{"-i": True, "-n": True})
    assert shown == [
        "src/app.py:4:    return 'needle'",
        "src/deep/util.ts:1:export const needle = 1",
        "src/deep/util.ts:2:// Needle",
    ]
    around = found(searched, "def run", output_mode="content", **{"-C": 1})
    assert around == ["src/app.py-2-", "src/app.py:3:def run():", "src/app.py-4-    return 'needle'"]
    after = found(searched, "import|def run", output_mode="content", **{"-A": 0, "-B": 1, "-n": False})
    assert after == ["src/app.py:import os", "src/app.py-", "src/app.py:def run():"]
    result = do(searched, grep.TOOL, pattern="needle", output_mode="count", path="src")
    assert text(result).splitlines() == ["src/app.py:1", "src/deep/util.ts:1"]
    assert (result.about, result.human.note) == ({"files": 2, "matches": 2}, "2 matches in 2 files")


def test_a_pattern_may_span_lines_and_look_around(searched: BashSession) -> None:
    spanning = found(searched, r"import os\n\ndef", output_mode="content")
    assert spanning == ["src/app.py:1:import os", "src/app.py:2:", "src/app.py:3:def run():"]
    assert found(searched, "(?<=const )needle") == ["src/deep/util.ts"]
    assert found(searched, "-needle|-x|needle", path="café.txt") == ["café.txt"]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("pattern", ["[" * 30_000, "[[:" * 20_000, "[[:alpha" * 9_000, "(?" + "a" * 60_000])
def test_a_pattern_that_never_closes_is_read_in_little_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pattern: str
) -> None:
    (tmp_path / "names").touch()
    assert regex_search.main(str(tmp_path / "names"), pattern, "", "0", "0") == 2
    assert "regex parse error" in capsys.readouterr().out


def test_flags_of_a_pattern_may_span_lines(searched: BashSession) -> None:
    assert found(searched, "(?i)OS.*DEF", multiline=True) == ["src/app.py"]


@pytest.mark.parametrize(
    "pattern",
    [r"\p{Greek}", "[a&&b]", "[[:^upper:]]", "[[:alpha:]]", "[a--b]", r"\<need", r"x\b{end}",
     r"na\x{ef}ve", r"(?<w>x)", r"need(?i)LE", r"need\z"],
)  # fmt: skip
def test_what_only_ripgrep_knows_is_an_error_where_it_is_not_there(
    project: BashSession, pattern: str
) -> None:
    if sys.version_info >= (3, 14) and pattern.endswith("z"):
        pytest.skip("re knows it")
    hide_ripgrep(project)
    with pytest.raises(ToolError, match=r"(?s)regex parse error: .*ripgrep is not installed"):
        found(project, pattern)


def test_a_stray_byte_does_not_hide_the_letters_around_it(searched: BashSession) -> None:
    word = "\u043f\u0440\u0438\u0432\u0435\u0442"
    (searched.folder / "w.txt").write_bytes(f"{word}\n".encode() + b"\xff need\n")
    for pattern, line in (("[\u0430-\u044f]+", f"1:{word}"), ("need", "2:\ufffd need")):
        assert found(searched, pattern, path="w.txt", output_mode="content") == [f"w.txt:{line}"]


def test_what_is_not_found_says_where_was_looked(searched: BashSession) -> None:
    assert found(searched, "nowhere", glob="*.py") == ["No matches found in 1 file."]
    assert "No files match *.rs" in found(searched, "x", glob="*.rs")[0]
    with pytest.raises(ToolError, match="Invalid pattern"):
        found(searched, "(")
    with pytest.raises(ToolError, match=r"does not exist.*\nDid you mean src/app.py"):
        found(searched, "x", path="src/App.py")


def test_a_search_that_finds_nothing_is_over_when_ripgrep_says_so(
    project: BashSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "ripgrep" not in ENGINES:
        pytest.skip("there is no ripgrep")
    monkeypatch.setattr("tools.search.engine._python", lambda request, names: ["false"])
    assert found(project, "nowhere") == ["No matches found (ignored files and secrets are excluded)."]
    assert found(project, "nowhere", glob="*") == ["No matches found in 7 files."]


def test_binary_files_that_match_are_named_where_nothing_else_does(searched: BashSession) -> None:
    (searched.folder / "late.bin").write_bytes(b"needle\n" * 1_000 + b"\0needle\n")
    assert found(searched, "needle", path="late.bin", output_mode="content") == [
        "No matches found in 1 file.",
        "[binary files with matches: late.bin; search them with grep -a in bash]",
    ]
    assert "late.bin" not in found(searched, "needle")
    assert found(searched, "nowhere", path="late.bin") == ["No matches found in 1 file."]


@pytest.mark.parametrize("given", sampled([{}, {"glob": "*"}, {"path": "late.txt"}], 1))
def test_a_text_with_a_nul_after_its_beginning_is_searched_as_git_does(
    searched: BashSession, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_SIFT_LIMIT_S", 30.0)  # a busy machine is slow
    monkeypatch.setattr(engine, "_BESIDE_LIMIT_S", 30.0)
    lines = [b"line %d" % number for number in range(1, 12_001)]
    lines[2_999] = b"far needle \0."
    lines[11_999] = b"farther needle"
    (searched.folder / "late.txt").write_bytes(b"\n".join(lines))
    (searched.folder / "early.bin").write_bytes(b"\0" + b"\n".join(lines))
    for pattern, numbers in (
        ("f?ar needle", [3_000]),
        ("needle$", [12_000]),
        ("far.*ne+dle", [3_000, 12_000]),
    ):
        shown = found(searched, pattern, output_mode="content", **given)
        ours = [line for line in shown if line.startswith("late.txt")]
        want = {3_000: "late.txt:3000:far needle \ufffd.", 12_000: "late.txt:12000:farther needle"}
        assert ours == [want[number] for number in numbers]
        assert f"late.txt:{len(numbers)}" in found(searched, pattern, output_mode="count", **given)
        names = found(searched, pattern, **given)
        assert "late.txt" in names and not any("early.bin" in line for line in (*names, *shown))


def test_the_end_of_a_line_is_before_cr_lf_too(searched: BashSession) -> None:
    shown = found(searched, "(1|Needle)$", path="src/deep/util.ts", output_mode="content")
    assert shown == ["src/deep/util.ts:1:export const needle = 1", "src/deep/util.ts:2:// Needle"]
    assert found(searched, r"1\r$", path="src/deep/util.ts") == ["src/deep/util.ts"]


def test_lines_that_a_cr_alone_ends_are_counted_as_read_counts_them(searched: BashSession) -> None:
    (searched.folder / "log.txt").write_bytes(b"10%\r20%\rdone\nneedle one\r\na\rb\rneedle two\r")
    (searched.folder / "mac.txt").write_bytes(b"a\rneedle\rb\rneedle\r")
    told = text(do(searched, read.TOOL, file_path="log.txt")).splitlines()
    assert (told[3], told[6]) == ("4\tneedle one", "7\tneedle two")
    shown = found(searched, "needle", glob="{log,mac}.txt", output_mode="content")
    places = ["log.txt:4:needle one", "log.txt:7:needle two", "mac.txt:2:needle", "mac.txt:4:needle"]
    assert shown == places
    assert found(searched, "needle", path="mac.txt", output_mode="content", context=1)[2] == "mac.txt-3-b"
    assert found(searched, "needle", glob="{log,mac}.txt", output_mode="count") == ["log.txt:2", "mac.txt:2"]
    assert found(searched, r"b\rneedle", path="mac.txt", output_mode="content")[0] == "mac.txt:1:a"


def test_what_misleads_in_a_pattern_is_reported(project: BashSession) -> None:
    assert r"\| matches a literal |" in found(project, r"needle\|run")[1]
    assert globbed(project, "src") == ["src is a directory; src/** matches its files."]
    assert globbed(project, "src/deep/") == ["src/deep/ is a directory; src/deep/** matches its files."]
    assert set(globbed(project, "*.py, *.ts")) == {"src/app.py", "src/deep/util.ts"}
    assert globbed(project, "src/**/*.{py,ts},!*.ts") == ["src/app.py"]
    page = project.folder / "app/[id]/[...rest].tsx"  # as web frameworks name them
    page.parent.mkdir(parents=True)
    page.write_text("needle")
    for pattern in ("app/[id]/[...rest].tsx", "app/[id]/*", "**/[id]/**"):
        assert globbed(project, pattern) == ["app/[id]/[...rest].tsx"]
    page.unlink()
    assert len(globbed(project, "*", head_limit=0)) == 7


def test_pages_and_long_lines(project: BashSession) -> None:
    (project.folder / "many").write_text("".join(f"hit {number}\n" for number in range(5)))
    first = found(project, "hit", path="many", output_mode="content", head_limit=2)
    assert first == ["many:1:hit 0", "many:2:hit 1", "[lines 1-2 of 5; continue with offset=2]"]
    last = found(project, "hit", path="many", output_mode="content", head_limit=2, offset=4)
    assert last == ["many:5:hit 4", "[lines 5-5 of 5]"]
    past = found(project, "hit", path="many", output_mode="content", offset=9)[0]
    assert past == "[offset 9 is past the end: the result has 5 lines]"
    (project.folder / "long").write_text("é" * 5_000 + "needle" + "x" * 5_000)
    (line,) = found(project, "needle", path="long", output_mode="content")
    assert "é" * 100 + "needle" in line and "[4,900 chars]…" in line and "…[+4,606 chars]" in line
    (project.folder / "wide").write_text(("w" * 400 + "\n") * 400)
    shown = found(project, "w", path="wide", output_mode="content", head_limit=1_000)
    assert len("\n".join(shown)) < 51_000 and shown[-1].startswith("[lines 1-12")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pattern_that_takes_for_ever_is_ended_with_all_of_its_processes(
    project: BashSession, engine: str
) -> None:
    if engine == "python":
        hide_ripgrep(project)
    (project.folder / "trap").write_text("a" * 60 + "!\n")
    arguments = grep.TOOL.parse({"pattern": "(?=(a+)+$)b", "path": "trap"})
    call = ToolCall(project.context)
    result = project.runner.run(grep.search(arguments, call, limit_s=0.3))
    assert result.error and "the search was stopped: it took longer than 0.3 s" in text(result)


def test_too_much_output_is_cut_and_reported(project: BashSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.search.found_lines.MAX_SEARCH_BYTES", 20_000)
    (project.folder / "much").write_text("line\n" * 100_000)
    shown = found(project, "line", path="much", output_mode="content", head_limit=3)
    assert shown[0] == "much:1:line" and "of more than" in shown[3] and "too many results" in shown[4]


def test_no_program_of_the_project_is_run_for_ripgrep(project: BashSession) -> None:
    planted = project.folder / "bin" / "rg"
    planted.parent.mkdir()
    planted.write_text(f"#!/bin/sh\ntouch {project.folder}/pwned\n")
    planted.chmod(0o755)
    path = f"{planted.parent}:bin:{os.environ['PATH']}"
    project.context.environ = {**project.context.environ, "PATH": path}
    assert "src/app.py" in found(project, "needle")
    assert not (project.folder / "pwned").exists()


def test_links_and_pipes_are_not_followed(
    searched: BashSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "secret.txt"
    outside.write_text("needle\n")
    (searched.folder / "link.txt").symlink_to(outside)
    os.mkfifo(searched.folder / "pipe")
    assert "link.txt" not in found(searched, "needle")
    assert "link.txt" not in globbed(searched, "*.txt")
    with pytest.raises(FileError, match="named pipe"):
        found(searched, "needle", path="pipe")


def test_what_a_rule_denies_is_not_searched(project: BashSession) -> None:
    project.context.may_read = lambda tool, path: not path.endswith(".ts")
    assert "src/deep/util.ts" not in found(project, "needle")
    assert globbed(project, "*.ts")[0].startswith("No files found")


@pytest.mark.parametrize("tool", [grep.TOOL, glob.TOOL])
def test_the_place_is_judged_as_a_read(project: BashSession, tool: Tool) -> None:
    def judged(**given: Any) -> Access:
        (access,) = tool.access(tool.parse({"pattern": "x", **given}), project.context)
        return access

    folder = str(project.folder)
    assert judged() == Access("read", folder)
    assert judged(path="src/../docs") == Access("read", f"{folder}/docs")
    assert judged(path="/etc").outside and judged(path=".transcripts").protected
    project.context.cwd = project.folder / "src"
    assert judged().target == folder, "where commands run does not matter"


def test_a_pattern_can_lead_to_another_directory_and_that_is_judged(project: BashSession) -> None:
    arguments = glob.TOOL.parse({"pattern": "/usr/bin/*_key"})
    assert glob.TOOL.access(arguments, project.context) == (Access("read", "/usr/bin", outside=True),)
    assert globbed(project, f"{project.folder}/src/**/*.ts") == ["src/deep/util.ts"]
    assert globbed(project, "deep/*.ts", path="src") == ["src/deep/util.ts"]
    project.context.cwd = project.folder / "src"
    assert globbed(project, "docs/*") == ["docs/guide.md"]


def test_names_are_found_newest_first(project: BashSession) -> None:
    assert globbed(project, "**/*.{py,ts,md}") == ["src/app.py", "src/deep/util.ts", "docs/guide.md"]
    assert globbed(project, "src/*.py") == ["src/app.py"]
    assert globbed(project, "*.ts") == ["src/deep/util.ts"]
    assert globbed(project, "src/*.ts")[0].startswith("No files found in src")
    assert globbed(project, "**/*.py", head_limit=1) == ["src/app.py"]
    with pytest.raises(ToolError, match="more than 500 paths"):
        globbed(project, "{a,b}" * 12)


def test_a_hostile_glob_is_quick(project: BashSession, tmp_path: Path) -> None:
    (project.folder / ("a" * 200)).touch()
    assert globbed(project, "*a" * 100 + "b")[0].startswith("No files found")


def test_other_names_of_options_are_understood_or_named() -> None:
    def read(**given: Any) -> Any:
        return grep.TOOL.parse({"pattern": "x", **given})

    assert read(output_mode="content", **{"-A": 2, "-B": "10"}).around == (10, 2)
    assert read(output_mode="content", **{"-C": 3, "-A": 1}).around == (3, 1)
    assert read(output_mode="content", **{"-C": 3, "-B": 0}).around == (0, 3)
    assert read(output_mode="content", **{"-A": 1}).around == (0, 1)
    assert read(**{"-i": "true"}).ignore_case and read(ignore_case=True).ignore_case
    assert read(type="rust").glob == "*.rs" and read(type="go", glob="x*").glob == "x*"
    assert (read(include="*.c").glob, read(multiline=True).multiline) == ("*.c", True)
    with pytest.raises(ToolError, match=r"Its parameters are: pattern \(required\), .* -i, context"):
        read(kind="py")


def test_letters_are_found_in_files_of_an_old_encoding_too(searched: BashSession) -> None:
    for name, codec in (("old.txt", "cp1252"), ("new.txt", "utf-8"), ("wide.txt", "utf-16")):
        (searched.folder / name).write_bytes("first\nun caf\u00e9 cr\u00e8me\n".encode(codec))
    (searched.folder / "some.bin").write_bytes("\0caf\u00e9".encode("cp1252"))
    found = do(searched, grep.TOOL, pattern="CAF\u00c9", output_mode="content", **{"-i": True})
    line = "2:un caf\u00e9 cr\u00e8me"
    assert text(found).splitlines() == [f"{name}.txt:{line}" for name in ("new", "old", "wide")]


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_a_named_file_of_utf_16_without_a_mark_is_searched(searched: BashSession, codec: str) -> None:
    (searched.folder / "wide.txt").write_bytes("some first line\nthe needle is here\n".encode(codec))
    for given in ({"path": "wide.txt"}, {"glob": "wide.*"}):
        shown = text(do(searched, grep.TOOL, pattern="n.edle", output_mode="content", **given))
        assert shown.endswith("2:the needle is here"), shown
        count = text(do(searched, grep.TOOL, pattern="n.edle", output_mode="count", **given))
        assert count == "wide.txt:1"


@pytest.mark.skipif(ENGINES[0] != "ripgrep", reason="only ripgrep walks directories")
def test_a_search_without_hits_looks_for_wide_texts_every_ten_minutes(
    project: BashSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.folder / "wide.txt").write_bytes("some first line\nthe haystack is here\n".encode("utf-16-le"))
    for number in range(60):
        (project.folder / f"{number}.bin").write_bytes(b"\0" * 40)
    patterns = list[str]()
    run = engine._run

    async def counted(context: Any, request: engine.SearchRequest, program: Any, limit_s: float) -> Any:
        patterns.append(request.pattern)
        return await run(context, request, program, limit_s)

    monkeypatch.setattr(engine, "_run", counted)
    monkeypatch.setattr(engine, "_NUL_FILES", {})
    monkeypatch.setattr(engine, "_MIN_REMEMBERED_S", 0.0)
    for search in ("haystack", "haystack", "nowhere"):
        shown = found(project, search, output_mode="content")
        assert shown == (["wide.txt:2:the haystack is here"] if search == "haystack" else shown)
    assert patterns.count(r"(?-u)\x00") == 1
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + engine._REMEMBERED_S)
    found(project, "nowhere")
    assert patterns.count(r"(?-u)\x00") == 2


@pytest.mark.skipif(ENGINES[0] != "ripgrep", reason="only ripgrep finds NULs by another search")
@each_row("limit_s, is_said", [(30.0, False), (0.01, True)])
def test_a_search_says_if_there_was_no_time_for_texts_with_a_nul(
    project: BashSession,
    tmp_path_factory: pytest.TempPathFactory,
    limit_s: float,
    is_said: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in range(60):
        (project.folder / f"{number}.txt").write_text("needle\n")
    if is_said:  # the search for NULs does not end
        endless = tmp_path_factory.mktemp("bin").resolve() / "rg"
        waiting = "case $* in *x00*) exec tail -f /dev/null ;; esac"
        endless.write_text(f'#!/bin/sh\n{waiting}\nexec {shutil.which("rg")} "$@"\n')
        endless.chmod(0o755)
        path = f"{endless.parent}:{os.environ['PATH']}"
        project.context.environ = {**project.context.environ, "PATH": path}
    monkeypatch.setattr(engine, "_NUL_FILES", {})
    monkeypatch.setattr(engine, "_SIFT_LIMIT_S", limit_s)
    monkeypatch.setattr(engine, "_BESIDE_LIMIT_S", limit_s)
    monkeypatch.setattr(engine, "_BESIDE_SHARE", 0.0)
    for pattern, files in (("needle", None), ("nowhere", None), ("needle", "*.txt")):
        assert ("after a NUL byte was not searched" in found(project, pattern, glob=files)[-1]) is is_said


@pytest.mark.skipif(ENGINES[0] != "ripgrep", reason="only ripgrep walks directories")
def test_a_new_wide_text_is_found_right_after_a_search_without_hits(
    project: BashSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_NUL_FILES", {})
    monkeypatch.setattr(engine, "_MIN_REMEMBERED_S", 60.0)  # the project is small, the machine may be slow
    assert found(project, "haystack", output_mode="content") != ["wide.txt:1:the haystack"]
    (project.folder / "wide.txt").write_bytes("the haystack\n".encode("utf-16-le"))
    assert found(project, "haystack", output_mode="content") == ["wide.txt:1:the haystack"]


@pytest.mark.parametrize("given", sampled([{}, {"glob": "*"}, {"path": "wide.txt"}], 1))
def test_wide_texts_are_found_beside_other_results(
    project: BashSession, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_SIFT_LIMIT_S", 30.0)  # a busy machine is slow
    monkeypatch.setattr(engine, "_BESIDE_LIMIT_S", 30.0)
    for number in range(60 if "glob" in given else 0):
        (project.folder / f"{number}.bin").write_bytes(b"\0needle" * 40)
    for codec in ("utf-16-be", "utf-32-le", "utf-32-be"):
        mark = "\ufeff" if codec.startswith("utf-32") else ""
        (project.folder / "wide.txt").write_bytes(f"{mark}first\nthe needle {codec}\n".encode(codec))
        shown = found(project, "needle", output_mode="content", **given)
        assert f"wide.txt:2:the needle {codec}" in shown and not any(".bin" in line for line in shown)
        assert "wide.txt:1" in found(project, "needle", output_mode="count", **given)


def test_lines_of_both_programs_are_read() -> None:
    reader = FoundReader()
    about = '"path": {"text": "a"}, "lines": {"text": "x\\ud800\\n"}, "line_number": 3, "submatches": []'
    path = '"path":{"text":"b"}'
    lines = [
        f'{{"type": "match", "data": {{{about}}}}}',
        f'{{"type":"begin","data":{{{path}}}}}',
        f'{{"type":"match","data":{{{path},"lines":{{"text":"y\\n"}},"line_number":1,"submatches":[]}}}}',
        f'{{"type":"end","data":{{{path},"binary_offset":null}}}}',
        '{"type":"begin","data":{"path":{"text":"c"}}}',
        '{"type":"end","data":{"path":{"text":"c"},"binary_offset":5}}',
    ]
    assert reader.take("".join(f"{line}\n" for line in lines).encode())
    output = reader.output("")
    shown = {name: [(line.number, line.text) for line in found] for name, found in output.lines.items()}
    assert shown == {"a": [(3, "x\ud800")], "b": [(1, "y")]} and output.binary == ["c"]


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("given", [{}, {"glob": "*.txt"}])
def test_a_file_of_utf_16_without_a_mark_is_found_among_many(
    searched: BashSession, codec: str, given: dict[str, str]
) -> None:
    for number in range(60):
        (searched.folder / f"plain{number}.txt").write_text("some other text\n")
    (searched.folder / "wide.txt").write_bytes("some first line\nthe haystack is here\n".encode(codec))
    shown = text(do(searched, grep.TOOL, pattern="h.ystack", output_mode="content", **given))
    assert shown == "wide.txt:2:the haystack is here"
    assert "No matches" in text(do(searched, grep.TOOL, pattern="h.aystack", **given))


@each_row("codec", ["utf-16-le", "utf-16-be", "iso2022_jp"])
def test_japanese_text_that_read_shows_is_found(searched: BashSession, codec: str) -> None:
    (searched.folder / "notes.txt").write_bytes(("日本語の検索です。\n" * 5).encode(codec))
    assert found(searched, "検索") == ["notes.txt"]


def test_a_file_of_utf_8_is_not_searched_in_another_encoding(searched: BashSession) -> None:
    (searched.folder / "kana.txt").write_text(
        "\u3042\u3044\u3046 \u9999 \u00c3\u00a9t\u00e9\n" * 3, encoding="utf-8"
    )
    (searched.folder / "old.txt").write_bytes("n\u00e3o \u00e9\n".encode("cp1252"))
    for mode in ("content", "count", "files_with_matches"):
        for given in ({}, {"glob": "*.txt"}):
            shown = found(searched, "\u00e3", output_mode=mode, **given)
            assert [line.partition(":")[0] for line in shown] == ["old.txt"], shown
    assert found(searched, "\u00e3o \u00e9", output_mode="content") == ["old.txt:1:n\u00e3o \u00e9"]


def test_a_file_is_searched_in_the_encoding_in_which_read_shows_it(searched: BashSession) -> None:
    mixed = "\u9a5a\u304d \u98df\u3079\u308b \u65e5\u672c\u8a9e\n".encode() + b"a stray \xff\n"
    (searched.folder / "mixed.txt").write_bytes(mixed)
    sentence = "\u9a5a\u304d \u98df\u3079\u308b \u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3067\u3059\n"
    (searched.folder / "kana.txt").write_bytes(sentence.encode("cp932"))
    (searched.folder / "old.txt").write_bytes("un caf\u00e9 cr\u00e8me\n".encode("cp1252"))
    for pattern, names in (
        ("\u00e9", ["old.txt"]),
        ("\u00e3", []),
        ("\u65e5\u672c", ["kana.txt", "mixed.txt"]),
    ):
        for given in ({}, {"glob": "*.txt"}):
            shown = text(do(searched, grep.TOOL, pattern=pattern, output_mode="content", **given))
            assert [line.partition(":")[0] for line in shown.splitlines() if ":1:" in line] == names, shown


def test_a_list_that_takes_long_is_cut_and_reported(
    project: BashSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_ripgrep(project)
    monkeypatch.setattr("tools.search.listing._WALK_LIMIT_S", 0.0)
    note = "[only the first 0 files were searched; use path to select a directory]"
    assert found(project, "needle")[-1] == note
    assert globbed(project, "*.py")[-1] == note


def test_links_to_files_of_the_project_are_found_by_their_names(
    project: BashSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "file").touch()
    targets = {
        "AGENTS_link.md": "src/app.py",
        "link-dead": "gone/file",
        "link-loop": "link-loop",
        "link-folder": "src",
        "link-secret": ".env",
        "link-outside": str(outside / "file"),
        "link-dead-outside": str(outside / "gone"),
        "link-records": ".transcripts/s.jsonl",
        "src/link-up": "../docs/guide.md",
    }
    for name, target in targets.items():
        (project.folder / name).symlink_to(target)
    assert globbed(project, "AGENTS_link.md") == ["AGENTS_link.md"]
    *names, note = globbed(project, "*link*")
    assert set(names) == {"AGENTS_link.md", "link-dead", "link-loop", "src/link-up"}
    assert note == "[broken links: link-dead, link-loop]"
    assert globbed(project, "src/link*") == ["src/link-up"]
    assert globbed(project, "**/guide.md") == ["docs/guide.md"]
    assert "AGENTS_link.md" not in found(project, "needle")  # its target is searched
    project.context.may_read = lambda tool, path: not path.endswith("app.py")
    assert "AGENTS_link.md" not in globbed(project, "*link*")


def test_names_that_are_not_text_or_hold_a_new_line_are_shown(searched: BashSession) -> None:
    for raw in (b"caf\xe9.odd", b"nl\nname.odd", b"esc\x1b[2J.odd", b"d\xff/plain.odd"):
        path = searched.folder / os.fsdecode(raw)
        path.parent.mkdir(exist_ok=True)
        path.write_text("needle\n")
    names = {"caf\ufffd.odd", "nl␊name.odd", "esc␛[2J.odd", "d\ufffd/plain.odd"}
    note = (
        "[2 names have bytes that are not UTF-8 (shown as \ufffd); in a command, match them with a pattern]"
    )
    for *shown, last in (globbed(searched, "*.odd"), found(searched, "needle", glob="*.odd")):
        assert (set(shown), last) == (names, note)
    *lines, last = found(searched, "needle", glob="*.odd", output_mode="content")
    assert (set(lines), last) == ({f"{name}:1:needle" for name in names}, note)
    assert found(searched, "needle", path="nl␊name.odd") == ["nl␊name.odd"]
    assert found(searched, "needle", path="nl\nname.odd") == ["nl␊name.odd"]


@pytest.mark.parametrize("mode", ["content", "count", "files_with_matches"])
def test_a_line_of_megabytes_is_cut_and_does_not_end_the_search(searched: BashSession, mode: str) -> None:
    (searched.folder / "bundle.js").write_text("var a,b;return b;" * 120_000)
    (searched.folder / "other.js").write_text("let b\n")
    size = 3_000_000 if mode == "content" else 1_100_000  # together more than what a search keeps of lines
    for number in range(3):
        (searched.folder / f"x{number}.js").write_text("x" * size + "\nb\n")
    for pattern in ("b", "(?s:b)", r"(b|xxx)$|b"):
        shown = found(searched, pattern, output_mode=mode, glob="*.js")
        named = {line.partition(":")[0] for line in shown}
        assert named == {"bundle.js", "other.js", "x0.js", "x1.js", "x2.js"}, shown[-1]
    if mode == "content":
        (bundle, other, *_) = found(searched, r"b", output_mode=mode, glob="*.js", head_limit=2)
        assert bundle.startswith("bundle.js:1:var a,b;return") and bundle.endswith("…[+2,039,500 chars]")
        assert other == "other.js:1:let b"
        line, note = found(searched, "xxx", output_mode=mode, glob="x*.js", head_limit=1)
        assert line == f"x0.js:1:{'x' * 500}…[+2,999,500 chars]" and note.startswith("[lines 1-1 of 3")
        around = found(searched, "^b", output_mode=mode, path="x0.js", context=1)
        assert around == [f"x0.js-1-{'x' * 500}…[+2,999,500 chars]", "x0.js:2:b"]


def test_a_line_that_is_too_long_to_be_held_is_named(
    searched: BashSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.search.found_lines.MAX_FOUND_LINE_BYTES", 200_000)
    (searched.folder / 'a "b.js').write_text("\n" + 'é"b' * 300_000 + "\nb\n")
    (searched.folder / "c.js").write_text("b\n")
    for pattern in ("b", ".*b", "(?s:b)"):
        lines = found(searched, pattern, output_mode="content", glob="*.js")
        long = 'a "b.js:2:[too long to show: more than 200,000 bytes]'
        assert lines == [long, 'a "b.js:3:b', "c.js:1:b"]
    assert len(found(searched, "^b", output_mode="content", path='a "b.js', context=1)) == 2


def test_a_line_that_matches_across_lines_is_cut_around_its_first_match(searched: BashSession) -> None:
    (searched.folder / "f").write_text("x\n" + "a" * 1_000 + "b\nc" + "a" * 1_000 + "b\nc")
    first, second, third = found(searched, r"b\nc", output_mode="content", path="f")
    assert first == f"f:2:[900 chars]…{'a' * 100}b"
    assert second == f"f:3:c{'a' * 499}…[+502 chars]" and third == "f:4:c"


def test_all_lines_are_counted_however_many_match(searched: BashSession) -> None:
    (searched.folder / "many.txt").write_text("needle of a long line in a long file\n" * 70_000)
    (searched.folder / "z.txt").write_text("needle\nnothing\nneedle\n")
    result = do(searched, grep.TOOL, pattern="needle", output_mode="count", glob="*.{txt,bin}")
    assert text(result).splitlines() == ["caf\u00e9.txt:1", "many.txt:70000", "z.txt:2"]
    assert result.about["matches"] == 70_003
    across = do(searched, grep.TOOL, pattern=r"needle\nnothing", output_mode="count", glob="z.txt")
    assert text(across) == "z.txt:2"


def test_large_binary_files_are_not_searched(project: BashSession) -> None:
    (project.folder / "large.bin").write_bytes(b"\0" * 3_000_000 + b"needle\n")
    (project.folder / "large.txt").write_bytes(b"text\n" * 600_000 + b"needle\n")
    (project.folder / "wide.txt").write_bytes(("text\n" * 600_000 + "needle\n").encode("utf-16"))
    found = text(do(project, grep.TOOL, pattern="needle", glob="*.{bin,txt}")).splitlines()
    assert sorted(found) == ["caf\u00e9.txt", "large.txt", "wide.txt"]
    said = text(do(project, grep.TOOL, pattern="needle", path="large.bin"))
    assert said == "[large binary files were not searched: large.bin; search them with grep -a in bash]"
    said = text(do(project, grep.TOOL, pattern="no such", glob="large.*"))
    assert said.startswith("No matches found in 1 file.\n[large binary")


@pytest.mark.skipif("ripgrep" not in ENGINES, reason="there is no ripgrep")
@pytest.mark.parametrize("codec", ["cp1251", "koi8_r", "cp866", "iso8859_5", "gb18030", "cp932", "cp874"])
def test_a_file_is_searched_in_the_encoding_in_which_it_was_read(project: BashSession, codec: str) -> None:
    word = {"gb18030": "错误", "cp932": "エラー", "cp874": "ข้อผิดพลาด"}.get(codec, "ошибка")
    (project.folder / "old.c").write_bytes(f"int x; // {word}\n".encode(codec))
    do(project, read.TOOL, file_path="old.c")
    seen = project.context.seen[str(project.folder / "old.c")]
    project.context.seen[str(project.folder / "old.c")] = replace(seen, encoding=codec)
    found = text(do(project, grep.TOOL, pattern=word, output_mode="content"))
    assert found == f"old.c:1:int x; // {word}"


@pytest.mark.parametrize("pattern", ["nee\0dle", "need\ud83dle"])
def test_a_pattern_that_no_text_can_fit_is_refused(searched: BashSession, pattern: str) -> None:
    with pytest.raises(ToolError, match="no text contains"):
        do(searched, grep.TOOL, pattern=pattern)
