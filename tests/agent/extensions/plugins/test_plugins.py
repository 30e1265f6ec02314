"""Plugins that Claude Code has installed: which are found, what of them acts, and only after approval."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.extensions.plugins import Plugin, PluginPlaces, plugin_items
from agent.extensions.plugins.installed import NOT_INSTALLED
from agent.extensions.skills import StylePlaces
from agent.extensions.skills.files import Skill, read_plugin_skills
from tests.agent.commands.controller_run import ControllerRun, run_controller
from tests.tables import each_row

ID = "tools@market"
HOOK = {"hooks": [{"type": "command", "command": 'echo "by $CLAUDE_PLUGIN_ROOT"; exit 0'}]}


class Places:
    """A project, and a home with plugins."""

    def __init__(self, folder: Path) -> None:
        self.project = folder
        self.home = folder.parent / f"{folder.name}-home"
        self.claude = self.home / ".claude"
        self.plugins = self.claude / "plugins"
        self.root = self.plugins / "cache" / "market" / "tools" / "1.0"
        self.environ = {"HOME": str(self.home)}

    def write(self, path: Path, content: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))

    def install(self, **manifest: Any) -> None:
        """Install a plugin with one part of each kind, and enable it."""
        self.write(self.root / ".claude-plugin/plugin.json", {"name": "tools", "version": "1.0", **manifest})
        self.write(self.root / "commands/greet.md", "Say hello to $ARGUMENTS. See ${CLAUDE_PLUGIN_ROOT}/x.md")
        skill = "---\nname: digging\ndescription: Digs holes.\n---\nTake a spade."
        self.write(self.root / "skills/digging/SKILL.md", skill)
        agent = "---\nname: mole\ndescription: Digs tunnels.\n---\nYou dig. Read ${CLAUDE_PLUGIN_ROOT}/x.md"
        self.write(self.root / "agents/mole.md", agent)
        self.write(self.root / "hooks/hooks.json", {"hooks": {"UserPromptSubmit": [HOOK], "Brandnew": []}})
        self.write(self.root / ".mcp.json", {"moon": {"command": "${CLAUDE_PLUGIN_ROOT}/moon"}})
        record = {"scope": "user", "installPath": str(self.root), "version": "1.0"}
        self.write(self.plugins / "installed_plugins.json", {"version": 2, "plugins": {ID: [record]}})
        self.write(self.claude / "settings.json", {"enabledPlugins": {ID: True}})

    def found(self, *given: str) -> list[Plugin]:
        return PluginPlaces(self.project, self.environ, given=given).plugins()


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "project").mkdir()
    return Places(tmp_path.resolve() / "project")


def test_an_installed_plugin_is_found_with_all_its_parts(places: Places) -> None:
    places.install(lspServers={"go": {}})
    (plugin,) = places.found()
    assert (plugin.id, plugin.root, plugin.version, plugin.enabled) == (ID, places.root, "1.0", True)
    runs = 'runs echo "by $CLAUDE_PLUGIN_ROOT"; exit 0'
    assert plugin.contents == f"1 command, 1 skill, 1 agent, {runs}, MCP servers moon"
    assert [name for name, _ in plugin.ignored] == ["lspServers", "hooks.Brandnew"]
    (item,) = plugin_items(places.project, places.environ)
    assert (item.kind, item.name, item.everywhere) == ("plugin", ID, True)


def test_any_change_of_a_plugin_needs_approval_again(places: Places) -> None:
    places.install()
    before = places.found()[0].item.content
    assert places.found()[0].item.content == before
    seen = {before}
    for path in ("commands/greet.md", "skills/digging/SKILL.md", "agents/mole.md"):
        places.write(places.root / path, "other")
        seen.add(places.found()[0].item.content)
    places.write(places.root / "hooks/hooks.json", {"hooks": {"Stop": [HOOK]}})
    seen.add(places.found()[0].item.content)
    places.write(places.root / ".mcp.json", {"moon": {"command": "curl"}})
    seen.add(places.found()[0].item.content)
    assert len(seen) == 6


def test_a_part_behind_a_link_out_of_the_plugin_is_ignored(places: Places) -> None:
    """The first line of a command describes it to the model."""
    places.install()
    places.write(places.home / "key.md", "a key")
    (places.root / "commands/key.md").symlink_to(places.home / "key.md")
    (places.root / "agents/key.md").symlink_to("../../../../../../../key.md")
    (places.root / "commands/again.md").symlink_to("greet.md")
    (plugin,) = places.found()
    assert [path.name for path in plugin.commands] == ["again.md", "greet.md"]
    assert [path.name for path in plugin.agents] == ["mole.md"]
    why = "key.md is a link out of the plugin"
    assert [each for each in plugin.ignored if each[1] == why] == [("commands", why), ("agents", why)]


def test_the_most_specific_settings_enable_a_plugin_and_unknown_ones_are_reported(places: Places) -> None:
    places.install()
    local = {"enabledPlugins": {ID: False, "lost@market": True}}
    places.write(places.project / ".claude/settings.local.json", local)
    lost, tools = places.found()
    assert (lost.id, lost.problem) == ("lost@market", "not on this machine; install it with Claude Code")
    assert not tools.enabled and plugin_items(places.project, places.environ) == []
    elsewhere = PluginPlaces(places.project, places.environ, sources=("user",)).plugins()
    assert [plugin.enabled for plugin in elsewhere] == [True]
    assert PluginPlaces(places.project, places.environ, sources=()).plugins() == []


def test_an_entry_of_a_marketplace_can_replace_the_manifest(places: Places) -> None:
    places.install()
    entry = {
        "name": "tools",
        "source": "./",
        "strict": False,
        "skills": ["./skills/digging", "../../..", "./loop"],
    }
    market = places.home / "market"
    (places.root / "loop").symlink_to("loop")
    places.write(market / ".claude-plugin/marketplace.json", {"plugins": [entry]})
    known = {"market": {"installLocation": str(market)}}
    places.write(places.plugins / "known_marketplaces.json", known)
    (plugin,) = places.found()
    assert plugin.contents == "1 skill"
    not_here = ("'../../..' is not a path in the plugin", "'./loop' is not a path in the plugin")
    assert plugin.ignored == tuple(("skills", each) for each in not_here)


@each_row("source", ["./\0", "../.."])
def test_a_plugin_whose_places_lead_nowhere_is_not_on_this_machine(source: str, tmp_path: Path) -> None:
    places = Places(tmp_path)
    places.install()
    record = {"scope": "user", "installPath": "~no such user/tools"}
    places.write(places.plugins / "installed_plugins.json", {"plugins": {ID: [record]}})
    entry = {"name": "tools", "source": source}
    places.write(places.plugins / "marketplaces/market/.claude-plugin/marketplace.json", {"plugins": [entry]})
    (plugin,) = places.found("~no such user/other")[:1]
    assert plugin.problem == NOT_INSTALLED


def test_the_parts_of_a_manifest_are_loaded_or_named(places: Places) -> None:
    root = places.root
    commands = {
        "about": {"source": "./README.md", "description": "About this."},
        "hello": {"content": "Say hello."},
        "review": "./docs/review.md",
    }
    server = {"mars": {"command": "${CLAUDE_PLUGIN_ROOT}/mars"}}
    places.install(commands=commands, hooks={"Stop": [HOOK]}, mcpServers=server, outputStyles="./styles/")
    for path in (
        "README.md",
        "docs/review.md",
        "agents/deep/er/vole.md",
        "CLAUDE.md",
        "workflows/scan.js",
        "SKILL.md",
    ):
        places.write(root / path, "---\ndescription: Digs.\n---\nDig.")
    places.write(root / "output-styles/brief.md", "Be brief.")
    places.write(root / "rules/style.md", "Be tidy.")
    places.write(root / "styles/warm.md", "Be warm.")
    (plugin,) = places.found()
    assert [path.name for path in plugin.commands] == ["greet.md", "README.md", "review.md"]
    assert [path.name for path in plugin.agents] == ["mole.md", "vole.md"]
    assert [path.name for path in plugin.styles] == ["brief.md", "warm.md"]
    assert [entry.event for entry in plugin.hooks] == ["UserPromptSubmit", "Stop"]
    assert list(plugin.servers) == ["moon", "mars"]
    assert [name for name, _ in plugin.ignored] == [
        "workflows",
        "CLAUDE.md",
        "rules",
        "SKILL.md",
        "hooks.Brandnew",
        "commands.about.description",
        "commands.hello",
    ]
    names = {found.name for found in read_plugin_skills(plugin) if isinstance(found, Skill)}
    assert names == {"tools:greet", "tools:about", "tools:review", "tools:digging"}


def test_a_plugin_can_be_one_skill(places: Places) -> None:
    places.write(places.project.parent / "spade/SKILL.md", "---\nname: spade\ndescription: Digs.\n---\nDig.")
    (plugin,) = places.found(str(places.project.parent / "spade"))
    assert (plugin.name, plugin.contents) == ("spade", "1 skill")
    places.write(places.project.parent / "spade/.claude-plugin/plugin.json", {"name": "digger"})
    assert places.found(str(places.project.parent / "spade"))[0].name == "digger"


def test_an_approved_plugin_defines_output_styles(tmp_path: Path) -> None:
    places = Places(tmp_path)
    places.install()
    places.write(places.root / "output-styles/warm.md", "Be warm.")
    found = tuple(places.found())
    styles = StylePlaces(tmp_path, tmp_path / "ours", places.environ, plugins=found)
    assert styles.text("tools:warm") == styles.text("warm")
    assert "(output style tools:warm):\n\nBe warm." in styles.text("warm")
    with pytest.raises(ValueError, match="unknown output style"):
        replace(styles, plugins=()).text("warm")
    before = found[0].item.content
    places.write(places.root / "output-styles/warm.md", "Be cold.")
    assert places.found()[0].item.content != before


def test_a_damaged_plugin_and_one_in_the_project_are_not_used(places: Places) -> None:
    places.install()
    places.write(places.root / "hooks/hooks.json", "[]")
    assert places.found()[0].problem == "hooks.json: it does not contain a JSON object"
    inside = places.project / "vendor"
    places.write(inside / "commands/a.md", "a")
    listed = {ID: [{"installPath": str(inside)}]}
    places.write(places.plugins / "installed_plugins.json", {"version": 2, "plugins": listed})
    assert places.found()[0].problem == "in the project itself; use --plugin-dir to load it"
    _, given = places.found(str(inside))
    assert (given.id, given.problem, given.contents) == ("vendor", "", "1 command")


def test_a_plugin_acts_once_it_is_approved_and_until_it_is_disabled(tmp_path: Path) -> None:
    places = Places(tmp_path)
    places.install(lspServers={})
    (tmp_path / "src").mkdir()

    async def work(run: ControllerRun) -> None:
        services = run.controller.services
        assert services.skills.find("tools:greet") is None and services.active_plugins == []
        assert f"disabled  {ID}  1.0 · 1 command" in await run.do("/plugin")
        assert "Brandnew" not in await run.do("/doctor"), "nothing of it is shown before"
        assert f"enabled   {ID}" in await run.do("/plugin enable tools")
        assert "without effect: " in await run.do("/plugin")
        assert "hooks.Brandnew" in await run.do("/doctor")
        assert """UserPromptSubmit  *  echo "by $CLAUDE_PLUGIN_ROOT"; exit 0 """ in await run.do("/hooks")
        await run.do("/clear", "/tools:greet moles")
        sent = str(run.bodies()[0])
        assert f"Say hello to moles. See {places.root}/x.md" in sent and f"by {places.root}" in sent
        assert services.skills.find("greet") is services.skills.find("tools:greet")
        assert [skill.name for skill in services.skills.for_model()] == ["tools:digging"]
        assert services.agents["tools:mole"].prompt.endswith(f"Read {places.root}/x.md")
        assert "unknown argument 'enable'" in await run.do("/plugin enable")
        assert f"disabled  {ID}" in await run.do(f"/plugin disable {ID}")
        assert services.skills.find("greet") is None and "tools:mole" not in services.agents
        assert "no hooks" in await run.do("/hooks")

    run_controller(tmp_path, work, environ=places.environ)


def test_a_failed_hook_is_shown_as_written_with_its_plugin(tmp_path: Path) -> None:
    """Two plugins may have the same command line."""
    line = {"hooks": [{"type": "command", "command": '"$CLAUDE_PLUGIN_ROOT"/none'}]}
    roots = [tmp_path / name for name in ("one", "two")]
    for root in roots:
        Places(tmp_path).write(root / "hooks/hooks.json", {"hooks": {"UserPromptSubmit": [line]}})

    async def work(run: ControllerRun) -> None:
        told = await run.do("hello")
        for root in roots:
            hook = f"""the hook UserPromptSubmit ("$CLAUDE_PLUGIN_ROOT"/none) of the plugin in {root}"""
            assert f"{hook} could not be started" in told

    run_controller(tmp_path, work, plugin_dirs=tuple(map(str, roots)))


def test_the_servers_of_a_plugin_are_named_after_both(tmp_path: Path) -> None:
    places = Places(tmp_path)
    places.install()

    async def first(run: ControllerRun) -> None:
        assert "moon" not in await run.do("/mcp")
        await run.do("/trust all")

    async def second(run: ControllerRun) -> None:
        assert "plugin:tools:moon" in await run.do("/mcp")

    run_controller(tmp_path, first, environ=places.environ)
    run_controller(tmp_path, second, environ=places.environ)


def test_a_plugin_given_by_a_flag_needs_no_approval(tmp_path: Path) -> None:
    places = Places(tmp_path)
    places.write(tmp_path / "own/commands/greet.md", "Say hello.")

    async def work(run: ControllerRun) -> None:
        assert "enabled   own  1 command" in await run.do("/plugin")
        assert "own: loaded by --plugin-dir" in await run.do("/plugin disable own")
        assert run.controller.services.skills.find("own:greet") is not None

    run_controller(tmp_path, work, environ=places.environ, plugin_dirs=("own",))


def test_servers_that_are_not_objects_are_named(places: Places) -> None:
    places.install(mcpServers={"sun": "npx sun", "star": {"command": "star"}})
    places.write(places.root / ".mcp.json", {"$schema": "x", "mcpServers": [{"command": "moon"}]})
    (plugin,) = places.found()
    assert list(plugin.servers) == ["star"]
    assert plugin.ignored[1:] == (
        ("mcpServers", "it is not an object of servers"),
        ("mcpServers.sun", "it is not an object"),
    )


def test_plugins_that_are_not_installed_are_named_in_one_line_and_by_the_doctor(tmp_path: Path) -> None:
    places = Places(tmp_path)
    lost = [f"p{number}@market" for number in range(9)]
    places.write(tmp_path / ".claude/settings.json", {"enabledPlugins": dict.fromkeys(lost, True)})

    async def work(run: ControllerRun) -> None:
        line = ", ".join(f"the plugin {id}" for id in lost)
        assert f"without effect: {line} in {tmp_path}/.claude/settings.json (see /doctor)" in run.text()
        assert "not on this machine" not in run.text()
        assert "the plugin p8@market (not on this machine; install it" in await run.do("/doctor")
        assert "p8@market  not on this machine" in await run.do("/plugin")

    run_controller(tmp_path, work, environ=places.environ)
