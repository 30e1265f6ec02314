"""`makeroom replay`: argv in, a table, JSON, a page or request bodies out, and errors that name the fix."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest

from agent.app.context_building import overheads
from agent.model_port import RequestSettings
from agent.replay.command import ReplayUsageError, main, parse_options, read_recordings, replay_all
from agent.replay.figures import Run, Totals, as_markdown
from agent.replay.policies import OWN_OVERHEAD_TOKENS, PRICE_TIERS
from agent.replay.simulation import baselines, recording
from agent.replay.terminal_table import PIPE_COLUMNS, draw_table
from agent.session.system_prompts import system_prompt
from compact.tokens import TokenCounter
from tools import BUILTIN
from tools.registry import definitions, load_builtin_tools

ROOT = Path(__file__).resolve().parents[3]
FIGURES = {
    "cost_ratio",
    "cost_with_rereads",
    "lost_references",
    "recoverable_references",
    "cache_breaks_per_100",
    "summaries",
    "peak_tokens",
    "invalid_views",
    "mean_cost_ratio",
    "mean_with_rereads",
    "worst_with_rereads",
    "mean_to_off",
    "cost_to_off",
    "edits_out_of_view",
    "refused_requests",
}


def messages(turns=4):
    yield {"role": "user", "content": "read <b>everything</b>"}
    for turn in range(turns):
        call = {"type": "tool_use", "id": f"t{turn}", "name": "read", "input": {"path": f"src/a{turn}.py"}}
        yield {"role": "assistant", "content": [{"type": "text", "text": f"turn {turn}"}, call]}
        result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": f"line {turn}\n" * 200}
        yield {"role": "user", "content": [result]}
    yield {"role": "assistant", "content": "done"}


@pytest.fixture
def session(tmp_path):
    path = tmp_path / "one.jsonl"
    path.write_text("\n".join(json.dumps(message) for message in messages()))
    return path


def test_json_has_exactly_the_promised_shape(session, capsys):
    assert main([str(session), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"results", "totals"}
    assert [result["policy"] for result in told["results"]] == ["thrifty", "classic", "off", "summary"]
    for result in told["results"]:
        assert set(result) == {"policy", "file", "requests"} | FIGURES
        assert result["file"] == "one.jsonl"
        assert [request["index"] for request in result["requests"]] == [0, 1, 2, 3, 4]
        for request in result["requests"]:
            assert set(request) == {"index", "view_tokens", "cache_read", "cache_written", "edits"}
            assert all(isinstance(request[name], int) for name in request if name != "edits")
            assert all(set(edit) == {"layer", "freed_tokens"} for edit in request["edits"])
    for total in told["totals"]:
        assert set(total) == {"policy"} | FIGURES


def test_a_short_session_costs_what_appending_costs_and_stays_valid(session, capsys):
    main([str(session), "--json", "--policy", "thrifty", "off"])
    for result in json.loads(capsys.readouterr().out)["results"]:
        assert result["cost_ratio"] == 1.0
        assert result["invalid_views"] == 0
        assert result["peak_tokens"] > 12_000


def test_the_table_puts_the_policies_side_by_side_over_a_chart(session, capsys):
    assert main([str(session)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"thrifty.*classic.*off.*summary", out)
    for row in ("cost with re-reads", "references lost", "cache breaks per 100", "invalid views"):
        assert row in out
    assert "context size by call" in out and "▁" in out
    explained = ("An edit is out of view if", "A view is invalid if", "The policy `summary`")
    assert all(words in " ".join(out.split()) for words in explained)
    assert not any(line.endswith(" ") for line in out.splitlines())
    assert "\x1b" not in out


def test_several_files_get_a_line_each(session, tmp_path, capsys):
    other = tmp_path / "[red]two.jsonl"
    other.write_bytes(session.read_bytes())
    main([str(session), str(other), "--policy", "off"])
    out = capsys.readouterr().out
    assert "one.jsonl" in out and "[red]two.jsonl" in out and "2 sessions" in out


LONG_NAMES = ("3f2b8c1e-7d6a-4e5f-9a8b-1c2d3e4f5a6b.jsonl", "3f2b8c1e-7d6a-4e5f-9a8b-1c2d3e4f5a6c.jsonl")
COST = r"\d\.\d\d \(\d\.\d\d\)"


def test_the_costs_of_sessions_with_long_names_are_shown_whole(session, tmp_path, capsys):
    names = [session.rename(tmp_path / LONG_NAMES[0]), tmp_path / LONG_NAMES[1]]
    names[1].write_bytes(names[0].read_bytes())
    main([*map(str, names)])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("│ 3f2b8c1e-")]
    assert [len(re.findall(COST, row)) for row in rows] == [4, 4]
    assert [row.split("│")[2].strip() for row in rows] == ["5", "5"]  # calls
    shown = [row.split("│")[1].strip() for row in rows]
    assert shown[0].endswith("5a6b.jsonl") and shown[1].endswith("5a6c.jsonl") and "…" in shown[0]
    assert {len(row) for row in rows} == {PIPE_COLUMNS}


class Screen(StringIO):
    def isatty(self):
        return True


def test_in_a_narrow_terminal_the_costs_of_each_session_are_below_each_other(session, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    other = tmp_path / LONG_NAMES[0]
    other.write_bytes(session.read_bytes())
    counter, options = TokenCounter.load(), parse_options([str(session), str(other)])
    recordings, _ = read_recordings(options.files, counter)
    runs = replay_all(options, recordings, "standard", counter)
    table, _, _ = draw_table(runs, "standard", 200_000, Screen()).partition("2 sessions at")
    assert re.search(rf"^{LONG_NAMES[0]}\n  calls    5\n  thrifty  {COST}\n", table, re.MULTILINE)
    assert len(re.findall(COST, table)) == 8 and "…" not in table


def test_a_directory_stands_for_the_recordings_in_it(session, tmp_path, capsys):
    (tmp_path / "README.md").write_text("no recording")
    assert main([str(tmp_path), "--json", "--policy", "off"]) == 0
    assert len(json.loads(capsys.readouterr().out)["results"]) == 1


def test_a_session_with_empty_results_is_replayed(tmp_path, capsys):
    path = tmp_path / "empty.jsonl"
    empty = [{**message} for message in messages()]
    for message in empty[2:-1:2]:
        message["content"] = [{**message["content"][0], "content": ""}]
    path.write_text("\n".join(map(json.dumps, empty)))
    assert main([str(path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["results"]) == 4


@pytest.mark.parametrize("prices", ["standard", "all"])
def test_a_session_that_cannot_be_replayed_does_not_cost_the_others(
    session, tmp_path, capsys, monkeypatch, prices
):
    def fail_for_bad(one, *rest):
        return [][1] if one.name == "bad.jsonl" else baselines(one, *rest)

    monkeypatch.setattr("agent.replay.command.baselines", fail_for_bad)
    (tmp_path / "bad.jsonl").write_bytes(session.read_bytes())
    assert main([str(tmp_path), "--policy", "off", "--prices", prices]) == 2
    out, err = capsys.readouterr()
    assert "1 session" in out
    defect = "IndexError: list index out of range"
    assert err == f"error: cannot replay bad.jsonl, which is a bug in makeroom: {defect}\n"
    assert main([str(tmp_path / "bad.jsonl"), "--prices", prices]) == 2
    assert capsys.readouterr().out == ""


def test_a_session_that_cannot_be_imported_does_not_cost_the_others(session, tmp_path, capsys, monkeypatch):
    def fail_for_bad(name, *rest):
        return [][1] if name == "bad.jsonl" else recording(name, *rest)

    monkeypatch.setattr("agent.replay.command.recording", fail_for_bad)
    (tmp_path / "bad.jsonl").write_bytes(session.read_bytes())
    assert main([str(tmp_path), "--policy", "off"]) == 2
    out, err = capsys.readouterr()
    assert "1 session" in out
    defect = "IndexError: list index out of range"
    assert err == f"error: cannot read {tmp_path}/bad.jsonl, which is a bug in makeroom: {defect}\n"


def test_policies_for_comparison_are_replayed_by_name(session, capsys):
    assert main([str(session), "--json", "--policy", "older,cliff,oracle"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert {result["policy"]: result["cost_with_rereads"] for result in results} == {
        "older": 1.0,
        "cliff": 1.0,
        "oracle": 1.0,
    }


@pytest.mark.parametrize("raw", [None, b"", b"hello", b'{"role": "user", "content": "hi"}\n'])
def test_a_bad_file_is_named_with_what_to_do_and_the_exit_code_is_2(raw, tmp_path, capsys):
    path = tmp_path / "bad.jsonl"
    if raw is not None:
        path.write_bytes(raw)
    assert main([str(path)]) == 2
    told = capsys.readouterr()
    assert str(path) in told.err
    assert told.out == ""
    assert len(told.err.splitlines()) == 1


def test_one_bad_file_does_not_keep_the_others_from_being_replayed(session, tmp_path, capsys):
    assert main([str(tmp_path / "gone.jsonl"), str(session), "--json", "--policy", "off"]) == 2
    told = capsys.readouterr()
    assert json.loads(told.out)["results"][0]["file"] == "one.jsonl"
    assert "gone.jsonl" in told.err


def test_damaged_lines_are_counted_aloud(session, capsys):
    session.write_bytes(session.read_bytes() + b'\n{"role": "assis')
    assert main([str(session), "--json", "--policy", "off"]) == 0
    assert "skipped 1 damaged line\n" in capsys.readouterr().err


def test_what_recordings_leave_out_is_reported_once_for_all(session, tmp_path, capsys):
    more = b'\n{"role": "system", "content": "be good"}\n'
    session.write_bytes(session.read_bytes() + more)
    (tmp_path / "two.jsonl").write_bytes(session.read_bytes() + more)
    assert main([str(tmp_path), "--json", "--policy", "off"]) == 0
    assert capsys.readouterr().err == "warning: skipped in 2 recordings: messages of other roles (3)\n"


@pytest.mark.parametrize(
    ("argv", "fix"),
    [
        ([], "use makeroom replay FILE..."),
        (["x.jsonl", "--policy", "frugal"], "the policies are thrifty, classic, off, summary"),
        (["x.jsonl", "--prices", "free"], "choose from"),
        (["x.jsonl", "--prices", "all", "--json"], "cannot be used with --json"),
        (["x.jsonl", "--half", "both"], "--half both requires --prices all"),
        (["x.jsonl", "--window", "0"], "must be at least 1 token"),
        (["x.jsonl", "--over", "x"], "argument --over: 'x' is not a number of tokens such as 100000"),
        (["x.jsonl", "--over", "-5"], "not a number of tokens such as 100000"),
        (["x.jsonl", "--window", "9" * 5_000], "not a number of tokens such as 100000"),
        (["x.jsonl", "--frobnicate"], "--help"),
    ],
)
def test_words_that_make_no_sense_are_answered_with_the_fix(argv, fix, capsys):
    assert main(argv) == 2
    assert fix in capsys.readouterr().err
    with pytest.raises(ReplayUsageError):
        parse_options(argv)


def test_policies_may_be_repeated_joined_by_commas_and_followed_by_files(session):
    wanted = parse_options(["--policy", "off", "thrifty,classic", str(session), "--policy", "off"])
    assert wanted.policies == ("off", "thrifty", "classic")
    assert wanted.files == (session,)


def test_only_sessions_over_a_size_are_taken_when_asked(session, capsys):
    assert main([str(session), "--over", "100000"]) == 2
    assert "lower --over" in capsys.readouterr().err


class Page(HTMLParser):
    """Tags and addresses of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.addresses = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]


def test_the_page_is_self_contained_and_fits_phones_and_the_dark(session, tmp_path, capsys):
    named = tmp_path / "<i>x</i>.jsonl"
    named = tmp_path / "a&b<i>.jsonl"
    named.write_bytes(session.read_bytes())
    html = tmp_path / "out" / "page.html"
    assert main([str(named), "--html", str(html)]) == 0
    text = html.read_text()
    page = Page()
    page.feed(text)
    assert page.tags.count("svg") == 1 and page.tags.count("polyline") == 4 and "table" in page.tags
    assert "i" not in page.tags and "script" not in page.tags and "link" not in page.tags
    assert page.addresses == [] and "http" not in text and "url(" not in text
    assert "width=device-width" in text and "prefers-color-scheme:dark" in text
    assert str(html) in capsys.readouterr().out


def test_the_dump_holds_every_request_as_it_would_be_sent(session, tmp_path, capsys):
    folder = tmp_path / "dump"
    assert main([str(session), "--dump", str(folder), "--policy", "off", "classic", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    modes = [(path.name, path.stat().st_mode & 0o777) for path in folder.iterdir()]
    assert sorted(modes) == [("one.classic.jsonl", 0o600), ("one.off.jsonl", 0o600)]
    bodies = [json.loads(line) for line in (folder / "one.off.jsonl").read_text().splitlines()]
    assert len(bodies) == len(results[0]["requests"])
    for body in bodies:
        assert body["system"][-1]["cache_control"] == {"type": "ephemeral"}
        assert body["tools"][0]["name"] == "read"
        assert body["messages"][-1]["role"] == "user"
        assert "cache_control" in body["messages"][-1]["content"][-1]
        assert json.dumps(body).count("cache_control") <= 4
    assert bodies[1]["messages"][1]["content"][1]["input"] == {"path": "src/a0.py"}


def test_system_and_tools_of_a_dump_are_the_tokens_that_replay_counts(session, tmp_path):
    main([str(session), "--dump", str(tmp_path / "d"), "--policy", "off", "--prices", "hour"])
    body = json.loads((tmp_path / "d" / "one.off.jsonl").read_text().splitlines()[0])
    counter = TokenCounter.load()
    counter.warm()
    tokens = counter.text(body["system"][0]["text"]) + counter.value(body["tools"])
    assert abs(tokens - 12_000) <= 20
    assert body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_files_of_one_name_are_dumped_apart(session, tmp_path):
    other = tmp_path / "sub" / "one.jsonl"
    other.parent.mkdir()
    other.write_bytes(session.read_bytes())
    main([str(session), str(other), "--dump", str(tmp_path / "d"), "--policy", "off"])
    assert sorted(p.name for p in (tmp_path / "d").iterdir()) == ["one-2.off.jsonl", "one.off.jsonl"]


def test_a_place_that_cannot_be_written_is_said_before_anything_is_replayed(session, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main([str(session), "--dump", str(tmp_path / "file" / "d")]) == 2
    assert f"cannot write to {tmp_path / 'file'}" in capsys.readouterr().err


def test_all_tiers_make_one_markdown_table(session, capsys):
    assert main([str(session), "--prices", "all", "--policy", "off"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "1 sessions, 5 calls."
    assert rows[2].startswith("| policy | prices | cost | with re-reads: mean | sum | worst | to `off`")
    assert [row.split(" | ")[1] for row in rows[4:8]] == list(PRICE_TIERS)
    assert rows[7].startswith("| `off` | hour | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 0.0% |")
    assert rows[9] == "| policy | prices | under 100 calls | from 100 calls | from 200 calls |"
    assert rows[-1] == "| `off` | hour | 1.00, 1.00 | - | - |"


def test_the_markdown_table_gives_the_mean_the_sum_and_the_worst_of_each_group():
    runs = [
        Run("thrifty", "a", (), Totals(cost=50, baseline=100, off=50, calls=3)),
        Run("thrifty", "b", (), Totals(cost=900, baseline=900, off=1_000, rereads=100, calls=4)),
    ]
    both = as_markdown(dict.fromkeys(PRICE_TIERS, runs), [{"a", "b"}])
    assert "2 sessions, 7 calls" in both
    assert "| standard | 0.75 | 0.81 | 1.05 | 1.11 | 1.00 | 1.00 |" in both
    assert "| standard | 0.81, 1.11 | - | - |" in both
    halves = as_markdown(dict.fromkeys(PRICE_TIERS, runs), [{"a"}, {"b"}])
    assert "| standard | 0.50, 0.50 / 1.11, 1.11 | - / - | - / - |" in halves
    assert "1 sessions, 3 calls / 1 sessions, 4 calls" in halves
    assert "| standard | 0.50 / 1.00 | 0.50 / 1.11 |" in halves


def test_the_recordings_belong_to_one_half_and_the_other_in_order_of_name(session, tmp_path, capsys):
    for number in range(6):
        (tmp_path / f"{number}.jsonl").write_bytes(session.read_bytes())
    files = {}
    for half in ("a", "b"):
        assert main([str(tmp_path), "--json", "--policy", "off", "--half", half]) == 0
        files[half] = {result["file"] for result in json.loads(capsys.readouterr().out)["results"]}
    assert files["a"] == {"0.jsonl", "2.jsonl", "4.jsonl", "one.jsonl"}
    assert files["b"] == {"1.jsonl", "3.jsonl", "5.jsonl"}
    assert main([str(tmp_path), "--policy", "off", "--half", "both", "--prices", "all"]) == 0
    assert " sessions, " in capsys.readouterr().out.splitlines()[0].partition(" / ")[2]


def test_window_and_overhead_can_be_given(session, capsys):
    assert main([str(session), "--json", "--policy", "off", "--overhead", "500", "--window", "2000"]) == 0
    [result] = json.loads(capsys.readouterr().out)["results"]
    assert result["peak_tokens"] <= 2_000
    assert result["refused_requests"] > 0


def test_our_own_system_and_tools_take_what_replay_says():
    counter = TokenCounter.load()
    counter.warm()
    settings = RequestSettings("m", 1, system_prompt({}, BUILTIN), definitions(load_builtin_tools()))
    assert sum(overheads(settings, counter).values()) == pytest.approx(OWN_OVERHEAD_TOKENS, rel=0.2)


def test_help_is_printed_and_ends_well(capsys):
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    assert "FILE" in capsys.readouterr().out


def test_a_strict_server_would_take_every_dumped_request_and_charge_it_alike(tmp_path, capsys):
    """Someone else's rules and someone else's cache, on a session long enough for every policy to act."""
    from tests.strict_api.models import MODELS
    from tests.strict_api.prefix import walk_prefix
    from tests.strict_api.prompt_cache import CacheTerms, PromptCache
    from tests.strict_api.request_checks import violations

    row = "a line that is four times as long, with a number at the end, which is"
    long = tmp_path / "long.jsonl"
    long.write_text("\n".join(map(json.dumps, messages(54))).replace("line", row))
    folder = tmp_path / "dump"
    assert main([str(long), "--dump", str(folder), "--json"]) == 0
    told = {result["policy"]: result for result in json.loads(capsys.readouterr().out)["results"]}
    costs = {}
    for policy in told:
        cache, cost = PromptCache(lambda: 0.0), 0.0
        for line in (folder / f"long.{policy}.jsonl").read_bytes().splitlines():
            body = json.loads(line)
            assert violations(body, MODELS[body["model"]]) == []
            figures = cache.charge(walk_prefix(body, False), CacheTerms(body["model"], "", 1024, None))
            cost += figures.fresh + 0.1 * figures.read + 1.25 * figures.written_5m
        costs[policy] = cost
    assert all(any(request["edits"] for request in result["requests"]) for result in told.values())
    assert all(result["invalid_views"] == 0 for result in told.values())
    theirs = {policy: costs[policy] / costs["off"] for policy in told}
    ours = {policy: told[policy]["cost_ratio"] / told["off"]["cost_ratio"] for policy in told}
    assert theirs == pytest.approx(ours, rel=0.15)


def test_the_package_loads_its_modules_only_when_the_command_runs():
    code = "import sys, agent.replay, agent.__main__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"agent.replay.command", "argparse", "compact.pipeline"} & set(done.stdout.split())
