"""Configuration of MCP servers: entries, variables, scopes, names, changes of the files."""

import json
import threading
from pathlib import Path

import pytest

from agent.errors import UsageError
from agent.extensions.mcp.approval import mcp_items
from agent.extensions.mcp.entries import canonical_bytes, plugin_entries, read_entry
from agent.extensions.mcp.files import FileScope, ServerFiles, store_entry
from agent.extensions.mcp.names import server_words, tool_names
from tests.tables import each_row
from transcripts.storage import locked


def test_variables_are_put_in_and_others_stay_unchanged() -> None:
    raw = {
        "command": "${BIN}/run",
        "args": ["$HOME", "${PORT:-80}", "${SET:-x}", "${EMPTY:-y}", "${}"],
        "env": {"KEY": "a${SET}b"},
    }
    entry = read_entry("a", raw, "user", {"BIN": "/bin", "SET": "1", "EMPTY": "", "HOME": "/home/x"})
    assert (entry.command, entry.args) == ("/bin/run", ("$HOME", "80", "1", "y", "${}"))
    assert (entry.env, entry.problem, entry.shows) == (
        {"KEY": "a1b"},
        "",
        " ".join(["${BIN}/run", *raw["args"]]),
    )
    remote = {"url": "https://x.example/${A:-mcp}", "headers": {"Authorization": "Bearer ${TOKEN}"}}
    entry = read_entry("b", remote, "user", {"TOKEN": "t"})
    assert (entry.kind, entry.url, entry.headers) == (
        "http",
        "https://x.example/mcp",
        {"Authorization": "Bearer t"},
    )
    assert "TOKEN" in read_entry("b", remote, "user", {}).problem


@each_row(
    ("raw", "word"),
    [
        ({}, "command"),
        ({"command": " "}, "command"),
        ({"command": 5}, "command"),
        ({"type": "http"}, "url"),
        ({"type": "carrier-pigeon", "url": "x"}, "carrier-pigeon"),
        ({"command": "x", "args": "y"}, "args"),
        ({"command": "x", "env": ["A=b"]}, "env"),
        ({"url": "file:///etc/passwd"}, "is not an http:// or https:// URL"),
        ({"command": "${NOPE}"}, "NOPE"),
    ],
)
def test_an_entry_that_cannot_be_used_says_why(raw: dict[str, object], word: str) -> None:
    assert word in read_entry("a", raw, "user", {}).problem


def test_a_file_may_contain_the_servers_alone(tmp_path: Path) -> None:
    files = ServerFiles(
        folder=tmp_path, user_dir=tmp_path / "user", given=('{"b": {"url": "https://b.example"}}',)
    )
    files.path("project").write_text('{"a": {"command": "a-server"}}')
    assert [entry.name for entry in files.servers({}).entries] == ["a", "b"]
    assert store_entry(files.path("project"), "c", {"command": "c-server"}) is False
    assert list(json.loads(files.path("project").read_text())) == ["a", "c"]
    assert files.has("project", "c") and files.remove("project", "a") and not files.has("project", "a")


def test_what_is_shown_of_a_server_holds_no_secret() -> None:
    def shows(**raw: object) -> str:
        return read_entry("a", raw, "user", {"KEY": "k"}).shows

    assert shows(url="https://me:pass@x.example/mcp?key=abc&team=${KEY}#f") == (
        "https://…@x.example/mcp?key=…&team=${KEY}#f"
    )
    line = shows(command="npx", args=["-y", "server", "--key", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"])
    assert line == "npx -y server --key [GitHub token masked]"
    assert (shows(command="npx", args=5), shows(command="npx", args="-y")) == ("npx", "npx")
    headers = {"Authorization": "Bearer abcdef123456789", "X-Team": "blue"}
    masks = read_entry("a", {"url": "https://x.example", "headers": headers}, "user", {}).masks
    assert masks.values == ("abcdef123456789",)


def test_kinds_limits_and_remarks_are_read() -> None:
    def kind(**raw: object) -> str:
        return read_entry("a", {"url": "http://x", **raw}, "user", {}).kind

    assert [kind(), kind(type="streamable-http"), kind(type="sse"), kind(type="sdk")] == [
        "http",
        "http",
        "sse",
        "sdk",
    ]
    given = {"command": "x", "timeout": 1500, "alwaysLoad": True}
    entry = read_entry("a", given, "user", {})
    assert (entry.timeout_s, entry.always_load, entry.kind) == (1.5, True, "stdio")
    assert [read_entry("a", {**given, "timeout": bad}, "user", {}).timeout_s for bad in (999, "5", True)] == [
        None
    ] * 3
    assert "deprecated" in read_entry("a", {"type": "sse", "url": "http://x"}, "user", {}).remarks[0]
    raw = {"url": "http://x", "headersHelper": "get-token", "alwaysAllow": ["search"]}
    helper, always = read_entry("a", raw, "user", {}).remarks
    assert helper.startswith("headersHelper is ignored; ") and always.startswith("alwaysAllow is ignored; ")


def test_names_of_servers_and_tools_come_to_no_name_of_another() -> None:
    assert server_words(["a.b", "a_b", "c__d", "_e_", "ü"]) == {
        "a.b": server_words(["a.b", "a_b"])["a.b"],
        "a_b": "a_b",
        "c__d": "c_d",
        "_e_": "e",
        "ü": "server",
    }
    assert len(set(server_words(["a.b", "a_b", "a b"]).values())) == 3
    names = tool_names("s", ["x.y", "x_y", "z" * 200, "resources"], ["mcp__s__resources"])
    assert names["x_y"] == "mcp__s__x_y" and names["x.y"].startswith("mcp__s__x_y_")
    assert names["resources"] != "mcp__s__resources" and "z" * 200 not in names


def test_the_nearest_scope_counts_and_strict_leaves_only_the_flag(tmp_path: Path) -> None:
    user, folder = tmp_path / "user", tmp_path / "project"
    given = json.dumps({"mcpServers": {"a": {"command": "flag"}}})
    places = ServerFiles(folder, user, (given,))
    named: dict[FileScope, str] = {"local": "ab", "project": "abc", "user": "abcd"}
    for scope, names in named.items():
        for name in names:
            store_entry(places.path(scope), name, {"command": scope})
    found = [(each.name, each.command, each.scope) for each in places.servers({}).entries]
    assert found == [
        ("a", "flag", "flag"),
        ("b", "local", "local"),
        ("c", "project", "project"),
        ("d", "user", "user"),
    ]
    strict = ServerFiles(folder, user, (given,), strict=True)
    assert [each.name for each in strict.servers({}).entries] == ["a"]
    assert ServerFiles(folder, user, reads=()).servers({}).entries == ()


def test_a_file_that_cannot_be_read_costs_its_own_servers_only(tmp_path: Path) -> None:
    places = ServerFiles(tmp_path, tmp_path / "user")
    store_entry(places.path("user"), "a", {"command": "x"})
    places.path("project").write_text('{"mcpServers": [}')
    found = places.servers({})
    assert [each.name for each in found.entries] == ["a"]
    assert len(found.warnings) == 1 and ".mcp.json" in found.warnings[0]
    with pytest.raises(UsageError, match="mcpServers"):
        ServerFiles(tmp_path, tmp_path, ('{"mcpServers": 5}',)).servers({})
    with pytest.raises(UsageError, match="nothere"):
        ServerFiles(tmp_path, tmp_path, ("nothere.json",)).servers({})
    with pytest.raises(UsageError, match=r"mcp-config \{: not valid JSON"):
        ServerFiles(tmp_path, tmp_path, ("{",)).servers({})


def test_adding_and_removing_keeps_everything_else_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text(
        json.dumps({"$schema": "s", "mcpServers": {"b": {"command": "y", "unknown": [1]}}, "z": 1})
    )
    path.chmod(0o664)
    assert store_entry(path, "a", {"command": "x"}) is False
    assert store_entry(path, "a", {"command": "z"}) is True
    assert store_entry(path, "nope", None) is False
    data = json.loads(path.read_text())
    assert data == {
        "$schema": "s",
        "mcpServers": {"b": {"command": "y", "unknown": [1]}, "a": {"command": "z"}},
        "z": 1,
    }
    assert store_entry(path, "a", None) is True and path.stat().st_mode & 0o777 == 0o664
    path.write_text("{broken")
    with pytest.raises(UsageError, match="fix the file first"):
        store_entry(path, "a", {"command": "x"})
    assert path.read_text() == "{broken"
    private = tmp_path / "new" / "mcp.json"
    store_entry(private, "a", {"command": "x", "env": {"KEY": "secret"}})
    assert private.stat().st_mode & 0o777 == 0o600


def test_what_a_project_defines_is_shown_without_values_and_changes_with_every_byte(tmp_path: Path) -> None:
    raw = {"command": "run", "args": ["-x"], "env": {"KEY": "secret-value${TOKEN:-}"}}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"a": raw, "bad": {"env": 5}}}))
    first, odd = mcp_items(tmp_path, {})
    assert (first.name, first.shows) == ("a", "run -x (sets KEY) (uses your TOKEN)") and odd.name == "bad"
    assert "secret-value" not in first.shows and b"secret-value" in first.content
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"a": {**raw, "args": ["-y"]}}}))
    assert next(iter(mcp_items(tmp_path, {}))).content != first.content
    assert canonical_bytes({"b": 1, "a": 2}) == canonical_bytes({"a": 2, "b": 1})


def test_an_entry_may_name_the_directory_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text("1")
    raw = {"command": "python", "args": ["${CLAUDE_PROJECT_DIR}/serve.py"]}
    (tmp_path / ".mcp.json").write_text(json.dumps({"a": raw}))
    (entry,) = ServerFiles(tmp_path, tmp_path).servers({}).entries
    assert (entry.problem, entry.args) == ("", (f"{tmp_path}/serve.py",))
    (item,) = mcp_items(tmp_path, {})
    assert "uses your" not in item.shows
    (tmp_path / "serve.py").write_text("2")
    assert next(mcp_items(tmp_path, {})).content != item.content, "a changed program needs approval again"


def test_a_server_of_a_plugin_is_given_the_directories_of_plugin_and_project() -> None:
    """Its program may read them from its environment, and its entry may contain them."""
    raw = {"command": "${CLAUDE_PLUGIN_ROOT}/run", "env": {"PLACE": "${CLAUDE_PROJECT_DIR}/src"}}
    (entry,) = plugin_entries("tools", Path("/plugins/tools"), {"moon": raw}, {}, Path("/project"))
    assert (entry.name, entry.problem, entry.command) == ("plugin:tools:moon", "", "/plugins/tools/run")
    places = {"CLAUDE_PLUGIN_ROOT": "/plugins/tools", "CLAUDE_PROJECT_DIR": "/project"}
    assert entry.env == {**places, "PLACE": "/project/src"}


def test_two_sessions_that_add_servers_at_once_lose_none(tmp_path: Path) -> None:
    files = ServerFiles(tmp_path / "project", tmp_path / "user")
    path = files.path("local")
    path.parent.mkdir(parents=True)
    with locked(files.path("user")):  # as another session that is about to write
        other = threading.Thread(target=files.store, args=("local", "b", {"command": "b"}))
        other.start()
        other.join(0.2)
        path.write_text(json.dumps({"mcpServers": {"a": {"command": "a"}}}))
    other.join(5)
    assert files.raw_entries("local").keys() == {"a", "b"}
    (tmp_path / "user").rename(tmp_path / "away")
    (tmp_path / "user").write_text("no directory, so no lock")
    assert files.store("local", "a", {"command": "c"}) and files.remove("local", "b")
