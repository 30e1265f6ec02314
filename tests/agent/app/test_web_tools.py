import json
from pathlib import Path

from msgspec.structs import replace

from agent.app.config import load_config
from agent.app.options import Options
from agent.app.setup import RunSetup
from agent.app.web_tools import fetches_by_service, served_web_tools, serves_web_tools, web_tools
from agent.errors import FieldRejected
from agent.model.anthropic.request import NAMES, encode_request
from agent.model.error_mapping import map_error
from agent.model_port import ModelRequest, RequestSettings
from agent.permissions import WEB_TOOLS, PermissionRules, parse_rules
from tests.strict_api.models import MODELS
from tests.strict_api.request_checks import violations
from tests.tables import each_row
from transcripts.messages import TextBlock
from transcripts.view import Message, Part, PartKind


def rules(allow: str, deny: str = "") -> PermissionRules:
    return PermissionRules(allow=parse_rules(allow), deny=parse_rules(deny) if deny else ())


@each_row(
    ("allow", "deny", "expected"),
    [
        ("bash", "", {}),
        ("WebSearch", "", {"web_search": {}}),
        ("web_search", "web_search", {}),
        ("web_search", "web_search(ads.example)", {"web_search": {"blocked_domains": ["ads.example"]}}),
        (
            "WebFetch(domain:docs.python.org), WebFetch(b.example)",
            "WebFetch(b.example)",
            {"web_fetch": {"allowed_domains": ["docs.python.org"]}},
        ),
        ("web_fetch(b.example)", "web_fetch(b.example)", {}),
    ],
)
def test_a_rule_switches_a_tool_of_the_service_on_for_its_hosts(
    allow: str, deny: str, expected: dict[str, dict[str, list[str]]]
) -> None:
    found = {tool["name"]: tool for tool in web_tools(WEB_TOOLS, rules(allow, deny))}
    domains = {
        name: {key: tool[key] for key in tool if key.endswith("_domains")} for name, tool in found.items()
    }
    assert domains == expected


def test_the_strict_server_takes_their_definitions_and_a_server_without_them_is_spared() -> None:
    tools = ({"name": "bash", "description": "d", "input_schema": {"type": "object"}, "kind": "runs"},)
    offered = RequestSettings(
        "claude-sonnet-5-5", 100, tools=(*tools, *web_tools(WEB_TOOLS, rules("WebSearch, WebFetch")))
    )
    hello = Message("user", (Part(TextBlock("hi"), 1, 0, PartKind.USER, 1),), 1, 1)
    body = json.loads(encode_request(ModelRequest(offered, (hello,))))
    assert [tool["name"] for tool in body["tools"]] == ["bash", "web_search", "web_fetch"]
    assert violations(body, MODELS["claude-sonnet-5-5"]) == []
    refusal = {"type": "invalid_request_error", "message": "tools.1: web_search_20260318 is unknown"}
    error = map_error(400, json.dumps({"type": "error", "error": refusal}), {}, 0.0, NAMES)
    assert isinstance(error, FieldRejected) and error.feature == "web tools"
    assert offered.without("web tools").tools == tools


def test_only_the_service_itself_is_asked_for_them(tmp_path: Path) -> None:
    def serves(**environ: str) -> bool:
        config = load_config(environ, tmp_path, tmp_path)
        return serves_web_tools(RunSetup(Options(), config, tmp_path, environ))

    assert serves(ANTHROPIC_API_KEY="k")
    assert not serves(ANTHROPIC_API_KEY="k", ANTHROPIC_BASE_URL="http://localhost:1")
    assert not serves(
        CLAUDE_CODE_USE_FOUNDRY="1", ANTHROPIC_FOUNDRY_API_KEY="k", ANTHROPIC_FOUNDRY_RESOURCE="r"
    )
    assert not serves(MAKEROOM_PROVIDER="openai", OPENAI_API_KEY="k")


def test_pages_are_fetched_by_our_own_tool_unless_a_setting_leaves_that_to_the_service(
    tmp_path: Path,
) -> None:
    def setup(url: str = "", **entries: str) -> RunSetup:
        environ = {"ANTHROPIC_API_KEY": "k", **({"ANTHROPIC_BASE_URL": url} if url else {})}
        config = replace(load_config(environ, tmp_path, tmp_path), **entries)
        return RunSetup(Options(), config, tmp_path, environ)

    assert served_web_tools(setup()) == ("web_search",)
    assert served_web_tools(setup(web_fetch="service")) == WEB_TOOLS
    elsewhere = setup("http://localhost:1", web_fetch="service")
    assert served_web_tools(elsewhere) == () and not fetches_by_service(elsewhere)
